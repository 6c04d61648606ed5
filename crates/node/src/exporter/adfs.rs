//! The names that the ADFS document gives to metrics, for chains that have such a contract.
//!
//! `adfs.txt` is the only place where the two vocabularies meet. A value that is counted under our
//! name is counted under theirs in the same instant, so the two never disagree.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata,
    Recorder, SharedString, Unit,
};

/// A line for each of their metrics: name, labels, our metric, and the projection whose values alone count,
/// where a chain may have several. A label is one of ours, or has a value that never changes. Values that
/// differ in other labels are added up. Counters only ever grow by increments.
const TABLE: &str = include_str!("adfs.txt");

static TWINS: LazyLock<Vec<Twin>> =
    LazyLock::new(|| TABLE.lines().filter_map(Twin::parse).collect());

/// Their name of something that we count.
struct Twin {
    theirs: &'static str,
    labels: &'static str,
    ours: &'static str,
    projection: Option<&'static str>,
    /// What one of our units is in theirs.
    scale: f64,
}

impl Twin {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let (theirs, labels, ours) = (words.next()?, words.next()?, words.next()?);
        let in_milliseconds = theirs.ends_with("_ms");
        Some(Self {
            theirs,
            labels,
            ours,
            projection: words.next(),
            scale: if in_milliseconds { 1e3 } else { 1.0 },
        })
    }

    fn help(&self) -> String {
        let mut help = self.ours.to_owned();
        if self.projection.is_some() {
            help.push_str(" of the ADFS projection");
        }
        if self.scale != 1.0 {
            help.push_str(", in milliseconds");
        }
        let fixed = self.labels.split(',').filter_map(|one| one.split_once('='));
        fixed.fold(help, |help, (name, value)| {
            format!("{help}; the {name} is always {value}")
        })
    }
}

/// Their names of a metric of ours, with help texts.
pub(super) fn described(ours: &str) -> impl Iterator<Item = (&'static str, String)> {
    let twins = TWINS.iter().filter(move |twin| twin.ours == ours);
    twins.map(|twin| (twin.theirs, twin.help()))
}

/// Counts under both names where a chain has both.
pub(crate) struct Mapped<R> {
    inner: R,
    /// Ids of the chains that have an ADFS contract.
    chains: HashSet<String>,
}

impl<R: Recorder> Mapped<R> {
    pub(crate) fn new(inner: R, chains: HashSet<String>) -> Self {
        Self { inner, chains }
    }

    /// Under which of their keys a key of ours is counted too.
    fn twins(&self, key: &Key) -> Vec<(Key, f64)> {
        let label = |name: &str| key.labels().find(|label| label.key() == name);
        if !label("chain").is_some_and(|chain| self.chains.contains(chain.value())) {
            return Vec::new();
        }
        let projection = label("projection").map(Label::value);
        let same = TWINS.iter().filter(|twin| twin.ours == key.name());
        let same = same.filter(|twin| twin.projection.is_none() || twin.projection == projection);
        let theirs = same.map(|twin| {
            let labels = twin.labels.split(',');
            let labels = labels.filter_map(|name| match name.split_once('=') {
                Some((name, value)) => Some(Label::new(name, value)),
                None => label(name).cloned(),
            });
            let labels: Vec<Label> = labels.collect();
            (Key::from_parts(twin.theirs, labels), twin.scale)
        });
        theirs.collect()
    }

    /// The handle of a key of ours, joined with theirs where there are any.
    fn all<T>(
        &self,
        key: &Key,
        register: impl Fn(&Key) -> T,
        join: impl FnOnce(Arc<All<T>>) -> T,
    ) -> T {
        let theirs = self.twins(key);
        if theirs.is_empty() {
            return register(key);
        }
        let theirs = theirs.iter().map(|(key, scale)| (register(key), *scale));
        join(Arc::new(All(theirs
            .chain([(register(key), 1.0)])
            .collect())))
    }
}

impl<R: Recorder> Recorder for Mapped<R> {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.inner.describe_counter(key, unit, help);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.inner.describe_gauge(key, unit, help);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.inner.describe_histogram(key, unit, help);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let register = |key: &Key| self.inner.register_counter(key, metadata);
        self.all(key, register, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let register = |key: &Key| self.inner.register_gauge(key, metadata);
        self.all(key, register, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let register = |key: &Key| self.inner.register_histogram(key, metadata);
        self.all(key, register, Histogram::from_arc)
    }
}

/// Several handles that are used as one, each with the scale of its unit.
struct All<T>(Vec<(T, f64)>);

impl CounterFn for All<Counter> {
    fn increment(&self, value: u64) {
        self.0.iter().for_each(|(one, _)| one.increment(value));
    }

    fn absolute(&self, value: u64) {
        self.0.iter().for_each(|(one, _)| one.absolute(value));
    }
}

impl GaugeFn for All<Gauge> {
    fn increment(&self, value: f64) {
        self.0.iter().for_each(|(one, _)| one.increment(value));
    }

    fn decrement(&self, value: f64) {
        self.0.iter().for_each(|(one, _)| one.decrement(value));
    }

    fn set(&self, value: f64) {
        self.0.iter().for_each(|(one, _)| one.set(value));
    }
}

impl HistogramFn for All<Histogram> {
    fn record(&self, value: f64) {
        let record = |(one, scale): &(Histogram, f64)| one.record(value * scale);
        self.0.iter().for_each(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

    #[test]
    fn both_names_count_the_same_and_only_for_chains_with_a_contract() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let mapped = Mapped::new(recorder, HashSet::from(["1".to_owned()]));
        metrics::with_local_recorder(&mapped, || {
            for (chain, endpoint) in [("1", "a"), ("1", "b"), ("2", "a")] {
                metrics::counter!(
                    "chronolith_rpc_requests_total", "chain" => chain, "endpoint" => endpoint,
                    "method" => "eth_x", "outcome" => "success"
                )
                .increment(3);
                metrics::histogram!(
                    "chronolith_rpc_latency_seconds", "chain" => chain, "endpoint" => endpoint,
                    "method" => "eth_x"
                )
                .record(0.25);
                metrics::gauge!("chronolith_lag_blocks", "chain" => chain).set(7.0);
                metrics::counter!("chronolith_reorgs_total", "chain" => chain).increment(1);
            }
        });
        let shown = handle.render();
        for line in [
            r#"chronolith_rpc_requests_total{chain="1",endpoint="a",method="eth_x",outcome="success"} 3"#,
            r#"chronolith_rpc_requests_total{chain="2",endpoint="a",method="eth_x",outcome="success"} 3"#,
            r#"adfs_indexer_rpc_requests_total{chain="1",method="eth_x",outcome="success"} 6"#,
            r#"adfs_indexer_rpc_latency_ms_sum{chain="1",method="eth_x"} 500"#,
            r#"adfs_indexer_events_lag_blocks{chain="1"} 7"#,
            r#"adfs_indexer_reorgs_total{chain="1",status="dropped"} 2"#,
        ] {
            assert!(shown.contains(line), "no {line} in\n{shown}");
        }
        let other = |line: &&str| line.starts_with("adfs_") && line.contains(r#"chain="2""#);
        assert_eq!(shown.lines().find(other), None);
    }

    /// A chain may have other projections beside theirs; values of those are not theirs.
    #[test]
    fn only_their_projection_is_counted_under_their_names() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let mapped = Mapped::new(recorder, HashSet::from(["1".to_owned()]));
        metrics::with_local_recorder(&mapped, || {
            for (projection, events) in [("adfs", 3), ("fees", 500)] {
                metrics::counter!(
                    "chronolith_projection_events_total", "chain" => "1",
                    "projection" => projection, "status" => "pending"
                )
                .increment(events);
                metrics::counter!(
                    "chronolith_projection_guard_dropped_total", "chain" => "1",
                    "projection" => projection, "reason" => "malformed"
                )
                .increment(events + 1);
                metrics::histogram!(
                    "chronolith_database_latency_seconds", "chain" => "1",
                    "projection" => projection, "op" => "insert"
                )
                .record(0.5 * events as f64);
            }
        });
        let shown = handle.render();
        for line in [
            r#"adfs_indexer_events_processed_total{chain="1",status="pending"} 3"#,
            r#"chronolith_projection_events_total{chain="1",projection="fees",status="pending"} 500"#,
            r#"adfs_indexer_db_latency_ms_sum{chain="1",op="insert"} 1500"#,
            r#"adfs_indexer_guard_dropped_total{chain="1",reason="malformed"} 4"#,
        ] {
            assert!(shown.contains(line), "no {line} in\n{shown}");
        }
    }

    #[test]
    fn every_name_is_described() {
        assert_eq!(TWINS.len(), TABLE.lines().count());
        for twin in &*TWINS {
            for name in [twin.theirs, twin.ours] {
                assert!(super::super::catalog::has(name), "{name}");
            }
        }
    }
}

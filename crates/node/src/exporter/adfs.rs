//! The names that the ADFS document gives to metrics, for chains that have such a contract.
//!
//! [`TWINS`] is the only place where the two vocabularies meet. A value that is counted under our
//! name is counted under theirs in the same instant, so the two never disagree.

use std::collections::HashSet;
use std::sync::Arc;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata,
    Recorder, SharedString, Unit,
};

/// Their name of something that we count.
struct Twin {
    theirs: &'static str,
    ours: &'static str,
    /// Our labels that they have too; values that differ in others are added up.
    labels: &'static [&'static str],
    /// A label that they have beside ours.
    extra: Option<(&'static str, &'static str)>,
    /// The projection whose values alone they count; any where there is none.
    projection: Option<&'static str>,
    /// What one of our units is in theirs.
    scale: f64,
}

const fn twin(theirs: &'static str, ours: &'static str) -> Twin {
    Twin {
        theirs,
        ours,
        labels: &["chain"],
        extra: None,
        projection: None,
        scale: 1.0,
    }
}

/// Of several projections of a chain, theirs is one.
const fn of_adfs(
    theirs: &'static str,
    ours: &'static str,
    labels: &'static [&'static str],
) -> Twin {
    Twin {
        labels,
        projection: Some("adfs"),
        ..twin(theirs, ours)
    }
}

/// Their names and ours. Counters among them only ever grow by increments.
const TWINS: &[Twin] = &[
    twin("adfs_indexer_events_lag_blocks", "chronolith_lag_blocks"),
    twin(
        "adfs_indexer_finality_lag_blocks",
        "chronolith_finality_lag_blocks",
    ),
    Twin {
        labels: &["chain", "method", "outcome"],
        ..twin(
            "adfs_indexer_rpc_requests_total",
            "chronolith_rpc_requests_total",
        )
    },
    twin(
        "adfs_indexer_rpc_errors_total",
        "chronolith_rpc_errors_total",
    ),
    Twin {
        labels: &["chain", "method"],
        scale: 1e3,
        ..twin(
            "adfs_indexer_rpc_latency_ms",
            "chronolith_rpc_latency_seconds",
        )
    },
    twin(
        "adfs_indexer_bytes_ingested_total",
        "chronolith_received_bytes_total",
    ),
    twin(
        "adfs_indexer_backfill_progress",
        "chronolith_backfill_progress",
    ),
    twin("adfs_indexer_queue_depth", "chronolith_tail_blocks"),
    twin(
        "adfs_indexer_out_of_order_wait_seconds",
        "chronolith_gap_wait_seconds",
    ),
    Twin {
        extra: Some(("status", "dropped")),
        ..twin("adfs_indexer_reorgs_total", "chronolith_reorgs_total")
    },
    twin(
        "adfs_indexer_queue_overflow_total",
        "chronolith_tail_full_total",
    ),
    of_adfs(
        "adfs_indexer_events_processed_total",
        "chronolith_projection_events_total",
        &["chain", "status"],
    ),
    of_adfs(
        "adfs_indexer_version_paused",
        "chronolith_projection_version_paused",
        &["chain"],
    ),
    of_adfs(
        "adfs_indexer_guard_dropped_total",
        "chronolith_projection_guard_dropped_total",
        &["chain", "reason"],
    ),
    of_adfs(
        "adfs_indexer_queue_overflow_backfill_height",
        "chronolith_projection_overflow_backfill_height",
        &["chain"],
    ),
    of_adfs(
        "adfs_indexer_finality_lock_contention_total",
        "chronolith_projection_lock_contention_total",
        &["chain"],
    ),
    of_adfs(
        "adfs_indexer_lock_age_seconds",
        "chronolith_projection_lock_age_seconds",
        &["chain", "lock"],
    ),
    of_adfs(
        "adfs_indexer_db_ops_total",
        "chronolith_database_ops_total",
        &["chain", "op", "outcome"],
    ),
    Twin {
        scale: 1e3,
        ..of_adfs(
            "adfs_indexer_db_latency_ms",
            "chronolith_database_latency_seconds",
            &["chain", "op"],
        )
    },
];

/// Their names of a metric of ours, with help texts.
pub(super) fn described(ours: &str) -> impl Iterator<Item = (&'static str, String)> {
    let twins = TWINS.iter().filter(move |twin| twin.ours == ours);
    twins.map(|twin| {
        let mut help = twin.ours.to_owned();
        if twin.projection.is_some() {
            help.push_str(" of the ADFS projection");
        }
        if twin.scale != 1.0 {
            help.push_str(", in milliseconds");
        }
        if let Some((name, value)) = twin.extra {
            help = format!("{help}; the {name} is always {value}");
        }
        (twin.theirs, help)
    })
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
            let labels = twin.labels.iter().filter_map(|name| label(name).cloned());
            let extra = twin.extra.map(|(name, value)| Label::new(name, value));
            let labels: Vec<Label> = labels.chain(extra).collect();
            (Key::from_parts(twin.theirs, labels), twin.scale)
        });
        theirs.collect()
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
        let ours = self.inner.register_counter(key, metadata);
        let twins = self.twins(key);
        if twins.is_empty() {
            return ours;
        }
        let register = |(key, _): &(Key, f64)| self.inner.register_counter(key, metadata);
        let theirs = twins.iter().map(register);
        Counter::from_arc(Arc::new(All(theirs.chain([ours]).collect())))
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let ours = self.inner.register_gauge(key, metadata);
        let twins = self.twins(key);
        if twins.is_empty() {
            return ours;
        }
        let register = |(key, _): &(Key, f64)| self.inner.register_gauge(key, metadata);
        let theirs = twins.iter().map(register);
        Gauge::from_arc(Arc::new(All(theirs.chain([ours]).collect())))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let ours = self.inner.register_histogram(key, metadata);
        let twins = self.twins(key);
        if twins.is_empty() {
            return ours;
        }
        let register =
            |(key, scale): &(Key, f64)| (self.inner.register_histogram(key, metadata), *scale);
        let theirs = twins.iter().map(register);
        Histogram::from_arc(Arc::new(All(theirs.chain([(ours, 1.0)]).collect())))
    }
}

/// Several handles that are used as one.
struct All<T>(Vec<T>);

impl CounterFn for All<Counter> {
    fn increment(&self, value: u64) {
        self.0.iter().for_each(|one| one.increment(value));
    }

    fn absolute(&self, value: u64) {
        self.0.iter().for_each(|one| one.absolute(value));
    }
}

impl GaugeFn for All<Gauge> {
    fn increment(&self, value: f64) {
        self.0.iter().for_each(|one| one.increment(value));
    }

    fn decrement(&self, value: f64) {
        self.0.iter().for_each(|one| one.decrement(value));
    }

    fn set(&self, value: f64) {
        self.0.iter().for_each(|one| one.set(value));
    }
}

impl HistogramFn for All<(Histogram, f64)> {
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
        for twin in TWINS {
            for name in [twin.theirs, twin.ours] {
                assert!(super::super::catalog::has(name), "{name}");
            }
        }
    }
}

//! Prometheus metrics. `docs/metrics.md` lists every one.

mod adfs;
mod alerts;
mod catalog;
mod observed;
mod process;
mod projected;

use anyhow::{Context as _, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::settings::Settings;

pub(crate) use observed::observe;
pub(crate) use projected::observe_projections;

const SECONDS: &[f64] = &[
    0.000_01, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0, 300.0, 3_600.0,
];
const MILLISECONDS: &[f64] = &[
    1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0,
];
const BLOCKS: &[f64] = &[
    1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1_024.0, 10_000.0, 100_000.0,
];
const BYTES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 4e6, 16e6, 64e6, 256e6, 1e9, 4e9, 16e9];
const COUNTS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// Installs the recorder. Must run before anything counts.
pub(crate) fn start(settings: &Settings) -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new().set_buckets(SECONDS)?;
    for (suffix, buckets) in [
        ("_ms", MILLISECONDS),
        ("_blocks", BLOCKS),
        ("_bytes", BYTES),
        ("_candidates", COUNTS),
        ("_logs", COUNTS),
    ] {
        builder = builder.set_buckets_for_metric(Matcher::Suffix(suffix.to_owned()), buckets)?;
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    let with_adfs = settings.chains.iter().filter(|chain| chain.adfs.is_some());
    let with_adfs = with_adfs.map(|chain| chain.chain_id.to_string());
    let recorder = adfs::Mapped::new(recorder, with_adfs.collect());
    metrics::set_global_recorder(recorder).context("start the metrics")?;
    catalog::describe();
    process::note_start();
    settings.chains.iter().for_each(alerts::show);
    Ok(handle)
}

//! Thresholds of alerts. The program only exports them: the rules of alerts compare with them.

use anyhow::{Result, ensure};

use super::raw::{RawAlerts, RawSettings};

/// Thresholds of one chain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct AlertSettings {
    /// Silence of a contract.
    pub(crate) no_events_seconds: u64,
    /// Blocks below the head.
    pub(crate) max_lag_blocks: u64,
    /// Blocks from the newest final one to the head.
    pub(crate) max_finality_lag_blocks: u64,
    /// Time without heads over WebSocket.
    pub(crate) ws_down_seconds: u64,
    /// Failed calls as a part of all, above 0 and at most 1.
    pub(crate) rpc_error_ratio: f64,
    /// Time that a lock of the database may be held.
    pub(crate) lock_age_seconds: u64,
    /// Items of a queue that is full.
    pub(crate) queue_max_items: u64,
    /// Time that a block may be missing.
    pub(crate) out_of_order_wait_max_ms: u64,
}

/// Thresholds of the service, which a chain may override.
pub(super) fn of_service(raw: &RawSettings) -> Result<AlertSettings> {
    // Of two spellings the one that is named first in the documents counts.
    let items = raw.service.queue_max_items.or(raw.queue.max_items);
    let items = items.unwrap_or(10_000);
    let wait_ms = raw.service.ordering.max_out_of_order_wait_ms;
    let wait_ms = wait_ms.unwrap_or(1_000);
    Ok(AlertSettings {
        no_events_seconds: 300,
        max_lag_blocks: 64,
        max_finality_lag_blocks: 64,
        ws_down_seconds: 600,
        rpc_error_ratio: 0.02,
        lock_age_seconds: 300,
        queue_max_items: positive("service.queueMaxItems", items as u64)?,
        out_of_order_wait_max_ms: positive("service.ordering.maxOutOfOrderWaitMs", wait_ms)?,
    })
}

/// Thresholds of a chain over those of the service.
pub(super) fn of_chain(raw: Option<&RawAlerts>, service: AlertSettings) -> Result<AlertSettings> {
    let Some(raw) = raw else { return Ok(service) };
    let ratio = raw.rpc_error_ratio.unwrap_or(service.rpc_error_ratio);
    ensure!(
        ratio > 0.0 && ratio <= 1.0,
        "alertsConfig.rpcErrorRatio: {ratio} is not above 0 and at most 1"
    );
    let lag = raw.max_lag_blocks.unwrap_or(service.max_lag_blocks);
    let alerts = AlertSettings {
        no_events_seconds: raw.no_events_seconds.unwrap_or(service.no_events_seconds),
        max_lag_blocks: lag,
        max_finality_lag_blocks: raw.max_finality_lag_blocks.unwrap_or(lag),
        ws_down_seconds: raw.ws_down_seconds.unwrap_or(service.ws_down_seconds),
        rpc_error_ratio: ratio,
        lock_age_seconds: raw.lock_age_seconds.unwrap_or(service.lock_age_seconds),
        ..service
    };
    positive("alertsConfig.noEventsSeconds", alerts.no_events_seconds)?;
    positive("alertsConfig.wsDownSeconds", alerts.ws_down_seconds)?;
    positive("alertsConfig.lockAgeSeconds", alerts.lock_age_seconds)?;
    Ok(alerts)
}

/// A threshold of 0 would be an alert that never ends.
fn positive(name: &str, value: u64) -> Result<u64> {
    ensure!(value > 0, "{name}: 0 would always be exceeded");
    Ok(value)
}

//! Thresholds of alerts as gauges: the rules of alerts read them, so that one file of rules serves all chains.

use metrics::gauge;

use crate::settings::ChainSettings;

/// Shows the thresholds of a chain. They are read once, at the start, and never change after.
pub(super) fn show(chain: &ChainSettings) {
    let id = chain.chain_id.to_string();
    let of = |name: &'static str| gauge!(name, "chain" => id.clone());
    let alerts = &chain.alerts;
    of("chronolith_alert_no_events_seconds").set(alerts.no_events_seconds as f64);
    of("chronolith_alert_max_lag_blocks").set(alerts.max_lag_blocks as f64);
    of("chronolith_alert_max_finality_lag_blocks").set(alerts.max_finality_lag_blocks as f64);
    of("chronolith_alert_queue_max_items").set(alerts.queue_max_items as f64);
    of("chronolith_alert_out_of_order_wait_max_seconds")
        .set(alerts.out_of_order_wait_max_ms as f64 / 1e3);
    of("chronolith_alert_ws_down_seconds").set(alerts.ws_down_seconds as f64);
    of("chronolith_alert_rpc_error_ratio").set(alerts.rpc_error_ratio);
    of("chronolith_alert_lock_age_seconds").set(alerts.lock_age_seconds as f64);
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::settings::Settings;

    /// What is shown of two chains with settings of their own.
    fn shown() -> String {
        let file = r#"{ "service": { "queueMaxItems": 500, "ordering": { "maxOutOfOrderWaitMs": 250 } },
            "chains": [
                { "chainId": 1, "rpcHttp": ["http://a"], "alertsConfig": { "noEventsSeconds": 60,
                  "maxLagBlocks": 5, "maxFinalityLagBlocks": 90, "wsDownSeconds": 30,
                  "rpcErrorRatio": 0.5, "lockAgeSeconds": 20 } },
                { "chainId": 2, "rpcHttp": ["http://a"], "alertsConfig": { "maxLagBlocks": 7 } } ] }"#;
        let settings = Settings::parse(file, false).unwrap();
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || settings.chains.iter().for_each(show));
        handle.render()
    }

    #[test]
    fn every_chain_shows_its_own_thresholds() {
        let shown = shown();
        for (name, first, second) in [
            ("no_events_seconds", "60", "300"),
            ("max_lag_blocks", "5", "7"),
            ("max_finality_lag_blocks", "90", "7"),
            ("queue_max_items", "500", "500"),
            ("out_of_order_wait_max_seconds", "0.25", "0.25"),
            ("ws_down_seconds", "30", "600"),
            ("rpc_error_ratio", "0.5", "0.02"),
            ("lock_age_seconds", "20", "300"),
        ] {
            for (chain, value) in [("1", first), ("2", second)] {
                let line = format!(r#"chronolith_alert_{name}{{chain="{chain}"}} {value}"#);
                assert!(shown.lines().any(|found| found == line), "{line}\n{shown}");
            }
        }
    }
}

//! Gauges that are set when metrics are scraped: the state of chains and endpoints at that instant.

use std::path::Path;
use std::sync::Arc;

use chronolith_archive::{Health, RangeState};
use chronolith_follower::chain::Chain;
use chronolith_follower::clock::now;
use chronolith_model::{DatasetSet, Verification};
use chronolith_serve::health::{ChainHealth, ConnectionState};
use chronolith_source::Subscription;
use metrics::{counter, gauge};

use super::process;
use crate::running::RunningChain;

/// Sets every gauge to the current value.
pub(crate) fn observe(chains: &[Arc<RunningChain>], health: &[ChainHealth], data_dir: &Path) {
    process::observe(data_dir);
    health.iter().for_each(of_health);
    for chain in chains {
        of_chain(chain);
        of_ranges(chain);
        of_endpoints(chain);
    }
}

fn of_health(health: &ChainHealth) {
    let chain = health.chain.to_string();
    let of = |name: &'static str| gauge!(name, "chain" => chain.clone());
    let number = |value: Option<u64>| value.map_or(f64::NAN, |value| value as f64);
    let flag = |value: bool| f64::from(u8::from(value));
    let (seen, safe) = (health.last_seen_block, health.last_safe_block);
    of("chronolith_source_head_block").set(number(seen));
    of("chronolith_finalized_block").set(number(safe));
    of("chronolith_archived_block").set(number(health.last_backfill_block));
    of("chronolith_lag_blocks").set(number(health.lag_blocks));
    let unsettled = seen.zip(safe).map(|(seen, safe)| seen.saturating_sub(safe));
    of("chronolith_finality_lag_blocks").set(number(unsettled));
    let archived = health.last_backfill_block.map_or(0.0, |block| block as f64);
    let progress = seen.map_or(f64::NAN, |seen| archived / (seen as f64).max(1.0));
    of("chronolith_backfill_progress").set(progress.min(1.0));
    of("chronolith_tail_blocks").set(health.queue_depth as f64);
    of("chronolith_halted").set(flag(health.halted));
    of("chronolith_ready").set(flag(health.is_ready()));
    // Renamed metrics keep their old names for one release.
    for name in ["chronolith_degraded", "chronolith_in_trouble"] {
        of(name).set(flag(health.error.is_some()));
    }
    for name in [
        "chronolith_last_success_age_seconds",
        "chronolith_last_good_round_age_seconds",
    ] {
        of(name).set(number(health.last_success_seconds));
    }
    if health.rpc.ws != ConnectionState::Off {
        of("chronolith_head_subscription_up").set(flag(health.rpc.ws == ConnectionState::Healthy));
    }
}

fn of_chain(chain: &Chain) {
    let id = chain.settings.chain_id.to_string();
    let of = |name: &'static str| gauge!(name, "chain" => id.clone());
    let report = chain.archive.health();
    let throttled = matches!(report.health, Health::Throttled(_));
    of("chronolith_throttled").set(f64::from(u8::from(throttled)));
    let held = chain.agreement.held().is_some();
    of("chronolith_archiving_held").set(f64::from(u8::from(held)));
    of("chronolith_archive_stored_bytes").set(report.stored_bytes as f64);
    let stalled = chain.window().tracker.stalled(now()).is_some();
    of("chronolith_finality_stalled").set(f64::from(u8::from(stalled)));
    let down = match chain.source.subscription() {
        Subscription::Off => None,
        Subscription::Connecting(down) => Some(down.as_secs_f64()),
        Subscription::Connected => Some(0.0),
    };
    if let Some(down) = down {
        of("chronolith_head_subscription_down_seconds").set(down);
    }
    // Every block has a clock, so these are all of them.
    let covered = chain.archive.coverage(DatasetSet::CLOCK, None).into_iter();
    let unproven = covered.filter(|(_, proof)| proof.logs() <= Verification::Linked);
    let unproven: u64 = unproven.map(|(range, _)| range.len()).sum();
    of("chronolith_unverified_blocks").set(unproven as f64);
}

fn of_ranges(chain: &Chain) {
    let Some(ranges) = chain.maintenance.ranges() else {
        return;
    };
    let states = [
        RangeState::Pending,
        RangeState::Ingesting,
        RangeState::Transitioning,
        RangeState::Complete,
        RangeState::Failed,
    ];
    for state in states {
        let of_state = ranges.all.iter().filter(|range| range.state == state);
        let count = of_state.count();
        let (chain, state) = (chain.settings.chain_id.to_string(), state.name());
        gauge!("chronolith_ranges", "chain" => chain, "state" => state).set(count as f64);
    }
}

fn of_endpoints(chain: &Chain) {
    let id = chain.settings.chain_id.to_string();
    for endpoint in chain.source.endpoints() {
        let counted = |name: &'static str| {
            let (chain, endpoint) = (id.clone(), endpoint.name.clone());
            counter!(name, "chain" => chain, "endpoint" => endpoint)
        };
        counted("chronolith_endpoint_requests_total").absolute(endpoint.requests);
        counted("chronolith_endpoint_failures_total").absolute(endpoint.failures);
        for name in [
            "chronolith_endpoint_inconsistencies_total",
            "chronolith_endpoint_lies_total",
        ] {
            counted(name).absolute(endpoint.inconsistencies);
        }
        let up = f64::from(u8::from(!endpoint.backing_off));
        let (chain, name) = (id.clone(), endpoint.name);
        gauge!("chronolith_endpoint_up", "chain" => chain, "endpoint" => name).set(up);
    }
}

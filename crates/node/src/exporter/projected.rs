//! Gauges of projections, from the database.

use chronolith_projection::leases::LeaseReport;
use chronolith_projection::{ChainState, ProjectionState};
use metrics::gauge;

/// Sets the gauges of projections to what is the case now; none where the database does not answer.
pub(crate) fn observe_projections(seen: Option<(&[ChainState], &[LeaseReport])>) {
    gauge!("chronolith_database_up").set(f64::from(u8::from(seen.is_some())));
    let Some((states, held)) = seen else {
        return;
    };
    for chain in states {
        let id = chain.chain_id.to_string();
        let held = held.iter().filter(|lease| lease.chain_id == chain.chain_id);
        for one in &chain.projections {
            observe_one(&id, one);
            for lease in held.clone() {
                let age = lease.holder.as_ref().map_or(0.0, |_| lease.renewed_seconds);
                gauge!("chronolith_projection_lock_age_seconds", "chain" => id.clone(), "projection" => one.projection.clone(), "lock" => lease.kind.clone())
                    .set(age);
            }
        }
    }
}

fn observe_one(id: &str, one: &ProjectionState) {
    let of = |name: &'static str| gauge!(name, "chain" => id.to_owned(), "projection" => one.projection.clone());
    let paused = one.paused_reason.as_deref();
    let version = matches!(paused, Some("unknownImplementation" | "bytecode"));
    of("chronolith_projection_paused").set(f64::from(u8::from(paused.is_some())));
    of("chronolith_projection_version_paused").set(f64::from(u8::from(version)));
    // Each is shown, also where no job has it.
    for (status, count) in [
        ("pending", one.waiting_jobs),
        ("processing", one.running_jobs),
        ("failed", one.failed_jobs),
        ("dead", one.dead_jobs),
    ] {
        gauge!("chronolith_projection_jobs", "chain" => id.to_owned(), "projection" => one.projection.clone(), "state" => status)
            .set(count as f64);
    }
}

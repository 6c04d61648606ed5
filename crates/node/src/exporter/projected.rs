//! How projections do at this instant, out of the database.

use chronolith_projection::{Database, Error, jobs, leases, state};
use metrics::gauge;

/// States of a job; each is shown, also where no job has it.
const STATES: [&str; 4] = ["pending", "processing", "failed", "dead"];

/// Sets the gauges of projections to what is the case now.
pub(crate) async fn observe_projections(database: &Database) {
    let looked = look(database).await;
    gauge!("chronolith_database_up").set(f64::from(u8::from(looked.is_ok())));
    if let Err(error) = looked {
        tracing::debug!(%error, "projections could not be looked at");
    }
}

async fn look(database: &Database) -> Result<(), Error> {
    let states = state(database, None).await?;
    let jobs = jobs::list(database, None).await?;
    let held = leases::list(database, None).await?;
    for chain in &states {
        let id = chain.chain_id.to_string();
        for one in &chain.projections {
            let of = |name: &'static str| gauge!(name, "chain" => id.clone(), "projection" => one.projection.clone());
            let paused = one.paused_reason.as_deref();
            let version = matches!(paused, Some("unknownImplementation" | "bytecode"));
            of("chronolith_projection_paused").set(f64::from(u8::from(paused.is_some())));
            of("chronolith_projection_version_paused").set(f64::from(u8::from(version)));
            for status in STATES {
                let count = jobs.iter().filter(|job| {
                    job.chain_id == chain.chain_id
                        && job.projection == one.projection
                        && job.status == status
                });
                gauge!("chronolith_projection_jobs", "chain" => id.clone(), "projection" => one.projection.clone(), "state" => status)
                    .set(count.count() as f64);
            }
            for lease in held.iter().filter(|lease| lease.chain_id == chain.chain_id) {
                let age = lease.holder.as_ref().map_or(0.0, |_| lease.renewed_seconds);
                gauge!("chronolith_projection_lock_age_seconds", "chain" => id.clone(), "projection" => one.projection.clone(), "lock" => lease.kind.clone())
                    .set(age);
            }
        }
    }
    Ok(())
}

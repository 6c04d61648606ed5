//! `START_POINT` is where the first run begins. Later ones go on where the rows of the database do.
//!
//! This is for the start, so that the archive begins where the rows do. Where the database does not answer then, its
//! start counts from the first registration on.

use anyhow::Result;
use chronolith_projection::{Database, Error, recorded_settings};
use chronolith_projection_fees::recorded_start;

use crate::settings::{Origin, Settings};

/// The projection of a collector.
const FEES: &str = "fees";

/// The settings of a collector with the start of its first run, if it ran before. Other settings are not changed: a
/// `startBlock` that was changed in a file is an error, so that rows are not left out unnoticed.
pub(crate) async fn of_first_run(
    settings: &Settings,
    database: Option<&Database>,
) -> Result<Settings> {
    let mut settings = settings.clone();
    let Some(database) = database.filter(|_| settings.origin == Origin::Collector) else {
        return Ok(settings);
    };
    for chain in &mut settings.chains {
        let recorded = match recorded_settings(database, chain.chain_id, FEES).await {
            Ok(recorded) => recorded.unwrap_or_default(),
            // Its tables are not set up yet, or it does not answer: registration reports that, and has the start.
            Err(Error::Schema { .. } | Error::Unavailable { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let wanted = chain.follow.start_block;
        let mut first = None;
        for contract in chain.fees.iter_mut().flat_map(|fees| &mut fees.contracts) {
            if let Some(from_block) = recorded_start(&recorded, &contract.address) {
                contract.from_block = from_block;
                first = Some(first.map_or(from_block, |first: u64| first.min(from_block)));
            }
        }
        if let Some(first) = first.filter(|first| *first != wanted) {
            chain.follow.start_block = first;
            let name = &chain.follow.name;
            tracing::info!(event = "start_point_kept", chain = %name, wanted, first, "START_POINT is for the first run only: the rows of the database begin at block {first}");
        }
    }
    Ok(settings)
}

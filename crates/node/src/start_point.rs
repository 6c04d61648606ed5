//! `START_POINT` is where the first run begins. Later ones go on where the rows of the database do.

use anyhow::Result;
use chronolith_projection::{Database, Error, recorded_settings};
use const_hex::encode_prefixed;
use serde_json::Value;

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
            // Its tables are not set up yet, or it does not answer: who needs it reports that.
            Err(Error::Schema { .. } | Error::Unavailable { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let wanted = chain.follow.start_block;
        let mut first = None;
        for contract in chain.fees.iter_mut().flat_map(|fees| &mut fees.contracts) {
            if let Some(from_block) = start_of(&recorded, &contract.address) {
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

/// The first block of a contract in recorded settings.
fn start_of(recorded: &Value, address: &[u8; 20]) -> Option<u64> {
    let mut contracts = recorded.get("contracts")?.as_array()?.iter();
    let address = encode_prefixed(address);
    let known = contracts.find(|one| one.get("address").and_then(Value::as_str) == Some(&address));
    known?.get("fromBlock")?.as_u64()
}

#[cfg(test)]
mod tests {
    use chronolith_projection_fees::FeeContract;
    use serde_json::json;

    use super::*;

    /// What the projection records is what is read here.
    #[test]
    fn the_start_is_read_as_the_projection_records_it() {
        let contract = |byte: u8, from_block: u64| FeeContract {
            address: [byte; 20],
            from_block,
        };
        let recorded = json!({ "contracts": [contract(1, 7), contract(0xab, 90)] });
        for (byte, expected) in [(1, Some(7)), (0xab, Some(90)), (2, None)] {
            assert_eq!(start_of(&recorded, &[byte; 20]), expected, "{byte}");
        }
        assert_eq!(start_of(&Value::Null, &[1; 20]), None);
    }
}

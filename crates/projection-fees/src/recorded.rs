//! First blocks as the settings of rows have them, which are recorded with the rows.

use const_hex::encode_prefixed;
use serde_json::Value;

/// The first block of a contract in recorded settings; none where the contract is not in them.
#[must_use]
pub fn recorded_start(settings: &Value, address: &[u8; 20]) -> Option<u64> {
    let mut contracts = settings.get("contracts")?.as_array()?.iter();
    let address = encode_prefixed(address);
    let known = contracts.find(|one| one.get("address").and_then(Value::as_str) == Some(&address));
    known?.get("fromBlock")?.as_u64()
}

#[cfg(test)]
mod tests {
    use chronolith_projection::Projection as _;
    use serde_json::json;

    use super::*;
    use crate::{FeeContract, Fees};

    fn fees(contracts: &[(u8, u64)]) -> Fees {
        let contract = |&(byte, from_block): &(u8, u64)| FeeContract {
            address: [byte; 20],
            from_block,
        };
        Fees::new(1, contracts.iter().map(contract).collect()).unwrap()
    }

    /// What the projection records is what is read here.
    #[test]
    fn the_start_is_read_as_the_projection_records_it() {
        let recorded = fees(&[(1, 7), (0xab, 90)]).settings();
        for (byte, expected) in [(1, Some(7)), (0xab, Some(90)), (2, None)] {
            assert_eq!(recorded_start(&recorded, &[byte; 20]), expected, "{byte}");
        }
        assert_eq!(recorded_start(&Value::Null, &[1; 20]), None);
    }

    #[test]
    fn nothing_but_first_blocks_of_a_first_run_is_taken_from_rows() {
        let recorded = fees(&[(1, 20), (2, 30)]).settings();
        for (contracts, adopts) in [
            (&[(1, 50), (2, 50)][..], true),
            (&[(1, 5), (2, 30)], true),
            (&[(1, 50)], false),
            (&[(1, 50), (3, 50)], false),
            (&[(1, 50), (2, 50), (3, 50)], false),
        ] {
            assert!(
                !fees(contracts).adopts(&recorded),
                "an error where a file has them"
            );
            let fees = fees(contracts).of_first_run();
            let own = fees.settings();
            assert_eq!(fees.adopts(&recorded), adopts, "{contracts:?}");
            let expected = if adopts { &recorded } else { &own };
            assert_eq!(fees.settings(), *expected, "{contracts:?}");
        }
        let fees = fees(&[(1, 50)]).of_first_run();
        let address = encode_prefixed([1; 20]);
        let recorded = json!({ "contracts": [{ "address": address, "fromBlock": 20 }] });
        assert!(fees.adopts(&recorded));
        assert_eq!(fees.start_block(), 20);
        // The rows of another database begin elsewhere: those that are made already do not fit them.
        let other = self::fees(&[(1, 30)]).settings();
        assert!(!fees.adopts(&other));
        assert_eq!(fees.start_block(), 20);
    }
}

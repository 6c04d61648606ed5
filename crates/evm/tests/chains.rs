//! Recorded blocks of real chains: header hashes and transactions roots hold exactly where they are
//! known to hold, and transactions that become bytes become the same JSON again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use alloy_primitives::{B256, keccak256};
use chronolith_evm::{BlockFields, Body, HeaderForm, Place, TxFields, ordered_root, store_body};
use serde_json::Value;
use serde_json::value::RawValue;

/// The recorded blocks; none where they are absent.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/evm-chains");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_none(),
        "{} is absent",
        folder.display()
    );
    println!("skipped: recorded blocks of chains are absent");
    None
}

struct Recorded {
    name: String,
    block: BlockFields<Box<RawValue>>,
    checks: Value,
    chain: u64,
}

impl Recorded {
    fn holds(&self, check: &str) -> Option<bool> {
        self.checks[check]["holds"].as_bool()
    }

    fn whole(&self) -> bool {
        self.block
            .transactions
            .iter()
            .all(|tx| tx.get().starts_with('{'))
    }

    fn hashes(&self) -> Vec<B256> {
        let hash = |tx: &RawValue| match serde_json::from_str(tx.get()).unwrap() {
            Value::String(hash) => hash.parse().unwrap(),
            object => object["hash"].as_str().unwrap().parse().unwrap(),
        };
        self.block.transactions.iter().map(|tx| hash(tx)).collect()
    }
}

fn recorded(folder: &Path) -> Vec<Recorded> {
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let mut all = Vec::new();
    for one in manifest["fixtures"].as_array().unwrap() {
        let Some(file) = one["files"]["block"].as_str() else {
            continue;
        };
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        all.push(Recorded {
            name: file.to_owned(),
            block: serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}")),
            checks: one["checks"].clone(),
            chain: one["chainId"].as_u64().unwrap(),
        });
    }
    assert!(all.len() > 50, "{} blocks", all.len());
    all
}

#[test]
fn header_hashes_hold_where_they_are_known_to_hold() {
    let Some(folder) = folder() else { return };
    let mut forms: BTreeMap<&str, usize> = BTreeMap::new();
    for one in recorded(&folder) {
        let found = one.block.header.hashed(&one.hashes());
        // The hash of old zkSync blocks is that of their number: it covers nothing.
        let nothing = one.chain == 324 && one.block.header.header.number < 100_000;
        let expected = one.holds("header hash") == Some(true) && !nothing;
        assert_eq!(found.is_some(), expected, "{}", one.name);
        if let Some((form, bytes)) = found {
            assert_eq!(keccak256(&bytes), one.block.header.hash, "{}", one.name);
            *forms.entry(form.name()).or_default() += 1;
            let plain = form == HeaderForm::Ethereum && one.block.header.is_plain();
            let again: BlockFields<Value> =
                serde_json::from_slice(&one.block.header.to_json()).unwrap();
            let again = again.header.hashed(&one.hashes()).map(|(form, _)| form);
            assert!(plain || again == Some(form), "{}: kept as JSON", one.name);
        }
    }
    println!("note: header forms {forms:?}");
    for form in ["ethereum", "aura", "avalanche", "celo-ten-fields", "zksync"] {
        assert!(forms.contains_key(form), "no block of form {form}");
    }
}

/// Names are computed from what is archived, so that old headers have them too.
#[test]
fn fields_that_the_hash_does_not_cover_are_named() {
    let Some(folder) = folder() else { return };
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for one in recorded(&folder) {
        let header = &one.block.header;
        let Some((form, _)) = header.hashed(&one.hashes()) else {
            continue;
        };
        let mut unproven = header.unproven(&one.hashes());
        let again: BlockFields<Value> = serde_json::from_slice(&header.to_json()).unwrap();
        assert_eq!(again.header.unproven(&one.hashes()), unproven);
        unproven.sort_unstable();
        let expected: Option<&[&str]> = match (form, one.chain) {
            // One client shows mix hash and nonce once more as a seal.
            (HeaderForm::Ethereum, 1) if unproven == ["sealFields"] => None,
            (HeaderForm::Ethereum, 1 | 10 | 137 | 8453) => Some(&[]),
            (HeaderForm::Ethereum, 421_614) => Some(&["l1BlockNumber", "sendCount", "sendRoot"]),
            // One client shows zeros in place of what the seal replaces.
            (HeaderForm::Aura, 100) if header.extra.names().any(|name| name == "auraStep") => {
                Some(&["mixHash", "nonce"])
            }
            (HeaderForm::Aura, _) => Some(&[]),
            // The seal in the extra data is not hashed.
            (HeaderForm::CeloTen, _) => {
                assert!(unproven.contains(&"extraData"), "{}", one.name);
                assert!(!unproven.contains(&"stateRoot"), "{}", one.name);
                None
            }
            (HeaderForm::ZkSync, _) => {
                assert!(unproven.contains(&"stateRoot"), "{}", one.name);
                assert!(!unproven.contains(&"timestamp"), "{}", one.name);
                None
            }
            _ => None,
        };
        if let Some(expected) = expected {
            assert_eq!(unproven, expected, "{}", one.name);
        }
        *seen.entry(form.name()).or_default() += 1;
    }
    for form in ["ethereum", "aura", "celo-ten-fields", "zksync"] {
        assert!(seen.contains_key(form), "no block of form {form}");
    }
}

#[test]
fn transactions_roots_hold_where_they_are_known_to_hold() {
    let Some(folder) = folder() else { return };
    let (mut blocks, mut txs) = (0, 0);
    for one in recorded(&folder) {
        let Some(expected) = one.holds("transactions root").filter(|_| one.whole()) else {
            continue;
        };
        let state_sync = one.checks["transactions root"]["rule"]
            .as_str()
            .is_some_and(|rule| rule.contains("state-sync"));
        let count = one.block.transactions.len() - usize::from(state_sync);
        let fields = one.block.transactions.iter().take(count);
        let encoded: Result<Vec<Vec<u8>>, _> = fields
            .map(|raw| {
                let tx: TxFields<'_> = serde_json::from_str(raw.get()).unwrap();
                let bytes = tx.encode().map_err(|error| error.to_string())?;
                if keccak256(&bytes) == tx.hash {
                    Ok(bytes)
                } else {
                    Err(format!("{} has another hash", tx.hash))
                }
            })
            .collect();
        let root = encoded.as_ref().map(|encoded| ordered_root(encoded));
        let holds = root == Ok(one.block.header.header.transactions_root);
        assert_eq!(holds, expected, "{}: {root:?}", one.name);
        blocks += 1;
        txs += count;
    }
    println!("note: {blocks} blocks, {txs} transactions");
    assert!(
        blocks > 35 && txs > 700,
        "{blocks} blocks, {txs} transactions"
    );
}

/// What is not derived from the bytes is kept beside them, so that nothing that came is lost.
#[test]
fn archived_transactions_are_shown_as_they_came() {
    let Some(folder) = folder() else { return };
    let (mut shown, mut beside) = (0, 0);
    for one in recorded(&folder) {
        if !one.whole() || one.holds("header hash") != Some(true) {
            continue;
        }
        let header = &one.block.header;
        for (index, raw) in one.block.transactions.iter().enumerate() {
            let tx: TxFields<'_> = serde_json::from_str(raw.get()).unwrap();
            let Ok(bytes) = tx.encode() else { continue };
            if keccak256(&bytes) != tx.hash {
                continue;
            }
            let base_fee = header.header.base_fee_per_gas;
            let stored = store_body(&tx, &bytes, base_fee);
            let body = Body::parse(&stored).unwrap();
            assert_eq!(body.hash(), Some(tx.hash));
            beside += usize::from(stored != bytes);
            let place = Place {
                block_hash: header.hash.0,
                block_number: header.header.number,
                block_time: header.header.timestamp,
                base_fee,
                claimed_base_fee: None,
                index: index as u64,
            };
            let mut out = Vec::new();
            body.write_json(&place, &mut out).unwrap();
            let ours: Value = serde_json::from_slice(&out).unwrap();
            let theirs: Value = serde_json::from_str(raw.get()).unwrap();
            for (name, value) in theirs.as_object().unwrap() {
                let same = same(name, value, &ours[name]);
                assert!(
                    same,
                    "{} tx {index} {name}: {value} is {}",
                    one.name, ours[name]
                );
            }
            shown += 1;
        }
    }
    println!("note: {shown} transactions, {beside} with fields beside their bytes");
    assert!(
        shown > 700 && beside > 0,
        "{shown} transactions, {beside} with others"
    );
}

/// Nodes differ in letters, zeros, and in naming what is absent.
fn same(name: &str, theirs: &Value, ours: &Value) -> bool {
    let number = |value: &Value| {
        let text = match value {
            Value::String(text) => text.trim_start_matches("0x").to_lowercase(),
            Value::Number(number) => format!("{:x}", number.as_u64().unwrap()),
            _ => return None,
        };
        Some(text.trim_start_matches('0').to_owned())
    };
    match theirs {
        Value::Null => true,
        Value::Array(items) if items.is_empty() && ours.is_null() => true,
        Value::Array(items) => {
            let ours = ours.as_array().map(Vec::as_slice).unwrap_or_default();
            items.len() == ours.len() && items.iter().zip(ours).all(|(a, b)| same(name, a, b))
        }
        Value::Object(fields) => fields
            .iter()
            .all(|(name, value)| same(name, value, &ours[name])),
        Value::Bool(_) => theirs == ours,
        // Legacy transactions have no type where nodes are old.
        _ if name == "data" => true,
        // Some nodes name the parity of a signature that is not there.
        _ if name == "yParity" && ours.is_null() => {
            number(theirs).is_some_and(|zero| zero.is_empty())
        }
        _ => number(theirs) == number(ours),
    }
}

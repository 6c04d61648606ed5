//! Ranges of 40 blocks as the keys of the requirement have them.

use std::time::{Duration, Instant};

use chronolith_model::BlockRange;
use chronolith_sim::evm::EvmNode;
use serde_json::{Map, Value, json};

use super::{Bench, PATIENCE};

pub type Keys = Map<String, Value>;

/// Puts another mode into the settings file.
pub fn set_mode(bench: &Bench, mode: &str) {
    let text = std::fs::read_to_string(&bench.config).unwrap();
    let at = text.find(r#""mode": ""#).unwrap();
    let end = text.find(r#", "finality""#).unwrap();
    let text = format!("{}{mode}{}", &text[..at], &text[end..]);
    std::fs::write(&bench.config, text).unwrap();
}

/// The keys as they are now; none before there is an archive.
pub fn keys(bench: &Bench) -> Option<Keys> {
    let output = bench.output(&["state", "--keys", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).ok()?;
    all[0]["keys"].as_object().cloned()
}

pub fn wait_keys(bench: &Bench, what: &str, wanted: impl Fn(&Keys) -> bool) -> Keys {
    let began = Instant::now();
    loop {
        let now = keys(bench);
        if let Some(now) = now.clone().filter(&wanted) {
            return now;
        }
        let late = began.elapsed() > PATIENCE;
        assert!(!late, "{what} was not reached: {now:#?}\n{}", bench.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// These keys say this, and those that are null are not there.
#[track_caller]
pub fn assert_keys(keys: &Keys, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        let found = keys.get(name).unwrap_or(&Value::Null);
        assert_eq!(found, value, "{name} in {keys:#?}");
    }
}

pub fn state_of(keys: &Keys, id: u64) -> &str {
    keys.get(&format!("range:{id}:state"))
        .and_then(Value::as_str)
        .unwrap_or("none")
}

/// A range that is complete, by all of its keys.
#[track_caller]
pub fn assert_complete(keys: &Keys, id: u64) {
    let (first, last) = (id * 40, id * 40 + 39);
    let of = |key: &str| format!("range:{id}:{key}");
    assert_keys(
        keys,
        &json!({
            of("state"): "COMPLETE",
            of("start_ledger"): first,
            of("end_ledger"): last,
            of("ledger:phase"): "IMMUTABLE",
            of("ledger:last_committed_ledger"): last,
            of("ledger:count"): 40,
            of("txhash:phase"): "COMPLETE",
            of("txhash:last_committed_ledger"): last,
            of("txhash:rocksdb_path"): null,
            of("transition:started_at"): null,
            of("transition:ledger_status"): null,
            of("transition:txhash_status"): null,
        }),
    );
    for key in ["created_at", "completed_at"] {
        let time = keys[&of(key)].as_str().unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
    let path = keys[&of("ledger:immutable_path")].as_str().unwrap();
    assert!(std::path::Path::new(path).is_dir(), "{path}");
    let path = keys[&of("txhash:recsplit_path")].as_str().unwrap();
    assert!(std::path::Path::new(path).is_file(), "{path}");
}

/// Transactions of blocks by the first digit of their hashes.
pub fn counts(node: &EvmNode, range: BlockRange) -> Value {
    let mut counts = Map::new();
    for digit in "0123456789abcdef".chars() {
        counts.insert(digit.to_string(), json!(0));
    }
    for number in range.start..range.end {
        for tx in node.block(number).unwrap().to_model().txs {
            let digit = tx.hash.to_string()[2..3].to_owned();
            counts[&digit] = json!(counts[&digit].as_u64().unwrap() + 1);
        }
    }
    Value::Object(counts)
}

//! The verifier on recorded blocks of real chains, with the profile of each chain: every root that is
//! known to hold is proven, and nothing is proven that is not.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;
use crate::evm::chains::checks_of;
use crate::evm::wire::WholeBlock;

fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/evm-chains");
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some();
    assert!(!required, "{} is absent", folder.display());
    println!("skipped: recorded blocks of chains are absent");
    None
}

struct Recorded {
    name: String,
    chain: u64,
    block: WireBlock,
    receipts: Option<Vec<WireReceipt>>,
    checks: Value,
}

impl Recorded {
    fn holds(&self, check: &str) -> bool {
        self.checks[check]["holds"].as_bool() == Some(true)
    }

    /// What the chain's rules prove of it, as the table of the recordings says.
    fn expected(&self) -> Verification {
        let whole = self.block.bodies.is_some() || self.block.tx_hashes.is_empty();
        if !self.holds("header hash") {
            return Verification::Claimed;
        }
        match (self.holds("receipts root"), self.holds("logs bloom")) {
            (true, _) if whole && self.holds("transactions root") => Verification::Roots,
            (true, _) => Verification::Receipts,
            (false, true) => Verification::Bloom,
            (false, false) => Verification::Linked,
        }
    }
}

fn recorded(folder: &Path) -> Vec<Recorded> {
    let read = |file: &Value| {
        let file = file.as_str()?;
        Some(std::fs::read_to_string(folder.join(file)).unwrap())
    };
    let manifest = read(&"manifest.json".into()).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let mut all = Vec::new();
    for one in manifest["fixtures"].as_array().unwrap() {
        let Some(text) = read(&one["files"]["block"]) else {
            continue;
        };
        let name = one["files"]["block"].to_string();
        let whole = one["transactions"] == "full";
        let block = if whole {
            serde_json::from_str::<WholeBlock<true>>(&text).map(WireBlock::from)
        } else {
            serde_json::from_str(&text)
        };
        let receipts = read(&one["files"]["receipts"]).filter(|_| one["receipts"] == "all");
        let receipts = receipts.map(|text| serde_json::from_str(&text).unwrap());
        let block = block.unwrap_or_else(|error| panic!("{name}: {error}"));
        let empty = block.tx_hashes.is_empty() && one["transactions"] == "empty";
        all.push(Recorded {
            name,
            chain: one["chainId"].as_u64().unwrap(),
            block,
            receipts: receipts.or(empty.then(Vec::new)),
            checks: one["checks"].clone(),
        });
    }
    all
}

/// Blocks that break the rules of their chain on purpose, or whose chain has none that are known.
fn is_odd(one: &Recorded) -> bool {
    // A recording with a receipt that was altered; Ethermint; Opera; the old zkSync; Arbitrum before
    // Nitro, whose receipts follow rules that nobody found.
    let named = [
        "1-ethereum/1000000",
        "25-cronos",
        "250-fantom",
        "324-zksync",
        "42161-arbitrum/19000174",
    ];
    named.iter().any(|name| one.name.contains(name))
}

#[test]
fn every_chain_with_receipts_is_proven_as_far_as_is_known() {
    let Some(folder) = folder() else { return };
    let (mut roots, mut receipts_only) = (0, 0);
    for one in recorded(&folder) {
        let Some(receipts) = &one.receipts else {
            continue;
        };
        if is_odd(&one) {
            continue;
        }
        let verifier = Verifier::new(checks_of(one.chain));
        let proof = verifier
            .receipts(&one.block, receipts)
            .unwrap_or_else(|refusal| panic!("{}: {refusal:?}", one.name));
        if verifier.may_hide(&one.block) {
            assert_eq!(proof, Proof::LINKED, "{}", one.name);
            continue;
        }
        assert_eq!(proof.logs(), one.expected(), "{}", one.name);
        roots += usize::from(proof == Proof::ROOTS);
        receipts_only += usize::from(proof.logs() == Verification::Receipts);
    }
    println!("note: {roots} blocks at roots, {receipts_only} at receipts");
    assert!(roots >= 25, "{roots} blocks at roots");
}

#[test]
fn headers_and_transactions_without_receipts_are_proven_too() {
    let Some(folder) = folder() else { return };
    let mut proven = 0;
    for one in recorded(&folder) {
        if is_odd(&one) || one.receipts.is_some() {
            continue;
        }
        let checks = Checks {
            bloom: false,
            ..checks_of(one.chain)
        };
        let proof = Verifier::new(checks).logs(&one.block, &[], false);
        let proof = proof.unwrap_or_else(|refusal| panic!("{}: {refusal:?}", one.name));
        assert_eq!(proof.logs(), Verification::Linked, "{}", one.name);
        let whole = one.block.bodies.is_some();
        let txs = proof.txs() == Verification::Roots;
        assert_eq!(txs, whole && one.holds("transactions root"), "{}", one.name);
        proven += 1;
    }
    assert!(proven >= 15, "{proven} blocks");
}

/// A rule that does not hold names itself; once it is dropped the block is proven less, and no more is
/// claimed.
#[test]
fn a_rule_that_fails_lowers_the_level_once_it_is_dropped() {
    let Some(folder) = folder() else { return };
    for one in recorded(&folder).iter().filter(|one| is_odd(one)) {
        let Some(receipts) = &one.receipts else {
            continue;
        };
        let verifier = Verifier::new(Checks::ALL);
        let mut dropped = Vec::new();
        let proof = loop {
            match verifier.receipts(&one.block, receipts) {
                Ok(proof) => break proof,
                Err(refusal) => {
                    let rule = refusal.rule.unwrap_or_else(|| panic!("{refusal:?}"));
                    assert!(verifier.drop_rule(rule), "{rule:?} twice");
                    dropped.push(rule);
                }
            }
        };
        assert!(!dropped.is_empty(), "{}", one.name);
        assert!(proof.logs() <= one.expected(), "{}: {proof:?}", one.name);
    }
}

/// The lie of the first audit: hashes replaced consistently, bodies altered.
#[test]
fn altered_transactions_are_refused() {
    let Some(folder) = folder() else { return };
    let all = recorded(&folder);
    let path = folder.join("1-ethereum/17000000.block.json");
    let honest = std::fs::read_to_string(path).unwrap();
    let one = all
        .iter()
        .find(|one| one.name.contains("1-ethereum/17000000"))
        .unwrap();
    let verifier = Verifier::new(Checks::ALL);
    let receipts = one.receipts.as_ref().unwrap();
    assert_eq!(verifier.receipts(&one.block, receipts), Ok(Proof::ROOTS));
    let first = one.block.tx_hashes[0].to_string();
    for (from, to) in [
        (first.as_str(), format!("0xbad0{}", &first[6..])),
        ("\"value\":\"0x", "\"value\":\"0x1".to_owned()),
        ("\"input\":\"0x", "\"input\":\"0xbeef".to_owned()),
    ] {
        let lie = honest.replace(from, &to);
        assert_ne!(lie, honest);
        let block: WireBlock = serde_json::from_str::<WholeBlock<true>>(&lie)
            .unwrap()
            .into();
        let refusal = verifier
            .with_transactions(&block, true, Proof::LINKED)
            .unwrap_err();
        assert_eq!(refusal.rule, Some(Rule::TransactionsRoot));
        // What has no bytes of its own hash is kept as it came, never as bytes.
        let kept = block.kept_bodies().unwrap();
        assert!(kept.iter().any(|body| body.first() == Some(&b'{')));
    }
}

/// A recorded block as JSON, with its receipts.
fn as_json(folder: &Path, name: &str) -> (Value, Value) {
    let read = |what: &str| {
        let path = folder.join(format!("{name}.{what}.json"));
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    (read("block"), read("receipts"))
}

fn parsed(block: &Value, receipts: &Value) -> (WireBlock, Vec<WireReceipt>) {
    let block: WholeBlock<true> = serde_json::from_value(block.clone()).unwrap();
    (
        block.into(),
        serde_json::from_value(receipts.clone()).unwrap(),
    )
}

/// An endpoint that left the state-sync transaction out was believed at `roots`: every root holds
/// without it.
#[test]
fn a_block_whose_state_sync_is_left_out_is_not_proven() {
    let Some(folder) = folder() else { return };
    let (mut block, mut receipts) = as_json(&folder, "80001-polygon-mumbai/135808");
    block["transactions"].as_array_mut().unwrap().pop().unwrap();
    receipts.as_array_mut().unwrap().pop().unwrap();
    let (block, receipts) = parsed(&block, &receipts);
    let verifier = Verifier::new(checks_of(80_001));
    assert!(verifier.unrooted(&block).is_none());
    assert_eq!(verifier.receipts(&block, &receipts), Ok(Proof::LINKED));
    let logs: Vec<&WireLog> = receipts.iter().flat_map(|one| &one.logs).collect();
    assert_eq!(verifier.logs(&block, &logs, true), Ok(Proof::LINKED));
    // No bloom says that it has no log of a scope.
    let nobody = chronolith_model::ScopeEntry {
        emitter: Some(vec![0xee; 20].into()),
        topic0: None,
    };
    let scope = Scope::Only(vec![nobody]);
    assert!(verifier.may_hold(&block, &scope) && !verifier.settles(&block, &scope));
    assert!(!verifier.settles(&block, &Scope::All));
    // Where no state sync can be, roots and bloom prove as much as on any chain.
    let (block, receipts) = as_json(&folder, "137-polygon/23887160");
    let (block, receipts) = parsed(&block, &receipts);
    let verifier = Verifier::new(checks_of(137));
    assert_eq!(verifier.receipts(&block, &receipts), Ok(Proof::ROOTS));
    assert!(!verifier.may_hold(&block, &scope) && verifier.settles(&block, &scope));
}

/// Any block of Polygon could be given a transaction with logs of its endpoint's choice.
#[test]
fn a_state_sync_where_none_can_be_is_refused() {
    let Some(folder) = folder() else { return };
    let (mut block, mut receipts) = as_json(&folder, "137-polygon/23887160");
    let (honest, _) = parsed(&block, &receipts);
    let number = honest.number().to_be_bytes();
    let named = [b"matic-bor-receipt-", &number[..], honest.hash.as_slice()].concat();
    let hash = keccak256(named).to_string();
    let txs = block["transactions"].as_array_mut().unwrap();
    txs.push(serde_json::json!({ "hash": hash }));
    let all = receipts.as_array_mut().unwrap();
    let mut made_up = all.last().unwrap().clone();
    made_up["transactionHash"] = hash.into();
    made_up["transactionIndex"] = format!("0x{:x}", all.len()).into();
    made_up["logs"] = Value::Array(Vec::new());
    all.push(made_up);
    let (block, receipts) = parsed(&block, &receipts);
    let refusal = Verifier::new(checks_of(137))
        .receipts(&block, &receipts)
        .unwrap_err();
    assert_eq!(refusal.rule, Some(Rule::ReceiptsRoot));
}

/// Two honest clients of an odd chain failed differently forever: by the order in which they write
/// fields, and by the place where a parser gave up.
#[test]
fn clients_that_show_the_same_block_fail_alike() {
    let Some(folder) = folder() else { return };
    let path = folder.join("1-ethereum/17000000.block.json");
    let text = std::fs::read_to_string(path).unwrap();
    let refused = |text: &str| {
        let block: WireBlock = serde_json::from_str::<WholeBlock<true>>(text)
            .unwrap()
            .into();
        let verifier = Verifier::new(Checks::ALL);
        let header = verifier.header(&block);
        header
            .and_then(|_| verifier.transactions(&block))
            .unwrap_err()
    };
    let difficulty = text.replace("\"difficulty\":\"0x", "\"difficulty\":\"0x1");
    assert_ne!(difficulty, text);
    let odd = |fields: &str| refused(&difficulty.replacen('{', &format!("{{{fields}"), 1));
    let one = odd("\"l1Fee\":\"0x1\",\"aField\":1,");
    let two = odd("\"aField\":1,  \"l1Fee\":\"0x1\",");
    assert_eq!(one.rule, Some(Rule::HeaderHash));
    assert_eq!(one, two);
    // One of them knows a field more.
    assert_eq!(one.computed, odd("\"aField\":1,").computed);
    let other = refused(&text.replace("\"difficulty\":\"0x", "\"difficulty\":\"0x2"));
    assert_ne!(one.computed, other.computed);
    let odd = |space: &str| {
        let value = format!("\"value\":{space}\"x");
        refused(&text.replacen("\"value\":\"0x", &value, 1))
    };
    let (one, two) = (odd(""), odd("     "));
    assert_eq!(one.rule, Some(Rule::TransactionsRoot));
    assert_ne!(one.what, two.what, "the place in the answer is told");
    assert_eq!(one.computed, two.computed);
}

//! What is kept of a transaction beside its bytes, and what is shown of both.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use alloy_primitives::{Address, B256, address};
use chronolith_evm::{Body, Place, TxFields, store_body};
use serde_json::{Value, json};

const ZERO: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
const CALLED: &str = "0x00000000000000000000000000000000000000aa";
const SENDER: &str = "0x00000000000000000000000000000000000000bb";

fn place(base_fee: Option<u64>) -> Place {
    Place {
        block_hash: [7; 32],
        block_number: 100,
        block_time: 1_700_000_000,
        base_fee,
        claimed_base_fee: None,
        index: 0,
    }
}

fn stored(tx: &Value, base_fee: Option<u64>) -> Vec<u8> {
    let text = tx.to_string();
    let tx: TxFields<'_> = serde_json::from_str(&text).unwrap();
    store_body(&tx, &tx.encode().unwrap(), base_fee)
}

fn shown(stored: &[u8], base_fee: Option<u64>) -> Value {
    let mut out = Vec::new();
    let body = Body::parse(stored).unwrap();
    body.write_json(&place(base_fee), &mut out).unwrap();
    // A parser takes the last of two fields: none may be there twice.
    let text = String::from_utf8(out).unwrap();
    let shown: Value = serde_json::from_str(&text).unwrap();
    for name in shown.as_object().unwrap().keys() {
        assert_eq!(text.matches(&format!("\"{name}\":")).count(), 1, "{text}");
    }
    shown
}

/// A transaction with the fields that nodes show of all, and more.
fn common(kind: &str, more: Value) -> Value {
    let mut tx = json!({
        "hash": ZERO, "type": kind, "chainId": "0xa4b1", "from": SENDER, "to": CALLED,
        "gas": "0x5208", "nonce": "0x9", "value": "0x1", "input": "0xc9f95d32",
        "v": "0x0", "r": "0x0", "s": "0x0",
    });
    let Value::Object(more) = more else {
        panic!("no object")
    };
    tx.as_object_mut().unwrap().extend(more);
    tx
}

/// One transaction of each type of which nodes show more than its bytes say.
fn cases() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    vec![
        (
            "a retryable of Arbitrum",
            common(
                "0x69",
                json!({
                    "requestId": ZERO, "l1BaseFee": "0x1", "depositValue": "0x2",
                    "maxFeePerGas": "0x3", "gasPrice": "0x8", "retryTo": SENDER, "retryValue": "0x4",
                    "beneficiary": SENDER, "maxSubmissionFee": "0x5", "refundTo": SENDER,
                    "retryData": "0x01",
                }),
            ),
            vec!["gasPrice", "input", "nonce", "to", "value"],
        ),
        (
            "a deposit of Arbitrum",
            common(
                "0x64",
                json!({ "requestId": ZERO, "gasPrice": "0x7", "input": "0x" }),
            ),
            vec!["gas", "gasPrice", "input", "nonce"],
        ),
        (
            "a contract of Arbitrum",
            common(
                "0x66",
                json!({ "requestId": ZERO, "maxFeePerGas": "0x3", "gasPrice": "0x3" }),
            ),
            vec!["nonce"],
        ),
        (
            "Arbitrum's own",
            common(
                "0x6a",
                json!({ "to": "0x00000000000000000000000000000000000a4b05", "from": "0x00000000000000000000000000000000000a4b05", "gas": "0x0", "nonce": "0x0", "value": "0x3", "gasPrice": "0x0" }),
            ),
            vec!["value"],
        ),
        (
            "a message of Scroll",
            common(
                "0x7e",
                json!({ "queueIndex": "0x5", "sender": SENDER, "gasPrice": "0x0" }),
            ),
            vec!["chainId", "nonce"],
        ),
        (
            "a deposit of OP chains",
            common(
                "0x7e",
                json!({ "sourceHash": ZERO, "mint": "0x1", "isSystemTx": false, "gasPrice": "0x0", "yParity": "0x0" }),
            ),
            vec!["chainId", "nonce", "yParity"],
        ),
        (
            "a signed one with a list that its type has not",
            common(
                "0x0",
                json!({
                    "gasPrice": "0x3", "v": "0x1b", "r": "0x1", "s": "0x0", "ethCompatible": true,
                    "accessList": [{ "address": CALLED, "storageKeys": [ZERO] }],
                }),
            ),
            vec!["accessList", "chainId", "ethCompatible", "from"],
        ),
    ]
}

/// A name that the bytes of some type hold was dropped where those of this type do not.
#[test]
fn what_came_is_shown_and_what_no_bytes_hold_is_named() {
    for (what, tx, unproven) in cases() {
        let stored = stored(&tx, Some(3));
        let shown = shown(&stored, Some(3));
        let sorted = |value: &Value| {
            let mut names: Vec<String> = serde_json::from_value(value.clone()).unwrap();
            names.sort_unstable();
            names
        };
        for (name, value) in tx.as_object().unwrap() {
            if name != "hash" {
                assert_eq!(&shown[name], value, "{what}: {name} of {shown}");
            }
        }
        assert_eq!(sorted(&shown["unprovenFields"]), unproven, "{what}");
    }
}

/// A retryable was taken for the creation of a contract with no input.
#[test]
fn whom_a_transaction_calls_follows_from_bytes_alone() {
    let called = |at: usize| {
        let (what, tx, _) = cases().swap_remove(at);
        let stored = stored(&tx, Some(3));
        let call = Body::parse(&stored).unwrap().call().unwrap();
        (what, call.map(|call| (call.to, call.input.to_vec())))
    };
    let input = vec![0xc9, 0xf9, 0x5d, 0x32];
    let to: Option<Address> = Some(CALLED.parse().unwrap());
    let own = Some(address!("0x00000000000000000000000000000000000a4b05"));
    assert_eq!(called(0), ("a retryable of Arbitrum", None));
    assert_eq!(called(1), ("a deposit of Arbitrum", Some((to, Vec::new()))));
    assert_eq!(called(3), ("Arbitrum's own", Some((own, input.clone()))));
    assert_eq!(called(4), ("a message of Scroll", Some((to, input))));
}

/// What the bytes tell is shown from them, whatever an endpoint says, and no name of ours is believed.
#[test]
fn a_claim_against_the_bytes_is_not_kept() {
    let tx = json!({
        "hash": ZERO, "type": "0x2", "chainId": "0x1", "from": SENDER, "to": CALLED, "gas": "0x5208",
        "nonce": "0x9", "value": "0x1", "input": "0x", "accessList": [], "maxFeePerGas": "0x64",
        "maxPriorityFeePerGas": "0x1", "gasPrice": "0xff", "yParity": "0x1", "v": "0x0",
        "r": B256::repeat_byte(1), "s": B256::repeat_byte(2), "unprovenFields": ["nonce"],
    });
    let stored = stored(&tx, Some(3));
    let shown = shown(&stored, Some(3));
    assert_eq!(
        (&shown["gasPrice"], &shown["v"]),
        (&json!("0x4"), &json!("0x1"))
    );
    assert_ne!(shown["from"], SENDER);
    assert_eq!(shown.get("unprovenFields"), None, "{shown}");
}

/// The base fee of a header does not say what a token costs.
#[test]
fn the_price_in_a_token_is_a_claim() {
    let tx = json!({
        "hash": ZERO, "type": "0x7b", "chainId": "0x1", "from": SENDER, "to": CALLED, "gas": "0x5208",
        "nonce": "0x9", "value": "0x1", "input": "0x", "accessList": [], "maxFeePerGas": "0x64",
        "maxPriorityFeePerGas": "0x1", "gasPrice": "0x32", "yParity": "0x1", "v": "0x1",
        "r": B256::repeat_byte(1), "s": B256::repeat_byte(2), "feeCurrency": CALLED,
    });
    let shown = shown(&stored(&tx, Some(3)), Some(3));
    assert_eq!(shown["gasPrice"], "0x32");
    assert_eq!(shown["unprovenFields"], json!(["gasPrice"]));
}

#[test]
fn hostile_fields_of_a_transaction_are_refused() {
    let many: Vec<String> = (0..100_000).map(|at| format!("\"f{at}\":1")).collect();
    let text = format!("{{\"hash\":\"{ZERO}\",{}}}", many.join(","));
    let error = serde_json::from_str::<TxFields<'_>>(&text).unwrap_err();
    assert!(error.to_string().contains("too many fields"), "{error}");
}

/// An endpoint that kept the base fee from us while it was archived had its price shown behind the true one.
#[test]
fn a_price_is_shown_once_and_says_what_it_follows_from() {
    let tx = json!({
        "hash": ZERO, "type": "0x2", "chainId": "0x1", "from": SENDER, "to": CALLED, "gas": "0x5208",
        "nonce": "0x9", "value": "0x1", "input": "0x", "accessList": [], "maxFeePerGas": "0x64",
        "maxPriorityFeePerGas": "0x1", "gasPrice": "0xff", "yParity": "0x1", "v": "0x1",
        "r": B256::repeat_byte(1), "s": B256::repeat_byte(2),
    });
    let unproven = json!(["gasPrice"]);
    let (claim, bare) = (stored(&tx, None), stored(&tx, Some(3)));
    for (body, proven, claimed, price, named) in [
        (&claim, None, None, json!("0xff"), Some(&unproven)),
        (&claim, Some(3), None, json!("0x4"), None),
        (&claim, None, Some(5), json!("0xff"), Some(&unproven)),
        (&bare, Some(3), None, json!("0x4"), None),
        (&bare, None, Some(5), json!("0x6"), Some(&unproven)),
        (&bare, None, None, Value::Null, None),
    ] {
        let mut out = Vec::new();
        let place = Place {
            claimed_base_fee: claimed,
            ..place(proven)
        };
        Body::parse(body)
            .unwrap()
            .write_json(&place, &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.matches("\"gasPrice\":").count() <= 1, "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["gasPrice"], price, "{proven:?} {claimed:?}");
        assert_eq!(shown.get("unprovenFields"), named, "{proven:?} {claimed:?}");
    }
}

//! Which fields of a header its block's hash covers, whatever a node says beside them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use alloy_consensus::Header;
use alloy_primitives::{B64, B256, Bytes, keccak256};
use alloy_rlp::Encodable;
use chronolith_evm::{BlockFields, HeaderFields, HeaderForm};
use serde_json::{Value, json};

fn header() -> Header {
    Header {
        parent_hash: B256::repeat_byte(1),
        state_root: B256::repeat_byte(2),
        mix_hash: B256::repeat_byte(3),
        nonce: B64::repeat_byte(4),
        number: 17_000_000,
        gas_limit: 30_000_000,
        gas_used: 9_000_000,
        timestamp: 1_680_000_000,
        extra_data: Bytes::from_static(b"extra"),
        ..Header::default()
    }
}

fn london() -> Header {
    Header {
        base_fee_per_gas: Some(20_000_000_000),
        ..header()
    }
}

fn prague() -> Header {
    Header {
        withdrawals_root: Some(B256::repeat_byte(5)),
        blob_gas_used: Some(6),
        excess_blob_gas: Some(7),
        parent_beacon_block_root: Some(B256::repeat_byte(8)),
        requests_hash: Some(B256::repeat_byte(9)),
        ..london()
    }
}

fn rlp(value: &impl Encodable) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// A header as a node shows it.
fn shown(header: &Header) -> Value {
    let mut block = json!({
        "hash": keccak256(rlp(header)),
        "parentHash": header.parent_hash,
        "sha3Uncles": header.ommers_hash,
        "miner": header.beneficiary,
        "stateRoot": header.state_root,
        "transactionsRoot": header.transactions_root,
        "receiptsRoot": header.receipts_root,
        "logsBloom": header.logs_bloom,
        "difficulty": "0x0",
        "number": format!("{:#x}", header.number),
        "gasLimit": format!("{:#x}", header.gas_limit),
        "gasUsed": format!("{:#x}", header.gas_used),
        "timestamp": format!("{:#x}", header.timestamp),
        "extraData": header.extra_data,
        "mixHash": header.mix_hash,
        "nonce": header.nonce,
        "transactions": [],
    });
    let mut number = |name: &str, value: Option<u64>| {
        value
            .iter()
            .for_each(|value| block[name] = json!(format!("{value:#x}")));
    };
    number("baseFeePerGas", header.base_fee_per_gas);
    number("blobGasUsed", header.blob_gas_used);
    number("excessBlobGas", header.excess_blob_gas);
    let mut hash = |name: &str, value: Option<B256>| {
        value.iter().for_each(|value| block[name] = json!(value));
    };
    hash("withdrawalsRoot", header.withdrawals_root);
    hash("parentBeaconBlockRoot", header.parent_beacon_block_root);
    hash("requestsHash", header.requests_hash);
    block
}

fn read(block: &Value) -> HeaderFields {
    let block: BlockFields<Value> = serde_json::from_str(&block.to_string()).unwrap();
    block.header
}

fn form(block: &Value) -> Option<HeaderForm> {
    read(block).hashed(&[]).map(|(form, _)| form)
}

fn removed(block: &mut Value, name: &str) -> Value {
    block.as_object_mut().unwrap().remove(name).unwrap()
}

#[test]
fn true_headers_hash() {
    for header in [header(), london(), prague()] {
        assert_eq!(form(&shown(&header)), Some(HeaderForm::Ethereum));
    }
}

/// The bytes of a seal were appended as they came. A node that put the fields of another form there could
/// say what it liked under their names, and the block's hash held.
#[test]
fn a_seal_does_not_stand_for_other_fields() {
    for header in [header(), london(), prague()] {
        let all = rlp(&header);
        let mix_hash = rlp(&header.mix_hash);
        let at = all
            .windows(mix_hash.len())
            .position(|part| part == mix_hash);
        let (first, rest) = all[at.unwrap()..].split_at(mix_hash.len());
        let (nonce, later) = rest.split_at(9);
        let seals = [
            vec![[first, rest].concat()],
            vec![first.to_vec(), rest.to_vec()],
            vec![first.to_vec(), nonce.to_vec(), later.to_vec()],
            vec![first.to_vec(), nonce.to_vec()],
            vec![[first, nonce].concat(), later.to_vec()],
        ];
        for seal in seals {
            let seal: Vec<Bytes> = seal.into_iter().map(Bytes::from).collect();
            let mut block = shown(&header);
            let fields = block.as_object_mut().unwrap();
            let later = ["Fee", "Root", "blob", "Blob", "requests"];
            let roots = ["stateRoot", "transactionsRoot", "receiptsRoot"];
            fields.retain(|name, _| {
                roots.contains(&name.as_str()) || !later.iter().any(|part| name.contains(part))
            });
            block["mixHash"] = json!(B256::repeat_byte(0xee));
            block["nonce"] = json!(B64::repeat_byte(0xee));
            block["sealFields"] = json!(seal);
            assert_eq!(form(&block), None, "{seal:?}");
        }
    }
}

/// A field that is named as one that comes later gave the same bytes.
#[test]
fn a_field_does_not_stand_for_one_before_it() {
    let mut block = shown(&london());
    block["blobGasUsed"] = removed(&mut block, "baseFeePerGas");
    assert_eq!(form(&block), None, "base fee");
    let mut block = shown(&prague());
    block["blockAccessListHash"] = removed(&mut block, "requestsHash");
    assert_eq!(form(&block), None, "requests hash");
    let mut block = shown(&prague());
    block["parentProposerPubkey"] = removed(&mut block, "requestsHash");
    assert_eq!(form(&block), None, "proposer");
    // Avalanche's: the base fee named as what a block costs.
    let data_hash = B256::repeat_byte(0xda);
    let inner = [&rlp(&header())[3..], &rlp(&data_hash), &rlp(&7_u64)].concat();
    let length = u16::try_from(inner.len()).unwrap().to_be_bytes();
    let mut block = shown(&header());
    block["hash"] = json!(keccak256([&[0xf9], &length[..], &inner].concat()));
    block["extDataHash"] = json!(data_hash);
    block["baseFeePerGas"] = json!("0x7");
    assert_eq!(form(&block), Some(HeaderForm::Avalanche));
    block["blockGasCost"] = removed(&mut block, "baseFeePerGas");
    assert_eq!(form(&block), None, "cost of a block");
}

#[test]
fn fields_outside_the_hash_are_named() {
    let check = |block: &Value, expected: &[&str]| {
        let fields = read(block);
        assert_eq!(fields.unproven(&[]), expected);
        let json = fields.shown_json(&[]);
        let again: Value = serde_json::from_slice(&json).unwrap();
        let named = again.get("unprovenFields").cloned();
        assert_eq!(named, (!expected.is_empty()).then(|| json!(expected)));
        // What is said of fields is not a field: it is the same when it is read again.
        assert_eq!(read(&again).unproven(&[]), expected);
        assert!(
            !read(&again)
                .to_json()
                .windows(8)
                .any(|part| part == b"unproven")
        );
    };
    let mut block = shown(&prague());
    check(&block, &[]);
    block["l1BlockNumber"] = json!("0x1");
    block["unprovenFields"] = json!([]);
    check(&block, &["l1BlockNumber"]);
    block["hash"] = json!(B256::ZERO);
    assert_eq!(
        read(&block).unproven(&[]).len(),
        22,
        "all where no form holds"
    );
}

/// Readers of JSON take the last of two. The first one was hashed.
#[test]
fn a_field_that_comes_twice_is_one() {
    let text = shown(&prague()).to_string();
    let twice = r#","auraStep":"0x1","auraStep":"0x2"}"#;
    let text = format!("{}{twice}", text.strip_suffix('}').unwrap());
    let block: BlockFields<Value> = serde_json::from_str(&text).unwrap();
    let json = String::from_utf8(block.header.to_json()).unwrap();
    assert!(
        !json.contains(r#""0x1""#) && json.contains(r#""auraStep":"0x2""#),
        "{json}"
    );
}

/// Many small fields took ten times the memory of an answer, and their names were in every message.
#[test]
fn hostile_fields_without_end_are_refused() {
    let refused = |more: String| {
        let text = shown(&prague()).to_string();
        let text = format!("{},{more}}}", text.strip_suffix('}').unwrap());
        let read = serde_json::from_str::<BlockFields<Value>>(&text);
        let error = read.unwrap_err().to_string();
        assert!(error.len() < 300, "{} bytes", error.len());
        error
    };
    let many: Vec<String> = (0..1_000_000).map(|at| format!("\"f{at}\":1")).collect();
    assert!(refused(many.join(",")).contains("too many fields"));
    let long = "n".repeat(10_000);
    assert!(refused(format!("\"{long}\":1")).contains("too long"));
    assert!(refused(format!("\"a\":\"{}\"", "0".repeat(2 << 20))).contains("too many bytes"));
    assert!(refused(format!("\"number\":\"{long}\"")).contains("not a quantity"));
}

//! What it costs to show an archived transaction: its bytes are decoded and its sender is recovered
//! from the signature, beside the same transaction kept as the JSON that it is shown as.
//!
//! `cargo bench -p chronolith-evm --bench bodies`

use std::hint::black_box;
use std::time::Instant;

use alloy_primitives::{Address, keccak256};
use alloy_rlp::{Encodable as _, Header};
use chronolith_evm::{Body, BodyError, Place};
use secp256k1::{Message, SECP256K1, SecretKey};

const TRANSACTIONS: u64 = 200;
const ROUNDS: u32 = 20;
/// The parity of a signature that is for no chain is added to this.
const FIRST_V: u64 = 27;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = SecretKey::from_byte_array([7; 32])?;
    let signed: Vec<Vec<u8>> = (0..TRANSACTIONS).map(|nonce| sign(&key, nonce)).collect();
    let mut shown = Vec::new();
    for bytes in &signed {
        let mut json = Vec::new();
        Body::parse(bytes)?.write_json(&PLACE, &mut json)?;
        shown.push(json);
    }
    let sender = Body::parse(signed.first().ok_or("no transaction")?)?.sender();
    assert!(sender.is_some(), "the signature must be that of a key");
    let (ours, json) = (time(&signed)?, time(&shown)?);
    let hashed = time_hash(&signed)?;
    println!("a transaction shown from its bytes, sender recovered: {ours:.1} us");
    println!("the same kept as JSON:                                {json:.2} us");
    println!("its hash alone:                                       {hashed:.2} us");
    println!(
        "a block of {TRANSACTIONS} whole transactions: {:.1} ms of one core",
        ours * TRANSACTIONS as f64 / 1e3
    );
    Ok(())
}

const PLACE: Place = Place {
    block_hash: [1; 32],
    block_number: 19_000_000,
    block_time: 1_700_000_000,
    base_fee: Some(10_000_000_000),
    claimed_base_fee: None,
    index: 0,
};

/// Microseconds that it takes to show one of these.
fn time(stored: &[Vec<u8>]) -> Result<f64, BodyError> {
    let began = Instant::now();
    let mut out = Vec::new();
    for _ in 0..ROUNDS {
        for one in stored {
            out.clear();
            Body::parse(black_box(one))?.write_json(&PLACE, &mut out)?;
            black_box(&out);
        }
    }
    Ok(each(began, stored.len()))
}

fn time_hash(stored: &[Vec<u8>]) -> Result<f64, BodyError> {
    let began = Instant::now();
    for _ in 0..ROUNDS {
        for one in stored {
            black_box(Body::parse(black_box(one))?.hash());
        }
    }
    Ok(each(began, stored.len()))
}

fn each(began: Instant, count: usize) -> f64 {
    began.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS) / count as f64
}

/// A call with 196 bytes of input.
fn sign(key: &SecretKey, nonce: u64) -> Vec<u8> {
    let mut fields = Vec::new();
    nonce.encode(&mut fields);
    20_000_000_000_u64.encode(&mut fields);
    100_000_u64.encode(&mut fields);
    Address::new([0x42; 20]).encode(&mut fields);
    0_u64.encode(&mut fields);
    [0x5a_u8; 196].as_slice().encode(&mut fields);
    let hash = Message::from_digest(keccak256(list(&fields)).0);
    let signature = SECP256K1.sign_ecdsa_recoverable(hash, key);
    let (id, numbers) = signature.serialize_compact();
    (FIRST_V + u64::from(i32::from(id) == 1)).encode(&mut fields);
    for number in numbers.chunks(32) {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.get(zeros..).unwrap_or_default().encode(&mut fields);
    }
    list(&fields)
}

fn list(fields: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = Header {
        list: true,
        payload_length: fields.len(),
    };
    header.encode(&mut out);
    out.extend_from_slice(fields);
    out
}

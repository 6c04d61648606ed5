//! What the archived bytes of a block still prove, without any endpoint.

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bloom, keccak256};
use alloy_rlp::Decodable as _;
use serde::de::IgnoredAny;

use crate::body::Body;
use crate::header::BlockFields;
use crate::ordered_root;

/// An archived header that gives the block's hash, in a form that covers its bloom and roots.
#[derive(Debug)]
pub struct KeptHeader(Header);

/// Computes the hash of an archived header, with the hashes of all transactions where they are known: one
/// form needs them. None where the hash holds and covers no root, or cannot be computed without these.
///
/// # Errors
/// What is wrong with it.
pub fn kept_header(
    stored: &[u8],
    hash: &[u8; 32],
    tx_hashes: Option<&[B256]>,
) -> Result<Option<KeptHeader>, String> {
    if stored.first() == Some(&b'{') {
        return of_json(stored, hash, tx_hashes);
    }
    let computed = keccak256(stored);
    if computed.0 != *hash {
        return Err(format!("the archived header hashes to {computed}"));
    }
    let header = Header::decode(&mut &stored[..]);
    let header = header.map_err(|error| format!("the archived header does not decode: {error}"))?;
    Ok(Some(KeptHeader(header)))
}

fn of_json(
    stored: &[u8],
    hash: &[u8; 32],
    tx_hashes: Option<&[B256]>,
) -> Result<Option<KeptHeader>, String> {
    let read = serde_json::from_slice(stored);
    let fields: BlockFields<IgnoredAny> =
        read.map_err(|error| format!("the archived header does not decode: {error}"))?;
    let fields = fields.header;
    if fields.hash.0 != *hash {
        return Err(format!("the archived header is of block {}", fields.hash));
    }
    match fields.hashed(tx_hashes.unwrap_or(&[])) {
        Some((form, _)) if form.covers_content() => Ok(Some(KeptHeader(fields.header))),
        Some(_) => Ok(None),
        None if tx_hashes.is_none() => Ok(None),
        None => Err("the archived header hashes to its block's hash in no known form".to_owned()),
    }
}

impl KeptHeader {
    /// Whether archived transactions have the hashes that are archived, and give the transactions root.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_transactions<'a>(
        &self,
        txs: impl Iterator<Item = (&'a [u8; 32], &'a [u8])>,
    ) -> Result<(), String> {
        let mut encoded = Vec::new();
        for (hash, stored) in txs {
            let named = B256::new(*hash);
            match Body::parse(stored).map_err(|error| error.to_string())? {
                Body::Json(_) => {
                    return Err(format!("transaction {named} is kept without its bytes"));
                }
                body @ Body::Bytes { bytes, .. } => {
                    if body.hash() != Some(named) {
                        return Err(format!("the archived transaction {named} has another hash"));
                    }
                    encoded.push(bytes);
                }
            }
        }
        let (computed, root) = (ordered_root(&encoded), self.0.transactions_root);
        if computed == root {
            return Ok(());
        }
        Err(format!(
            "archived transactions hash to {computed}, the header says {root}"
        ))
    }

    /// Whether all logs of the block, each an emitter and its topics, give the header's bloom.
    ///
    /// # Errors
    /// That they do not.
    pub fn check_bloom<'a>(
        &self,
        logs: impl Iterator<Item = (&'a [u8], Vec<&'a [u8]>)>,
    ) -> Result<(), String> {
        let mut bloom = Bloom::ZERO;
        for (emitter, topics) in logs {
            let topics: Result<Vec<B256>, _> = topics.into_iter().map(B256::try_from).collect();
            let topics = topics.map_err(|_| "a topic that does not have 32 bytes")?;
            let emitter =
                Address::try_from(emitter).map_err(|_| "an emitter that is not an address")?;
            bloom.accrue_raw_log(emitter, &topics);
        }
        if bloom == self.0.logs_bloom {
            return Ok(());
        }
        Err("archived logs do not give the bloom of the header".to_owned())
    }
}

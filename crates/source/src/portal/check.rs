//! A Portal's blocks against headers that an endpoint showed and that were hashed.
//!
//! A Portal's line proves nothing: its bloom is its own word as much as its logs are. The bloom of a
//! hashed header is the chain's. Nothing here waits or asks.

use alloy_primitives::{B256, Bloom};
use bytes::Bytes;
use chronolith_model::{BlockRef, Dataset, Log, Proof, Scope, Verification};

use crate::evm::{Checks, WireBlock, bloom, is_empty};
use crate::source::{Fetched, Want};

/// Why a Portal is refused, and at which block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) block: BlockRef,
    pub(crate) what: String,
}

/// What a Portal's blocks can be proven to where endpoints show the headers.
pub(crate) fn provable(want: &Want, checks: Checks) -> Proof {
    let all = want.datasets.contains(Dataset::Logs) && want.scope == Scope::All;
    match (checks.header_hash, all && checks.bloom) {
        (false, _) => Proof::CLAIMED,
        (true, false) => Proof::LINKED,
        (true, true) => Proof::of_logs(Verification::Bloom),
    }
}

/// Raises blocks to what the headers prove. Returns the numbers of those that stay open: no log came,
/// and the bloom allows one of the scope.
///
/// # Errors
/// The first block that does not fit its header.
pub(crate) fn check(
    fetched: &mut [Fetched],
    headers: &[WireBlock],
    (want, checks): (&Want, Checks),
) -> Result<Vec<u64>, Refusal> {
    let proof = provable(want, checks);
    let mut open = Vec::new();
    let mut blooms_filled = checks.blooms_filled;
    for (at, one) in fetched.iter_mut().enumerate() {
        let refusal = |what: &str| Refusal {
            block: one.block.clock.block_ref(),
            what: what.to_owned(),
        };
        let header = headers.get(at);
        let header = header.ok_or_else(|| refusal("no endpoint shows its header"))?;
        check_header(one, header, want).map_err(refusal)?;
        if want.datasets.contains(Dataset::Logs) && checks.bloom {
            check_bloom(&one.block.logs, &header.header().logs_bloom, &want.scope)
                .map_err(refusal)?;
            let is_bare = one.block.logs.is_empty() && want.scope != Scope::All;
            if is_bare && may_hold(&header.header().logs_bloom, &want.scope) {
                open.push(one.block.clock.number);
            }
        }
        let has_bits = !header.header().logs_bloom.is_zero();
        blooms_filled |= has_bits && !one.block.logs.is_empty();
        // A bloom without bits may be one that was never filled.
        one.proof = match has_bits || blooms_filled || is_empty(header) {
            true => proof,
            false => proof.lower(Proof::LINKED),
        };
    }
    Ok(open)
}

/// Clock and transactions must be those of the header.
fn check_header(one: &Fetched, header: &WireBlock, want: &Want) -> Result<(), &'static str> {
    let clock = &one.block.clock;
    let theirs = (header.number(), header.header().timestamp);
    if clock.hash.0 != header.hash.0 || clock.parent_hash.0 != header.header().parent_hash.0 {
        return Err("the endpoints have another block there");
    }
    if (clock.number, clock.timestamp) != theirs {
        return Err("its number or time is not that of its header");
    }
    let hash_at = |index: u32| header.tx_hashes.get(index as usize);
    let is_named = |hash: &[u8; 32], index| hash_at(index) == Some(&B256::from(*hash));
    if !one
        .block
        .txs
        .iter()
        .all(|tx| is_named(&tx.hash.0, tx.index))
    {
        return Err("a transaction that the endpoints do not have there");
    }
    let all = want.datasets.contains(Dataset::TxHashes);
    if all && one.block.txs.len() != header.tx_hashes.len() {
        return Err("a transaction is missing");
    }
    Ok(())
}

/// All logs together make the bloom; some of them only bits that it has.
fn check_bloom(logs: &[Log], theirs: &Bloom, scope: &Scope) -> Result<(), &'static str> {
    let mut computed = Bloom::ZERO;
    for log in logs {
        bloom::add(&mut computed, log.emitter());
        log.topics()
            .for_each(|topic| bloom::add(&mut computed, topic));
    }
    if *theirs & computed != computed {
        return Err("a log that the bloom of the header rules out");
    }
    if *scope == Scope::All && *theirs != computed {
        return Err("a log is missing by the bloom of the header");
    }
    Ok(())
}

/// Whether a bloom allows a log of the scope.
fn may_hold(theirs: &Bloom, scope: &Scope) -> bool {
    let Scope::Only(entries) = scope else {
        return true;
    };
    let admits = |value: &Option<Bytes>| {
        value.as_ref().is_none_or(|value| {
            let mut bits = Bloom::ZERO;
            bloom::add(&mut bits, value);
            *theirs & bits == bits
        })
    };
    let mut entries = entries.iter();
    entries.any(|entry| admits(&entry.emitter) && admits(&entry.topic0))
}

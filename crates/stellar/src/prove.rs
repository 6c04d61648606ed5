//! Whether a ledger is what it says: every hash in it is computed again.

use chronolith_model::{Hash32, Proof};
use sha2::{Digest as _, Sha256};

use crate::calls::{self, TxCall};
use crate::fault::Fault;
use crate::ledger::{Ledger, Version};
use crate::network::Network;
use crate::reader::{Reader, Span};
use crate::schema::WIRE;

/// A ledger whose hashes all fit, with its envelopes paired with their results. That it follows the
/// ledger before is left to the caller, which has both.
#[derive(Clone, Debug)]
pub struct Proven {
    pub(crate) ledger: Ledger,
    /// The envelope of each transaction, in the order in which they were applied: its place in the set.
    pub(crate) envelope_of: Vec<u32>,
    /// The events of each transaction, in the same order.
    pub(crate) calls: Vec<TxCall>,
}

impl Proven {
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is proven of the ledger: its transactions by the hashes of set and results. Of its events the
    /// ledger as a whole says no more than that its header was hashed: one that no hash covers could be changed
    /// or left out. A log says for itself whether a hash covers it
    /// ([`EventPlace::is_proven`](crate::EventPlace::is_proven)).
    #[must_use]
    pub fn proof(&self) -> Proof {
        Proof::LINKED.with_transactions()
    }

    /// How many contract calls have other events than those that were hashed, because the ledger was made again
    /// with events of a newer protocol. They are kept, and count as not proven.
    #[must_use]
    pub fn rewritten_calls(&self) -> usize {
        self.calls.iter().filter(|call| call.rewritten).count()
    }
}

/// Computes header, set and result hashes of a ledger, the hash of each of its envelopes, and the hashes over
/// the events of its contract calls.
///
/// # Errors
/// `Hash` where one does not fit, `Events` where events are not those of a call's result, `Count` or `Unpaired` where envelopes and results are not of each other:
/// with the passphrase of another network none is.
pub fn prove(ledger: Ledger, network: &Network) -> Result<Proven, Fault> {
    let header = &ledger.header;
    let sequence = header.sequence;
    let check = |found: Hash32, expected: Hash32, what: &'static str| {
        let fault = Fault::Hash { sequence, what };
        (found == expected).then_some(()).ok_or(fault)
    };
    let header_hash = sha256(header.content.of(&ledger.raw));
    check(header_hash, header.hash, "header")?;
    check(set_hash(&ledger), header.set_hash, "transaction set")?;
    check(result_hash(&ledger), header.result_hash, "result set")?;
    let envelope_of = pair(&ledger, network)?;
    let calls = calls::check(&ledger)?;
    Ok(Proven {
        ledger,
        envelope_of,
        calls,
    })
}

fn sha256(bytes: &[u8]) -> Hash32 {
    Hash32(Sha256::digest(bytes).into())
}

fn finish(hash: Sha256) -> Hash32 {
    Hash32(hash.finalize().into())
}

fn set_hash(ledger: &Ledger) -> Hash32 {
    let raw = &ledger.raw;
    if ledger.version != Version::V0 {
        return sha256(ledger.set.of(raw));
    }
    // A plain set is hashed with its envelopes in the order of their own hashes.
    let envelopes = ledger.envelopes.iter();
    let mut envelopes: Vec<(Hash32, Span)> = envelopes
        .map(|span| (sha256(span.of(raw)), *span))
        .collect();
    envelopes.sort_unstable_by_key(|(hash, _)| *hash);
    let mut hash = Sha256::new();
    let before = ledger.set.of(raw).get(..32);
    hash.update(before.expect("a plain set begins with the hash of the ledger before"));
    for (_, span) in &envelopes {
        hash.update(span.of(raw));
    }
    finish(hash)
}

fn result_hash(ledger: &Ledger) -> Hash32 {
    let mut hash = Sha256::new();
    hash.update((ledger.txs.len() as u32).to_be_bytes());
    for tx in &ledger.txs {
        hash.update(tx.pair.of(&ledger.raw));
    }
    finish(hash)
}

/// The envelope of each applied transaction. Both lists hold the same transactions in different orders;
/// only the hash of an envelope identifies its transaction.
fn pair(ledger: &Ledger, network: &Network) -> Result<Vec<u32>, Fault> {
    let sequence = ledger.header.sequence;
    let (envelopes, results) = (ledger.envelopes.len(), ledger.txs.len());
    if envelopes != results {
        return Err(Fault::Count {
            sequence,
            envelopes,
            results,
        });
    }
    let mut known: Vec<(Hash32, u32)> = Vec::with_capacity(envelopes);
    for (span, place) in ledger.envelopes.iter().zip(0..) {
        // An envelope of an unknown sort has no hash, and so belongs to no result: not even to one
        // that says its hash is zero.
        let hash = envelope_hash(span.of(&ledger.raw), network);
        known.extend(hash.map(|hash| (hash, place)));
    }
    known.sort_unstable();
    let mut taken = vec![false; envelopes];
    let mut paired = Vec::with_capacity(results);
    for (tx, position) in ledger.txs.iter().zip(0..) {
        let hash = ledger.tx_hash(tx);
        let found = known.binary_search_by_key(&hash, |known| known.0).ok();
        let place = found.and_then(|at| known.get(at)).map(|known| known.1);
        // Each envelope belongs to one result: two alike would leave another without any.
        let is_free = |place: &u32| {
            let taken = taken.get_mut(*place as usize);
            !std::mem::replace(taken.expect("a place is one of an envelope"), true)
        };
        let Some(place) = place.filter(is_free) else {
            return Err(Fault::Unpaired {
                sequence,
                position,
                passphrase: network.passphrase().to_owned(),
            });
        };
        paired.push(place);
    }
    Ok(paired)
}

/// The hash of a transaction: of the network, the sort of envelope, and what was signed.
fn envelope_hash(envelope: &[u8], network: &Network) -> Option<Hash32> {
    let (sort, content) = envelope.split_first_chunk::<4>()?;
    let signed = content.get(..signed_len(*sort, content)?)?;
    let mut hash = Sha256::new();
    hash.update(network.id());
    match u32::from_be_bytes(*sort) {
        // The oldest sort names its account without saying of what sort the key is. It is hashed as if
        // it did, and as the sort that came after it.
        0 => hash.update([0, 0, 0, 2, 0, 0, 0, 0]),
        _ => hash.update(sort),
    }
    hash.update(signed);
    Some(finish(hash))
}

/// How many bytes of an envelope are signed: all but the signatures at its end.
fn signed_len(sort: [u8; 4], content: &[u8]) -> Option<usize> {
    let (schema, types) = &*WIRE;
    let mut reader = Reader::new(content).ok()?;
    let shape = match u32::from_be_bytes(sort) {
        0 => types.transaction_v0,
        2 => types.transaction,
        5 => types.fee_bump,
        _ => return None,
    };
    schema.skip(shape, &mut reader).ok()?;
    Some(reader.at() as usize)
}

//! Events of contract calls, checked against the hash that the chain keeps of them.
//!
//! The result of a successful `InvokeHostFunction` is the SHA-256 of `InvokeHostFunctionSuccessPreImage`: the
//! return value and the events of the call. Results are under the result set's hash, so a changed, removed,
//! added or reordered event of a contract call is found here. No hash covers the events of classic operations,
//! of fees and of failed calls, nor diagnostic events: those are taken from the source unchecked.

use chronolith_model::Hash32;
use sha2::{Digest as _, Sha256};

use crate::events::EventSpans;
use crate::fault::Fault;
use crate::ledger::{Ledger, TxSpans};
use crate::parts::INNER_SUCCESS;
use crate::reader::Reader;
use crate::schema::WIRE;

/// Since this protocol a network emits events of classic operations and fees, and every meta is V4.
const CLASSIC_EVENTS_PROTOCOL: u32 = 23;
/// The version of meta that has events of classic operations.
const META_V4: u32 = 4;

/// The events of one transaction, and which of them its result vouches for.
#[derive(Clone, Debug)]
pub(crate) struct TxCall {
    pub(crate) events: EventSpans,
    /// The operation whose events fit the hash in its result.
    pub(crate) covered: Option<u32>,
    /// Whether its result has the hash of other events: core was configured to rewrite those of old protocols.
    pub(crate) rewritten: bool,
}

/// Finds the events of every transaction, and checks those of contract calls.
///
/// # Errors
/// `Events` where a call's events or return value are not those of its result, `Malformed` where a meta cannot
/// be read.
pub(crate) fn check(ledger: &Ledger) -> Result<Vec<TxCall>, Fault> {
    let txs = ledger.txs.iter().zip(0..);
    txs.map(|(tx, position)| check_tx(ledger, tx, position))
        .collect()
}

fn check_tx(ledger: &Ledger, tx: &TxSpans, position: u32) -> Result<TxCall, Fault> {
    let meta = tx.meta.of(&ledger.raw);
    let wrong = |what: &'static str| Fault::Events {
        sequence: ledger.sequence(),
        position,
        tx: Box::new(ledger.tx_hash(tx)),
        what,
    };
    let mut call = TxCall {
        events: EventSpans::find(meta)?,
        covered: None,
        rewritten: false,
    };
    let Some((operation, expected)) = successful_call(tx.pair.of(&ledger.raw), wrong)? else {
        return Ok(call);
    };
    let Some(found) = hash_of(&call.events, operation, meta) else {
        return Err(wrong(
            "the events or the return value of its contract call are left out",
        ));
    };
    let is_rewritable =
        ledger.protocol() < CLASSIC_EVENTS_PROTOCOL && call.events.meta_version == META_V4;
    match found == expected {
        true => call.covered = Some(operation),
        // Core with BACKFILL_STELLAR_ASSET_EVENTS writes events of old protocols as newer ones have them.
        false if is_rewritable => call.rewritten = true,
        false => {
            return Err(wrong(
                "the events and the return value of its contract call do not fit the hash in its result",
            ));
        }
    }
    Ok(call)
}

/// The operation of a transaction that called a contract, and the hash in its result, where it succeeded.
fn successful_call(
    pair: &[u8],
    wrong: impl Fn(&'static str) -> Fault,
) -> Result<Option<(u32, Hash32)>, Fault> {
    const INVOKE_HOST_FUNCTION: u32 = 24;
    let (schema, types) = &*WIRE;
    let mut reader = Reader::new(pair)?;
    // The transaction's hash and its fee.
    reader.take(32 + 8)?;
    let mut code = reader.u32()?;
    if code.cast_signed() == INNER_SUCCESS {
        // The same of the transaction inside a fee bump.
        reader.take(32 + 8)?;
        code = reader.u32()?;
    }
    if code != 0 {
        return Ok(None);
    }
    let mut found = None;
    for operation in 0..reader.count()? {
        let mut inside = reader.clone();
        schema.skip(types.operation_result, &mut reader)?;
        // The operation was run, what it is, and that it succeeded.
        let is_call =
            inside.u32()? == 0 && inside.u32()? == INVOKE_HOST_FUNCTION && inside.u32()? == 0;
        if !is_call {
            continue;
        }
        let call = (operation, Hash32(inside.array()?));
        if found.replace(call).is_some() {
            return Err(wrong(
                "it has two contract calls, and no protocol allows that",
            ));
        }
    }
    Ok(found)
}

/// The hash of what an operation returned and emitted; none where the meta does not say.
fn hash_of(events: &EventSpans, operation: u32, meta: &[u8]) -> Option<Hash32> {
    let emitted = events.operations.get(operation as usize)?;
    let mut hash = Sha256::new();
    hash.update(events.return_value?.of(meta));
    hash.update((emitted.len() as u32).to_be_bytes());
    for event in emitted {
        hash.update(event.of(meta));
    }
    Some(Hash32(hash.finalize().into()))
}

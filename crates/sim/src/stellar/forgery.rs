//! Ledgers of a byzantine lake: one thing in them was changed, and the object packed again with a right
//! checksum.
//!
//! Most forgeries break a hash of the chain, so that a reader that checks all hashes finds each. Some do not: no
//! hash covers the events of a classic operation or of a fee. Those must never be called proven.

use std::io;

use bytes::Bytes;
use stellar_xdr::{
    ContractEvent, ContractEventBody, InnerTransactionResultResult, InvokeHostFunctionResult,
    LedgerCloseMeta, OperationResult, OperationResultTr, ScVal, TransactionMeta, TransactionResult,
    TransactionResultResult, VecM,
};

use super::chain::StellarChain;
use super::lake::Lake;
use super::made::{Made, MadeTx};
use super::maker::bounded;
use super::{decoded, xdr};
use crate::rng::Rng;

/// What a forgery is drawn from.
const FORGERIES: u64 = 0x5354_0030;

/// What is changed in a ledger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LakeForgery {
    /// The value of a contract call's event is another.
    ChangedEvent,
    /// A contract call's event is gone.
    RemovedEvent,
    /// A contract call's event is there twice.
    DoubledEvent,
    /// Two events of a contract call changed places.
    SwappedEvents,
    /// The transaction's meta says nothing of its contract call.
    DroppedCall,
    /// A contract call returned another value.
    ChangedReturn,
    /// A transaction paid another fee, by its result.
    ChangedResult,
    SwappedTransactions,
    /// What is recorded of a transaction is gone.
    RemovedTransaction,
    /// An envelope's last signature is another.
    ChangedEnvelope,
    /// The ledger closed at another time.
    ChangedHeader,
    /// The ledger is the one before it.
    OtherLedger,
    /// The event of a fee has another value. No hash covers it.
    ChangedFee,
    /// The event of a fee is gone. No hash covers it.
    RemovedFee,
}

impl LakeForgery {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ChangedEvent,
        Self::RemovedEvent,
        Self::DoubledEvent,
        Self::SwappedEvents,
        Self::DroppedCall,
        Self::ChangedReturn,
        Self::ChangedResult,
        Self::SwappedTransactions,
        Self::RemovedTransaction,
        Self::ChangedEnvelope,
        Self::ChangedHeader,
        Self::OtherLedger,
        Self::ChangedFee,
        Self::RemovedFee,
    ];

    /// Whether a hash of the chain shows it.
    #[must_use]
    pub fn breaks_a_hash(self) -> bool {
        !matches!(self, Self::ChangedFee | Self::RemovedFee)
    }

    /// What it is about: `ledgers`, `transactions` or `events`.
    #[must_use]
    pub fn dataset(self) -> &'static str {
        match self {
            Self::ChangedHeader | Self::OtherLedger => "ledgers",
            Self::ChangedResult
            | Self::SwappedTransactions
            | Self::RemovedTransaction
            | Self::ChangedEnvelope => "transactions",
            _ => "events",
        }
    }
}

/// A ledger with a forgery in it.
#[derive(Clone, Debug)]
pub struct Forged {
    /// XDR of the `LedgerCloseMeta`.
    pub raw: Bytes,
    /// The transaction that the forgery is about: its place in the order of applying.
    pub position: Option<u32>,
}

impl Lake {
    /// Puts a ledger with a forgery into its object. Does nothing where the ledger has nothing to forge.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn forge(
        &self,
        chain: &StellarChain,
        sequence: u32,
        forgery: LakeForgery,
    ) -> io::Result<Option<Forged>> {
        let forged = forge(chain, sequence, forgery);
        if let Some(forged) = &forged {
            self.write_with(chain, sequence, Some(&forged.raw))?;
        }
        Ok(forged)
    }
}

/// A ledger of a chain with a forgery in it; none where it has nothing to forge.
#[must_use]
pub fn forge(chain: &StellarChain, sequence: u32, forgery: LakeForgery) -> Option<Forged> {
    let made = chain.ledger(sequence);
    let mut rng = Rng::of(&[
        chain.settings().seed,
        FORGERIES,
        sequence.into(),
        forgery as u64,
    ]);
    let whole = |raw| Forged {
        raw,
        position: None,
    };
    match forgery {
        LakeForgery::ChangedHeader => {
            let at = find(&made.raw, &made.header)?;
            // Protocol, hash of the ledger before, hash of the set; then the time.
            Some(whole(flipped(&made.raw, at + 4 + 32 + 32 + 7).into()))
        }
        LakeForgery::OtherLedger => {
            let has_one_before = sequence > chain.settings().first_ledger;
            has_one_before.then(|| whole(chain.ledger(sequence - 1).raw.clone()))
        }
        LakeForgery::ChangedResult => {
            let (tx, position) = draw(&made, &mut rng, |_| true)?;
            replaced(&made, position, &tx.result, flipped(&tx.result, 7))
        }
        LakeForgery::ChangedEnvelope => {
            let (tx, position) = draw(&made, &mut rng, |_| true)?;
            let last = tx.envelope.len() - 1;
            replaced(&made, position, &tx.envelope, flipped(&tx.envelope, last))
        }
        LakeForgery::SwappedTransactions | LakeForgery::RemovedTransaction => {
            in_processing(&made, &mut rng, forgery)
        }
        LakeForgery::ChangedFee | LakeForgery::RemovedFee => {
            let has_fee = |tx: &MadeTx| match decoded(&tx.meta) {
                TransactionMeta::V4(meta) => !meta.events.is_empty(),
                _ => false,
            };
            let (tx, position) = draw(&made, &mut rng, has_fee)?;
            let mut meta = decoded(&tx.meta);
            forge_fee(&mut meta, forgery);
            replaced(&made, position, &tx.meta, xdr(&meta))
        }
        _ => {
            let (tx, position) = draw(&made, &mut rng, |tx| is_call(&made, tx, forgery))?;
            let mut meta = decoded(&tx.meta);
            forge_call(&mut meta, forgery);
            replaced(&made, position, &tx.meta, xdr(&meta))
        }
    }
}

/// One of the transactions that will do.
fn draw<'a>(
    made: &'a Made,
    rng: &mut Rng,
    does: impl Fn(&MadeTx) -> bool,
) -> Option<(&'a MadeTx, u32)> {
    let txs = made.txs.iter().zip(0..);
    let fit: Vec<(&MadeTx, u32)> = txs.filter(|(tx, _)| does(tx)).collect();
    rng.pick(&fit).copied()
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1;
    }
    bytes
}

/// Where a part begins that lies in the same buffer as the whole.
fn find(whole: &Bytes, part: &Bytes) -> Option<usize> {
    let at = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (at + part.len() <= whole.len()).then_some(at)
}

/// The ledger with another part in place of one.
fn replaced(made: &Made, position: u32, part: &Bytes, other: Vec<u8>) -> Option<Forged> {
    let at = find(&made.raw, part)?;
    let mut raw = made.raw.get(..at)?.to_vec();
    raw.extend(other);
    raw.extend_from_slice(made.raw.get(at + part.len()..)?);
    Some(Forged {
        raw: raw.into(),
        position: Some(position),
    })
}

/// The ledger with two transactions in each other's place, or without one.
fn in_processing(made: &Made, rng: &mut Rng, forgery: LakeForgery) -> Option<Forged> {
    let first = rng.below(made.txs.len().checked_sub(1)? as u64) as usize;
    let ledger = match decoded(&made.raw) {
        LedgerCloseMeta::V0(mut it) => {
            it.tx_processing = tampered(&it.tx_processing, first, forgery)?;
            LedgerCloseMeta::V0(it)
        }
        LedgerCloseMeta::V1(mut it) => {
            it.tx_processing = tampered(&it.tx_processing, first, forgery)?;
            LedgerCloseMeta::V1(it)
        }
        LedgerCloseMeta::V2(mut it) => {
            it.tx_processing = tampered(&it.tx_processing, first, forgery)?;
            LedgerCloseMeta::V2(it)
        }
    };
    Some(Forged {
        raw: xdr(&ledger).into(),
        position: u32::try_from(first).ok(),
    })
}

fn tampered<T: Clone>(list: &VecM<T>, first: usize, forgery: LakeForgery) -> Option<VecM<T>> {
    let mut list = list.to_vec();
    if forgery == LakeForgery::RemovedTransaction {
        list.remove(first);
    } else {
        list.get(first + 1)?;
        list.swap(first, first + 1);
    }
    Some(bounded(list))
}

/// Whether a transaction is a successful contract call whose events the chain has a hash of, with enough of them
/// for the forgery.
fn is_call(made: &Made, tx: &MadeTx, forgery: LakeForgery) -> bool {
    let operations = match decoded::<TransactionResult>(&tx.result).result {
        TransactionResultResult::TxSuccess(operations) => operations,
        TransactionResultResult::TxFeeBumpInnerSuccess(inner) => match inner.result.result {
            InnerTransactionResultResult::TxSuccess(operations) => operations,
            _ => return false,
        },
        _ => return false,
    };
    let mut operations = operations.iter();
    let calls = operations.any(|operation| {
        matches!(
            operation,
            OperationResult::OpInner(OperationResultTr::InvokeHostFunction(
                InvokeHostFunctionResult::Success(_)
            ))
        )
    });
    let meta = decoded(&tx.meta);
    // Ledgers of old protocols with the newest meta were made again, and may have other events.
    let hashed = match &meta {
        TransactionMeta::V3(_) => true,
        TransactionMeta::V4(_) => made.raw.starts_with(&2_u32.to_be_bytes()),
        _ => false,
    };
    let events = events_of(&meta);
    let enough = match forgery {
        LakeForgery::DroppedCall | LakeForgery::ChangedReturn => true,
        LakeForgery::SwappedEvents => matches!(&*events, [first, second, ..] if first != second),
        _ => !events.is_empty(),
    };
    calls && hashed && enough
}

/// The events of the one operation of a contract call.
fn events_of(meta: &TransactionMeta) -> Vec<ContractEvent> {
    match meta {
        TransactionMeta::V3(meta) => {
            let soroban = meta.soroban_meta.as_ref();
            soroban.map(|soroban| soroban.events.to_vec())
        }
        TransactionMeta::V4(meta) => meta.operations.first().map(|first| first.events.to_vec()),
        _ => None,
    }
    .unwrap_or_default()
}

fn forge_call(meta: &mut TransactionMeta, forgery: LakeForgery) {
    let mut events = events_of(meta);
    match forgery {
        LakeForgery::ChangedEvent => events.iter_mut().take(1).for_each(change),
        LakeForgery::RemovedEvent => drop(events.pop()),
        LakeForgery::DoubledEvent => events.extend(events.first().cloned()),
        LakeForgery::SwappedEvents => events.swap(0, 1),
        _ => {}
    }
    let change_return = |value: &mut ScVal| {
        if forgery == LakeForgery::ChangedReturn {
            *value = other(value);
        }
    };
    match meta {
        TransactionMeta::V3(meta) => {
            if let Some(soroban) = &mut meta.soroban_meta {
                soroban.events = bounded(events);
                change_return(&mut soroban.return_value);
            }
            meta.soroban_meta
                .take_if(|_| forgery == LakeForgery::DroppedCall);
        }
        TransactionMeta::V4(meta) => {
            let mut operations = meta.operations.to_vec();
            if let Some(first) = operations.first_mut() {
                first.events = bounded(events);
            }
            meta.operations = bounded(operations);
            if let Some(soroban) = &mut meta.soroban_meta {
                soroban.return_value.iter_mut().for_each(change_return);
            }
            meta.soroban_meta
                .take_if(|_| forgery == LakeForgery::DroppedCall);
        }
        _ => {}
    }
}

fn forge_fee(meta: &mut TransactionMeta, forgery: LakeForgery) {
    if let TransactionMeta::V4(meta) = meta {
        let mut events = meta.events.to_vec();
        if forgery == LakeForgery::RemovedFee {
            events.pop();
        } else if let Some(own) = events.first_mut() {
            change(&mut own.event);
        }
        meta.events = bounded(events);
    }
}

/// Gives an event another value.
fn change(event: &mut ContractEvent) {
    let ContractEventBody::V0(body) = &mut event.body;
    body.data = other(&body.data);
}

/// A value that is not this one.
fn other(value: &ScVal) -> ScVal {
    match value {
        ScVal::U32(6_666) => ScVal::U32(6_667),
        _ => ScVal::U32(6_666),
    }
}

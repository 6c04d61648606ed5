//! What a transaction changed and emitted, in all five versions.

use stellar_xdr::{
    DiagnosticEvent, ExtensionPoint, LedgerEntryChanges, OperationMeta, OperationMetaV2,
    SorobanTransactionMeta, SorobanTransactionMetaV2, TransactionEvent, TransactionEventStage,
    TransactionMeta, TransactionMetaV1, TransactionMetaV2, TransactionMetaV3, TransactionMetaV4,
    VecM,
};

use super::{Family, Outcome};
use crate::stellar::event;
use crate::stellar::maker::{Maker, bounded};

/// The versions of a transaction's meta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::stellar) enum MetaVersion {
    V0,
    V1,
    V2,
    V3,
    V4,
}

/// What a transaction of so many operations left behind. One that did not succeed changed nothing,
/// but it paid for that.
pub(super) fn meta(
    maker: &mut Maker,
    version: MetaVersion,
    family: Family,
    (outcome, operations): (Outcome, usize),
) -> TransactionMeta {
    let operations = if outcome.success() { operations } else { 0 };
    match version {
        MetaVersion::V0 => TransactionMeta::V0(plain(maker, operations)),
        MetaVersion::V1 => TransactionMeta::V1(TransactionMetaV1 {
            tx_changes: maker.make(),
            operations: plain(maker, operations),
        }),
        MetaVersion::V2 => TransactionMeta::V2(TransactionMetaV2 {
            tx_changes_before: maker.make(),
            operations: plain(maker, operations),
            tx_changes_after: maker.make(),
        }),
        MetaVersion::V3 => TransactionMeta::V3(TransactionMetaV3 {
            ext: ExtensionPoint::V0,
            tx_changes_before: maker.make(),
            operations: plain(maker, operations),
            tx_changes_after: maker.make(),
            soroban_meta: (family == Family::Soroban && outcome.success())
                .then(|| soroban_meta(maker)),
        }),
        MetaVersion::V4 => TransactionMeta::V4(newest(maker, family, outcome, operations)),
    }
}

fn newest(
    maker: &mut Maker,
    family: Family,
    outcome: Outcome,
    operations: usize,
) -> TransactionMetaV4 {
    let operations = (0..operations).map(|_| OperationMetaV2 {
        ext: ExtensionPoint::V0,
        changes: maker.make(),
        events: events(maker),
    });
    let operations = bounded(operations.collect());
    let soroban_meta = (family == Family::Soroban).then(|| SorobanTransactionMetaV2 {
        ext: maker.make(),
        return_value: outcome.success().then(|| maker.make()),
    });
    TransactionMetaV4 {
        ext: ExtensionPoint::V0,
        tx_changes_before: maker.make(),
        operations,
        tx_changes_after: maker.make(),
        soroban_meta,
        events: bounded(own_events(maker, family)),
        diagnostic_events: diagnostics(maker),
    }
}

/// Changes of so many operations.
fn plain(maker: &mut Maker, operations: usize) -> VecM<OperationMeta> {
    let metas = (0..operations).map(|_| OperationMeta {
        changes: maker.make::<LedgerEntryChanges>(),
    });
    bounded(metas.collect())
}

fn soroban_meta(maker: &mut Maker) -> SorobanTransactionMeta {
    SorobanTransactionMeta {
        ext: maker.make(),
        events: events(maker),
        return_value: maker.make(),
        diagnostic_events: diagnostics(maker),
    }
}

fn events(maker: &mut Maker) -> VecM<stellar_xdr::ContractEvent> {
    let count = maker.one_of(&[0, 1, 1, 2, 3]);
    bounded((0..count).map(|_| event::event(maker)).collect())
}

/// A fee is always paid; what is left of it comes back after the transaction or after all of them.
fn own_events(maker: &mut Maker, family: Family) -> Vec<TransactionEvent> {
    let mut events = vec![event::fee(maker, TransactionEventStage::BeforeAllTxs)];
    let others: &[TransactionEventStage] = match (family, maker.rng.below(8)) {
        (_, 0) => &[
            TransactionEventStage::AfterTx,
            TransactionEventStage::AfterTx,
            TransactionEventStage::AfterAllTxs,
        ],
        (Family::Soroban, 1..=3) => &[TransactionEventStage::AfterTx],
        (Family::Soroban, _) => &[TransactionEventStage::AfterAllTxs],
        (Family::Classic, _) => &[],
    };
    events.extend(others.iter().map(|&stage| event::fee(maker, stage)));
    events
}

fn diagnostics(maker: &mut Maker) -> VecM<DiagnosticEvent> {
    let count = maker.one_of(&[0, 0, 0, 1, 2]);
    let made = (0..count).map(|_| DiagnosticEvent {
        in_successful_contract_call: maker.make(),
        event: event::diagnostic(maker),
    });
    bounded(made.collect())
}

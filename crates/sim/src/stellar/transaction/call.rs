//! What the result of a contract call says of its events: the hash of them and of the return value.

use stellar_xdr::{
    ContractEvent, Hash, InvokeHostFunctionResult, InvokeHostFunctionSuccessPreImage,
    OperationResult, OperationResultTr, ScVal, TransactionMeta,
};

use crate::stellar::maker::{Maker, bounded};
use crate::stellar::{sha256, xdr};

/// Since this protocol, the events that core writes are those that were hashed.
const OWN_EVENTS_PROTOCOL: u32 = 23;

/// Puts the hash of what a call returned and emitted into its result. Ledgers of old protocols with the newest
/// meta were made again, and core may have rewritten their events: half of those with events keep the hash of
/// others.
pub(super) fn seal(
    maker: &mut Maker,
    results: &mut [OperationResult],
    meta: &TransactionMeta,
    protocol: u32,
) {
    let Some((returned, mut events)) = emitted(meta) else {
        return;
    };
    let made_again = protocol < OWN_EVENTS_PROTOCOL && matches!(meta, TransactionMeta::V4(_));
    if made_again && maker.rng.percent(50) {
        events.pop();
    }
    for result in results {
        if let OperationResult::OpInner(OperationResultTr::InvokeHostFunction(
            InvokeHostFunctionResult::Success(hash),
        )) = result
        {
            *hash = Hash(call_hash(returned.clone(), events.clone()));
        }
    }
}

/// The hash of what a contract call returned and emitted.
fn call_hash(return_value: ScVal, events: Vec<ContractEvent>) -> [u8; 32] {
    let events = bounded(events);
    sha256(&[&xdr(&InvokeHostFunctionSuccessPreImage {
        return_value,
        events,
    })])
}

/// What the one operation of a Soroban transaction returned and emitted.
fn emitted(meta: &TransactionMeta) -> Option<(ScVal, Vec<ContractEvent>)> {
    match meta {
        TransactionMeta::V3(meta) => {
            let soroban = meta.soroban_meta.as_ref()?;
            Some((soroban.return_value.clone(), soroban.events.to_vec()))
        }
        TransactionMeta::V4(meta) => {
            let returned = meta.soroban_meta.as_ref()?.return_value.clone()?;
            Some((returned, meta.operations.first()?.events.to_vec()))
        }
        TransactionMeta::V0(_) | TransactionMeta::V1(_) | TransactionMeta::V2(_) => None,
    }
}

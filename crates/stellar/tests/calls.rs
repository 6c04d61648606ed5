//! Events of contract calls against the hash that the chain keeps of them, and ledgers of a lake that lies.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use chronolith_model::{Block, Verification};
use chronolith_sim::stellar::{LakeForgery, StellarChain, StellarSettings, forge};
use chronolith_stellar::{EventPlace, Fault, Ledger, Network, Stage, prove};
use sha2::{Digest as _, Sha256};
use stellar_xdr::{
    InnerTransactionResultResult, InvokeHostFunctionResult, InvokeHostFunctionSuccessPreImage,
    LedgerCloseMeta, Limits, OperationResult, OperationResultTr, ReadXdr as _, TransactionMeta,
    TransactionResultMeta, TransactionResultPair, TransactionResultResult, WriteXdr as _,
};

fn applied(ledger: LedgerCloseMeta) -> Vec<(TransactionResultPair, TransactionMeta)> {
    let pair = |tx: &TransactionResultMeta| (tx.result.clone(), tx.tx_apply_processing.clone());
    match ledger {
        LedgerCloseMeta::V0(it) => it.tx_processing.iter().map(pair).collect(),
        LedgerCloseMeta::V1(it) => it.tx_processing.iter().map(pair).collect(),
        LedgerCloseMeta::V2(it) => {
            let txs = it.tx_processing.iter();
            txs.map(|tx| (tx.result.clone(), tx.tx_apply_processing.clone()))
                .collect()
        }
    }
}

/// Successful contract calls of a ledger whose results have the hash of the events beside them, and those whose
/// results have another.
fn calls(raw: &Bytes) -> (usize, usize) {
    let ledger = LedgerCloseMeta::from_xdr(raw, Limits::none()).unwrap();
    let applied = applied(ledger);
    let fits = applied.iter().filter_map(|(pair, meta)| {
        let operations = match &pair.result.result {
            TransactionResultResult::TxSuccess(operations) => operations,
            TransactionResultResult::TxFeeBumpInnerSuccess(inner) => match &inner.result.result {
                InnerTransactionResultResult::TxSuccess(operations) => operations,
                _ => return None,
            },
            _ => return None,
        };
        let OperationResult::OpInner(OperationResultTr::InvokeHostFunction(
            InvokeHostFunctionResult::Success(hash),
        )) = operations.first()?
        else {
            return None;
        };
        let (return_value, events) = match meta {
            TransactionMeta::V3(meta) => {
                let soroban = meta.soroban_meta.clone().unwrap();
                (soroban.return_value, soroban.events)
            }
            TransactionMeta::V4(meta) => (
                meta.soroban_meta.clone().unwrap().return_value.unwrap(),
                meta.operations[0].events.clone(),
            ),
            _ => panic!("a contract call without Soroban meta"),
        };
        let preimage = InvokeHostFunctionSuccessPreImage {
            return_value,
            events,
        };
        Some(hash.0 == <[u8; 32]>::from(Sha256::digest(preimage.to_xdr(Limits::none()).unwrap())))
    });
    let fits: Vec<bool> = fits.collect();
    let covered = fits.iter().filter(|fits| **fits).count();
    (covered, fits.len() - covered)
}

/// The chain has a hash of the events of each successful contract call. The program did not look at it: a lake
/// could change, remove and double events, and they were called proven. The hash fits for every call of the
/// real ledgers at hand, and every event of one is marked as covered.
#[test]
fn events_of_real_contract_calls_are_those_of_their_results() {
    let (mut covered, mut marked) = (0, 0);
    let all = support::ledgers();
    for raw in all.iter().flat_map(|(_, ledgers)| ledgers) {
        let (fit, other) = calls(raw);
        assert_eq!(other, 0);
        covered += fit;
    }
    for (network, ledgers) in &all {
        for raw in ledgers {
            let proven = prove(Ledger::walk(raw.clone()).unwrap(), network).unwrap();
            assert_eq!(proven.rewritten_calls(), 0);
            let block = proven.block().unwrap();
            let proven_logs = block.logs.iter().filter(|log| EventPlace::is_proven(log));
            let places = proven_logs.map(|log| EventPlace::read(log).unwrap());
            marked += places
                .filter(|place| place.proven && place.stage == Stage::Operation(0))
                .count();
        }
    }
    assert!(all.is_empty() || covered > 1_400, "{covered} calls");
    assert!(all.is_empty() || marked > 7_000, "{marked} events");
}

/// Every lie of a lake that breaks a hash is refused, and where it is about a contract call the transaction is
/// named. One that breaks none is about events that are not marked as proven, in a ledger that says `linked` of
/// its logs.
#[test]
fn hostile_ledgers_of_a_lying_lake_are_refused_or_not_called_proven() {
    let mut reported = BTreeMap::<LakeForgery, u32>::new();
    for seed in 0..4 {
        let settings = StellarSettings::new(seed);
        let chain = StellarChain::new(settings.clone());
        let network = Network::new(settings.passphrase);
        for (sequence, lie) in (3..60).flat_map(|at| LakeForgery::ALL.map(|lie| (at, lie))) {
            let Some(forged) = forge(&chain, sequence, lie) else {
                continue;
            };
            let made = chain.ledger(sequence);
            let found = Ledger::walk(forged.raw).and_then(|ledger| prove(ledger, &network));
            *reported.entry(lie).or_default() += 1;
            match found {
                Err(Fault::Events {
                    sequence: at,
                    position,
                    tx,
                    ..
                }) => {
                    assert_eq!((at, Some(position)), (sequence, forged.position), "{lie:?}");
                    assert_eq!(*tx, made.txs[position as usize].hash);
                    assert_eq!(lie.dataset(), "events");
                }
                Err(_) => assert_ne!(lie.dataset(), "events", "{lie:?} in {sequence}"),
                // Another ledger is right in itself, and not the one that is due.
                Ok(proven) if lie == LakeForgery::OtherLedger => {
                    assert_ne!(proven.ledger().sequence(), sequence);
                }
                Ok(proven) => {
                    assert!(!lie.breaks_a_hash(), "{lie:?} in {sequence}");
                    assert_eq!(proven.proof().logs(), Verification::Linked);
                    let block = proven.block().unwrap();
                    let truth = prove(Ledger::walk(made.raw.clone()).unwrap(), &network);
                    let truth = truth.unwrap().block().unwrap();
                    let claimed = |block: &Block| -> Vec<_> {
                        let logs = block.logs.iter().filter(|log| EventPlace::is_proven(log));
                        logs.map(|log| (log.tx_index(), log.suffix().to_vec(), log.data().to_vec()))
                            .collect()
                    };
                    assert_eq!(claimed(&block), claimed(&truth));
                }
            }
        }
    }
    for lie in LakeForgery::ALL {
        assert!(reported.contains_key(&lie), "{lie:?} was never told");
    }
}

/// Half of the contract calls with events in old ledgers that were made again have other events than were
/// hashed: kept, counted and not marked.
#[test]
fn rewritten_events_of_old_protocols_are_kept_without_a_mark() {
    let mut rewritten = 0;
    for seed in 0..6 {
        let settings = StellarSettings::new(seed);
        let chain = StellarChain::new(settings.clone());
        let network = Network::new(settings.passphrase);
        for sequence in 12..22 {
            let made = chain.ledger(sequence);
            let (_, other) = calls(&made.raw);
            let proven = prove(Ledger::walk(made.raw.clone()).unwrap(), &network).unwrap();
            assert_eq!(proven.rewritten_calls(), other, "ledger {sequence}");
            rewritten += other;
        }
    }
    assert!(rewritten > 0, "no ledger was made again");
}

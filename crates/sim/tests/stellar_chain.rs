//! The simulated Stellar chain, held to `stellar-xdr` and to hashes that are computed here again.

use std::collections::{BTreeMap, BTreeSet};

use chronolith_sim::stellar::{EventId, Made, StellarChain, StellarSettings};
use sha2::{Digest as _, Sha256};
use stellar_xdr::{
    ContractEvent, ContractEventBody, FeeBumpTransactionInnerTx, GeneralizedTransactionSet, Hash,
    LedgerCloseMeta, LedgerEntryChange, LedgerHeaderHistoryEntry, Limits, MuxedAccount,
    OperationBody, OperationResult, Preconditions, ReadXdr as _, Transaction, TransactionEnvelope,
    TransactionExt, TransactionMeta, TransactionPhase, TransactionResult, TransactionResultPair,
    TransactionResultResult, TransactionResultSet, TransactionSignaturePayload,
    TransactionSignaturePayloadTaggedTransaction as Tagged, TxSetComponent, WriteXdr,
};

const LEDGERS: u32 = 40;

fn xdr(value: &impl WriteXdr) -> Vec<u8> {
    value.to_xdr(Limits::none()).expect("valid XDR")
}

fn sha(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn decode(made: &Made) -> LedgerCloseMeta {
    LedgerCloseMeta::from_xdr(&made.raw, Limits::none()).expect("valid XDR")
}

/// Ledgers of all versions, of two seeds.
fn ledgers() -> Vec<(StellarChain, Made)> {
    let mut all = Vec::new();
    for seed in [1, 2] {
        let chain = StellarChain::new(StellarSettings::new(seed));
        let ledgers = (2..2 + LEDGERS).map(|sequence| (*chain.ledger(sequence)).clone());
        all.extend(ledgers.map(|made| (chain.clone(), made)));
    }
    all
}

/// The parts of a processed transaction, whatever the version of its ledger.
struct Processed {
    pair: TransactionResultPair,
    fee: Vec<u8>,
    meta: TransactionMeta,
    post: Vec<u8>,
}

fn header(ledger: &LedgerCloseMeta) -> &LedgerHeaderHistoryEntry {
    match ledger {
        LedgerCloseMeta::V0(meta) => &meta.ledger_header,
        LedgerCloseMeta::V1(meta) => &meta.ledger_header,
        LedgerCloseMeta::V2(meta) => &meta.ledger_header,
    }
}

fn processed(ledger: &LedgerCloseMeta) -> Vec<Processed> {
    let old = |tx: &stellar_xdr::TransactionResultMeta| Processed {
        pair: tx.result.clone(),
        fee: xdr(&tx.fee_processing),
        meta: tx.tx_apply_processing.clone(),
        post: Vec::new(),
    };
    match ledger {
        LedgerCloseMeta::V0(meta) => meta.tx_processing.iter().map(old).collect(),
        LedgerCloseMeta::V1(meta) => meta.tx_processing.iter().map(old).collect(),
        LedgerCloseMeta::V2(meta) => {
            let new = |tx: &stellar_xdr::TransactionResultMetaV1| Processed {
                pair: tx.result.clone(),
                fee: xdr(&tx.fee_processing),
                meta: tx.tx_apply_processing.clone(),
                post: xdr(&tx.post_tx_apply_fee_processing),
            };
            meta.tx_processing.iter().map(new).collect()
        }
    }
}

/// All envelopes of a set, in its order.
fn envelopes(ledger: &LedgerCloseMeta) -> Vec<TransactionEnvelope> {
    let GeneralizedTransactionSet::V1(set) = match ledger {
        LedgerCloseMeta::V0(meta) => return meta.tx_set.txs.to_vec(),
        LedgerCloseMeta::V1(meta) => &meta.tx_set,
        LedgerCloseMeta::V2(meta) => &meta.tx_set,
    };
    let mut all = Vec::new();
    for phase in set.phases.iter() {
        match phase {
            TransactionPhase::V0(components) => {
                for component in components.iter() {
                    let TxSetComponent::TxsetCompTxsMaybeDiscountedFee(component) = component;
                    all.extend(component.txs.iter().cloned());
                }
            }
            TransactionPhase::V1(parallel) => {
                let stages = parallel.execution_stages.iter();
                let clusters = stages.flat_map(|stage| stage.0.iter());
                all.extend(clusters.flat_map(|cluster| cluster.0.iter().cloned()));
            }
        }
    }
    all
}

/// The hash of a transaction, from what is signed.
fn tx_hash(network_id: [u8; 32], envelope: &TransactionEnvelope) -> [u8; 32] {
    let tagged_transaction = match envelope {
        TransactionEnvelope::TxV0(old) => Tagged::Tx(Transaction {
            source_account: MuxedAccount::Ed25519(old.tx.source_account_ed25519.clone()),
            fee: old.tx.fee,
            seq_num: old.tx.seq_num.clone(),
            cond: match &old.tx.time_bounds {
                Some(bounds) => Preconditions::Time(bounds.clone()),
                None => Preconditions::None,
            },
            memo: old.tx.memo.clone(),
            operations: old.tx.operations.clone(),
            ext: TransactionExt::V0,
        }),
        TransactionEnvelope::Tx(envelope) => Tagged::Tx(envelope.tx.clone()),
        TransactionEnvelope::TxFeeBump(envelope) => Tagged::TxFeeBump(envelope.tx.clone()),
    };
    sha(xdr(&TransactionSignaturePayload {
        network_id: Hash(network_id),
        tagged_transaction,
    }))
}

fn inner_hash(network_id: [u8; 32], envelope: &TransactionEnvelope) -> Option<[u8; 32]> {
    let TransactionEnvelope::TxFeeBump(bump) = envelope else {
        return None;
    };
    let FeeBumpTransactionInnerTx::Tx(inner) = &bump.tx.inner_tx;
    Some(tx_hash(network_id, &TransactionEnvelope::Tx(inner.clone())))
}

#[test]
fn ledgers_decode_and_encode_to_the_same_bytes() {
    let mut versions = BTreeMap::new();
    for (_, made) in ledgers() {
        let ledger = decode(&made);
        assert_eq!(xdr(&ledger), made.raw, "ledger {}", made.sequence);
        *versions.entry(ledger.name()).or_insert(0) += 1;
    }
    assert_eq!(versions.len(), 3, "{versions:?}");
    assert!(versions.values().all(|&count| count >= 20), "{versions:?}");
}

#[test]
fn headers_link_and_name_their_content() {
    let mut previous = BTreeMap::new();
    let mut times = BTreeSet::new();
    for (chain, made) in ledgers() {
        let seed = chain.settings().seed;
        let ledger = decode(&made);
        let entry = header(&ledger);
        assert_eq!(entry.hash.0, sha(xdr(&entry.header)));
        assert_eq!(entry.hash.0, made.hash.0);
        assert_eq!(xdr(&entry.header), made.header);
        assert_eq!(entry.header.ledger_seq, made.sequence);
        let before = previous.insert(seed, (made.hash, made.close_time));
        let (hash, time) = before.unwrap_or((chain.genesis_hash(), made.close_time));
        assert_eq!(entry.header.previous_ledger_hash.0, hash.0);
        assert_eq!(made.previous_hash, hash);
        assert_eq!(entry.header.scp_value.close_time.0, made.close_time);
        times.insert(made.close_time.checked_sub(time).expect("time continues"));
        let results: Vec<_> = processed(&ledger).into_iter().map(|tx| tx.pair).collect();
        let results = TransactionResultSet {
            results: results.try_into().unwrap(),
        };
        assert_eq!(entry.header.tx_set_result_hash.0, sha(xdr(&results)));
        let set_hash = match &ledger {
            LedgerCloseMeta::V0(meta) => {
                assert_eq!(meta.tx_set.previous_ledger_hash.0, hash.0);
                let mut txs: Vec<Vec<u8>> = meta.tx_set.txs.iter().map(xdr).collect();
                txs.sort_by_key(|tx| sha(tx));
                sha([&hash.0[..], &txs.concat()].concat())
            }
            LedgerCloseMeta::V1(meta) => sha(xdr(&meta.tx_set)),
            LedgerCloseMeta::V2(meta) => sha(xdr(&meta.tx_set)),
        };
        assert_eq!(entry.header.scp_value.tx_set_hash.0, set_hash);
    }
    assert_eq!(times, BTreeSet::from([0, 5, 6]), "equal times happen");
}

#[test]
fn envelopes_are_paired_with_their_results() {
    let (mut moved, mut bumps, mut failed) = (0, 0, 0);
    let mut kinds = BTreeSet::new();
    for (chain, made) in ledgers() {
        let ledger = decode(&made);
        let set = envelopes(&ledger);
        let hashes: Vec<_> = set
            .iter()
            .map(|tx| tx_hash(chain.network_id(), tx))
            .collect();
        let applied: Vec<_> = made.txs.iter().map(|tx| tx.hash.0).collect();
        moved += u32::from(hashes != applied);
        let by_hash: BTreeMap<_, _> = hashes.into_iter().zip(&set).collect();
        assert_eq!(by_hash.len(), made.txs.len());
        let processed = processed(&ledger);
        assert_eq!(processed.len(), made.txs.len());
        for (tx, processed) in made.txs.iter().zip(processed) {
            let envelope = by_hash[&tx.hash.0];
            kinds.insert(envelope.name());
            assert_eq!(xdr(envelope), tx.envelope);
            assert_eq!(processed.pair.transaction_hash.0, tx.hash.0);
            assert_eq!(xdr(&processed.pair.result), tx.result);
            assert_eq!(processed.fee, tx.fee_processing);
            assert_eq!(xdr(&processed.meta), tx.meta);
            assert_eq!(processed.post, tx.post_fee_processing);
            let inner = inner_hash(chain.network_id(), envelope);
            assert_eq!(inner, tx.inner_hash.map(|hash| hash.0));
            let (claimed, success) = match &processed.pair.result.result {
                TransactionResultResult::TxFeeBumpInnerSuccess(pair) => {
                    (Some(pair.transaction_hash.0), true)
                }
                TransactionResultResult::TxFeeBumpInnerFailed(pair) => {
                    (Some(pair.transaction_hash.0), false)
                }
                TransactionResultResult::TxSuccess(_) => (None, true),
                _ => (None, false),
            };
            assert_eq!(claimed, inner, "the result names the inner transaction");
            assert_eq!(success, tx.success);
            bumps += u32::from(inner.is_some());
            failed += u32::from(!success);
        }
    }
    assert!(
        moved > 40 && bumps > 50 && failed > 50,
        "{moved} {bumps} {failed}"
    );
    assert_eq!(kinds, BTreeSet::from(["TxV0", "Tx", "TxFeeBump"]));
}

/// Ids are counted here in another way: by sorting, and then by looking at what comes before.
#[test]
fn events_have_the_ids_of_stellar_rpc() {
    let mut stages = BTreeMap::new();
    let mut topics = BTreeSet::new();
    let (mut without_contract, mut of_failed) = (0, 0);
    for (_, made) in ledgers() {
        let mut expected: BTreeMap<(u32, u32), Vec<ContractEvent>> = BTreeMap::new();
        for (tx, number) in processed(&decode(&made)).into_iter().zip(1..) {
            let mut push = |tx, operation, event| {
                expected.entry((tx, operation)).or_default().push(event);
            };
            match tx.meta {
                TransactionMeta::V3(meta) => {
                    for event in meta.soroban_meta.iter().flat_map(|meta| meta.events.iter()) {
                        push(number, 0, event.clone());
                    }
                }
                TransactionMeta::V4(meta) => {
                    for (operation, at) in meta.operations.iter().zip(0..) {
                        for event in operation.events.iter() {
                            push(number, at, event.clone());
                        }
                    }
                    for event in meta.events.iter() {
                        let (tx, at) = match event.stage as i32 {
                            0 => (0, 0),
                            1 => (number, 4095),
                            _ => (1_048_575, 0),
                        };
                        *stages.entry(event.stage as i32).or_insert(0) += 1;
                        push(tx, at, event.event.clone());
                    }
                }
                _ => {}
            }
        }
        let expected = expected.into_iter().flat_map(|((tx, operation), events)| {
            let events = events.into_iter().zip(0_u32..);
            events.map(move |(event, at)| {
                let toid = (u64::from(made.sequence) << 32) + (u64::from(tx) << 12);
                let id = format!("{:019}-{at:010}", toid + u64::from(operation));
                (id, event)
            })
        });
        let expected: Vec<_> = expected.collect();
        let events = made.events();
        let got: Vec<_> = events.iter().map(|event| event.id.to_string()).collect();
        assert!(got.is_sorted(), "as text too");
        for event in &events {
            let ContractEventBody::V0(body) = &event.event.body;
            topics.insert(body.topics.len());
            assert_eq!(event.topics().len(), body.topics.len());
            without_contract += u32::from(event.contract_id().is_none());
            of_failed += u32::from(!event.success);
            assert_eq!(event.success, made.txs[event.tx_position as usize].success);
        }
        let got = got
            .into_iter()
            .zip(events.into_iter().map(|event| event.event));
        assert_eq!(got.collect::<Vec<_>>(), expected);
    }
    assert_eq!(topics, (0..=5).collect());
    assert_eq!(stages.len(), 3, "{stages:?}");
    assert!(without_contract > 10 && of_failed > 10);
}

/// Ledgers that were filled up are as sound as any: the checks of all others hold for them too.
#[test]
fn large_ledgers_hold_together() {
    let mut settings = StellarSettings::large(4);
    (settings.v1_from, settings.v2_from) = (12, 16);
    settings.target_bytes = 60_000;
    let chain = StellarChain::new(settings);
    for made in (2..20).map(|sequence| chain.ledger(sequence)) {
        assert!((60_000..80_000).contains(&made.raw.len()), "{made:?}");
        let ledger = decode(&made);
        assert_eq!(xdr(&ledger), made.raw, "ledger {}", made.sequence);
        let set = envelopes(&ledger);
        let hashes = set
            .iter()
            .map(|tx| (tx_hash(chain.network_id(), tx), xdr(tx)));
        let hashes: BTreeMap<_, _> = hashes.collect();
        assert_eq!(hashes.len(), made.txs.len(), "no two are equal");
        for (tx, processed) in made.txs.iter().zip(processed(&ledger)) {
            assert_eq!(hashes[&tx.hash.0], tx.envelope);
            assert_eq!(xdr(&processed.meta), tx.meta);
            assert_eq!(processed.post, tx.post_fee_processing);
        }
        let marks: [&[u8]; 2] = [&[0xa1; 32], &0x5a51_5a52_5a53_5a54_u64.to_be_bytes()];
        for mark in marks {
            let left = made.raw.windows(mark.len()).any(|part| part == mark);
            assert!(!left, "a mark was not replaced");
        }
    }
    assert!(chain.ledger(18).events().len() > 40);
}

#[test]
fn an_id_reads_as_in_stellar_rpc() {
    let id = EventId {
        ledger: 1_027_640,
        tx: 3,
        operation: 0,
        event: 1,
    };
    assert_eq!(id.to_string(), "0004413680192073728-0000000001");
}

#[test]
fn equal_seeds_give_equal_bytes_in_any_order() {
    let chain = |seed| StellarChain::new(StellarSettings::new(seed));
    let (one, other) = (chain(5), chain(5));
    let last = one.ledger(70);
    for sequence in (2..=70).rev() {
        assert_eq!(other.ledger(sequence).raw, one.ledger(sequence).raw);
    }
    assert_eq!(other.ledger(70).hash, last.hash);
    assert_ne!(chain(6).ledger(70).hash, last.hash);
    let mut later = StellarSettings::new(5);
    later.first_ledger = 64;
    let later = StellarChain::new(later);
    assert_eq!(later.ledger(64).previous_hash, later.genesis_hash());
    assert_eq!(
        later.ledger(64).txs[0].envelope,
        one.ledger(64).txs[0].envelope
    );
}

/// A reader that is tested on these ledgers has met everything that a ledger can hold.
#[test]
fn every_kind_of_thing_is_met() {
    let mut operations = BTreeSet::new();
    let mut results = BTreeSet::new();
    let mut entries = BTreeSet::new();
    let mut changes = BTreeSet::new();
    let mut values = BTreeSet::new();
    let mut metas = BTreeSet::new();
    let mut settings = StellarSettings::new(3);
    settings.transactions = 40;
    let chain = StellarChain::new(settings);
    for made in (2..2 + LEDGERS).map(|sequence| chain.ledger(sequence)) {
        for tx in &made.txs {
            let envelope = TransactionEnvelope::from_xdr(&tx.envelope, Limits::none()).unwrap();
            operations.extend(bodies(&envelope).iter().map(OperationBody::name));
            let result = TransactionResult::from_xdr(&tx.result, Limits::none()).unwrap();
            results.insert(result.result.name());
            let meta = TransactionMeta::from_xdr(&tx.meta, Limits::none()).unwrap();
            metas.insert(meta.name());
            let fee = stellar_xdr::LedgerEntryChanges::from_xdr(&tx.fee_processing, Limits::none());
            for change in fee.unwrap().0.iter() {
                changes.insert(change.name());
                if let LedgerEntryChange::Created(entry) = change {
                    entries.insert(entry.data.name());
                }
            }
            if let TransactionResultResult::TxSuccess(all) = &result.result {
                assert!(all.iter().all(succeeded), "{all:?}");
            }
            if let TransactionResultResult::TxFailed(all) = &result.result {
                assert_eq!(all.iter().filter(|result| !succeeded(result)).count(), 1);
            }
        }
        for event in made.events() {
            let ContractEventBody::V0(body) = &event.event.body;
            values.extend(body.topics.iter().map(stellar_xdr::ScVal::name));
        }
    }
    assert_eq!(
        operations.len(),
        OperationBody::VARIANTS.len(),
        "{operations:?}"
    );
    assert!(results.len() >= 18, "{results:?}");
    assert_eq!(entries.len(), 10, "{entries:?}");
    assert_eq!(changes.len(), 5, "{changes:?}");
    // All but the one that came after protocol 23.
    let known = stellar_xdr::ScVal::VARIANTS.len() - 1;
    assert_eq!(values.len(), known, "{values:?}");
    assert_eq!(metas.len(), 5, "{metas:?}");
}

/// Ledgers that said protocol 23 held types of protocol 30, and no released client could read them: tests with
/// real clients covered less than they seemed to.
#[test]
fn ledgers_hold_nothing_that_is_newer_than_their_protocol() {
    const NEWER: [&str; 11] = [
        "ExternalRef",
        "ExecutableTag",
        "MuxedContract",
        "AddressV2",
        "AddressWithDelegates",
        "SignedMs",
        "EmptyTxSet",
        "Frozen",
        "FreezeBypass",
        "WithAddress",
        "Bn254",
    ];
    let mut settings = StellarSettings::new(5);
    settings.transactions = 30;
    let chain = StellarChain::new(settings);
    for made in (2..2 + LEDGERS).map(|sequence| chain.ledger(sequence)) {
        let ledger = decode(&made);
        assert!(header(&ledger).header.ledger_version <= 23);
        let reported = format!("{ledger:?}");
        for name in NEWER {
            assert!(
                !reported.contains(name),
                "{name} in ledger {}",
                made.sequence
            );
        }
    }
}

/// A chain can be moved in time, so that its newest ledger is news.
#[test]
fn ledgers_close_on_request() {
    let mut settings = StellarSettings::new(6);
    let before = StellarChain::new(settings.clone()).ledger(20).close_time;
    settings.genesis_time += 1_000_000;
    let after = StellarChain::new(settings).ledger(20).close_time;
    assert_eq!(after, before + 1_000_000);
}

/// The same for what stands around transactions.
#[test]
fn everything_around_transactions_is_met() {
    let mut settings = StellarSettings::new(8);
    (settings.v1_from, settings.v2_from) = (60, 160);
    settings.transactions = 12;
    let chain = StellarChain::new(settings);
    let mut met = BTreeMap::new();
    let mut meet = |what: &'static str, how_many: usize| *met.entry(what).or_insert(0) += how_many;
    for made in (2..360).map(|sequence| chain.ledger(sequence)) {
        let ledger = decode(&made);
        meet("upgrades", header(&ledger).header.scp_value.upgrades.len());
        let (ext, set) = match &ledger {
            LedgerCloseMeta::V0(meta) => {
                meet("upgrades processed", meta.upgrades_processing.len());
                meet("messages of V0", meta.scp_info.len());
                continue;
            }
            LedgerCloseMeta::V1(meta) => {
                meet("upgrades processed", meta.upgrades_processing.len());
                meet("messages of V1", meta.scp_info.len());
                meet("evicted of V1", meta.evicted_keys.len());
                meet("unused of V1", meta.unused.len());
                (&meta.ext, &meta.tx_set)
            }
            LedgerCloseMeta::V2(meta) => {
                meet("upgrades processed", meta.upgrades_processing.len());
                meet("messages of V2", meta.scp_info.len());
                meet("evicted of V2", meta.evicted_keys.len());
                (&meta.ext, &meta.tx_set)
            }
        };
        meet(ext.name(), 1);
        let GeneralizedTransactionSet::V1(set) = set;
        for phase in set.phases.iter() {
            match phase {
                TransactionPhase::V0(components) => {
                    meet("several components", usize::from(components.len() > 1));
                    meet("no component", usize::from(components.is_empty()));
                }
                TransactionPhase::V1(parallel) => {
                    let stages = &parallel.execution_stages;
                    meet("several stages", usize::from(stages.len() > 1));
                    let clusters = stages.iter().map(|stage| stage.0.len()).max();
                    meet("several clusters", usize::from(clusters > Some(1)));
                }
            }
        }
        for tx in processed(&ledger) {
            if let TransactionMeta::V4(meta) = tx.meta {
                meet("diagnostic events", meta.diagnostic_events.len());
            }
        }
    }
    assert_eq!(met.len(), 15, "{met:?}");
    assert!(met.values().all(|&times| times > 0), "{met:?}");
    assert_eq!(met["upgrades"], met["upgrades processed"]);
}

/// Golden hashes: a change here changes every chain that any seed ever named.
#[test]
fn the_chains_never_change() {
    let check = |settings, sequence, hash: &str| {
        let made = StellarChain::new(settings).ledger(sequence);
        let sha = sha(&made.raw);
        let sha: String = sha.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sha, hash);
    };
    check(
        StellarSettings::new(1),
        40,
        "a4ec711f588d52824afeec0b34e681339b06caaa4dd2da42b7a3eca41ee9d720",
    );
    check(
        StellarSettings::large(1),
        3,
        "a0ca879d4e9df03e26fa2c5f3421e09797a356562c167076c71294fc098e75fd",
    );
}

fn bodies(envelope: &TransactionEnvelope) -> Vec<OperationBody> {
    let operations = match envelope {
        TransactionEnvelope::TxV0(envelope) => &envelope.tx.operations,
        TransactionEnvelope::Tx(envelope) => &envelope.tx.operations,
        TransactionEnvelope::TxFeeBump(envelope) => {
            let FeeBumpTransactionInnerTx::Tx(inner) = &envelope.tx.inner_tx;
            &inner.tx.operations
        }
    };
    operations
        .iter()
        .map(|operation| operation.body.clone())
        .collect()
}

/// Every operation's result begins with its type and then its code, and success is code 0.
fn succeeded(result: &OperationResult) -> bool {
    let OperationResult::OpInner(inner) = result else {
        return false;
    };
    xdr(inner).get(4..8) == Some(&[0; 4])
}

//! What the walk says of a ledger is what a full decoder says of it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use arbitrary::{Arbitrary as _, Unstructured};
use bytes::Bytes;
use chronolith_model::{Block, ChainProfile, Tx};
use chronolith_sim::stellar::{StellarChain, StellarSettings};
use chronolith_stellar::{
    EventPlace, Fault, Ledger, Network, TxParts, join, prove, skeleton_count, skeleton_header,
};
use proptest::prelude::*;
use stellar_xdr::{
    ContractEvent, ContractEventBody, GeneralizedTransactionSet, LedgerCloseMeta,
    LedgerHeaderHistoryEntry, Limits, ReadXdr as _, TransactionEnvelope, TransactionEventStage,
    TransactionMeta, TransactionPhase, TransactionResultPair, TransactionResultResult,
    TxSetComponent, WriteXdr,
};

fn xdr(value: &impl WriteXdr) -> Vec<u8> {
    value.to_xdr(Limits::none()).unwrap()
}

/// A transaction as the decoder has it.
struct Applied<'a> {
    pair: &'a TransactionResultPair,
    meta: &'a TransactionMeta,
}

struct Decoded<'a> {
    header: &'a LedgerHeaderHistoryEntry,
    envelopes: Vec<&'a TransactionEnvelope>,
    applied: Vec<Applied<'a>>,
}

fn envelopes_of(set: &GeneralizedTransactionSet) -> Vec<&TransactionEnvelope> {
    let GeneralizedTransactionSet::V1(set) = set;
    let mut all = Vec::new();
    for phase in set.phases.iter() {
        match phase {
            TransactionPhase::V0(components) => {
                for component in components.iter() {
                    let TxSetComponent::TxsetCompTxsMaybeDiscountedFee(component) = component;
                    all.extend(component.txs.iter());
                }
            }
            TransactionPhase::V1(parallel) => {
                let clusters = parallel
                    .execution_stages
                    .iter()
                    .flat_map(|stage| stage.0.iter());
                clusters.for_each(|cluster| all.extend(cluster.0.iter()));
            }
        }
    }
    all
}

fn decoded(ledger: &LedgerCloseMeta) -> Decoded<'_> {
    match ledger {
        LedgerCloseMeta::V0(it) => Decoded {
            header: &it.ledger_header,
            envelopes: it.tx_set.txs.iter().collect(),
            applied: (it.tx_processing.iter())
                .map(|tx| Applied {
                    pair: &tx.result,
                    meta: &tx.tx_apply_processing,
                })
                .collect(),
        },
        LedgerCloseMeta::V1(it) => Decoded {
            header: &it.ledger_header,
            envelopes: envelopes_of(&it.tx_set),
            applied: (it.tx_processing.iter())
                .map(|tx| Applied {
                    pair: &tx.result,
                    meta: &tx.tx_apply_processing,
                })
                .collect(),
        },
        LedgerCloseMeta::V2(it) => Decoded {
            header: &it.ledger_header,
            envelopes: envelopes_of(&it.tx_set),
            applied: (it.tx_processing.iter())
                .map(|tx| Applied {
                    pair: &tx.result,
                    meta: &tx.tx_apply_processing,
                })
                .collect(),
        },
    }
}

/// Events of a transaction in the order of the archive, with stage and number as ids have them.
fn events<'a>(
    meta: &'a TransactionMeta,
    (tx, before, after): (u32, &mut u32, &mut u32),
) -> Vec<((u32, u32, u32), &'a ContractEvent)> {
    let mut all = Vec::new();
    match meta {
        TransactionMeta::V3(meta) => {
            let found = meta.soroban_meta.iter().flat_map(|meta| meta.events.iter());
            all.extend(found.zip(0..).map(|(event, at)| ((tx, 0, at), event)));
        }
        TransactionMeta::V4(meta) => {
            let own = |stage| meta.events.iter().filter(move |own| own.stage == stage);
            for own in own(TransactionEventStage::BeforeAllTxs) {
                all.push(((0, 0, *before), &own.event));
                *before += 1;
            }
            for (operation, at) in meta.operations.iter().zip(0..) {
                let numbered = operation.events.iter().zip(0..);
                all.extend(numbered.map(|(event, number)| ((tx, at, number), event)));
            }
            let numbered = own(TransactionEventStage::AfterTx).zip(0..);
            all.extend(numbered.map(|(own, number)| ((tx, 0xfff, number), &own.event)));
            for own in own(TransactionEventStage::AfterAllTxs) {
                all.push(((0xf_ffff, 0, *after), &own.event));
                *after += 1;
            }
        }
        _ => {}
    }
    all
}

fn inner_hash(pair: &TransactionResultPair) -> Option<[u8; 32]> {
    match &pair.result.result {
        TransactionResultResult::TxFeeBumpInnerSuccess(inner)
        | TransactionResultResult::TxFeeBumpInnerFailed(inner) => Some(inner.transaction_hash.0),
        _ => None,
    }
}

/// Compares a block with the decoded ledger, part by part.
fn compare(block: &Block, raw: &Bytes, network: &Network) {
    let ledger = LedgerCloseMeta::from_xdr(raw, Limits::none()).unwrap();
    let it = decoded(&ledger);
    let header = &it.header.header;
    assert_eq!(block.clock.number, u64::from(header.ledger_seq));
    assert_eq!(block.clock.hash.0, it.header.hash.0);
    assert_eq!(block.clock.parent_hash.0, header.previous_ledger_hash.0);
    assert_eq!(block.clock.timestamp, header.scp_value.close_time.0);
    let (skeleton, bodies) = (
        block.payload.header.as_ref().unwrap(),
        block.payload.bodies.as_ref().unwrap(),
    );
    assert_eq!(join(skeleton, bodies).unwrap(), raw, "the bytes come back");
    let profile = ChainProfile::STELLAR;
    assert_eq!(profile.check(block, true), Ok(()), "an archive takes it");
    assert_eq!(skeleton_header(skeleton).unwrap(), xdr(it.header));
    assert_eq!(skeleton_count(skeleton).unwrap(), it.applied.len());
    let mut logs = block.logs.iter();
    let (mut before, mut after) = (0, 0);
    let mut aliases = Vec::new();
    for (applied, at) in it.applied.iter().zip(0_u32..) {
        let hash = applied.pair.transaction_hash.0;
        assert_eq!(block.txs[at as usize].hash.0, hash);
        aliases.extend(inner_hash(applied.pair).map(|inner| (at | Tx::ALIAS, inner)));
        let parts = TxParts::read(&bodies[at as usize]).unwrap();
        assert_eq!(
            (parts.hash.0, parts.inner_hash.map(|hash| hash.0)),
            (hash, inner_hash(applied.pair))
        );
        assert_eq!(parts.result, xdr(&applied.pair.result));
        assert_eq!(parts.meta, xdr(applied.meta));
        let envelope = it
            .envelopes
            .iter()
            .find(|one| one.hash(*network.id()).unwrap() == hash);
        assert_eq!(parts.envelope, xdr(*envelope.unwrap()));
        assert_eq!(
            parts.fee_bump,
            matches!(envelope.unwrap(), TransactionEnvelope::TxFeeBump(_))
        );
        check_events(applied.meta, &parts);
        for ((tx, operation, number), event) in
            events(applied.meta, (at + 1, &mut before, &mut after))
        {
            let log = logs.next().unwrap();
            let place = EventPlace::read(log).unwrap();
            let id = place.id(header.ledger_seq);
            assert_eq!(
                (id.place.tx, id.place.operation, id.index),
                (tx, operation, number)
            );
            assert_eq!((log.tx_index(), place.successful), (at, parts.successful));
            check_log(log, &place, event);
        }
    }
    assert_eq!(logs.next(), None);
    let listed = block.txs[it.applied.len()..].iter();
    assert_eq!(
        listed.map(|tx| (tx.index, tx.hash.0)).collect::<Vec<_>>(),
        aliases
    );
    ChainProfile::STELLAR.check(block, true).unwrap();
}

fn check_log(log: &chronolith_model::Log, place: &EventPlace, event: &ContractEvent) {
    let ContractEventBody::V0(body) = &event.body;
    let topics = log.topics().map(<[u8]>::to_vec);
    let topics: Vec<Vec<u8>> = topics
        .chain(place.more_topics.iter().map(|topic| topic.to_vec()))
        .collect();
    assert_eq!(topics, body.topics.iter().map(xdr).collect::<Vec<_>>());
    assert_eq!(log.data(), xdr(&body.data));
    assert_eq!(i32::from(log.kind()), event.type_ as i32);
    let contract = event.contract_id.as_ref().map_or(&[][..], |id| &id.0.0);
    assert_eq!(log.emitter(), contract);
}

fn check_events(meta: &TransactionMeta, parts: &TxParts) {
    let found = parts.events().unwrap();
    let (own, operations, diagnostic) = match meta {
        TransactionMeta::V3(meta) => {
            let soroban = meta.soroban_meta.as_ref();
            let operations = soroban.map(|meta| meta.events.iter().map(xdr).collect::<Vec<_>>());
            let diagnostic = soroban
                .into_iter()
                .flat_map(|meta| meta.diagnostic_events.iter());
            (
                Vec::new(),
                operations.into_iter().collect(),
                diagnostic.map(xdr).collect(),
            )
        }
        TransactionMeta::V4(meta) => (
            meta.events.iter().map(xdr).collect(),
            (meta.operations.iter())
                .map(|operation| operation.events.iter().map(xdr).collect())
                .collect(),
            meta.diagnostic_events.iter().map(xdr).collect(),
        ),
        _ => (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new()),
    };
    assert_eq!(found.transaction, own);
    assert_eq!(found.operations, operations);
    assert_eq!(found.diagnostic, diagnostic);
}

#[test]
fn real_ledgers_are_walked_proven_and_put_together_again() {
    let mut txs = 0;
    let all = support::ledgers();
    for (network, ledgers) in all.clone() {
        let mut before = None;
        for raw in ledgers {
            let ledger = Ledger::walk(raw.clone()).unwrap();
            if let Some(before) = before.replace(ledger.hash()) {
                assert_eq!(ledger.previous_hash(), before);
            }
            txs += ledger.tx_count();
            let block = prove(ledger, &network).unwrap().block().unwrap();
            compare(&block, &raw, &network);
        }
    }
    // 163 of the public network, those of three ledgers of the test network, and a load test of 7,740.
    assert!(all.is_empty() || txs > 7_900, "{txs}");
}

#[test]
fn another_network_is_noticed() {
    for (_, ledgers) in support::ledgers() {
        let some = ledgers.iter().map(|raw| Ledger::walk(raw.clone()).unwrap());
        for ledger in some.filter(|ledger| ledger.tx_count() > 0).take(1) {
            let fault = prove(ledger, &Network::new("another")).unwrap_err();
            assert!(
                matches!(fault, Fault::Unpaired { position: 0, .. }),
                "{fault}"
            );
        }
    }
}

/// Bytes of a ledger of any shape, and what a decoder makes of them.
fn any_ledger() -> impl Strategy<Value = Vec<u8>> {
    let seed = prop::collection::vec(any::<u8>(), 0..12_000);
    seed.prop_filter_map("too few bytes", |seed| {
        let ledger = LedgerCloseMeta::arbitrary(&mut Unstructured::new(&seed)).ok()?;
        ledger.to_xdr(Limits::none()).ok()
    })
}

proptest! {
    #[test]
    fn ledgers_of_every_shape_are_walked_to_their_end(raw in any_ledger()) {
        let ledger = LedgerCloseMeta::from_xdr(&raw, Limits::none()).unwrap();
        let it = decoded(&ledger);
        let walked = Ledger::walk(raw.clone().into()).unwrap();
        prop_assert_eq!(walked.header(), xdr(it.header));
        prop_assert_eq!(walked.tx_count(), it.applied.len());
        let header = &it.header.header;
        prop_assert_eq!(walked.sequence(), header.ledger_seq);
        prop_assert_eq!(walked.close_time(), header.scp_value.close_time.0);
        prop_assert_eq!(walked.protocol(), header.ledger_version);
    }

    #[test]
    fn hostile_ledgers_are_refused_or_walked(raw in any_ledger(), at: prop::sample::Index, byte: u8) {
        let mut raw = raw;
        if !raw.is_empty() {
            let at = at.index(raw.len());
            raw[at] ^= byte;
            let walked = Ledger::walk(raw.clone().into());
            // Whatever the decoder takes, so does the walk.
            if LedgerCloseMeta::from_xdr(&raw, Limits::none()).is_ok() {
                prop_assert!(walked.is_ok());
            }
            raw.truncate(at);
            prop_assert!(Ledger::walk(raw.into()).is_err());
        }
    }

    /// Parts of a real shape with one byte changed, cut off or put in the wrong order: refused, or joined to
    /// bytes no longer than they are.
    #[test]
    fn hostile_parts_are_refused(seed in 0_u64..8, at: prop::sample::Index, byte: u8, body: prop::sample::Index) {
        let chain = StellarChain::new(StellarSettings::new(seed));
        let network = Network::new(chain.settings().passphrase.clone());
        let made = chain.ledger(20 + (seed as u32) * 3);
        let ledger = Ledger::walk(made.raw.clone()).unwrap();
        let block = prove(ledger, &network).unwrap().block().unwrap();
        let (skeleton, bodies) = (block.payload.header.unwrap(), block.payload.bodies.unwrap());
        let bytes = skeleton.len() + bodies.iter().map(Bytes::len).sum::<usize>();
        let mut broken = skeleton.to_vec();
        let place = at.index(broken.len());
        broken[place] ^= byte;
        if let Ok(joined) = join(&broken, &bodies) {
            prop_assert!(joined.len() <= bytes);
        }
        prop_assert!(join(&skeleton[..place], &bodies).map_or(true, |joined| joined != made.raw));
        let _ = skeleton_header(&broken.into());
        if !bodies.is_empty() {
            let which = body.index(bodies.len());
            let mut cut = bodies.clone();
            cut[which] = cut[which].slice(..at.index(cut[which].len()));
            prop_assert!(TxParts::read(&cut[which]).is_err());
            prop_assert!(join(&skeleton, &cut).map_or(true, |joined| joined != made.raw));
            cut.pop();
            prop_assert!(join(&skeleton, &cut).is_err());
        }
    }
}

/// How many bytes of a ledger its hashes vouch for, by the decoder: the header with its hash, the set, and the
/// results.
fn hashed_len(raw: &Bytes) -> usize {
    let ledger = LedgerCloseMeta::from_xdr(raw, Limits::none()).unwrap();
    let it = decoded(&ledger);
    let set = match &ledger {
        LedgerCloseMeta::V0(it) => xdr(&it.tx_set).len(),
        LedgerCloseMeta::V1(it) => xdr(&it.tx_set).len(),
        LedgerCloseMeta::V2(it) => xdr(&it.tx_set).len(),
    };
    let results = it.applied.iter().map(|applied| xdr(applied.pair).len());
    xdr(&it.header.hash).len() + xdr(&it.header.header).len() + set + results.sum::<usize>()
}

/// Flips one bit in each of about so many bytes that hashes vouch for.
fn assert_flips_are_found(raw: &Bytes, network: &Network, flips: usize) {
    let ledger = Ledger::walk(raw.clone()).unwrap();
    let parts: Vec<_> = ledger.hashed().collect();
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
    assert_eq!(bytes, hashed_len(raw), "ledger {}", ledger.sequence());
    for at in parts.into_iter().flatten().step_by((bytes / flips).max(1)) {
        let mut broken = raw.to_vec();
        broken[at] ^= 1 << (at % 8);
        let found = Ledger::walk(broken.into()).and_then(|ledger| prove(ledger, network));
        assert!(found.is_err(), "byte {at} of ledger {}", ledger.sequence());
    }
}

/// What hashes vouch for cannot be changed by one bit.
#[test]
fn a_flipped_bit_in_header_set_or_result_is_found() {
    for (network, ledgers) in support::ledgers() {
        assert_flips_are_found(ledgers.last().unwrap(), &network, 150);
    }
    // No real ledger at hand is V0, so every byte of simulated ones of each version is tried.
    let settings = StellarSettings::new(9);
    let chain = StellarChain::new(settings.clone());
    let network = Network::new(settings.passphrase);
    for (version, ledgers) in [(0, 2..12), (1, 12..22), (2, 22..32)] {
        let mut busy = ledgers.map(|sequence| chain.ledger(sequence));
        let made = busy.find(|made| made.txs.len() > 2).unwrap();
        assert_eq!(made.raw[..4], [0, 0, 0, version], "not the version meant");
        assert_flips_are_found(&made.raw, &network, usize::MAX);
    }
}

/// Simulated ledgers of all versions, with every kind of transaction: what the simulator put in is what is
/// found, and a full decoder agrees.
#[test]
fn simulated_ledgers_are_what_they_were_made_of() {
    for seed in 0..4 {
        let settings = StellarSettings::new(seed);
        let chain = StellarChain::new(settings.clone());
        let network = Network::new(settings.passphrase);
        let mut before = chain.genesis_hash();
        for sequence in settings.first_ledger..settings.first_ledger + 40 {
            let made = chain.ledger(sequence);
            let ledger = Ledger::walk(made.raw.clone()).unwrap();
            assert_eq!((ledger.hash(), ledger.previous_hash()), (made.hash, before));
            before = made.hash;
            let block = prove(ledger, &network).unwrap().block().unwrap();
            compare(&block, &made.raw, &network);
            let bodies = block.payload.bodies.as_ref().unwrap();
            for (tx, body) in made.txs.iter().zip(bodies) {
                let parts = TxParts::read(body).unwrap();
                assert_eq!((parts.hash, parts.inner_hash), (tx.hash, tx.inner_hash));
                assert_eq!(parts.successful, tx.success);
                assert_eq!(
                    (&parts.envelope, &parts.result, &parts.meta),
                    (&tx.envelope, &tx.result, &tx.meta)
                );
            }
            let mut ids: Vec<String> = (block.logs.iter())
                .map(|log| EventPlace::read(log).unwrap().id(sequence).to_string())
                .collect();
            ids.sort();
            let made: Vec<String> = made
                .events()
                .iter()
                .map(|event| event.id.to_string())
                .collect();
            assert_eq!(ids, made, "ledger {sequence}");
        }
    }
}

//! Real ledgers, taken apart into one body a transaction: what packs take beside whole ledgers.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fixture;
mod support;

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, BlockRange, ChainId, ChainProfile, Dataset, DatasetSet, Payload};
use fixture::stellar::stream_ledgers;
use sha2::Digest as _;
use stellar_xdr::{
    GeneralizedTransactionSet, LedgerCloseMeta, Limits, ReadXdr, TransactionEnvelope,
    TransactionPhase, TxSetComponent, WriteXdr,
};
use support::Stores;

const LEDGERS: usize = 30;
const PASSPHRASE: &str = "load test network";
/// What packs may take, for each byte of whole ledgers.
const RATIO_MAX: f64 = 1.02;

fn envelopes(set: &GeneralizedTransactionSet) -> Vec<&TransactionEnvelope> {
    let GeneralizedTransactionSet::V1(set) = set;
    let mut found: Vec<&TransactionEnvelope> = Vec::new();
    for phase in set.phases.iter() {
        match phase {
            TransactionPhase::V0(components) => {
                for component in components.iter() {
                    let TxSetComponent::TxsetCompTxsMaybeDiscountedFee(component) = component;
                    found.extend(component.txs.iter());
                }
            }
            TransactionPhase::V1(parallel) => {
                for stage in parallel.execution_stages.iter() {
                    let clusters = stage.0.iter();
                    clusters.for_each(|cluster| found.extend(cluster.0.iter()));
                }
            }
        }
    }
    found
}

/// Where pieces lie in the bytes, one behind the other.
fn places(raw: &[u8], pieces: &[Vec<u8>], from: &mut usize) -> Vec<std::ops::Range<usize>> {
    let place = |piece: &Vec<u8>| {
        let mut candidates = raw[*from..].windows(piece.len());
        let start = *from + candidates.position(|part| part == &piece[..]).unwrap();
        *from = start + piece.len();
        start..*from
    };
    pieces.iter().map(place).collect()
}

/// A ledger as its skeleton and one body for each transaction: envelope, then processing.
fn taken_apart(raw: &Bytes) -> Payload {
    let LedgerCloseMeta::V2(meta) = LedgerCloseMeta::from_xdr(raw, Limits::none()).unwrap() else {
        panic!("another version");
    };
    let network: [u8; 32] = sha2::Sha256::digest(PASSPHRASE.as_bytes()).into();
    let xdr = |value: &TransactionEnvelope| value.to_xdr(Limits::none()).unwrap();
    let sent = envelopes(&meta.tx_set);
    let order: HashMap<[u8; 32], usize> = sent
        .iter()
        .enumerate()
        .map(|(at, envelope)| (envelope.hash(network).unwrap(), at))
        .collect();
    let sent: Vec<Vec<u8>> = sent.into_iter().map(xdr).collect();
    let processed = meta.tx_processing.iter();
    let processed: Vec<Vec<u8>> = processed
        .map(|tx| tx.to_xdr(Limits::none()).unwrap())
        .collect();
    let mut from = 0;
    let sent_at = places(raw, &sent, &mut from);
    let processed_at = places(raw, &processed, &mut from);
    let bodies = meta
        .tx_processing
        .iter()
        .zip(&processed_at)
        .map(|(tx, place)| {
            let envelope = sent_at[order[&tx.result.transaction_hash.0]].clone();
            Bytes::from([&raw[envelope], &raw[place.clone()]].concat())
        });
    let mut skeleton = Vec::new();
    let mut at = 0;
    for place in sent_at.iter().chain(&processed_at) {
        skeleton.extend_from_slice(&raw[at..place.start]);
        at = place.end;
    }
    skeleton.extend_from_slice(&raw[at..]);
    Payload {
        header: Some(skeleton.into()),
        bodies: Some(bodies.collect()),
        raw: None,
    }
}

async fn ingest(archive: &Archive, blocks: &[Block], size: usize) {
    for batch in blocks.chunks(size) {
        archive
            .ingest_finalized_blocks(batch.to_vec(), &Provenance::default())
            .await
            .unwrap();
        while archive.maintain().await.unwrap() {}
    }
}

/// Packed bytes of all packs, whole objects with their tables and dictionaries.
async fn pack_bytes(stores: &Stores) -> u64 {
    let packs = stores.blobs.list("pack/", None, 10_000).await.unwrap();
    packs.iter().map(|info| info.len).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn ledgers_take_no_more_than_whole_frames() {
    let Some(mut blocks) = stream_ledgers("stellar/load-test-ledgers-v26.xdr.zst", LEDGERS) else {
        return;
    };
    let mut whole = 0;
    for block in &mut blocks {
        let raw = block.payload.raw.take().unwrap();
        whole += zstd::bulk::compress(&raw, 3).unwrap().len() as u64;
        block.payload = taken_apart(&raw);
        (block.logs, block.txs) = (Vec::new(), block.txs.clone());
    }
    let mut settings = Settings::evm(ChainId(7));
    settings.profile = ChainProfile::STELLAR;
    settings.garbage.grace = std::time::Duration::ZERO;
    settings.datasets =
        DatasetSet::of(&[Dataset::TxHashes, Dataset::Headers, Dataset::Transactions]);
    // The fixture is smaller than a pack usually is: packs are to be finished with the last ledgers.
    for (size, full) in [(LEDGERS, 2_000_000), (8, 2_200_000), (1, 2_450_000)] {
        settings.seal.pack_bytes = full;
        let stores = Stores::memory();
        let archive = stores.writer(&settings).await;
        let started = Instant::now();
        ingest(&archive, &blocks, size).await;
        let elapsed = started.elapsed();
        for _ in 0..2 {
            archive
                .collect_garbage(chronolith_archive::GcMode::Remove)
                .await
                .unwrap();
        }
        let packed = pack_bytes(&stores).await;
        let ratio = packed as f64 / whole as f64;
        println!("batches of {size}: {packed} bytes, {ratio:.4} of {whole}, in {elapsed:?}");
        let range = BlockRange::new(blocks[0].clock.number, blocks[0].clock.number + 30);
        for block in blocks.iter().step_by(7) {
            let bodies = block.payload.bodies.as_ref().unwrap();
            let number = block.clock.number;
            let body = archive.body(number, 100).await.unwrap();
            assert_eq!(body, bodies[100]);
            let header = archive.header(number).await.unwrap();
            assert_eq!(Some(header), block.payload.header);
        }
        assert!(
            archive
                .inspect(range, &mut |_| {})
                .await
                .unwrap()
                .is_empty()
        );
        assert!(ratio <= RATIO_MAX, "batches of {size}: {ratio:.4}");
    }
}

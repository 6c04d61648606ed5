//! Verifying ranges: many keys, keys that are equal, segments that overlap, and others at work.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/hooks.rs"]
mod hooks;
#[path = "support/ranges.rs"]
mod ranges;
mod support;

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{
    Archive, Error, GcMode, LedgerPhase, RangeState, Settings, TxCounts, TxHashPhase,
};
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet, Hash32, Scope, Tx};
use chronolith_sim::{Operation, SimChain};
use hooks::{Gate, hooked};
use ranges::{append, at, audit, check_lookups, fill, range_settings, report, settle};
use support::{Stores, tiny_chain};
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Long enough for anything that does not wait for what is held.
const SOON: Duration = Duration::from_secs(30);
/// Transactions that are added to each block.
const MANY_TXS: u32 = 200;

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(start, end)
}

fn hash_of(block: u64, at: u32) -> Hash32 {
    let mut hash = [0; 32];
    for (part, bytes) in (0_u64..).zip(hash.chunks_exact_mut(8)) {
        let mixed = xxh3_64_with_seed(&block.to_le_bytes(), u64::from(at) * 8 + part);
        bytes.copy_from_slice(&mixed.to_le_bytes());
    }
    Hash32(hash)
}

/// The blocks of range 0, with as many transactions as take several pages.
fn crowded(chain: &SimChain) -> Vec<Block> {
    let add = |mut block: Block| {
        let first = block.txs.last().map_or(0, |tx| tx.index + 1);
        let added = (first..first + MANY_TXS).map(|index| Tx {
            index,
            hash: hash_of(block.clock.number, index),
        });
        block.txs.extend(added);
        block
    };
    chain.blocks(blocks(2, 42)).map(add).collect()
}

/// Hashes only, and few keys in memory at once.
fn small_slices() -> Settings {
    let mut settings = range_settings();
    settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    settings.seal.verify_keys = 1_000;
    settings
}

async fn take(archive: &Archive, all: &[Block]) {
    for batch in all.chunks(9) {
        let provenance = at(1);
        let taken = archive.ingest_finalized_blocks(batch.to_vec(), &provenance);
        taken.await.unwrap();
    }
}

/// Takes steps until nothing is left to do for range 0 but to verify it.
async fn until_verifying(archive: &Archive) {
    let ready = (
        Some(LedgerPhase::Immutable),
        Some(TxHashPhase::VerifyingIndex),
    );
    loop {
        let report = report(archive, 0).await;
        if (report.ledger, report.txhash) == ready {
            return;
        }
        assert!(archive.maintain_at(2).await.unwrap(), "{report:?}");
    }
}

async fn fill_with(archive: &Archive, all: &[Block], range: BlockRange, kept: DatasetSet) {
    let mut fill = archive.fill_with(range, kept, Scope::All).unwrap();
    let wanted = all
        .iter()
        .filter(|block| range.contains(block.clock.number));
    let wanted = wanted.cloned().map(|mut block| {
        if !kept.contains(Dataset::TxHashes) {
            block.txs.clear();
        }
        block.logs.clear();
        block.payload = Default::default();
        block
    });
    fill.push(wanted.collect(), &at(3)).await.unwrap();
    fill.finish().await.unwrap();
}

fn counted(all: &[Block]) -> TxCounts {
    let mut keys = TxCounts::default();
    let txs = all.iter().flat_map(|block| &block.txs);
    txs.for_each(|tx| keys.count(&tx.hash));
    keys
}

#[tokio::test]
async fn every_hash_is_looked_up_in_slices_where_segments_overlap() {
    let (chain, stores) = (tiny_chain(86), Stores::memory());
    let archive = stores.writer(&small_slices()).await;
    let mut all = crowded(&chain);
    // Two hashes with one key, in different blocks.
    let mut twin = all[30].txs[5].hash;
    twin.0[31] ^= 1;
    all[3].txs[7].hash = twin;
    take(&archive, &all).await;
    // Some blocks are in a second segment, which has their hashes too.
    let hashes = DatasetSet::of(&[Dataset::TxHashes]);
    fill_with(&archive, &all, blocks(4, 30), hashes).await;
    settle(&archive, 4).await;
    let done = report(&archive, 0).await;
    assert_eq!(done.state, RangeState::Complete, "{done:?}");
    let keys = counted(&all);
    assert!(keys.total() > 8_000);
    assert_eq!(
        (done.keys, done.verified_keys),
        (Some(keys), Some(keys.total()))
    );
    for block in &all {
        for tx in &block.txs {
            let found = archive.transaction_by_hash(&tx.hash).await.unwrap();
            let found = found.map(|place| (place.block, place.index));
            assert_eq!(found, Some((block.clock, tx.index)));
        }
    }
}

/// Stores with an archive of these blocks that is about to be verified, and the name of its run.
async fn ready(all: &[Block]) -> (Stores, String) {
    let stores = Stores::memory();
    let archive = stores.writer(&small_slices()).await;
    take(&archive, all).await;
    until_verifying(&archive).await;
    let run = report(&archive, 0).await.runs[0].clone();
    (stores, run)
}

#[tokio::test]
async fn a_hash_that_is_missing_in_any_slice_is_found_out() {
    let all = crowded(&tiny_chain(87));
    let mut places: Vec<(Hash32, usize, usize)> = Vec::new();
    for (at, block) in all.iter().enumerate() {
        let txs = block.txs.iter().enumerate();
        places.extend(txs.map(|(tx, found)| (found.hash, at, tx)));
    }
    places.sort_by_key(|(hash, _, _)| hash.0);
    // The first key of all, one in the middle and the last.
    for place in [0, places.len() / 2, places.len() - 1] {
        let (_, at, tx) = places[place];
        // The same run, but for the last bit of one key.
        let mut others = all.clone();
        others[at].txs[tx].hash.0[4] ^= 1;
        let (scratch, theirs) = ready(&others).await;
        let theirs = scratch.blobs.get(&theirs).await.unwrap();
        let (stores, run) = ready(&all).await;
        let ours = stores.blobs.get(&run).await.unwrap();
        assert!(theirs.len() == ours.len() && theirs != ours);
        stores.blobs.delete(&run).await.unwrap();
        stores.blobs.put(&run, theirs).await.unwrap();
        let archive = stores.writer(&small_slices()).await;
        // Before its range is verified, whoever inspects the archive finds it too.
        let number = all[at].clock.number;
        let cause = format!("it lacks a hash of block {number}");
        let found = archive.inspect(blocks(2, 42), &mut |_| {}).await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].object.name, &found[0].reason), (&run, &cause));
        settle(&archive, 4).await;
        let failure = report(&archive, 0).await.failure.unwrap();
        assert_eq!((failure.object, failure.cause), (run, cause));
        // The transaction is archived, and only its hash is not in the run: it must not be called unknown.
        let hash = all[at].txs[tx].hash;
        let answer = archive.transaction_by_hash(&hash).await;
        assert!(
            matches!(answer, Err(Error::NotCovered { .. })),
            "{answer:?}"
        );
        let reported = audit(5, "mend");
        archive
            .rebuild_run(&found[0].object, reported)
            .await
            .unwrap();
        archive.retry_range(0, audit(6, "retry")).await.unwrap();
        let answer = archive.transaction_by_hash(&hash).await.unwrap();
        assert_eq!(answer.map(|place| place.block.number), Some(number));
    }
}

/// Counts come from the segments that list all hashes, wherever there are such.
#[tokio::test]
async fn transactions_are_counted_where_longer_segments_list_none() {
    let (chain, stores) = (tiny_chain(88), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(42, 50), 5, 1).await;
    let all: Vec<Block> = chain.blocks(blocks(2, 42)).collect();
    fill_with(&archive, &all, blocks(2, 40), DatasetSet::CLOCK).await;
    fill(&archive, &chain, blocks(10, 20), 2).await.unwrap();
    let keys = counted(&all[8..18]);
    assert!(keys.total() > 0);
    assert_eq!(report(&archive, 0).await.keys, Some(keys));
    fill(&archive, &chain, blocks(2, 42), 3).await.unwrap();
    settle(&archive, 4).await;
    let done = report(&archive, 0).await;
    assert_eq!(done.state, RangeState::Complete, "{done:?}");
    let keys = counted(&all);
    assert_eq!(
        (done.keys, done.verified_keys),
        (Some(keys), Some(keys.total()))
    );
    check_lookups(&archive, &chain, blocks(2, 50)).await;
}

/// Whether a name is that of the one run of range 0.
fn is_last_run(name: &str) -> bool {
    name.starts_with("run/000000000002-42-")
}

#[tokio::test]
async fn blocks_are_taken_back_while_their_range_is_verified() {
    let (chain, stores) = (tiny_chain(89), Stores::memory());
    let gate = Arc::new(Gate::default());
    let archive = hooked(&stores, gate.hook()).writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 6, 1).await;
    until_verifying(&archive).await;
    gate.hold_next(|operation, name| operation == Operation::BlobRange && is_last_run(name));
    let mut verifying = Box::pin(archive.maintain_at(3));
    gate.hold(&mut verifying).await;
    // Nobody verifies it a second time.
    let again = timeout(SOON, archive.maintain_at(3)).await;
    assert!(!again.expect("maintenance waits").unwrap());
    let rewound = timeout(SOON, archive.rewind(35, audit(4, "rewind"))).await;
    rewound.expect("the rewind waits").unwrap();
    // The run is gone by now: that is no failure of the range.
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    gate.release();
    assert!(verifying.await.unwrap());
    let open = report(&archive, 0).await;
    assert_eq!((open.state, open.failure), (RangeState::Ingesting, None));
    append(&archive, &chain, blocks(36, 50), 6, 5).await;
    settle(&archive, 6).await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.completed_at),
        (RangeState::Complete, Some(6))
    );
    check_lookups(&archive, &chain, blocks(2, 50)).await;
}

#[tokio::test]
async fn a_segment_is_rebuilt_while_its_range_is_verified() {
    let (chain, stores) = (tiny_chain(90), Stores::memory());
    let gate = Arc::new(Gate::default());
    let archive = hooked(&stores, gate.hook()).writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 6, 1).await;
    until_verifying(&archive).await;
    gate.hold_next(|operation, name| operation == Operation::BlobRange && is_last_run(name));
    let mut verifying = Box::pin(archive.maintain_at(3));
    gate.hold(&mut verifying).await;
    let object = archive.segments_of(20).remove(0);
    let mut mended = archive.repair(&object, audit(4, "mend")).unwrap();
    let whole = chain.blocks(object.range).collect();
    mended.push(whole, &at(4)).await.unwrap();
    mended.finish().await.unwrap();
    gate.release();
    assert!(verifying.await.unwrap());
    // What was verified is not what is there.
    let open = report(&archive, 0).await;
    assert_eq!(
        (open.state, open.verified_keys),
        (RangeState::Transitioning, None)
    );
    settle(&archive, 5).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    check_lookups(&archive, &chain, blocks(2, 50)).await;
}

#[tokio::test]
async fn ingest_continues_while_the_run_of_a_range_is_rebuilt() {
    let (chain, stores) = (tiny_chain(91), Stores::memory());
    let gate = Arc::new(Gate::default());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 6, 1).await;
    until_verifying(&archive).await;
    let run = report(&archive, 0).await.runs[0].clone();
    stores.blobs.delete(&run).await.unwrap();
    let archive = hooked(&stores, gate.hook()).writer(&range_settings()).await;
    settle(&archive, 2).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Failed);
    gate.hold_next(|operation, name| operation == Operation::BlobPut && name.starts_with("run/"));
    let mut retry = Box::pin(archive.retry_range(0, audit(3, "retry")));
    gate.hold(&mut retry).await;
    let appended = timeout(SOON, append(&archive, &chain, blocks(50, 60), 5, 4)).await;
    appended.expect("ingest waits");
    gate.release();
    retry.await.unwrap();
    settle(&archive, 5).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    check_lookups(&archive, &chain, blocks(2, 60)).await;
}

/// Between blocks that are far apart there may be more ranges than anybody wants listed.
#[tokio::test]
async fn very_many_pending_ranges_are_not_all_listed() {
    let (chain, stores) = (tiny_chain(92), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    let far = 2 + 40 * 3_000;
    append(&archive, &chain, blocks(far, far + 3), 5, 1).await;
    fill(&archive, &chain, blocks(2, 10), 2).await.unwrap();
    let ranges = archive.ranges().await;
    assert_eq!(ranges.len(), 1_026);
    let ids: Vec<u64> = ranges.iter().map(|one| one.id).collect();
    assert_eq!((ids[1_024], ids[1_025]), (1_024, 3_000));
    let pending = |id: usize| ranges[id].state == RangeState::Pending;
    assert!((1..=1_024).all(pending) && !pending(0) && !pending(1_025));
}

//! The life of ranges: from the first block to a verified run, and what comes in between.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/ranges.rs"]
mod ranges;
mod support;

use bytes::Bytes;
use chronolith_archive::{
    Archive, Error, FailedPhase, LedgerPhase, PartStatus, RangeState, TxCounts, TxHashPhase,
};
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet, Tx};
use chronolith_sim::SimChain;
use ranges::*;
use support::{Stores, tiny_chain};

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(start, end)
}

async fn states(archive: &Archive) -> Vec<(u64, RangeState)> {
    let ranges = archive.ranges().await;
    ranges.iter().map(|one| (one.id, one.state)).collect()
}

#[tokio::test]
async fn a_range_goes_from_its_first_block_to_complete() {
    let (chain, stores) = (tiny_chain(61), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    assert!(archive.ranges().await.is_empty());
    append(&archive, &chain, blocks(2, 41), 6, 100).await;
    settle(&archive, 101).await;
    let open = report(&archive, 0).await;
    assert_eq!((open.first, open.last), (2, 41));
    assert_eq!((open.state, open.blocks), (RangeState::Ingesting, 39));
    assert_eq!(
        (open.ledger, open.txhash),
        (Some(LedgerPhase::Ingesting), Some(TxHashPhase::Ingesting))
    );
    assert_eq!((open.created_at, open.completed_at), (Some(100), None));
    assert_eq!(open.transition_started_at, None);
    assert_eq!((open.ledger_status, open.txhash_status), (None, None));
    check_counts(&archive, &chain).await;

    // The last block, and with it the first of the next range.
    append(&archive, &chain, blocks(41, 45), 9, 110).await;
    let closed = report(&archive, 0).await;
    assert_eq!(closed.state, RangeState::Transitioning);
    assert_eq!(closed.transition_started_at, Some(110));
    assert_eq!(closed.ledger, Some(LedgerPhase::Merging));
    assert_eq!(closed.ledger_status, Some(PartStatus::InProgress));
    assert_eq!(closed.last_committed, Some(41));
    let next = report(&archive, 1).await;
    assert_eq!((next.state, next.blocks), (RangeState::Ingesting, 3));
    assert_eq!(next.created_at, Some(110));

    // Phases never fall, each is seen, and everything is found by its hash at every step.
    let (mut seen, mut now) = (vec![progress(&closed)], 120);
    while archive.maintain_at(now).await.unwrap() {
        let report = report(&archive, 0).await;
        let reached = progress(&report);
        assert!(
            reached >= seen[seen.len() - 1],
            "{reached:?} after {seen:?}"
        );
        assert_eq!(report.completed_at.is_some(), reached == (2, 4));
        seen.push(reached);
        check_lookups(&archive, &chain, blocks(2, 45)).await;
        check_counts(&archive, &chain).await;
        now += 1;
    }
    let txhash: Vec<u8> = seen.iter().map(|(_, txhash)| *txhash).collect();
    assert!((1..=4).all(|phase| txhash.contains(&phase)), "{seen:?}");
    let done = report(&archive, 0).await;
    assert_eq!(done.state, RangeState::Complete);
    assert!(done.completed_at.is_some_and(|at| (120..now).contains(&at)));
    assert_eq!(
        (done.created_at, done.transition_started_at),
        (Some(100), None)
    );
    assert_eq!(done.verified_keys, done.keys.map(|keys| keys.total()));
    assert!(done.verified_keys > Some(0) && !done.packs.is_empty());
    let run = &done.runs[0];
    assert!(run.starts_with("run/000000000002-42-"), "{run}");
    // Another process sees the same.
    assert_eq!(
        stores.reader(&range_settings()).await.ranges().await,
        archive.ranges().await
    );
}

/// What there is of it is in its last form, and is found by hash; but its first blocks are missing.
#[tokio::test]
async fn a_range_that_begins_inside_of_the_archive_is_not_complete() {
    let (chain, stores) = (tiny_chain(62), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(70, 130), 11, 5).await;
    settle(&archive, 6).await;
    assert_eq!(
        states(&archive).await,
        [
            (1, RangeState::Ingesting),
            (2, RangeState::Complete),
            (3, RangeState::Ingesting)
        ]
    );
    let partial = report(&archive, 1).await;
    assert_eq!(partial.completed_at, None);
    check_lookups(&archive, &chain, blocks(70, 130)).await;
    assert_eq!((partial.first, partial.blocks), (42, 12));
    // A fill far below makes the archive begin there: what lies between is missing.
    fill(&archive, &chain, blocks(2, 10), 7).await.unwrap();
    settle(&archive, 8).await;
    assert_eq!(
        states(&archive).await[..2],
        [(0, RangeState::Ingesting), (1, RangeState::Ingesting)]
    );
    assert_eq!(report(&archive, 1).await.last_committed, None);
    fill(&archive, &chain, blocks(10, 70), 9).await.unwrap();
    settle(&archive, 10).await;
    assert!(
        states(&archive).await[..3]
            .iter()
            .all(|(_, state)| *state == RangeState::Complete)
    );
    assert_eq!(report(&archive, 1).await.completed_at, Some(10));
    check_counts(&archive, &chain).await;
    check_lookups(&archive, &chain, blocks(2, 130)).await;
}

#[tokio::test]
async fn ranges_between_others_are_pending() {
    let (chain, stores) = (tiny_chain(63), Stores::memory());
    let mut settings = range_settings();
    settings.start_block = Some(2);
    let archive = stores.writer(&settings).await;
    // The live run may begin with a range, although the archive begins below it.
    append(&archive, &chain, blocks(162, 170), 4, 1).await;
    fill(&archive, &chain, blocks(42, 50), 2).await.unwrap();
    assert_eq!(
        states(&archive).await,
        [
            (1, RangeState::Ingesting),
            (2, RangeState::Pending),
            (3, RangeState::Pending),
            (4, RangeState::Ingesting)
        ]
    );
    let pending = report(&archive, 2).await;
    assert_eq!((pending.first, pending.last), (82, 121));
    assert_eq!((pending.ledger, pending.keys), (None, None));
    check_counts(&archive, &chain).await;
}

/// The bytes of the run of range 0 when it is complete.
async fn run_of(stores: &Stores, archive: &Archive) -> Bytes {
    settle(archive, 9).await;
    let done = report(archive, 0).await;
    assert_eq!(done.state, RangeState::Complete, "{done:?}");
    stores.blobs.get(&done.runs[0]).await.unwrap()
}

#[tokio::test]
async fn a_run_has_the_same_bytes_however_its_blocks_came() {
    let chain = tiny_chain(64);
    let mut runs: Vec<(String, Bytes)> = Vec::new();
    for size in [1, 7, 13, 60] {
        let stores = Stores::memory();
        let archive = stores.writer(&range_settings()).await;
        append(&archive, &chain, blocks(2, 60), size, 1).await;
        runs.push((
            format!("batches of {size}"),
            run_of(&stores, &archive).await,
        ));
    }
    for pieces in [&[0, 1, 2, 3, 4][..], &[4, 0, 3, 1, 2], &[2, 4, 0, 1, 3]] {
        let stores = Stores::memory();
        let archive = stores.writer(&range_settings()).await;
        append(&archive, &chain, blocks(42, 60), 5, 1).await;
        for piece in pieces {
            let start = 2 + piece * 8;
            let range = blocks(start, start + 8);
            fill(&archive, &chain, range, 2).await.unwrap();
            settle(&archive, 3).await;
        }
        runs.push((format!("fills {pieces:?}"), run_of(&stores, &archive).await));
    }
    for to in [6, 22, 30, 41] {
        let stores = Stores::memory();
        let archive = stores.writer(&range_settings()).await;
        append(&archive, &chain, blocks(2, 60), 5, 1).await;
        run_of(&stores, &archive).await;
        archive.rewind(to, audit(4, "rewind")).await.unwrap();
        assert_eq!(
            report(&archive, 0).await.state == RangeState::Complete,
            to == 41,
            "rewound to {to}"
        );
        check_counts(&archive, &chain).await;
        settle(&archive, 5).await;
        append(&archive, &chain, blocks(to + 1, 60), 9, 6).await;
        runs.push((format!("rewound to {to}"), run_of(&stores, &archive).await));
        check_lookups(&archive, &chain, blocks(2, 60)).await;
    }
    let (_, first) = &runs[0];
    for (way, run) in &runs {
        assert!(run == first, "{way}: another run");
    }
}

#[tokio::test]
async fn ranges_that_were_begun_are_not_counted_in_another_way() {
    let (chain, stores) = (tiny_chain(65), Stores::memory());
    let settings = range_settings();
    let archive = stores.writer(&settings).await;
    // Nothing is there yet: anything goes.
    let mut other = settings.clone();
    other.seal.range_blocks = 80;
    let archive_of_80 = stores.writer(&other).await;
    assert_eq!(archive_of_80.geometry().size, 80);
    drop((archive, archive_of_80));
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(2, 12), 5, 1).await;
    for change in [80_u64, 20] {
        let mut other = settings.clone();
        other.seal.range_blocks = change;
        let refused = stores.try_writer(&other).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused:?}");
        let words = refused.to_string();
        assert!(
            words.contains("ranges of 40 blocks from block 2 on"),
            "{words}"
        );
        assert!(words.contains("set them back"), "{words}");
    }
    let mut other = settings.clone();
    other.seal.first_block = 0;
    assert!(stores.try_writer(&other).await.is_err());
    // The writer that was refused has fenced nobody.
    append(&archive, &chain, blocks(12, 14), 2, 2).await;
    // A reader is told the archive's own.
    assert_eq!(
        stores.reader(&other).await.geometry(),
        settings.seal.geometry()
    );
}

/// Flips a bit in the middle of an object.
async fn damage(stores: &Stores, name: &str) -> Bytes {
    let whole = stores.blobs.get(name).await.unwrap();
    let mut broken = whole.to_vec();
    broken[20] ^= 1;
    replace(stores, name, broken.into()).await;
    whole
}

async fn replace(stores: &Stores, name: &str, bytes: Bytes) {
    stores.blobs.delete(name).await.unwrap();
    stores.blobs.put(name, bytes).await.unwrap();
}

#[tokio::test]
async fn a_damaged_segment_fails_its_range_and_nothing_else() {
    let (chain, stores) = (tiny_chain(66), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 5, 100).await;
    let victim = report(&archive, 0).await.segments[0].clone();
    let whole = damage(&stores, &victim).await;
    // From files, not from what this process remembers.
    let archive = stores.writer(&range_settings()).await;
    settle(&archive, 110).await;
    let failed = report(&archive, 0).await;
    assert_eq!(failed.state, RangeState::Failed);
    let failure = failed.failure.unwrap();
    assert_eq!((failure.object, failure.at), (victim.clone(), Some(110)));
    assert_eq!(failure.phase, FailedPhase::Merging);
    assert!(!failure.cause.is_empty());
    assert_eq!(failed.ledger_status, Some(PartStatus::Pending));
    // The next ranges continue, to their end.
    append(&archive, &chain, blocks(50, 100), 9, 111).await;
    settle(&archive, 112).await;
    assert_eq!(report(&archive, 1).await.state, RangeState::Complete);
    check_lookups(&archive, &chain, blocks(42, 100)).await;
    // It survives a restart, and nothing is tried on it until somebody says so.
    let archive = stores.writer(&range_settings()).await;
    settle(&archive, 113).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Failed);
    let wrong = archive.retry_range(1, audit(114, "retry")).await;
    assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");
    // Still damaged: it fails again.
    archive.retry_range(0, audit(115, "retry")).await.unwrap();
    assert_eq!(report(&archive, 0).await.state, RangeState::Transitioning);
    settle(&archive, 116).await;
    let again = report(&archive, 0).await;
    assert_eq!(again.failure.unwrap().at, Some(116));
    // Put right: it ends well.
    replace(&stores, &victim, whole).await;
    let archive = stores.writer(&range_settings()).await;
    archive.retry_range(0, audit(117, "retry")).await.unwrap();
    settle(&archive, 118).await;
    let done = report(&archive, 0).await;
    assert_eq!((done.state, done.failure), (RangeState::Complete, None));
    assert_eq!(done.completed_at, Some(118));
    check_counts(&archive, &chain).await;
    let acts = archive.health().audit;
    assert_eq!(acts.iter().filter(|act| act.act == "retry").count(), 2);
}

#[tokio::test]
async fn a_range_that_failed_is_repaired_and_retried() {
    let (chain, stores) = (tiny_chain(70), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 5, 1).await;
    let victim = archive.segments_of(20).remove(0);
    stores.blobs.delete(&victim.name).await.unwrap();
    let archive = stores.writer(&range_settings()).await;
    settle(&archive, 2).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Failed);
    let mut mended = archive.repair(&victim, audit(3, "mend")).unwrap();
    let whole = chain.blocks(victim.range).collect();
    mended.push(whole, &at(3)).await.unwrap();
    mended.finish().await.unwrap();
    settle(&archive, 4).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Failed);
    archive.retry_range(0, audit(5, "retry")).await.unwrap();
    settle(&archive, 6).await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.completed_at),
        (RangeState::Complete, Some(6))
    );
    check_counts(&archive, &chain).await;
    check_lookups(&archive, &chain, blocks(2, 50)).await;

    // A segment of a complete range that is rebuilt: it is brought to its end once more.
    let object = archive.segments_of(20).remove(0);
    let mut mended = archive.repair(&object, audit(7, "mend")).unwrap();
    let whole = chain.blocks(object.range).collect();
    mended.push(whole, &at(7)).await.unwrap();
    mended.finish().await.unwrap();
    let reopened = report(&archive, 0).await;
    assert_eq!(reopened.state, RangeState::Transitioning);
    assert_eq!(reopened.completed_at, None);
    settle(&archive, 8).await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.completed_at),
        (RangeState::Complete, Some(8))
    );
    assert_eq!(done.runs.len(), 1);
    check_counts(&archive, &chain).await;
}

/// A fee bump is known by two hashes: both are keys, and both are counted.
#[tokio::test]
async fn second_hashes_of_transactions_are_counted_and_verified() {
    let (chain, stores) = (tiny_chain(72), Stores::memory());
    let mut settings = range_settings();
    settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    let archive = stores.writer(&settings).await;
    let mut expected = TxCounts::default();
    let mut bumped = Vec::new();
    let with_bumps = |mut block: Block| {
        let first = block.txs.first().copied();
        for tx in first.into_iter() {
            let mut hash = tx.hash;
            hash.0[0] ^= 0xf0;
            let index = tx.index | Tx::ALIAS;
            block.txs.push(Tx { index, hash });
            bumped.push(hash);
        }
        block.txs.iter().for_each(|tx| expected.count(&tx.hash));
        block
    };
    let all: Vec<Block> = chain.blocks(blocks(2, 42)).map(with_bumps).collect();
    for batch in all.chunks(9) {
        let taken = archive
            .ingest_finalized_blocks(batch.to_vec(), &at(1))
            .await;
        taken.unwrap();
    }
    settle(&archive, 2).await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.keys),
        (RangeState::Complete, Some(expected))
    );
    assert_eq!(done.verified_keys, Some(expected.total()));
    assert!(!bumped.is_empty());
    for hash in bumped {
        assert!(archive.transaction_by_hash(&hash).await.unwrap().is_some());
    }
}

/// Takes steps until range 0 has reached a phase.
async fn until(archive: &Archive, phase: TxHashPhase) {
    while report(archive, 0).await.txhash != Some(phase) {
        assert!(archive.maintain_at(7).await.unwrap(), "never {phase:?}");
    }
}

#[tokio::test]
async fn a_run_without_one_hash_is_found_and_rebuilt() {
    let (chain, stores) = (tiny_chain(67), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 5, 1).await;
    until(&archive, TxHashPhase::VerifyingIndex).await;
    let run = report(&archive, 0).await.runs[0].clone();
    let ours = stores.blobs.get(&run).await.unwrap();
    let theirs = sound_run_of_a_fork(&chain, ours.len()).await;
    replace(&stores, &run, theirs).await;
    let archive = stores.writer(&range_settings()).await;
    settle(&archive, 8).await;
    let failed = report(&archive, 0).await;
    assert_eq!(failed.state, RangeState::Failed, "{failed:?}");
    let failure = failed.failure.unwrap();
    assert_eq!(failure.phase, FailedPhase::VerifyingIndex);
    assert_eq!(failure.object, run);
    archive.retry_range(0, audit(9, "retry")).await.unwrap();
    let retried = report(&archive, 0).await;
    assert!(!retried.runs.contains(&run), "{retried:?}");
    check_lookups(&archive, &chain, blocks(2, 50)).await;
    settle(&archive, 10).await;
    let done = report(&archive, 0).await;
    assert_eq!(done.state, RangeState::Complete);
    assert_eq!(stores.blobs.get(&done.runs[0]).await.unwrap(), ours);
}

/// A run that is whole, but of a chain whose last block is another. The catalog says how long it is,
/// so only one of the same length is taken for ours.
async fn sound_run_of_a_fork(chain: &SimChain, len: usize) -> Bytes {
    for id in 1..100 {
        let stores = Stores::memory();
        let archive = stores.writer(&range_settings()).await;
        append(&archive, &chain.fork(41, id), blocks(2, 42), 40, 1).await;
        let run = run_of(&stores, &archive).await;
        if run.len() == len {
            return run;
        }
    }
    panic!("no fork has as many hashes");
}

#[tokio::test]
async fn a_rebuilt_state_has_ranges_again_without_their_times() {
    let (chain, stores) = (tiny_chain(69), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 95), 5, 100).await;
    settle(&archive, 101).await;
    archive
        .collect_garbage(chronolith_archive::GcMode::Remove)
        .await
        .unwrap();
    let before = report(&archive, 0).await;
    let lost = stores.without_state();
    let rebuilt = lost.rebuild(&range_settings(), chain.block_ref(94)).await;
    rebuilt.unwrap();
    assert!(lost.meta.load().await.unwrap().is_some());
    let archive = lost.writer(&range_settings()).await;
    settle(&archive, 103).await;
    assert_eq!(
        states(&archive).await,
        [
            (0, RangeState::Complete),
            (1, RangeState::Complete),
            (2, RangeState::Ingesting)
        ]
    );
    let after = report(&archive, 0).await;
    assert_eq!((after.created_at, after.completed_at), (None, Some(103)));
    assert_eq!((after.keys, after.blocks), (before.keys, before.blocks));
    check_counts(&archive, &chain).await;
}

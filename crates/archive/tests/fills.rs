//! Filling history in small steps, in several places at once, below a live run or before there is one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/ranges.rs"]
mod ranges;
mod support;

use chronolith_archive::{Archive, Error, Provenance, RangeState};
use chronolith_model::{Block, BlockRange};
use chronolith_sim::SimChain;
use ranges::{append, check_counts, check_lookups, fill, range_settings, report, settle};
use support::{Stores, tiny_chain};

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(start, end)
}

/// Fills a range in steps, each published on its own.
async fn fill_in_steps(archive: Archive, chain: SimChain, range: BlockRange, step: u64) {
    let mut start = range.start;
    while start < range.end {
        let part = blocks(start, (start + step).min(range.end));
        fill(&archive, &chain, part, 3).await.unwrap();
        archive.maintain_at(4).await.unwrap();
        start = part.end;
    }
}

#[tokio::test]
async fn ranges_are_filled_side_by_side_below_a_live_run() {
    let (chain, stores) = (tiny_chain(81), Stores::memory());
    let mut settings = range_settings();
    settings.start_block = Some(2);
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(122, 130), 3, 1).await;
    let fillers = [blocks(2, 42), blocks(42, 82), blocks(82, 122)];
    let fillers = fillers.map(|range| fill_in_steps(archive.clone(), chain.clone(), range, 5));
    let live = append(&archive, &chain, blocks(130, 180), 2, 2);
    futures::join!(live, futures::future::join_all(fillers));
    settle(&archive, 5).await;
    for id in 0..4 {
        assert_eq!(report(&archive, id).await.state, RangeState::Complete);
    }
    check_counts(&archive, &chain).await;
    check_lookups(&archive, &chain, blocks(2, 180)).await;

    let alone = Stores::memory();
    let sequential = alone.writer(&settings).await;
    append(&sequential, &chain, blocks(2, 180), 20, 1).await;
    settle(&sequential, 5).await;
    for id in 0..4 {
        let (ours, theirs) = (report(&archive, id).await, report(&sequential, id).await);
        assert_eq!(ours.keys, theirs.keys);
        let ours = stores.blobs.get(&ours.runs[0]).await.unwrap();
        let theirs = alone.blobs.get(&theirs.runs[0]).await.unwrap();
        assert!(ours == theirs, "range {id} has another run");
        let range = archive.geometry().blocks_of(id);
        assert_eq!(
            archive.content_root(range).await.unwrap(),
            sequential.content_root(range).await.unwrap()
        );
    }
}

#[tokio::test]
async fn an_island_is_there_at_once_and_what_does_not_link_to_it_is_not() {
    let (chain, stores) = (tiny_chain(82), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(150, 153), 3, 1).await;
    fill(&archive, &chain, blocks(60, 70), 2).await.unwrap();
    check_lookups(&archive, &chain, blocks(60, 70)).await;
    assert!(matches!(
        archive.block_by_number(59).await,
        Err(Error::NotCovered { .. })
    ));
    // Another chain, on either side.
    let other = tiny_chain(83);
    for range in [blocks(50, 60), blocks(70, 80), blocks(140, 150)] {
        let refused = fill(&archive, &other, range, 3).await;
        assert!(
            matches!(refused, Err(Error::BadParent { .. })),
            "{refused:?}"
        );
    }
    // A fork that is right on one side and wrong on the other.
    let fork = chain.fork(75, 1);
    fill(&archive, &chain, blocks(80, 90), 4).await.unwrap();
    let refused = fill(&archive, &fork, blocks(70, 80), 5).await;
    assert!(
        matches!(refused, Err(Error::BadParent { .. })),
        "{refused:?}"
    );
    let refused = fill(&archive, &other, blocks(65, 70), 5).await;
    assert!(
        refused.is_err(),
        "another block in the place of an archived one"
    );
    fill(&archive, &chain, blocks(70, 80), 6).await.unwrap();
    check_lookups(&archive, &chain, blocks(60, 90)).await;
    assert_eq!(archive.health().covered, Some(blocks(60, 90)));
    check_counts(&archive, &chain).await;
}

#[tokio::test]
async fn many_small_fills_become_few_objects() {
    let (chain, stores) = (tiny_chain(84), Stores::memory());
    let mut settings = range_settings();
    settings.seal.grid_blocks = 400;
    settings.seal.range_blocks = 400;
    // So heavy that weight alone would never bring two fills together.
    settings.seal.weight = 10_000;
    settings.seal.pack_bytes = 1 << 20;
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(402, 404), 2, 1).await;
    let mut most = (0, 0, 0);
    for start in (2..402).step_by(2) {
        fill(&archive, &chain, blocks(start, start + 2), 2)
            .await
            .unwrap();
        settle(&archive, 3).await;
        let health = archive.health();
        most.0 = health.segments.0.max(most.0);
        most.1 = health.runs_and_packs.0.max(most.1);
        most.2 = health.runs_and_packs.1.max(most.2);
    }
    // Two hundred fills, and at most twelve of a tier lie side by side.
    assert!(most.0 <= 2 * 12 + 4, "segments at most: {most:?}");
    assert!(
        most.1 <= 12 && most.2 <= 14,
        "runs and packs at most: {most:?}"
    );
    let done = report(&archive, 0).await;
    assert_eq!(done.state, RangeState::Complete, "{done:?}");
    assert!(
        done.segments.len() <= 2 && done.packs.len() == 1,
        "{done:?}"
    );
    check_counts(&archive, &chain).await;
    check_lookups(&archive, &chain, blocks(2, 404)).await;
}

#[tokio::test]
async fn a_live_run_begins_behind_what_was_filled() {
    let (chain, stores) = (tiny_chain(85), Stores::memory());
    let mut settings = range_settings();
    settings.start_block = Some(2);
    let archive = stores.writer(&settings).await;
    let batch = |start, end| -> Vec<Block> { chain.blocks(blocks(start, end)).collect() };
    let how = Provenance::default();
    let early = archive.ingest_finalized_blocks(batch(82, 85), &how).await;
    early.unwrap();

    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    fill_in_steps(archive.clone(), chain.clone(), blocks(2, 42), 10).await;
    settle(&archive, 5).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    for start in [50, 43] {
        let got = archive
            .ingest_finalized_blocks(batch(start, start + 3), &how)
            .await;
        let expected = matches!(got, Err(Error::Gap { expected: 42, .. }));
        assert!(expected, "{start}: {got:?}");
    }
    for start in [3, 1] {
        let got = archive
            .ingest_finalized_blocks(batch(start, start + 3), &how)
            .await;
        assert!(matches!(got, Err(Error::Gap { .. })), "{start}: {got:?}");
    }
    let other: Vec<Block> = tiny_chain(86).blocks(blocks(42, 45)).collect();
    let got = archive.ingest_finalized_blocks(other, &how).await;
    assert!(matches!(got, Err(Error::BadParent { .. })), "{got:?}");
    append(&archive, &chain, blocks(42, 85), 4, 6).await;
    settle(&archive, 7).await;
    assert_eq!(report(&archive, 1).await.state, RangeState::Complete);
    assert_eq!(archive.health().covered, Some(blocks(2, 85)));
    check_lookups(&archive, &chain, blocks(2, 85)).await;
}

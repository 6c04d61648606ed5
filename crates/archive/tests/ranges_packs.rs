//! Ranges and the payload of their blocks: none is complete while some of it is missing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/ranges.rs"]
mod ranges;
mod support;

use chronolith_archive::{
    Archive, Error, FailedPhase, GcMode, LedgerPhase, ObjectSort, RangeState, Settings, TxHashPhase,
};
use chronolith_model::{BlockRange, Dataset};
use chronolith_sim::SimChain;
use ranges::*;
use support::{Stores, tiny_chain};

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(start, end)
}

/// Several packs in each range.
fn small_packs() -> Settings {
    let mut settings = range_settings();
    settings.seal.pack_bytes = 600;
    settings
}

fn lacking(archive: &Archive, range: BlockRange) -> Vec<BlockRange> {
    let settings = range_settings();
    archive.missing(range, settings.datasets, &settings.scope)
}

/// Appends blocks and does all maintenance after every few of them: packs end where they are large
/// enough.
async fn append_in_steps(archive: &Archive, chain: &SimChain, range: BlockRange) {
    for start in (range.start..range.end).step_by(5) {
        let step = blocks(start, range.end.min(start + 5));
        append(archive, chain, step, 5, 1).await;
        settle(archive, 2).await;
    }
}

/// Payload of these blocks is as it came.
async fn check_payload(archive: &Archive, chain: &SimChain, range: BlockRange) {
    for block in chain.blocks(range) {
        for dataset in [Dataset::Headers, Dataset::Transactions, Dataset::Payload] {
            let payload = archive.payload(block.clock.number, dataset).await.unwrap();
            assert_eq!(payload, block.payload, "block {}", block.clock.number);
        }
    }
}

/// The blocks that a pack's name speaks of.
fn blocks_of(name: &str) -> BlockRange {
    let mut numbers = name.trim_start_matches("pack/").split('-');
    let mut next = || numbers.next().unwrap().parse().unwrap();
    let (start, end) = (next(), next());
    blocks(start, end)
}

/// The archive again from its objects, after its state was lost.
async fn rebuilt(stores: &Stores, chain: &SimChain, head: u64) -> Archive {
    let lost = stores.without_state();
    let rebuilt = lost.rebuild(&small_packs(), chain.block_ref(head)).await;
    let rebuilt = rebuilt.unwrap();
    assert!(!rebuilt.is_open(), "{rebuilt:?}");
    lost.writer(&small_packs()).await
}

#[tokio::test]
async fn a_range_that_lost_payload_is_open_until_it_is_filled_again() {
    let (chain, stores) = (tiny_chain(81), Stores::memory());
    let archive = stores.writer(&small_packs()).await;
    append_in_steps(&archive, &chain, blocks(2, 95)).await;
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    let packs = report(&archive, 0).await.packs;
    let victim = &packs[packs.len() / 2];
    let lost = blocks_of(victim);
    assert!(lost.start > 2 && lost.end <= 42, "{victim}");
    stores.blobs.delete(victim).await.unwrap();
    drop(archive);

    let archive = rebuilt(&stores, &chain, 94).await;
    settle(&archive, 3).await;
    let open = report(&archive, 0).await;
    assert_eq!(open.state, RangeState::Ingesting, "{open:?}");
    assert_eq!(open.last_committed, Some(lost.start - 1));
    assert_eq!(report(&archive, 1).await.state, RangeState::Complete);
    assert_eq!(lacking(&archive, blocks(2, 95)), [lost]);
    let settings = range_settings();
    let kept = archive.kept(settings.datasets, &settings.scope);
    let kept = |number: u64| kept.iter().any(|(range, _)| range.contains(number));
    assert!((2..95).all(|number| kept(number) != lost.contains(number)));
    let answer = archive.payload(lost.start, Dataset::Headers).await;
    assert!(
        matches!(answer, Err(Error::NotCovered { .. })),
        "{answer:?}"
    );

    fill(&archive, &chain, lost, 4).await.unwrap();
    settle(&archive, 5).await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.completed_at),
        (RangeState::Complete, Some(5))
    );
    assert!(lacking(&archive, blocks(2, 95)).is_empty());
    check_payload(&archive, &chain, blocks(2, 95)).await;
    check_counts(&archive, &chain).await;
    check_lookups(&archive, &chain, blocks(2, 95)).await;
}

#[tokio::test]
async fn a_rebuilt_archive_has_all_payload() {
    let (chain, stores) = (tiny_chain(82), Stores::memory());
    let archive = stores.writer(&small_packs()).await;
    append_in_steps(&archive, &chain, blocks(2, 95)).await;
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    drop(archive);
    let archive = rebuilt(&stores, &chain, 94).await;
    check_payload(&archive, &chain, blocks(2, 95)).await;
    settle(&archive, 3).await;
    assert_eq!(report(&archive, 1).await.state, RangeState::Complete);
    check_payload(&archive, &chain, blocks(2, 95)).await;
    assert!(lacking(&archive, blocks(2, 95)).is_empty());
}

#[tokio::test]
async fn a_pack_that_cannot_be_opened_fails_its_range() {
    let (chain, stores) = (tiny_chain(83), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 5, 1).await;
    let ready = (
        Some(LedgerPhase::Immutable),
        Some(TxHashPhase::VerifyingIndex),
    );
    loop {
        let report = report(&archive, 0).await;
        if (report.ledger, report.txhash) == ready {
            break;
        }
        assert!(archive.maintain_at(2).await.unwrap(), "{report:?}");
    }
    let victim = report(&archive, 0).await.packs[0].clone();
    let mut broken = stores.blobs.get(&victim).await.unwrap().to_vec();
    let at = broken.len() - 20;
    broken[at] ^= 1;
    stores.blobs.delete(&victim).await.unwrap();
    stores.blobs.put(&victim, broken.into()).await.unwrap();
    let archive = stores.writer(&range_settings()).await;
    settle(&archive, 3).await;
    let failed = report(&archive, 0).await;
    assert_eq!(failed.state, RangeState::Failed, "{failed:?}");
    let failure = failed.failure.unwrap();
    assert_eq!(
        (failure.object, failure.phase),
        (victim.clone(), FailedPhase::VerifyingIndex)
    );
    let damaged = archive.inspect(blocks(2, 42), &mut |_| {}).await.unwrap();
    let object = &damaged[0].object;
    assert_eq!((&object.name, object.sort), (&victim, ObjectSort::Pack));
    let mut mended = archive.repair(object, audit(4, "mend")).unwrap();
    let whole = chain.blocks(object.range).collect();
    mended.push(whole, &ranges::at(4)).await.unwrap();
    mended.finish().await.unwrap();
    archive.retry_range(0, audit(5, "retry")).await.unwrap();
    settle(&archive, 6).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    check_payload(&archive, &chain, blocks(2, 50)).await;
}

/// A pack that is not finished cannot be read: those behind it are joined all the same.
#[tokio::test]
async fn a_damaged_pack_keeps_no_others_from_being_joined() {
    let (chain, stores) = (tiny_chain(86), Stores::memory());
    let mut settings = range_settings();
    settings.seal.pack_bytes = 1 << 20;
    settings.seal.grid_blocks = 400;
    settings.seal.range_blocks = 400;
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(2, 12), 1, 1).await;
    let victim = stores.blobs.list("pack/", None, 1).await.unwrap()[0]
        .name
        .clone();
    stores.blobs.delete(&victim).await.unwrap();
    let mut refused = 0;
    for number in 12..200 {
        append(&archive, &chain, BlockRange::one(number), 1, 1).await;
        while archive.maintain_at(2).await.unwrap_or_else(|error| {
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            refused += 1;
            true
        }) {}
    }
    assert_eq!(refused, 1, "it is met once, and passed over from then on");
    let (_, packs) = archive.health().runs_and_packs;
    assert!(packs < 20, "{packs} packs of one block lie behind {victim}");
    check_payload(&archive, &chain, blocks(12, 200)).await;
}

/// Pruning lets go of no payload that a segment which stays still speaks of.
#[tokio::test]
async fn a_pruned_range_keeps_its_payload_whatever_straddles_its_new_beginning() {
    let (chain, stores) = (tiny_chain(84), Stores::memory());
    let mut settings = range_settings();
    settings.seal.pack_bytes = 1 << 20;
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(42, 60), 5, 1).await;
    for range in [blocks(2, 30), blocks(30, 36), blocks(36, 42)] {
        fill(&archive, &chain, range, 2).await.unwrap();
    }
    assert!(archive.prune(20, audit(3, "prune")).await.unwrap() > 0);
    let first = archive.health().covered.unwrap().start;
    assert!((3..=20).contains(&first), "begins with {first}");
    settle(&archive, 4).await;
    // Its first blocks are gone for good, so it is never called complete.
    let cut = report(&archive, 0).await;
    assert_eq!(cut.state, RangeState::Ingesting, "{cut:?}");
    assert!(lacking(&archive, blocks(first, 60)).is_empty());
    check_payload(&archive, &chain, blocks(first, 60)).await;
    check_counts(&archive, &chain).await;
}

/// Small packs are joined; a piece of them that is filled again with the same content still fits.
#[tokio::test]
async fn a_piece_is_filled_again_after_its_pack_was_joined() {
    let pieces = [blocks(2, 7), blocks(7, 12), blocks(12, 17)];
    let (chain, scratch) = (tiny_chain(85), Stores::memory());
    let mut settings = range_settings();
    // Segments stay as they are, and three packs together are enough.
    settings.seal.weight = 1_000;
    settings.seal.pack_bytes = 1 << 20;
    let archive = scratch.writer(&settings).await;
    append(&archive, &chain, blocks(42, 45), 5, 1).await;
    for piece in pieces {
        fill(&archive, &chain, piece, 2).await.unwrap();
    }
    let names = report(&archive, 0).await.packs;
    let mut bytes = Vec::new();
    for name in &names {
        bytes.push(scratch.blobs.get(name).await.unwrap().len() as u64);
    }
    settings.seal.pack_bytes = bytes.iter().sum();
    assert!(bytes.iter().all(|&len| len < settings.seal.pack_bytes / 2));

    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(42, 45), 5, 1).await;
    for piece in pieces {
        fill(&archive, &chain, piece, 2).await.unwrap();
    }
    settle(&archive, 3).await;
    let joined = report(&archive, 0).await;
    assert_eq!((joined.packs.len(), joined.segments.len()), (1, 3));
    fill(&archive, &chain, pieces[1], 4).await.unwrap();
    settle(&archive, 5).await;
    check_payload(&archive, &chain, blocks(2, 17)).await;
    fill(&archive, &chain, blocks(2, 42), 6).await.unwrap();
    settle(&archive, 7).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    check_payload(&archive, &chain, blocks(2, 45)).await;
}

/// Packs may overlap, and a rebuilt state has them all.
#[tokio::test]
async fn packs_that_overlap_are_rebuilt() {
    let (chain, stores) = (tiny_chain(86), Stores::memory());
    let mut settings = range_settings();
    // Each block is a segment, so that a fill may begin anywhere.
    settings.seal.weight = 1;
    settings.seal.pack_bytes = 1 << 20;
    let archive = stores.writer(&settings).await;
    append(&archive, &chain, blocks(42, 45), 5, 1).await;
    for range in [blocks(2, 20), blocks(12, 30), blocks(30, 42)] {
        fill(&archive, &chain, range, 2).await.unwrap();
    }
    let packs = report(&archive, 0).await.packs;
    let packs: Vec<BlockRange> = packs.iter().map(|name| blocks_of(name)).collect();
    assert_eq!(packs, [blocks(2, 20), blocks(12, 30), blocks(30, 42)]);
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    drop(archive);
    let archive = rebuilt(&stores, &chain, 44).await;
    assert!(lacking(&archive, blocks(2, 45)).is_empty());
    settle(&archive, 3).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
    check_payload(&archive, &chain, blocks(2, 45)).await;
}

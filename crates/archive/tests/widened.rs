//! Archives whose settings changed what is kept: old and new lie side by side.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/ranges.rs"]
mod ranges;
mod support;

use chronolith_archive::{Archive, Error, RangeState, Settings};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Hash32, Verification};
use ranges::{append, check_counts, fill, range_settings, report, settle};
use support::{Stores, tiny_chain};

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(start, end)
}

fn keeping(datasets: &[Dataset]) -> Settings {
    Settings {
        datasets: DatasetSet::of(datasets),
        ..range_settings()
    }
}

const FEW: [Dataset; 2] = [Dataset::Logs, Dataset::TxHashes];
const MORE: [Dataset; 3] = [Dataset::Logs, Dataset::TxHashes, Dataset::Headers];
const WHOLE: [Dataset; 4] = [
    Dataset::Logs,
    Dataset::TxHashes,
    Dataset::Headers,
    Dataset::Transactions,
];

/// The same stores, opened by a writer that keeps something else.
async fn reopened(stores: &Stores, archive: Archive, datasets: &[Dataset]) -> Archive {
    archive.release().await.unwrap();
    drop(archive);
    stores.writer(&keeping(datasets)).await
}

#[tokio::test]
async fn a_rebuilt_state_reaches_as_far_down_as_anything_leads() {
    let (chain, stores) = (tiny_chain(91), Stores::memory());
    let few = stores.writer(&keeping(&FEW)).await;
    append(&few, &chain, blocks(2, 40), 8, 1).await;
    settle(&few, 2).await;
    let more = reopened(&stores, few, &MORE).await;
    // It keeps more, and begins where no segment ends.
    fill(&more, &chain, blocks(37, 40), 3).await.unwrap();
    drop(more);

    let lost = stores.without_state();
    let rebuilt = lost.rebuild(&keeping(&MORE), chain.block_ref(39)).await;
    let rebuilt = rebuilt.unwrap();
    assert_eq!(rebuilt.covered, blocks(2, 40), "{rebuilt:?}");
}

#[tokio::test]
async fn an_unknown_hash_is_not_found_once_all_hashes_are_there() {
    let (chain, stores) = (tiny_chain(92), Stores::memory());
    let few = stores.writer(&keeping(&[Dataset::Logs])).await;
    append(&few, &chain, blocks(2, 30), 7, 1).await;
    settle(&few, 2).await;
    let nobody = Hash32([7; 32]);
    let unknown = few.transaction_by_hash(&nobody).await;
    assert!(
        matches!(unknown, Err(Error::NotCovered { .. })),
        "{unknown:?}"
    );
    let more = reopened(&stores, few, &FEW).await;
    fill(&more, &chain, blocks(2, 20), 3).await.unwrap();
    let unknown = more.transaction_by_hash(&nobody).await;
    assert!(
        matches!(unknown, Err(Error::NotCovered { .. })),
        "{unknown:?}"
    );
    fill(&more, &chain, blocks(20, 30), 4).await.unwrap();
    settle(&more, 5).await;
    assert_eq!(more.transaction_by_hash(&nobody).await.unwrap(), None);
    for block in chain.blocks(blocks(2, 30)) {
        for tx in &block.txs {
            let place = more.transaction_by_hash(&tx.hash).await.unwrap();
            assert_eq!(place.unwrap().block.number, block.clock.number);
        }
    }
    check_counts(&more, &chain).await;
}

#[tokio::test]
async fn a_range_in_which_payload_is_kept_no_more_becomes_complete() {
    let (chain, stores) = (tiny_chain(93), Stores::memory());
    let more = stores.writer(&keeping(&MORE)).await;
    append(&more, &chain, blocks(2, 20), 6, 1).await;
    settle(&more, 2).await;
    let few = reopened(&stores, more, &FEW).await;
    append(&few, &chain, blocks(20, 60), 6, 3).await;
    settle(&few, 4).await;
    let range = report(&few, 0).await;
    assert_eq!(range.state, RangeState::Complete, "{range:?}");
    for block in chain.blocks(blocks(2, 20)) {
        let payload = few.payload(block.clock.number, Dataset::Headers).await;
        assert_eq!(payload.unwrap().header, block.payload.header);
    }
}

/// Runs over the same blocks lay side by side after `datasets` was widened: an older one with the hashes
/// of transactions that have logs, and a newer one with all. A rebuilt state took the older one, since
/// both have the same range: every other transaction was `null`, and nothing said so.
#[tokio::test]
async fn a_rebuilt_state_finds_every_transaction_after_what_is_kept_was_widened() {
    let (chain, stores) = (tiny_chain(94), Stores::memory());
    let poor = stores.writer(&keeping(&[Dataset::Logs])).await;
    append(&poor, &chain, blocks(2, 50), 7, 1).await;
    settle(&poor, 2).await;
    let rich = reopened(&stores, poor, &FEW).await;
    fill(&rich, &chain, blocks(2, 50), 3).await.unwrap();
    settle(&rich, 4).await;
    drop(rich);

    let lost = stores.without_state();
    let report = lost.rebuild(&keeping(&FEW), chain.block_ref(49)).await;
    let report = report.unwrap();
    assert_eq!(report.covered, blocks(2, 50), "{report:?}");
    assert_eq!(report.without_hashes, None, "{report:?}");
    let archive = lost.reader(&keeping(&FEW)).await;
    for block in chain.blocks(blocks(2, 50)) {
        for tx in &block.txs {
            let place = archive.transaction_by_hash(&tx.hash).await.unwrap();
            let place = place.map(|place| place.block.number);
            assert_eq!(place, Some(block.clock.number));
        }
    }
    let found = archive.inspect(blocks(2, 50), &mut |_| {}).await.unwrap();
    assert_eq!(found, []);
}

/// Readers may keep for ever what is said of a block only where no other form of it can appear. A block that was
/// widened lies there in two forms, and either may be read.
#[tokio::test]
async fn a_block_is_whole_where_all_that_holds_it_holds_everything() {
    let (chain, stores) = (tiny_chain(95), Stores::memory());
    let few = stores.writer(&keeping(&[Dataset::Logs])).await;
    append(&few, &chain, blocks(2, 10), 6, 1).await;
    settle(&few, 2).await;
    let more = reopened(&stores, few, &MORE).await;
    append(&more, &chain, blocks(10, 20), 6, 2).await;
    settle(&more, 2).await;
    let whole = reopened(&stores, more, &WHOLE).await;
    append(&whole, &chain, blocks(20, 40), 6, 3).await;
    let state = whole.pin().unwrap();
    for number in 0..41 {
        let is_whole = (20..40).contains(&number);
        assert_eq!(state.is_whole(number), is_whole, "{number}");
        let listed = (10..40).contains(&number);
        let level = listed.then_some(Verification::Claimed);
        assert_eq!(state.level_of_tx_hashes(number), level, "{number}");
    }
    fill(&whole, &chain, blocks(2, 20), 4).await.unwrap();
    let state = whole.pin().unwrap();
    for number in 2..20 {
        assert!(state.payload(number, Dataset::Transactions).await.is_ok());
        assert!(!state.is_whole(number), "{number} lies in two forms");
    }
}

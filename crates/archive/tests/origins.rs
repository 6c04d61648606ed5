//! The name of the copies that logs are read from: it changes with what may change logs, and with nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_archive::{Archive, Fill, Provenance, Settings};
use chronolith_model::{
    Block, BlockRange, Dataset, DatasetSet, Hash32, LogFilter, Proof, Verification,
};
use support::{Stores, tiny_chain, tiny_settings};

const BLOCKS: BlockRange = BlockRange::new(0, 128);
/// A cell of the grid: no segment crosses its end.
const OLD: BlockRange = BlockRange::new(0, 64);
const NEW: BlockRange = BlockRange::new(64, 128);

/// Where the logs of some blocks are.
async fn logs_of(archive: &Archive, range: BlockRange) -> Vec<(u64, u32)> {
    let page = archive.query_finalized(&LogFilter::over(range)).await;
    let logs = page.unwrap().logs.into_iter();
    logs.map(|record| (record.block.number, record.log.log_index()))
        .collect()
}

fn origin(archive: &Archive, range: BlockRange) -> Hash32 {
    let pinned = archive.pin().unwrap();
    pinned.origin(&range, &LogFilter::over(range)).unwrap()
}

/// The blocks, and the same without their last logs: what a source claims under the same hashes.
fn blocks() -> (Vec<Block>, Vec<Block>) {
    let whole: Vec<Block> = tiny_chain(95).blocks(BLOCKS).collect();
    let mut lacking = whole.clone();
    lacking.iter_mut().for_each(|block| {
        block.logs.pop();
    });
    (whole, lacking)
}

fn few() -> Settings {
    Settings {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        ..tiny_settings()
    }
}

async fn ingest(archive: &Archive, blocks: &[Block]) {
    for blocks in blocks.chunks(3) {
        let provenance = Provenance::default();
        let ingested = archive.ingest_finalized_blocks(blocks.to_vec(), &provenance);
        ingested.await.unwrap();
    }
}

/// Completes a fill with its part of all blocks.
async fn finish(mut fill: Fill, blocks: &[Block], proof: Proof) {
    let range = fill.range();
    let part = &blocks[range.start as usize..range.end as usize];
    let provenance = Provenance {
        proof,
        ..Provenance::default()
    };
    fill.push(part.to_vec(), &provenance).await.unwrap();
    fill.finish().await.unwrap();
}

/// A fill is recorded nowhere, and one with a higher level may replace logs.
#[tokio::test]
async fn an_origin_changes_with_the_level_and_not_with_merges() {
    let (whole, lacking) = blocks();
    let archive = Stores::memory().writer(&few()).await;
    ingest(&archive, &lacking).await;
    let ranges = [OLD, NEW, BLOCKS];
    let before = ranges.map(|range| origin(&archive, range));
    let segments = archive.health().segments;
    while archive.maintain().await.unwrap() {}
    assert_ne!(archive.health().segments, segments, "nothing was merged");
    assert_eq!(ranges.map(|range| origin(&archive, range)), before);

    let logs = logs_of(&archive, OLD).await;
    let proof = Proof::of_logs(Verification::Receipts);
    finish(archive.fill(OLD).unwrap(), &whole, proof).await;
    assert_ne!(logs_of(&archive, OLD).await, logs, "nothing was replaced");
    let after = ranges.map(|range| origin(&archive, range));
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1], before[1], "these blocks are what they were");
    assert_ne!(after[2], before[2]);

    let beyond = BlockRange::new(120, 129);
    let pinned = archive.pin().unwrap();
    assert!(pinned.origin(&beyond, &LogFilter::over(beyond)).is_err());
}

/// Datasets that are added lie beside what is there, and logs are read from the copy that reaches further.
#[tokio::test]
async fn an_origin_changes_with_datasets_that_are_added() {
    let (whole, lacking) = blocks();
    let mut settings = few();
    // Only the grid cuts.
    settings.seal.weight = 1_000_000;
    let archive = Stores::memory().writer(&settings).await;
    ingest(&archive, &lacking[127..]).await;
    for start in (0..127_u64).step_by(8) {
        let part = BlockRange::new(start, (start + 8).min(127));
        finish(archive.fill(part).unwrap(), &lacking, Proof::CLAIMED).await;
    }
    let (before, logs) = (origin(&archive, OLD), logs_of(&archive, OLD).await);
    let (scope, datasets) = (settings.scope, settings.datasets.with(Dataset::TxHashes));
    let range = BlockRange::new(0, 127);
    let fill = archive.fill_with(range, datasets, scope).unwrap();
    finish(fill, &whole, Proof::CLAIMED).await;
    assert_ne!(logs_of(&archive, OLD).await, logs, "the fill is not read");
    assert_ne!(origin(&archive, OLD), before);
}

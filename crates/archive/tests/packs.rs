//! Packs: what is joined, what a fill replaces, and payload that is empty.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
mod support;

use bytes::Bytes;
use chronolith_archive::{Error, Provenance};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Verification};
use crash::{batch, crash_settings};
use support::{Stores, tiny_chain, tiny_settings};

/// A block whose header, raw bytes and bodies are all empty, between others that are not.
#[tokio::test]
async fn a_block_with_an_empty_payload_comes_back() {
    let chain = tiny_chain(1);
    let mut blocks = batch(&chain, BlockRange::new(0, 3));
    blocks[1].payload.header = Some(Bytes::new());
    blocks[1].payload.raw = Some(Bytes::new());
    blocks[1].payload.bodies = Some(vec![Bytes::new(); blocks[1].txs.len()]);
    let archive = Stores::memory().writer(&crash_settings()).await;
    archive
        .ingest_finalized_blocks(blocks.clone(), &Provenance::default())
        .await
        .unwrap();
    for block in blocks {
        let payload = archive
            .payload(block.clock.number, Dataset::Headers)
            .await
            .unwrap();
        assert_eq!(payload, block.payload);
    }
}

/// Payload is kept, then not, then again: packs that do not touch must not be joined.
#[tokio::test]
async fn packs_with_a_gap_between_them_stay_apart() {
    let (stores, chain) = (Stores::memory(), tiny_chain(1));
    for (round, settings) in [crash_settings(), tiny_settings(), crash_settings()]
        .iter()
        .enumerate()
    {
        let archive = stores.writer(settings).await;
        for start in (0..9).step_by(3).map(|at| at + 9 * round as u64) {
            let blocks = batch(&chain, BlockRange::new(start, start + 3));
            archive
                .ingest_finalized_blocks(blocks, &Provenance::default())
                .await
                .unwrap();
        }
    }
    let archive = stores.writer(&crash_settings()).await;
    while archive.maintain().await.unwrap() {}
    for number in (0..9).chain(18..27) {
        let payload = archive.payload(number, Dataset::Headers).await;
        assert_eq!(
            payload.unwrap(),
            chain.block(number).payload,
            "block {number}"
        );
    }
    let missing = archive.payload(12, Dataset::Headers).await;
    assert!(
        matches!(missing, Err(Error::NotCovered { .. })),
        "{missing:?}"
    );
}

/// All payload, then headers only: a joined pack must not claim what half of it lacks.
#[tokio::test]
async fn packs_of_different_datasets_stay_apart() {
    let (stores, chain) = (Stores::memory(), tiny_chain(1));
    let mut headers = crash_settings();
    headers.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes, Dataset::Headers]);
    for (round, settings) in [crash_settings(), headers.clone()].iter().enumerate() {
        let archive = stores.writer(settings).await;
        for start in (0..9).step_by(3).map(|at| at + 9 * round as u64) {
            let blocks = batch(&chain, BlockRange::new(start, start + 3));
            archive
                .ingest_finalized_blocks(blocks, &Provenance::default())
                .await
                .unwrap();
        }
        while archive.maintain().await.unwrap() {}
    }
    let archive = stores.writer(&headers).await;
    let missing = archive.payload(12, Dataset::Transactions).await;
    assert!(
        matches!(missing, Err(Error::NotCovered { .. })),
        "{missing:?}"
    );
}

/// The same fill again: what it supersedes goes, packs too. (Runs stay: they name the same blocks.)
#[tokio::test]
async fn a_fill_made_twice_leaves_one() {
    let chain = tiny_chain(1);
    let archive = Stores::memory().writer(&crash_settings()).await;
    let range = BlockRange::new(0, 40);
    let mut stored = Vec::new();
    for _ in 0..2 {
        let mut fill = archive.fill(range).unwrap();
        fill.push(batch(&chain, range), &Provenance::default())
            .await
            .unwrap();
        fill.finish().await.unwrap();
        while archive.maintain().await.unwrap() {}
        let health = archive.health();
        stored.push((health.segments, health.runs_and_packs.1));
    }
    assert_eq!(stored[0], stored[1]);
}

/// A better proven fill replaces what packs hold, too.
#[tokio::test]
async fn a_better_proven_fill_replaces_payload() {
    let chain = tiny_chain(1);
    let archive = Stores::memory().writer(&crash_settings()).await;
    let range = BlockRange::new(0, 64);
    let mut wrong = batch(&chain, range);
    wrong[3].payload.header = Some(Bytes::from_static(b"wrong"));
    let how = Provenance::default();
    let mut fill = archive.fill(range).unwrap();
    fill.push(wrong, &how).await.unwrap();
    fill.finish().await.unwrap();
    let proven = Provenance {
        proof: Proof::of_logs(Verification::Receipts),
        ..how
    };
    let mut fill = archive.fill(range).unwrap();
    fill.push(batch(&chain, range), &proven).await.unwrap();
    fill.finish().await.unwrap();
    let payload = archive.payload(3, Dataset::Headers).await.unwrap();
    assert_eq!(payload, chain.block(3).payload);
}

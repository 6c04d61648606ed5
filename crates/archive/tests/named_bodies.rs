//! Bodies of the transactions that kept logs name, and of no others: they come back whole, and are never
//! taken for all transactions of a block.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
mod support;

use bytes::Bytes;
use chronolith_archive::{Archive, AuditEntry, Error, Provenance, Settings};
use chronolith_model::{
    Block, BlockRange, Clause, Dataset, DatasetSet, LogFilter, Scope, ScopeEntry,
};
use chronolith_sim::SimChain;
use crash::{batch, crash_settings};
use support::{Stores, tiny_chain};

const BLOCKS: BlockRange = BlockRange::new(0, 60);

fn by_logs() -> DatasetSet {
    DatasetSet::of(&[Dataset::Logs, Dataset::Transactions])
}

fn scope(emitter: &Bytes) -> Scope {
    Scope::only(vec![ScopeEntry {
        emitter: Some(emitter.clone()),
        topic0: None,
    }])
}

fn filter(emitter: &Bytes) -> LogFilter {
    LogFilter {
        emitters: Clause::OneOf(vec![emitter.clone()]),
        ..LogFilter::over(BLOCKS)
    }
}

fn narrow(emitter: &Bytes) -> Settings {
    Settings {
        datasets: by_logs(),
        scope: scope(emitter),
        ..crash_settings()
    }
}

/// Two emitters, each with logs in some blocks and without any in others.
fn emitters(chain: &SimChain) -> [Bytes; 2] {
    let mut found: Vec<Bytes> = Vec::new();
    for block in chain.blocks(BLOCKS) {
        for log in &block.logs {
            let emitter = Bytes::copy_from_slice(log.emitter());
            let some = chain.blocks(BLOCKS).filter(|block| has(block, &emitter));
            if some.count() < 40 && !found.contains(&emitter) {
                found.push(emitter);
            }
        }
    }
    [found[0].clone(), found[1].clone()]
}

fn has(block: &Block, emitter: &Bytes) -> bool {
    block.logs.iter().any(|log| log.emitter() == emitter)
}

/// The bodies that an emitter's logs name.
fn named(block: &Block, emitter: &Bytes) -> Vec<Bytes> {
    let bodies = block.payload.bodies.as_ref().unwrap();
    let is_named = |index: u32| {
        let mut logs = block.logs.iter().filter(|log| log.emitter() == emitter);
        logs.any(|log| log.tx_index() == index)
    };
    let own = block.txs.iter().filter(|tx| !tx.is_alias());
    let both = own.zip(bodies).filter(|(tx, _)| is_named(tx.index));
    both.map(|(_, body)| body.clone()).collect()
}

async fn ingest(archive: &Archive, chain: &SimChain) {
    for start in (BLOCKS.start..BLOCKS.end).step_by(5) {
        let blocks = batch(chain, BlockRange::new(start, start + 5));
        let how = Provenance::default();
        archive.ingest_finalized_blocks(blocks, &how).await.unwrap();
    }
    while archive.maintain().await.unwrap() {}
}

async fn fill(archive: &Archive, chain: &SimChain, datasets: DatasetSet, scope: Scope) {
    let mut fill = archive.fill_with(BLOCKS, datasets, scope).unwrap();
    fill.push(batch(chain, BLOCKS), &Provenance::default())
        .await
        .unwrap();
    fill.finish().await.unwrap();
    while archive.maintain().await.unwrap() {}
}

/// The bodies of an emitter's transactions are there, and how many they are.
async fn assert_holds(archive: &Archive, chain: &SimChain, emitter: &Bytes) -> usize {
    let pinned = archive.pin().unwrap();
    let covered = pinned.coverage(by_logs(), Some(&filter(emitter)));
    let covered: Vec<BlockRange> = covered.into_iter().map(|(range, _)| range).collect();
    assert_eq!(covered, [BLOCKS]);
    let lacking = archive.missing(BLOCKS, by_logs(), &scope(emitter));
    assert_eq!(lacking, []);
    let mut count = 0;
    for block in chain.blocks(BLOCKS) {
        let number = block.clock.number;
        let found = pinned.bodies_of_logs(number, &filter(emitter)).await;
        let expected = named(&block, emitter);
        let found = found.unwrap();
        assert!(expected.iter().all(|body| found.contains(body)), "{number}");
        count += found.len();
        let same = archive.difference(&block, by_logs(), &scope(emitter)).await;
        assert_eq!(same.unwrap(), None, "block {number}");
    }
    count
}

fn not_covered<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(
        matches!(answer, Err(Error::NotCovered { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn only_named_bodies_are_kept_and_they_are_not_taken_for_all() {
    let chain = tiny_chain(1);
    let [emitter, other] = emitters(&chain);
    let archive = Stores::memory().writer(&narrow(&emitter)).await;
    ingest(&archive, &chain).await;
    let expected = chain
        .blocks(BLOCKS)
        .map(|block| named(&block, &emitter).len());
    let kept = assert_holds(&archive, &chain, &emitter).await;
    assert_eq!(kept, expected.sum::<usize>());
    let pinned = archive.pin().unwrap();
    for datasets in [&[Dataset::Transactions][..], &[Dataset::Logs]] {
        let datasets = DatasetSet::of(datasets);
        assert_eq!(pinned.coverage(datasets, None), [], "{datasets:?}");
    }
    assert_eq!(pinned.coverage(by_logs(), Some(&filter(&other))), []);
    let mut unlisted = 0;
    for block in chain.blocks(BLOCKS) {
        let number = block.clock.number;
        not_covered(pinned.payload(number, Dataset::Transactions).await);
        not_covered(pinned.bodies(number, 0..9).await);
        not_covered(pinned.transactions(number).await);
        not_covered(pinned.bodies_of_logs(number, &filter(&other)).await);
        let own = block.txs.iter().filter(|tx| !tx.is_alias());
        for tx in own {
            let is_named = |log: &chronolith_model::Log| {
                log.emitter() == emitter && log.tx_index() == tx.index
            };
            let found = pinned.transaction_by_hash(&tx.hash).await;
            if block.logs.iter().any(is_named) {
                assert_eq!(found.unwrap().unwrap().index, tx.index);
            } else {
                not_covered(found);
                unlisted += 1;
            }
        }
    }
    assert!(unlisted > 0);
}

/// Packs hold no logs. A fill for another emitter took the first one's pack for its own and removed it.
#[tokio::test]
async fn bodies_of_two_scopes_lie_beside_each_other() {
    let chain = tiny_chain(1);
    let [first, second] = emitters(&chain);
    let stores = Stores::memory();
    let archive = stores.writer(&narrow(&first)).await;
    ingest(&archive, &chain).await;
    fill(&archive, &chain, by_logs(), scope(&second)).await;
    for emitter in [&first, &second] {
        assert_holds(&archive, &chain, emitter).await;
    }
    archive.release().await.unwrap();
    // What packs say of themselves is enough to tell them apart.
    let lost = stores.without_state();
    let anchor = chain.block(BLOCKS.end - 1).clock.block_ref();
    let report = lost.rebuild(&narrow(&first), anchor).await.unwrap();
    assert_eq!(report.covered, BLOCKS);
    let archive = lost.writer(&narrow(&first)).await;
    for emitter in [&first, &second] {
        assert_holds(&archive, &chain, emitter).await;
    }
}

/// Everything beside the transactions of some logs: each is asked for as what it is.
#[tokio::test]
async fn named_bodies_lie_beside_all_of_them() {
    let chain = tiny_chain(1);
    let [emitter, other] = emitters(&chain);
    let archive = Stores::memory().writer(&narrow(&emitter)).await;
    ingest(&archive, &chain).await;
    let all = DatasetSet::of(&Dataset::ALL);
    assert_eq!(archive.missing(BLOCKS, all, &Scope::All), [BLOCKS]);
    fill(&archive, &chain, all, Scope::All).await;
    assert_eq!(archive.missing(BLOCKS, all, &Scope::All), []);
    for emitter in [&emitter, &other] {
        assert_holds(&archive, &chain, emitter).await;
    }
    let pinned = archive.pin().unwrap();
    for block in chain.blocks(BLOCKS) {
        let number = block.clock.number;
        let payload = pinned.payload(number, Dataset::Transactions).await;
        assert_eq!(payload.unwrap(), block.payload, "block {number}");
        let same = archive.difference(&block, all, &Scope::All).await;
        assert_eq!(same.unwrap(), None);
    }
}

/// A pack with some bodies is rebuilt with the same ones.
#[tokio::test]
async fn a_pack_of_named_bodies_is_repaired() {
    let chain = tiny_chain(1);
    let [emitter, _] = emitters(&chain);
    let stores = Stores::memory();
    let archive = stores.writer(&narrow(&emitter)).await;
    ingest(&archive, &chain).await;
    let before = assert_holds(&archive, &chain, &emitter).await;
    for pack in archive.packs_of(7) {
        assert_eq!(pack.scope, scope(&emitter));
        let audit = AuditEntry {
            at: 5,
            act: "repair".to_owned(),
        };
        let mut fill = archive.repair(&pack, audit).unwrap();
        let blocks = batch(&chain, pack.range);
        fill.push(blocks, &Provenance::default()).await.unwrap();
        fill.finish().await.unwrap();
        assert!(!archive.names(&pack));
    }
    assert_eq!(assert_holds(&archive, &chain, &emitter).await, before);
}

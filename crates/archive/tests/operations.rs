//! Ingest outcomes, halts, rewinds, prunes, fills, garbage, and two writers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_archive::{AuditEntry, Error, GcMode, Health, IngestOutcome, Provenance, Settings};
use chronolith_model::{
    Block, BlockRange, Dataset, DatasetSet, Hash32, Log, LogFilter, LogParts, Proof, Scope,
    ScopeEntry, Verification,
};
use chronolith_sim::SimChain;
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

fn audit(act: &str) -> AuditEntry {
    AuditEntry {
        at: 1,
        act: act.to_owned(),
    }
}

fn batch(chain: &SimChain, start: u64, end: u64) -> Vec<Block> {
    chain.blocks(BlockRange::new(start, end)).collect()
}

async fn assert_equals_chain(
    archive: &chronolith_archive::Archive,
    chain: &SimChain,
    range: BlockRange,
) {
    let oracle = oracle_of(chain, range);
    let mut filter = LogFilter::over(range);
    filter.limit = Some(1_000_000);
    let page = archive.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle, &filter);
    for block in oracle.blocks() {
        assert_eq!(
            archive.block_by_hash(&block.clock.hash).await.unwrap(),
            Some(block.clock)
        );
    }
}

#[tokio::test]
async fn a_batch_is_taken_whole_or_not_at_all() {
    let chain = tiny_chain(21);
    let archive = Stores::memory().writer(&tiny_settings()).await;
    let how = Provenance::default();
    let ingest = async |blocks| archive.ingest_finalized_blocks(blocks, &how).await;

    let done = ingest(batch(&chain, 0, 10)).await.unwrap();
    let head = chain.block_ref(9);
    assert_eq!(done, IngestOutcome::Appended { head, blocks: 10 });
    assert_eq!(
        ingest(batch(&chain, 3, 9)).await.unwrap(),
        IngestOutcome::AlreadyIndexed
    );
    let overlap = ingest(batch(&chain, 5, 15)).await.unwrap();
    assert_eq!(
        overlap,
        IngestOutcome::Appended {
            head: chain.block_ref(14),
            blocks: 5
        }
    );

    let gap = ingest(batch(&chain, 16, 20)).await;
    assert!(
        matches!(
            gap,
            Err(Error::Gap {
                expected: 15,
                got: 16
            })
        ),
        "{gap:?}"
    );
    let mut hole = batch(&chain, 15, 20);
    hole.remove(2);
    assert!(matches!(
        ingest(hole).await,
        Err(Error::Gap {
            expected: 17,
            got: 18
        })
    ));
    let mut unlinked = batch(&chain, 15, 18);
    unlinked[0].clock.parent_hash = Hash32([1; 32]);
    assert!(matches!(
        ingest(unlinked).await,
        Err(Error::BadParent { number: 15, .. })
    ));
    let mut bad = batch(&chain, 15, 18);
    let at = bad.iter().position(|block| !block.logs.is_empty()).unwrap();
    let parts = LogParts {
        tx_index: 9_999,
        log_index: 0,
        ..LogParts::default()
    };
    bad[at].logs[0] = Log::new(&parts).unwrap();
    assert!(matches!(ingest(bad).await, Err(Error::BadBlock { .. })));

    let mut other = batch(&chain, 12, 20);
    let lost = std::mem::take(&mut other[1].logs);
    assert!(!lost.is_empty(), "block 13 has no logs to lose");
    let conflict = ingest(other).await.unwrap();
    assert!(matches!(conflict, IngestOutcome::ContentConflict { block, .. } if block.number == 13));
    assert_eq!(
        archive.indexed_finalized_head(),
        Some(14),
        "the whole batch was refused"
    );
    assert!(matches!(ingest(Vec::new()).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_replaced_block_halts_until_an_operator_acts() {
    let chain = tiny_chain(22);
    let fork = chain.fork(30, 1);
    let stores = Stores::memory();
    let settings = tiny_settings();
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, BlockRange::new(0, 50), &[7]).await;
    let how = Provenance {
        source: "liar".into(),
        now: 99,
        ..Provenance::default()
    };
    let answer = archive
        .ingest_finalized_blocks(batch(&fork, 30, 60), &how)
        .await;
    assert!(
        matches!(answer, Err(Error::FinalityViolation { archived, .. }) if archived.number == 30)
    );
    drop(archive);

    let archive = stores.writer(&settings).await;
    let Health::Halted(halt) = archive.health().health else {
        panic!("not halted")
    };
    assert_eq!((halt.source.as_str(), halt.at), ("liar", 99));
    let answer = archive
        .ingest_finalized_blocks(batch(&chain, 50, 51), &how)
        .await;
    assert!(matches!(answer, Err(Error::Halted { .. })));
    assert_equals_chain(&archive, &chain, BlockRange::new(0, 50)).await;
    archive.resume(audit("resume --keep")).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(50, 55), &[5]).await;
    assert_eq!(archive.health().audit, vec![audit("resume --keep")]);

    archive.rewind(29, audit("rewind --to 29")).await.unwrap();
    assert_eq!(archive.indexed_finalized_head(), Some(29));
    assert_equals_chain(&archive, &chain, BlockRange::new(0, 30)).await;
    assert_eq!(
        archive.block_by_hash(&chain.block_hash(30)).await.unwrap(),
        None
    );
    ingest(&archive, &fork, BlockRange::new(30, 300), &[11]).await;
    assert_equals_chain(&archive, &fork, BlockRange::new(0, 300)).await;
}

#[tokio::test]
async fn rewinding_to_any_block_leaves_what_sequential_ingest_would() {
    let chain = tiny_chain(23);
    let range = BlockRange::new(100, 420);
    for to in [100, 127, 128, 200, 255, 256, 301, 418] {
        let archive = Stores::memory().writer(&tiny_settings()).await;
        ingest(&archive, &chain, range, &[13, 2]).await;
        archive.rewind(to, audit("rewind")).await.unwrap();
        assert_equals_chain(&archive, &chain, BlockRange::new(100, to + 1)).await;
        let fork = chain.fork(to + 1, 5);
        ingest(&archive, &fork, BlockRange::new(to + 1, 500), &[9]).await;
        assert_equals_chain(&archive, &fork, BlockRange::new(100, 500)).await;
    }
}

#[tokio::test]
async fn batching_filling_and_merging_leave_equal_content_roots() {
    let chain = tiny_chain(24);
    let range = BlockRange::new(64, 500);
    let sequential = Stores::memory().writer(&tiny_settings()).await;
    ingest(&sequential, &chain, range, &[1]).await;
    let batched = Stores::memory().writer(&tiny_settings()).await;
    ingest(&batched, &chain, range, &[50, 3, 120]).await;
    let filled = Stores::memory().writer(&tiny_settings()).await;
    let fills = [(320, 500), (64, 128), (128, 320)].map(|(start, end)| {
        let (filled, chain) = (filled.clone(), chain.clone());
        async move {
            let mut fill = filled.fill(BlockRange::new(start, end)).unwrap();
            let blocks: Vec<Block> = batch(&chain, start, end);
            for chunk in blocks.chunks(17) {
                fill.push(chunk.to_vec(), &Provenance::default())
                    .await
                    .unwrap();
            }
            fill.finish().await.unwrap();
        }
    });
    futures::future::join_all(fills).await;
    while filled.maintain().await.unwrap() {}
    let root = sequential.content_root(range).await.unwrap();
    assert_eq!(batched.content_root(range).await.unwrap(), root);
    assert_eq!(filled.content_root(range).await.unwrap(), root);
    assert_ne!(
        sequential
            .content_root(BlockRange::new(64, 499))
            .await
            .unwrap(),
        root
    );
    assert_eq!(filled.indexed_finalized_head(), Some(499));
    assert_equals_chain(&filled, &chain, range).await;
    ingest(&filled, &chain, BlockRange::new(500, 600), &[10]).await;
    assert_equals_chain(&filled, &chain, BlockRange::new(64, 600)).await;
}

#[tokio::test]
async fn a_fill_that_does_not_link_is_not_published() {
    let chain = tiny_chain(25);
    let archive = Stores::memory().writer(&tiny_settings()).await;
    ingest(&archive, &chain, BlockRange::new(100, 150), &[10]).await;
    let how = Provenance::default();
    let fork = chain.fork(60, 3);
    let mut fill = archive.fill(BlockRange::new(50, 100)).unwrap();
    fill.push(batch(&fork, 50, 100), &how).await.unwrap();
    let answer = fill.finish().await;
    assert!(
        matches!(answer, Err(Error::BadParent { number: 100, .. })),
        "{answer:?}"
    );
    let missing = archive.block_by_number(70).await;
    assert!(matches!(missing, Err(Error::NotCovered { .. })));
    let mut short = archive.fill(BlockRange::new(50, 100)).unwrap();
    short.push(batch(&chain, 50, 90), &how).await.unwrap();
    assert!(matches!(
        short.finish().await,
        Err(Error::Gap { expected: 90, .. })
    ));
    let mut fill = archive.fill(BlockRange::new(50, 100)).unwrap();
    fill.push(batch(&chain, 50, 100), &how).await.unwrap();
    fill.finish().await.unwrap();
    assert_equals_chain(&archive, &chain, BlockRange::new(50, 150)).await;
}

#[tokio::test]
async fn a_better_proven_fill_supersedes_and_an_equal_one_must_agree() {
    let chain = tiny_chain(26);
    let archive = Stores::memory().writer(&tiny_settings()).await;
    let range = BlockRange::new(0, 128);
    ingest(&archive, &chain, range, &[16]).await;
    let level = |archive: &chronolith_archive::Archive| {
        let covered = archive.coverage(DatasetSet::of(&[Dataset::Logs]), None);
        covered.iter().map(|(_, level)| *level).reduce(Proof::lower)
    };
    assert_eq!(level(&archive), Some(Proof::CLAIMED));
    let mut wrong = batch(&chain, 0, 128);
    wrong.iter_mut().for_each(|block| block.logs.clear());
    let mut fill = archive.fill(range).unwrap();
    fill.push(wrong.clone(), &Provenance::default())
        .await
        .unwrap();
    assert!(fill.finish().await.is_err(), "same level, other content");
    let proven = Provenance {
        proof: Proof::of_logs(Verification::Receipts),
        ..Provenance::default()
    };
    let mut fill = archive.fill(range).unwrap();
    fill.push(batch(&chain, 0, 128), &proven).await.unwrap();
    fill.finish().await.unwrap();
    assert_eq!(
        level(&archive),
        Some(Proof::of_logs(Verification::Receipts))
    );
    assert_equals_chain(&archive, &chain, range).await;
}

#[tokio::test]
async fn a_narrow_scope_answers_only_what_it_proves_until_it_is_widened() {
    let chain = tiny_chain(27);
    let range = BlockRange::new(0, 128);
    let some = chain
        .blocks(range)
        .flat_map(|block| block.logs)
        .next()
        .unwrap();
    let emitter = bytes::Bytes::copy_from_slice(some.emitter());
    let entry = ScopeEntry {
        emitter: Some(emitter.clone()),
        topic0: None,
    };
    let settings = Settings {
        scope: Scope::only(vec![entry]),
        ..tiny_settings()
    };
    let archive = Stores::memory().writer(&settings).await;
    ingest(&archive, &chain, range, &[16]).await;
    let mut narrow = LogFilter::over(range);
    narrow.emitters = chronolith_model::Clause::OneOf(vec![emitter]);
    narrow.limit = Some(100_000);
    let oracle = oracle_of(&chain, range);
    let page = archive.query_finalized(&narrow).await.unwrap();
    assert!(!page.logs.is_empty());
    assert_answers(&page, &oracle, &narrow);
    let mut wide = LogFilter::over(range);
    wide.limit = Some(100_000);
    assert!(matches!(
        archive.query_finalized(&wide).await,
        Err(Error::NotCovered { .. })
    ));
    let datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    let mut fill = archive.fill_with(range, datasets, Scope::All).unwrap();
    fill.push(batch(&chain, 0, 128), &Provenance::default())
        .await
        .unwrap();
    fill.finish().await.unwrap();
    let page = archive.query_finalized(&wide).await.unwrap();
    assert_answers(&page, &oracle, &wide);
    let page = archive.query_finalized(&narrow).await.unwrap();
    assert_answers(&page, &oracle, &narrow);
}

#[tokio::test]
async fn headers_bodies_and_raw_blocks_come_back_byte_for_byte() {
    let chain = tiny_chain(28);
    let range = BlockRange::new(0, 200);
    let settings = Settings {
        datasets: DatasetSet::of(&Dataset::ALL),
        ..tiny_settings()
    };
    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, range, &[3, 20]).await;
    archive.rewind(150, audit("rewind")).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(151, 200), &[3]).await;
    let reader = stores.reader(&settings).await;
    let mut bytes = 0;
    for block in chain.blocks(range) {
        let payload = reader
            .payload(block.clock.number, Dataset::Transactions)
            .await
            .unwrap();
        bytes += payload.header.as_ref().map_or(0, |header| header.len());
        assert_eq!(payload, block.payload);
        let mut whole = reader.block(block.clock.number).await.unwrap();
        whole.payload = payload;
        assert_eq!(whole, block);
    }
    assert!(bytes > 0, "the chain has headers");
    let missing = reader.payload(200, Dataset::Headers).await;
    assert!(matches!(missing, Err(Error::NotCovered { .. })));
}

#[tokio::test]
async fn pruning_lets_go_of_whole_segments_and_says_so() {
    let chain = tiny_chain(29);
    let archive = Stores::memory().writer(&tiny_settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 300), &[10]).await;
    let pruned = archive.prune(192, audit("prune")).await.unwrap();
    assert!(pruned > 0);
    let first = archive.health().covered.unwrap().start;
    assert!(first > 0 && first <= 192, "{first}");
    assert!(matches!(
        archive.block_by_number(first - 1).await,
        Err(Error::NotCovered { .. })
    ));
    assert_eq!(
        archive
            .block_by_hash(&chain.block_hash(first - 1))
            .await
            .unwrap(),
        None
    );
    assert_equals_chain(&archive, &chain, BlockRange::new(first, 300)).await;
    ingest(&archive, &chain, BlockRange::new(300, 400), &[10]).await;
    assert_equals_chain(&archive, &chain, BlockRange::new(first, 400)).await;
}

#[tokio::test(start_paused = true)]
async fn garbage_goes_after_its_grace_and_nothing_else_does() {
    let chain = tiny_chain(30);
    let stores = Stores::memory();
    let mut settings = tiny_settings();
    settings.garbage.grace = Duration::from_secs(60);
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, BlockRange::new(0, 200), &[5]).await;
    let seen = archive.collect_garbage(GcMode::DryRun).await.unwrap();
    assert!(
        seen.orphan_segment_bytes > 0 && seen.stale_batch_keys > 0 && seen.orphan_state_records > 0
    );
    assert_eq!(seen.removed, 0);
    let first = archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert_eq!(first.removed, 0, "within the grace period");
    tokio::time::advance(Duration::from_secs(61)).await;
    let second = archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert_eq!(second.removed, seen.orphans.len() as u64);
    assert!(
        archive
            .collect_garbage(GcMode::DryRun)
            .await
            .unwrap()
            .orphans
            .is_empty()
    );
    assert_equals_chain(&archive, &chain, BlockRange::new(0, 200)).await;
    let reader = stores.reader(&settings).await;
    assert_equals_chain(&reader, &chain, BlockRange::new(0, 200)).await;
}

#[tokio::test(start_paused = true)]
async fn too_much_garbage_throttles_and_then_halts() {
    let chain = tiny_chain(31);
    let mut settings = tiny_settings();
    settings.garbage.stale_batch_keys_max = 0;
    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, BlockRange::new(0, 60), &[3]).await;
    archive.collect_garbage(GcMode::DryRun).await.unwrap();
    let more = batch(&chain, 60, 63);
    let answer = archive
        .ingest_finalized_blocks(more.clone(), &Provenance::default())
        .await;
    assert!(
        matches!(
            answer,
            Err(Error::Throttled {
                guardrail: "stale_batch_keys",
                ..
            })
        ),
        "{answer:?}"
    );
    assert!(matches!(archive.health().health, Health::Throttled(_)));
    // Merges and fills leave garbage behind as well: they wait, too.
    let merged = archive.maintain().await;
    assert!(matches!(merged, Err(Error::Throttled { .. })), "{merged:?}");
    let mut fill = archive.fill(BlockRange::new(0, 20)).unwrap();
    let pushed = fill
        .push(batch(&chain, 0, 20), &Provenance::default())
        .await;
    assert!(matches!(pushed, Err(Error::Throttled { .. })), "{pushed:?}");
    // It rises by what this writer does itself, which is no reason to halt.
    archive
        .rewind(40, audit("makes more garbage"))
        .await
        .unwrap();
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert!(matches!(archive.health().health, Health::Throttled(_)));
    // Now something else writes into the same place.
    let stray = "bat/000000000000-9-00000000-1-0000000000000000";
    stores
        .blobs
        .put(stray, bytes::Bytes::from_static(b"stray"))
        .await
        .unwrap();
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert!(
        matches!(archive.health().health, Health::Halted(_)),
        "{:?}",
        archive.health().health
    );
}

/// Which blocks each run that was ever made is of, by its name.
async fn runs_with(range_blocks: u64) -> Vec<BlockRange> {
    let chain = tiny_chain(35);
    let stores = Stores::memory();
    let mut settings = tiny_settings();
    settings.seal.range_blocks = range_blocks;
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, BlockRange::new(0, 1_000), &[50]).await;
    while archive.maintain().await.unwrap() {}
    let runs = stores.blobs.list("run/", None, 1_000).await.unwrap();
    let ranges = runs.iter().map(|run| {
        let mut numbers = run.name["run/".len()..].split('-');
        let mut number = || numbers.next().unwrap().parse().unwrap();
        BlockRange::new(number(), number())
    });
    ranges.collect()
}

#[tokio::test]
async fn no_run_crosses_the_border_of_a_range() {
    let crosses = |run: &BlockRange| run.start / 320 != (run.end - 1) / 320;
    let runs = runs_with(320).await;
    assert!(!runs.iter().any(crosses), "{runs:?}");
    assert!(runs.iter().any(|run| run.len() == 320), "{runs:?}");
    // It is the border that keeps them apart.
    let runs = runs_with(960).await;
    assert!(runs.iter().any(crosses), "{runs:?}");
}

#[tokio::test]
async fn an_older_writer_is_fenced_and_loses_nothing_for_the_newer() {
    let chain = tiny_chain(32);
    let stores = Stores::memory();
    let settings = tiny_settings();
    let old = stores.writer(&settings).await;
    ingest(&old, &chain, BlockRange::new(0, 40), &[4]).await;
    let new = stores.writer(&settings).await;
    let how = Provenance::default();
    let answer = old
        .ingest_finalized_blocks(batch(&chain, 40, 45), &how)
        .await;
    assert!(
        matches!(answer, Err(Error::Fenced { ours: 1, theirs: 2 })),
        "{answer:?}"
    );
    assert!(matches!(
        old.collect_garbage(GcMode::Remove).await,
        Err(Error::Fenced { .. })
    ));
    ingest(&new, &chain, BlockRange::new(40, 90), &[4]).await;
    assert_equals_chain(&new, &chain, BlockRange::new(0, 90)).await;
    assert!(matches!(old.maintain().await, Err(Error::Fenced { .. })));
}

/// A segment says one thing about all of its blocks, so what lies unsealed when the settings change
/// is sealed as it was.
#[tokio::test]
async fn changed_settings_do_not_change_what_is_reported_of_older_blocks() {
    let chain = tiny_chain(33);
    let stores = Stores::memory();
    let plain = tiny_settings();
    let archive = stores.writer(&plain).await;
    ingest(&archive, &chain, BlockRange::new(0, 5), &[2]).await;
    let all = Settings {
        datasets: DatasetSet::of(&Dataset::ALL),
        ..tiny_settings()
    };
    let archive = stores.writer(&all).await;
    ingest(&archive, &chain, BlockRange::new(5, 100), &[2]).await;
    let covered = archive.coverage(DatasetSet::of(&[Dataset::Headers]), None);
    let whole = covered
        .iter()
        .fold((u64::MAX, 0), |(start, end), (range, _)| {
            (start.min(range.start), end.max(range.end))
        });
    assert_eq!(whole, (5, 100));
    let missing = archive.payload(4, Dataset::Headers).await;
    assert!(matches!(missing, Err(Error::NotCovered { .. })));
    assert_equals_chain(&archive, &chain, BlockRange::new(0, 100)).await;
    let again = archive
        .ingest_finalized_blocks(batch(&chain, 0, 100), &Provenance::default())
        .await;
    assert_eq!(again.unwrap(), IngestOutcome::AlreadyIndexed);
}

#[tokio::test]
async fn a_writer_halts_on_damage_that_it_needs_and_still_serves() {
    let chain = tiny_chain(34);
    let stores = Stores::memory();
    let settings = tiny_settings();
    let archive = stores.writer(&settings).await;
    // The grid cuts at 64: one block lies unsealed.
    ingest(&archive, &chain, BlockRange::new(0, 65), &[65]).await;
    let batches = stores.blobs.list("bat/", None, 10).await.unwrap();
    let unsealed = batches.last().expect("something lies unsealed");
    let (batch_name, at) = (&unsealed.name, unsealed.len - 20);
    chronolith_sim::flip_byte(&*stores.blobs, batch_name, at)
        .await
        .unwrap();
    let archive = stores.writer(&settings).await;
    let next = batch(&chain, 65, 67);
    let answer = archive
        .ingest_finalized_blocks(next.clone(), &Provenance::default())
        .await;
    assert!(
        matches!(&answer, Err(Error::Corrupt { object, .. }) if object == batch_name),
        "{answer:?}"
    );
    let Health::Halted(halt) = archive.health().health else {
        panic!("not halted")
    };
    assert!(halt.reason.contains(batch_name.as_str()), "{halt:?}");
    let answer = archive
        .ingest_finalized_blocks(next, &Provenance::default())
        .await;
    assert!(matches!(answer, Err(Error::Halted { .. })));
    let whole = BlockRange::new(0, 64);
    let filter = LogFilter::over(whole);
    let page = archive.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle_of(&chain, whole), &filter);
}

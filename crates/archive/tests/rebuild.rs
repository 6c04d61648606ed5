//! A lost state is rebuilt from what the objects say of themselves.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronolith_archive::{AuditEntry, Error, GcMode, Health, Provenance, Settings, rebuild_state};
use chronolith_model::{BlockRange, BlockRef, Dataset, DatasetSet, LogFilter};
use chronolith_sim::SimChain;
use chronolith_store::{FileBlobs, FileMeta};
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

fn audit() -> AuditEntry {
    AuditEntry {
        at: 5,
        act: "rebuild".to_owned(),
    }
}

#[tokio::test]
async fn a_lost_state_is_rebuilt_by_hash_links_from_an_anchor() {
    let chain = tiny_chain(41);
    let range = BlockRange::new(0, 230);
    let settings = Settings {
        datasets: DatasetSet::of(&Dataset::ALL),
        ..tiny_settings()
    };
    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, range, &[7, 3]).await;
    let root = archive.content_root(range).await.unwrap();
    drop(archive);

    let lost = stores.without_state();
    let wrong = chain.fork(200, 1).block_ref(229);
    let refused = lost.rebuild(&settings, wrong).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let report = lost.rebuild(&settings, chain.block_ref(229)).await;
    let report = report.unwrap();
    assert_eq!((report.covered, report.without_hashes), (range, None));
    assert!(
        report.damaged.is_empty() && !report.undecided.is_empty(),
        "{report:?}"
    );
    assert!(
        report.runs_and_packs.0 > 0 && report.runs_and_packs.1 > 0,
        "{report:?}"
    );

    let archive = lost.writer(&settings).await;
    assert_eq!(archive.content_root(range).await.unwrap(), root);
    let halted = archive.collect_garbage(GcMode::Remove).await;
    assert!(
        matches!(halted, Err(Error::Halted { .. })),
        "nothing goes before an operator looked"
    );
    archive.resume(audit()).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(230, 400), &[11]).await;
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    let whole = BlockRange::new(0, 400);
    let oracle = oracle_of(&chain, whole);
    let mut filter = LogFilter::over(whole);
    filter.limit = Some(100_000);
    let page = archive.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle, &filter);
    for block in oracle.blocks() {
        assert_eq!(
            archive.block_by_hash(&block.clock.hash).await.unwrap(),
            Some(block.clock)
        );
        let number = block.clock.number;
        let payload = archive.payload(number, Dataset::Headers).await.unwrap();
        assert_eq!(payload, block.payload);
    }
    let again = lost.rebuild(&settings, chain.block_ref(229)).await;
    assert!(
        matches!(again, Err(Error::Invalid(_))),
        "a state is never overwritten"
    );
}

/// Runs were lost together with the state: they are rebuilt from the segments. A segment that cannot
/// be read gives none, and then its hashes are not covered, rather than not found.
#[tokio::test]
async fn hashes_that_are_gone_are_not_covered_rather_than_not_found() {
    let chain = tiny_chain(42);
    let range = BlockRange::new(0, 200);
    let stores = Stores::memory();
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &chain, range, &[9]).await;
    drop(archive);
    let runs = stores.blobs.list("run/", None, 1000).await.unwrap();
    assert!(!runs.is_empty());
    for run in runs {
        stores.blobs.delete(&run.name).await.unwrap();
    }
    let hash = chain.block_hash(3);
    let lost = stores.without_state();
    let report = lost.rebuild(&tiny_settings(), chain.block_ref(199)).await;
    let report = report.unwrap();
    assert_eq!(report.without_hashes, None, "{report:?}");
    assert!(report.runs_made > 0, "{report:?}");
    let archive = lost.reader(&tiny_settings()).await;
    let found = archive.block_by_hash(&hash).await.unwrap();
    assert_eq!(found, Some(chain.clock(3)));

    // Every list of hashes of the segment is damaged; its tables can still be read.
    let segment = archive.segments_of(3).remove(0).name;
    drop(archive);
    for run in stores.blobs.list("run/", None, 1000).await.unwrap() {
        stores.blobs.delete(&run.name).await.unwrap();
    }
    let whole = stores.blobs.get(&segment).await.unwrap();
    let mut damaged = whole.to_vec();
    let half = damaged.len() / 2;
    damaged[8..half].iter_mut().for_each(|byte| *byte ^= 0x55);
    stores.blobs.delete(&segment).await.unwrap();
    stores.blobs.put(&segment, damaged.into()).await.unwrap();
    let lost = stores.without_state();
    let report = lost.rebuild(&tiny_settings(), chain.block_ref(199)).await;
    assert!(report.unwrap().without_hashes.is_some());
    let archive = lost.writer(&tiny_settings()).await;
    let answer = archive.block_by_hash(&hash).await;
    assert!(
        matches!(answer, Err(Error::NotCovered { .. })),
        "{answer:?}"
    );
}

/// Several ranges are filled at the same time, and a lost object leaves a hole. A rebuilt state followed
/// the links down to the first hole: all below it was undecided, and gone five minutes after `resume`.
#[tokio::test]
async fn islands_below_a_gap_are_used_where_their_end_is_confirmed() {
    let chain = tiny_chain(43);
    let (stores, settings) = islands(&chain).await;
    let lost = stores.without_state();
    let requested = Mutex::new(Vec::new());
    let confirm = async |block: BlockRef| {
        requested.lock().unwrap().push(block.number);
        Ok(chain.block_ref(block.number) == block)
    };
    let anchor = chain.block_ref(299);
    let report = rebuild_state(&lost.place(), &settings, anchor, audit(), &confirm).await;
    let report = report.unwrap();
    assert_eq!(report.covered, BlockRange::new(200, 300), "{report:?}");
    let held = [BlockRange::new(0, 40), BlockRange::new(90, 150)];
    assert_eq!(report.islands, held, "{report:?}");
    assert_eq!(report.unlinked, [], "{report:?}");
    let requested = requested.into_inner().unwrap();
    assert_eq!(
        requested,
        [149, 39],
        "the end of each island is enough to ask for"
    );
    let archive = lost.writer(&settings).await;
    let covered: Vec<BlockRange> = archive
        .coverage(DatasetSet::CLOCK, None)
        .into_iter()
        .map(|(range, _)| range)
        .collect();
    assert_eq!(covered, [held[0], held[1], report.covered]);
    for number in [0, 39, 90, 149, 200, 299] {
        let hash = chain.block_hash(number);
        let found = archive.block_by_hash(&hash).await.unwrap();
        assert_eq!(found, Some(chain.clock(number)));
    }
}

#[tokio::test]
async fn what_a_rebuild_left_undecided_stays_until_an_operator_lets_it_go() {
    let chain = tiny_chain(44);
    let (stores, settings) = islands(&chain).await;
    let lost = stores.without_state();
    let report = lost.rebuild(&settings, chain.block_ref(299)).await.unwrap();
    assert_eq!(report.islands, []);
    let unlinked: Vec<_> = report.unlinked.iter().map(|one| one.range).collect();
    let all = [BlockRange::new(0, 40), BlockRange::new(90, 150)];
    assert_eq!(unlinked, all, "{report:?}");
    assert_eq!(report.unlinked[1].end, chain.block_ref(149));
    let islands = report.unlinked.iter().flat_map(|one| one.objects.clone());
    let islands: Vec<String> = islands.collect();
    let archive = lost.writer(&settings).await;
    archive.resume(audit()).await.unwrap();
    let count = async || {
        let mut there = 0;
        for name in &islands {
            there += usize::from(lost.blobs.get(name).await.is_ok());
        }
        there
    };
    let collected = archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert_eq!(count().await, islands.len(), "{collected:?}");
    assert!(collected.held >= islands.len() as u64, "{collected:?}");
    archive.drop_undecided(audit()).await.unwrap();
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert_eq!(count().await, 0);
}

/// An object that could not be read was reported and not held: where nothing else was open the archive was
/// not halted, and the collector removed the only copy of these blocks after the grace period.
#[tokio::test]
async fn what_a_rebuild_cannot_read_stays_until_an_operator_lets_it_go() {
    let chain = tiny_chain(47);
    let (stores, settings) = islands(&chain).await;
    let archive = stores.writer(&settings).await;
    // No older copies are left, so that nothing but the damage is open.
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    let segment = archive.segments_of(149).remove(0).name;
    drop(archive);
    let mut longer = stores.blobs.get(&segment).await.unwrap().to_vec();
    longer.extend([0; 100]);
    stores.blobs.delete(&segment).await.unwrap();
    stores.blobs.put(&segment, longer.into()).await.unwrap();

    let lost = stores.without_state();
    let confirm = async |block: BlockRef| Ok(chain.block_ref(block.number) == block);
    let anchor = chain.block_ref(299);
    let report = rebuild_state(&lost.place(), &settings, anchor, audit(), &confirm).await;
    let report = report.unwrap();
    let damaged: Vec<_> = report.damaged.iter().map(|(name, _)| name).collect();
    assert_eq!(damaged, [&segment], "{report:?}");
    assert_eq!(
        (&report.unlinked[..], &report.undecided[..]),
        (&[][..], &[][..])
    );
    let archive = lost.writer(&settings).await;
    let refused = archive.collect_garbage(GcMode::Remove).await;
    assert!(matches!(refused, Err(Error::Halted { .. })), "{refused:?}");
    archive.resume(audit()).await.unwrap();
    let collected = archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert_eq!(collected.held, 1, "{collected:?}");
    lost.blobs.get(&segment).await.unwrap();
    archive.drop_undecided(audit()).await.unwrap();
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    assert!(lost.blobs.get(&segment).await.is_err());
}

/// Blocks 200 to 299 live, and two islands below them, with all maintenance done.
async fn islands(chain: &SimChain) -> (Stores, Settings) {
    let mut settings = tiny_settings();
    settings.garbage.grace = Duration::ZERO;
    settings.start_block = Some(200);
    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    ingest(&archive, chain, BlockRange::new(200, 300), &[9]).await;
    for range in [BlockRange::new(0, 40), BlockRange::new(90, 150)] {
        let mut fill = archive.fill(range).unwrap();
        let blocks = chain.blocks(range).collect();
        fill.push(blocks, &Provenance::default()).await.unwrap();
        fill.finish().await.unwrap();
    }
    while archive.maintain().await.unwrap() {}
    (stores, settings)
}

/// What the objects do not tell, such as what operators did, is in a kept version of the state. It is the
/// start where its newest block is the newest that is known to be right, and never otherwise.
#[tokio::test]
async fn a_kept_version_of_the_state_is_the_start_where_it_fits() {
    let chain = tiny_chain(45);
    let range = BlockRange::new(0, 120);
    let folder = tempfile::tempdir().unwrap();
    let open = || Stores {
        meta: Arc::new(FileMeta::open_writer(folder.path()).unwrap()),
        blobs: Arc::new(FileBlobs::open_writer(folder.path()).unwrap()),
    };
    let stores = open();
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &chain, range, &[9]).await;
    let reported = AuditEntry {
        at: 4,
        act: "somebody looked".to_owned(),
    };
    archive.resume(reported.clone()).await.unwrap();
    let (root, health) = (archive.content_root(range).await.unwrap(), archive.health());
    drop(archive);
    drop(stores);
    std::fs::remove_file(folder.path().join("state")).unwrap();

    let stores = open();
    let refused = stores.try_writer(&tiny_settings()).await;
    assert!(
        matches!(refused, Err(Error::StateLost { .. })),
        "it is not gone back to silently"
    );
    let anchor = chain.block_ref(119);
    let report = stores.rebuild(&tiny_settings(), anchor).await.unwrap();
    assert_eq!(report.kept_version, Some(health.state_version));
    let archive = stores.reader(&tiny_settings()).await;
    assert_eq!(archive.content_root(range).await.unwrap(), root);
    let rebuilt = archive.health();
    assert!(rebuilt.audit.contains(&reported), "{rebuilt:?}");
    assert_eq!(rebuilt.tiers, health.tiers);
    drop(archive);
    drop(stores);

    // The only version that is left is older than blocks that are known to be right.
    let old = std::fs::read(folder.path().join("state")).unwrap();
    let stores = open();
    let archive = stores.writer(&tiny_settings()).await;
    archive.resume(reported.clone()).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(120, 150), &[9]).await;
    drop(archive);
    drop(stores);
    std::fs::remove_file(folder.path().join("state")).unwrap();
    let kept = folder.path().join("states");
    std::fs::remove_dir_all(&kept).unwrap();
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("00000000000000000001"), old).unwrap();
    let stores = open();
    let anchor = chain.block_ref(149);
    let report = stores.rebuild(&tiny_settings(), anchor).await.unwrap();
    assert_eq!(report.kept_version, None);
    assert_eq!(report.covered, BlockRange::new(0, 150));
}

/// The newest copy of the state was a link to it. Damage in place damaged both, and the version before it,
/// from before the halt, was the start: the archive continued as if nothing had been replaced.
#[tokio::test]
async fn a_halt_is_not_lost_with_the_state() {
    let mut settings = tiny_settings();
    settings.garbage.grace = Duration::ZERO;
    for is_copy_damaged in [false, true] {
        let chain = tiny_chain(48);
        let folder = tempfile::tempdir().unwrap();
        let open = || Stores {
            meta: Arc::new(FileMeta::open_writer(folder.path()).unwrap()),
            blobs: Arc::new(FileBlobs::open_writer(folder.path()).unwrap()),
        };
        let archive = open().writer(&settings).await;
        ingest(&archive, &chain, BlockRange::new(0, 120), &[9]).await;
        // No older copies of objects are left: nothing but the halt is open.
        archive.collect_garbage(GcMode::Remove).await.unwrap();
        let other = chain.fork(100, 1);
        let other = other.blocks(BlockRange::new(110, 119)).collect();
        let provenance = Provenance::default();
        let offered = archive.ingest_finalized_blocks(other, &provenance).await;
        offered.unwrap_err();
        let health = archive.health();
        let (halt, version) = (health.health, health.state_version);
        assert!(matches!(halt, Health::Halted(_)), "{halt:?}");
        drop(archive);
        let damage = |path: std::path::PathBuf| {
            let mut bytes = std::fs::read(&path).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(path, bytes).unwrap();
        };
        let state = folder.path().join("state");
        damage(state.clone());
        if is_copy_damaged {
            damage(folder.path().join(format!("states/{version:020}")));
        }
        std::fs::rename(&state, folder.path().join("away")).unwrap();

        let anchor = chain.block_ref(119);
        let report = open().rebuild(&settings, anchor).await.unwrap();
        let unusable: Vec<u64> = report
            .unusable_versions
            .iter()
            .map(|(one, _)| *one)
            .collect();
        let expected = if is_copy_damaged {
            vec![version]
        } else {
            vec![]
        };
        assert_eq!(unusable, expected, "{report:?}");
        assert!(
            report.is_halted && report.undecided.is_empty(),
            "{report:?}"
        );
        let rebuilt = open().reader(&settings).await.health().health;
        match rebuilt {
            Health::Halted(new) if is_copy_damaged => {
                assert!(new.reason.contains("1 kept versions"), "{new:?}");
            }
            rebuilt => assert_eq!(rebuilt, halt),
        }
    }
}

/// A dry run took the writer's epoch, and made a new state where it was lost.
#[tokio::test]
async fn a_dry_run_of_a_reader_writes_nothing() {
    let stores = Stores::memory();
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &tiny_chain(46), BlockRange::new(0, 90), &[9]).await;
    let expected = archive.collect_garbage(GcMode::DryRun).await.unwrap();
    assert!(!expected.orphans.is_empty());
    let before = stores.meta.load().await.unwrap();
    let reader = stores.reader(&tiny_settings()).await;
    let report = reader.collect_garbage(GcMode::DryRun).await.unwrap();
    assert_eq!(report, expected);
    assert_eq!(stores.meta.load().await.unwrap(), before);
    let refused = reader.collect_garbage(GcMode::Remove).await;
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
}

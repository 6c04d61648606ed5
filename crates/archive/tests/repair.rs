//! Damage is found wherever it is, and mended without changing what was published.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use chronolith_archive::{
    Archive, AuditEntry, DamagedObject, Error, ObjectSort, Provenance, Result, Settings,
};
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet, LogFilter, Proof, Verification};
use chronolith_sim::{Fault, FaultPlan, FaultyBlobs, FaultyMeta, SimChain, flip_byte};
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

const BLOCKS: BlockRange = BlockRange { start: 0, end: 230 };

fn audit() -> AuditEntry {
    AuditEntry {
        at: 7,
        act: "repair".to_owned(),
    }
}

fn settings() -> Settings {
    let mut settings = tiny_settings();
    settings.datasets = DatasetSet::of(&Dataset::ALL);
    settings.seal.weight = 150;
    settings
}

/// An archive with batches, sealed and merged segments, runs, and packs of both sorts.
async fn whole() -> (Stores, SimChain) {
    let (stores, chain) = (Stores::memory(), tiny_chain(71));
    let archive = stores.writer(&settings()).await;
    ingest(&archive, &chain, BLOCKS, &[2, 1]).await;
    let tiers = archive.health().tiers;
    assert!(tiers.len() > 2 && tiers[0] > 1, "{tiers:?}");
    archive.release().await.unwrap();
    (stores, chain)
}

/// Everything that the state names, by name.
async fn named(archive: &Archive, stores: &Stores) -> BTreeMap<String, Vec<u8>> {
    let orphans = archive
        .collect_garbage(chronolith_archive::GcMode::DryRun)
        .await;
    let orphans: Vec<String> = orphans
        .unwrap()
        .orphans
        .into_iter()
        .map(|info| info.name)
        .collect();
    let mut objects = BTreeMap::new();
    for info in stores.blobs.list("", None, 10_000).await.unwrap() {
        if !orphans.contains(&info.name) && !info.name.starts_with("cat/") {
            let bytes = stores.blobs.get(&info.name).await.unwrap().to_vec();
            objects.insert(info.name, bytes);
        }
    }
    objects
}

async fn inspect(archive: &Archive) -> Vec<DamagedObject> {
    let mut reached = None;
    let reported = &mut |done: chronolith_archive::Inspected| reached = Some(done);
    let found = archive.inspect(BLOCKS, reported).await.unwrap();
    let reached = reached.unwrap();
    assert_eq!(reached.bytes, reached.bytes_all);
    found
}

async fn repair_object(
    archive: &Archive,
    damaged: &DamagedObject,
    blocks: Vec<Block>,
) -> Result<()> {
    repair_object_as(archive, damaged, blocks, Proof::CLAIMED).await
}

async fn repair_object_as(
    archive: &Archive,
    damaged: &DamagedObject,
    blocks: Vec<Block>,
    proof: Proof,
) -> Result<()> {
    if damaged.object.sort == ObjectSort::Run {
        return archive.rebuild_run(&damaged.object, audit()).await;
    }
    let mut fill = archive.repair(&damaged.object, audit())?;
    let how = Provenance {
        proof,
        ..Provenance::default()
    };
    for chunk in blocks.chunks(13) {
        fill.push(chunk.to_vec(), &how).await?;
    }
    fill.finish().await
}

fn blocks_of(chain: &SimChain, damaged: &DamagedObject) -> Vec<Block> {
    chain.blocks(damaged.object.range).collect()
}

/// Every log, hash, transaction and payload is the chain's.
async fn assert_equals(archive: &Archive, chain: &SimChain, range: BlockRange) {
    let oracle = oracle_of(chain, range);
    let mut filter = LogFilter::over(range);
    filter.limit = Some(1_000_000);
    let page = archive.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle, &filter);
    for block in oracle.blocks() {
        let clock = block.clock;
        assert_eq!(
            archive.block_by_hash(&clock.hash).await.unwrap(),
            Some(clock)
        );
        let payload = archive
            .payload(clock.number, Dataset::Payload)
            .await
            .unwrap();
        assert_eq!(payload, block.payload);
        for tx in &block.txs {
            let place = archive
                .transaction_by_hash(&tx.hash)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((place.block, place.index), (clock, tx.index));
        }
    }
}

/// One offset in each section of an object, its trailer and its footer.
fn offsets(bytes: &[u8]) -> Vec<u64> {
    let places = sections::of(bytes);
    let filled = places.iter().filter(|place| !place.range.is_empty());
    let middle = filled.map(|place| usize::midpoint(place.range.start, place.range.end));
    middle
        .chain([bytes.len() - 40, bytes.len() - 20])
        .map(|at| at as u64)
        .collect()
}

#[tokio::test]
async fn damage_in_every_section_of_every_object_is_found_and_repaired() {
    let (stores, chain) = whole().await;
    let archive = stores.writer(&settings()).await;
    assert_eq!(inspect(&archive).await, []);
    let root = archive.content_root(BLOCKS).await.unwrap();
    let mut folders = BTreeMap::<String, usize>::new();
    for (name, bytes) in named(&archive, &stores).await {
        for offset in offsets(&bytes) {
            flip_byte(&*stores.blobs, &name, offset).await.unwrap();
            let found = inspect(&archive).await;
            let names: Vec<&str> = found
                .iter()
                .map(|found| found.object.name.as_str())
                .collect();
            let section = sections::name_at(&bytes, offset as usize);
            assert_eq!(names, [name.as_str()], "{section} at {offset}");
            flip_byte(&*stores.blobs, &name, offset).await.unwrap();
        }
        *folders.entry(name[..4].to_owned()).or_default() += 1;
    }
    assert_eq!(
        folders.keys().collect::<Vec<_>>(),
        ["bat/", "pack", "run/", "seg/"]
    );
    archive.release().await.unwrap();
    // Each object in turn is flipped or lost, in the archive that earlier mending left.
    let names: Vec<String> = named(&archive, &stores).await.into_keys().collect();
    let mut mended = BTreeMap::<String, usize>::new();
    for (turn, name) in names.iter().enumerate() {
        // A fresh process: nothing of the object is in memory.
        let archive = stores.writer(&settings()).await;
        if !named(&archive, &stores).await.contains_key(name) {
            continue;
        }
        if turn % 3 == 2 {
            stores.blobs.delete(name).await.unwrap();
        } else {
            let bytes = stores.blobs.get(name).await.unwrap();
            let all = offsets(&bytes);
            let at = all[turn % all.len()];
            flip_byte(&*stores.blobs, name, at).await.unwrap();
        }
        let found = inspect(&archive).await;
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        repair_object(&archive, &found[0], blocks_of(&chain, &found[0]))
            .await
            .unwrap();
        *mended.entry(name[..4].to_owned()).or_default() += 1;
        assert_eq!(inspect(&archive).await, []);
        assert_eq!(archive.content_root(BLOCKS).await.unwrap(), root);
        assert_equals(&stores.reader(&settings()).await, &chain, BLOCKS).await;
        archive.release().await.unwrap();
    }
    assert_eq!(mended.len(), 4, "{mended:?}");
    let archive = stores.writer(&settings()).await;
    while archive.maintain().await.unwrap() {}
    ingest(&archive, &chain, BlockRange::new(230, 400), &[9]).await;
    assert_equals(&archive, &chain, BlockRange::new(0, 400)).await;
    let acts = archive.health().audit;
    assert!(
        !acts.is_empty() && acts.iter().all(|act| act.act == "repair"),
        "{acts:?}"
    );
}

/// All segments of an archive are gone: the catalog still knows what they held.
#[tokio::test]
async fn everything_lost_but_the_catalog_is_repaired() {
    let (stores, chain) = whole().await;
    let archive = stores.writer(&settings()).await;
    let root = archive.content_root(BLOCKS).await.unwrap();
    let objects = named(&archive, &stores).await;
    archive.release().await.unwrap();
    for name in objects.keys() {
        stores.blobs.delete(name).await.unwrap();
    }
    let archive = stores.writer(&settings()).await;
    let found = inspect(&archive).await;
    assert_eq!(found.len(), objects.len());
    for sort in [ObjectSort::Segment, ObjectSort::Pack, ObjectSort::Run] {
        for damaged in inspect(&archive)
            .await
            .iter()
            .filter(|one| one.object.sort == sort)
        {
            repair_object(&archive, damaged, blocks_of(&chain, damaged))
                .await
                .unwrap();
        }
    }
    assert_eq!(inspect(&archive).await, []);
    assert_eq!(archive.content_root(BLOCKS).await.unwrap(), root);
    assert_equals(&archive, &chain, BLOCKS).await;
}

/// What is lost of an archive.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    OneSegment,
    EverySegment,
}

/// A segment that is gone, in a fresh process.
async fn with_lost_segment(lost: Lost) -> (Archive, SimChain, DamagedObject) {
    let (stores, chain) = whole().await;
    let archive = stores.writer(&settings()).await;
    let objects = named(&archive, &stores).await;
    archive.release().await.unwrap();
    let segments = |name: &&String| name.starts_with("seg/") || name.starts_with("bat/");
    let second = objects
        .keys()
        .filter(|name| name.starts_with("seg/"))
        .nth(1)
        .unwrap();
    for name in objects.keys().filter(segments) {
        if name == second || lost == Lost::EverySegment {
            stores.blobs.delete(name).await.unwrap();
        }
    }
    let archive = stores.writer(&settings()).await;
    let mut found = inspect(&archive).await.into_iter();
    let found = found.find(|found| found.object.name == *second).unwrap();
    (archive, chain, found)
}

#[tokio::test]
async fn other_blocks_never_replace_what_was_published() {
    for lost in [Lost::OneSegment, Lost::EverySegment] {
        let (archive, chain, lost) = with_lost_segment(lost).await;
        let range = lost.object.range;
        let before = archive.health().state_version;
        // Another chain from before the segment on, from inside it on, and one that ends otherwise.
        for (at, seed) in [
            (range.start - 5, 1),
            (range.start + 2, 2),
            (range.end - 1, 3),
        ] {
            let fork: Vec<Block> = chain.fork(at, seed).blocks(range).collect();
            for level in [Proof::CLAIMED, Proof::of_logs(Verification::Receipts)] {
                let refused = repair_object_as(&archive, &lost, fork.clone(), level).await;
                let links = matches!(
                    refused,
                    Err(Error::BadParent { .. } | Error::FinalityViolation { .. })
                );
                assert!(links, "fork at {at}: {refused:?}");
            }
        }
        let after = archive.health().state_version;
        assert_eq!(after, before, "something was published");
        let gone = archive.block(range.start).await;
        assert!(
            matches!(gone, Err(Error::Corrupt { ref object, .. }) if *object == lost.object.name)
        );
    }
}

#[tokio::test]
async fn other_content_needs_a_better_proof_and_no_block_is_proven_less() {
    let (archive, chain, lost) = with_lost_segment(Lost::OneSegment).await;
    let mut wrong = blocks_of(&chain, &lost);
    wrong.iter_mut().for_each(|block| block.logs.clear());
    let refused = repair_object(&archive, &lost, wrong).await;
    assert!(
        matches!(refused, Err(Error::OtherContent { .. })),
        "{refused:?}"
    );
    let right = blocks_of(&chain, &lost);
    repair_object_as(
        &archive,
        &lost,
        right.clone(),
        Proof::of_logs(Verification::Receipts),
    )
    .await
    .unwrap();
    assert_equals(&archive, &chain, BLOCKS).await;
    // The same object is not mended twice, and what is proven by receipts stays so.
    let again = repair_object_as(
        &archive,
        &lost,
        right.clone(),
        Proof::of_logs(Verification::Receipts),
    )
    .await;
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    let now = archive.segments_of(lost.object.range.start).remove(0);
    let less = DamagedObject {
        object: now,
        reason: String::new(),
    };
    let refused = repair_object(&archive, &less, blocks_of(&chain, &less))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("proven less far"), "{refused}");
}

/// An archive whose packs hold other payload than the chain has, proven not at all.
async fn with_other_payload() -> (Stores, SimChain, Vec<Block>) {
    let (stores, chain) = (Stores::memory(), tiny_chain(72));
    let archive = stores.writer(&settings()).await;
    let other: Vec<Block> = chain.blocks(BLOCKS).map(with_other_raw).collect();
    for chunk in other.chunks(31) {
        let how = Provenance::default();
        let taken = archive.ingest_finalized_blocks(chunk.to_vec(), &how).await;
        taken.unwrap();
    }
    archive.release().await.unwrap();
    (stores, chain, other)
}

fn with_other_raw(mut block: Block) -> Block {
    block.payload.raw = Some(bytes::Bytes::from_static(b"as one node shows it"));
    block
}

/// Levels of blocks, which are higher than claimed only where the payload in packs is the chain's.
async fn assert_levels(archive: &Archive, chain: &SimChain) -> u64 {
    let datasets = DatasetSet::of(&Dataset::ALL);
    let mut proven = 0;
    for (range, proof) in archive.kept(datasets, &chronolith_model::Scope::All) {
        for block in chain.blocks(range) {
            let number = block.clock.number;
            let payload = archive.payload(number, Dataset::Payload).await.unwrap();
            if proof != Proof::CLAIMED {
                assert_eq!(payload, block.payload, "block {number} at {proof:?}");
                proven += 1;
            }
            assert_eq!(archive.misfit(number).await.unwrap(), None);
        }
    }
    proven
}

/// A segment that is rebuilt keeps the payload that packs hold, and says no more of it than before. To replace
/// both takes one edit, which leaves what reaches beyond the blocks as it was.
#[tokio::test]
async fn a_segment_is_repaired_over_the_payload_that_packs_hold() {
    let (stores, chain, other) = with_other_payload().await;
    let archive = stores.writer(&settings()).await;
    let root = archive.content_root(BLOCKS).await.unwrap();
    let objects = named(&archive, &stores).await;
    archive.release().await.unwrap();
    let lost = objects.keys().find(|name| name.starts_with("seg/"));
    stores.blobs.delete(lost.unwrap()).await.unwrap();
    let archive = stores.writer(&settings()).await;
    let found = inspect(&archive).await.remove(0);
    let blocks = blocks_of(&chain, &found);
    repair_object_as(&archive, &found, blocks.clone(), Proof::ROOTS)
        .await
        .unwrap();
    assert_eq!(archive.content_root(BLOCKS).await.unwrap(), root);
    assert_eq!(assert_levels(&archive, &chain).await, 0);
    // Blocks that straddle segments and packs on both sides.
    let mut object = archive.segments_of(70).remove(0);
    object.range = BlockRange::new(70, 101);
    let mut fill = archive.repair_together(&object, &[], audit()).unwrap();
    assert_eq!(fill.range(), object.range);
    let how = Provenance {
        proof: Proof::ROOTS,
        ..Provenance::default()
    };
    let blocks: Vec<Block> = chain.blocks(object.range).collect();
    fill.push(blocks, &how).await.unwrap();
    fill.finish().await.unwrap();
    assert_eq!(inspect(&archive).await, []);
    assert_eq!(assert_levels(&archive, &chain).await, 31);
    while archive.maintain().await.unwrap() {}
    assert_eq!(assert_levels(&archive, &chain).await, 31);
    for block in &other {
        let number = block.clock.number;
        let raw = archive.payload(number, Dataset::Payload).await.unwrap().raw;
        let was = object.range.contains(number);
        assert_eq!(raw != block.payload.raw, was, "block {number}");
        let hash = block.clock.hash;
        let found = archive.block_by_hash(&hash).await.unwrap();
        assert_eq!(found, Some(block.clock));
    }
    // Another claim does not replace what was proven.
    let mut fill = archive.repair_together(&object, &[], audit()).unwrap();
    let again: Vec<Block> = chain.blocks(object.range).map(with_other_raw).collect();
    let less = Provenance {
        proof: Proof::of_logs(Verification::Receipts),
        ..Provenance::default()
    };
    fill.push(again, &less).await.unwrap();
    let refused = fill.finish().await;
    assert!(
        matches!(refused, Err(Error::OtherContent { .. })),
        "{refused:?}"
    );
}

/// Blocks of an older version up to 90, which wrote content in another form, and of this one: the same segments
/// and packs hold both.
async fn of_two_versions() -> (Stores, SimChain) {
    let (stores, chain) = (Stores::memory(), tiny_chain(74));
    let archive = stores.writer(&settings()).await;
    for block in chain.blocks(BLOCKS) {
        let proof = match block.clock.number < 90 {
            true => Proof::of_logs(Verification::Receipts),
            false => Proof::ROOTS,
        };
        let how = Provenance {
            proof,
            ..Provenance::default()
        };
        let block = with_other_raw(block);
        archive.ingest_finalized_block(block, &how).await.unwrap();
    }
    while archive.maintain().await.unwrap() {}
    archive.release().await.unwrap();
    (stores, chain)
}

/// What is proven as far as its hash allows replaces another form of the same blocks, at an equal level too: a lost
/// pack with the segments beside it, and a segment with blocks of both versions. What is proven less far does not.
#[tokio::test]
async fn another_form_is_replaced_by_what_is_wholly_proven() {
    for count in [1, 2] {
        let (stores, chain) = of_two_versions().await;
        let archive = stores.reader(&settings()).await;
        let mixed = archive.segments_of(90).remove(0);
        assert!(mixed.range.contains(89), "{mixed:?}");
        let pack = archive.packs_of(90).remove(0);
        for lost in [pack, mixed].iter().take(count) {
            stores.blobs.delete(&lost.name).await.unwrap();
        }
        let archive = stores.writer(&settings()).await;
        let damaged = inspect(&archive).await;
        assert_eq!(damaged.len(), count, "{damaged:?}");
        let objects: Vec<_> = damaged.iter().map(|one| one.object.clone()).collect();
        for proof in [Proof::of_logs(Verification::Receipts), Proof::ROOTS] {
            for one in damaged.iter().filter(|one| archive.names(&one.object)) {
                let refused = repair_object_as(&archive, one, blocks_of(&chain, one), proof).await;
                assert!(refused.is_err(), "{one:?} was mended alone");
                let mut fill = archive
                    .repair_together(&one.object, &objects, audit())
                    .unwrap();
                let how = Provenance {
                    proof,
                    ..Provenance::default()
                };
                let blocks: Vec<Block> = chain.blocks(fill.range()).collect();
                fill.push(blocks, &how).await.unwrap();
                let done = fill.finish().await;
                assert_eq!(done.is_ok(), proof == Proof::ROOTS, "{done:?}");
            }
        }
        while archive.maintain().await.unwrap() {}
        assert_eq!(inspect(&archive).await, []);
        for block in chain.blocks(BLOCKS) {
            let number = block.clock.number;
            assert_eq!(archive.misfit(number).await.unwrap(), None);
            let found = archive.block_by_hash(&block.clock.hash).await.unwrap();
            assert_eq!(found, Some(block.clock));
        }
    }
}

/// A pack with payload of another archive passes every checksum. Digests tell that it is not this segment's.
#[tokio::test]
async fn a_pack_that_does_not_fit_its_segment_is_found_and_repaired() {
    let chain = tiny_chain(73);
    let mut stores = Vec::new();
    for fill in [1_u8, 2] {
        let one = Stores::memory();
        let archive = one.writer(&settings()).await;
        let blocks = chain.blocks(BlockRange::new(0, 10)).map(|mut block| {
            block.payload.raw = Some(vec![fill; 40].into());
            block
        });
        let how = Provenance::default();
        let taken = archive
            .ingest_finalized_blocks(blocks.collect(), &how)
            .await;
        taken.unwrap();
        archive.release().await.unwrap();
        let list = one.blobs.list("pack/", None, 10).await.unwrap();
        stores.push((one, list[0].clone()));
    }
    let [(stores, pack), (others, other)] = &stores[..] else {
        panic!("two archives");
    };
    assert_eq!(pack.len, other.len, "one cannot stand for the other");
    let bytes = others.blobs.get(&other.name).await.unwrap();
    stores.blobs.delete(&pack.name).await.unwrap();
    stores.blobs.put(&pack.name, bytes).await.unwrap();
    let archive = stores.writer(&settings()).await;
    let all = BlockRange::new(0, 10);
    assert_eq!(archive.inspect(all, &mut |_| {}).await.unwrap(), []);
    let object = archive.misfit(3).await.unwrap().unwrap();
    assert_eq!(object.name, pack.name);
    let blocks = chain.blocks(all).map(|mut block| {
        block.payload.raw = Some(vec![1; 40].into());
        block
    });
    let reason = String::new();
    repair_object(
        &archive,
        &DamagedObject { object, reason },
        blocks.collect(),
    )
    .await
    .unwrap();
    assert_eq!(archive.misfit(3).await.unwrap(), None);
}

/// A damaged batch halts ingest. It is mended all the same, and ingest continues after a resume.
#[tokio::test]
async fn a_halted_archive_is_repaired() {
    let (stores, chain) = whole().await;
    let archive = stores.writer(&settings()).await;
    let objects = named(&archive, &stores).await;
    archive.release().await.unwrap();
    let batch = objects
        .keys()
        .find(|name| name.starts_with("bat/"))
        .unwrap();
    flip_byte(&*stores.blobs, batch, objects[batch].len() as u64 - 50)
        .await
        .unwrap();
    let archive = stores.writer(&settings()).await;
    let next: Vec<Block> = chain.blocks(BlockRange::new(230, 235)).collect();
    let halted = archive
        .ingest_finalized_blocks(next.clone(), &Provenance::default())
        .await;
    assert!(matches!(halted, Err(Error::Corrupt { .. })), "{halted:?}");
    for damaged in inspect(&archive).await {
        repair_object(&archive, &damaged, blocks_of(&chain, &damaged))
            .await
            .unwrap();
    }
    let still = archive
        .ingest_finalized_blocks(next, &Provenance::default())
        .await;
    assert!(
        matches!(still, Err(Error::Halted { .. })),
        "mending ended the halt: {still:?}"
    );
    archive.resume(audit()).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(230, 300), &[4]).await;
    assert_equals(&archive, &chain, BlockRange::new(0, 300)).await;
}

/// At every operation of mending, in both forms: the object is damaged still, or it is rebuilt. By
/// default a third of them is tried, with `CHRONOLITH_TORTURE=1` all.
#[tokio::test]
async fn an_interrupted_repair_changes_nothing_or_all() {
    let torture = std::env::var_os("CHRONOLITH_TORTURE").is_some_and(|value| value == "1");
    let stride = if torture { 1 } else { 3 };
    let (stores, chain) = whole().await;
    let archive = stores.writer(&settings()).await;
    let root = archive.content_root(BLOCKS).await.unwrap();
    archive.release().await.unwrap();
    for folder in ["run/", "pack/", "bat/", "seg/"] {
        let (mut step, mut interrupted) = (0_u64, 0);
        loop {
            let archive = stores.writer(&settings()).await;
            let objects = named(&archive, &stores).await;
            archive.release().await.unwrap();
            let Some(name) = objects.keys().find(|name| name.starts_with(folder)) else {
                break;
            };
            stores.blobs.delete(name).await.unwrap();
            let fault = [Fault::CrashBefore, Fault::CrashAfter][step as usize % 2];
            let plan = FaultPlan::at(step / 2, fault);
            let faulty = Stores {
                meta: Arc::new(FaultyMeta::new(stores.meta.clone(), plan.clone())),
                blobs: Arc::new(FaultyBlobs::new(stores.blobs.clone(), plan)),
            };
            let done = repair_any(&faulty, &chain).await;
            let archive = stores.writer(&settings()).await;
            let found = inspect(&archive).await;
            assert!(
                found.iter().all(|found| found.object.name == *name),
                "{found:?}"
            );
            assert!(done.is_err() || found.is_empty(), "{found:?}");
            for damaged in found {
                let blocks = blocks_of(&chain, &damaged);
                repair_object(&archive, &damaged, blocks).await.unwrap();
            }
            assert_eq!(archive.content_root(BLOCKS).await.unwrap(), root);
            archive.release().await.unwrap();
            if done.is_ok() {
                break;
            }
            (step, interrupted) = (step + stride, interrupted + 1);
        }
        // A batch that was rebuilt is a segment: of these there is only one try each.
        assert!(
            interrupted > 7 || folder == "bat/",
            "{folder}: only {interrupted} operations"
        );
    }
    assert_equals(&stores.reader(&settings()).await, &chain, BLOCKS).await;
}

async fn repair_any(stores: &Stores, chain: &SimChain) -> Result<()> {
    let archive = stores.try_writer(&settings()).await?;
    for damaged in archive.inspect(BLOCKS, &mut |_| {}).await? {
        repair_object(&archive, &damaged, blocks_of(chain, &damaged)).await?;
    }
    Ok(())
}

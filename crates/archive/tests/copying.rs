//! A copy is whole or is not there, whatever happens on the way and whatever is written meanwhile.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/hooks.rs"]
mod hooks;
mod support;

use std::sync::Arc;

use chronolith_archive::{Archive, Error, GcMode, Inspected, Place, Settings, copy_archive};
use chronolith_model::{BlockRange, ChainId, Dataset, DatasetSet};
use chronolith_sim::{Fault, FaultPlan, FaultyBlobs, FaultyMeta, Operation, flip_byte};
use hooks::{Gate, hooked};
use support::{Stores, ingest, tiny_chain, tiny_settings};

fn settings() -> Settings {
    let mut settings = tiny_settings();
    settings.datasets = DatasetSet::of(&Dataset::ALL);
    settings.garbage.grace = std::time::Duration::ZERO;
    settings
}

fn place(stores: &Stores) -> Place {
    Place {
        meta: stores.meta.clone(),
        blobs: stores.blobs.clone(),
    }
}

async fn copy(
    from: &Stores,
    to: &Stores,
) -> chronolith_archive::Result<chronolith_archive::Copied> {
    let ignored = &mut |_: Inspected| {};
    copy_archive(&place(from), &place(to), settings().chain, ignored).await
}

async fn is_whole(archive: &Archive, range: BlockRange) -> bool {
    let found = archive.inspect(range, &mut |_| {}).await.unwrap();
    found.is_empty() && archive.content_root(range).await.is_ok()
}

#[tokio::test]
async fn a_second_copy_takes_only_what_is_new_and_repairs_what_rotted() {
    let (chain, from, to) = (tiny_chain(81), Stores::memory(), Stores::memory());
    let archive = from.writer(&settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 200), &[5]).await;
    let first = copy(&from, &to).await.unwrap();
    assert_eq!(
        (first.new_objects, first.head.unwrap().number),
        (first.objects, 199)
    );
    let again = copy(&from, &to).await.unwrap();
    assert_eq!((again.new_objects, again.new_bytes), (0, 0));
    ingest(&archive, &chain, BlockRange::new(200, 230), &[5]).await;
    let more = copy(&from, &to).await.unwrap();
    assert!(
        more.new_objects > 0 && more.new_objects < more.objects,
        "{more:?}"
    );
    let listed = to.blobs.list("", None, 10_000).await.unwrap();
    assert_eq!(
        listed.len() as u64,
        more.objects + 1,
        "what is not needed stayed"
    );
    let rotten = listed
        .iter()
        .find(|info| info.name.starts_with("seg/"))
        .unwrap();
    flip_byte(&*to.blobs, &rotten.name, rotten.len / 2)
        .await
        .unwrap();
    assert_eq!(copy(&from, &to).await.unwrap().new_objects, 1);
    let range = BlockRange::new(0, 230);
    let root = archive.content_root(range).await.unwrap();
    // The copy is an archive like any other: it can be written on.
    let copied = to.writer(&settings()).await;
    assert!(is_whole(&copied, range).await);
    assert_eq!(copied.content_root(range).await.unwrap(), root);
    ingest(&copied, &chain, BlockRange::new(230, 260), &[5]).await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused() {
    let (chain, from, to) = (tiny_chain(82), Stores::memory(), Stores::memory());
    let none = copy(&from, &to).await;
    assert!(matches!(none, Err(Error::Invalid(_))), "{none:?}");
    let archive = from.writer(&settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 100), &[5]).await;
    let ignored = &mut |_: Inspected| {};
    let other = copy_archive(&place(&from), &place(&to), ChainId(8), ignored).await;
    assert!(matches!(other, Err(Error::Invalid(_))), "{other:?}");
    let occupied = Stores::memory();
    occupied.writer(&settings()).await;
    let refused = copy(&from, &occupied).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    // What is damaged is not copied as if it were whole.
    for _ in 0..2 {
        archive.collect_garbage(GcMode::Remove).await.unwrap();
    }
    let named = from.blobs.list("pack/", None, 10).await.unwrap();
    flip_byte(&*from.blobs, &named[0].name, named[0].len - 40)
        .await
        .unwrap();
    let damaged = copy(&from, &to).await;
    assert!(matches!(damaged, Err(Error::Corrupt { ref object, .. }) if *object == named[0].name));
    assert!(to.meta.load().await.unwrap().is_none());
}

/// An archive that was restored from an older copy does not replace the newer one.
#[tokio::test]
async fn a_newer_copy_is_not_replaced_by_an_older_state() {
    let (chain, from, older) = (tiny_chain(84), Stores::memory(), Stores::memory());
    let archive = from.writer(&settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 60), &[5]).await;
    copy(&from, &older).await.unwrap();
    let newer = Stores::memory();
    // A newer state of the same epoch, and then one of a newer epoch.
    for end in [90, 120] {
        let start = end - 30;
        let writer = match end {
            90 => archive.clone(),
            _ => from.writer(&settings()).await,
        };
        ingest(&writer, &chain, BlockRange::new(start, end), &[5]).await;
        copy(&from, &newer).await.unwrap();
        let kept = newer.meta.load().await.unwrap();
        let refused = copy(&older, &newer).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("a newer copy"), "{message}");
        assert_eq!(newer.meta.load().await.unwrap(), kept);
        let range = BlockRange::new(0, end);
        assert!(is_whole(&newer.reader(&settings()).await, range).await);
    }
}

/// At every operation on the copy, in every form: it is as it was before, or it is the new one.
#[tokio::test]
async fn an_interrupted_copy_never_looks_whole() {
    let (chain, from, older) = (tiny_chain(83), Stores::memory(), BlockRange::new(0, 60));
    let archive = from.writer(&settings()).await;
    ingest(&archive, &chain, older, &[5]).await;
    let before = Stores::memory();
    copy(&from, &before).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(60, 90), &[5]).await;
    for first in [true, false] {
        let (mut number, mut interrupted) = (0_u64, 0);
        loop {
            let fault = [Fault::CrashBefore, Fault::CrashAfter][number as usize % 2];
            let to = Stores::memory();
            if !first {
                copy(&before, &to).await.unwrap();
            }
            let plan = FaultPlan::at(number / 2, fault);
            let faulty = Stores {
                meta: Arc::new(FaultyMeta::new(to.meta.clone(), plan.clone())),
                blobs: Arc::new(FaultyBlobs::new(to.blobs.clone(), plan)),
            };
            let done = copy(&from, &faulty).await;
            // Objects without a state are refused: there is no archive yet.
            let reader = match to.try_reader(&settings()).await {
                Err(Error::StateLost { .. }) if first => None,
                reader => Some(reader.unwrap()),
            };
            let head = reader.as_ref().and_then(|reader| reader.health().head);
            let head = head.map(|head| head.number);
            let allowed = if first {
                [None, Some(89)]
            } else {
                [Some(59), Some(89)]
            };
            assert!(allowed.contains(&head), "operation {number}: {head:?}");
            if let (Some(head), Some(reader)) = (head, &reader) {
                assert!(
                    is_whole(reader, BlockRange::new(0, head + 1)).await,
                    "operation {number}"
                );
            }
            // Another try makes it whole.
            copy(&from, &to).await.unwrap();
            let reader = to.reader(&settings()).await;
            assert!(is_whole(&reader, BlockRange::new(0, 90)).await);
            if done.is_ok() {
                break;
            }
            interrupted += 1;
            number += 1;
        }
        assert!(interrupted > 60, "only {interrupted} operations");
    }
}

/// Objects are merged and collected while they are copied: copying begins again from the newer state.
#[tokio::test]
async fn what_is_collected_on_the_way_is_copied_from_the_newer_state() {
    let (chain, from, to) = (tiny_chain(84), Stores::memory(), Stores::memory());
    let archive = from.writer(&settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 100), &[5]).await;
    let gate = Arc::new(Gate::default());
    let slow = hooked(&from, gate.hook());
    gate.hold_next(|operation, name| operation == Operation::BlobRange && name.starts_with("bat/"));
    let mut copying = Box::pin(copy(&slow, &to));
    let held = gate.hold(&mut copying).await;
    ingest(&archive, &chain, BlockRange::new(100, 200), &[5]).await;
    for _ in 0..2 {
        archive.collect_garbage(GcMode::Remove).await.unwrap();
    }
    assert!(
        from.blobs.get(&held).await.is_err(),
        "{held} was not collected"
    );
    gate.release();
    let copied = copying.await.unwrap();
    assert_eq!(copied.head.unwrap().number, 199);
    let reader = to.reader(&settings()).await;
    assert!(is_whole(&reader, BlockRange::new(0, 200)).await);
}

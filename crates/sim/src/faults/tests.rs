//! Each fault does what it says, in both forms, and the counts are right.

use bytes::Bytes;
use chronolith_store::{BlobStore, MemoryBlobs, MemoryMeta, MetaStore};

use super::*;

/// Stores that outlive the process, and handles of a process that obeys a plan.
struct World {
    meta: Arc<MemoryMeta>,
    blobs: Arc<MemoryBlobs>,
    plan: Arc<FaultPlan>,
}

impl World {
    fn new(plan: Arc<FaultPlan>) -> Self {
        Self {
            meta: Arc::new(MemoryMeta::new()),
            blobs: Arc::new(MemoryBlobs::new()),
            plan,
        }
    }

    fn meta(&self) -> FaultyMeta {
        FaultyMeta::new(self.meta.clone(), self.plan.clone())
    }

    fn blobs(&self) -> FaultyBlobs {
        FaultyBlobs::new(self.blobs.clone(), self.plan.clone())
    }
}

fn bytes() -> Bytes {
    Bytes::from_static(b"12345")
}

fn is_unavailable<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Unavailable { .. }))
}

/// Each fault at a put: whether it is applied, and whether the process lives on.
#[tokio::test]
async fn a_put_meets_each_fault() {
    for (fault, applied, dead) in [
        (Fault::CrashBefore, false, true),
        (Fault::CrashAfter, true, true),
        (Fault::FailUnapplied, false, false),
        (Fault::FailApplied, true, false),
    ] {
        let world = World::new(FaultPlan::at(1, fault));
        let blobs = world.blobs();
        blobs.put("first", bytes()).await.unwrap();
        assert!(
            is_unavailable(blobs.put("second", bytes()).await),
            "{fault:?}"
        );
        assert_eq!(
            world.blobs.get("second").await.is_ok(),
            applied,
            "{fault:?}"
        );
        assert_eq!(world.plan.is_dead(), dead, "{fault:?}");
        assert_eq!(is_unavailable(blobs.get("first").await), dead, "{fault:?}");
        let expected = Tally {
            calls: 2,
            faults: 1,
        };
        assert_eq!(world.plan.tally(Operation::BlobPut), expected);
        let numbered = if dead { 2 } else { 3 };
        assert_eq!(world.plan.operations(), numbered, "the dead get no numbers");
    }
}

/// Each fault at a swap: the record tells afterwards whether it was applied.
#[tokio::test]
async fn a_swap_meets_each_fault() {
    for (fault, applied) in [
        (Fault::CrashBefore, false),
        (Fault::CrashAfter, true),
        (Fault::FailUnapplied, false),
        (Fault::FailApplied, true),
    ] {
        let world = World::new(FaultPlan::at(0, fault));
        assert!(is_unavailable(world.meta().swap(None, bytes()).await));
        let record = world.meta.load().await.unwrap();
        assert_eq!(record.is_some(), applied, "{fault:?}");
    }
}

#[tokio::test]
async fn a_crash_kills_every_handle_and_a_new_plan_reopens() {
    let world = World::new(FaultPlan::at(1, Fault::CrashAfter));
    let (meta, blobs) = (world.meta(), world.blobs());
    let mut writer = blobs.create("long").await.unwrap();
    assert!(is_unavailable(meta.swap(None, bytes()).await));
    assert!(is_unavailable(writer.write(bytes()).await));
    assert!(is_unavailable(writer.finish(5).await));
    assert!(is_unavailable(meta.load().await));
    assert!(is_unavailable(meta.watch(None).await));
    assert!(is_unavailable(blobs.put("a", bytes()).await));
    assert!(is_unavailable(blobs.create("b").await));
    assert!(is_unavailable(blobs.get("a").await));
    assert!(is_unavailable(blobs.range("a", 0..1).await));
    assert!(is_unavailable(blobs.ranges("a", &[0..1, 1..2]).await));
    assert!(is_unavailable(blobs.list("", None, 9).await));
    assert!(is_unavailable(blobs.delete("a").await));
    assert_eq!(world.blobs.list("", None, 9).await.unwrap(), []);
    let reopened = FaultyMeta::new(world.meta.clone(), FaultPlan::none());
    assert_eq!(reopened.load().await.unwrap().unwrap().bytes, bytes());
}

/// Runs every kind of operation once; the number of each is its place in `Operation::ALL`.
async fn run_all(world: &World) -> Vec<bool> {
    let (meta, blobs) = (world.meta(), world.blobs());
    // What the later operations need is made behind the plan's back.
    world.blobs.put("there", bytes()).await.unwrap();
    let version = world
        .meta
        .load()
        .await
        .unwrap()
        .map(|record| record.version);
    let mut failed = vec![
        is_unavailable(meta.load().await),
        is_unavailable(meta.swap(version, bytes()).await),
        is_unavailable(blobs.put("put", bytes()).await),
    ];
    match blobs.create("created").await {
        Err(_) => failed.push(true),
        Ok(mut writer) => {
            failed.push(false);
            let write = is_unavailable(writer.write(bytes()).await);
            let finish = is_unavailable(writer.finish(5).await);
            failed.extend([write, finish]);
        }
    }
    failed.extend([
        is_unavailable(blobs.get("there").await),
        is_unavailable(blobs.range("there", 1..3).await),
        is_unavailable(blobs.ranges("there", &[0..1, 3..5]).await),
        is_unavailable(blobs.list("", None, 9).await),
        is_unavailable(blobs.delete("there").await),
    ]);
    failed
}

#[tokio::test]
async fn every_kind_is_numbered_and_counted() {
    let world = World::new(FaultPlan::none());
    assert_eq!(world.plan.never_called(), Operation::ALL);
    assert!(run_all(&world).await.iter().all(|failed| !failed));
    assert_eq!(world.plan.never_called(), []);
    assert_eq!(world.plan.never_faulted(), Operation::ALL);
    assert_eq!(world.plan.operations(), Operation::ALL.len() as u64);
    for (number, operation) in (0..).zip(Operation::ALL) {
        let world = World::new(FaultPlan::at(number, Fault::FailApplied));
        run_all(&world).await;
        let tally = world.plan.tally(operation);
        assert_eq!(
            tally,
            Tally {
                calls: 1,
                faults: 1
            },
            "{operation}"
        );
        assert_eq!(world.plan.never_faulted().len(), Operation::ALL.len() - 1);
    }
}

#[tokio::test]
async fn a_finish_is_applied_or_not_as_planned() {
    for (fault, applied) in [(Fault::FailUnapplied, false), (Fault::CrashAfter, true)] {
        let world = World::new(FaultPlan::at(2, fault));
        let mut writer = world.blobs().create("long").await.unwrap();
        writer.write(bytes()).await.unwrap();
        assert!(is_unavailable(writer.finish(5).await));
        assert_eq!(world.blobs.get("long").await.is_ok(), applied, "{fault:?}");
    }
}

#[tokio::test]
async fn random_faults_repeat_with_their_seed() {
    let odds = Odds {
        fail_unapplied: 2_000,
        fail_applied: 2_000,
        ..Odds::default()
    };
    let outcomes = async |seed| {
        let world = World::new(FaultPlan::random(seed, odds));
        let blobs = world.blobs();
        let mut failed = Vec::new();
        for _ in 0..200 {
            failed.push(is_unavailable(blobs.put("a", bytes()).await));
        }
        assert!(!world.plan.is_dead());
        failed
    };
    let first = outcomes(1).await;
    assert_eq!(first, outcomes(1).await);
    assert_ne!(first, outcomes(2).await);
    let failures = first.iter().filter(|failed| **failed).count();
    assert!((50..110).contains(&failures), "{failures}");
    let deadly = Odds {
        crash_before: 5_000,
        crash_after: 5_000,
        ..Odds::default()
    };
    let world = World::new(FaultPlan::random(1, deadly));
    assert!(is_unavailable(world.meta().load().await) && world.plan.is_dead());
}

/// A true conflict passes through: it is never made up and never hidden.
#[tokio::test]
async fn conflicts_come_from_the_store_alone() {
    let world = World::new(FaultPlan::none());
    world.meta().swap(None, bytes()).await.unwrap();
    let again = world.meta().swap(None, bytes()).await;
    assert!(matches!(again, Err(Error::Conflict { .. })));
}

#[tokio::test]
async fn counting_by_kind_and_name() {
    let blobs = CountingBlobs::new(Arc::new(MemoryBlobs::new()));
    let count = |calls, ranges, bytes| IoCount {
        calls,
        ranges,
        bytes,
    };
    blobs.put("a/1", bytes()).await.unwrap();
    blobs.put("a/2", bytes()).await.unwrap();
    let mut writer = blobs.create("a/3").await.unwrap();
    writer.write(bytes()).await.unwrap();
    writer.write(bytes()).await.unwrap();
    writer.finish(10).await.unwrap();
    blobs.get("a/1").await.unwrap();
    blobs.range("a/1", 1..3).await.unwrap();
    blobs.ranges("a/2", &[0..1, 2..5]).await.unwrap();
    blobs.list("a/", None, 9).await.unwrap();
    blobs.delete("a/2").await.unwrap();
    assert!(blobs.get("a/2").await.is_err());
    assert_eq!(blobs.total(Operation::BlobPut), count(2, 0, 10));
    assert_eq!(blobs.of(Operation::BlobPut, "a/2"), count(1, 0, 5));
    assert_eq!(blobs.of(Operation::BlobWrite, "a/3"), count(2, 0, 10));
    assert_eq!(blobs.total(Operation::BlobFinish), count(1, 0, 0));
    assert_eq!(blobs.total(Operation::BlobGet), count(2, 0, 5));
    assert_eq!(blobs.of(Operation::BlobRange, "a/1"), count(1, 1, 2));
    assert_eq!(blobs.of(Operation::BlobRanges, "a/2"), count(1, 2, 4));
    assert_eq!(blobs.of(Operation::BlobList, "a/"), count(1, 0, 0));
    assert_eq!(blobs.total(Operation::BlobDelete), count(1, 0, 0));
    assert!(blobs.take().len() >= 8);
    assert!(blobs.take().is_empty());
}

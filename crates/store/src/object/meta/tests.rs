//! What the contract suite cannot see: stale writers, wrong answers, removal.

use super::super::faulty::{Fault, Faulty};
use super::*;

fn open(store: &Arc<Faulty>) -> ObjectMeta {
    ObjectMeta::assume_create_only(store.clone(), &Path::from("chain/1"))
}

async fn swap_until(meta: &ObjectMeta, last: u64) {
    let found = meta
        .load()
        .await
        .unwrap()
        .map_or(0, |record| record.version.0);
    for number in found..last {
        let expected = (number > 0).then_some(Version(number));
        let bytes = Bytes::from(format!("version {}", number + 1));
        assert_eq!(
            meta.swap(expected, bytes).await.unwrap(),
            Version(number + 1)
        );
        removed(meta).await;
    }
}

/// Waits until what is removed beside the swaps is removed.
async fn removed(meta: &ObjectMeta) {
    let removal = meta.removal.lock().unwrap().take();
    if let Some(removal) = removal {
        removal.await.unwrap();
    }
}

async fn numbers(meta: &ObjectMeta) -> Vec<u64> {
    let keys: Vec<_> = meta
        .store
        .list(Some(&meta.directory))
        .try_collect()
        .await
        .unwrap();
    keys.iter()
        .map(|meta| meta.location.filename().unwrap().parse().unwrap())
        .collect()
}

/// A writer loads version 3 and sleeps. Others swap until version 4 is removed. Its create of
/// version 4 then succeeds at the store, and must not count.
#[tokio::test]
async fn a_writer_that_slept_through_a_removal_does_not_win() {
    let store = Faulty::new();
    let (zombie, owner) = (open(&store), open(&store));
    swap_until(&owner, 3).await;
    assert_eq!(zombie.load().await.unwrap().unwrap().version, Version(3));
    swap_until(&owner, 3 + 2 * KEEP_VERSIONS).await;
    let newest = owner.load().await.unwrap().unwrap();
    assert!(
        !numbers(&owner).await.contains(&4),
        "the scenario needs version 4 to be gone"
    );

    let outcome = zombie
        .swap(Some(Version(3)), Bytes::from_static(b"zombie"))
        .await;
    assert!(
        matches!(outcome, Err(Error::Unavailable { .. })),
        "{outcome:?}"
    );
    assert!(
        numbers(&owner).await.contains(&4),
        "the store did let it create version 4"
    );

    // Nobody sees it: not the owner, not a new reader, not a watcher, and the zombie looks and
    // finds what is true.
    for meta in [&owner, &open(&store), &zombie] {
        assert_eq!(meta.load().await.unwrap().unwrap(), newest);
    }
    let watched = open(&store).watch(Some(Version(3))).await.unwrap();
    assert_eq!(watched, newest);
    // Its next try is refused without another object.
    let outcome = zombie
        .swap(Some(Version(3)), Bytes::from_static(b"zombie"))
        .await;
    assert!(
        matches!(outcome, Err(Error::Conflict { .. })),
        "{outcome:?}"
    );
    // The stale object goes with the next removal.
    swap_until(&owner, newest.version.0 + REMOVE_EVERY).await;
    assert!(!numbers(&owner).await.contains(&4));
}

/// A new handle that believes the store empty does not disturb one whose version 1 is removed.
#[tokio::test]
async fn a_record_is_not_created_twice() {
    let store = Faulty::new();
    let owner = open(&store);
    swap_until(&owner, 2 * KEEP_VERSIONS).await;
    let before = numbers(&owner).await;
    assert!(!before.contains(&1));
    let outcome = open(&store).swap(None, Bytes::from_static(b"first?")).await;
    assert!(
        matches!(outcome, Err(Error::Conflict { .. })),
        "{outcome:?}"
    );
    assert_eq!(numbers(&owner).await, before);
}

/// A slow winner whose version others have built on did win, and must hear so.
#[tokio::test]
async fn a_winner_that_was_overtaken_has_still_won() {
    let store = Faulty::new();
    let (slow, other) = (open(&store), open(&store));
    swap_until(&slow, 1).await;
    // The first half of a swap of version 1, then others go on, then its second half.
    let stored = Stored {
        nonce: slow.nonces.next(),
        bytes: Bytes::from_static(b"slow"),
    };
    slow.create(2, &stored).await.unwrap();
    swap_until(&other, 2 + KEEP_VERSIONS - 1).await;
    assert_eq!(slow.newest().await.unwrap(), 2 + KEEP_VERSIONS - 1);
    slow.check_won(2).await.unwrap();
    swap_until(&other, 2 + KEEP_VERSIONS).await;
    assert!(matches!(
        slow.check_won(2).await,
        Err(Error::Unavailable { .. })
    ));
}

/// Old versions were deleted inside of the swap: a bucket that deleted slowly held up whoever swapped,
/// and the renewal of the lease behind it, until another writer took over.
#[tokio::test(start_paused = true)]
async fn a_swap_does_not_wait_for_deletes() {
    let store = Faulty::new();
    let owner = open(&store);
    swap_until(&owner, 2 * KEEP_VERSIONS - 1).await;
    store.set(Fault::NeverDeletes);
    let (from, to) = (2 * KEEP_VERSIONS, 2 * KEEP_VERSIONS + 2 * REMOVE_EVERY);
    for number in from..=to {
        let bytes = Bytes::from_static(b"next");
        let swap = owner.swap(Some(Version(number - 1)), bytes);
        let swapped = tokio::time::timeout(Duration::from_secs(1), swap).await;
        assert_eq!(swapped.unwrap().unwrap(), Version(number));
    }
    let kept = numbers(&owner).await.len() as u64;
    assert!(kept > KEEP_VERSIONS + REMOVE_EVERY, "nothing was removed");
    // It is given up after a while, and the next one removes what is due.
    store.set(Fault::None);
    removed(&owner).await;
    swap_until(&owner, to + REMOVE_EVERY).await;
    assert_eq!(numbers(&owner).await.len() as u64, KEEP_VERSIONS);
}

#[tokio::test]
async fn the_newest_versions_are_kept() {
    let store = Faulty::new();
    let owner = open(&store);
    for last in (1..5 * KEEP_VERSIONS).step_by(7) {
        swap_until(&owner, last).await;
        let left = numbers(&owner).await;
        let kept = KEEP_VERSIONS.min(last);
        let expected: Vec<_> = (last - kept + 1..=last).collect();
        assert!(left.ends_with(&expected), "{left:?}");
        assert!(
            left.len() as u64 <= KEEP_VERSIONS + REMOVE_EVERY,
            "{left:?}"
        );
    }
}

#[tokio::test]
async fn wrong_answers_to_a_create() {
    let check = async |fault, expect: fn(&Result<Version>) -> bool, then: &'static str| {
        let store = Faulty::new();
        let meta = open(&store);
        meta.swap(None, Bytes::from_static(b"old")).await.unwrap();
        store.set(fault);
        let outcome = meta
            .swap(Some(Version(1)), Bytes::from_static(b"new"))
            .await;
        assert!(expect(&outcome), "{outcome:?}");
        store.set(Fault::None);
        assert_eq!(meta.load().await.unwrap().unwrap().bytes, then);
    };
    let unavailable = |outcome: &Result<_>| matches!(outcome, Err(Error::Unavailable { .. }));
    check(Fault::LandsButExists, |outcome| outcome.is_ok(), "new").await;
    check(Fault::LostButExists, unavailable, "old").await;
    check(Fault::LandsButBreaks, unavailable, "new").await;
    check(Fault::LostAndBreaks, unavailable, "old").await;
}

/// Versions that were there and are gone mean that somebody removed the record: never "none".
#[tokio::test]
async fn a_vanished_record_is_corrupt_not_absent() {
    let store = Faulty::new();
    let meta = open(&store);
    swap_until(&meta, 2).await;
    for number in 1..=2 {
        store.delete(&meta.key(number).unwrap()).await.unwrap();
    }
    assert!(matches!(meta.load().await, Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn every_changed_or_missing_byte_is_found() {
    let store = Faulty::new();
    let meta = open(&store);
    swap_until(&meta, 1).await;
    let key = meta.key(1).unwrap();
    let whole = store.get(&key).await.unwrap().bytes().await.unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.to_vec();
        changed[at] ^= 1;
        for bad in [Bytes::from(changed), whole.slice(..at)] {
            store.put(&key, bad.into()).await.unwrap();
            let loaded = meta.load().await;
            assert!(
                matches!(loaded, Err(Error::Corrupt { .. })),
                "byte {at}: {loaded:?}"
            );
        }
    }
}

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
    let removal = meta.removal.lock().take();
    if let Some(removal) = removal {
        removal.await.unwrap();
    }
}

/// The lineage that counts.
async fn lineage(meta: &ObjectMeta) -> Lineage {
    Lineage::load(&*meta.store, &meta.state).await.unwrap()
}

/// Every key of the record.
async fn keys(meta: &ObjectMeta) -> Vec<Path> {
    let keys = meta.store.list(Some(&meta.state));
    let keys: Vec<_> = keys.try_collect().await.unwrap();
    keys.into_iter().map(|meta| meta.location).collect()
}

/// Loses the record, all of it.
async fn lose(meta: &ObjectMeta) {
    for key in keys(meta).await {
        meta.store.delete(&key).await.unwrap();
    }
}

/// The versions that count.
async fn numbers(meta: &ObjectMeta) -> Vec<u64> {
    let directory = lineage(meta).await.directory(&meta.state);
    let keys = keys(meta).await;
    let number = |key| match key_of(&directory, key) {
        Key::Version(number) => Some(number),
        _ => None,
    };
    keys.iter().filter_map(number).collect()
}

/// Stores a version as it was stored before there were lineages.
async fn put_old(meta: &ObjectMeta, number: u64) {
    let nonce = meta.nonces.next();
    let bytes = Bytes::from(format!("old version {number}"));
    let key = meta.state.clone().join(format!("{number:020}"));
    let body = Stored { nonce, bytes }.encode(number);
    meta.store.put(&key, body.into()).await.unwrap();
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

/// The record was lost and made again at version 1, by a rebuild or a restore, while a writer slept at a
/// high version. Its next version was the highest of all, so it won against all that was made since,
/// removed it, and its collector the objects.
#[tokio::test]
async fn a_writer_that_slept_through_a_loss_does_not_win() {
    for is_old in [false, true] {
        let store = Faulty::new();
        let (sleeper, other) = (open(&store), open(&store));
        if is_old {
            put_old(&sleeper, 1).await;
        }
        swap_until(&sleeper, 100).await;
        lose(&other).await;
        swap_until(&other, 40).await;
        let newest = other.load().await.unwrap().unwrap();

        let stale = Bytes::from_static(b"stale");
        let outcome = sleeper.swap(Some(Version(100)), stale).await;
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("open it again"), "{message}");
        assert!(matches!(sleeper.load().await, Err(Error::Corrupt { .. })));
        assert!(matches!(
            sleeper.watch(Some(Version(100))).await,
            Err(Error::Corrupt { .. })
        ));
        for meta in [&other, &open(&store)] {
            assert_eq!(meta.load().await.unwrap().unwrap(), newest);
        }
        swap_until(&other, 200).await;
        let again = open(&store);
        assert_eq!(again.load().await.unwrap().unwrap().version, Version(200));
        swap_until(&again, 201).await;
    }
}

/// It wakes exactly where the two are at the same version.
#[tokio::test]
async fn versions_of_two_lineages_are_not_mixed_up() {
    let store = Faulty::new();
    let (sleeper, other) = (open(&store), open(&store));
    swap_until(&sleeper, 5).await;
    lose(&other).await;
    swap_until(&other, 5).await;
    let newest = other.load().await.unwrap().unwrap();
    let stale = Bytes::from_static(b"stale");
    let outcome = sleeper.swap(Some(Version(5)), stale).await;
    assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
    assert_eq!(open(&store).load().await.unwrap().unwrap(), newest);
}

/// Numbers directly in `state` are read and continue where they are.
#[tokio::test]
async fn a_record_from_before_lineages_continues() {
    let store = Faulty::new();
    let meta = open(&store);
    for number in 7..=9 {
        put_old(&meta, number).await;
    }
    let found = meta.load().await.unwrap().unwrap();
    assert_eq!(found.version, Version(9));
    assert_eq!(found.bytes, "old version 9");
    swap_until(&open(&store), 2 * KEEP_VERSIONS).await;
    assert_eq!(numbers(&meta).await.len() as u64, KEEP_VERSIONS);
    assert!(!lineage(&meta).await.is_made());
    let refused = open(&store).swap(None, Bytes::new()).await;
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_record_is_made_by_the_create_of_its_lineage() {
    let store = Faulty::new();
    let meta = open(&store);
    // One died before it created the lineage.
    let (id, nonce) = (meta.nonces.next(), meta.nonces.next());
    let bytes = Bytes::from_static(b"nobody's");
    let dead = Stored { nonce, bytes };
    meta.create(Lineage::new(id), 1, &dead).await.unwrap();
    assert_eq!(meta.load().await.unwrap(), None);
    // Of two that both saw nothing one wins, and the other leaves nothing behind.
    let others = (open(&store), open(&store));
    let (one, two) = futures::join!(
        others.0.swap(None, Bytes::from_static(b"one")),
        others.1.swap(None, Bytes::from_static(b"two"))
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let lost = if one.is_ok() { two } else { one };
    assert!(matches!(lost, Err(Error::Conflict { .. })), "{lost:?}");
    assert_eq!(keys(&meta).await.len(), 3, "{:?}", keys(&meta).await);
    assert_eq!(meta.load().await.unwrap().unwrap().version, Version(1));
}

/// A watch found no lineage, and before it had listed the versions the same handle made the record: the
/// watch said that another one had been made.
#[tokio::test]
async fn a_record_may_be_made_while_its_handle_looks() {
    let store = Faulty::new();
    let meta = open(&store);
    store.set(Fault::SlowReads);
    let mut looking = std::pin::pin!(meta.newest());
    assert!(futures::poll!(&mut looking).is_pending());
    let made = meta.swap(None, Bytes::from_static(b"made")).await.unwrap();
    assert!(
        looking.await.unwrap().is_none(),
        "there was none when it looked"
    );
    assert_eq!(meta.load().await.unwrap().unwrap().version, made);
}

/// Half of a record is never none, and never an older one.
#[tokio::test]
async fn a_record_that_is_lost_in_part_is_corrupt() {
    let store = Faulty::new();
    let meta = open(&store);
    swap_until(&meta, 3).await;
    let whole = keys(&meta).await;
    let named = key(&meta.state, "lineage").unwrap();
    let corrupt = async || {
        let loaded = open(&store).load().await;
        assert!(matches!(loaded, Err(Error::Corrupt { .. })), "{loaded:?}");
        let made = open(&store).swap(None, Bytes::new()).await;
        assert!(matches!(made, Err(Error::Corrupt { .. })), "{made:?}");
    };
    let bytes = store.get(&named).await.unwrap().bytes().await.unwrap();
    store.delete(&named).await.unwrap();
    corrupt().await;
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        store.put(&named, changed.into()).await.unwrap();
        corrupt().await;
    }
    store.put(&named, bytes.into()).await.unwrap();
    assert_eq!(meta.load().await.unwrap().unwrap().version, Version(3));
    for key in whole.iter().filter(|key| **key != named) {
        store.delete(key).await.unwrap();
    }
    corrupt().await;
}

/// A slow winner whose version others have built on did win, and must hear so.
#[tokio::test]
async fn a_winner_that_was_overtaken_has_still_won() {
    let store = Faulty::new();
    let (slow, other) = (open(&store), open(&store));
    swap_until(&slow, 1).await;
    // The first half of a swap of version 1, then others continue, then its second half.
    let stored = Stored {
        nonce: slow.nonces.next(),
        bytes: Bytes::from_static(b"slow"),
    };
    slow.create(lineage(&slow).await, 2, &stored).await.unwrap();
    swap_until(&other, 2 + KEEP_VERSIONS - 1).await;
    let newest = slow.newest().await.unwrap().unwrap();
    assert_eq!(newest.number, 2 + KEEP_VERSIONS - 1);
    slow.check_won(2).await.unwrap();
    swap_until(&other, 2 + KEEP_VERSIONS).await;
    assert!(matches!(
        slow.check_won(2).await,
        Err(Error::Unavailable { .. })
    ));
}

/// Old versions were deleted inside of the swap: a bucket that deleted slowly held up whoever swapped,
/// and the renewal of the lease after it, until another writer took over.
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
    // It is abandoned after a while, and the next one removes what is due.
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

#[tokio::test]
async fn wrong_answers_where_a_record_is_made() {
    let check = async |fault, expect: fn(&Result<Version>) -> bool, then: Option<&str>| {
        let store = Faulty::new();
        store.set(fault);
        let outcome = open(&store).swap(None, Bytes::from_static(b"new")).await;
        assert!(expect(&outcome), "{outcome:?}");
        store.set(Fault::None);
        let loaded = open(&store).load().await.unwrap();
        assert_eq!(
            loaded.map(|record| record.bytes).as_deref(),
            then.map(str::as_bytes)
        );
        // Whatever it was, the next one makes it or finds it.
        let again = open(&store).swap(None, Bytes::from_static(b"again")).await;
        assert_eq!(again.is_ok(), then.is_none(), "{again:?}");
    };
    let unavailable = |outcome: &Result<_>| matches!(outcome, Err(Error::Unavailable { .. }));
    check(
        Fault::LandsButExists,
        |outcome| outcome.is_ok(),
        Some("new"),
    )
    .await;
    check(Fault::LostButExists, unavailable, None).await;
    check(Fault::LandsButBreaks, unavailable, None).await;
    check(Fault::LostAndBreaks, unavailable, None).await;
}

/// Versions that were there and are gone mean that somebody removed the record: never "none".
#[tokio::test]
async fn a_vanished_record_is_corrupt_not_absent() {
    let store = Faulty::new();
    let meta = open(&store);
    swap_until(&meta, 2).await;
    for number in 1..=2 {
        let key = meta.key(lineage(&meta).await, number).unwrap();
        store.delete(&key).await.unwrap();
    }
    assert!(matches!(meta.load().await, Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn every_changed_or_missing_byte_is_found() {
    let store = Faulty::new();
    let meta = open(&store);
    swap_until(&meta, 1).await;
    let key = meta.key(lineage(&meta).await, 1).unwrap();
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

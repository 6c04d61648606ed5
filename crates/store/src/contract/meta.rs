//! The record: load, swap, watch.

use std::sync::Arc;

use bytes::Bytes;
use futures::poll;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{MetaHandles, pattern, soon};
use crate::{Error, Version};

/// Tasks that race for one record.
const RACERS: usize = 8;

/// Versions they race for.
const RACED_VERSIONS: u64 = 12;

pub(super) async fn an_absent_record_is_none(handles: MetaHandles) {
    for meta in handles.all() {
        assert_eq!(meta.load().await.unwrap(), None);
    }
}

pub(super) async fn a_swap_is_visible_to_everybody(handles: MetaHandles) {
    let mut expected = None;
    for round in 0..10 {
        let bytes = pattern(round, 100);
        let writer = &handles.writers[round as usize % handles.writers.len()];
        let version = writer.swap(expected, bytes.clone()).await.unwrap();
        assert!(
            expected < Some(version),
            "versions grow: {expected:?}, {version:?}"
        );
        for meta in handles.all() {
            let record = meta.load().await.unwrap().unwrap();
            assert_eq!((record.version, record.bytes), (version, bytes.clone()));
        }
        expected = Some(version);
    }
}

pub(super) async fn a_swap_of_another_version_changes_nothing(handles: MetaHandles) {
    let meta = &handles.writers[0];
    let refused = |outcome| {
        assert!(
            matches!(outcome, Err(Error::Conflict { .. })),
            "{outcome:?}"
        )
    };
    refused(meta.swap(Some(Version(1)), pattern(1, 10)).await);
    refused(meta.swap(Some(Version(0)), pattern(1, 10)).await);
    assert_eq!(meta.load().await.unwrap(), None);

    let first = meta.swap(None, pattern(2, 10)).await.unwrap();
    let second = meta.swap(Some(first), pattern(3, 10)).await.unwrap();
    let never = Version(second.0 + 1);
    let far = Version(second.0 + 1_000_000);
    for expected in [
        None,
        Some(first),
        Some(never),
        Some(far),
        Some(Version(u64::MAX)),
    ] {
        for writer in &handles.writers {
            refused(writer.swap(expected, pattern(4, 10)).await);
        }
    }
    for meta in handles.all() {
        let record = meta.load().await.unwrap().unwrap();
        assert_eq!((record.version, record.bytes), (second, pattern(3, 10)));
    }
    meta.swap(Some(second), pattern(5, 10)).await.unwrap();
}

pub(super) async fn any_bytes_are_a_record(handles: MetaHandles) {
    let meta = &handles.writers[0];
    let mut expected = None;
    for bytes in [
        Bytes::new(),
        Bytes::from_static(&[0; 3]),
        pattern(1, 1 << 20),
        Bytes::new(),
    ] {
        expected = Some(meta.swap(expected, bytes.clone()).await.unwrap());
        for meta in handles.all() {
            assert_eq!(meta.load().await.unwrap().unwrap().bytes, bytes);
        }
    }
    // The same bytes again are a change like any other.
    let again = meta.swap(expected, Bytes::new()).await.unwrap();
    assert!(expected < Some(again));
}

pub(super) async fn readers_cannot_swap(handles: MetaHandles) {
    let version = handles.writers[0].swap(None, pattern(1, 10)).await.unwrap();
    for reader in &handles.readers {
        let refused = reader.swap(Some(version), pattern(2, 10)).await;
        assert!(
            matches!(refused, Err(Error::Conflict { .. })),
            "{refused:?}"
        );
        assert!(!reader.is_exclusive());
    }
    if handles.writers.iter().any(|writer| writer.is_exclusive()) {
        assert_eq!(handles.writers.len(), 1, "an exclusive handle is alone");
    }
    assert_eq!(
        handles.writers[0].load().await.unwrap().unwrap().bytes,
        pattern(1, 10)
    );
}

/// All racers write the same bytes, so that a backend that distinguishes them by content fails.
pub(super) async fn one_racer_wins_each_version(handles: MetaHandles) {
    let mut at = None;
    for _ in 0..RACED_VERSIONS {
        let outcomes = race(&handles, at, |_| Bytes::from_static(b"same")).await;
        let won = the_one_winner(&outcomes);
        assert!(at < Some(won));
        for meta in handles.all() {
            assert_eq!(meta.load().await.unwrap().unwrap().version, won);
        }
        at = Some(won);
    }
}

pub(super) async fn the_winner_is_what_is_there(handles: MetaHandles) {
    let outcomes = race(&handles, None, |racer| pattern(racer as u64, 20)).await;
    let won = the_one_winner(&outcomes);
    let (_, bytes) = outcomes
        .iter()
        .find(|(outcome, _)| outcome.is_ok())
        .unwrap();
    let record = handles.writers[0].load().await.unwrap().unwrap();
    assert_eq!((record.version, &record.bytes), (won, bytes));
}

type Outcome = (Result<Version, Error>, Bytes);

/// Swaps one version from many tasks that start together.
async fn race(
    handles: &MetaHandles,
    expected: Option<Version>,
    bytes: impl Fn(usize) -> Bytes,
) -> Vec<Outcome> {
    let start = Arc::new(Barrier::new(RACERS));
    let mut racers = JoinSet::new();
    for racer in 0..RACERS {
        let meta = handles.writers[racer % handles.writers.len()].clone();
        let (start, bytes) = (start.clone(), bytes(racer));
        racers.spawn(async move {
            start.wait().await;
            (meta.swap(expected, bytes.clone()).await, bytes)
        });
    }
    soon("racing swaps", racers.join_all()).await
}

fn the_one_winner(outcomes: &[Outcome]) -> Version {
    let mut winner = None;
    for (outcome, _) in outcomes {
        match outcome {
            Ok(version) => assert_eq!(winner.replace(*version), None, "two won: {outcomes:?}"),
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    winner.expect("one racer wins")
}

pub(super) async fn a_watcher_waits_for_another_version(handles: MetaHandles) {
    let writer = &handles.writers[0];
    let mut seen = None;
    for round in 0..3 {
        for watcher in handles.all() {
            let mut watch = watcher.watch(seen);
            assert!(
                poll!(&mut watch).is_pending(),
                "there is nothing else to see yet"
            );
            let bytes = pattern(round, 30);
            let version = writer.swap(seen, bytes.clone()).await.unwrap();
            let record = soon("watch", watch).await.unwrap();
            assert_eq!((record.version, record.bytes), (version, bytes));
            seen = Some(version);
        }
    }
}

pub(super) async fn a_watcher_sees_the_newest(handles: MetaHandles) {
    let writer = &handles.writers[0];
    let mut versions = vec![writer.swap(None, pattern(0, 10)).await.unwrap()];
    for round in 1..5 {
        let last = versions.last().copied();
        versions.push(writer.swap(last, pattern(round, 10)).await.unwrap());
    }
    let newest = versions.pop().unwrap();
    for watcher in handles.all() {
        for seen in versions.iter().copied().map(Some).chain([None]) {
            let record = soon("watch", watcher.watch(seen)).await.unwrap();
            assert_eq!((record.version, record.bytes), (newest, pattern(4, 10)));
        }
    }
}

pub(super) async fn a_dropped_watch_loses_nothing(handles: MetaHandles) {
    let writer = &handles.writers[0];
    let seen = writer.swap(None, pattern(1, 10)).await.unwrap();
    for watcher in handles.all() {
        for _ in 0..20 {
            let mut watch = watcher.watch(Some(seen));
            assert!(poll!(&mut watch).is_pending());
        }
    }
    let version = writer.swap(Some(seen), pattern(2, 10)).await.unwrap();
    for watcher in handles.all() {
        let record = soon("watch", watcher.watch(Some(seen))).await.unwrap();
        assert_eq!(record.version, version);
    }
}

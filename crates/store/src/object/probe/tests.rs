//! The probe on a store that creates atomically and on one that only says so.

use futures::TryStreamExt;

use super::super::faulty::{Fault, Faulty};
use super::*;

async fn probe(fault: Fault) -> (Result<()>, usize) {
    let faulty = Faulty::new();
    faulty.set(fault);
    let store: Arc<dyn ObjectStore> = faulty;
    let outcome = probe_create_only(&store, &Path::from("some/prefix"), 8).await;
    let left: Vec<_> = store.list(None).try_collect().await.unwrap();
    (outcome, left.len())
}

#[tokio::test]
async fn an_atomic_store_passes_and_nothing_is_left() {
    let (outcome, left) = probe(Fault::None).await;
    outcome.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_store_that_ignores_the_condition_is_refused() {
    let (outcome, left) = probe(Fault::IgnoresCondition).await;
    let refused = outcome.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }));
    assert!(
        refused.to_string().contains("8 of 8 racers won"),
        "{refused}"
    );
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_is_not_judged() {
    for fault in [Fault::LostAndBreaks, Fault::LostButExists] {
        let (outcome, left) = probe(fault).await;
        assert!(
            matches!(outcome, Err(Error::Unavailable { .. })),
            "{outcome:?}"
        );
        assert_eq!(left, 0);
    }
}

/// One answer of the race got lost, and the program ended with "nobody won, try again". Where answers
/// are lost now and then it hardly ever started. What is there shows who won.
#[tokio::test]
async fn answers_that_get_lost_are_requested_again() {
    for fault in [Fault::LandsButBreaks, Fault::LosesAnswers] {
        let (outcome, left) = probe(fault).await;
        outcome.unwrap();
        assert_eq!(left, 0);
    }
}

#[tokio::test]
async fn only_a_reader_opens_on_a_store_that_ignores_the_condition() {
    use crate::{MetaStore, ObjectMeta};
    let faulty = Faulty::new();
    faulty.set(Fault::IgnoresCondition);
    let store: Arc<dyn ObjectStore> = faulty;
    let prefix = Path::from("some/prefix");
    let refused = ObjectMeta::open_writer(store.clone(), &prefix).await;
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
    let reader = ObjectMeta::open_reader(store, &prefix);
    assert_eq!(reader.load().await.unwrap(), None);
    let refused = reader.swap(None, Bytes::from_static(b"state")).await;
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
}

//! The contract suite, the probe and many races on a real S3-compatible store.
//!
//! `tests/s3.sh` starts one and runs this. Without `CHRONOLITH_S3_ENDPOINT` there is nothing to
//! test against, and the test says so.

#![cfg(feature = "s3")]
#![expect(clippy::unwrap_used, reason = "helpers of a test")]

use std::sync::Arc;

use bytes::Bytes;
use chronolith_store::contract::{MetaHandles, check_blobs, check_meta};
use chronolith_store::{
    BlobStore, Error, MetaStore, ObjectBlobs, ObjectMeta, open_object_store, probe_create_only,
};
use futures::TryStreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

const RACES: u64 = 20;
const RACERS: usize = 8;

/// A client of its own, with its own connections.
fn open() -> Option<Arc<dyn ObjectStore>> {
    let env = |name: &str| std::env::var(format!("CHRONOLITH_S3_{name}"));
    let endpoint = env("ENDPOINT").ok()?;
    let bucket = env("BUCKET").expect("CHRONOLITH_S3_BUCKET names the bucket");
    let options = [
        ("aws_endpoint", endpoint),
        (
            "aws_access_key_id",
            env("KEY").expect("CHRONOLITH_S3_KEY is the access key"),
        ),
        (
            "aws_secret_access_key",
            env("SECRET").expect("CHRONOLITH_S3_SECRET is the secret key"),
        ),
        (
            "aws_region",
            env("REGION").unwrap_or_else(|_| "us-east-1".to_owned()),
        ),
        ("aws_allow_http", "true".to_owned()),
    ];
    let options = options.map(|(key, value)| (key.to_owned(), value));
    let (store, _) = open_object_store(&format!("s3://{bucket}"), &options).unwrap();
    Some(store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn real_store() {
    let Some(store) = open() else {
        println!("skipped: CHRONOLITH_S3_ENDPOINT is not set; `make test-s3` starts a store");
        return;
    };
    // Each run has its own place, so that it may be repeated.
    let run = format!("run-{}", std::process::id());
    let at = |part: &str| Path::from(format!("{run}/{part}"));

    probe_create_only(&store, &at("probe"), RACERS)
        .await
        .unwrap();
    println!("probe: passed");

    let meta_case = async |case: &'static str| {
        let open = || {
            Arc::new(ObjectMeta::assume_create_only(
                open().unwrap(),
                &at(&format!("meta/{case}")),
            ))
        };
        MetaHandles::writers(vec![open(), open(), open()])
    };
    check_meta(meta_case).await;
    println!("contract of the record: passed");

    lost_and_made_again(&at("lost")).await;
    println!("a writer that slept through a loss: refused");

    let blob_case = async |case: &'static str| {
        let blobs = ObjectBlobs::new(open().unwrap(), at(&format!("blobs/{case}")));
        Arc::new(blobs) as Arc<dyn BlobStore>
    };
    check_blobs(blob_case).await;
    println!("contract of the objects: passed");

    race(&at("races")).await;
    println!("{RACES} races of {RACERS} clients: one winner each");

    let keys = store.list(Some(&Path::from(run)));
    let removed = keys.try_for_each_concurrent(8, async |key| store.delete(&key.location).await);
    removed.await.unwrap();
}

/// A record is lost and made again while a writer sleeps at a higher version.
async fn lost_and_made_again(prefix: &Path) {
    let store = open().unwrap();
    let meta = || ObjectMeta::assume_create_only(open().unwrap(), prefix);
    let (sleeper, other) = (meta(), meta());
    let mut at = None;
    for _ in 0..5 {
        at = Some(sleeper.swap(at, Bytes::from_static(b"lost")).await.unwrap());
    }
    let keys = store.list(Some(prefix));
    let removed = keys.try_for_each_concurrent(8, async |key| store.delete(&key.location).await);
    removed.await.unwrap();
    let made = Bytes::from_static(b"made again");
    other.swap(None, made.clone()).await.unwrap();
    let stale = sleeper.swap(at, Bytes::from_static(b"stale")).await;
    assert!(matches!(stale, Err(Error::Corrupt { .. })), "{stale:?}");
    assert!(matches!(sleeper.load().await, Err(Error::Corrupt { .. })));
    for meta in [other, meta()] {
        assert_eq!(meta.load().await.unwrap().unwrap().bytes, made);
    }
}

async fn race(prefix: &Path) {
    let clients: Vec<_> = (0..RACERS)
        .map(|_| ObjectMeta::assume_create_only(open().unwrap(), prefix))
        .collect();
    let mut at = None;
    for round in 0..RACES {
        let swaps = clients.iter().enumerate().map(|(racer, client)| {
            client.swap(at, Bytes::from(format!("round {round} racer {racer}")))
        });
        let outcomes = join_all(swaps).await;
        let mut winners = outcomes
            .iter()
            .enumerate()
            .filter(|(_, outcome)| outcome.is_ok());
        let (winner, version) = winners.next().expect("somebody wins");
        assert!(winners.next().is_none(), "two won: {outcomes:?}");
        let lost = |outcome: &Result<_, Error>| matches!(outcome, Err(Error::Conflict { .. }));
        assert_eq!(
            outcomes.iter().filter(|outcome| lost(outcome)).count(),
            RACERS - 1
        );
        for client in &clients {
            let record = client.load().await.unwrap().unwrap();
            assert_eq!(record.bytes, format!("round {round} racer {winner}"));
        }
        at = version.as_ref().ok().copied();
    }
}

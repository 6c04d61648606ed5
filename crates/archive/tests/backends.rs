//! The same archive on every backend: written, reopened, read by a second handle, compared.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Archive, AuditEntry, Error, GcMode, Provenance, Settings, has_state};
use chronolith_model::{BlockRange, LogFilter};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use chronolith_store::{
    FileBlobs, FileMeta, MemoryBlobs, MetaStore, ObjectBlobs, ObjectMeta, PostgresMeta, TakeOver,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

fn audit() -> AuditEntry {
    AuditEntry {
        at: 5,
        act: "looked".to_owned(),
    }
}

/// Every name of a store, whatever is named.
async fn names(stores: &Stores) -> Vec<String> {
    let listed = stores.blobs.list("", None, 10_000).await.unwrap();
    listed.into_iter().map(|info| info.name).collect()
}

/// A lost state made a new archive of an old one: the next collection removed every object.
async fn check_lost(stores: &Stores, lost: Stores, settings: &Settings) {
    let before = names(stores).await;
    assert!(!before.is_empty());
    let (meta, blobs) = (lost.meta.clone(), lost.blobs.clone());
    let reader = Archive::open_reader(meta, blobs, settings.clone()).await;
    for refused in [reader, lost.try_writer(settings).await] {
        let Err(Error::StateLost { object }) = &refused else {
            panic!("{refused:?}")
        };
        assert!(before.contains(object), "{object}");
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("chronolith archive rebuild-state"),
            "{message}"
        );
    }
    assert!(matches!(
        has_state(&lost.place()).await,
        Err(Error::StateLost { .. })
    ));
    assert_eq!(lost.meta.load().await.unwrap(), None, "no state was made");
    assert_eq!(names(stores).await, before);
}

/// Writes, reopens, writes on, and compares with the chain. `open` gives a writer's stores again, and
/// `lost` a place for a state that is empty.
async fn check(open: impl AsyncFn() -> Stores, lost: Arc<dyn MetaStore>) {
    let chain = tiny_chain(61);
    let mut settings = tiny_settings();
    settings.garbage.grace = Duration::ZERO;
    let range = BlockRange::new(0, 150);
    let first = open().await.writer(&settings).await;
    ingest(&first, &chain, BlockRange::new(0, 90), &[7, 20]).await;
    drop(first);
    let stores = open().await;
    let second = stores.writer(&settings).await;
    ingest(&second, &chain, BlockRange::new(90, 150), &[7]).await;
    second.collect_garbage(GcMode::Remove).await.unwrap();
    let oracle = oracle_of(&chain, range);
    let mut filter = LogFilter::over(range);
    filter.limit = Some(100_000);
    let reader = stores.reader(&settings).await;
    for archive in [&second, &reader] {
        let page = archive.query_finalized(&filter).await.unwrap();
        assert_answers(&page, &oracle, &filter);
        let hash = chain.block_hash(77);
        assert_eq!(
            archive.block_by_hash(&hash).await.unwrap(),
            Some(chain.clock(77))
        );
    }
    let lost = Stores {
        meta: lost,
        ..stores.clone()
    };
    check_lost(&stores, lost, &settings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    let lost = FileMeta::open_writer(folder.path().join("other")).unwrap();
    let open = async || Stores {
        meta: Arc::new(FileMeta::open_writer(&path).unwrap()),
        blobs: Arc::new(FileBlobs::open_writer(&path).unwrap()),
    };
    check(open, Arc::new(lost)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_alone() {
    let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let meta = async |prefix: &str| {
        let opened = ObjectMeta::open_writer(store.clone(), &Path::from(prefix)).await;
        Arc::new(opened.unwrap())
    };
    let lost = meta("other/7").await;
    let open = async || Stores {
        meta: meta("chain/7").await,
        blobs: Arc::new(ObjectBlobs::new(store.clone(), Path::from("chain/7"))),
    };
    check(open, lost).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_row_and_blobs() {
    let options = TempPostgresOptions {
        durable: false,
        settings: Vec::new(),
    };
    let postgres = TempPostgres::start(&options).unwrap();
    let blobs = Arc::new(MemoryBlobs::new());
    let meta = |name: &str| Arc::new(PostgresMeta::new(&postgres.url, name).unwrap());
    let open = async || Stores {
        meta: meta("chain-7"),
        blobs: blobs.clone(),
    };
    check(open, meta("chain-8")).await;
}

/// Shared storage, and two instances that want to write to it.
fn two_instances(lease_ttl: Duration) -> (Stores, Settings, Settings) {
    let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let prefix = Path::from("x");
    let stores = Stores {
        meta: Arc::new(ObjectMeta::assume_create_only(store.clone(), &prefix)),
        blobs: Arc::new(ObjectBlobs::new(store, prefix)),
    };
    let instance = |name: &str| Settings {
        instance: name.to_owned(),
        lease_ttl,
        ..tiny_settings()
    };
    (stores, instance("one"), instance("two"))
}

/// On shared storage another instance waits one time to live, and fails fast if told to.
#[tokio::test(start_paused = true)]
async fn another_instance_waits_for_the_lease_and_the_same_one_does_not() {
    let (stores, one, two) = two_instances(Duration::from_secs(10));
    let first = stores.writer(&one).await;
    let refused = stores.try_writer(&two).await;
    let Err(Error::Store { source, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(source.to_string().contains("one"), "{source}");
    let _again = stores.writer(&one).await;
    assert!(matches!(
        first.renew_lease().await,
        Err(Error::Fenced { .. })
    ));

    let started = tokio::time::Instant::now();
    let (meta, blobs) = (stores.meta.clone(), stores.blobs.clone());
    let waited = Archive::open_writer(meta, blobs, two.clone(), TakeOver::Wait)
        .await
        .unwrap();
    assert!(
        started.elapsed() >= Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    waited.release().await.unwrap();
    stores
        .try_writer(&one)
        .await
        .expect("a released lease is free at once");
}

/// A writer slept while the state was lost and rebuilt. Its next version was the highest of all: every load
/// gave its state, and its collector removed what had been archived since.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_slept_through_a_rebuild_of_the_state_changes_nothing() {
    let chain = tiny_chain(62);
    let mut settings = tiny_settings();
    settings.garbage.grace = Duration::ZERO;
    let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let prefix = Path::from("chain/7");
    let open = || Stores {
        meta: Arc::new(ObjectMeta::assume_create_only(store.clone(), &prefix)),
        blobs: Arc::new(ObjectBlobs::new(store.clone(), prefix.clone())),
    };
    let sleeper = open().writer(&settings).await;
    ingest(&sleeper, &chain, BlockRange::new(0, 90), &[2]).await;
    let state = store.list(Some(&prefix.clone().join("state")));
    let removed = state.try_for_each(async |key| store.delete(&key.location).await);
    removed.await.unwrap();

    let anchor = chain.block_ref(89);
    open().rebuild(&settings, anchor).await.unwrap();
    let writer = open().writer(&settings).await;
    writer.resume(audit()).await.unwrap();
    ingest(&writer, &chain, BlockRange::new(90, 150), &[9]).await;
    let range = BlockRange::new(0, 150);
    let root = writer.content_root(range).await.unwrap();

    let more = chain.blocks(BlockRange::new(90, 92)).collect();
    let provenance = Provenance::default();
    let refused = sleeper.ingest_finalized_blocks(more, &provenance).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("open it again"), "{refused}");
    let refused = sleeper.collect_garbage(GcMode::Remove).await;
    assert!(refused.is_err(), "{refused:?}");
    let refused = sleeper.renew_lease().await;
    assert!(refused.is_err(), "{refused:?}");
    let newest = open().reader(&settings).await;
    assert_eq!(newest.content_root(range).await.unwrap(), root);
    ingest(&writer, &chain, BlockRange::new(150, 160), &[9]).await;
}

/// A writer that shows that it lives is not taken over, however quiet its chain is.
#[tokio::test(start_paused = true)]
async fn a_renewed_lease_keeps_another_instance_waiting() {
    let (stores, one, two) = two_instances(Duration::from_secs(9));
    let first = stores.writer(&one).await;
    let (meta, blobs) = (stores.meta.clone(), stores.blobs.clone());
    let mut other = std::pin::pin!(Archive::open_writer(meta, blobs, two, TakeOver::Wait));
    for _ in 0..20 {
        let waited = tokio::time::timeout(Duration::from_secs(3), &mut other).await;
        assert!(waited.is_err(), "taken over although the lease was renewed");
        first.renew_lease().await.unwrap();
    }
    let started = tokio::time::Instant::now();
    other.await.expect("a silent holder is taken over");
    assert!(started.elapsed() >= Duration::from_secs(9));
}

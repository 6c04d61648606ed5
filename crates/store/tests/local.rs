//! The contract suite on the backends that need no server.

use std::sync::Arc;

use chronolith_store::contract::{MetaHandles, check_blobs, check_meta};
use chronolith_store::{
    BlobStore, FileBlobs, FileMeta, MemoryBlobs, MemoryMeta, MetaStore, ObjectBlobs, ObjectMeta,
};
use object_store::memory::InMemory;
use object_store::path::Path;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_meta() {
    check_meta(async |_| {
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryMeta::new());
        MetaHandles::writers(vec![meta.clone(), meta])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_blobs() {
    check_blobs(async |_| Arc::new(MemoryBlobs::new()) as Arc<dyn BlobStore>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn file_meta() {
    let root = tempfile::tempdir().unwrap();
    check_meta(async |case| {
        let directory = root.path().join(case);
        MetaHandles {
            writers: vec![Arc::new(FileMeta::open_writer(&directory).unwrap())],
            readers: vec![Arc::new(FileMeta::open_reader(&directory))],
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn file_blobs() {
    let root = tempfile::tempdir().unwrap();
    let open = async |case| {
        let blobs = FileBlobs::open_writer(root.path().join(case)).unwrap();
        Arc::new(blobs) as Arc<dyn BlobStore>
    };
    check_blobs(open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn object_meta() {
    let store = Arc::new(InMemory::new());
    check_meta(async |case| {
        let open = || {
            Arc::new(ObjectMeta::assume_create_only(
                store.clone(),
                &Path::from(case),
            ))
        };
        MetaHandles::writers(vec![open(), open(), open()])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn object_blobs() {
    let store = Arc::new(InMemory::new());
    let open = async |case| {
        let blobs = ObjectBlobs::new(store.clone(), Path::from(case));
        Arc::new(blobs) as Arc<dyn BlobStore>
    };
    check_blobs(open).await;
}

/// Without a prefix, keys are the names themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn object_blobs_at_the_root() {
    let open = async |_| {
        let blobs = ObjectBlobs::new(Arc::new(InMemory::new()), Path::default());
        Arc::new(blobs) as Arc<dyn BlobStore>
    };
    check_blobs(open).await;
}

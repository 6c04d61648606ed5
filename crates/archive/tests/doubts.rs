//! Callers that go away, and swaps that arrive late: neither may make the state name an object that
//! was collected, and the writer continues.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
#[path = "support/hooks.rs"]
mod hooks;
mod support;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chronolith_archive::{AuditEntry, GcMode, Provenance};
use chronolith_model::BlockRange;
use chronolith_sim::Operation;
use chronolith_store::{MetaStore, Result, Version, Versioned};
use crash::{Reference, batch, crash_settings};
use futures::future::BoxFuture;
use hooks::{Gate, hooked};
use support::{Stores, tiny_chain};
use tokio::time::timeout;

/// Virtual: it passes at once where everybody waits for somebody else.
const STUCK: Duration = Duration::from_secs(3_600);

fn audit() -> AuditEntry {
    AuditEntry {
        at: 1,
        act: "a test".to_owned(),
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Letter = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// A record behind a network: a request that is on its way arrives even when nobody waits for the
/// answer any more.
#[derive(Clone)]
struct Distant {
    inner: Arc<dyn MetaStore>,
    held: Arc<Mutex<Option<Vec<Letter>>>>,
}

impl std::fmt::Debug for Distant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Distant")
    }
}

impl MetaStore for Distant {
    fn load<'s: 'a, 'a>(&'s self) -> Answer<'a, Option<Versioned>> {
        self.inner.load()
    }

    fn swap<'s: 'a, 'a>(&'s self, expected: Option<Version>, bytes: Bytes) -> Answer<'a, Version> {
        if let Some(held) = &mut *self.held.lock().unwrap() {
            let (answer, waiting) = tokio::sync::oneshot::channel();
            let inner = self.inner.clone();
            held.push(Box::new(move || {
                Box::pin(async move {
                    let _ = answer.send(inner.swap(expected, bytes).await);
                })
            }));
            return Box::pin(async move { waiting.await.unwrap() });
        }
        self.inner.swap(expected, bytes)
    }

    fn watch<'s: 'a, 'a>(&'s self, seen: Option<Version>) -> Answer<'a, Versioned> {
        self.inner.watch(seen)
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}

/// An append is abandoned while its swap is on its way; the swap arrives after a collection.
#[tokio::test(start_paused = true)]
async fn a_swap_that_arrives_late_names_nothing_that_was_collected() {
    let (mut stores, chain) = (Stores::memory(), tiny_chain(92));
    let distant = Distant {
        inner: stores.meta.clone(),
        held: Arc::default(),
    };
    let plain = stores.clone();
    stores.meta = Arc::new(distant.clone());
    let archive = stores.writer(&crash_settings()).await;
    let how = Provenance::default();
    archive
        .ingest_finalized_blocks(batch(&chain, BlockRange::new(0, 10)), &how)
        .await
        .unwrap();
    *distant.held.lock().unwrap() = Some(Vec::new());
    let more = batch(&chain, BlockRange::new(10, 15));
    let append = archive.ingest_finalized_blocks(more.clone(), &how);
    assert!(timeout(STUCK, append).await.is_err());
    let late = distant.held.lock().unwrap().take().unwrap();
    assert_eq!(late.len(), 1);
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    for letter in late {
        letter().await;
    }
    let reader = plain.reader(&crash_settings()).await;
    let end = reader.health().head.unwrap().number + 1;
    Reference::of(&chain, None, BlockRange::new(0, end))
        .check(&reader, 0)
        .await;
    archive.ingest_finalized_blocks(more, &how).await.unwrap();
}

/// An append that is abandoned while its edit waits for its turn must not be published later, when
/// its objects may have been collected.
#[tokio::test(start_paused = true)]
async fn an_append_that_is_given_up_is_not_published_without_its_objects() {
    let (inner, putting, swapping) = (
        Stores::memory(),
        Arc::new(Gate::default()),
        Arc::new(Gate::default()),
    );
    let chain = tiny_chain(91);
    let stores = hooked(&hooked(&inner, putting.hook()), swapping.hook());
    let archive = stores.writer(&crash_settings()).await;
    let how = Provenance::default();
    let range = BlockRange::new(0, 10);
    archive
        .ingest_finalized_blocks(batch(&chain, range), &how)
        .await
        .unwrap();
    let more = batch(&chain, BlockRange::new(10, 15));
    putting.hold_next(|operation, _| operation == Operation::BlobPut);
    let mut append = Box::pin(archive.ingest_finalized_blocks(more.clone(), &how));
    putting.hold(&mut append).await;
    swapping.hold_next(|operation, _| operation == Operation::MetaSwap);
    let mut first = Box::pin(archive.resume(audit()));
    swapping.hold(&mut first).await;
    putting.release();
    // Its objects are stored and its edit waits: only the held swap is in its way.
    let waits = timeout(STUCK, &mut append).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(append);
    swapping.release();
    first.await.unwrap();
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    archive.resume(audit()).await.unwrap();
    let end = archive.health().head.unwrap().number + 1;
    let expected = Reference::of(&chain, None, BlockRange::new(0, end));
    expected.check(&archive, 0).await;
    let outcome = archive.ingest_finalized_blocks(more, &how).await;
    outcome.unwrap();
}

//! Stores that let a test step in: a hook is awaited before and after every operation. With it a
//! test delays operations, or holds one of them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chronolith_sim::Operation;
use chronolith_store::{BlobInfo, BlobStore, BlobWriter, MetaStore, Result, Version, Versioned};
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::support::Stores;

/// Where an operation stands when the hook is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    Before,
    After,
}

/// Called with the moment, the operation and the object's name (empty for the record).
pub type Hook = Arc<dyn Fn(Moment, Operation, &str) -> BoxFuture<'static, ()> + Send + Sync>;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A store with a hook.
#[derive(Clone)]
struct Hooked<S> {
    inner: S,
    hook: Hook,
}

impl<S> fmt::Debug for Hooked<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

/// The same stores, with a hook around every operation.
pub fn hooked(stores: &Stores, hook: Hook) -> Stores {
    Stores {
        meta: Arc::new(Hooked {
            inner: stores.meta.clone(),
            hook: hook.clone(),
        }),
        blobs: Arc::new(Hooked {
            inner: stores.blobs.clone(),
            hook,
        }),
    }
}

impl<S> Hooked<S> {
    async fn around<T>(
        &self,
        operation: Operation,
        name: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        (self.hook)(Moment::Before, operation, name).await;
        let answer = work.await;
        (self.hook)(Moment::After, operation, name).await;
        answer
    }
}

impl MetaStore for Hooked<Arc<dyn MetaStore>> {
    fn load<'s: 'a, 'a>(&'s self) -> Answer<'a, Option<Versioned>> {
        Box::pin(self.around(Operation::MetaLoad, "", self.inner.load()))
    }

    fn swap<'s: 'a, 'a>(&'s self, expected: Option<Version>, bytes: Bytes) -> Answer<'a, Version> {
        let work = self.inner.swap(expected, bytes);
        Box::pin(self.around(Operation::MetaSwap, "", work))
    }

    fn watch<'s: 'a, 'a>(&'s self, seen: Option<Version>) -> Answer<'a, Versioned> {
        self.inner.watch(seen)
    }

    fn is_exclusive(&self) -> bool {
        self.inner.is_exclusive()
    }
}

impl BlobStore for Hooked<Arc<dyn BlobStore>> {
    fn put<'s: 'a, 'n: 'a, 'a>(&'s self, name: &'n str, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(self.around(Operation::BlobPut, name, self.inner.put(name, bytes)))
    }

    fn create<'s: 'a, 'n: 'a, 'a>(&'s self, name: &'n str) -> Answer<'a, Box<dyn BlobWriter>> {
        Box::pin(self.around(Operation::BlobCreate, name, self.inner.create(name)))
    }

    fn get<'s: 'a, 'n: 'a, 'a>(&'s self, name: &'n str) -> Answer<'a, Bytes> {
        Box::pin(self.around(Operation::BlobGet, name, self.inner.get(name)))
    }

    fn range<'s: 'a, 'n: 'a, 'a>(&'s self, name: &'n str, range: Range<u64>) -> Answer<'a, Bytes> {
        Box::pin(self.around(Operation::BlobRange, name, self.inner.range(name, range)))
    }

    fn ranges<'s: 'a, 'n: 'a, 'r: 'a, 'a>(
        &'s self,
        name: &'n str,
        ranges: &'r [Range<u64>],
    ) -> Answer<'a, Vec<Bytes>> {
        let work = self.inner.ranges(name, ranges);
        Box::pin(self.around(Operation::BlobRanges, name, work))
    }

    fn list<'s: 'a, 'p: 'a, 'b: 'a, 'a>(
        &'s self,
        prefix: &'p str,
        after: Option<&'b str>,
        limit: usize,
    ) -> Answer<'a, Vec<BlobInfo>> {
        let work = self.inner.list(prefix, after, limit);
        Box::pin(self.around(Operation::BlobList, prefix, work))
    }

    fn delete<'s: 'a, 'n: 'a, 'a>(&'s self, name: &'n str) -> Answer<'a, ()> {
        Box::pin(self.around(Operation::BlobDelete, name, self.inner.delete(name)))
    }
}

type Rule = Box<dyn Fn(Operation, &str) -> bool + Send>;

/// Holds one operation, the next that a rule names, until it is released.
#[derive(Default)]
pub struct Gate {
    rule: Mutex<Option<Rule>>,
    name: Mutex<String>,
    arrived: Notify,
    released: Notify,
}

impl Gate {
    pub fn hold_next(&self, rule: impl Fn(Operation, &str) -> bool + Send + 'static) {
        *self.rule.lock().unwrap() = Some(Box::new(rule));
    }

    pub fn hook(self: &Arc<Self>) -> Hook {
        let gate = self.clone();
        Arc::new(move |moment, operation, name| {
            let mut rule = gate.rule.lock().unwrap();
            let wanted = rule.as_ref().is_some_and(|rule| rule(operation, name));
            if moment == Moment::After || !wanted {
                return Box::pin(std::future::ready(()));
            }
            *rule = None;
            name.clone_into(&mut gate.name.lock().unwrap());
            let gate = gate.clone();
            Box::pin(async move {
                gate.arrived.notify_one();
                gate.released.notified().await;
            })
        })
    }

    /// Drives some work until one of its operations is held; its name.
    pub async fn hold<T>(&self, work: &mut (impl Future<Output = T> + Unpin)) -> String {
        tokio::select! {
            biased;
            () = self.arrived.notified() => self.name.lock().unwrap().clone(),
            _ = work => panic!("it ended before anything was held"),
        }
    }

    pub fn release(&self) {
        self.released.notify_one();
    }
}

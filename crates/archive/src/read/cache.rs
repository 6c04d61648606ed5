//! The cache: decoded and verified parts of objects, bounded in bytes, shared by all archives that
//! are opened with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{DefaultHashBuilder, OptionsBuilder};

use super::objects::{NamedPack, OpenRun, OpenSegment};
use super::postings::Postings;
use crate::format::frame::Frame;
use crate::format::page::Ids;

/// What part of an object a cached value is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Part {
    Tables,
    Frame,
    TxHashes,
    TxList,
    BlockHashes,
    Digests,
    PostingBlock,
    Postings,
    PostingPage,
    TermPage,
    /// A page of a run.
    HashPage,
    /// A page of a segment's own table of hashes.
    TableHashPage,
    PackFrame,
}

/// Which part of which object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) object: u64,
    pub(crate) part: Part,
    pub(crate) at: u64,
}

/// A cached value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Segment(Arc<OpenSegment>),
    Run(Arc<OpenRun>),
    Pack(Arc<NamedPack>),
    Frame(Arc<Frame>),
    Bytes(Bytes),
    Page(Arc<[u8]>),
    Ids(Arc<Ids>),
    Postings(Arc<Postings>),
}

impl Value {
    /// Bytes of a read, in a buffer of their own: what was read together with others must not
    /// stay in memory as long as one of them does.
    pub(crate) fn own(bytes: &[u8]) -> Self {
        Self::Bytes(Bytes::copy_from_slice(bytes))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ByBytes;

impl quick_cache::Weighter<Key, Value> for ByBytes {
    fn weight(&self, _key: &Key, value: &Value) -> u64 {
        let bytes = match value {
            Value::Segment(segment) => segment.tables.weight(),
            Value::Run(run) => run.hashes.weight() + run.slots.weight(),
            Value::Pack(named) => named.pack.weight(),
            Value::Frame(frame) => frame.weight(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Page(page) => page.len(),
            Value::Ids(ids) => ids.weight(),
            Value::Postings(postings) => postings.weight(),
        };
        bytes as u64 + 96
    }
}

pub(crate) fn into_bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

type Parts = quick_cache::sync::Cache<Key, Value, ByBytes>;

/// Parts of objects in memory. Clones share it: a process that opens many archives gives all of
/// them one, or their caches add up.
#[derive(Clone, Debug)]
pub struct Cache(Arc<Both>);

/// What finds rows, and rows. Apart, so that reading many rows does not drive out what finds the
/// next ones.
#[derive(Debug)]
struct Both {
    index: Parts,
    rows: Parts,
    archives: AtomicU64,
}

impl Cache {
    /// A cache of this many bytes: three eighths for what finds rows, five for rows.
    #[must_use]
    pub fn of_bytes(bytes: u64) -> Self {
        Self(Arc::new(Both {
            index: cache_of(bytes / 8 * 3),
            rows: cache_of(bytes / 8 * 5),
            archives: AtomicU64::new(0),
        }))
    }

    /// Bytes that it holds now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.index.weight() + self.0.rows.weight()
    }

    /// Another one for each archive.
    pub(crate) fn seed(&self) -> u64 {
        self.0.archives.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn of(&self, part: Part) -> &Parts {
        match part {
            Part::Frame
            | Part::TxHashes
            | Part::TxList
            | Part::BlockHashes
            | Part::Digests
            | Part::PackFrame => &self.0.rows,
            _ => &self.0.index,
        }
    }
}

fn cache_of(bytes: u64) -> Parts {
    // The tables of a large segment take many megabytes, and the cache is divided into parts that
    // refuse what they cannot hold: few parts, whatever the number of cores.
    let parts = usize::try_from(bytes >> 26).unwrap_or(1).clamp(1, 64);
    let options = OptionsBuilder::new()
        .estimated_items_capacity((bytes / 4096).max(64) as usize)
        .weight_capacity(bytes)
        .shards(parts)
        .build();
    let options = options.unwrap_or_else(|_| unreachable!("both capacities are given"));
    let hasher = DefaultHashBuilder::default();
    Parts::with_options(options, ByBytes, hasher, DefaultLifecycle::default())
}

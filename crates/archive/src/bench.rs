//! A door for benchmarks: tables from hash to block alone, without an archive around them.

use std::sync::Arc;

use chronolith_model::{BlockRange, ChainId, Hash32};
use chronolith_store::BlobStore;

use crate::error::Result;
use crate::format::container::{ObjectKind, Section};
use crate::maintenance::merge::Output;
use crate::maintenance::tables::{Source, merge_tables};
use crate::meters::Meters;
use crate::read::cache::Cache;
use crate::read::objects::Objects;
use crate::read::run_set::RunSet;
use crate::state::catalog::{PackContent, RunEntry};
use crate::write::pack::encode_summary;
use crate::write::seal::{HASH_KEY_BITS, build_hash_table};

/// A stored run.
#[derive(Clone, Debug)]
pub struct Run(Arc<RunEntry>);

impl Run {
    /// Bytes of the object.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.object.len
    }

    /// Keys in it.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.0.entries
    }
}

/// Runs in a store, with a cache.
#[derive(Debug)]
pub struct Runs {
    objects: Objects,
}

/// Runs that are looked into together.
#[derive(Debug)]
pub struct Index {
    set: RunSet,
    runs: Vec<Run>,
}

impl Index {
    /// Bytes of its runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }
}

impl Runs {
    /// On a store.
    #[must_use]
    pub fn new(blobs: Arc<dyn BlobStore>, cache: Cache) -> Self {
        let meters = Meters::new(ChainId(0));
        Self {
            objects: Objects::new(blobs, cache, meters),
        }
    }

    /// Stores a run of hashes, by their first 64 bits, each with the offset of its block.
    ///
    /// # Errors
    /// `Store`.
    pub async fn build(
        &self,
        name: &str,
        range: BlockRange,
        mut hashes: Vec<(u64, u64)>,
    ) -> Result<Run> {
        let key = |prefix: u64| prefix >> (u64::BITS - HASH_KEY_BITS);
        hashes
            .iter_mut()
            .for_each(|entry| *entry = (key(entry.0), entry.1));
        hashes.sort_unstable();
        hashes.dedup();
        let mut output = Output::create(&self.objects, name, ObjectKind::Run).await?;
        output.container.begin(Section::Hashes);
        let count = hashes.len() as u64;
        let buffer = output.container.buffer();
        let directory = build_hash_table(range.len(), count, hashes.into_iter(), buffer);
        self.finish(output, name, (range, count, directory)).await
    }

    /// Merges runs that lie side by side.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn merge(&self, name: &str, range: BlockRange, inputs: &[Run]) -> Result<Run> {
        let mut sources = Vec::new();
        for Run(input) in inputs {
            let run = self.objects.open_run(&input.object).await?;
            sources.push(Source::run(run, input.range.start));
        }
        let mut output = Output::create(&self.objects, name, ObjectKind::Run).await?;
        output.container.begin(Section::Hashes);
        let (directory, count) = merge_tables(&self.objects, sources, range, &mut output).await?;
        self.finish(output, name, (range, count, directory)).await
    }

    async fn finish(
        &self,
        mut output: Output,
        name: &str,
        (range, entries, directory): (BlockRange, u64, Vec<u8>),
    ) -> Result<Run> {
        let last_hash = Hash32::ZERO;
        output.container.table(Section::HashDirectory, directory);
        let summary = encode_summary(&range, last_hash, &PackContent::NOTHING);
        output.container.table(Section::Summary, summary);
        let object = output.finish(name).await?;
        Ok(Run(Arc::new(RunEntry {
            object,
            tier: 1,
            range,
            last_hash,
            entries,
        })))
    }

    /// Runs to look into.
    #[must_use]
    pub fn index(&self, runs: &[Run]) -> Index {
        let entries: Vec<_> = runs.iter().map(|run| run.0.clone()).collect();
        Index {
            set: RunSet::new(&entries),
            runs: runs.to_vec(),
        }
    }

    /// Reads every page into the cache.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn warm(&self, index: &Index) -> Result<()> {
        for (at, Run(entry)) in index.runs.iter().enumerate() {
            let run = self.objects.open_run(&entry.object).await?;
            let pages = run.hashes.page_count() as u64;
            for page in 0..pages {
                let prefix = page << ((u64::BITS - pages.ilog2()) % u64::BITS);
                index.set.read(&self.objects, at, prefix).await?;
            }
        }
        Ok(())
    }

    /// Adds the blocks that may hold a hash that begins like this. False where something of it is not
    /// in memory.
    pub fn locate(&self, index: &Index, prefix: u64, blocks: &mut Vec<u64>) -> bool {
        index.set.look(&self.objects, prefix, blocks).is_empty()
    }
}

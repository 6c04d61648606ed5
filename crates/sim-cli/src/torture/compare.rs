//! The archive against the simulator's own oracle: every block, and every log as a query finds it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::{Archive, Settings};
use chronolith_evm::Body;
use chronolith_model::{BlockRange, ChainId, Clause, Dataset, DatasetSet, Log, LogFilter, Scope};
use chronolith_sim::Oracle;
use chronolith_sim::evm::{EvmBlock, EvmNode};
use chronolith_store::{FileBlobs, FileMeta};

const PAGE_LOGS: usize = 5_000;

/// What was compared, and what differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Comparison {
    pub(super) blocks: u64,
    pub(super) logs: u64,
    pub(super) missing: u64,
    pub(super) made_up: u64,
    pub(super) twice: u64,
}

impl Comparison {
    pub(super) fn is_equal(&self) -> bool {
        (self.missing, self.made_up, self.twice) == (0, 0, 0)
    }
}

/// The archive that the program writes, read from outside of it.
pub(super) struct ArchiveUnderTest {
    directory: PathBuf,
    settings: Settings,
}

impl ArchiveUnderTest {
    /// The archive in a directory, which keeps these datasets and these logs of a chain.
    pub(super) fn new(
        directory: PathBuf,
        chain_id: u64,
        datasets: DatasetSet,
        scope: Scope,
    ) -> Self {
        let mut settings = Settings::evm(ChainId(chain_id));
        settings.datasets = datasets;
        settings.scope = scope;
        settings.start_block = Some(0);
        Self {
            directory,
            settings,
        }
    }

    async fn open(&self) -> Result<Archive> {
        let meta = Arc::new(FileMeta::open_reader(&self.directory));
        let blobs = Arc::new(FileBlobs::open_reader(&self.directory));
        Ok(Archive::open_reader(meta, blobs, self.settings.clone()).await?)
    }

    /// The newest archived block, where there is one yet.
    pub(super) async fn head(&self) -> Option<u64> {
        let archive = self.open().await.ok()?;
        archive.health().head.map(|head| head.number)
    }

    /// Compares all that is archived with the chain; it must reach to `last`.
    pub(super) async fn compare(&self, node: &EvmNode, last: u64) -> Result<Comparison> {
        let Settings {
            scope, datasets, ..
        } = &self.settings;
        let archive = self.open().await.context("open the archive")?;
        let head = archive
            .health()
            .head
            .context("nothing was archived")?
            .number;
        ensure!(head == last, "archived to {head}, not to {last}");
        let range = BlockRange::new(0, last + 1);
        let oracle = node.oracle(range);
        let is_kept = |log: &Log| scope.admits(log.emitter(), log.topic(0));
        for theirs in oracle.blocks() {
            let number = theirs.clock.number;
            let ours = archive.block(number).await?;
            ensure!(ours.clock == theirs.clock, "block {number} is another one");
            ensure!(ours.txs == theirs.txs, "block {number}: other transactions");
            let theirs_whole = node.block(number).context("the chain has the block")?;
            check_payload(&archive, *datasets, &theirs_whole).await?;
            // What differs here is counted below, as a query finds it.
            let kept: Vec<&Log> = theirs.logs.iter().filter(|log| is_kept(log)).collect();
            if !ours.logs.iter().eq(kept.iter().copied()) {
                let (ours, theirs) = (ours.logs.len(), kept.len());
                eprintln!("block {number}: {ours} logs, not the {theirs} of the chain");
            }
        }
        let logs = all_logs(&archive, range, scope).await?;
        Ok(Comparison {
            blocks: range.len(),
            ..differences(&oracle, &logs, &is_kept)
        })
    }
}

/// Compares header and transactions, where they are kept, with the bytes of the chain.
async fn check_payload(archive: &Archive, kept: DatasetSet, theirs: &EvmBlock) -> Result<()> {
    let number = theirs.header.number;
    if kept.contains(Dataset::Headers) {
        let is_equal = archive.header(number).await? == theirs.encoded_header();
        ensure!(is_equal, "block {number}: another header");
    }
    if !kept.contains(Dataset::Transactions) {
        return Ok(());
    }
    let payload = archive.payload(number, Dataset::Transactions).await?;
    let bodies = payload.bodies.unwrap_or_default();
    let count = bodies.len();
    ensure!(count == theirs.txs.len(), "block {number}: {count} bodies");
    for (tx, body) in theirs.txs.iter().zip(&bodies) {
        let (index, hash) = (tx.index, Body::parse(body)?.hash());
        let is_equal = hash.is_some_and(|hash| hash.0 == tx.hash.0);
        ensure!(
            is_equal,
            "block {number}, transaction {index}: another body"
        );
    }
    Ok(())
}

/// Every log of a range, each with the number of its block.
async fn all_logs(archive: &Archive, range: BlockRange, scope: &Scope) -> Result<Vec<(u64, Log)>> {
    let mut filter = LogFilter::over(range);
    if let Scope::Only(entries) = scope {
        let emitters = entries.iter().filter_map(|entry| entry.emitter.clone());
        filter.emitters = Clause::OneOf(emitters.collect());
    }
    filter.limit = Some(PAGE_LOGS);
    let mut all = Vec::new();
    loop {
        let page = archive.query_finalized(&filter).await?;
        let logs = page.logs.into_iter();
        all.extend(logs.map(|record| (record.block.number, record.log)));
        let Some(next) = page.next else {
            return Ok(all);
        };
        filter.cursor = Some(next);
    }
}

fn differences(oracle: &Oracle, ours: &[(u64, Log)], is_kept: &dyn Fn(&Log) -> bool) -> Comparison {
    let mut seen: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    let mut compared = Comparison {
        logs: ours.len() as u64,
        ..Comparison::default()
    };
    for (number, log) in ours {
        let block = oracle.block(*number);
        if !is_kept(log) || !block.is_some_and(|block| block.logs.contains(log)) {
            compared.made_up += 1;
            continue;
        }
        let times = seen.entry((*number, log.log_index())).or_default();
        compared.twice += u64::from(*times > 0);
        *times += 1;
    }
    for block in oracle.blocks() {
        let place = |log: &&Log| !seen.contains_key(&(block.clock.number, log.log_index()));
        let kept = block.logs.iter().filter(|log| is_kept(log));
        compared.missing += kept.filter(place).count() as u64;
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_sim::evm::EvmSpec;

    #[test]
    fn each_difference_is_counted_as_what_it_is() {
        let node = EvmNode::new(EvmSpec::tiny(1), 20);
        let oracle = node.oracle(BlockRange::new(0, 21));
        let blocks = oracle.blocks();
        let with = |block: &chronolith_model::Block| {
            let number = block.clock.number;
            block
                .logs
                .iter()
                .map(move |log| (number, log.clone()))
                .collect::<Vec<_>>()
        };
        let all: Vec<(u64, Log)> = blocks.flat_map(with).collect();
        assert!(differences(&oracle, &all, &|_| true).is_equal());
        let mut less = all.clone();
        let gone = less.pop().unwrap();
        assert_eq!(differences(&oracle, &less, &|_| true).missing, 1);
        let mut twice = all.clone();
        twice.push(gone.clone());
        let counted = differences(&oracle, &twice, &|_| true);
        assert_eq!((counted.missing, counted.twice, counted.made_up), (0, 1, 0));
        // The right log in the wrong block is made up there, and missing where it belongs.
        less.push((gone.0 - 1, gone.1));
        let counted = differences(&oracle, &less, &|_| true);
        assert_eq!((counted.missing, counted.twice, counted.made_up), (1, 0, 1));
    }
}

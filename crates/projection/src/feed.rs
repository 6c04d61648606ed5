//! Where blocks and logs come from: the archive and the tail of a chain, and nothing else.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Error as ArchiveError, LogRecord, Pinned};
use chronolith_chain_view::{ChainView, Live};
use chronolith_model::{
    Block, BlockMeta, BlockRange, Clause, Dataset, DatasetSet, Hash32, Log, LogFilter,
};

use crate::error::{Error, Result};

/// Logs of history that are read at once, and written in one transaction: with fewer, commits cost more.
const PAGE_LOGS: usize = 25_000;

/// A chain to project.
#[derive(Clone)]
pub struct ChainFeed {
    pub chain: u64,
    /// Its name in the settings.
    pub name: String,
    pub archive: Archive,
    /// Its newest ones.
    pub live: Arc<dyn Live>,
}

/// A log, its block and its transaction.
pub struct BlockLog<'a> {
    pub block: BlockMeta,
    pub tx_hash: Hash32,
    pub log: &'a Log,
}

/// The logs that a projection decodes.
#[derive(Clone, Debug)]
pub struct LogSelection {
    pub emitters: Vec<Bytes>,
    pub topic0: Vec<Bytes>,
    /// The datasets of their blocks that it reads.
    pub datasets: DatasetSet,
}

impl ChainFeed {
    /// The chain as it is now.
    pub(crate) async fn view(&self) -> Result<ChainView> {
        let taken = ChainView::take(&self.archive, self.live.clone()).await;
        taken.map_err(|unsettled| Error::Unavailable {
            context: format!("read chain {}", self.name),
            reason: unsettled.to_string(),
        })
    }
}

impl LogSelection {
    /// Logs of these contracts with one of these first topics.
    #[must_use]
    pub fn new(emitters: &[[u8; 20]], topic0: &[[u8; 32]], datasets: &[Dataset]) -> Self {
        let emitters = emitters.iter().map(|one| Bytes::copy_from_slice(one));
        let topic0 = topic0.iter().map(|one| Bytes::copy_from_slice(one));
        Self {
            emitters: emitters.collect(),
            topic0: topic0.collect(),
            datasets: DatasetSet::of(datasets),
        }
    }

    /// The filter of the archive for a range.
    #[must_use]
    pub fn filter(&self, range: BlockRange) -> LogFilter {
        LogFilter {
            emitters: Clause::OneOf(self.emitters.clone()),
            topics: vec![Clause::OneOf(self.topic0.clone())],
            limit: Some(PAGE_LOGS),
            ..LogFilter::over(range)
        }
    }

    /// The first logs of a range of final blocks: all logs of each block, or none.
    ///
    /// # Errors
    /// The archive does not cover the range, or cannot be read.
    pub async fn page(&self, archive: &Pinned, mut range: BlockRange) -> Result<Page> {
        let mut filter = self.filter(range);
        let mut logs: Vec<LogRecord> = Vec::new();
        loop {
            let page = archive.query(&filter).await;
            let mut page = match (page, filter.limit) {
                // A smaller range works: the rest is left to the next page.
                (
                    Err(ArchiveError::TooLarge {
                        fits: Some(fits), ..
                    }),
                    _,
                ) if logs.is_empty() && !fits.is_empty() && fits.end < range.end => {
                    range.end = fits.end;
                    filter = self.filter(range);
                    continue;
                }
                // Logs may be large: fewer of them fit.
                (Err(ArchiveError::TooLarge { .. }), Some(limit)) if limit > 1 => {
                    filter.limit = Some(limit / 2);
                    continue;
                }
                (page, _) => page?,
            };
            logs.append(&mut page.logs);
            let Some(cursor) = page.next.filter(|_| page.has_more) else {
                let next = range.end;
                return Ok(Page { logs, next });
            };
            // The last block may continue after the page: it is left to the next one, unless it is
            // all there is.
            let last = logs.last().map(|one| one.block.number);
            let whole = logs.iter().rposition(|one| Some(one.block.number) != last);
            if let (Some(at), Some(next)) = (whole, last) {
                logs.truncate(at + 1);
                return Ok(Page { logs, next });
            }
            filter.cursor = Some(cursor);
        }
    }

    /// The last block through which the archive has all of these logs, and the datasets that go with them, without a
    /// gap from one block on; none where it does not have that block.
    #[must_use]
    pub fn covered_through(&self, archive: &Pinned, from: u64) -> Option<u64> {
        let filter = self.filter(BlockRange::one(from));
        let covered = archive.coverage(self.datasets, Some(&filter));
        let mut next = from;
        for (range, _) in covered {
            if range.start <= next && next < range.end {
                next = range.end;
            }
        }
        (next > from).then(|| next - 1)
    }

    /// The logs of a block.
    ///
    /// # Errors
    /// One is of no transaction of the block.
    pub fn of_block<'a>(&self, block: &'a Block) -> Result<Vec<BlockLog<'a>>> {
        let filter = self.filter(BlockRange::one(block.clock.number));
        let wanted = block.logs.iter().filter(|log| filter.matches(log));
        let found = wanted.map(|log| {
            // To leave it out would be to lose it.
            let number = block.clock.number;
            let nameless =
                || Error::Conflict(format!("block {number} has a log of no transaction"));
            Ok(BlockLog {
                block: block.clock,
                tx_hash: block.tx_hash(log.tx_index()).ok_or_else(nameless)?,
                log,
            })
        });
        found.collect()
    }
}

/// Logs of whole blocks.
pub struct Page {
    logs: Vec<LogRecord>,
    /// The first block that was not read.
    pub next: u64,
}

impl Page {
    /// The logs, each with its block.
    pub fn logs(&self) -> impl Iterator<Item = BlockLog<'_>> {
        self.logs.iter().map(|one| BlockLog {
            block: BlockMeta {
                number: one.block.number,
                hash: one.block.hash,
                parent_hash: Hash32::default(),
                timestamp: one.timestamp,
            },
            tx_hash: one.tx_hash,
            log: &one.log,
        })
    }
}

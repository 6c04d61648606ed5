//! Where blocks and logs come from: the archive and the tail of a chain, and nothing else.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Error as ArchiveError, LogRecord, Pinned};
use chronolith_chain_view::{ChainView, Live};
use chronolith_model::{Block, BlockMeta, BlockRange, Clause, DatasetSet, Hash32, Log, LogFilter};

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

/// A log with everything that is known of its place.
pub(crate) struct BlockLog<'a> {
    pub(crate) block: BlockMeta,
    pub(crate) tx_hash: Hash32,
    pub(crate) log: &'a Log,
}

/// Which logs a projection wants.
#[derive(Clone, Debug)]
pub(crate) struct LogSelection {
    pub(crate) emitters: Vec<Bytes>,
    pub(crate) topic0: Vec<Bytes>,
    /// What must be kept of their blocks.
    pub(crate) datasets: DatasetSet,
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
    pub(crate) fn filter(&self, range: BlockRange) -> LogFilter {
        LogFilter {
            emitters: Clause::OneOf(self.emitters.clone()),
            topics: vec![Clause::OneOf(self.topic0.clone())],
            limit: Some(PAGE_LOGS),
            ..LogFilter::over(range)
        }
    }

    /// The first logs of a range of final blocks: all logs of each block, or none.
    pub(crate) async fn page(&self, archive: &Pinned, mut range: BlockRange) -> Result<Page> {
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
            let Some(next) = page.next.filter(|_| page.has_more) else {
                return Ok(Page {
                    logs,
                    next: range.end,
                });
            };
            // The last block may go on behind the page: it is left to the next one, unless it is
            // all there is.
            let last = logs.last().map(|one| one.block.number);
            let whole = logs
                .iter()
                .rposition(|one| Some(one.block.number) != last)
                .map(|at| at + 1);
            if let (Some(whole), Some(last)) = (whole, last) {
                logs.truncate(whole);
                return Ok(Page { logs, next: last });
            }
            filter.cursor = Some(next);
        }
    }

    /// The last block through which the archive has all of these logs and what goes with them, from one on; none where it does
    /// not have that one's.
    pub(crate) fn covered_through(&self, archive: &Pinned, from: u64) -> Option<u64> {
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
    pub(crate) fn of_block<'a>(&self, block: &'a Block) -> Result<Vec<BlockLog<'a>>> {
        let filter = self.filter(BlockRange::one(block.clock.number));
        let wanted = block.logs.iter().filter(|log| filter.matches(log));
        let found = wanted.map(|log| {
            // To leave it out would be to lose it.
            let nameless = || {
                Error::Conflict(format!(
                    "block {} has a log of no transaction",
                    block.clock.number
                ))
            };
            Ok(BlockLog {
                block: block.clock,
                tx_hash: block.tx_hash(log.tx_index()).ok_or_else(nameless)?,
                log,
            })
        });
        found.collect()
    }
}

/// Logs of whole blocks, up to one that was not looked at.
pub(crate) struct Page {
    logs: Vec<LogRecord>,
    pub(crate) next: u64,
}

impl Page {
    pub(crate) fn logs(&self) -> impl Iterator<Item = BlockLog<'_>> {
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

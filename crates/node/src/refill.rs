//! Blocks of the archive, fetched once more: into a fill, in order, many ranges at a time.

use std::sync::Arc;

use chronolith_archive::{Archive, Error as ArchiveError, Fill, Health, Provenance};
use chronolith_model::{Block, BlockRange, BlockRef, DatasetSet};
use chronolith_source::{Fetched, Source, Want};

use crate::clock::now;
use crate::fetches::Fetches;
use crate::ingest::Trouble;
use crate::settings::ChainSettings;

/// How often a range is fetched whose blocks do not fit what is archived; each time whoever
/// delivered them is asked last.
const TRIES: usize = 3;

/// An open archive and where its blocks come from. Whoever has both can fill, in a command or beside a
/// node that runs.
#[derive(Clone, Copy)]
pub(crate) struct Refill<'a> {
    pub(crate) chain: &'a ChainSettings,
    pub(crate) archive: &'a Archive,
    pub(crate) source: &'a Arc<dyn Source>,
}

/// The ends of what was pushed, and who delivered them.
#[derive(Default)]
struct Ends {
    first: Option<(BlockRef, Arc<str>)>,
    last: Option<(BlockRef, Arc<str>)>,
}

impl Refill<'_> {
    /// Fetches a range and finishes a fill with it. Only endpoints that have a block of the archive behind
    /// the range are asked: they are on its chain.
    pub(crate) async fn refill(
        &self,
        range: BlockRange,
        want: Want,
        begin: impl Fn() -> Result<Fill, ArchiveError>,
        told: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Trouble> {
        let mut tries = 1;
        loop {
            let mut ends = Ends::default();
            let done = self.pour(range, &want, begin()?, (&mut ends, told)).await;
            match done {
                Err(Trouble::Archive(error)) if does_not_fit(&error) && tries < TRIES => {
                    tracing::warn!(chain = %self.chain.name, %error, "fetching it once more");
                    for (block, endpoint) in ends.first.iter().chain(&ends.last) {
                        self.source.blame(endpoint, *block, &error.to_string());
                    }
                }
                done => return done,
            }
            tries += 1;
        }
    }

    /// A block of the archive that whoever delivers must have: its head. A halted archive's head may be
    /// the very block that was replaced, so it is the lowest block behind the range there; without one
    /// that can be read, what the archive knows of the range itself is all there is to check by.
    async fn anchor(&self, range: BlockRange) -> Result<Option<BlockRef>, Trouble> {
        let health = self.archive.health();
        if !matches!(health.health, Health::Halted(_)) {
            return Ok(health.head);
        }
        let mut covered = self.archive.coverage(DatasetSet::CLOCK, None).into_iter();
        let behind = covered.find(|(covered, _)| covered.end > range.end);
        let Some((covered, _)) = behind else {
            return Ok(None);
        };
        let number = covered.start.max(range.end);
        match self.archive.block_by_number(number).await {
            Ok(clock) => Ok(Some(clock.block_ref())),
            Err(ArchiveError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn pour(
        &self,
        range: BlockRange,
        want: &Want,
        mut fill: Fill,
        (ends, told): (&mut Ends, &mut (dyn FnMut(u64) + Send)),
    ) -> Result<(), Trouble> {
        let anchor = self.anchor(range).await?;
        let mut fetches = Fetches::new(self.source, want, (range, anchor));
        while let Some(fetched) = fetches.next().await {
            let fetched = fetched?;
            let end = |one: &Fetched| (one.block.clock.block_ref(), one.endpoint.clone());
            let same = |a: &Fetched, b: &Fetched| a.level == b.level && a.endpoint == b.endpoint;
            for group in fetched.chunk_by(same) {
                let (Some(first), Some(last)) = (group.first(), group.last()) else {
                    continue;
                };
                let how = Provenance {
                    level: first.level,
                    source: first.endpoint.to_string(),
                    now: now(),
                };
                let blocks: Vec<Block> = group.iter().map(|one| one.block.clone()).collect();
                fill.push(blocks, &how).await?;
                ends.first.get_or_insert_with(|| end(first));
                ends.last = Some(end(last));
                told(last.block.clock.number + 1 - range.start);
            }
        }
        Ok(fill.finish().await?)
    }
}

/// Whether blocks were refused for what they are: another endpoint may have the right ones.
fn does_not_fit(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::BadParent { .. } | ArchiveError::FinalityViolation { .. }
    )
}

//! Which implementation the proxy had at which log.
//!
//! Upgrades are read from the chain itself, from the first block that counts: those of final blocks from
//! the archive, once, and those above it from the blocks at hand. So an upgrade that is reorganised away
//! is gone from here with its block.

use chronolith_archive::Pinned;
use chronolith_chain_view::ChainView;
use chronolith_model::{BlockRange, Dataset, Hash32, Log};
use chronolith_projection::{Error, LogSelection, Result};
use parking_lot::Mutex;

use crate::settings::UPGRADED;

/// An upgrade, and where it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    pub(crate) block: u64,
    pub(crate) log_index: u32,
    pub(crate) implementation: [u8; 20],
}

/// Upgrades in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Timeline(Vec<Epoch>);

impl Timeline {
    /// The upgrade that is in force at a log: the last one before it.
    pub(crate) fn at(&self, block: u64, log_index: u32) -> Option<&Epoch> {
        let is_before = |epoch: &Epoch| (epoch.block, epoch.log_index) < (block, log_index);
        let before = self.0.partition_point(is_before);
        self.0.get(before.checked_sub(1)?)
    }

    pub(crate) fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        self.0.iter()
    }
}

/// The implementation that a log names; none where it is no upgrade.
pub(crate) fn upgraded(log: &Log) -> Option<[u8; 20]> {
    if log.topic(0)? != UPGRADED || log.topic_count() != 2 {
        return None;
    }
    let (zeros, address) = log.topic(1)?.split_at_checked(12)?;
    if zeros.iter().any(|byte| *byte != 0) {
        return None;
    }
    address.try_into().ok()
}

/// The upgrades of a proxy.
pub(crate) struct Upgrades {
    start: u64,
    selection: LogSelection,
    /// What was read of the archive.
    known: Mutex<Option<Known>>,
}

#[derive(Clone)]
struct Known {
    through: u64,
    /// The hash of that block: an archive that was rewound has another.
    hash: Hash32,
    epochs: Vec<Epoch>,
}

impl Upgrades {
    pub(crate) fn new(proxy: [u8; 20], start: u64) -> Self {
        Self {
            start,
            selection: LogSelection::new(&[proxy], &[UPGRADED.0], &[Dataset::Logs]),
            known: Mutex::default(),
        }
    }

    /// All upgrades through a block; none where not every block is at hand yet.
    pub(crate) async fn through(&self, view: &ChainView, last: u64) -> Result<Option<Timeline>> {
        let head = view.finalized_head().map(|head| head.number);
        let archived = head.map(|head| head.min(last));
        let archived = archived.filter(|block| *block >= self.start);
        let mut epochs = Vec::new();
        if let (Some(archive), Some(through)) = (&view.archive, archived) {
            match self.archived(archive, through).await? {
                Some(known) => epochs = known,
                None => return Ok(None),
            }
        }
        let next = archived.map_or(self.start, |block| block.saturating_add(1));
        if next <= last {
            let range = BlockRange::new(next, last.saturating_add(1));
            let blocks = view.tail.blocks_in(range);
            if blocks.len() as u64 != last - next + 1 {
                return Ok(None);
            }
            for block in blocks {
                let found = self.selection.of_block(block)?.into_iter();
                epochs.extend(found.filter_map(|one| epoch(one.block.number, one.log)));
            }
        }
        Ok(Some(Timeline(epochs)))
    }

    /// Those of final blocks: what is known already, and what is new since.
    async fn archived(&self, archive: &Pinned, through: u64) -> Result<Option<Vec<Epoch>>> {
        let known = self.known(archive).await?;
        let (next, mut epochs) = match known {
            Some(known) if known.through >= through => {
                let mut epochs = known.epochs;
                epochs.retain(|epoch| epoch.block <= through);
                return Ok(Some(epochs));
            }
            Some(known) => (known.through.saturating_add(1), known.epochs),
            None => (self.start, Vec::new()),
        };
        let covered = self.selection.covered_through(archive, next);
        if covered.is_none_or(|covered| covered < through) {
            return Ok(None);
        }
        let mut rest = BlockRange::new(next, through.saturating_add(1));
        while !rest.is_empty() {
            let page = self.selection.page(archive, rest).await?;
            let found = page.logs();
            epochs.extend(found.filter_map(|one| epoch(one.block.number, one.log)));
            if page.next <= rest.start {
                return Err(Error::Conflict("upgrades cannot be read on".to_owned()));
            }
            rest.start = page.next;
        }
        let known = Known {
            through,
            hash: archive.block_by_number(through).await?.hash,
            epochs: epochs.clone(),
        };
        *self.known.lock() = Some(known);
        Ok(Some(epochs))
    }

    /// What is known, if it is of this archive.
    async fn known(&self, archive: &Pinned) -> Result<Option<Known>> {
        let known = self.known.lock().clone();
        let Some(known) = known else {
            return Ok(None);
        };
        let head = archive.head();
        if head.is_none_or(|head| head.number < known.through) {
            return Ok(None);
        }
        let hash = archive.block_by_number(known.through).await?.hash;
        Ok((hash == known.hash).then_some(known))
    }
}

fn epoch(block: u64, log: &Log) -> Option<Epoch> {
    Some(Epoch {
        block,
        log_index: log.log_index(),
        implementation: upgraded(log)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_in_force_behind_its_log() {
        let one = |block, log_index, seed| Epoch {
            block,
            log_index,
            implementation: [seed; 20],
        };
        let timeline = Timeline(vec![one(5, 3, 1), one(5, 7, 2), one(9, 0, 3)]);
        for (block, log_index, expected) in [
            (4, 9, None),
            (5, 2, None),
            (5, 3, None),
            (5, 4, Some(1)),
            (5, 7, Some(1)),
            (5, 8, Some(2)),
            (8, 0, Some(2)),
            (9, 0, Some(2)),
            (9, 1, Some(3)),
            (u64::MAX, 0, Some(3)),
        ] {
            let found = timeline.at(block, log_index);
            let found = found.map(|epoch| epoch.implementation[0]);
            assert_eq!(found, expected, "block {block}, log {log_index}");
        }
    }
}

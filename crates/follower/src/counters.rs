//! What was seen of a chain since the process began: reorgs, and how much came.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use chronolith_model::{Block, BlockMeta, BlockRef};

/// Reorgs that are remembered.
const REORGS_MAX: usize = 50;
/// Blocks of each branch of a reorg that are remembered: those nearest to where the branches part.
pub const BRANCH_MAX: usize = 32;

/// Blocks that were replaced.
#[derive(Clone, Debug)]
pub struct Reorg {
    /// When it was seen, in seconds since 1970.
    pub at: u64,
    /// How many blocks were dropped.
    pub depth: u64,
    /// The newest block that was dropped.
    pub from: BlockRef,
    /// The newest block that stayed.
    pub to: BlockRef,
    /// The blocks that were dropped, oldest first: the first [`BRANCH_MAX`].
    pub dropped: Vec<BlockRef>,
    /// The blocks that came at their heights, oldest first, as far as they came before the next reorg.
    pub adopted: Vec<BlockRef>,
}

impl Reorg {
    /// A reorg that dropped these blocks, oldest first; none where there are none.
    pub fn of(dropped: impl IntoIterator<Item = BlockRef>, to: BlockRef, at: u64) -> Option<Self> {
        let (mut kept, mut depth, mut newest) = (Vec::new(), 0, None);
        for block in dropped {
            if kept.len() < BRANCH_MAX {
                kept.push(block);
            }
            depth += 1;
            newest = Some(block);
        }
        Some(Self {
            at,
            depth,
            from: newest?,
            to,
            dropped: kept,
            adopted: Vec::new(),
        })
    }

    /// Takes the next block of the new branch: the one on the last that is known of it. After a restart of the
    /// walk, known ones come again.
    fn adopt(&mut self, block: &BlockMeta) {
        let last = self.adopted.last().unwrap_or(&self.to);
        if self.adopted.len() < self.dropped.len() && last.hash == block.parent_hash {
            self.adopted.push(block.block_ref());
        }
    }
}

/// What was taken in since the process began.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ingested {
    /// Blocks, each as often as it came.
    pub blocks: u64,
    pub logs: u64,
}

/// What was seen of a chain.
#[derive(Default)]
pub struct Counters {
    reorgs: Mutex<VecDeque<Reorg>>,
    blocks: AtomicU64,
    logs: AtomicU64,
}

impl Counters {
    pub fn note_reorg(&self, reorg: Reorg) {
        let mut reorgs = self.reorgs.lock();
        reorgs.truncate(REORGS_MAX - 1);
        reorgs.push_front(reorg);
    }

    /// Notes the new head: it may belong to the branch of the last reorg.
    pub fn note_head(&self, block: &BlockMeta) {
        if let Some(last) = self.reorgs.lock().front_mut() {
            last.adopt(block);
        }
    }

    /// The last reorgs, newest first.
    pub fn reorgs(&self) -> Vec<Reorg> {
        self.reorgs.lock().iter().cloned().collect()
    }

    /// Notes blocks when they come: what becomes final later came before.
    pub fn note_blocks<'a>(&self, blocks: impl Iterator<Item = &'a Block>) {
        let (mut count, mut logs) = (0, 0);
        for block in blocks {
            count += 1;
            logs += block.logs.len() as u64;
        }
        self.blocks.fetch_add(count, Ordering::Relaxed);
        self.logs.fetch_add(logs, Ordering::Relaxed);
    }

    pub fn ingested(&self) -> Ingested {
        Ingested {
            blocks: self.blocks.load(Ordering::Relaxed),
            logs: self.logs.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use chronolith_model::Hash32;

    use super::*;

    fn block(number: u64, branch: u8) -> BlockRef {
        let mut hash = [branch; 32];
        hash[0] = u8::try_from(number).unwrap();
        BlockRef {
            number,
            hash: Hash32(hash),
        }
    }

    fn on(parent: BlockRef, branch: u8) -> BlockMeta {
        let BlockRef { number, hash } = block(parent.number + 1, branch);
        BlockMeta {
            number,
            hash,
            parent_hash: parent.hash,
            timestamp: 0,
        }
    }

    #[test]
    fn only_blocks_on_the_new_branch_are_adopted() {
        let seen = Counters::default();
        let dropped = [block(6, 1), block(7, 1), block(8, 1)];
        seen.note_reorg(Reorg::of(dropped, block(5, 1), 0).unwrap());
        let (six, seven) = (on(block(5, 1), 2), on(block(6, 2), 2));
        // The walk begins again below, and another branch is offered meanwhile.
        for head in [six, six, on(block(4, 1), 1), on(block(6, 3), 3), seven] {
            seen.note_head(&head);
        }
        let adopted = || seen.reorgs()[0].adopted.clone();
        assert_eq!(adopted(), [block(6, 2), block(7, 2)]);
        // The next reorg is before its end: what comes now belongs to that one.
        seen.note_reorg(Reorg::of([block(7, 2)], block(6, 2), 1).unwrap());
        seen.note_head(&on(block(6, 2), 4));
        seen.note_head(&on(block(7, 4), 4));
        let reorgs = seen.reorgs();
        assert_eq!(reorgs[0].adopted, [block(7, 4)]);
        assert_eq!(reorgs[1].adopted, [block(6, 2), block(7, 2)]);
        assert_eq!(reorgs[1].dropped, dropped);
    }

    #[test]
    fn nothing_dropped_is_no_reorg() {
        assert!(Reorg::of([], block(5, 1), 0).is_none());
    }
}

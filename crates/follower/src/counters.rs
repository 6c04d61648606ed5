//! What was seen of a chain since the process began: reorgs, and how much came.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use chronolith_model::{Block, BlockRef};

/// Reorgs that are remembered.
const REORGS_MAX: usize = 50;

/// Blocks that were replaced.
#[derive(Clone, Copy, Debug)]
pub struct Reorg {
    /// When it was seen, in seconds since 1970.
    pub at: u64,
    /// How many blocks were dropped.
    pub depth: u64,
    /// The newest block that was dropped.
    pub from: BlockRef,
    /// The newest block that stayed.
    pub to: BlockRef,
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

    /// The last reorgs, newest first.
    pub fn reorgs(&self) -> Vec<Reorg> {
        self.reorgs.lock().iter().copied().collect()
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

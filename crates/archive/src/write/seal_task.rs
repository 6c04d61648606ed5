//! The part of an append that only computes: rows from blocks, segments from rows. It runs on a
//! thread of its own.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, Proof};
use rayon::prelude::*;

use super::boundaries;
use super::dictionary::Learner;
use super::pack::{self, BuiltPack};
use super::rows::Rows;
use super::seal::{self, Built, Cut, Kept};
use crate::blocking;
use crate::error::Result;
use crate::format::compress::Packer;
use crate::settings::SealSettings;

/// Batches are rewritten soon: they are packed fast and without a dictionary.
const BATCH_LEVEL: i32 = 1;

/// Everything that packing and sealing a batch needs, so that it can run on its own thread.
pub(crate) struct SealJob {
    pub(crate) rows: Rows,
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) level: Proof,
    pub(crate) kept: Kept,
    pub(crate) settings: SealSettings,
    pub(crate) packer: Option<Arc<Packer>>,
    pub(crate) seals_with_packer: u32,
    pub(crate) learner: Learner,
    /// First block and weight of each unsealed batch.
    pub(crate) batches: Vec<u64>,
    pub(crate) weights: Vec<u64>,
}

/// What came of it.
pub(crate) struct Sealed {
    pub(crate) rows: Rows,
    pub(crate) sealed: Vec<Built>,
    /// How many blocks of the rows are sealed now.
    pub(crate) sealed_blocks: usize,
    pub(crate) batch: Option<Built>,
    /// One for each range that the blocks lie in.
    pub(crate) packs: Vec<BuiltPack>,
    /// The batches from here on are replaced.
    pub(crate) first_replaced: usize,
    pub(crate) packer: Option<Arc<Packer>>,
    pub(crate) seals_with_packer: u32,
    pub(crate) learner: Learner,
}

impl SealJob {
    /// Runs the job beside everything else.
    pub(crate) async fn run_aside(self) -> Result<Sealed> {
        blocking::run(move || self.run()).await
    }

    fn run(mut self) -> Result<Sealed> {
        let before = self.rows.blocks.len();
        self.blocks
            .iter()
            .for_each(|block| self.rows.push(block, self.level));
        let packs = boundaries::by_range(&self.blocks, &self.settings)
            .filter_map(|blocks| {
                pack::build(blocks, self.kept.packed(), &mut self.learner).transpose()
            })
            .collect::<Result<_>>()?;
        self.blocks.clear();
        let cuts = boundaries::due(&self.rows, &self.settings);
        let sealed_blocks = cuts.last().map_or(0, |cut| cut.end);
        let packers = self.packers(&cuts);
        let (rows, kept) = (&self.rows, &self.kept);
        let sealed = cuts
            .par_iter()
            .zip(&packers)
            .map(|(&cut, packer)| seal::seal(rows, cut, kept, packer))
            .collect::<Result<Vec<Built>>>()?;
        let (start, first_replaced) = self.batch_start(before, sealed_blocks);
        let end = self.rows.blocks.len();
        let plain = Packer::new(Bytes::new(), BATCH_LEVEL);
        let batch =
            (start < end).then(|| seal::seal(&self.rows, Cut { start, end }, &self.kept, &plain));
        let batch = batch.transpose()?;
        if sealed_blocks == 0 {
            // Blocks come one by one now, and many chains wait like this at once. While history
            // comes every job seals, and the next needs the memory again.
            self.rows.shrink();
        }
        Ok(Sealed {
            sealed,
            sealed_blocks,
            batch,
            packs,
            first_replaced,
            packer: self.packer,
            seals_with_packer: self.seals_with_packer,
            learner: self.learner,
            rows: self.rows,
        })
    }

    /// A packer for each cut; a new dictionary is learnt now and then.
    fn packers(&mut self, cuts: &[Cut]) -> Vec<Arc<Packer>> {
        let mut packers = Vec::with_capacity(cuts.len());
        for &cut in cuts {
            let worn = self.seals_with_packer >= self.settings.seals_per_dictionary;
            let known = self.packer.take();
            let known = known.filter(|known| !worn && !known.dictionary().is_empty());
            let packer = known.unwrap_or_else(|| {
                self.seals_with_packer = 0;
                let dictionary = seal::train(&self.rows, cut);
                Arc::new(Packer::new(dictionary, self.settings.level))
            });
            self.seals_with_packer += 1;
            self.packer = Some(packer.clone());
            packers.push(packer);
        }
        packers
    }

    /// Where the new batch begins among the rows, and which old batches it replaces.
    fn batch_start(&self, before: usize, sealed_blocks: usize) -> (usize, usize) {
        if sealed_blocks > 0 {
            return (sealed_blocks, 0);
        }
        if self.batches.len() + 1 < self.settings.batches_max.max(2) {
            return (before, self.batches.len());
        }
        let from = boundaries::tail_to_join(&self.weights);
        let first = self.rows.blocks.first();
        let first = first.expect("an append has at least one block").clock;
        match self.batches.get(from) {
            Some(start) => ((start - first.number) as usize, from),
            None => (before, self.batches.len()),
        }
    }
}

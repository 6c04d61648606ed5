//! The chain as it is known, and how far it is final.
//!
//! Blocks and observations go in, steps come out. The steps are all that others follow, so that a
//! new rule touches nothing but [`Tracker::observe`]. Which of two forks is right is not decided
//! here: the caller offers the fork that it follows. It always holds that finality never goes back,
//! never passes the head, and that nothing final is ever replaced.

use chronolith_model::{BlockMeta, BlockRef, Hash32};

use crate::chain::{Chain, Place};
use crate::dual::Covers;
use crate::{
    Endpoint, Fault, Inclusion, Invalid, Observation, Refused, ReportedBlock, Rule, Settings,
    Stall, guard,
};

/// What became of the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// This block is the head now.
    Extend(BlockRef),
    /// Everything above this block is gone.
    Rollback {
        /// The block that is the head now. Where the first known block is replaced before anything
        /// is final, it is the block below, which was never offered.
        to: BlockRef,
    },
    /// This block and everything below it can never go.
    Finalize(BlockRef),
}

/// Follows one chain between its finalized head and its head.
#[derive(Clone, Debug)]
pub struct Tracker {
    rule: Rule,
    settings: Settings,
    chain: Chain,
    /// The block that was last reported as final.
    reported: Option<ReportedBlock>,
    covers: Covers,
    /// The highest of our blocks that was offered when a reported block already covered its height. It and
    /// what is below it was fetched as settled history, whereas a block that came before the report
    /// may be on another fork than the reported block.
    settled: Option<u64>,
}

impl Tracker {
    /// A tracker above `base`, the archive's published head: the only durable finalized head.
    ///
    /// # Errors
    /// Limits under which the rule could never make anything final.
    pub fn new(rule: Rule, settings: Settings, base: Option<BlockRef>) -> Result<Self, Invalid> {
        settings.check(&rule)?;
        let base_number = base.map(|base| base.number);
        Ok(Self {
            rule,
            settings,
            chain: Chain::new(base),
            reported: None,
            covers: Covers::new(settings.inclusions_max, base_number),
            settled: None,
        })
    }

    /// The newest block of our chain.
    #[must_use]
    pub fn head(&self) -> Option<BlockRef> {
        self.chain.head()
    }

    /// The newest final block.
    #[must_use]
    pub fn finalized(&self) -> Option<BlockRef> {
        self.chain.finalized()
    }

    /// How many blocks wait for finality.
    #[must_use]
    pub fn window_blocks(&self) -> usize {
        self.chain.len()
    }

    /// The hash of a block that is not final yet, or of the finalized head.
    #[must_use]
    pub fn hash_at(&self, number: u64) -> Option<Hash32> {
        self.chain.hash_at(number)
    }

    /// How many of our blocks a new block at this height would replace.
    #[must_use]
    pub fn reorg_depth(&self, number: u64) -> u64 {
        let end = self.head().map_or(0, |head| head.number.saturating_add(1));
        end.saturating_sub(number)
    }

    /// Whether a reorg of this many blocks may be believed. Ask before offering the block that makes
    /// it: an offered reorg is followed.
    ///
    /// # Errors
    /// A reorg deeper than the setting, from an endpoint that is at a lower height or syncing.
    pub fn allows_reorg(&self, depth: u64, endpoint: &Endpoint) -> Result<(), Refused> {
        let ours = self.head().map(|head| head.number);
        guard::check(depth, self.settings.reorg_blocks_max, ours, endpoint)
    }

    /// Offers the next block of the hash-linked walk: nothing for a block that is there already,
    /// an extension for one on the head, a rollback before it for one further down.
    ///
    /// # Errors
    /// Says where the walk must go instead, or why it must stop.
    pub fn accept(&mut self, clock: &BlockMeta) -> Result<Vec<Step>, Fault> {
        let extend = Step::Extend(clock.block_ref());
        match self.chain.place(clock)? {
            Place::Known => Ok(Vec::new()),
            Place::Next if self.chain.len() >= self.settings.window_blocks_max => {
                Err(Fault::WindowFull {
                    window_blocks_max: self.settings.window_blocks_max,
                })
            }
            Place::Next => {
                self.push(clock);
                Ok(vec![extend])
            }
            Place::After(to) => {
                self.rollback(to.number);
                self.push(clock);
                Ok(vec![Step::Rollback { to }, extend])
            }
        }
    }

    /// Takes an observation, and finalizes what is final by now. Marks above the head are kept, so
    /// an observation of nothing but the time is worth its call after every block.
    pub fn observe(&mut self, seen: &Observation) -> Option<Step> {
        self.note(seen);
        let reach = self.reach(seen.now).ok().flatten()?;
        let block = self.chain.finalize(reach)?;
        Some(Step::Finalize(block))
    }

    /// Takes an observation and finalizes nothing: for one that was made a while ago, of which only
    /// a later [`Tracker::observe`] says whether it is recent enough. Taken again it changes nothing.
    pub fn note(&mut self, seen: &Observation) {
        match self.rule {
            Rule::Depth { .. } => {}
            Rule::Tag | Rule::Source => self.note_reported(seen),
            Rule::DualSource { .. } => self.note_cover(seen),
        }
    }

    /// Why finality is stalled, where an operator should know.
    #[must_use]
    pub fn stalled(&self, now: u64) -> Option<Stall> {
        self.reach(now).err()
    }

    /// When a final block was seen to be included in L1. None for other rules, for
    /// blocks that were final before the start, and for what is long forgotten.
    #[must_use]
    pub fn inclusion_of(&self, number: u64) -> Option<Inclusion> {
        let finalized = self.finalized()?;
        (number <= finalized.number).then(|| self.covers.since(number))?
    }

    fn push(&mut self, clock: &BlockMeta) {
        let reported = self.newest_reported();
        if reported.is_some_and(|reported| clock.number <= reported.number) {
            self.settled = Some(clock.number);
        }
        self.chain.push(*clock);
    }

    fn rollback(&mut self, number: u64) {
        self.chain.truncate(number);
        self.settled = self.settled.filter(|&settled| settled <= number);
        // What covered the replaced blocks may not cover those that come instead. What is left was
        // below one of theirs and is below one of the fork's.
        self.covers.clip(ReportedBlock::from(number));
    }

    /// The newest reported block: what is offered at or below it counts as settled history, so that the caller
    /// must fetch it only from a source that has that block.
    #[must_use]
    pub fn newest_reported(&self) -> Option<ReportedBlock> {
        match self.rule {
            Rule::Depth { .. } => None,
            Rule::Tag | Rule::Source => self.reported,
            Rule::DualSource { .. } => self.covers.newest(),
        }
    }

    /// The newest report that names its block counts, also where it is lower: one absurd report must
    /// not attest to everything that comes after it. What is final stays so. A bare height counts
    /// only above what is known.
    fn note_reported(&mut self, seen: &Observation) {
        let kept = self.reported;
        let counts = |new: &ReportedBlock| {
            new.hash.is_some() || kept.is_none_or(|kept| kept.number < new.number)
        };
        self.reported = seen.finalized.filter(counts).or(kept);
    }

    fn note_cover(&mut self, seen: &Observation) {
        let Some(safe) = seen.safe else {
            return;
        };
        // A tag that went down takes its word back, but not for what is final.
        let finalized = self.finalized().map(ReportedBlock::from);
        let kept = finalized.filter(|finalized| finalized.number > safe.number);
        self.covers.clip(kept.unwrap_or(safe));
        if let Some(l1_number) = seen.l1_head {
            let now = Inclusion {
                l1_number,
                seen_at: seen.now,
            };
            self.covers.see(safe, now);
        }
    }

    /// How high finality may go by the rule: never above the head.
    fn reach(&self, now: u64) -> Result<Option<u64>, Stall> {
        let below_head = |depth| self.head().and_then(|head| head.number.checked_sub(depth));
        match self.rule {
            Rule::Depth { confirmations } => Ok(below_head(confirmations)),
            Rule::Tag | Rule::Source => {
                let reported = self.reported.ok_or(Stall::NothingReported)?;
                self.attested(reported)
            }
            Rule::DualSource {
                l2_depth,
                l1_confirmations,
                max_l1_delay_seconds,
            } => {
                self.covers.check_fresh(now, max_l1_delay_seconds)?;
                // The newest reported block on another fork means that we are on the wrong one.
                self.covers
                    .newest()
                    .map_or(Ok(None), |reported| self.attested(reported))?;
                let confirmed = self.covers.confirmed(l1_confirmations);
                let attested = confirmed.map_or(Ok(None), |reported| self.attested(reported))?;
                Ok(attested.zip(below_head(l2_depth)).map(|(a, b)| a.min(b)))
            }
        }
    }

    /// How much of our chain a reported block attests to.
    fn attested(&self, reported: ReportedBlock) -> Result<Option<u64>, Stall> {
        if self.head().is_none_or(|head| head.number < reported.number) {
            return Ok(self.settled);
        }
        match reported.hash.zip(self.hash_at(reported.number)) {
            Some((theirs, ours)) if theirs != ours => Err(Stall::Contradicted {
                ours: BlockRef {
                    number: reported.number,
                    hash: ours,
                },
                reported: theirs,
            }),
            _ => Ok(Some(reported.number)),
        }
    }
}

//! When the safe tag began to cover what, in heights of L1.
//!
//! Every doubt makes an inclusion later, never earlier: cover that was taken back starts again, and
//! an inclusion that is forgotten is counted to the next one. The history is in memory only; after a
//! restart the confirmations are waited for once more.

use std::collections::VecDeque;

use crate::{ReportedBlock, Stall};

/// When a block was first seen to be included in L1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inclusion {
    /// Height of L1. The block was included there or earlier.
    pub l1_number: u64,
    /// When that was seen, in seconds.
    pub seen_at: u64,
}

/// From here on, the safe tag covered everything through the reported block.
#[derive(Clone, Copy, Debug)]
struct Cover {
    reported: ReportedBlock,
    since: Inclusion,
}

/// A bounded history of what the safe tag covered. Marks and L1 heights both rise strictly.
#[derive(Clone, Debug)]
pub(crate) struct Covers {
    covers: VecDeque<Cover>,
    covers_max: usize,
    /// Nothing is known of the inclusion of blocks up to here.
    forgotten: Option<u64>,
    /// The last time that both chains were seen.
    last: Option<Inclusion>,
}

impl Covers {
    /// An empty history; blocks through `base` became final before it began.
    pub(crate) fn new(covers_max: usize, base: Option<u64>) -> Self {
        Self {
            covers: VecDeque::new(),
            covers_max,
            forgotten: base,
            last: None,
        }
    }

    /// Takes an observation of both chains.
    pub(crate) fn see(&mut self, safe: ReportedBlock, now: Inclusion) {
        // An L1 that fell behind would date inclusions too early.
        if self.last.is_some_and(|last| now.l1_number < last.l1_number) {
            return;
        }
        self.last = Some(now);
        let replaced = |newest: &Cover| {
            let hashes = newest.reported.hash.zip(safe.hash);
            newest.reported.number == safe.number && hashes.is_some_and(|(a, b)| a != b)
        };
        if self.covers.back().is_some_and(replaced) {
            self.covers.pop_back();
        }
        match self.covers.back_mut() {
            Some(newest) if safe.number == newest.reported.number => {
                newest.reported.hash = newest.reported.hash.or(safe.hash);
                return;
            }
            Some(newest) if safe.number < newest.reported.number => return,
            Some(newest) if newest.since.l1_number == now.l1_number => {
                // One a height: only so does a bounded history reach back far enough. The later
                // time holds for both.
                newest.reported = safe;
                newest.since = now;
                return;
            }
            _ => self.covers.push_back(Cover {
                reported: safe,
                since: now,
            }),
        }
        while self.covers.len() > self.covers_max {
            self.forgotten = self.covers.pop_front().map(|cover| cover.reported.number);
        }
    }

    /// Takes back the cover of everything above a reported block.
    pub(crate) fn clip(&mut self, reported: ReportedBlock) {
        let number = reported.number;
        let mut since = None;
        while let Some(cover) = self
            .covers
            .pop_back_if(|cover| cover.reported.number > number)
        {
            since = Some(cover.since);
        }
        let through = self.covers.back().map(|cover| cover.reported.number);
        if let Some(since) = since
            && through.is_none_or(|through| through < number)
        {
            self.covers.push_back(Cover { reported, since });
        }
    }

    /// What is covered now.
    pub(crate) fn newest(&self) -> Option<ReportedBlock> {
        self.covers.back().map(|cover| cover.reported)
    }

    /// The highest reported block that has been covered for this many blocks of L1.
    pub(crate) fn confirmed(&self, l1_confirmations: u64) -> Option<ReportedBlock> {
        let since = self.last?.l1_number.checked_sub(l1_confirmations)?;
        let old = |cover: &&Cover| cover.since.l1_number <= since;
        self.covers
            .iter()
            .rev()
            .find(old)
            .map(|cover| cover.reported)
    }

    /// Refuses to continue where both chains were not seen lately. A clock that was set back says nothing of how
    /// long ago that was: the next observation has its new time.
    pub(crate) fn check_fresh(&self, now: u64, max_delay_seconds: u64) -> Result<(), Stall> {
        let last = self.last.map(|last| last.seen_at);
        match last {
            Some(last) if is_within(last, now, max_delay_seconds) => Ok(()),
            _ => Err(Stall::L1Silent {
                last,
                max_delay_seconds,
            }),
        }
    }

    /// Since when a block is covered, where that is still known.
    pub(crate) fn since(&self, number: u64) -> Option<Inclusion> {
        if self.forgotten.is_some_and(|forgotten| number <= forgotten) {
            return None;
        }
        let at = self
            .covers
            .partition_point(|cover| cover.reported.number < number);
        self.covers.get(at).map(|cover| cover.since)
    }
}

fn is_within(last: u64, now: u64, seconds: u64) -> bool {
    now.checked_sub(last)
        .is_some_and(|passed| passed <= seconds)
}

//! When the safe tag began to cover what, in heights of the chain below.
//!
//! Every doubt makes an inclusion later, never earlier: cover that was taken back begins anew, and
//! an inclusion that is forgotten is counted to the next one. The history is in memory only; after a
//! restart the confirmations are waited for once more.

use std::collections::VecDeque;

use crate::{Mark, Stall};

/// When a block was first seen to be included in the chain below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inclusion {
    /// Height of the chain below. The block was included there or earlier.
    pub l1_number: u64,
    /// When that was seen, in seconds.
    pub seen_at: u64,
}

/// From here on, the safe tag covered everything through the mark.
#[derive(Clone, Copy, Debug)]
struct Cover {
    mark: Mark,
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
    pub(crate) fn see(&mut self, safe: Mark, now: Inclusion) {
        // An L1 that fell behind would date inclusions too early.
        if self.last.is_some_and(|last| now.l1_number < last.l1_number) {
            return;
        }
        self.last = Some(now);
        let replaced = |newest: &Cover| {
            let hashes = newest.mark.hash.zip(safe.hash);
            newest.mark.number == safe.number && hashes.is_some_and(|(a, b)| a != b)
        };
        if self.covers.back().is_some_and(replaced) {
            self.covers.pop_back();
        }
        match self.covers.back_mut() {
            Some(newest) if safe.number == newest.mark.number => {
                newest.mark.hash = newest.mark.hash.or(safe.hash);
                return;
            }
            Some(newest) if safe.number < newest.mark.number => return,
            Some(newest) if newest.since.l1_number == now.l1_number => {
                // One a height: only so does a bounded history reach back far enough. The later
                // time holds for both.
                newest.mark = safe;
                newest.since = now;
                return;
            }
            _ => self.covers.push_back(Cover {
                mark: safe,
                since: now,
            }),
        }
        while self.covers.len() > self.covers_max {
            self.forgotten = self.covers.pop_front().map(|cover| cover.mark.number);
        }
    }

    /// Takes back the cover of everything above a mark.
    pub(crate) fn clip(&mut self, mark: Mark) {
        let number = mark.number;
        let mut since = None;
        while let Some(cover) = self.covers.pop_back_if(|cover| cover.mark.number > number) {
            since = Some(cover.since);
        }
        let through = self.covers.back().map(|cover| cover.mark.number);
        if let Some(since) = since
            && through.is_none_or(|through| through < number)
        {
            self.covers.push_back(Cover { mark, since });
        }
    }

    /// What is covered now.
    pub(crate) fn newest(&self) -> Option<Mark> {
        self.covers.back().map(|cover| cover.mark)
    }

    /// The highest mark that has been covered for so many blocks of the chain below.
    pub(crate) fn confirmed(&self, l1_confirmations: u64) -> Option<Mark> {
        let since = self.last?.l1_number.checked_sub(l1_confirmations)?;
        let old = |cover: &&Cover| cover.since.l1_number <= since;
        self.covers.iter().rev().find(old).map(|cover| cover.mark)
    }

    /// Refuses to go on where both chains were not seen lately. A clock that was set back says nothing of how
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
            .partition_point(|cover| cover.mark.number < number);
        self.covers.get(at).map(|cover| cover.since)
    }
}

fn is_within(last: u64, now: u64, seconds: u64) -> bool {
    now.checked_sub(last)
        .is_some_and(|passed| passed <= seconds)
}

//! What goes wrong at a simulated Portal, how often, and how often it did.
//!
//! A fault is drawn only where it can be seen. Which request meets one depends on the order in
//! which requests arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rng::Rng;

/// The rate that always hits.
const ALWAYS: u32 = 1_000_000;

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortalFault {
    /// A request is answered with this status and nothing else; 204 only where a stream was asked.
    Status(u16),
    /// A request is answered with this status and told to come back in a second.
    StatusRetryAfter(u16),
    /// A stream is refused as if the chain had changed.
    Conflict,
    /// A head is not known yet.
    HeadNull,
    /// The finalized head is some blocks lower than it was.
    FinalizedHeadDown,
    /// A stream has no lines at all.
    EmptyBody,
    /// A stream ends before the range does, at the end of a line.
    ShortBody,
    /// A stream ends in the middle of a line.
    CutLine,
    /// The connection breaks in the middle of a line.
    BrokenBody,
    /// Nothing more comes after the middle of a line.
    Stall,
    /// The last line has no end.
    OpenEnd,
    /// A line is left out.
    SkippedBlock,
    /// A line comes twice.
    RepeatedBlock,
    /// A block names another parent.
    WrongParent,
    /// The only log of a block is left out.
    MissingLog,
    /// A line is no JSON.
    Garbage,
    /// A line is padded to two million bytes.
    LongLine,
}

impl PortalFault {
    /// Those that happen to single lines.
    pub(super) const OF_LINES: [Self; 6] = [
        Self::SkippedBlock,
        Self::RepeatedBlock,
        Self::WrongParent,
        Self::MissingLog,
        Self::Garbage,
        Self::LongLine,
    ];
}

/// A seeded plan of faults. A clone is another handle to the same plan; it may change while the
/// Portal serves.
#[derive(Clone, Debug)]
pub struct PortalFaults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug)]
struct Plan {
    rng: Rng,
    odds: BTreeMap<PortalFault, Odds>,
    injected: BTreeMap<PortalFault, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Odds {
    per_million: u32,
    /// How often it may still happen.
    left: u64,
}

impl Default for PortalFaults {
    fn default() -> Self {
        Self::new(0)
    }
}

impl PortalFaults {
    /// A plan in which nothing goes wrong yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let plan = Plan {
            rng: Rng::of(&[seed]),
            odds: BTreeMap::new(),
            injected: BTreeMap::new(),
        };
        Self {
            plan: Arc::new(Mutex::new(plan)),
        }
    }

    /// Lets a fault happen in so many of a million cases; 0 ends it.
    pub fn set(&self, fault: PortalFault, per_million: u32) {
        let left = u64::MAX;
        let odds = Odds { per_million, left };
        self.plan().odds.insert(fault, odds);
    }

    /// Lets a fault happen every time.
    pub fn always(&self, fault: PortalFault) {
        self.set(fault, ALWAYS);
    }

    /// Lets a fault happen the next so many times.
    pub fn times(&self, fault: PortalFault, left: u64) {
        let per_million = ALWAYS;
        let odds = Odds { per_million, left };
        self.plan().odds.insert(fault, odds);
    }

    /// Ends all faults. What was counted stays.
    pub fn clear(&self) {
        self.plan().odds.clear();
    }

    /// How often a fault was injected.
    #[must_use]
    pub fn injected(&self, fault: PortalFault) -> u64 {
        self.plan()
            .injected
            .get(&fault)
            .copied()
            .unwrap_or_default()
    }

    /// Whether the fault happens now. Whoever asks must then show it.
    pub(super) fn hits(&self, fault: PortalFault) -> bool {
        self.draw(fault).is_some()
    }

    /// Like [`PortalFaults::hits`], with a number to choose by.
    pub(super) fn draw(&self, fault: PortalFault) -> Option<u64> {
        let mut plan = self.plan();
        let odds = plan.odds.get(&fault).copied()?;
        if odds.left == 0 || plan.rng.below(ALWAYS.into()) >= odds.per_million.into() {
            return None;
        }
        let left = odds.left - 1;
        plan.odds.insert(fault, Odds { left, ..odds });
        *plan.injected.entry(fault).or_default() += 1;
        Some(plan.rng.next())
    }

    /// The first status that is drawn, of those that may be.
    pub(super) fn draw_status(&self, never: &[u16]) -> Option<PortalFault> {
        let planned: Vec<PortalFault> = self.plan().odds.keys().copied().collect();
        let refuses = |fault: &PortalFault| match fault {
            PortalFault::Status(status) | PortalFault::StatusRetryAfter(status) => {
                !never.contains(status) && self.hits(*fault)
            }
            _ => false,
        };
        planned.into_iter().find(refuses)
    }

    /// Whether anything can happen to single lines.
    pub(super) fn touches_lines(&self) -> bool {
        let plan = self.plan();
        let planned = |fault| plan.odds.get(fault).is_some_and(|odds| odds.left > 0);
        PortalFault::OF_LINES.iter().any(planned)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        // Every change is a single insert: a panic elsewhere leaves the plan whole.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_happen_as_often_as_planned_and_are_counted() {
        let faults = PortalFaults::new(1);
        assert!(!faults.hits(PortalFault::CutLine));
        faults.set(PortalFault::CutLine, 100_000);
        let hits = (0..10_000)
            .filter(|_| faults.hits(PortalFault::CutLine))
            .count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert_eq!(faults.injected(PortalFault::CutLine), hits as u64);
        faults.times(PortalFault::Status(503), 2);
        let drawn: Vec<_> = (0..4).filter_map(|_| faults.draw_status(&[])).collect();
        assert_eq!(drawn, [PortalFault::Status(503); 2]);
        faults.clear();
        assert!(!faults.hits(PortalFault::CutLine));
        assert!(faults.injected(PortalFault::CutLine) > 0);
    }
}

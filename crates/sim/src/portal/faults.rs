//! What goes wrong at a simulated Portal, how often, and how often it did.
//!
//! A fault is drawn only where it can be seen. Which request meets one depends on the order in
//! which requests arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::evm::{FaultsError, parse_rates};
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
    RepeatedBlock,
    /// A block names another parent.
    WrongParent,
    /// The only log of a block is left out.
    MissingLog,
    /// A line is no JSON.
    Garbage,
    /// A line is padded to two million bytes.
    LongLine,
    /// All logs of a block are left out, and its bloom is that of a block without logs.
    EmptiedBlock,
    /// A block has a log that was never there, and its bloom fits it.
    AddedLog,
    /// A log comes from another contract, and the bloom of its block fits it.
    MovedLog,
}

impl PortalFault {
    /// All of them but the statuses and the lies, with their names in reports and settings.
    pub const NAMED: [(Self, &'static str); 15] = [
        (Self::Conflict, "conflict"),
        (Self::HeadNull, "head_null"),
        (Self::FinalizedHeadDown, "finalized_head_down"),
        (Self::EmptyBody, "empty_body"),
        (Self::ShortBody, "short_body"),
        (Self::CutLine, "cut_line"),
        (Self::BrokenBody, "broken_body"),
        (Self::Stall, "stall"),
        (Self::OpenEnd, "open_end"),
        (Self::SkippedBlock, "skipped_block"),
        (Self::RepeatedBlock, "repeated_block"),
        (Self::WrongParent, "wrong_parent"),
        (Self::MissingLog, "missing_log"),
        (Self::Garbage, "garbage"),
        (Self::LongLine, "long_line"),
    ];

    /// Lies that are consistent in themselves: only the chain's own headers tell.
    pub const LIES: [(Self, &'static str); 3] = [
        (Self::EmptiedBlock, "emptied_block"),
        (Self::AddedLog, "added_log"),
        (Self::MovedLog, "moved_log"),
    ];

    fn all_named() -> impl Iterator<Item = (Self, &'static str)> {
        Self::NAMED.into_iter().chain(Self::LIES)
    }

    /// Its name in reports and settings; that of a status is `status_503` or
    /// `status_503_retry_after`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Status(status) => format!("status_{status}"),
            Self::StatusRetryAfter(status) => format!("status_{status}_retry_after"),
            other => {
                let named = Self::all_named().find(|(fault, _)| *fault == other);
                named.map_or_else(String::new, |(_, name)| name.to_owned())
            }
        }
    }

    /// The fault of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if let Some(status) = name.strip_prefix("status_") {
            let (digits, waits) = match status.strip_suffix("_retry_after") {
                Some(digits) => (digits, true),
                None => (status, false),
            };
            let status: u16 = digits.parse().ok()?;
            // Others are no refusals: a client would take the answer for one.
            let refuses = status == 204 || (400..600).contains(&status);
            return refuses.then_some(match waits {
                true => Self::StatusRetryAfter(status),
                false => Self::Status(status),
            });
        }
        let found = Self::all_named().find(|(_, known)| *known == name);
        found.map(|(fault, _)| fault)
    }

    /// Those that happen to single lines.
    pub(super) const OF_LINES: [Self; 9] = [
        Self::SkippedBlock,
        Self::RepeatedBlock,
        Self::WrongParent,
        Self::MissingLog,
        Self::Garbage,
        Self::LongLine,
        Self::EmptiedBlock,
        Self::AddedLog,
        Self::MovedLog,
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

    /// Sets the rates of an object of names and probabilities, such as `{"cut_line": 0.02}`. Names
    /// that are not in it keep their rate.
    ///
    /// # Errors
    /// Text that is no such object, an unknown name, or a probability outside 0 to 1; then nothing
    /// is changed.
    pub fn load_json(&self, text: &str) -> Result<(), FaultsError> {
        let rates = parse_rates(text, PortalFault::named)?;
        rates
            .into_iter()
            .for_each(|(fault, per_million)| self.set(fault, per_million));
        Ok(())
    }

    /// How often each fault was injected, by name; those that never were are not in it.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let plan = self.plan();
        let count = |(fault, count): (&PortalFault, &u64)| (fault.name(), *count);
        plan.injected.iter().map(count).collect()
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
        self.plan.lock()
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

    #[test]
    fn every_fault_has_a_name_that_finds_it() {
        let statuses = [
            PortalFault::Status(204),
            PortalFault::Status(503),
            PortalFault::StatusRetryAfter(429),
        ];
        let named = PortalFault::all_named().map(|(fault, _)| fault);
        for fault in named.chain(statuses) {
            assert_eq!(PortalFault::named(&fault.name()), Some(fault));
        }
        assert_eq!(
            PortalFault::StatusRetryAfter(429).name(),
            "status_429_retry_after"
        );
        for name in [
            "",
            "stal",
            "status_",
            "status_200",
            "status_x",
            "status_99999",
        ] {
            assert_eq!(PortalFault::named(name), None, "{name}");
        }
    }

    #[test]
    fn faults_are_loaded_all_or_none() {
        let faults = PortalFaults::new(1);
        for text in [r#"{"stall": 1, "no_such": 1}"#, r#"{"stall": 1.5}"#, "7"] {
            assert!(faults.load_json(text).is_err(), "{text}");
        }
        assert!(!faults.hits(PortalFault::Stall));
        faults
            .load_json(r#"{"stall": 1, "status_529": 0.5}"#)
            .unwrap();
        assert!(faults.hits(PortalFault::Stall));
        assert_eq!(faults.counts(), BTreeMap::from([("stall".to_owned(), 1)]));
    }
}

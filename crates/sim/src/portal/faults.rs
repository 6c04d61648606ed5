//! The faults of a simulated Portal.

use std::collections::BTreeMap;

use crate::fault_registry::{FaultRegistry, InjectedFault};

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortalFault {
    /// A request is answered with this status and nothing else; 204 only where a stream was asked.
    Status(u16),
    /// A request is answered with this status and a retry after one second.
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
    /// All of them but the statuses and the byzantine ones, with their names in reports and settings.
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

    /// Byzantine faults: consistent in themselves, only the chain's own headers show them.
    pub const BYZANTINE: [(Self, &'static str); 3] = [
        (Self::EmptiedBlock, "emptied_block"),
        (Self::AddedLog, "added_log"),
        (Self::MovedLog, "moved_log"),
    ];

    fn all_named() -> impl Iterator<Item = (Self, &'static str)> {
        Self::NAMED.into_iter().chain(Self::BYZANTINE)
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

    /// Those that happen to single lines.
    pub const OF_LINES: [Self; 9] = [
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

impl InjectedFault for PortalFault {
    type Sizes = ();

    fn named(name: &str) -> Option<Self> {
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
}

/// The faults of a simulated Portal.
pub type PortalFaults = FaultRegistry<PortalFault>;

impl PortalFaults {
    /// How often each fault was injected, by name; those that never were are not in it.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let counts = self.all_counts().into_iter();
        counts.map(|(fault, count)| (fault.name(), count)).collect()
    }

    /// How often a fault was injected.
    #[must_use]
    pub fn injected(&self, fault: PortalFault) -> u64 {
        self.count(fault)
    }

    /// The first status that is drawn, without those of `never`.
    pub(super) fn draw_status(&self, never: &[u16]) -> Option<PortalFault> {
        let refuses = |fault: &PortalFault| match fault {
            PortalFault::Status(status) | PortalFault::StatusRetryAfter(status) => {
                !never.contains(status) && self.hits(*fault)
            }
            _ => false,
        };
        self.planned().into_iter().find(refuses)
    }

    /// Whether anything can happen to single lines.
    pub(super) fn touches_lines(&self) -> bool {
        let mut planned = self.planned().into_iter();
        planned.any(|fault| PortalFault::OF_LINES.contains(&fault))
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

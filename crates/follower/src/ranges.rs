//! Ranges of a chain as operators see them: what the archive says of them, those that a run has planned and
//! not begun, and the one that is written next.

use chronolith_archive::{
    Archive, Geometry, LedgerPhase, RangeReport, RangeState, Result, TxHashPhase,
};

use crate::clock::now;
use crate::run_state::RunState;

/// Ranges that are listed before anything of them is archived. No plan has more.
const PLANNED_MAX: u64 = 100_000;

/// All ranges of a chain at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranges {
    pub geometry: Geometry,
    /// `backfill` or `streaming`.
    pub mode: &'static str,
    /// First and last block of the last backfill.
    pub bounds: Option<(u64, u64)>,
    /// The newest archived block.
    pub head: Option<u64>,
    /// In order, without gaps.
    pub all: Vec<RangeReport>,
}

impl Ranges {
    /// From one state of the archive.
    pub async fn of(archive: &Archive, remembered: &RunState) -> Self {
        let geometry = archive.geometry();
        let (head, archived) = match archive.pin() {
            Some(pinned) => (pinned.head(), pinned.ranges().await),
            None => (None, Vec::new()),
        };
        let head = head.map(|head| head.number);
        let mut all = with_planned(geometry, archived, remembered.bounds);
        if !remembered.is_backfill {
            all.extend(next_range(geometry, &all, head));
        }
        Self {
            geometry,
            mode: remembered.mode(),
            bounds: remembered.bounds,
            head,
            all,
        }
    }

    /// Why a range is not to be tried again, and what to do instead; none where it failed.
    pub fn not_failed(&self, chain: &str, id: u64) -> Option<String> {
        let list = format!("`chronolith state --chain {chain} --ranges`");
        let Some(range) = self.all.iter().find(|range| range.id == id) else {
            let last = self.all.last().map(|last| last.id.to_string());
            let last = last.map_or_else(
                || "none is there".to_owned(),
                |id| format!("the last is {id}"),
            );
            return Some(format!("there is no range {id}, {last}: {list} lists them"));
        };
        let hint = match range.state {
            RangeState::Failed => return None,
            RangeState::Complete => "there is nothing to try again".to_owned(),
            RangeState::Transitioning => {
                format!(
                    "its transition continues while a node runs, and {list} shows how far it is"
                )
            }
            RangeState::Pending | RangeState::Ingesting => {
                "its missing blocks are fetched by `chronolith run` or `chronolith backfill`"
                    .to_owned()
            }
        };
        let state = range.state.name();
        Some(format!("range {id} did not fail, it is {state}: {hint}"))
    }

    /// Those with blocks among these.
    pub fn between(&self, first: u64, last: u64) -> impl Iterator<Item = &RangeReport> {
        let meets = move |range: &&RangeReport| range.last >= first && range.first <= last;
        self.all.iter().filter(meets)
    }
}

/// Archived ranges, and those of a backfill that has not come to them.
fn with_planned(
    geometry: Geometry,
    archived: Vec<RangeReport>,
    bounds: Option<(u64, u64)>,
) -> Vec<RangeReport> {
    let ids =
        |(start, end): (u64, u64)| Some((geometry.id_of(start).unwrap_or(0), geometry.id_of(end)?));
    let (mut first, mut last) = bounds.and_then(ids).unwrap_or((u64::MAX, 0));
    if let (Some(lowest), Some(highest)) = (archived.first(), archived.last()) {
        (first, last) = (first.min(lowest.id), last.max(highest.id));
    }
    let last = last.min(first.saturating_add(PLANNED_MAX));
    let mut archived = archived.into_iter().peekable();
    let mut all = Vec::new();
    for id in first..=last {
        let known = archived.next_if(|range| range.id == id);
        all.push(known.unwrap_or_else(|| RangeReport::pending(geometry, id)));
    }
    all
}

/// The range after the newest one, once that is full: the next block opens it.
fn next_range(geometry: Geometry, all: &[RangeReport], head: Option<u64>) -> Option<RangeReport> {
    let head = head.filter(|&head| geometry.ends_at(head))?;
    let id = geometry.id_of(head)? + 1;
    all.iter().all(|range| range.id < id).then(|| RangeReport {
        state: RangeState::Ingesting,
        ledger: Some(LedgerPhase::Ingesting),
        txhash: Some(TxHashPhase::Ingesting),
        ..RangeReport::pending(geometry, id)
    })
}

/// Does all maintenance that is due.
pub async fn settle(archive: &Archive) -> Result<()> {
    while archive.maintain_at(now()).await? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        first: 2,
        size: 10_000_000,
    };

    fn complete(id: u64) -> RangeReport {
        RangeReport {
            state: RangeState::Complete,
            ..RangeReport::pending(GEOMETRY, id)
        }
    }

    fn shown(all: &[RangeReport]) -> Vec<(u64, &'static str)> {
        let one = |range: &RangeReport| (range.id, range.state.name());
        all.iter().map(one).collect()
    }

    #[test]
    fn planned_ranges_are_listed_before_anything_is_archived() {
        let all = with_planned(GEOMETRY, Vec::new(), Some((2, 30_000_001)));
        assert_eq!(
            shown(&all),
            [(0, "PENDING"), (1, "PENDING"), (2, "PENDING")]
        );
        let all = with_planned(GEOMETRY, vec![complete(2)], Some((2, 25_000_000)));
        assert_eq!(
            shown(&all),
            [(0, "PENDING"), (1, "PENDING"), (2, "COMPLETE")]
        );
        let all = with_planned(GEOMETRY, vec![complete(2)], None);
        assert_eq!(shown(&all), [(2, "COMPLETE")]);
        assert_eq!(with_planned(GEOMETRY, Vec::new(), None), []);
        let all = with_planned(GEOMETRY, Vec::new(), Some((0, u64::MAX)));
        assert_eq!(all.len() as u64, PLANNED_MAX + 1);
    }

    /// A retry of a range that did not fail is refused with its state and the next step.
    #[test]
    fn only_what_failed_is_tried_again() {
        let of = |state, id| RangeReport {
            state,
            ..RangeReport::pending(GEOMETRY, id)
        };
        let ranges = |all: Vec<RangeReport>| Ranges {
            geometry: GEOMETRY,
            mode: "streaming",
            bounds: None,
            head: None,
            all,
        };
        let some = ranges(vec![
            of(RangeState::Failed, 0),
            of(RangeState::Complete, 1),
            of(RangeState::Transitioning, 2),
            of(RangeState::Ingesting, 3),
            of(RangeState::Pending, 4),
        ]);
        assert_eq!(some.not_failed("sim", 0), None);
        for (id, text) in [
            (1, "it is COMPLETE: there is nothing"),
            (2, "it is TRANSITIONING: its transition continues"),
            (3, "it is INGESTING: its missing blocks are fetched by"),
            (4, "it is PENDING: its missing blocks are fetched by"),
            (5, "there is no range 5, the last is 4: `chronolith state"),
        ] {
            let message = some.not_failed("sim", id).unwrap();
            assert!(message.contains(text), "{message}");
        }
        let message = ranges(Vec::new()).not_failed("sim", 0).unwrap();
        assert!(message.contains("no range 0, none is there"), "{message}");
    }

    #[test]
    fn a_full_range_opens_the_next_one() {
        let all = [complete(3)];
        let next = next_range(GEOMETRY, &all, Some(40_000_001)).unwrap();
        assert_eq!(
            (next.id, next.first, next.last),
            (4, 40_000_002, 50_000_001)
        );
        assert_eq!(
            (next.state, next.last_committed),
            (RangeState::Ingesting, None)
        );
        assert_eq!(next_range(GEOMETRY, &all, Some(40_000_000)), None);
        assert_eq!(next_range(GEOMETRY, &all, None), None);
        let all = [complete(3), RangeReport::pending(GEOMETRY, 4)];
        assert_eq!(next_range(GEOMETRY, &all, Some(40_000_001)), None);
    }
}

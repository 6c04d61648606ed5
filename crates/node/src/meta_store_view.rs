//! What is known of a chain's ranges as the keys that operators of Stellar history know: the same names,
//! the same order, the same forms of values.

use chronolith_archive::{RangeReport, RangeState};
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::ranges::Ranges;
use chronolith_serve::ranges::{counts_json, ledger_phase_name, txhash_phase_name};
use chronolith_serve::times::utc;
use serde_json::Value;

/// One key and its value: a number, a text, or counts by hex digit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) value: Value,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, value } = self;
        match value.as_object() {
            None => write!(f, "{name} = {value}"),
            Some(counts) => {
                let counts = counts
                    .iter()
                    .map(|(digit, count)| format!("{digit:?}: {count}"));
                write!(f, "{name} = {{{}}}", counts.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// All keys of a chain, in their order.
pub(crate) fn keys(ranges: &Ranges, place: &ArchiveLocation) -> Vec<Key> {
    let mut keys = Keys::default();
    keys.put("global:mode", Some(ranges.mode));
    let streaming = ranges.head.filter(|_| ranges.mode == "streaming");
    keys.put("global:last_processed_ledger", streaming);
    let (start, end) = ranges.bounds.unzip();
    keys.put("global:backfill_start_ledger", start);
    keys.put("global:backfill_end_ledger", end);
    for range in &ranges.all {
        keys.range(range, place);
    }
    keys.0
}

#[derive(Default)]
struct Keys(Vec<Key>);

impl Keys {
    fn put(&mut self, name: impl Into<String>, value: Option<impl Into<Value>>) {
        let (name, value) = (name.into(), value.map(Into::into));
        self.0.extend(value.map(|value| Key { name, value }));
    }

    fn range(&mut self, range: &RangeReport, place: &ArchiveLocation) {
        let of = |key: &str| format!("range:{}:{key}", range.id);
        self.put(of("state"), Some(range.state.name()));
        self.put(of("start_ledger"), Some(range.first));
        self.put(of("end_ledger"), Some(range.last));
        if range.state == RangeState::Pending {
            return;
        }
        self.put(of("created_at"), range.created_at.and_then(utc));
        self.put(of("completed_at"), range.completed_at.and_then(utc));
        let is_complete = range.state == RangeState::Complete;
        let begun = Some(range.blocks).filter(|&blocks| blocks > 0);
        let payload = range.packs.first().or(range.segments.first());
        let payload = payload.map(|name| place.path_of(folder(name)));
        self.put(of("ledger:phase"), range.ledger.map(ledger_phase_name));
        self.put(of("ledger:last_committed_ledger"), range.last_committed);
        self.put(of("ledger:count"), begun);
        self.put(of("ledger:immutable_path"), payload.filter(|_| is_complete));
        self.put(of("txhash:phase"), range.txhash.map(txhash_phase_name));
        self.put(of("txhash:last_committed_ledger"), range.last_committed);
        self.put(
            of("txhash:cf_counts"),
            range
                .keys
                .filter(|_| begun.is_some())
                .map(|keys| counts_json(&keys)),
        );
        // Until there is one index for all of the range, hashes are looked up in its segments.
        let active = range.segments.first().filter(|_| !is_complete);
        let active = active.map(|name| place.path_of(folder(name)));
        self.put(of("txhash:rocksdb_path"), active);
        let index = range.runs.first().filter(|_| is_complete);
        self.put(
            of("txhash:recsplit_path"),
            index.map(|name| place.path_of(name)),
        );
        // A range that failed keeps how far it came, but nothing runs.
        let runs = range.state == RangeState::Transitioning;
        let parts = range.ledger_status.zip(range.txhash_status);
        if let Some((ledger, txhash)) = parts.filter(|_| runs) {
            self.put(
                of("transition:started_at"),
                range.transition_started_at.and_then(utc),
            );
            self.put(of("transition:ledger_status"), Some(ledger.name()));
            self.put(of("transition:txhash_status"), Some(txhash.name()));
        }
    }
}

/// The part of an object's name that it shares with others of its kind.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_archive::{Geometry, LedgerPhase, PartStatus, TxCounts, TxHashPhase};

    const GEOMETRY: Geometry = Geometry {
        first: 2,
        size: 10_000_000,
    };

    fn ranges(all: Vec<RangeReport>) -> Ranges {
        Ranges {
            geometry: GEOMETRY,
            mode: "backfill",
            bounds: Some((2, 30_000_001)),
            head: None,
            all,
        }
    }

    fn shown(ranges: &Ranges) -> Vec<String> {
        let place = ArchiveLocation::Directory("/data/chains/7".into());
        let all = keys(ranges, &place).into_iter();
        all.map(|key| key.to_string()).collect()
    }

    /// The requirement's first state of a fresh backfill, line by line.
    #[test]
    fn a_fresh_backfill_is_as_the_requirement_prints_it() {
        let planned = (0..3)
            .map(|id| RangeReport::pending(GEOMETRY, id))
            .collect();
        let expected = [
            r#"global:mode = "backfill""#,
            "global:backfill_start_ledger = 2",
            "global:backfill_end_ledger = 30000001",
            r#"range:0:state = "PENDING""#,
            "range:0:start_ledger = 2",
            "range:0:end_ledger = 10000001",
            r#"range:1:state = "PENDING""#,
            "range:1:start_ledger = 10000002",
            "range:1:end_ledger = 20000001",
            r#"range:2:state = "PENDING""#,
            "range:2:start_ledger = 20000002",
            "range:2:end_ledger = 30000001",
        ];
        assert_eq!(shown(&ranges(planned)), expected);
    }

    fn ingesting() -> RangeReport {
        let mut counts = TxCounts([300; 16]);
        counts.0[15] = 305;
        RangeReport {
            state: RangeState::Ingesting,
            ledger: Some(LedgerPhase::Ingesting),
            txhash: Some(TxHashPhase::Ingesting),
            last_committed: Some(5_001),
            blocks: 5_000,
            keys: Some(counts),
            created_at: Some(1_769_601_600),
            segments: vec!["seg/a".to_owned()],
            ..RangeReport::pending(GEOMETRY, 0)
        }
    }

    fn transitioning() -> RangeReport {
        RangeReport {
            state: RangeState::Transitioning,
            ledger: Some(LedgerPhase::Merging),
            txhash: Some(TxHashPhase::BuildingIndex),
            transition_started_at: Some(1_769_601_600),
            ledger_status: Some(PartStatus::InProgress),
            txhash_status: Some(PartStatus::InProgress),
            ..ingesting()
        }
    }

    /// Every key of a range, in the requirement's order, with its form of value.
    #[test]
    fn every_key_has_its_place_and_form() {
        let all = shown(&ranges(vec![ingesting()]));
        let cf_counts = all[12].strip_prefix("range:0:txhash:cf_counts = ").unwrap();
        assert!(
            cf_counts.starts_with(r#"{"0": 300, "1": 300, "2": 300,"#),
            "{cf_counts}"
        );
        assert!(cf_counts.ends_with(r#""e": 300, "f": 305}"#), "{cf_counts}");
        serde_json::from_str::<Value>(cf_counts).unwrap();
        let expected = [
            r#"range:0:state = "INGESTING""#,
            "range:0:start_ledger = 2",
            "range:0:end_ledger = 10000001",
            r#"range:0:created_at = "2026-01-28T12:00:00Z""#,
            r#"range:0:ledger:phase = "INGESTING""#,
            "range:0:ledger:last_committed_ledger = 5001",
            "range:0:ledger:count = 5000",
            r#"range:0:txhash:phase = "INGESTING""#,
        ];
        assert_eq!(all[3..11], expected);
        let all = shown(&ranges(vec![transitioning()]));
        let expected = [
            r#"range:0:txhash:rocksdb_path = "/data/chains/7/blobs/seg""#,
            r#"range:0:transition:started_at = "2026-01-28T12:00:00Z""#,
            r#"range:0:transition:ledger_status = "in_progress""#,
            r#"range:0:transition:txhash_status = "in_progress""#,
        ];
        assert_eq!(all[all.len() - 4..], expected);
        // Nothing is in its last form yet.
        for key in ["completed_at", "immutable_path", "recsplit_path"] {
            assert!(!all.iter().any(|one| one.contains(key)), "{all:#?}");
        }
    }

    #[test]
    fn keys_of_a_transition_go_with_it_and_checkpoints_never_vanish() {
        let complete = RangeReport {
            state: RangeState::Complete,
            ledger: Some(LedgerPhase::Immutable),
            txhash: Some(TxHashPhase::Complete),
            completed_at: Some(1_769_601_600),
            ledger_status: None,
            txhash_status: None,
            packs: vec!["pack/b".to_owned()],
            runs: vec!["run/c".to_owned()],
            ..transitioning()
        };
        let failed = RangeReport {
            state: RangeState::Failed,
            ..transitioning()
        };
        let all = shown(&ranges(vec![failed]));
        assert!(all.iter().any(|one| one.contains("FAILED")), "{all:#?}");
        assert!(
            !all.iter().any(|one| one.contains("transition:")),
            "{all:#?}"
        );
        let all = shown(&ranges(vec![complete]));
        for line in [
            r#"range:0:completed_at = "2026-01-28T12:00:00Z""#,
            r#"range:0:ledger:immutable_path = "/data/chains/7/blobs/pack""#,
            r#"range:0:txhash:phase = "COMPLETE""#,
            r#"range:0:txhash:recsplit_path = "/data/chains/7/blobs/run/c""#,
            "range:0:ledger:last_committed_ledger = 5001",
            "range:0:txhash:last_committed_ledger = 5001",
        ] {
            assert!(all.iter().any(|one| one == line), "no {line} in {all:#?}");
        }
        assert!(
            !all.iter()
                .any(|one| one.contains("transition:") || one.contains("rocksdb"))
        );
    }
}

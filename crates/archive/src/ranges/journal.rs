//! The journal of ranges: what does not follow from the catalog. When a range began and was complete, what its
//! verification found, why it failed. Everything else follows from what is named.
//!
//! ```text
//! ranges? first varint | size varint
//! records varint | per range: id varint | created? | started? | completed? | verified? | failure?
//! segments varint | per segment of the catalog, in its order: keys?
//! verified: run bytes | first block varint | blocks varint | hashes varint
//! failure: phase u8 | object bytes | cause bytes | at?
//! ```
//! Times are varints; a question mark is one byte, 0 absent or 1 present.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronolith_model::BlockRange;

use super::geometry::{FailedPhase, Geometry, RangeFailure};
use super::status::RangeStatus;
use super::tx_counts::TxCounts;
use crate::format::wire::{Put, Reader};
use crate::format::{Damage, Decoded};
use crate::state::catalog::SegmentEntry;

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Verified {
    /// The run in which every hash was found. A range with another run is verified again.
    pub(crate) run: String,
    /// The blocks whose hashes were looked up.
    pub(crate) blocks: BlockRange,
    /// How many hashes of transactions these were.
    pub(crate) keys: u64,
}

/// What is recorded of one range.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RangeRecord {
    pub(crate) created_at: Option<u64>,
    pub(crate) started_at: Option<u64>,
    pub(crate) completed_at: Option<u64>,
    pub(crate) verified: Option<Verified>,
    pub(crate) failure: Option<RangeFailure>,
}

/// The journal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Journal {
    /// How ranges were counted when the first of them began.
    pub(crate) geometry: Option<Geometry>,
    pub(crate) records: BTreeMap<u64, RangeRecord>,
}

/// A change that an edit brings to the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The transactions of a segment were counted.
    Counted {
        segment: String,
        keys: TxCounts,
    },
    Verified {
        id: u64,
        verified: Verified,
    },
    Failed {
        id: u64,
        failure: RangeFailure,
    },
    /// An operator wants the transition tried again.
    Retried {
        id: u64,
    },
}

impl Journal {
    /// Records an entry. Without the object that it is about it has no effect.
    pub(crate) fn apply(&mut self, entry: &Entry, segments: &mut [Arc<SegmentEntry>]) {
        match entry {
            Entry::Counted { segment, keys } => {
                let of_it = |entry: &&mut Arc<SegmentEntry>| entry.object.name == *segment;
                if let Some(entry) = segments.iter_mut().find(of_it) {
                    Arc::make_mut(entry).keys = Some(*keys);
                }
            }
            Entry::Verified { id, verified } => {
                self.records.entry(*id).or_default().verified = Some(verified.clone());
            }
            Entry::Failed { id, failure } => {
                self.records.entry(*id).or_default().failure = Some(failure.clone());
            }
            Entry::Retried { id } => {
                if let Some(record) = self.records.get_mut(id) {
                    record.failure = None;
                }
            }
        }
    }

    /// Brings the journal in line with what is there now. `now` is 0 where the time is unknown, and
    /// `begun` says which ranges had blocks before, so that it is unknown when they began.
    pub(crate) fn settle(
        &mut self,
        statuses: &[RangeStatus],
        geometry: Geometry,
        begun: impl Fn(u64) -> bool,
        now: u64,
    ) {
        let now = Some(now).filter(|&now| now > 0);
        if !statuses.is_empty() {
            self.geometry.get_or_insert(geometry);
        }
        let there = |id: &u64| statuses.binary_search_by_key(id, |one| one.id).is_ok();
        self.records.retain(|id, _| there(id));
        for status in statuses {
            let id = status.id;
            let fresh = || RangeRecord {
                created_at: now.filter(|_| !begun(id)),
                ..RangeRecord::default()
            };
            let record = self.records.entry(id).or_insert_with(fresh);
            if !status.closed {
                // Blocks are missing, perhaps again: what was recorded of all of them is void.
                let created_at = record.created_at;
                *record = RangeRecord {
                    created_at,
                    ..RangeRecord::default()
                };
                continue;
            }
            if !status.verified {
                record.verified = None;
            }
            if status.is_complete() {
                (record.started_at, record.failure) = (None, None);
                record.completed_at = record.completed_at.or(now);
            } else {
                record.completed_at = None;
                record.started_at = record.started_at.or(now);
            }
        }
    }

    pub(crate) fn encode(&self, segments: &[Arc<SegmentEntry>]) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_option(self.geometry.as_ref(), |geometry, out| {
            out.put_varint(geometry.first);
            out.put_varint(geometry.size);
        });
        out.put_varint(self.records.len() as u64);
        for (id, record) in &self.records {
            out.put_varint(*id);
            record.encode(&mut out);
        }
        out.put_list(segments, |entry, out| {
            out.put_option(entry.keys.as_ref(), TxCounts::encode);
        });
        out
    }

    /// The journal, and the counts of each segment in the order of the catalog.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<(Self, Vec<Option<TxCounts>>)> {
        let mut reader = Reader::new(bytes);
        let geometry = reader.option(|reader| {
            Ok(Geometry {
                first: reader.varint()?,
                size: reader.varint()?,
            })
        })?;
        let records = reader.list(6, |reader| {
            Ok((reader.varint()?, RangeRecord::decode(reader)?))
        })?;
        let records = records.into_iter().collect();
        let keys = reader.list(1, |reader| reader.option(TxCounts::decode))?;
        reader.finish()?;
        Ok((Self { geometry, records }, keys))
    }
}

impl RangeRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        for time in [self.created_at, self.started_at, self.completed_at] {
            put_time(time, out);
        }
        out.put_option(self.verified.as_ref(), |verified, out| {
            out.put_bytes(verified.run.as_bytes());
            out.put_range(&verified.blocks);
            out.put_varint(verified.keys);
        });
        out.put_option(self.failure.as_ref(), |failure, out| {
            out.put_u8(failure.phase as u8);
            out.put_bytes(failure.object.as_bytes());
            out.put_bytes(failure.cause.as_bytes());
            put_time(failure.at, out);
        });
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            created_at: time(reader)?,
            started_at: time(reader)?,
            completed_at: time(reader)?,
            verified: reader.option(|reader| {
                Ok(Verified {
                    run: reader.text()?,
                    blocks: reader.range()?,
                    keys: reader.varint()?,
                })
            })?,
            failure: reader.option(|reader| {
                let phase = FailedPhase::from_u8(reader.u8()?);
                Ok(RangeFailure {
                    phase: phase.ok_or(Damage("unknown phase"))?,
                    object: reader.text()?,
                    cause: reader.text()?,
                    at: time(reader)?,
                })
            })?,
        })
    }
}

fn put_time(time: Option<u64>, out: &mut Vec<u8>) {
    out.put_option(time.as_ref(), |&time, out| out.put_varint(time));
}

fn time(reader: &mut Reader<'_>) -> Decoded<Option<u64>> {
    reader.option(|reader| reader.varint())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn sample() -> Journal {
        let failure = RangeFailure {
            phase: FailedPhase::BuildingIndex,
            object: "run/x".into(),
            cause: "damaged".into(),
            at: Some(12),
        };
        let complete = RangeRecord {
            created_at: Some(3),
            completed_at: Some(9),
            verified: Some(Verified {
                run: "run/y".into(),
                blocks: BlockRange::new(2, 42),
                keys: 300,
            }),
            ..RangeRecord::default()
        };
        let failed = RangeRecord {
            started_at: Some(7),
            failure: Some(failure),
            ..RangeRecord::default()
        };
        Journal {
            geometry: Some(Geometry { first: 2, size: 40 }),
            records: BTreeMap::from([(0, complete), (7, failed)]),
        }
    }

    fn status(id: u64, closed: bool) -> RangeStatus {
        RangeStatus {
            closed,
            ..RangeStatus::empty(id, BlockRange::new(id * 40, id * 40 + 40))
        }
    }

    #[test]
    fn journals_round_trip() {
        let bytes = sample().encode(&[]);
        assert_eq!(Journal::decode(&bytes), Ok((sample(), Vec::new())));
    }

    #[test]
    fn times_are_written_down_once_and_only_where_they_are_known() {
        let geometry = Geometry { first: 0, size: 40 };
        let mut journal = Journal::default();
        let settle = |journal: &mut Journal, all: &[RangeStatus], now| {
            journal.settle(all, geometry, |id| id == 5, now);
        };
        settle(&mut journal, &[status(4, false), status(5, false)], 100);
        settle(&mut journal, &[status(4, false), status(5, false)], 101);
        assert_eq!(journal.records[&4].created_at, Some(100));
        assert_eq!(journal.records[&5].created_at, None, "it began before");
        settle(&mut journal, &[status(4, true), status(6, false)], 0);
        assert_eq!(
            journal.records[&4].started_at, None,
            "nobody knows the time"
        );
        assert!(!journal.records.contains_key(&5), "its blocks are gone");
        settle(&mut journal, &[status(4, true)], 103);
        assert_eq!(journal.records[&4].started_at, Some(103));
        settle(&mut journal, &[status(4, false)], 104);
        assert_eq!(
            journal.records[&4].started_at, None,
            "blocks were taken back"
        );
        assert_eq!(journal.records[&4].created_at, Some(100));
        assert_eq!(journal.geometry, Some(geometry));
    }

    proptest! {
        #[test]
        fn hostile_journals_do_no_harm(bytes: Vec<u8>) {
            if let Ok((journal, keys)) = Journal::decode(&bytes) {
                prop_assert!(journal.records.len() + keys.len() <= bytes.len());
            }
        }
    }
}

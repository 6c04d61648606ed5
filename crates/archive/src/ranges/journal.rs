//! The book of ranges: what the catalog cannot tell. When a range began and was complete, what its
//! verification found, why it failed. Everything else follows from what is named.
//!
//! ```text
//! ranges? first varint | size varint
//! notes varint | per range: id varint | created? | started? | completed? | verified? | failure?
//! segments varint | per segment of the catalog, in its order: keys?
//! verified: run bytes | first block varint | blocks varint | hashes varint
//! failure: phase u8 | object bytes | cause bytes | at?
//! ```
//! Times are varints; a question mark is one byte, 0 absent or 1 present.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronolith_model::BlockRange;

use super::geometry::{FailedPhase, Geometry, RangeFailure};
use super::status::Standing;
use super::tx_counts::TxCounts;
use crate::format::wire::{Put, Reader};
use crate::format::{Damage, Decoded};
use crate::state::catalog::{SegmentEntry, decode_range, encode_range};
use crate::state::record::{option, put_option, text};

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

/// What is written down of one range.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Notes {
    pub(crate) created_at: Option<u64>,
    pub(crate) started_at: Option<u64>,
    pub(crate) completed_at: Option<u64>,
    pub(crate) verified: Option<Verified>,
    pub(crate) failure: Option<RangeFailure>,
}

/// The book.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Book {
    /// How ranges were counted when the first of them began.
    pub(crate) geometry: Option<Geometry>,
    pub(crate) notes: BTreeMap<u64, Notes>,
}

/// A change that an edit brings to the book.
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

impl Book {
    /// Writes an entry down. What it is about may be gone: then it means nothing.
    pub(crate) fn enter(&mut self, entry: &Entry, segments: &mut [Arc<SegmentEntry>]) {
        match entry {
            Entry::Counted { segment, keys } => {
                let of_it = |entry: &&mut Arc<SegmentEntry>| entry.object.name == *segment;
                if let Some(entry) = segments.iter_mut().find(of_it) {
                    Arc::make_mut(entry).keys = Some(*keys);
                }
            }
            Entry::Verified { id, verified } => {
                self.notes.entry(*id).or_default().verified = Some(verified.clone());
            }
            Entry::Failed { id, failure } => {
                self.notes.entry(*id).or_default().failure = Some(failure.clone());
            }
            Entry::Retried { id } => {
                let notes = self.notes.get_mut(id);
                notes.into_iter().for_each(|notes| notes.failure = None);
            }
        }
    }

    /// Brings the book in line with what is there now. `now` is 0 where nobody knows the time, and
    /// `begun` says which ranges had blocks before, so that nobody knows when they began.
    pub(crate) fn settle(
        &mut self,
        standings: &[Standing],
        geometry: Geometry,
        begun: impl Fn(u64) -> bool,
        now: u64,
    ) {
        let now = Some(now).filter(|&now| now > 0);
        if !standings.is_empty() {
            self.geometry.get_or_insert(geometry);
        }
        let there = |id: &u64| standings.binary_search_by_key(id, |one| one.id).is_ok();
        self.notes.retain(|id, _| there(id));
        for standing in standings {
            let id = standing.id;
            let fresh = || Notes {
                created_at: now.filter(|_| !begun(id)),
                ..Notes::default()
            };
            let notes = self.notes.entry(id).or_insert_with(fresh);
            if !standing.closed {
                // Blocks are missing, perhaps again: what was said of all of them is void.
                let created_at = notes.created_at;
                *notes = Notes {
                    created_at,
                    ..Notes::default()
                };
                continue;
            }
            if !standing.verified {
                notes.verified = None;
            }
            if standing.is_complete() {
                (notes.started_at, notes.failure) = (None, None);
                notes.completed_at = notes.completed_at.or(now);
            } else {
                notes.completed_at = None;
                notes.started_at = notes.started_at.or(now);
            }
        }
    }

    pub(crate) fn encode(&self, segments: &[Arc<SegmentEntry>]) -> Vec<u8> {
        let mut out = Vec::new();
        put_option(self.geometry.as_ref(), &mut out, |geometry, out| {
            out.put_varint(geometry.first);
            out.put_varint(geometry.size);
        });
        out.put_varint(self.notes.len() as u64);
        for (id, notes) in &self.notes {
            out.put_varint(*id);
            notes.encode(&mut out);
        }
        out.put_varint(segments.len() as u64);
        for entry in segments {
            put_option(entry.keys.as_ref(), &mut out, TxCounts::encode);
        }
        out
    }

    /// The book, and the counts of each segment in the order of the catalog.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<(Self, Vec<Option<TxCounts>>)> {
        let mut reader = Reader::new(bytes);
        let geometry = option(&mut reader, |reader| {
            Ok(Geometry {
                first: reader.varint()?,
                size: reader.varint()?,
            })
        })?;
        let count = reader.count(6)?;
        let mut notes = BTreeMap::new();
        for _ in 0..count {
            let id = reader.varint()?;
            notes.insert(id, Notes::decode(&mut reader)?);
        }
        let count = reader.count(1)?;
        let keys = (0..count).map(|_| option(&mut reader, TxCounts::decode));
        let keys = keys.collect::<Decoded<Vec<_>>>()?;
        reader.finish()?;
        Ok((Self { geometry, notes }, keys))
    }
}

impl Notes {
    fn encode(&self, out: &mut Vec<u8>) {
        for time in [self.created_at, self.started_at, self.completed_at] {
            put_time(time, out);
        }
        put_option(self.verified.as_ref(), out, |verified, out| {
            out.put_bytes(verified.run.as_bytes());
            encode_range(&verified.blocks, out);
            out.put_varint(verified.keys);
        });
        put_option(self.failure.as_ref(), out, |failure, out| {
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
            verified: option(reader, |reader| {
                Ok(Verified {
                    run: text(reader)?,
                    blocks: decode_range(reader)?,
                    keys: reader.varint()?,
                })
            })?,
            failure: option(reader, |reader| {
                let phase = FailedPhase::from_u8(reader.u8()?);
                Ok(RangeFailure {
                    phase: phase.ok_or(Damage("unknown phase"))?,
                    object: text(reader)?,
                    cause: text(reader)?,
                    at: time(reader)?,
                })
            })?,
        })
    }
}

fn put_time(time: Option<u64>, out: &mut Vec<u8>) {
    put_option(time.as_ref(), out, |&time, out| out.put_varint(time));
}

fn time(reader: &mut Reader<'_>) -> Decoded<Option<u64>> {
    option(reader, |reader| reader.varint())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn sample() -> Book {
        let failure = RangeFailure {
            phase: FailedPhase::BuildingIndex,
            object: "run/x".into(),
            cause: "damaged".into(),
            at: Some(12),
        };
        let complete = Notes {
            created_at: Some(3),
            completed_at: Some(9),
            verified: Some(Verified {
                run: "run/y".into(),
                blocks: BlockRange::new(2, 42),
                keys: 300,
            }),
            ..Notes::default()
        };
        let failed = Notes {
            started_at: Some(7),
            failure: Some(failure),
            ..Notes::default()
        };
        Book {
            geometry: Some(Geometry { first: 2, size: 40 }),
            notes: BTreeMap::from([(0, complete), (7, failed)]),
        }
    }

    fn standing(id: u64, closed: bool) -> Standing {
        Standing {
            closed,
            ..Standing::empty(id, BlockRange::new(id * 40, id * 40 + 40))
        }
    }

    #[test]
    fn books_round_trip() {
        let bytes = sample().encode(&[]);
        assert_eq!(Book::decode(&bytes), Ok((sample(), Vec::new())));
    }

    #[test]
    fn times_are_written_down_once_and_only_where_they_are_known() {
        let geometry = Geometry { first: 0, size: 40 };
        let mut book = Book::default();
        let settle = |book: &mut Book, all: &[Standing], now| {
            book.settle(all, geometry, |id| id == 5, now);
        };
        settle(&mut book, &[standing(4, false), standing(5, false)], 100);
        settle(&mut book, &[standing(4, false), standing(5, false)], 101);
        assert_eq!(book.notes[&4].created_at, Some(100));
        assert_eq!(book.notes[&5].created_at, None, "it began before");
        settle(&mut book, &[standing(4, true), standing(6, false)], 0);
        assert_eq!(book.notes[&4].started_at, None, "nobody knows the time");
        assert!(!book.notes.contains_key(&5), "its blocks are gone");
        settle(&mut book, &[standing(4, true)], 103);
        assert_eq!(book.notes[&4].started_at, Some(103));
        settle(&mut book, &[standing(4, false)], 104);
        assert_eq!(book.notes[&4].started_at, None, "blocks were taken back");
        assert_eq!(book.notes[&4].created_at, Some(100));
        assert_eq!(book.geometry, Some(geometry));
    }

    proptest! {
        #[test]
        fn hostile_books_do_no_harm(bytes: Vec<u8>) {
            if let Ok((book, keys)) = Book::decode(&bytes) {
                prop_assert!(book.notes.len() + keys.len() <= bytes.len());
            }
        }
    }
}

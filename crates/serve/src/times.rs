//! Times in requests and answers, and blocks by time over archive and tail.
//!
//! A block is an answer only where the block on the other side of the time is known too: the newest
//! indexed block says nothing about the blocks after it.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat};
use chronolith_archive::{Error as ArchiveError, Pinned, TimeSide};
use chronolith_model::BlockMeta;

use crate::error::not_archived;
use crate::fault::Fault;
use crate::view::View;

/// A time in a request: finer than the times of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timestamp {
    /// Whole seconds since 1970.
    pub seconds: u64,
    /// Nanoseconds after that.
    pub nanos: u32,
}

impl Timestamp {
    /// The distance to a block's time, in nanoseconds.
    fn distance(&self, timestamp: u64) -> u128 {
        const SECOND: u128 = 1_000_000_000;
        let own = u128::from(self.seconds) * SECOND + u128::from(self.nanos);
        own.abs_diff(u128::from(timestamp) * SECOND)
    }
}

/// From this number on it is milliseconds: as seconds it would be the year 5138.
const MILLISECONDS_FROM: u64 = 100_000_000_000;
/// Bytes of a time: no fraction of a second needs more.
const BYTES_MAX: usize = 64;

/// A time from seconds, milliseconds or ISO 8601, in 64 bytes. Without a zone it is UTC.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if text.len() > BYTES_MAX {
        return None;
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = text.parse().ok()?;
        return Some(match number {
            MILLISECONDS_FROM.. => Timestamp {
                seconds: number / 1_000,
                nanos: (number % 1_000) as u32 * 1_000_000,
            },
            seconds => Timestamp { seconds, nanos: 0 },
        });
    }
    let time = if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        time.to_utc()
    } else if let Ok(time) = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f") {
        time.and_utc()
    } else if let Ok(time) = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M") {
        time.and_utc()
    } else {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        date.and_hms_opt(0, 0, 0)?.and_utc()
    };
    Some(Timestamp {
        seconds: u64::try_from(time.timestamp()).ok()?,
        // A leap second counts as the end of the one before it.
        nanos: time.timestamp_subsec_nanos().min(999_999_999),
    })
}

/// Seconds since 1970 as RFC 3339.
#[must_use]
pub fn utc(seconds: u64) -> Option<String> {
    let time = DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// On which side of the time the block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Before,
    After,
    Closest,
}

impl Direction {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "before" => Some(Self::Before),
            "after" => Some(Self::After),
            "closest" => Some(Self::Closest),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Closest => "closest to",
        }
    }
}

/// The block at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockAtTime {
    pub(crate) clock: BlockMeta,
    /// Whether a block on the other side of the time is known, so that no later block changes the answer.
    pub(crate) settled: bool,
}

impl BlockAtTime {
    fn settled(clock: BlockMeta) -> Self {
        let settled = true;
        Self { clock, settled }
    }
}

/// Why no block was found.
#[derive(Debug)]
pub(crate) enum TimeLookupError {
    NotFound,
    /// It may be a block that is not indexed yet.
    NotIndexedYet,
    /// It may be a missing block, in a gap or below the first.
    NotCovered(String),
    Fault(Fault),
}

impl From<Fault> for TimeLookupError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Archive(ArchiveError::NotCovered { missing, covered }) => {
                Self::NotCovered(not_archived(missing, covered))
            }
            other => Self::Fault(other),
        }
    }
}

impl View<'_> {
    /// The block at a time. Blocks have whole seconds: for a time between two, inclusive changes nothing.
    pub(crate) async fn at(
        &self,
        time: Timestamp,
        direction: Direction,
        inclusive: bool,
    ) -> Result<BlockAtTime, TimeLookupError> {
        let (seconds, is_between) = (time.seconds, time.nanos > 0);
        match direction {
            Direction::Before => {
                let back = u64::from(!inclusive && !is_between);
                match seconds.checked_sub(back) {
                    Some(last) => self.last_through(last).await,
                    None => Err(TimeLookupError::NotFound),
                }
            }
            Direction::After => {
                let on = u64::from(!inclusive || is_between);
                match seconds.checked_add(on) {
                    Some(first) => self.first_from(first).await,
                    None => Err(TimeLookupError::NotFound),
                }
            }
            Direction::Closest => self.closest(time).await,
        }
    }

    /// The last block before the first one whose time is after this one. Where times do not fall, it is
    /// the last block whose time is not after this one; where they do, later blocks change nothing.
    async fn last_through(&self, time: u64) -> Result<BlockAtTime, TimeLookupError> {
        let archive = self.archive.as_ref();
        let archived = archive.and_then(|archive| Some((archive, archive.head()?)));
        if let Some((archive, _)) = archived
            && archive
                .latest_timestamp()
                .is_some_and(|latest| latest > time)
        {
            return found(archive, time, TimeSide::AtOrBefore).await;
        }
        let above = self.tail.blocks_in(self.tail_range());
        match before_first_after(above.map(|block| block.clock), time) {
            None => self.newest().await,
            Some(Some(before)) => Ok(BlockAtTime::settled(before)),
            // The block after it is the tail's first, and it is later.
            Some(None) => match archived {
                Some((_, head)) => {
                    let clock = self.clock(head.number).await?;
                    clock
                        .map(BlockAtTime::settled)
                        .ok_or(TimeLookupError::NotIndexedYet)
                }
                None => Err(self.below_tail()),
            },
        }
    }

    /// The first block whose time is not before this one.
    async fn first_from(&self, time: u64) -> Result<BlockAtTime, TimeLookupError> {
        let archived = self
            .archive
            .as_ref()
            .filter(|archive| archive.head().is_some());
        let archived = archived.and_then(Pinned::latest_timestamp);
        if let Some(archive) = &self.archive
            && archived.is_some_and(|latest| latest >= time)
        {
            return found(archive, time, TimeSide::AtOrAfter).await;
        }
        let mut above = self.tail.blocks_in(self.tail_range());
        match above.find(|block| block.clock.timestamp >= time) {
            // Without an archive, blocks below the first may be the answer.
            Some(block) if archived.is_none() && Some(block.clock.number) == self.first() => {
                match block.clock.number {
                    0 => Ok(BlockAtTime::settled(block.clock)),
                    _ => Err(self.below_tail()),
                }
            }
            Some(block) => Ok(BlockAtTime::settled(block.clock)),
            None if self.is_at_source_head() => Err(TimeLookupError::NotFound),
            None => Err(TimeLookupError::NotIndexedYet),
        }
    }

    /// The nearest block; of several that are equally near, the earliest.
    async fn closest(&self, time: Timestamp) -> Result<BlockAtTime, TimeLookupError> {
        let before = match self.last_through(time.seconds).await {
            // The first of the blocks with that time.
            Ok(found) => {
                let first = self.first_from(found.clock.timestamp).await?;
                Some(BlockAtTime {
                    clock: first.clock,
                    settled: found.settled,
                })
            }
            Err(TimeLookupError::NotFound) => None,
            Err(other) => return Err(other),
        };
        let is_it =
            |found: &BlockAtTime| !found.settled || time.distance(found.clock.timestamp) == 0;
        if let Some(found) = before.filter(is_it) {
            return Ok(found);
        }
        let after = self.first_from(time.seconds).await;
        match (before, after) {
            (Some(before), Ok(after)) => {
                let (one, other) = (before.clock.timestamp, after.clock.timestamp);
                let is_nearer = time.distance(other) < time.distance(one);
                Ok(if is_nearer { after } else { before })
            }
            (Some(before), Err(TimeLookupError::NotFound)) => Ok(before),
            (_, after) => after,
        }
    }

    /// The newest block, for a time that is not before it: an answer only where the source has no newer
    /// block.
    async fn newest(&self) -> Result<BlockAtTime, TimeLookupError> {
        let head = self.head().ok_or(TimeLookupError::NotIndexedYet)?;
        if !self.is_at_source_head() {
            return Err(TimeLookupError::NotIndexedYet);
        }
        let clock = self
            .clock(head.number)
            .await?
            .ok_or(TimeLookupError::NotIndexedYet)?;
        Ok(BlockAtTime {
            clock,
            settled: false,
        })
    }

    /// The time is before the tail's first block, and there is no archive.
    fn below_tail(&self) -> TimeLookupError {
        match self.first() {
            Some(first) if first <= self.chain.first_block() => TimeLookupError::NotFound,
            Some(first) => {
                TimeLookupError::NotCovered(format!("blocks below {first} are not indexed"))
            }
            None => TimeLookupError::NotIndexedYet,
        }
    }
}

/// Of blocks in order, the one before the first that is after a time. The outer option is none where no
/// block is after it, the inner one where the first block is.
fn before_first_after(
    clocks: impl Iterator<Item = BlockMeta>,
    time: u64,
) -> Option<Option<BlockMeta>> {
    let mut before = None;
    for clock in clocks {
        if clock.timestamp > time {
            return Some(before);
        }
        before = Some(clock);
    }
    None
}

async fn found(
    archive: &Pinned,
    time: u64,
    side: TimeSide,
) -> Result<BlockAtTime, TimeLookupError> {
    let clock = archive.block_at(time, side).await.map_err(Fault::from)?;
    clock
        .map(BlockAtTime::settled)
        .ok_or(TimeLookupError::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_model::Hash32;

    /// Blocks that are not final yet were searched from the newest one down: one with an earlier time than
    /// its parent was the answer to times that the chain had passed long before, and marked as settled.
    #[test]
    fn blocks_with_earlier_times_change_no_answer() {
        let clock = |(number, timestamp)| BlockMeta {
            number,
            hash: Hash32::ZERO,
            parent_hash: Hash32::ZERO,
            timestamp,
        };
        let times = [10, 12, 14, 11, 16, 15, 15, 20];
        for (time, expected) in [
            (9, Some(None)),
            (10, Some(Some(0))),
            (11, Some(Some(0))),
            (12, Some(Some(1))),
            (13, Some(Some(1))),
            (14, Some(Some(3))),
            (15, Some(Some(3))),
            (16, Some(Some(6))),
            (19, Some(Some(6))),
            (20, None),
        ] {
            let found = before_first_after((0..).zip(times).map(clock), time);
            let found = found.map(|before| before.map(|before| before.number));
            assert_eq!(found, expected, "{time}");
        }
    }

    #[test]
    fn times_are_parsed_in_every_spelling() {
        let whole = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let part = |seconds, nanos| Some(Timestamp { seconds, nanos });
        for (text, expected) in [
            ("0", whole(0)),
            ("1700000000", whole(1_700_000_000)),
            ("1700000000000", whole(1_700_000_000)),
            ("1700000000123", part(1_700_000_000, 123_000_000)),
            ("99999999999", whole(99_999_999_999)),
            ("100000000000", whole(100_000_000)),
            ("2023-11-14T22:13:20Z", whole(1_700_000_000)),
            ("2023-11-14T22:13:20.999Z", part(1_700_000_000, 999_000_000)),
            ("2023-11-14T23:13:20+01:00", whole(1_700_000_000)),
            ("2023-11-14T22:13:20", whole(1_700_000_000)),
            ("2023-11-14T22:13", whole(1_699_999_980)),
            ("2023-11-14", whole(1_699_920_000)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("abc", None),
            ("1969-12-31T23:59:59Z", None),
            ("2023-02-30", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}

//! From bytes to [`Decoded`], or to the byte where they are wrong.
//!
//! ```text
//! calldata = 0x01 | header | count (4) | feed * count | row, until the end
//! header   = block number (8), or source accumulator (32) | destination accumulator (32)
//! feed     = stride (1) | X (1) | feed index (X) | Y (1) | length (Y) | data (length)
//! row      = X (1) | table index (X) | sixteen lanes of 2 bytes
//! ```
//!
//! What the contract takes is taken, and means the same. Where it reads zeros after the end, calldata is
//! refused instead. The size is checked before anything is read, and the count before room is made for it.

use std::collections::HashMap;

use alloy_primitives::U256;
use bytes::Bytes;

use crate::address::{self, LANES, RB_INDEX_MAX, STRIDE_MAX, TABLE_INDEX_BITS};
use crate::decoded::{Decoded, Disagreement, Feed, Header, HighLane, RingRow};
use crate::fault::{Cause, Fault};

/// The selector of the call that updates feeds.
pub(crate) const UPDATE: u8 = 0x01;
/// The contract reads the head of a feed, and of a row, as one word.
const WORD: usize = 32;
/// Bytes of the smallest feed: one byte of index and none of data.
const FEED_BYTES_MIN: usize = 4;

/// How calldata of one version of the contract is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// What comes first.
    pub header: HeaderForm,
    /// What is done about lanes outside of the ring.
    pub lanes: LanePolicy,
    pub limits: Limits,
}

/// What comes first in calldata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderForm {
    /// A block number (`hasBlockNumber`).
    BlockNumber,
    /// Two accumulators.
    Accumulators,
}

/// What is done about lanes above 8191.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LanePolicy {
    /// The calldata is refused.
    #[default]
    Reject,
    /// They are cut to 13 bits, as newer contracts do, and recorded.
    Mask,
}

/// What is refused unread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most feeds.
    pub feeds_max: u32,
    /// Most bytes of calldata.
    pub calldata_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            feeds_max: 10_000,
            calldata_bytes_max: 128 << 10,
        }
    }
}

impl LanePolicy {
    /// As settings name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Mask => "mask",
        }
    }
}

impl HeaderForm {
    /// The fields that such calldata has beside feeds and rows.
    #[must_use]
    pub const fn extra_fields(self) -> &'static [&'static str] {
        match self {
            Self::BlockNumber => &[],
            Self::Accumulators => &["sourceAccumulator", "destinationAccumulator"],
        }
    }
}

impl Profile {
    /// A profile with the usual limits, which refuses lanes outside of the ring.
    #[must_use]
    pub fn new(header: HeaderForm) -> Self {
        Self {
            header,
            lanes: LanePolicy::default(),
            limits: Limits::default(),
        }
    }
}

/// Decodes calldata.
///
/// # Errors
///
/// A [`Fault`] that names the byte, where a limit is passed or the bytes are not what the contract reads.
pub fn decode(calldata: &[u8], profile: &Profile) -> Result<Decoded, Fault> {
    let limit = profile.limits.calldata_bytes_max;
    let found = calldata.len();
    if found > limit {
        return Err(Cause::TooLarge { found, limit }.at(limit));
    }
    let whole = Bytes::copy_from_slice(calldata);
    let mut reader = Reader::new(&whole);
    let header = header(&mut reader, profile.header)?;
    let count = count(&mut reader, profile.limits.feeds_max)?;
    let mut feeds = Vec::with_capacity(count as usize);
    for position in 0..count {
        feeds.push(feed(&mut reader, position)?);
    }
    let mut rows = Vec::new();
    let mut high_lanes = Vec::new();
    while !reader.rest.is_empty() {
        let row = row(&mut reader, rows.len() as u32, profile.lanes)?;
        note_high_lanes(&row, &mut high_lanes);
        rows.push(row);
    }
    set_table_lanes(&mut feeds, &rows);
    let mut decoded = Decoded {
        header,
        feeds,
        rows,
        high_lanes,
        disagreements: Vec::new(),
    };
    decoded.disagreements = disagreements(&decoded);
    Ok(decoded)
}

/// The block number of calldata of which nothing else need be right.
#[must_use]
pub fn block_number(calldata: &[u8], form: HeaderForm) -> Option<u64> {
    let (selector, rest) = calldata.split_first()?;
    if *selector != UPDATE || form != HeaderForm::BlockNumber {
        return None;
    }
    rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

fn header(reader: &mut Reader<'_>, form: HeaderForm) -> Result<Header, Fault> {
    let [found] = *reader.array("the selector")?;
    if found != UPDATE {
        return Err(Cause::Selector { found }.at(0));
    }
    Ok(match form {
        HeaderForm::BlockNumber => {
            let number = reader.array("the block number")?;
            Header::BlockNumber(u64::from_be_bytes(*number))
        }
        HeaderForm::Accumulators => Header::Accumulators {
            source: *reader.array("the source accumulator")?,
            destination: *reader.array("the destination accumulator")?,
        },
    })
}

fn count(reader: &mut Reader<'_>, limit: u32) -> Result<u32, Fault> {
    let offset = reader.offset();
    let found = u32::from_be_bytes(*reader.array("the number of feeds")?);
    if found > limit {
        return Err(Cause::TooManyFeeds { found, limit }.at(offset));
    }
    let left = reader.rest.len();
    if found as usize > left / FEED_BYTES_MIN {
        return Err(Cause::FeedsBeyondEnd { found, left }.at(offset));
    }
    Ok(found)
}

fn feed(reader: &mut Reader<'_>, position: u32) -> Result<Feed, Fault> {
    let offset = reader.offset();
    let [stride] = *reader.array("the stride of a feed")?;
    if stride > STRIDE_MAX {
        return Err(Cause::Stride { found: stride }.at(offset));
    }
    let feed_index = reader.number("the index of a feed", offset)?;
    let data_len = reader.number("the length of a feed", offset)?;
    // A length has at most 29 bytes, so this does not overflow.
    let slots = (data_len + U256::from(WORD - 1)) >> WORD.ilog2() as usize;
    let Some(place) = address::place(feed_index, stride, slots) else {
        return Err(Cause::OutsideStride { stride }.at(offset));
    };
    let data_len = usize::try_from(data_len).unwrap_or(usize::MAX);
    let data = reader.bytes(data_len, "the data of a feed")?;
    let group_bytes = (WORD as u64) << stride;
    let end = u64::from(place.slot_offset) * WORD as u64 + data.len() as u64;
    Ok(Feed {
        position,
        offset,
        stride,
        feed_index,
        feed_id: place.feed_id,
        rb_index: place.rb_index,
        slot_offset: place.slot_offset,
        table_lane: None,
        spill: end > group_bytes,
        data: reader.whole.slice_ref(data),
    })
}

fn row(reader: &mut Reader<'_>, position: u32, policy: LanePolicy) -> Result<RingRow, Fault> {
    let offset = reader.offset();
    let index = reader.number("the index of a row", offset)?;
    if index.bit_len() > TABLE_INDEX_BITS as usize {
        return Err(Cause::TableIndex.at(offset));
    }
    let lanes_offset = reader.offset();
    let data: [u8; WORD] = *reader.array("the lanes of a row")?;
    let mut lanes = raw_lanes(&data);
    let high = lanes.iter().position(|value| *value > RB_INDEX_MAX);
    if let (LanePolicy::Reject, Some(lane)) = (policy, high) {
        let value = lanes.get(lane).copied().unwrap_or_default();
        return Err(Cause::Lane { lane, value }.at(lanes_offset + 2 * lane));
    }
    for lane in &mut lanes {
        *lane &= RB_INDEX_MAX;
    }
    Ok(RingRow {
        position,
        offset,
        table_index: index.wrapping_to(),
        data,
        lanes,
    })
}

fn raw_lanes(data: &[u8; WORD]) -> [u16; LANES] {
    let mut lanes = [0; LANES];
    let (pairs, _) = data.as_chunks::<2>();
    for (lane, pair) in lanes.iter_mut().zip(pairs) {
        *lane = u16::from_be_bytes(*pair);
    }
    lanes
}

fn note_high_lanes(row: &RingRow, noted: &mut Vec<HighLane>) {
    let values = raw_lanes(&row.data).into_iter().zip(0_u8..);
    let high = values.filter(|(value, _)| *value > RB_INDEX_MAX);
    noted.extend(high.map(|(value, lane)| HighLane {
        row: row.position,
        lane,
        value,
    }));
}

/// Sets the lane of each feed in the table afterwards: of a row that is there twice, the last counts.
fn set_table_lanes(feeds: &mut [Feed], rows: &[RingRow]) {
    let by_index: HashMap<u128, &RingRow> = rows.iter().map(|row| (row.table_index, row)).collect();
    for feed in feeds {
        let index = address::compute_table_index(feed.feed_id, feed.stride);
        let row = by_index.get(&index);
        feed.table_lane = row.and_then(|row| row.lanes.get(address::lane(feed.feed_id)).copied());
    }
}

/// Only the last value of a feed counts: the table has room for no other.
fn disagreements(decoded: &Decoded) -> Vec<Disagreement> {
    let newest = decoded.newest_feeds().into_iter();
    let lanes = newest.filter_map(|feed| Some((feed, feed.table_lane?)));
    let apart = lanes.filter(|(feed, lane)| feed.rb_index != *lane);
    let disagreement = |(feed, table_lane): (&Feed, u16)| Disagreement {
        feed: feed.position,
        rb_index: feed.rb_index,
        table_lane,
    };
    apart.map(disagreement).collect()
}

/// What was not read yet.
struct Reader<'a> {
    whole: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(whole: &'a Bytes) -> Self {
        Self { whole, rest: whole }
    }

    fn offset(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    fn truncated(&self, need: usize, what: &'static str) -> Fault {
        let left = self.rest.len();
        Cause::Truncated { what, need, left }.at(self.offset())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<&'a [u8; N], Fault> {
        let Some((array, rest)) = self.rest.split_first_chunk() else {
            return Err(self.truncated(N, what));
        };
        self.rest = rest;
        Ok(array)
    }

    fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Fault> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.truncated(count, what));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// A number after its length. No bytes are 0, as on the chain. It must end in the word that begins at
    /// the byte `word`: the contract reads no further.
    fn number(&mut self, what: &'static str, word: usize) -> Result<U256, Fault> {
        let offset = self.offset();
        let [length] = *self.array(what)?;
        let bytes = offset + 1 + usize::from(length) - word;
        if bytes > WORD {
            return Err(Cause::HeadTooLong { bytes }.at(offset));
        }
        let digits = self.bytes(usize::from(length), what)?;
        // More than a word would be outside of every range; the line above lets none through.
        Ok(U256::try_from_be_slice(digits).unwrap_or(U256::MAX))
    }
}

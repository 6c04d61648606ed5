//! What calldata says, once it is decoded.

use std::collections::HashSet;
use std::hash::Hash;

use alloy_primitives::U256;
use bytes::Bytes;

use crate::address::{self, LANES};
use crate::calldata::HeaderForm;

/// Calldata of one update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// What comes first.
    pub header: Header,
    /// New values, in the order of the calldata.
    pub feeds: Vec<Feed>,
    /// New rows of the table of newest indexes, in the order of the calldata.
    pub rows: Vec<RingRow>,
    /// Lanes above 8191 that were cut to 13 bits.
    pub high_lanes: Vec<HighLane>,
    /// Feeds whose value was put elsewhere than the table says afterwards.
    pub disagreements: Vec<Disagreement>,
}

/// What comes first in calldata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Header {
    /// The oracle's own counter, not the number of a block of the chain.
    BlockNumber(u64),
    /// The two accumulators that later versions have instead.
    Accumulators {
        /// Before the update.
        source: [u8; 32],
        /// After it.
        destination: [u8; 32],
    },
}

/// A new value of one feed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feed {
    /// Which of the feeds of the calldata it is, from 0. The later one is the newer one.
    pub position: u32,
    /// Where it begins in the calldata.
    pub offset: usize,
    /// Its value may take 2^stride slots.
    pub stride: u8,
    /// As it is in the calldata; up to 160 bits.
    pub feed_index: U256,
    /// Which feed, below 2^115.
    pub feed_id: u128,
    /// Where in the ring of the feed the value is. It comes from the feed index, which is what the
    /// contract goes by.
    pub rb_index: u16,
    /// From which slot of its group on it was written; 0 but for a part of a value.
    pub slot_offset: u32,
    /// What the table says of the feed after this calldata; `None` where the calldata has no such row.
    pub table_lane: Option<u16>,
    /// The value reaches into the next group of slots.
    pub spill: bool,
    pub data: Bytes,
}

/// A new row of the table of newest indexes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingRow {
    /// Which of the rows of the calldata it is, from 0.
    pub position: u32,
    /// Where it begins in the calldata.
    pub offset: usize,
    /// Which row, below 2^116.
    pub table_index: u128,
    /// As it is in the calldata.
    pub data: [u8; 32],
    /// The newest indexes of sixteen feeds in a row, each below 8192.
    pub lanes: [u16; LANES],
}

/// A lane that was cut to 13 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HighLane {
    pub row: u32,
    /// Which of the sixteen.
    pub lane: u8,
    /// What the calldata says.
    pub value: u16,
}

/// A feed whose value was put elsewhere than the table says afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disagreement {
    pub feed: u32,
    /// Where the value is.
    pub rb_index: u16,
    /// Where the table says it is.
    pub table_lane: u16,
}

impl Header {
    /// Which of the two it is.
    #[must_use]
    pub const fn form(&self) -> HeaderForm {
        match self {
            Self::BlockNumber(_) => HeaderForm::BlockNumber,
            Self::Accumulators { .. } => HeaderForm::Accumulators,
        }
    }
}

impl RingRow {
    /// The stride of its feeds.
    #[must_use]
    pub fn stride(&self) -> u8 {
        address::row(self.table_index).0
    }

    /// The first of its sixteen feeds.
    #[must_use]
    pub fn feed_id_base(&self) -> u128 {
        address::row(self.table_index).1
    }

    /// The row as a contract that cuts lanes stores it.
    #[must_use]
    pub fn stored(&self) -> [u8; 32] {
        let mut stored = [0; 32];
        let (pairs, _) = stored.as_chunks_mut::<2>();
        for (pair, lane) in pairs.iter_mut().zip(self.lanes) {
            *pair = lane.to_be_bytes();
        }
        stored
    }
}

impl Decoded {
    /// Feeds as rows with a key: of those with the same feed, stride and ring index the last, as on the
    /// chain. In the order of the calldata. Two parts of one value, written from different slots on, have
    /// the same key too.
    #[must_use]
    pub fn distinct_feeds(&self) -> Vec<&Feed> {
        last_of_each(&self.feeds, |feed| {
            (address::number(feed.feed_id, feed.stride), feed.rb_index)
        })
    }

    /// The newest value of each feed: the last in the calldata, since ring indexes start again after 8191.
    #[must_use]
    pub fn newest_feeds(&self) -> Vec<&Feed> {
        last_of_each(&self.feeds, |feed| {
            address::number(feed.feed_id, feed.stride)
        })
    }

    /// Rows of the table with a key: of those with the same index the last, as on the chain. In the order
    /// of the calldata.
    #[must_use]
    pub fn distinct_rows(&self) -> Vec<&RingRow> {
        last_of_each(&self.rows, |row| row.table_index)
    }
}

/// The last of all that have the same key, in the order they came in.
fn last_of_each<T, K: Eq + Hash>(all: &[T], key: impl Fn(&T) -> K) -> Vec<&T> {
    let mut seen = HashSet::with_capacity(all.len());
    let newest_first = all.iter().rev();
    let mut kept: Vec<&T> = newest_first.filter(|item| seen.insert(key(item))).collect();
    kept.reverse();
    kept
}

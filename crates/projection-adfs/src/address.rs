//! Where the contract keeps things: feeds in slots of their stride, newest indexes in rows of sixteen.
//!
//! ```text
//! feed index = ((feed id << 13) + ring index) << stride, plus a slot inside the group of 2^stride slots
//! row        = (stride * 2^115 + feed id) / 16, lane = feed id mod 16
//! ```

use alloy_primitives::U256;

/// Bits of a feed id.
pub const FEED_ID_BITS: u32 = 115;
/// Bits of an index into the ring of one feed.
pub const RB_INDEX_BITS: u32 = 13;
/// The largest index into the ring of one feed.
pub const RB_INDEX_MAX: u16 = (1 << RB_INDEX_BITS) - 1;
/// The largest stride: a value of it takes 2^31 slots.
pub const STRIDE_MAX: u8 = 31;
/// Bits of the index of a row.
pub const TABLE_INDEX_BITS: u32 = 116;
/// Feeds that share a row.
pub const LANES: usize = 16;

/// Bits of a feed id and a ring index together. A feed index has as many more as its stride says.
const UNIT_BITS: usize = (FEED_ID_BITS + RB_INDEX_BITS) as usize;

/// The row with the newest ring index of a feed. Ids have 115 bits, strides go to 31; the result for
/// others is undefined.
#[must_use]
pub fn compute_table_index(feed_id: u128, stride: u8) -> u128 {
    number(feed_id, stride) / LANES as u128
}

/// A number as the database keeps it: sixteen bytes, the most significant first.
#[must_use]
pub const fn to_bytes16(value: u128) -> [u8; 16] {
    value.to_be_bytes()
}

/// One number for feed and stride. Sixteen in a row share a table row.
pub(crate) fn number(feed_id: u128, stride: u8) -> u128 {
    (u128::from(stride) << FEED_ID_BITS).saturating_add(feed_id)
}

/// The lane of a feed in its row.
pub(crate) fn lane(feed_id: u128) -> usize {
    (feed_id % LANES as u128) as usize
}

/// Stride and first feed of a row.
pub(crate) fn row(table_index: u128) -> (u8, u128) {
    let first = table_index.wrapping_mul(LANES as u128);
    let stride = (first >> FEED_ID_BITS) as u8;
    (stride, first & ((1 << FEED_ID_BITS) - 1))
}

/// What a feed index says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) feed_id: u128,
    pub(crate) rb_index: u16,
    pub(crate) slot_offset: u32,
}

/// Takes a feed index apart; `None` where so many slots from there on are not all in the space of the
/// stride. A stride above 31 has no space.
///
/// The contract looks at the last slot alone, so nothing at index 0 is refused there as well: it would
/// end before the space begins. Nothing at the first index after the space is let through by it, writes
/// nothing, and belongs to no feed: it is refused here.
pub(crate) fn place(index: U256, stride: u8, slots: U256) -> Option<Place> {
    let space_bits = UNIT_BITS + usize::from(stride);
    let inside = index.bit_len() <= space_bits;
    let end = index.checked_add(slots)?;
    let fits = end <= U256::ONE << space_bits;
    if stride > STRIDE_MAX || !inside || !fits || end.is_zero() {
        return None;
    }
    // Below 2^128, since the index is below 2^(128 + stride).
    let unit: u128 = (index >> usize::from(stride)).wrapping_to();
    let low: u64 = index.wrapping_to();
    Some(Place {
        feed_id: unit >> RB_INDEX_BITS,
        rb_index: (unit as u16) & RB_INDEX_MAX,
        slot_offset: (low & ((1 << stride) - 1)) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u128 = (1 << FEED_ID_BITS) - 1;

    #[test]
    fn rows_of_feeds_are_those_of_the_contract() {
        for (feed_id, stride, expected) in [
            (0, 0, "00000000000000000000000000000000"),
            (15, 0, "00000000000000000000000000000000"),
            (16, 0, "00000000000000000000000000000001"),
            (4_095, 0, "000000000000000000000000000000ff"),
            (1_000_004, 0, "0000000000000000000000000000f424"),
            (0, 1, "00008000000000000000000000000000"),
            (17, 1, "00008000000000000000000000000001"),
            (0, 2, "00010000000000000000000000000000"),
            (TOP, 0, "00007fffffffffffffffffffffffffff"),
            (TOP, 31, "000fffffffffffffffffffffffffffff"),
        ] {
            let index = compute_table_index(feed_id, stride);
            let bytes = const_hex::encode(to_bytes16(index));
            assert_eq!(bytes, expected, "feed {feed_id} of stride {stride}");
            let base = feed_id / 16 * 16;
            assert_eq!(row(index), (stride, base), "back from {expected}");
        }
        // Ids and strides that do not exist give some row, and no panic.
        assert_eq!(compute_table_index(u128::MAX, u8::MAX), u128::MAX / 16);
        assert_eq!(row(u128::MAX).1, TOP - 15);
    }

    #[test]
    fn the_space_of_a_stride_ends_where_the_contract_says() {
        for stride in [0, 1, 7, 31] {
            let end = U256::ONE << (UNIT_BITS + usize::from(stride));
            let last = end - U256::ONE;
            let (none, one, two) = (U256::ZERO, U256::ONE, U256::from(2));
            let place = |index, slots| place(index, stride, slots);
            let expected = Place {
                feed_id: TOP,
                rb_index: RB_INDEX_MAX,
                slot_offset: ((1_u64 << stride) - 1) as u32,
            };
            assert_eq!(place(last, one), Some(expected), "stride {stride}");
            assert_eq!(place(last, none), Some(expected));
            assert_eq!(place(last, two), None);
            assert_eq!(place(end, none), None);
            assert_eq!(place(none, none), None);
            assert!(place(none, one).is_some());
            assert_eq!(place(one, U256::MAX), None);
            assert_eq!(place(U256::MAX, one), None);
        }
        assert_eq!(place(U256::ONE, 32, U256::ONE), None);
        assert_eq!(place(U256::ONE, u8::MAX, U256::ONE), None);
    }
}

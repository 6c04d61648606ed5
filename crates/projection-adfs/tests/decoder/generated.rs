//! Calldata that is drawn: what goes in comes out, and nothing that is broken does harm.

use chronolith_projection_adfs::{
    Cause, Decoded, Fault, Header, HeaderForm, LanePolicy, Profile, compute_table_index, decode,
};
use proptest::prelude::*;

use chronolith_sim::evm::adfs::encode::{Row, Value, accumulated, calldata, feed_index, numbered};

const FEED_IDS: u128 = 1 << 115;
const ROWS: u128 = 1 << 116;

/// Numbers below a bound, those at both ends more often than others.
fn below(bound: u128) -> impl Strategy<Value = u128> {
    prop_oneof![0..bound.min(40), bound - bound.min(3)..bound, 0..bound]
}

fn values() -> impl Strategy<Value = Value> {
    let data = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(any::<u8>(), 0..400)
    ];
    let stride = prop_oneof![Just(0_u8), Just(31), 0..=31_u8];
    let place = (stride, below(FEED_IDS), below(8_192), any::<u64>());
    (place, data, 0..6_usize).prop_map(|((stride, feed_id, ring, slot), mut data, padding)| {
        let slots = 1_u64 << stride;
        let slot_offset = if slot % 3 == 0 { slot % slots } else { 0 };
        // The end of the space, and nothing at its very beginning, are refused; both have their tests.
        if feed_id == FEED_IDS - 1 {
            data.truncate(32);
        }
        if data.is_empty() && feed_id == 0 && ring == 0 && slot_offset == 0 {
            data.push(1);
        }
        Value {
            stride,
            feed_id,
            rb_index: ring as u16,
            slot_offset: slot_offset as u32,
            data,
            padding,
        }
    })
}

fn rows() -> impl Strategy<Value = Row> {
    let lanes = proptest::array::uniform16(0..8_192_u16);
    (below(ROWS), lanes).prop_map(|(table_index, lanes)| Row { table_index, lanes })
}

/// Feeds and rows of one update, some of the rows being those of its feeds.
fn updates() -> impl Strategy<Value = (Vec<Value>, Vec<Row>)> {
    let feeds = proptest::collection::vec(values(), 0..12);
    let rows = proptest::collection::vec(rows(), 0..6);
    (feeds, rows).prop_map(|(feeds, mut rows)| {
        for (row, feed) in rows.iter_mut().zip(&feeds).step_by(2) {
            row.table_index = compute_table_index(feed.feed_id, feed.stride);
        }
        (feeds, rows)
    })
}

fn decode_numbered(bytes: &[u8]) -> Result<Decoded, Fault> {
    decode(bytes, &Profile::new(HeaderForm::BlockNumber))
}

/// What holds for everything that is let through.
fn is_sane(decoded: &Decoded, bytes: &[u8]) {
    let in_feeds: usize = decoded.feeds.iter().map(|feed| feed.data.len() + 4).sum();
    assert!(in_feeds + decoded.rows.len() * 33 <= bytes.len());
    for feed in &decoded.feeds {
        assert!(feed.stride <= 31 && feed.feed_id < FEED_IDS && feed.rb_index < 8_192);
        assert!(u64::from(feed.slot_offset) < 1 << feed.stride);
        assert_eq!(bytes[feed.offset], feed.stride);
    }
    for row in &decoded.rows {
        assert!(row.table_index < ROWS && row.stride() <= 31);
        assert!(row.lanes.iter().all(|lane| *lane < 8_192));
    }
    assert!(decoded.to_json().is_object());
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(update in updates(), number: u64, numbers: bool) {
        let (feeds, rows) = update;
        let (header, form, expected) = if numbers {
            let expected = Header::BlockNumber(number);
            (numbered(number), HeaderForm::BlockNumber, expected)
        } else {
            let [source, destination] = [[number as u8; 32], [(number >> 8) as u8; 32]];
            let expected = Header::Accumulators { source, destination };
            (accumulated(source[0], destination[0]), HeaderForm::Accumulators, expected)
        };
        let bytes = calldata(header, &feeds, &rows);
        let decoded = decode(&bytes, &Profile::new(form)).unwrap();
        prop_assert_eq!(&decoded.header, &expected);
        prop_assert_eq!(decoded.feeds.len(), feeds.len());
        prop_assert_eq!(decoded.rows.len(), rows.len());
        for (at, (found, given)) in decoded.feeds.iter().zip(&feeds).enumerate() {
            prop_assert_eq!(found.position as usize, at);
            prop_assert_eq!(found.stride, given.stride);
            prop_assert_eq!(found.feed_id, given.feed_id);
            prop_assert_eq!(found.rb_index, given.rb_index);
            prop_assert_eq!(found.slot_offset, given.slot_offset);
            prop_assert_eq!(&found.data, &given.data);
            let index = found.feed_index.to_be_bytes::<32>();
            let laid_down = feed_index(given);
            prop_assert!(index.ends_with(&laid_down));
            prop_assert!(index[..32 - laid_down.len()].iter().all(|byte| *byte == 0));
            // The row by search from the back, where the decoder keeps a table.
            let row = rows.iter().rev().find(|row| {
                row.table_index == (u128::from(given.stride) * FEED_IDS + given.feed_id) / 16
            });
            let lane = row.map(|row| row.lanes[(given.feed_id % 16) as usize]);
            prop_assert_eq!(found.table_lane, lane);
        }
        for (found, given) in decoded.rows.iter().zip(&rows) {
            prop_assert_eq!(found.table_index, given.table_index);
            prop_assert_eq!(found.lanes, given.lanes);
            prop_assert_eq!(found.data, found.stored());
        }
        is_sane(&decoded, &bytes);
    }

    #[test]
    fn hostile_ends_are_refused_but_where_a_row_ends(update in updates()) {
        let (feeds, rows) = update;
        // A few of them: every end of every calldata is tried.
        let bytes = calldata(numbered(1), &feeds[..feeds.len().min(4)], &rows);
        let whole = decode_numbered(&bytes).unwrap();
        let mut ends: Vec<usize> = whole.rows.iter().map(|row| row.offset).collect();
        ends.push(bytes.len());
        for length in 0..=bytes.len() {
            let cut = &bytes[..length];
            match (decode_numbered(cut), ends.iter().position(|end| *end == length)) {
                (Ok(decoded), Some(rows)) => {
                    prop_assert_eq!(&decoded.rows, &whole.rows[..rows]);
                    prop_assert_eq!(decoded.feeds.len(), whole.feeds.len());
                }
                (Err(fault), None) => {
                    prop_assert!(fault.offset <= length, "{}", fault);
                    let short = matches!(
                        fault.cause,
                        Cause::Truncated { .. } | Cause::FeedsBeyondEnd { .. }
                    );
                    prop_assert!(short, "{}", fault);
                }
                // Without rows, the end of the feeds is the end of the calldata.
                (found, end) => prop_assert!(false, "{length}: {found:?}, row end {end:?}"),
            }
        }
    }

    #[test]
    fn hostile_changes_do_no_harm(
        update in updates(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        mask: bool,
    ) {
        let (feeds, rows) = update;
        let mut bytes = calldata(numbered(1), &feeds, &rows);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for header in [HeaderForm::BlockNumber, HeaderForm::Accumulators] {
            let lanes = if mask { LanePolicy::Mask } else { LanePolicy::Reject };
            let profile = Profile { lanes, ..Profile::new(header) };
            match decode(&bytes, &profile) {
                Ok(decoded) => is_sane(&decoded, &bytes),
                Err(fault) => prop_assert!(fault.offset <= bytes.len(), "{}", fault),
            }
        }
    }

    #[test]
    fn hostile_bytes_do_no_harm(
        tail in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..600),
        count in 0..4_u8,
    ) {
        let mut bytes = numbered(1);
        bytes.extend([0, 0, 0, count]);
        bytes.extend(tail);
        let masking = Profile { lanes: LanePolicy::Mask, ..Profile::new(HeaderForm::BlockNumber) };
        match decode(&bytes, &masking) {
            Ok(decoded) => is_sane(&decoded, &bytes),
            Err(fault) => prop_assert!(fault.offset <= bytes.len(), "{}", fault),
        }
    }
}

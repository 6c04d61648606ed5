//! What decoded calldata means: which entry counts, what disagrees, what reaches too far.

use chronolith_projection_adfs::{
    Cause, Decoded, Disagreement, Fault, HeaderForm, HighLane, LanePolicy, Profile, Reason,
    block_number, compute_table_index, decode,
};
use serde_json::json;

use chronolith_sim::evm::adfs::encode::{Row, Value, accumulated, calldata, numbered};

fn profile() -> Profile {
    Profile::new(HeaderForm::BlockNumber)
}

fn row(table_index: u128, lanes: &[(usize, u16)]) -> Row {
    let mut row = Row {
        table_index,
        lanes: [0; 16],
    };
    for (lane, value) in lanes {
        row.lanes[*lane] = *value;
    }
    row
}

fn decoded(feeds: &[Value], rows: &[Row]) -> Decoded {
    decode(&calldata(numbered(7), feeds, rows), &profile()).unwrap()
}

/// The database refuses one key twice in a statement, and the chain keeps what was written last.
#[test]
fn of_the_same_slot_and_the_same_row_the_last_counts() {
    let feeds = [
        Value::new(1, 5, b"old"),
        Value::new(2, 5, b"other feed"),
        Value::new(1, 6, b"other slot"),
        Value::new(1, 5, b"new"),
        Value {
            stride: 1,
            ..Value::new(1, 5, b"other stride")
        },
    ];
    let rows = [row(0, &[(1, 6)]), row(1, &[]), row(0, &[(1, 5), (2, 5)])];
    let decoded = decoded(&feeds, &rows);
    assert_eq!(decoded.feeds.len(), 5);
    let positions: Vec<u32> = decoded
        .distinct_feeds()
        .iter()
        .map(|it| it.position)
        .collect();
    assert_eq!(positions, [1, 2, 3, 4]);
    let positions: Vec<u32> = decoded
        .newest_feeds()
        .iter()
        .map(|it| it.position)
        .collect();
    assert_eq!(positions, [1, 3, 4]);
    let positions: Vec<u32> = decoded
        .distinct_rows()
        .iter()
        .map(|it| it.position)
        .collect();
    assert_eq!(positions, [1, 2]);
    // The last row counts, and an entry that is not the last of its feed disagrees with nothing.
    let lanes: Vec<Option<u16>> = decoded.feeds.iter().map(|it| it.table_lane).collect();
    assert_eq!(lanes, [Some(5), Some(5), Some(5), Some(5), None]);
    assert_eq!(decoded.disagreements, []);
}

/// After 8191 comes 0, so the larger index is not the newer one.
#[test]
fn the_newest_value_is_the_last_one_also_where_the_ring_begins_again() {
    let feeds = [Value::new(3, 8_191, b"a"), Value::new(3, 0, b"b")];
    let decoded = decoded(&feeds, &[row(0, &[(3, 0)])]);
    assert_eq!(decoded.newest_feeds()[0].data, &b"b"[..]);
    assert_eq!(decoded.distinct_feeds().len(), 2);
    assert_eq!(decoded.disagreements, []);
}

#[test]
fn a_value_elsewhere_than_in_the_table_is_reported() {
    let feeds = [Value::new(0, 9, b"a"), Value::new(18, 4, b"b")];
    let rows = [row(0, &[(0, 8)]), row(1, &[(2, 4)])];
    let decoded = decoded(&feeds, &rows);
    let expected = Disagreement {
        feed: 0,
        rb_index: 9,
        table_lane: 8,
    };
    assert_eq!(decoded.disagreements, [expected]);
    assert_eq!(decoded.feeds[0].rb_index, 9);
    let message = decoded.to_json();
    let reported = json!([{ "feed": 0, "index": 9, "tableLane": 8 }]);
    assert_eq!(message["disagreements"], reported);
}

#[test]
fn lanes_outside_of_the_ring_are_refused_or_cut() {
    let feeds = [Value::new(17, 2, b"a")];
    let rows = [row(0, &[]), row(1, &[(1, 8_194), (15, 0xffff)])];
    let bytes = calldata(numbered(7), &feeds, &rows);
    let fault = decode(&bytes, &profile()).unwrap_err();
    // Header 13, feed 8, a row of 34 and two bytes of the next; lane 1 is two bytes further.
    let expected = Fault {
        offset: 13 + 8 + 34 + 2 + 2,
        cause: Cause::Lane {
            lane: 1,
            value: 8_194,
        },
    };
    assert_eq!(fault, expected);
    assert_eq!(fault.reason(), Reason::RbIndex);

    let masking = Profile {
        lanes: LanePolicy::Mask,
        ..profile()
    };
    let decoded = decode(&bytes, &masking).unwrap();
    assert_eq!(decoded.feeds[0].table_lane, Some(2));
    assert_eq!(decoded.disagreements, []);
    let high = |lane, value| HighLane {
        row: 1,
        lane,
        value,
    };
    assert_eq!(decoded.high_lanes, [high(1, 8_194), high(15, 0xffff)]);
    let row = &decoded.rows[1];
    assert_eq!((row.lanes[1], row.lanes[15]), (2, 8_191));
    assert_eq!(row.data[2..4], 8_194_u16.to_be_bytes());
    assert_eq!(row.stored()[2..4], 2_u16.to_be_bytes());
    assert_eq!(row.stored()[30..], 8_191_u16.to_be_bytes());
    let message = decoded.to_json();
    let reported =
        json!([{ "row": 1, "lane": 1, "value": 8_194 }, { "row": 1, "lane": 15, "value": 65_535 }]);
    assert_eq!(message["highLanes"], reported);
}

#[test]
fn a_value_that_reaches_into_the_next_group_is_marked() {
    for (stride, slot_offset, bytes, spill) in [
        (0, 0, 32, false),
        (0, 0, 33, true),
        (2, 0, 128, false),
        (2, 0, 129, true),
        (2, 3, 32, false),
        (2, 3, 33, true),
        (31, (1 << 31) - 1, 32, false),
        (31, (1 << 31) - 1, 33, true),
    ] {
        let feed = Value {
            stride,
            slot_offset,
            ..Value::new(5, 1, &vec![1; bytes])
        };
        let decoded = decoded(&[feed], &[]);
        let feed = &decoded.feeds[0];
        assert_eq!(feed.spill, spill, "{stride} {slot_offset} {bytes}");
        assert_eq!(feed.slot_offset, slot_offset);
        assert_eq!(feed.table_lane, None);
    }
}

/// Feed 0 at ring index 0 is a real feed, and a number of no bytes is 0 on the chain.
#[test]
fn index_zero_is_taken_in_one_byte_and_in_none() {
    for index in [&[1, 0][..], &[0]] {
        let mut bytes = calldata(numbered(7), &[], &[]);
        bytes[12] = 1;
        bytes.push(0);
        bytes.extend(index);
        bytes.extend([1, 2, 0xaa, 0xbb]);
        // A row without index, too.
        bytes.push(0);
        bytes.extend([0; 32]);
        let decoded = decode(&bytes, &profile()).unwrap();
        let feed = &decoded.feeds[0];
        assert_eq!((feed.feed_id, feed.rb_index), (0, 0));
        assert_eq!(feed.data, &[0xaa, 0xbb][..]);
        assert_eq!(feed.table_lane, Some(0));
        assert_eq!(decoded.rows[0].table_index, compute_table_index(0, 0));
    }
}

#[test]
fn the_extra_fields_of_a_version_are_those_that_its_profile_names() {
    let bytes = calldata(accumulated(0x11, 0x22), &[], &[]);
    let decoded = decode(&bytes, &Profile::new(HeaderForm::Accumulators)).unwrap();
    let extra = decoded.header.extra();
    let mut names: Vec<&str> = extra.keys().map(String::as_str).collect();
    names.sort_unstable();
    let mut expected = HeaderForm::Accumulators.extra_fields().to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
    let source = format!("0x{}", "11".repeat(32));
    let destination = format!("0x{}", "22".repeat(32));
    assert_eq!(extra["sourceAccumulator"], json!(source));
    assert_eq!(extra["destinationAccumulator"], json!(destination));
    assert!(decoded.to_json().get("blockNumber").is_none());

    let numbered = calldata(numbered(9), &[], &[]);
    let decoded = decode(&numbered, &profile()).unwrap();
    assert!(decoded.header.extra().is_empty());
    assert_eq!(block_number(&numbered, HeaderForm::BlockNumber), Some(9));
    assert_eq!(block_number(&numbered, HeaderForm::Accumulators), None);
    assert_eq!(block_number(&numbered[..8], HeaderForm::BlockNumber), None);
    assert_eq!(block_number(&[0; 9], HeaderForm::BlockNumber), None);
}

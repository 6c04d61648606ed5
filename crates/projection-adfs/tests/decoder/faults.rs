//! What is refused, at which byte and by which guard.

use chronolith_projection_adfs::{Cause, HeaderForm, Limits, Profile, Reason, decode};

use chronolith_sim::evm::adfs::encode::{Row, Value, calldata, numbered, row};

const LARGEST: usize = 128 << 10;

fn check(bytes: &[u8], profile: &Profile, expected: (Reason, usize, &str)) {
    let fault = decode(bytes, profile).expect_err(expected.2);
    let (reason, offset, sentence) = expected;
    assert_eq!((fault.reason(), fault.offset), (reason, offset), "{fault}");
    let message = fault.to_string();
    assert!(message.contains(sentence), "{message}");
    assert!(message.ends_with(&format!("at byte {offset}")), "{message}");
}

/// Header, one feed with these bytes, nothing else.
fn one_feed(feed: &[u8]) -> Vec<u8> {
    let mut bytes = numbered(7);
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(feed);
    bytes
}

/// Header, no feed, a row with these bytes.
fn one_row(row: &[u8]) -> Vec<u8> {
    let mut bytes = calldata(numbered(7), &[], &[]);
    bytes.extend(row);
    bytes
}

/// Calldata, the byte where it is wrong, and what is said.
fn malformed() -> Vec<(Vec<u8>, usize, &'static str)> {
    let index_of_17_bytes = [&[0, 17, 1][..], &[0; 16], &[1, 1, 9]].concat();
    let last_of_stride = [&[0, 16][..], &[0xff; 16], &[1, 33], &[1; 33]].concat();
    let head_of_33 = [&[0, 29][..], &[0; 28], &[1, 1, 1, 9]].concat();
    let row_above = [&[15, 0x10][..], &[0; 14], &[0; 32]].concat();
    let row_head_of_33 = [&[32][..], &[0; 32], &[0; 32]].concat();
    vec![
        (vec![], 0, "calldata ends in the selector (need=1, left=0)"),
        (vec![0x81, 0, 0], 0, "selector is not 0x01"),
        (vec![1; 8], 1, "the block number (need=8, left=7)"),
        (vec![1; 11], 9, "the number of feeds (need=4, left=2)"),
        (
            one_feed(&[32, 1, 1, 1, 1, 9]),
            13,
            "stride is above 31 (stride=32)",
        ),
        (
            one_feed(&[0, 5, 1, 1]),
            15,
            "the index of a feed (need=5, left=2)",
        ),
        (
            one_feed(&[0, 2, 1, 1]),
            17,
            "the length of a feed (need=1, left=0)",
        ),
        (
            one_feed(&[0, 1, 1, 2, 1]),
            17,
            "the length of a feed (need=2, left=1)",
        ),
        (
            one_feed(&[0, 1, 1, 1, 3, 9]),
            18,
            "the data of a feed (need=3, left=1)",
        ),
        (
            one_feed(&[0, 255, 1, 1]),
            14,
            "head is longer than the 32 bytes",
        ),
        (
            one_feed(&head_of_33),
            44,
            "head is longer than the 32 bytes that the contract reads (bytes=33)",
        ),
        (
            one_feed(&index_of_17_bytes),
            13,
            "not in the space of its stride (stride=0)",
        ),
        (
            one_feed(&last_of_stride),
            13,
            "not in the space of its stride",
        ),
        (
            one_feed(&[0, 1, 0, 1, 0]),
            13,
            "not in the space of its stride",
        ),
        (one_row(&row_above), 13, "index of a row is not below 2^116"),
        (
            one_row(&row_head_of_33),
            13,
            "head is longer than the 32 bytes",
        ),
    ]
}

#[test]
fn every_refusal_names_its_byte_and_its_guard() {
    let profile = Profile::new(HeaderForm::BlockNumber);
    for (bytes, offset, sentence) in malformed() {
        check(&bytes, &profile, (Reason::Malformed, offset, sentence));
    }
    // Just inside of what is refused above.
    let head_of_32 = [&[0, 28][..], &[0; 27], &[1, 1, 1, 9]].concat();
    let row_head_of_32 = [&[31][..], &[0; 31], &[0; 32]].concat();
    let row_below = [&[15, 0x0f][..], &[0xff; 14], &[0; 32]].concat();
    let last_slot = [&[0, 16][..], &[0xff; 16], &[1, 32], &[1; 32]].concat();
    for bytes in [
        one_feed(&head_of_32),
        one_feed(&last_slot),
        one_feed(&[0, 1, 1, 0]),
        one_row(&row_head_of_32),
        one_row(&row_below),
    ] {
        decode(&bytes, &profile).unwrap();
    }
}

#[test]
fn accumulators_that_are_cut_off_are_distinguished() {
    let profile = Profile::new(HeaderForm::Accumulators);
    for (length, offset, sentence) in [
        (32, 1, "the source accumulator (need=32, left=31)"),
        (64, 33, "the destination accumulator (need=32, left=31)"),
        (68, 65, "the number of feeds (need=4, left=3)"),
    ] {
        check(
            &vec![1; length],
            &profile,
            (Reason::Malformed, offset, sentence),
        );
    }
}

/// Four billion feeds would be hundreds of gigabytes: making room for them first would end the process.
#[test]
fn hostile_counts_and_lengths_are_refused_before_room_is_made() {
    let mut bytes = numbered(7);
    bytes.extend(u32::MAX.to_be_bytes());
    bytes.extend([0; 4_000]);
    let usual = Profile::new(HeaderForm::BlockNumber);
    let boundless = Profile {
        limits: Limits {
            feeds_max: u32::MAX,
            calldata_bytes_max: usize::MAX,
        },
        ..usual
    };
    let sentence = "more feeds than the limit (feeds=4294967295, limit=10000)";
    check(&bytes, &usual, (Reason::FeedsLength, 9, sentence));
    let sentence = "more feeds than the bytes that are left can hold (feeds=4294967295, left=4000)";
    check(&bytes, &boundless, (Reason::Malformed, 9, sentence));
    // One less than the bytes could hold at best is not refused by the count.
    let fits = [
        numbered(7),
        1_000_u32.to_be_bytes().to_vec(),
        vec![0; 4_000],
    ]
    .concat();
    let fault = decode(&fits, &boundless).unwrap_err();
    assert!(
        matches!(fault.cause, Cause::OutsideStride { stride: 0 }),
        "{fault}"
    );
    // Lengths that no machine can hold.
    let huge = one_feed(&[&[31, 1, 1, 5][..], &[0x0f; 5], &[1; 100]].concat());
    let sentence = "the data of a feed (need=64677154575, left=100)";
    check(&huge, &boundless, (Reason::Malformed, 22, sentence));
    let beyond = one_feed(&[&[31, 1, 1, 28][..], &[0xff; 28]].concat());
    check(
        &beyond,
        &boundless,
        (Reason::Malformed, 13, "not in the space"),
    );
}

/// 10,000 feeds in exactly 128 KiB, and then one of either more.
#[test]
fn the_largest_update_is_taken_and_one_more_is_not() {
    let profile = Profile::new(HeaderForm::BlockNumber);
    let feed = |id: u128| Value::new(id, 4_000, b"price");
    let feeds: Vec<Value> = (10_000..20_000).map(feed).collect();
    let row_of = |table_index| Row {
        table_index,
        lanes: [4_000; 16],
    };
    let mut rows = Vec::new();
    let mut bytes = calldata(numbered(7), &feeds, &rows);
    // Rows of 35 bytes, and as many of 34 as make it even.
    while !(LARGEST - bytes.len()).is_multiple_of(35) {
        let small = row_of(rows.len() as u128);
        bytes.extend(row(&small));
        rows.push(small);
    }
    while bytes.len() < LARGEST {
        let next = row_of(1_000 + rows.len() as u128);
        bytes.extend(row(&next));
        rows.push(next);
    }
    assert_eq!(bytes.len(), LARGEST);
    let decoded = decode(&bytes, &profile).unwrap();
    assert_eq!(
        (decoded.feeds.len(), decoded.rows.len()),
        (10_000, rows.len())
    );
    for (decoded, feed) in decoded.feeds.iter().zip(&feeds) {
        assert_eq!(decoded.feed_id, feed.feed_id);
        assert_eq!(decoded.data, feed.data);
    }
    assert_eq!(decoded.distinct_feeds().len(), 10_000);
    let message = decoded.to_json();
    assert_eq!(message["feeds"].as_array().unwrap().len(), 10_000);

    bytes.push(0);
    let sentence = "calldata is larger than the limit (bytes=131073, limit=131072)";
    check(&bytes, &profile, (Reason::CalldataSize, LARGEST, sentence));
    let more: Vec<Value> = (0..10_001).map(feed).collect();
    let sentence = "more feeds than the limit (feeds=10001, limit=10000)";
    let bytes = calldata(numbered(7), &more, &[]);
    check(&bytes, &profile, (Reason::FeedsLength, 9, sentence));
}

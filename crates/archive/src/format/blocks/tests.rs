//! Tables of blocks: what went in comes out, a time is found as by looking at every block, and bytes that
//! were changed are damage or another table.

use super::*;
use crate::format::facts::tests::sample;
use crate::format::segment::{Stretch, place_stretches};
use chronolith_model::BlockRange;
use proptest::prelude::*;

fn records(blocks: &[(u64, u32, u32, bool)]) -> Vec<BlockRecord> {
    let record = |&(timestamp, logs, txs, odd): &(u64, u32, u32, bool)| BlockRecord {
        timestamp,
        logs,
        txs,
        txs_in_sequence: !odd,
    };
    blocks.iter().map(record).collect()
}

/// A table of stretches, and what it should say of each block.
fn table(stretches: &[Vec<BlockRecord>]) -> (Decoded<BlockTable>, Vec<BlockEntry>) {
    let (bytes, facts, placed, expected) = parts(stretches);
    (BlockTable::decode(bytes.into(), &facts, &placed), expected)
}

type Parts = (Vec<u8>, SegmentFacts, Vec<PlacedStretch>, Vec<BlockEntry>);

fn parts(stretches: &[Vec<BlockRecord>]) -> Parts {
    let sum = |blocks: &[BlockRecord], of: fn(&BlockRecord) -> u32| blocks.iter().map(of).sum();
    let sizes = stretches.iter().map(|blocks| Stretch {
        blocks: blocks.len() as u32,
        rows: sum(blocks, |block| block.logs),
        txs: sum(blocks, |block| block.txs),
        frames: 0,
        dictionary: 0,
    });
    let placed = place_stretches(&sizes.collect::<Vec<_>>()).unwrap();
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for (blocks, placed) in stretches.iter().zip(&placed) {
        encode_stretch(blocks.iter().copied(), &mut bytes);
        let (mut first_id, mut first_tx) = (placed.first_id, placed.first_tx);
        for block in blocks {
            expected.push(BlockEntry {
                place: expected.len() as u32,
                timestamp: block.timestamp,
                logs: block.logs,
                txs: block.txs,
                txs_in_sequence: block.txs_in_sequence,
                first_id,
                first_tx,
            });
            first_id += block.logs;
            first_tx += block.txs;
        }
    }
    let mut facts = sample(BlockRange::new(7, 7 + expected.len() as u64));
    facts.logs = expected.iter().map(|entry| u64::from(entry.logs)).sum();
    facts.txs = expected.iter().map(|entry| u64::from(entry.txs)).sum();
    facts.first_timestamp = expected.first().map_or(0, |entry| entry.timestamp);
    facts.last_timestamp = expected.last().map_or(0, |entry| entry.timestamp);
    (bytes, facts, placed, expected)
}

#[test]
fn a_steady_clock_takes_next_to_nothing() {
    let steady = |count: u64| (0..count).map(|at| (1_700_000_000 + at * 2, 0, 0, false));
    let blocks = records(&steady(6_400).collect::<Vec<_>>());
    let mut bytes = Vec::new();
    encode_stretch(blocks.iter().copied(), &mut bytes);
    assert_eq!(bytes.len(), 100 * (1 + 5 + 1 + 1), "a head a page");
    let (table, expected) = table(&[blocks]);
    let table = table.unwrap();
    assert_eq!(table.len(), 6_400);
    assert!(table.weight() <= 6_400 / 2, "{}", table.weight());
    assert!(
        table
            .times()
            .eq(expected.iter().map(|entry| entry.timestamp))
    );
}

#[test]
fn a_page_that_crosses_a_stretch_is_damage() {
    let blocks = records(&[(5, 0, 0, false), (6, 0, 0, false)]);
    let mut bytes = Vec::new();
    encode_stretch(blocks.into_iter(), &mut bytes);
    let one = Stretch {
        blocks: 1,
        rows: 0,
        txs: 0,
        frames: 0,
        dictionary: 0,
    };
    let placed = place_stretches(&[one, one]).unwrap();
    let facts = sample(BlockRange::new(7, 9));
    let refused = BlockTable::decode(bytes.into(), &facts, &placed).map(|_| ());
    assert_eq!(refused, Err(Damage("a page of blocks crosses a stretch")));
}

proptest! {
    /// Whatever the times: extremes, falling ones, any width of steps.
    #[test]
    fn every_block_is_found_again(
        stretches in proptest::collection::vec(
            proptest::collection::vec((any::<u64>(), 0_u32..4, 0_u32..5, any::<bool>()), 1..150),
            1..4,
        )
    ) {
        let stretches: Vec<_> = stretches.iter().map(|blocks| records(blocks)).collect();
        let (table, expected) = table(&stretches);
        let table = table.unwrap();
        prop_assert_eq!(table.len() as usize, expected.len());
        for entry in &expected {
            prop_assert_eq!(table.at(entry.place), Some(*entry));
            prop_assert_eq!(table.time_at(entry.place), Some(entry.timestamp));
            for id in entry.first_id..entry.first_id + entry.logs {
                prop_assert_eq!(table.of_row(id), Some(*entry));
            }
        }
        prop_assert_eq!(table.at(expected.len() as u32), None);
        let odd = |entry: &BlockEntry| !entry.txs_in_sequence;
        let counted: Vec<_> = table.counted().filter(odd).collect();
        prop_assert_eq!(counted, expected.iter().copied().filter(odd).collect::<Vec<_>>());
    }

    #[test]
    fn a_time_is_found_as_by_looking_at_every_block(
        // Even and uneven, so that the first guess is right, and far off on both sides.
        steps in proptest::collection::vec(prop_oneof![8 => 0_u64..4, 1 => 0_u64..500], 1..3_000),
        wanted in 0_u64..40_000,
        from in prop_oneof![Just(0), 0_u32..3_000],
    ) {
        let mut time = 100;
        let blocks: Vec<_> = steps.iter().map(|step| { time += step; (time, 0, 0, false) }).collect();
        let from = from.min(blocks.len() as u32 - 1);
        let (table, expected) = table(&[records(&blocks)]);
        let found = table.unwrap().first_from(from, wanted);
        let first = expected.iter().find(|entry| entry.place >= from && entry.timestamp >= wanted);
        prop_assert_eq!(
            found.map(|later| (later.place, later.time)),
            first.map(|entry| (entry.place, entry.timestamp))
        );
        if let Some(Later { place, before: Some(before), .. }) = found {
            prop_assert_eq!(before, expected[place as usize - 1].timestamp);
        }
    }

    /// What passes as a table answers for every place and row: nothing overflows, nothing ends early.
    #[test]
    fn a_changed_table_is_damage_or_another_table(
        stretches in proptest::collection::vec(
            proptest::collection::vec((0_u64..1 << 40, 0_u32..4, 0_u32..5, any::<bool>()), 1..80),
            1..4,
        ),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        wanted: u64,
    ) {
        let stretches: Vec<_> = stretches.iter().map(|blocks| records(blocks)).collect();
        let (mut bytes, mut facts, placed, expected) = parts(&stretches);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let decoded = BlockTable::decode(bytes.clone().into(), &facts, &placed);
        if let Err(Damage("block table does not fit the summary")) = decoded {
            // An attacker who changes the table can change the times in the summary, too.
            let mut reader = Reader::new(&bytes);
            facts.first_timestamp = PageView::read(&mut reader).map_or(0, |page| page.first_time);
        }
        if let Ok(table) = BlockTable::decode(bytes.into(), &facts, &placed) {
            prop_assert_eq!(table.times().count(), expected.len());
            let logs: u64 = (0..table.len()).map(|at| u64::from(table.at(at).unwrap().logs)).sum();
            prop_assert_eq!(logs, facts.logs);
            for at in 0..table.len() {
                let entry = table.at(at).unwrap();
                prop_assert_eq!(table.time_at(at), Some(entry.timestamp));
                for id in entry.first_id..entry.first_id + entry.logs {
                    prop_assert_eq!(table.of_row(id), Some(entry));
                }
            }
            // Times may fall now: any answer is right, and there may be none.
            for from in [0, table.len() - 1] {
                let found = table.first_from(from, wanted);
                prop_assert!(found.is_none_or(|later| later.place >= from && later.time >= wanted));
            }
            prop_assert!(table.counted().count() <= expected.len());
        }
    }

    #[test]
    fn hostile_tables_are_damage(bytes: Vec<u8>, blocks in 1_u32..1_000) {
        let stretch = Stretch { blocks, rows: 0, txs: 0, frames: 0, dictionary: 0 };
        let placed = place_stretches(&[stretch]).unwrap();
        let facts = sample(BlockRange::new(7, 7 + u64::from(blocks)));
        prop_assert!(BlockTable::decode(bytes.into(), &facts, &placed).is_err());
    }
}

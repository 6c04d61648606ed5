//! Blocks by number, hash and time; transactions by hash; whole blocks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_archive::{Error, TimeSide};
use chronolith_model::{BlockRange, Hash32};
use support::{Stores, ingest, oracle_of, tiny_chain, tiny_settings};

#[tokio::test]
async fn blocks_and_transactions_are_found_by_number_hash_and_time() {
    let chain = tiny_chain(11);
    for start in [0, 1_000] {
        let range = BlockRange::new(start, start + 260);
        let oracle = oracle_of(&chain, range);
        let archive = Stores::memory().writer(&tiny_settings()).await;
        ingest(&archive, &chain, range, &[5, 1, 17]).await;
        let mut found = 0;
        for block in oracle.blocks() {
            let clock = block.clock;
            assert_eq!(archive.block_by_number(clock.number).await.unwrap(), clock);
            assert_eq!(
                archive.block_by_hash(&clock.hash).await.unwrap(),
                Some(clock)
            );
            for tx in &block.txs {
                let place = archive
                    .transaction_by_hash(&tx.hash)
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!((place.block, place.index), (clock, tx.index));
                found += 1;
            }
        }
        assert!(found > 300, "{found}");
        assert_eq!(archive.block_by_hash(&Hash32([9; 32])).await.unwrap(), None);
        assert_eq!(
            archive.transaction_by_hash(&Hash32([9; 32])).await.unwrap(),
            None
        );
        let outside = archive.block_by_number(range.end).await;
        assert!(
            matches!(outside, Err(Error::NotCovered { .. })),
            "{outside:?}"
        );
    }
}

#[tokio::test]
async fn a_block_at_a_time_needs_its_neighbour_across_the_time() {
    let chain = tiny_chain(12);
    for start in [0_u64, 500] {
        let range = BlockRange::new(start, start + 150);
        let oracle = oracle_of(&chain, range);
        let archive = Stores::memory().writer(&tiny_settings()).await;
        ingest(&archive, &chain, range, &[4, 9]).await;
        let first = chain.clock(range.start).timestamp;
        let last = chain.clock(range.end - 1).timestamp;
        for time in first.saturating_sub(2)..=last + 2 {
            let before = archive.block_at(time, TimeSide::AtOrBefore).await;
            let after = archive.block_at(time, TimeSide::AtOrAfter).await;
            if time >= last {
                assert!(
                    matches!(before, Err(Error::NotCovered { .. })),
                    "{time}: {before:?}"
                );
            } else if time >= first {
                let expected = oracle.block_at_or_before(time).map(|block| block.clock);
                assert_eq!(before.unwrap(), expected, "at or before {time}");
            }
            if time > first && time <= last {
                let expected = oracle.block_at_or_after(time).map(|block| block.clock);
                assert_eq!(after.unwrap(), expected, "at or after {time}");
            } else if time <= first && start > 0 {
                assert!(
                    matches!(after, Err(Error::NotCovered { .. })),
                    "{time}: {after:?}"
                );
            }
        }
    }
}

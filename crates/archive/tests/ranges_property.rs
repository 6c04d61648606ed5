//! Whatever is done to an archive, ranges are counted as they are: blocks and transactions are
//! counted again from the chain after each act.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/ranges.rs"]
mod ranges;
mod support;

use chronolith_archive::{Archive, AuditEntry, Error, RangeReport, RangeState, StoredObject};
use chronolith_model::{Block, BlockRange};
use chronolith_sim::SimChain;
use proptest::prelude::*;
use ranges::{append, at, audit, check_counts, check_lookups, fill, range_settings, settle};
use support::{Stores, tiny_chain};

/// Where the live run begins.
const START: u64 = 100;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// So many blocks, in batches of so many.
    Append(u64, usize),
    Fill(u64, u64),
    /// So many blocks back.
    Rewind(u64),
    /// So many blocks below the head stay.
    Prune(u64),
    /// So many steps.
    Maintain(u8),
    Reopen,
    /// Makes the segment of a block again.
    Mend(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1_u64..40, 1_usize..20).prop_map(|(blocks, size)| Act::Append(blocks, size)),
        3 => (2_u64..98, 1_u64..40).prop_map(|(start, len)| Act::Fill(start, len)),
        2 => (1_u64..50).prop_map(Act::Rewind),
        1 => (0_u64..90).prop_map(Act::Prune),
        4 => (1_u8..30).prop_map(Act::Maintain),
        2 => Just(Act::Reopen),
        1 => (2_u64..140).prop_map(Act::Mend),
    ]
}

/// The live run may have begun behind a block that is to be rewound to. Nothing changed then.
fn refused_below_the_live_run(outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => {}
        Err(Error::Invalid(words)) if words.contains("cannot rewind to") => {}
        Err(error) => panic!("{error}"),
    }
}

async fn repair_object(archive: &Archive, chain: &SimChain, number: u64) -> Result<(), Error> {
    let Some(object) = archive.segments_of(number).into_iter().next() else {
        return Ok(());
    };
    let StoredObject { range, .. } = object;
    let mut fill = archive.repair(&object, audit(9, "mend"))?;
    let blocks: Vec<Block> = chain.blocks(range).collect();
    fill.push(blocks, &at(9)).await?;
    fill.finish().await
}

async fn run(seed: u64, acts: &[Act]) {
    let (chain, stores) = (tiny_chain(seed), Stores::memory());
    let mut archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, BlockRange::one(START), 1, 1).await;
    for act in acts {
        let head = archive.health().head.unwrap().number;
        let entry: AuditEntry = audit(9, "test");
        match *act {
            Act::Append(blocks, size) => {
                let new = BlockRange::new(head + 1, head + 1 + blocks);
                append(&archive, &chain, new, size, 2).await;
            }
            Act::Fill(start, len) => {
                let range = BlockRange::new(start, (start + len).min(START));
                fill(&archive, &chain, range, 3).await.unwrap();
            }
            Act::Rewind(back) => {
                let rewound = archive.rewind(head.saturating_sub(back), entry).await;
                refused_below_the_live_run(rewound);
            }
            Act::Prune(kept) => {
                let below = head.saturating_sub(kept);
                archive.prune(below, entry).await.unwrap();
            }
            Act::Maintain(steps) => {
                for _ in 0..steps {
                    archive.maintain_at(4).await.unwrap();
                }
            }
            Act::Reopen => archive = stores.writer(&range_settings()).await,
            Act::Mend(number) => repair_object(&archive, &chain, number).await.unwrap(),
        }
        check_counts(&archive, &chain).await;
    }
    settle(&archive, 5).await;
    check_ended(&archive, &chain).await;
    // What is missing comes after all: then every range below the head's is complete.
    let head = archive.health().head.unwrap().number;
    let settings = range_settings();
    let below = BlockRange::new(2, head);
    for range in archive.missing(below, settings.datasets, &settings.scope) {
        fill(&archive, &chain, range, 6).await.unwrap();
        check_counts(&archive, &chain).await;
    }
    settle(&archive, 7).await;
    check_ended(&archive, &chain).await;
    let open = |one: &RangeReport| one.state != RangeState::Complete;
    let ranges = archive.ranges().await;
    assert_eq!(ranges.iter().find(|one| open(one) && one.last < head), None);
    assert_eq!(archive.health().covered, Some(BlockRange::new(2, head + 1)));
}

/// With all maintenance done, a range is complete or misses blocks.
async fn check_ended(archive: &Archive, chain: &SimChain) {
    check_counts(archive, chain).await;
    for one in archive.ranges().await {
        let open = [RangeState::Pending, RangeState::Ingesting].contains(&one.state);
        let is_cut = one.blocks < one.last - one.first + 1;
        let whole = one.last_committed == Some(one.last) && !is_cut;
        assert_eq!(open, !whole, "{one:?}");
        assert!(open || one.state == RangeState::Complete, "{one:?}");
        if one.state == RangeState::Complete {
            let blocks = BlockRange::new(one.last + 1 - one.blocks, one.last + 1);
            check_lookups(archive, chain, blocks).await;
        }
    }
}

/// Forty-eight lives, or as many as `CHRONOLITH_LIVES` says.
fn cases() -> u32 {
    let lives = std::env::var("CHRONOLITH_LIVES").ok();
    lives.and_then(|lives| lives.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn counts_are_exact_whatever_is_done(
        seed in 0_u64..1_000,
        acts in proptest::collection::vec(act(), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(run(seed, &acts));
    }
}

//! Blocks with logs of no transaction: they are listed under the block's own hash, behind the last
//! transaction and without a body, through every merge.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/ranges.rs"]
mod ranges;
mod support;

use chronolith_archive::{Archive, Error, RangeState};
use chronolith_model::{
    Block, BlockFault, BlockRange, Dataset, Log, LogFilter, LogParts, ScopeEntry, Tx,
};
use ranges::{at, range_settings, report, settle};
use support::{Stores, tiny_chain};

const OWN: [u8; 20] = [0xce; 20];

/// Every third block has a log of its own.
fn blocks() -> Vec<Block> {
    let add = |mut block: Block| {
        if !block.clock.number.is_multiple_of(3) {
            return block;
        }
        let index = block.txs.len() as u32;
        let hash = block.clock.hash;
        block.txs.push(Tx { index, hash });
        let log = LogParts {
            tx_index: index,
            log_index: block.logs.len() as u32,
            emitter: &OWN,
            ..LogParts::default()
        };
        block.logs.push(Log::new(&log).unwrap());
        block
    };
    let range = BlockRange::new(2, 42);
    tiny_chain(91).blocks(range).map(add).collect()
}

async fn take(archive: &Archive, blocks: Vec<Block>) -> Result<(), Error> {
    let taken = archive.ingest_finalized_blocks(blocks, &at(1)).await;
    taken.map(drop)
}

#[tokio::test]
async fn a_block_is_listed_for_its_own_logs_and_has_no_body() {
    let archive = Stores::memory().writer(&range_settings()).await;
    let all = blocks();
    for batch in all.chunks(9) {
        take(&archive, batch.to_vec()).await.unwrap();
    }
    settle(&archive, 2).await;
    let done = report(&archive, 0).await;
    assert_eq!(done.state, RangeState::Complete, "{done:?}");
    let range = BlockRange::new(2, 42);
    let found = archive.inspect(range, &mut |_| {}).await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    for block in &all {
        let number = block.clock.number;
        let payload = archive
            .payload(number, Dataset::Transactions)
            .await
            .unwrap();
        assert_eq!(payload.bodies, block.payload.bodies, "block {number}");
        let own = block.txs.iter().filter(|tx| tx.is_block(&block.clock));
        assert_eq!(own.count(), usize::from(number.is_multiple_of(3)));
        for tx in &block.txs {
            let place = archive.transaction_by_hash(&tx.hash).await.unwrap();
            let place = place.map(|place| (place.block, place.index));
            assert_eq!(place, Some((block.clock, tx.index)));
        }
        let clock = archive.block_by_hash(&block.clock.hash).await.unwrap();
        assert_eq!(clock, Some(block.clock));
    }
    let answer = archive.query_finalized(&LogFilter::over(range)).await;
    let named = answer.unwrap().logs.into_iter();
    let own = named.filter(|one| one.log.emitter() == OWN);
    let own: Vec<bool> = own.map(|one| one.tx_hash == one.block.hash).collect();
    assert_eq!(own, vec![true; 13]);
}

/// Bodies are found by their places, so nothing may stand before one that has none.
#[tokio::test]
async fn a_block_that_is_listed_before_its_transactions_is_refused() {
    let archive = Stores::memory().writer(&range_settings()).await;
    let mut all = blocks();
    let fits = |block: &&mut Block| block.clock.number.is_multiple_of(3) && block.txs.len() > 1;
    let block = all.iter_mut().find(fits).unwrap();
    let number = block.clock.number;
    block.txs[0].hash = block.clock.hash;
    all.truncate(number as usize - 1);
    let refused = take(&archive, all).await.unwrap_err();
    let expected = (number, BlockFault::TxOrder);
    let reported = match refused {
        Error::BadBlock { number, fault } => Some((number, fault)),
        _ => None,
    };
    assert_eq!(reported, Some(expected));
}

/// What names the block is not kept, so the block is not listed.
#[tokio::test]
async fn a_scope_without_the_logs_of_the_block_does_not_list_it() {
    let mut settings = range_settings();
    let other = ScopeEntry {
        emitter: Some(vec![1; 20].into()),
        topic0: None,
    };
    settings.scope = chronolith_model::Scope::Only(vec![other]);
    let archive = Stores::memory().writer(&settings).await;
    take(&archive, blocks()).await.unwrap();
    for block in blocks() {
        let kept = archive
            .pin()
            .unwrap()
            .transactions(block.clock.number)
            .await;
        let kept = kept.unwrap();
        assert!(!kept.iter().any(|tx| tx.is_block(&block.clock)));
        let txs = block.txs.len() - usize::from(block.clock.number.is_multiple_of(3));
        assert_eq!(kept.len(), txs);
    }
}

//! The oracle of feeds of a chain: its events are the block's last logs, its transactions are found, and
//! a transaction that a reorg moved is the same one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;

use chronolith_model::{BlockRange, Hash32};
use chronolith_sim::evm::adfs::{AdfsSpec, AdfsWhat, UPDATED_2_TOPIC, UPDATED_TOPIC};
use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, UPGRADED_TOPIC};

fn node() -> EvmNode {
    let spec = EvmSpec {
        upgrade_every: 20,
        fees: Some(FeesSpec::per_thousand_blocks(900)),
        adfs: Some(AdfsSpec { upgrade_every: 15 }),
        ..EvmSpec::tiny(3)
    };
    EvmNode::new(spec, 300)
}

const ALL: BlockRange = BlockRange {
    start: 0,
    end: u64::MAX,
};

#[test]
fn the_events_are_what_the_logs_and_the_calldata_say() {
    let node = node();
    node.reorg(40);
    let events = node.adfs(ALL);
    assert!(events.len() > 100, "{}", events.len());
    for event in &events {
        let place = &event.place;
        let block = node.block(place.block_number).unwrap();
        assert_eq!(block.hash, place.block_hash);
        let log = &block.logs[place.log_index as usize];
        let tx = &block.txs[log.tx_index() as usize];
        assert_eq!(
            (log.emitter(), tx.hash),
            (&AdfsSpec::PROXY[..], place.tx_hash)
        );
        assert_eq!(tx.to.unwrap().0, AdfsSpec::PROXY);
        let topic = match (&event.what, event.version) {
            (AdfsWhat::Upgraded(_), _) => UPGRADED_TOPIC,
            (AdfsWhat::Updated { .. }, 1) => UPDATED_TOPIC,
            _ => UPDATED_2_TOPIC,
        };
        assert_eq!(log.topic(0), Some(&topic[..]));
        if let AdfsWhat::Updated { calldata, .. } = &event.what {
            assert_eq!(*calldata, tx.input);
        }
    }
    let theirs = |block: u64| {
        let block = node.block(block).unwrap();
        let logs = block.logs.iter();
        logs.filter(|log| log.emitter() == AdfsSpec::PROXY).count()
    };
    let all: usize = (0..=node.head().number).map(theirs).sum();
    assert_eq!(all, events.len());
    // Fees stand before them, and are found all the same.
    for fee in node.fees(ALL) {
        let block = node.block(fee.block_number).unwrap();
        let log = &block.logs[fee.log_index as usize];
        assert_eq!(log.emitter(), FeesSpec::CONTRACT);
        assert_eq!(block.txs[log.tx_index() as usize].hash, fee.tx_hash);
    }
}

#[test]
fn a_reorg_moves_transactions_that_stay_the_same() {
    let node = node();
    let places = |node: &EvmNode| -> BTreeMap<Hash32, u64> {
        let events = node.adfs(ALL).into_iter();
        events
            .map(|event| (event.place.tx_hash, event.place.block_number))
            .collect()
    };
    let before = places(&node);
    assert_eq!(
        before.len(),
        node.adfs(ALL).len(),
        "a transaction is there twice"
    );
    node.reorg(100);
    let after = places(&node);
    let moved = before.iter().filter(|(hash, number)| {
        let now = after.get(*hash);
        now.is_some_and(|now| now != *number)
    });
    assert!(moved.count() > 5);
}

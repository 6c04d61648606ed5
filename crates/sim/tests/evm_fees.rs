//! The fee collector of a chain: the rows it stands for are those that a decoder finds in its logs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeSet;

use alloy_primitives::U256;
use chronolith_model::{BlockRange, Log};
use chronolith_sim::evm::{
    EvmBlock, EvmNode, EvmSpec, FEES_COLLECTED_TOPIC, FEES_WITHDRAWN_TOPIC, FeeRow, FeesSpec,
    LIFI_FEES_WITHDRAWN_TOPIC,
};

const ALL: BlockRange = BlockRange {
    start: 0,
    end: u64::MAX,
};
const FEES: FeesSpec = FeesSpec::per_thousand_blocks(904);

fn blocks(node: &EvmNode) -> impl Iterator<Item = std::sync::Arc<EvmBlock>> {
    (0..=node.head().number).map(|number| node.block(number).unwrap())
}

/// What somebody who knows the event and nothing else reads in a log.
fn decode(chain_id: u64, block: &EvmBlock, log: &Log) -> FeeRow {
    let address = |topic: usize| <[u8; 20]>::try_from(&log.topic(topic).unwrap()[12..]).unwrap();
    assert_eq!((log.topic_count(), log.data().len()), (3, 64));
    FeeRow {
        chain_id,
        block_number: block.header.number,
        log_index: log.log_index(),
        block_hash: block.hash,
        block_timestamp: block.header.timestamp,
        tx_hash: block.txs[log.tx_index() as usize].hash,
        token: address(1),
        integrator: address(2),
        integrator_fee: U256::from_be_slice(&log.data()[..32]),
        lifi_fee: U256::from_be_slice(&log.data()[32..]),
    }
}

fn decoded(node: &EvmNode) -> Vec<FeeRow> {
    let of = |block: std::sync::Arc<EvmBlock>| -> Vec<FeeRow> {
        let is_fee = |log: &&Log| {
            log.emitter() == FEES.contract && log.topic(0) == Some(&FEES_COLLECTED_TOPIC[..])
        };
        let logs = block.logs.iter().filter(is_fee);
        logs.map(|log| decode(node.chain_id(), &block, log))
            .collect()
    };
    blocks(node).flat_map(of).collect()
}

/// On a chain with nothing else, among other logs, behind a proxy, and after reorgs.
#[test]
fn the_rows_are_what_the_logs_say() {
    let crowded = EvmSpec {
        upgrade_every: 7,
        ..EvmSpec::tiny(3)
    };
    for spec in [EvmSpec::sparse(1, 0), EvmSpec::tiny(2), crowded] {
        let node = EvmNode::new(spec.with_fees(FEES), 300);
        let rows = node.fees(ALL);
        assert!(rows.len() > 200, "{}", rows.len());
        assert_eq!(rows, decoded(&node));
        let places: BTreeSet<_> = rows
            .iter()
            .map(|row| (row.tx_hash, row.log_index))
            .collect();
        assert_eq!(places.len(), rows.len());
        node.reorg(40);
        let after = node.fees(ALL);
        assert_eq!(after, decoded(&node));
        let kept = |rows: &[FeeRow]| rows.iter().filter(|row| row.block_number <= 260).count();
        assert_eq!(rows[..kept(&rows)], after[..kept(&after)]);
        assert_ne!(rows[kept(&rows)..], after[kept(&after)..]);
    }
}

#[test]
fn a_range_has_its_own_rows_and_a_chain_without_a_collector_none() {
    let node = EvmNode::new(EvmSpec::tiny(1).with_fees(FEES), 100);
    let (low, high) = (BlockRange::new(0, 50), BlockRange::new(50, 1_000));
    assert_eq!([node.fees(low), node.fees(high)].concat(), node.fees(ALL));
    assert!(EvmNode::new(EvmSpec::tiny(1), 100).fees(ALL).is_empty());
}

/// Everybody else's logs stay as they are: a seed still means the chain that it meant.
#[test]
fn a_collector_only_adds_logs() {
    let with = EvmNode::new(EvmSpec::tiny(4).with_fees(FEES), 100);
    let without = EvmNode::new(EvmSpec::tiny(4), 100);
    for (more, less) in blocks(&with).zip(blocks(&without)) {
        assert_eq!(more.logs[..less.logs.len()], less.logs[..]);
        assert_eq!(more.txs[..less.txs.len()], less.txs[..]);
    }
}

/// What a filter by address alone, or by topic alone, would take for a fee.
#[test]
fn there_are_logs_that_half_a_filter_lets_through() {
    let node = EvmNode::new(EvmSpec::sparse(5, 0).with_fees(FEES), 1_000);
    let logs: Vec<Log> = blocks(&node).flat_map(|block| block.logs.clone()).collect();
    let count = |is: &dyn Fn(&Log) -> bool| logs.iter().filter(|log| is(log)).count();
    let from_elsewhere = count(&|log| {
        log.emitter() != FEES.contract && log.topic(0) == Some(&FEES_COLLECTED_TOPIC[..])
    });
    assert!(from_elsewhere > 30, "{from_elsewhere}");
    for topic in [FEES_WITHDRAWN_TOPIC, LIFI_FEES_WITHDRAWN_TOPIC] {
        let siblings =
            count(&|log| log.emitter() == FEES.contract && log.topic(0) == Some(&topic[..]));
        assert!(siblings > 10, "{siblings}");
    }
    let several = blocks(&node).filter(|block| block.logs.len() > 1).count();
    let together = blocks(&node).any(|block| block.txs.iter().any(|tx| tx.logs.len() > 1));
    assert!(several > 100 && together, "{several} {together}");
}

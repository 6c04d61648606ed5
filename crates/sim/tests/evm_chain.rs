//! An EVM chain proves its content: hashes, blooms and receipts roots, also across reorgs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeSet;

use alloy_consensus::proofs::calculate_receipt_root;
use alloy_consensus::{Eip658Value, Receipt, ReceiptEnvelope, ReceiptWithBloom};
use alloy_primitives::{Address, B256, Bloom, Bytes, LogData, keccak256};
use alloy_rlp::Encodable as _;
use chronolith_model::{BlockRange, ChainProfile, Hash32};
use chronolith_sim::evm::{
    Era, EvmBlock, EvmNode, EvmSpec, EvmTx, FeesSpec, TxType, UPGRADED_TOPIC,
};

/// The receipt as alloy has it: the sim encodes its own.
fn envelope(block: &EvmBlock, tx: &EvmTx) -> ReceiptEnvelope {
    let log = |log: &chronolith_model::Log| alloy_primitives::Log {
        address: Address::from_slice(log.emitter()),
        data: LogData::new(
            log.topics().map(B256::from_slice).collect(),
            Bytes::copy_from_slice(log.data()),
        )
        .unwrap(),
    };
    let receipt: ReceiptWithBloom<Receipt> = Receipt {
        status: Eip658Value::Eip658(tx.succeeded),
        cumulative_gas_used: tx.cumulative_gas_used,
        logs: block.logs_of(tx).iter().map(log).collect(),
    }
    .into();
    match tx.tx_type {
        TxType::Legacy => ReceiptEnvelope::Legacy(receipt),
        TxType::DynamicFee => ReceiptEnvelope::Eip1559(receipt),
    }
}

fn check_block(block: &EvmBlock) {
    let mut rlp = Vec::new();
    block.header.encode(&mut rlp);
    assert_eq!(block.hash, Hash32(keccak256(&rlp).0));
    let receipts: Vec<_> = block.txs.iter().map(|tx| envelope(block, tx)).collect();
    assert_eq!(
        block.header.receipts_root,
        calculate_receipt_root(&receipts)
    );
    let bloom = receipts
        .iter()
        .fold(Bloom::ZERO, |bloom, receipt| bloom | *receipt.logs_bloom());
    assert_eq!(block.header.logs_bloom, bloom);
    assert!(block.header.gas_used <= block.header.gas_limit);
    ChainProfile::EVM.check(&block.to_model(), true).unwrap();
}

fn check_chain(node: &EvmNode) {
    let mut parent = B256::ZERO;
    for number in 0..=node.head().number {
        let block = node.block(number).unwrap();
        check_block(&block);
        assert_eq!(
            (block.header.number, block.header.parent_hash),
            (number, parent)
        );
        assert_eq!(node.by_hash(block.hash), Some(block.clone()));
        parent = B256::new(block.hash.0);
    }
    assert_eq!(node.block(node.head().number + 1), None);
}

#[test]
fn headers_commit_to_their_content_in_every_era() {
    for era in [Era::London, Era::Cancun, Era::Prague] {
        let node = EvmNode::new(
            EvmSpec {
                era,
                ..EvmSpec::tiny(1)
            },
            60,
        );
        check_chain(&node);
    }
    check_chain(&EvmNode::new(EvmSpec::mainnet(2), 5));
    let fees = FeesSpec::per_thousand_blocks(3_000);
    check_chain(&EvmNode::new(EvmSpec::tiny(2).with_fees(fees), 60));
}

#[test]
fn a_chain_has_every_odd_case() {
    let node = EvmNode::new(EvmSpec::tiny(3), 200);
    let blocks: Vec<_> = (1..=200)
        .map(|number| node.block(number).unwrap())
        .collect();
    let txs = || blocks.iter().flat_map(|block| &block.txs);
    assert!(blocks.iter().any(|block| block.txs.is_empty()));
    assert!(blocks.iter().any(|block| block.logs.len() >= 300));
    assert!(
        blocks
            .windows(2)
            .any(|pair| pair[0].header.timestamp == pair[1].header.timestamp)
    );
    assert!(txs().any(|tx| tx.tx_type == TxType::Legacy));
    assert!(txs().any(|tx| tx.tx_type == TxType::DynamicFee));
    assert!(txs().any(|tx| !tx.succeeded) && txs().any(|tx| tx.to.is_none()));
}

#[test]
fn the_seed_decides_everything() {
    let head = |spec| EvmNode::new(spec, 20).head();
    assert_eq!(head(EvmSpec::tiny(1)), head(EvmSpec::tiny(1)));
    assert_ne!(head(EvmSpec::tiny(1)), head(EvmSpec::tiny(2)));
    let same_content = EvmSpec {
        seed: 9,
        ..EvmSpec::tiny(1)
    };
    assert_ne!(head(EvmSpec::tiny(1)), head(same_content));
}

#[test]
fn a_reorg_replaces_hashes_and_the_old_ones_are_unknown() {
    let node = EvmNode::new(EvmSpec::tiny(4), 50);
    let hashes = |node: &EvmNode, range: std::ops::Range<u64>| -> Vec<Hash32> {
        range
            .map(|number| node.block(number).unwrap().hash)
            .collect()
    };
    let (kept, old) = (hashes(&node, 0..46), hashes(&node, 46..51));
    let head = node.reorg(5);
    assert_eq!((head.number, node.head()), (51, head));
    assert_eq!(hashes(&node, 0..46), kept);
    let new: BTreeSet<_> = hashes(&node, 46..52).into_iter().collect();
    for hash in old {
        assert!(!new.contains(&hash));
        assert_eq!(node.by_hash(hash), None);
    }
    check_chain(&node);
    // Again and deeper, and down to block 0, which stays.
    node.reorg(20);
    node.reorg(1_000);
    assert_eq!(node.head().number, 53);
    assert_eq!(node.block(0).unwrap().hash, kept[0]);
    check_chain(&node);
}

#[test]
fn a_rollback_goes_down_and_comes_back() {
    let node = EvmNode::new(EvmSpec::tiny(5), 30);
    let before = node.head();
    assert_eq!(node.rollback(10).number, 20);
    assert_eq!(node.by_hash(before.hash), None);
    assert_eq!(node.mine(10), before);
    assert_eq!(node.rollback(1_000).number, 0);
}

#[test]
fn tags_are_arithmetic() {
    let node = EvmNode::new(EvmSpec::tiny(6), 100);
    assert_eq!((node.finalized().number, node.safe().number), (36, 68));
    node.set_finalized_depth(10);
    assert_eq!((node.finalized().number, node.safe().number), (90, 95));
    node.set_finalized_depth(1_000);
    assert_eq!(node.finalized().number, 0);
}

#[test]
fn a_quarter_of_a_million_sparse_blocks_are_quickly_there() {
    let node = EvmNode::new(EvmSpec::sparse(7, 120), 250_000);
    assert_eq!(node.head().number, 250_000);
    let oracle = node.oracle(BlockRange::new(0, 10_000));
    let logs: usize = oracle.blocks().map(|block| block.logs.len()).sum();
    assert!((1_000..1_400).contains(&logs), "{logs}");
    check_block(&node.block(250_000).unwrap());
}

/// A proxy tells of its upgrades, headers commit to that too, and a reorg may change what it is
/// upgraded to.
#[test]
fn a_proxy_is_upgraded_now_and_then() {
    let spec = EvmSpec {
        upgrade_every: 20,
        ..EvmSpec::tiny(8)
    };
    let node = EvmNode::new(spec, 60);
    let upgrades = |node: &EvmNode| -> Vec<(u64, Vec<u8>)> {
        let blocks = (0..=node.head().number).map(|number| node.block(number).unwrap());
        let of = |block: std::sync::Arc<EvmBlock>| {
            let upgrade =
                |log: &&chronolith_model::Log| log.topics().next() == Some(&UPGRADED_TOPIC[..]);
            let to = block.logs.iter().find(upgrade);
            to.map(|log| (block.header.number, log.topics().nth(1).unwrap().to_vec()))
        };
        blocks.filter_map(of).collect()
    };
    let before = upgrades(&node);
    let numbers: Vec<u64> = before.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 20, 40, 60]);
    check_chain(&node);
    node.reorg(5);
    let after = upgrades(&node);
    assert_eq!(before[..3], after[..3]);
    assert_ne!(before[3], after[3]);
    check_chain(&node);
    let quiet = EvmSpec {
        upgrade_every: 20,
        ..EvmSpec::sparse(8, 0)
    };
    assert_eq!(upgrades(&EvmNode::new(quiet, 40)).len(), 3);
}

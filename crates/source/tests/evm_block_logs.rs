//! Logs of no transaction, under the block's own hash (Celo before it became a rollup): proven as far as
//! all others, and in a form that an archive takes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use chronolith_model::{
    BlockRange, ChainProfile, Dataset, DatasetSet, Proof, Scope, ScopeEntry, Verification,
};
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions, RpcServer};
use chronolith_source::evm::{
    Checks, EvmSettings, EvmSource, Oddity, RangeSettings, Strategy, Tags,
};
use chronolith_source::{EndpointSettings, Fetched, Source, Want};

const BLOCKS: u64 = 40;

fn node() -> EvmNode {
    let spec = EvmSpec {
        own_logs_every: 3,
        ..EvmSpec::tiny(71)
    };
    EvmNode::new(spec, BLOCKS)
}

async fn fetch(node: &EvmNode, strategy: Strategy, want: &Want) -> Vec<Fetched> {
    fetch_with(RpcOptions::default(), node, strategy, want).await
}

async fn fetch_with(
    options: RpcOptions,
    node: &EvmNode,
    strategy: Strategy,
    want: &Want,
) -> Vec<Fetched> {
    let server = RpcServer::start(node.clone(), options);
    let server = server.await.unwrap();
    let source = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy,
        checks: Checks {
            oddity: Oddity::BlockReceipt,
            ..Checks::ALL
        },
        ranges: RangeSettings::default(),
    });
    let range = BlockRange::new(0, BLOCKS);
    source.unwrap().fetch(range, want, None).await.unwrap()
}

fn want(datasets: &[Dataset], scope: Scope) -> Want {
    Want {
        datasets: DatasetSet::of(datasets),
        scope,
        proof: Proof::CLAIMED,
    }
}

/// With all transactions listed, the block itself was not, and its logs named what was not there: no
/// archive took such a block.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_with_logs_of_its_own_is_listed_behind_its_transactions() {
    let node = node();
    let hashes = [Dataset::Logs, Dataset::TxHashes];
    let whole = [Dataset::Logs, Dataset::TxHashes, Dataset::Transactions];
    for (strategy, level) in [
        (Strategy::Receipts, Verification::Roots),
        (Strategy::Logs, Verification::Bloom),
    ] {
        for datasets in [&hashes[..], &whole[..]] {
            let fetched = fetch(&node, strategy, &want(datasets, Scope::All)).await;
            assert_eq!(fetched.len() as u64, BLOCKS);
            let mut own = 0;
            for one in &fetched {
                let number = one.block.clock.number;
                let expected = node.block(number).unwrap().to_model();
                assert_eq!(one.block.txs, expected.txs, "block {number}");
                assert_eq!(one.block.logs, expected.logs, "block {number}");
                ChainProfile::EVM.check(&one.block, true).unwrap();
                assert!(one.proof.logs() >= level, "block {number}: {:?}", one.proof);
                assert_eq!(one.proof.txs(), Verification::Roots, "block {number}");
                let listed = one.block.txs.iter();
                own += listed.filter(|tx| tx.is_block(&one.block.clock)).count();
            }
            assert_eq!(own as u64, (BLOCKS - 1) / 3);
        }
    }
}

/// A scope that leaves the block's own logs out leaves its entry out too.
#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_scope_lists_the_block_only_with_its_logs() {
    let node = node();
    let of_block = node.block(3).unwrap();
    let own = of_block.logs.last().unwrap().emitter().to_vec();
    for (emitter, listed) in [(own, (BLOCKS - 1) / 3), (vec![1; 20], 0)] {
        let scope = Scope::Only(vec![ScopeEntry {
            emitter: Some(emitter.into()),
            topic0: None,
        }]);
        let want = want(&[Dataset::Logs, Dataset::TxHashes], scope);
        let fetched = fetch(&node, Strategy::Receipts, &want).await;
        let with_own = fetched.iter().filter(|one| {
            let clock = &one.block.clock;
            one.block.txs.iter().any(|tx| tx.is_block(clock))
        });
        assert_eq!(with_own.count() as u64, listed);
        for one in &fetched {
            ChainProfile::EVM.check(&one.block, false).unwrap();
        }
    }
}

/// Old nodes leave the block's receipt out. Both rules that it fails would be dropped, and the logs lost.
#[tokio::test(flavor = "multi_thread")]
async fn logs_of_a_block_whose_own_receipt_is_left_out_come_by_logs() {
    let node = node();
    let faults = Faults::new(1);
    faults.always(RpcFault::NoBlockReceipt);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let want = want(&[Dataset::Logs, Dataset::TxHashes], Scope::All);
    let fetched = fetch_with(options, &node, Strategy::Receipts, &want).await;
    assert_eq!(fetched.len() as u64, BLOCKS);
    assert!(faults.injected().values().sum::<u64>() > 0);
    for one in &fetched {
        let number = one.block.clock.number;
        let expected = node.block(number).unwrap().to_model();
        assert_eq!(one.block.logs, expected.logs, "block {number}");
        assert_eq!(one.block.txs, expected.txs, "block {number}");
        assert!(one.proof.logs() >= Verification::Bloom, "block {number}");
        assert_eq!(one.proof.txs(), Verification::Roots, "block {number}");
    }
}

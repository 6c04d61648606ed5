//! Levels that say no more than was proven, and no less than an endpoint can show.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Scope, Verification};
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcOptions, RpcServer};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{EndpointSettings, Fetched, Source, Want, checks_of};

/// No chain of the table.
const UNKNOWN: u64 = 31_337;

fn source(servers: &[&RpcServer], strategy: Strategy, checks: Checks) -> EvmSource {
    let endpoint = |server: &&RpcServer| EndpointSettings::new(&server.url());
    EvmSource::new(EvmSettings {
        chain_id: UNKNOWN,
        endpoints: servers.iter().map(endpoint).collect(),
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy,
        checks,
        ranges: RangeSettings::default(),
    })
    .unwrap()
}

async fn serve(node: &EvmNode, faults: &Faults) -> RpcServer {
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    RpcServer::start(node.clone(), options).await.unwrap()
}

fn want() -> Want {
    Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        proof: Proof::CLAIMED,
    }
}

async fn one(source: &EvmSource, number: u64) -> Fetched {
    let fetched = source.fetch(BlockRange::one(number), &want(), None).await;
    fetched.unwrap().remove(0)
}

/// The first block from a number on that has transactions, and logs or not.
fn found(node: &EvmNode, from: u64, logs: bool) -> u64 {
    let mut numbers = from..=node.head().number;
    let fits = |number: &u64| {
        let block = node.block(*number).unwrap();
        !block.txs.is_empty() && block.logs.is_empty() != logs
    };
    numbers.find(fits).unwrap()
}

/// A chain that never fills its blooms has a bloom without bits in every block. By it a block without logs
/// was called proven, whoever left them out.
#[tokio::test(flavor = "multi_thread")]
async fn a_bloom_without_bits_proves_nothing_where_blooms_may_be_unfilled() {
    let spec = EvmSpec {
        blooms_unfilled: true,
        ..EvmSpec::tiny(81)
    };
    let node = EvmNode::new(spec, 60);
    let server = serve(&node, &Faults::new(1)).await;
    let quiet = found(&node, 1, false);
    let unknown = checks_of(UNKNOWN);
    let logs = source(&[&server], Strategy::Logs, unknown);
    assert_eq!(one(&logs, quiet).await.proof.logs(), Verification::Linked);
    // Roots of nothing say that there is nothing: block 0 has neither transactions nor receipts.
    assert_eq!(one(&logs, 0).await.proof.logs(), Verification::Bloom);
    let receipts = source(&[&server], Strategy::Receipts, unknown);
    assert_eq!(one(&receipts, quiet).await.proof, Proof::ROOTS);
    // A chain that is known to fill them, or an operator who says so.
    let known = source(&[&server], Strategy::Logs, Checks::ALL);
    assert_eq!(one(&known, quiet).await.proof.logs(), Verification::Bloom);
}

/// On a chain that fills its blooms, only the blocks before the first log are in doubt.
#[tokio::test(flavor = "multi_thread")]
async fn a_filled_bloom_vouches_for_the_empty_ones_above_it() {
    let node = EvmNode::new(EvmSpec::tiny(81), 60);
    let server = serve(&node, &Faults::new(1)).await;
    let filled = found(&node, 20, true);
    let (below, above) = (found(&node, 1, false), found(&node, filled, false));
    assert!(below < filled && filled < above);
    let source = source(&[&server], Strategy::Logs, checks_of(UNKNOWN));
    let level = async |number| one(&source, number).await.proof.logs();
    assert_eq!(level(above).await, Verification::Linked, "nothing was seen");
    assert_eq!(level(filled).await, Verification::Bloom);
    assert_eq!(level(above).await, Verification::Bloom);
    assert_eq!(
        level(below).await,
        Verification::Linked,
        "below what was seen"
    );
}

//! Levels that say no more than was proven, and no less than an endpoint can show.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Scope, Verification};
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions, RpcServer};
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

fn named(fetched: &Fetched, server: &RpcServer) -> bool {
    server.url().contains(&*fetched.endpoint)
}

/// After a rule was dropped, whatever the first endpoint said was taken, though the second could prove
/// what the first had altered.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_fails_a_dropped_rule_comes_from_an_endpoint_that_proves_it() {
    let node = EvmNode::new(EvmSpec::tiny(82), 200);
    let lies = [Faults::new(1), Faults::new(2)];
    lies.iter()
        .for_each(|faults| faults.always(RpcFault::ChangedData));
    let servers = [serve(&node, &lies[0]).await, serve(&node, &lies[1]).await];
    let both = [&servers[0], &servers[1]];
    let source = source(&both, Strategy::Receipts, Checks::ALL);
    // Both show the same other data, so that the rule counts as wrong.
    let dropped = one(&source, found(&node, 1, true)).await;
    assert!(named(&dropped, both[0]));
    assert_eq!(dropped.proof.logs(), Verification::Bloom);
    lies[1].set(RpcFault::ChangedData, 0);
    let number = found(&node, 50, true);
    let proven = one(&source, number).await;
    assert!(named(&proven, both[1]), "{}", proven.endpoint);
    assert_eq!(proven.proof, Proof::ROOTS);
    assert_eq!(proven.block.logs, node.block(number).unwrap().logs);
    let reports = source.endpoints();
    assert!(
        reports[0].backing_off && !reports[1].backing_off,
        "{reports:?}"
    );
}

/// Where no endpoint proves more, the first one's word stands, and the others are not asked forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_no_endpoint_keeps_costs_few_questions() {
    let node = EvmNode::new(EvmSpec::tiny(83), 200);
    let lies = Faults::new(1);
    lies.always(RpcFault::ChangedData);
    let servers = [serve(&node, &lies).await, serve(&node, &lies).await];
    let both = [&servers[0], &servers[1]];
    let source = source(&both, Strategy::Receipts, Checks::ALL);
    let requested = |server: &RpcServer| {
        let calls = server.stats().calls;
        calls
            .get("eth_getBlockReceipts")
            .copied()
            .unwrap_or_default()
    };
    let mut number = 1;
    for _ in 0..20 {
        number = found(&node, number + 1, true);
        let fetched = one(&source, number).await;
        assert!(named(&fetched, both[0]));
        assert_eq!(fetched.proof.logs(), Verification::Bloom);
    }
    assert!(requested(both[0]) >= 20);
    // One to drop the rule, three in vain.
    assert_eq!(requested(both[1]), 4);
}

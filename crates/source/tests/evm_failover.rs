//! What one endpoint cannot do is done by another: which is asked, how often, and what is told when
//! none can.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use chronolith_model::{BlockRange, Dataset, DatasetSet, ErrorKind, Proof, Scope, Verification};
use chronolith_sim::evm::{EvmNode, EvmSpec, MissingMethod, RpcOptions, RpcServer};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{EndpointSettings, Fetched, Source, Want};

const BLOCKS: u64 = 60;

fn want(level: Verification) -> Want {
    Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        proof: Proof::demanded(level),
    }
}

fn source(servers: &[&RpcServer], strategy: Strategy) -> EvmSource {
    let endpoint = |server: &&RpcServer| EndpointSettings::new(&server.url());
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: servers.iter().map(endpoint).collect(),
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    })
    .unwrap()
}

async fn without(node: &EvmNode, methods: &[&str]) -> RpcServer {
    let missing = |name: &&str| MissingMethod {
        name: (*name).to_owned(),
        code: -32601,
    };
    let options = RpcOptions {
        missing_methods: methods.iter().map(missing).collect(),
        ..RpcOptions::default()
    };
    RpcServer::start(node.clone(), options).await.unwrap()
}

fn calls(server: &RpcServer, method: &str) -> u64 {
    let calls = server.stats().calls;
    calls.get(method).copied().unwrap_or_default()
}

#[track_caller]
fn assert_from(fetched: &[Fetched], server: &RpcServer, level: Verification) {
    assert_eq!(fetched.len(), 40);
    for one in fetched {
        assert!(server.url().contains(&*one.endpoint), "{}", one.endpoint);
        assert_eq!(one.proof.logs(), level);
    }
}

/// An endpoint without the logs of a range cannot be asked another way for them: it was asked again
/// and again, and the one beside it that has them never was.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_logs_leaves_them_to_one_that_has_them() {
    let node = EvmNode::new(EvmSpec::tiny(1), BLOCKS);
    let lacking = without(&node, &["eth_getBlockReceipts", "eth_getLogs"]).await;
    let well = without(&node, &["eth_getBlockReceipts"]).await;
    let source = source(&[&lacking, &well], Strategy::Receipts);
    let range = BlockRange::new(0, 40);
    let want = want(Verification::Bloom);
    let fetched = source.fetch_some(range, &want, None).await.unwrap();
    assert_from(&fetched, &well, Verification::Bloom);
    assert_eq!(calls(&lacking, "eth_getLogs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_nobody_has_is_told_at_once() {
    let node = EvmNode::new(EvmSpec::tiny(2), BLOCKS);
    let one = without(&node, &["eth_getLogs"]).await;
    let two = without(&node, &["eth_getLogs"]).await;
    let source = source(&[&one, &two], Strategy::Logs);
    let want = want(Verification::Bloom);
    let fetched = source.fetch(BlockRange::new(0, 40), &want, None).await;
    let error = fetched.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("eth_getLogs"), "{error}");
    let asked = [&one, &two].map(|server| calls(server, "eth_getLogs"));
    assert_eq!(asked, [1, 1]);
}

/// What the preferred endpoint proves is too little: the next one may prove enough.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_proves_too_little_is_passed_over() {
    let node = EvmNode::new(EvmSpec::tiny(3), BLOCKS);
    let weak = without(&node, &["eth_getBlockReceipts"]).await;
    let strong = without(&node, &[]).await;
    let range = BlockRange::new(0, 40);
    let want = want(Verification::Receipts);
    let both = source(&[&weak, &strong], Strategy::Receipts);
    let fetched = both.fetch(range, &want, None).await.unwrap();
    assert_from(&fetched, &strong, Verification::Roots);
    let said = both.endpoints()[0].last_error.clone().unwrap_or_default();
    assert!(said.contains("as far as is wanted"), "{said}");
    // Asking once more would prove no more.
    let before = calls(&weak, "eth_getLogs");
    let alone = source(&[&weak], Strategy::Receipts);
    let error = alone.fetch_some(range, &want, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("as far as is wanted"), "{error}");
    assert_eq!(calls(&weak, "eth_getLogs") - before, 1);
}

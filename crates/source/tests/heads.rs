//! Where a chain stands, asked of simulated nodes: what it costs, and what nodes refuse.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Scope, Verification};
use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::portal::{PortalSettings, PortalSource};
use chronolith_source::{EndpointSettings, Heads, Source, Subscription, Want};

const SAFE: Tags = Tags {
    finalized: false,
    safe: true,
};

fn want(datasets: &[Dataset]) -> Want {
    Want {
        datasets: DatasetSet::of(datasets),
        scope: Scope::All,
        proof: Proof::of_logs(Verification::Receipts),
    }
}

fn source(server: &RpcServer, tags: Tags) -> EvmSource {
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags,
        strategy: Strategy::Receipts,
        // The transactions root would take whole transactions, which no header holds.
        checks: Checks::ALL.up_to(Verification::Receipts),
        ranges: RangeSettings {
            most: 10,
            ..RangeSettings::default()
        },
    })
    .unwrap()
}

async fn serve(node: &EvmNode, options: RpcOptions) -> RpcServer {
    RpcServer::start(node.clone(), options).await.unwrap()
}

/// What the node is asked for while `asking`, in requests and in calls for blocks.
async fn asked<T>(server: &RpcServer, asking: impl Future<Output = T>) -> (T, u64, u64) {
    let count = || {
        let stats = server.stats();
        let blocks = stats.calls.get("eth_getBlockByNumber");
        (stats.http_requests, blocks.copied().unwrap_or_default())
    };
    let before = count();
    let answer = asking.await;
    let after = count();
    (answer, after.0 - before.0, after.1 - before.1)
}

fn heads_of(node: &EvmNode, tags: Tags) -> Heads {
    Heads {
        head: node.head(),
        finalized: tags.finalized.then(|| node.finalized()),
        safe: tags.safe.then(|| node.safe()),
    }
}

/// Only the tags that are needed, all in one request.
#[tokio::test(flavor = "multi_thread")]
async fn heads_are_one_request_for_no_more_than_is_needed() {
    let node = EvmNode::new(EvmSpec::tiny(1), 200);
    let server = serve(&node, RpcOptions::default()).await;
    for (tags, calls) in [(Tags::NONE, 1), (SAFE, 2), (Tags::ALL, 3)] {
        let source = source(&server, tags);
        source.identity().await.unwrap();
        for _ in 0..3 {
            node.mine(1);
            let (heads, requests, blocks) = asked(&server, source.heads()).await;
            assert_eq!(heads.unwrap(), heads_of(&node, tags));
            assert_eq!((requests, blocks), (1, calls), "{tags:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_refuse_batches_or_tags_are_queried_without_them() {
    let node = EvmNode::new(EvmSpec::tiny(2), 200);
    let single = RpcOptions {
        no_batches: true,
        ..RpcOptions::default()
    };
    let server = serve(&node, single).await;
    let whole = source(&server, Tags::ALL);
    whole.identity().await.unwrap();
    // The first time the batch is tried; from then on each tag alone.
    for requests in [4, 3, 3] {
        let (heads, asked, _) = asked(&server, whole.heads()).await;
        assert_eq!(heads.unwrap(), heads_of(&node, Tags::ALL));
        assert_eq!(asked, requests);
    }
    let untagged = RpcOptions {
        no_tags: true,
        ..RpcOptions::default()
    };
    let server = serve(&node, untagged).await;
    let heads = source(&server, Tags::ALL).heads().await.unwrap();
    assert_eq!(heads, heads_of(&node, Tags::NONE));
}

/// A node that serves WebSocket but no subscriptions answered pings forever: the second endpoint was
/// never tried, and nothing was logged.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_refuses_the_subscription_is_followed_by_the_next() {
    let node = EvmNode::new(EvmSpec::tiny(9), 20);
    let refusing = RpcOptions {
        missing_methods: vec![MissingMethod {
            name: "eth_subscribe".to_owned(),
            code: -32601,
        }],
        ..RpcOptions::default()
    };
    let (refuses, tells) = (
        serve(&node, refusing).await,
        serve(&node, RpcOptions::default()).await,
    );
    let source = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&tells.url())],
        heads: vec![refuses.ws_url(), tells.ws_url()],
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let mut hints = source.hints();
    let connected = async {
        while source.subscription() != Subscription::Connected {
            hints.changed().await.unwrap();
        }
    };
    let within = tokio::time::timeout(std::time::Duration::from_secs(20), connected);
    tokio::select! {
        () = source.listen() => unreachable!("it listens forever"),
        connected = within => connected.expect("the second endpoint was not tried"),
    }
    assert_eq!(refuses.stats().calls["eth_subscribe"], 1);
}

/// A batch that several nodes answered may hold a newest block below the finalized one. In order
/// there is none; a node that insists is not believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_finalized_block_above_the_newest_is_requested_again() {
    let node = EvmNode::new(EvmSpec::tiny(3), 200);
    node.set_finalized_depth(0);
    let faults = Faults::new(1);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = serve(&node, options).await;
    let source = source(&server, Tags::ALL);
    faults.set(RpcFault::HeadRegression, 500_000);
    for _ in 0..10 {
        assert_eq!(source.heads().await.unwrap(), heads_of(&node, Tags::ALL));
    }
    assert!(faults.injected()["head_regression"] > 0);
}

/// Following one block: its heads, and its receipts. The header is not asked for twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_block_is_two_requests_and_its_header_one_call() {
    let node = EvmNode::new(EvmSpec::mainnet(4), 30);
    let server = serve(&node, RpcOptions::default()).await;
    let datasets = [Dataset::Headers, Dataset::Logs, Dataset::TxHashes];
    let source = source(&server, Tags::NONE);
    source.identity().await.unwrap();
    for _ in 0..5 {
        let head = node.mine(1);
        let follow = async {
            let heads = source.heads().await.unwrap();
            let range = BlockRange::one(heads.head.number);
            source.fetch(range, &want(&datasets), None).await.unwrap()
        };
        let (fetched, requests, blocks) = asked(&server, follow).await;
        assert_eq!((requests, blocks), (2, 1));
        assert_eq!(fetched.len(), 1);
        assert_eq!(fetched[0].block.clock.hash, head.hash);
        assert_eq!(fetched[0].proof.logs(), Verification::Receipts);
        let whole = node.block(head.number).unwrap().to_model();
        assert_eq!(fetched[0].block.logs, whole.logs);
        assert_eq!(fetched[0].block.txs, whole.txs);
    }
    // Whole transactions are not in a header.
    node.mine(1);
    let head = source.heads().await.unwrap().head;
    let whole = want(&[Dataset::TxHashes, Dataset::Transactions, Dataset::Logs]);
    let fetched = source.fetch(BlockRange::one(head.number), &whole, None);
    let (fetched, _, blocks) = asked(&server, fetched).await;
    assert_eq!(blocks, 1);
    assert!(fetched.unwrap()[0].block.payload.bodies.is_some());
}

/// A header that was kept is never served for a block that took its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_block_is_not_served_from_its_kept_header() {
    let node = EvmNode::new(EvmSpec::tiny(5), 30);
    let server = serve(&node, RpcOptions::default()).await;
    let source = source(&server, Tags::NONE);
    let mut with_transactions = 0;
    for _ in 0..20 {
        let before = source.heads().await.unwrap().head;
        with_transactions += usize::from(!node.block(before.number).unwrap().txs.is_empty());
        node.reorg(1);
        let range = BlockRange::one(before.number);
        let fetched = source.fetch(range, &want(&[Dataset::Logs]), None).await;
        let hash = fetched.unwrap()[0].block.clock.hash;
        assert_ne!(hash, before.hash);
        assert_eq!(
            Some(hash),
            node.block(before.number).map(|block| block.hash)
        );
    }
    assert!(with_transactions > 5, "{with_transactions}");
    assert_eq!(source.endpoints()[0].inconsistencies, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_syncing_says_so() {
    let node = EvmNode::new(EvmSpec::tiny(6), 10);
    let faults = Faults::new(1);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = serve(&node, options).await;
    let source_of = |server: &RpcServer| source(server, Tags::NONE);
    let source = source_of(&server);
    let name = source.endpoints()[0].name.clone();
    assert!(!source.syncing(&name).await.unwrap());
    faults.always(RpcFault::Syncing);
    assert!(source.syncing(&name).await.unwrap());
    assert!(source.syncing("elsewhere").await.is_err());
    let missing = MissingMethod {
        name: "eth_syncing".to_owned(),
        code: -32601,
    };
    let options = RpcOptions {
        missing_methods: vec![missing],
        ..RpcOptions::default()
    };
    let server = serve(&node, options).await;
    let source = source_of(&server);
    let name = source.endpoints()[0].name.clone();
    assert!(!source.syncing(&name).await.unwrap());
    // Whether it is syncing is not known where it does not answer.
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    faults.always(RpcFault::Http500);
    let server = serve(&node, options).await;
    let source = source_of(&server);
    let name = source.endpoints()[0].name.clone();
    assert!(source.syncing(&name).await.is_err());
}

/// Settings and sources may be printed: no URL is in it.
#[test]
fn no_url_is_printed() {
    let settings = EvmSettings {
        chain_id: 1,
        endpoints: vec![EndpointSettings::new(
            "https://user:SECRET@one.example/v3/SECRET",
        )],
        heads: vec!["wss://two.example/ws/SECRET".to_owned()],
        tags: Tags::ALL,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings {
            most: 10,
            ..RangeSettings::default()
        },
    };
    let portal = PortalSettings::new("https://three.example/SECRET/datasets/x", 1);
    let shown = format!("{settings:?} {portal:?}");
    assert!(shown.contains("chain_id: 1"), "{shown}");
    let source = EvmSource::new(settings).unwrap();
    let portal = PortalSource::new(portal).unwrap();
    let shown = format!("{shown} {source:?} {portal:?}");
    assert!(shown.contains("one.example"), "{shown}");
    for hidden in ["SECRET", "wss:", "https:", "two.example"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
}

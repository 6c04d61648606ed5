//! What one endpoint cannot do is done by another: which is asked, how often, and what is told when
//! none can.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::HashMap;

use chronolith_model::{
    BlockRange, Dataset, DatasetSet, ErrorKind, Log, Proof, Scope, ScopeEntry, Verification,
};
use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
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
        endpoints: servers.iter().map(endpoint).collect(),
        strategy,
        ..settings()
    })
    .unwrap()
}

fn settings() -> EvmSettings {
    EvmSettings {
        chain_id: 31_337,
        endpoints: Vec::new(),
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    }
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
async fn a_method_that_no_endpoint_has_is_reported_at_once() {
    let node = EvmNode::new(EvmSpec::tiny(2), BLOCKS);
    let one = without(&node, &["eth_getLogs"]).await;
    let two = without(&node, &["eth_getLogs"]).await;
    let source = source(&[&one, &two], Strategy::Logs);
    let want = want(Verification::Bloom);
    let fetched = source.fetch(BlockRange::new(0, 40), &want, None).await;
    let error = fetched.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("eth_getLogs"), "{error}");
    let requested = [&one, &two].map(|server| calls(server, "eth_getLogs"));
    assert_eq!(requested, [1, 1]);
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
    // It is not even asked for what it cannot prove.
    assert_eq!(calls(&weak, "eth_getLogs"), 0);
    // Asking once more would prove no more.
    let before = calls(&weak, "eth_getLogs");
    let alone = source(&[&weak], Strategy::Receipts);
    let error = alone.fetch_some(range, &want, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("as far as is wanted"), "{error}");
    assert_eq!(calls(&weak, "eth_getLogs") - before, 1);
}

/// Whoever denied receipts chose to be checked less: logs came from it although the endpoint beside it
/// could prove them, and `data` is in no bloom.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_receipts_is_passed_over_while_another_has_them() {
    let node = EvmNode::new(EvmSpec::tiny(4), BLOCKS);
    let weak = without(&node, &["eth_getBlockReceipts"]).await;
    let strong = without(&node, &[]).await;
    let range = BlockRange::new(0, 40);
    let want = want(Verification::Claimed);
    let both = source(&[&weak, &strong], Strategy::Receipts);
    let fetched = both.fetch(range, &want, None).await.unwrap();
    assert!(
        fetched
            .iter()
            .all(|one| one.proof.logs() >= Verification::Receipts)
    );
    assert_eq!(calls(&weak, "eth_getLogs"), 0);
    // Alone it is believed as far as the bloom goes, which is stored and told.
    let alone = source(&[&weak], Strategy::Receipts);
    let fetched = alone.fetch(range, &want, None).await.unwrap();
    assert!(
        fetched
            .iter()
            .all(|one| one.proof.logs() == Verification::Bloom)
    );
}

/// The emitter with the most logs.
fn busiest(node: &EvmNode) -> Scope {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    for number in 0..=BLOCKS {
        for log in node.block(number).unwrap().to_model().logs {
            *counts.entry(log.emitter().to_vec()).or_default() += 1;
        }
    }
    let (emitter, _) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap();
    Scope::only(vec![ScopeEntry {
        emitter: Some(emitter.into()),
        topic0: None,
    }])
}

/// Logs of the scope that came, and those that there are.
fn kept(node: &EvmNode, scope: &Scope, fetched: &[Fetched]) -> (usize, usize) {
    let there = fetched.iter().map(|one| {
        let block = node.block(one.block.clock.number).unwrap().to_model();
        let admitted = |log: &&Log| scope.admits(log.emitter(), log.topic(0));
        block.logs.iter().filter(admitted).count()
    });
    let came = fetched.iter().map(|one| one.block.logs.len()).sum();
    (came, there.sum())
}

/// An endpoint that denies receipts and finds no logs, once the fault is on.
async fn emptying(node: &EvmNode) -> RpcServer {
    let faults = Faults::new(1);
    faults.always(RpcFault::EmptyLogs);
    let options = RpcOptions {
        missing_methods: vec![MissingMethod {
            name: "eth_getBlockReceipts".to_owned(),
            code: -32601,
        }],
        faults,
        ..RpcOptions::default()
    };
    RpcServer::start(node.clone(), options).await.unwrap()
}

/// The first endpoint denied receipts and found nothing: the whole chain was archived without a log,
/// while the second one had them all.
#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_scope_is_not_emptied_by_an_endpoint_that_cannot_show_receipts() {
    let node = EvmNode::new(EvmSpec::tiny(5), BLOCKS);
    let (liar, honest) = (emptying(&node).await, without(&node, &[]).await);
    let scope = busiest(&node);
    let want = Want {
        scope: scope.clone(),
        ..want(Verification::Claimed)
    };
    let range = BlockRange::new(0, BLOCKS + 1);
    for anchor in [None, Some(node.head())] {
        let both = source(&[&liar, &honest], Strategy::Receipts);
        let fetched = both.fetch(range, &want, anchor).await.unwrap();
        let (came, there) = kept(&node, &scope, &fetched);
        assert!(there > 0);
        assert_eq!(came, there);
    }
    // Alone it is waited for, and the error says what to do.
    let alone = source(&[&liar], Strategy::Receipts);
    let error = alone.fetch(range, &want, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for part in ["eth_getBlockReceipts", "verification to linked"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // Unless the settings say in so many words that links are enough.
    let linked = Want {
        proof: Proof::LINKED,
        ..want
    };
    let taken = alone.fetch(range, &linked, None).await.unwrap();
    assert_eq!(kept(&node, &scope, &taken).0, 0);
    assert!(
        taken
            .iter()
            .all(|one| one.proof.logs() <= Verification::Linked)
    );
}

/// Where no endpoint has receipts, two must call a block empty that its bloom does not clear.
#[tokio::test(flavor = "multi_thread")]
async fn two_endpoints_without_receipts_confirm_each_other() {
    let node = EvmNode::new(EvmSpec::tiny(6), BLOCKS);
    let scope = busiest(&node);
    let want = Want {
        scope: scope.clone(),
        ..want(Verification::Claimed)
    };
    let range = BlockRange::new(0, BLOCKS + 1);
    let lacking = ["eth_getBlockReceipts"];
    let (one, two) = (
        without(&node, &lacking).await,
        without(&node, &lacking).await,
    );
    let both = source(&[&one, &two], Strategy::Receipts);
    let fetched = both.fetch(range, &want, Some(node.head())).await.unwrap();
    let (came, there) = kept(&node, &scope, &fetched);
    assert_eq!(came, there);
    // One of them lies: its word alone empties nothing.
    let liar = emptying(&node).await;
    let both = source(&[&liar, &one], Strategy::Receipts);
    match both.fetch(range, &want, Some(node.head())).await {
        Ok(fetched) => {
            let (came, there) = kept(&node, &scope, &fetched);
            assert_eq!(came, there);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
}

/// Three endpoints of one chain id, of which the first was on another chain: it alone was asked.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_with_another_genesis_is_passed_over_and_named() {
    let (node, foreign) = (
        EvmNode::new(EvmSpec::tiny(7), BLOCKS),
        EvmNode::new(EvmSpec::tiny(8), BLOCKS),
    );
    let (wrong, right) = (without(&foreign, &[]).await, without(&node, &[]).await);
    let genesis = node.block(0).unwrap().hash;
    let both = source(&[&wrong, &right], Strategy::Receipts);
    // Nothing says which is right: both are named.
    let error = both.identity().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for server in [&wrong, &right] {
        let name = server.url();
        let name = name.trim_start_matches("http://").trim_end_matches('/');
        assert!(error.to_string().contains(name), "{error}");
    }
    let both = source(&[&wrong, &right], Strategy::Receipts);
    both.expect_genesis(genesis);
    assert_eq!(both.identity().await.unwrap().genesis, Some(genesis));
    let reports = both.endpoints();
    assert!(
        reports[0].inconsistencies > 0 && reports[0].backing_off,
        "{reports:?}"
    );
    assert_eq!(both.heads().await.unwrap().head, node.head());
    let opinions = both.block_at_healthy_endpoints(10, &[]).await;
    assert_eq!(opinions.len(), 1);
    // One that could not be reached at the start is compared when it is asked first.
    let late = source(&[&wrong, &right], Strategy::Receipts);
    late.expect_genesis(genesis);
    let want = want(Verification::Claimed);
    let fetched = late.fetch(BlockRange::new(0, 40), &want, None);
    assert_from(&fetched.await.unwrap(), &right, Verification::Roots);
}

/// The first finding of an audit: an endpoint in front replaced every transaction hash consistently, in
/// blocks, receipts and logs, or altered bodies under their true hashes. All of it was archived as "proven
/// by receipts". Only the transactions root tells.
#[tokio::test(flavor = "multi_thread")]
async fn altered_transactions_come_from_another_endpoint() {
    let node = EvmNode::new(EvmSpec::tiny(5), BLOCKS);
    let honest = without(&node, &[]).await;
    let range = BlockRange::new(0, 40);
    let want = Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes, Dataset::Transactions]),
        ..want(Verification::Claimed)
    };
    for lie in [RpcFault::ForeignTxHashes, RpcFault::ChangedBodies] {
        for strategy in [Strategy::Receipts, Strategy::Logs] {
            let faults = Faults::new(5);
            faults.always(lie);
            let options = RpcOptions {
                faults: faults.clone(),
                ..RpcOptions::default()
            };
            let liar = RpcServer::start(node.clone(), options).await.unwrap();
            let source = source(&[&liar, &honest], strategy);
            let fetched = source.fetch(range, &want, None).await.unwrap();
            assert!(!faults.injected().is_empty(), "{lie:?}: it never lied");
            assert_eq!(fetched.len(), 40);
            for one in fetched {
                let number = one.block.clock.number;
                let expected = node.block(number).unwrap().to_model();
                assert_eq!(one.block.txs, expected.txs, "{lie:?}, block {number}");
                assert_eq!(one.proof.txs(), Verification::Roots, "{lie:?}, {number}");
                let kept = one.block.payload.bodies.unwrap();
                let is_json = |body: &bytes::Bytes| body.first() == Some(&b'{');
                assert!(!kept.iter().any(is_json), "{lie:?}, block {number}");
            }
            let liars = source.endpoints();
            assert!(
                liars[0].inconsistencies > 0 && liars[1].inconsistencies == 0,
                "{lie:?}: {liars:?}"
            );
        }
    }
}

/// A proxy answered `finalized` with its newest block, and was believed. The others were asked whether they
/// have that block, not whether it is final.
#[tokio::test(flavor = "multi_thread")]
async fn the_lowest_final_block_of_all_endpoints_counts() {
    let nodes = [9, 9].map(|seed| EvmNode::new(EvmSpec::tiny(seed), BLOCKS));
    nodes[0].set_finalized_depth(0);
    nodes[1].set_finalized_depth(20);
    let servers = [without(&nodes[0], &[]).await, without(&nodes[1], &[]).await];
    let endpoint = |server: &RpcServer| EndpointSettings::new(&server.url());
    let source = EvmSource::new(EvmSettings {
        endpoints: servers.iter().map(endpoint).collect(),
        tags: Tags::ALL,
        ..settings()
    })
    .unwrap();
    let heads = source.heads().await.unwrap();
    assert_eq!(heads.head, nodes[0].head());
    assert_eq!(heads.finalized, Some(nodes[1].finalized()));
    assert_eq!(heads.safe, Some(nodes[1].safe()));
    // It is behind by a block, as endpoints are: that gives no word away.
    nodes[0].mine(1);
    let heads = source.heads().await.unwrap();
    assert_eq!(heads.head, nodes[0].head());
    assert_eq!(heads.finalized, Some(nodes[1].finalized()));
    // Where both say the same, it is asked once.
    nodes[0].set_finalized_depth(20);
    nodes[1].mine(1);
    let requested = |server: &RpcServer| calls(server, "eth_getBlockByNumber");
    source.heads().await.unwrap();
    let before = requested(&servers[1]);
    let heads = source.heads().await.unwrap();
    assert_eq!(heads.finalized, Some(nodes[0].finalized()));
    assert_eq!(requested(&servers[1]), before);
}

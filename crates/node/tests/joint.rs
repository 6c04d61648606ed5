//! A Portal and endpoints on one chain: history from the one, everything else from the others.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use support::Bench;

const BLOCKS: u64 = 3_000;
/// Where the range that a portal is asked for at once does not matter.
const FEW: u64 = 1_200;

struct Both {
    rpc: RpcServer,
    portal: PortalServer,
    bench: Bench,
}

impl Both {
    async fn new(node: &EvmNode, at_portal: &EvmNode, faults: PortalFaults, more: &str) -> Self {
        let rpc = RpcServer::start(node.clone(), RpcOptions::default())
            .await
            .unwrap();
        let options = PortalOptions {
            faults,
            ..PortalOptions::default()
        };
        let portal = PortalServer::start(at_portal.clone(), options)
            .await
            .unwrap();
        let url = portal.url();
        let (base, dataset) = url.rsplit_once('/').unwrap();
        let more = format!(
            r#", "portal": {{ "url": "{base}", "dataset": "{dataset}" }}, "finality": {{ "confirmations": 10 }} {more}"#
        );
        let bench = Bench::new(&[rpc.url()], &more);
        Self { rpc, portal, bench }
    }

    fn receipts(&self) -> u64 {
        let calls = self.rpc.stats().calls;
        calls
            .get("eth_getBlockReceipts")
            .copied()
            .unwrap_or_default()
    }

    fn streams(&self) -> u64 {
        let requests = self.portal.stats().requests;
        let of = |name: &str| requests.get(name).copied().unwrap_or_default();
        of("stream") + of("finalized-stream")
    }

    /// Catches up; every block is the endpoints'.
    fn assert_caught_up(&self, node: &EvmNode) -> String {
        let output = self.bench.output(&["run", "--until-caught-up"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(self.bench.head(), Some(node.head().number - 10));
        let compared = self.bench.json(&["verify", "--json", "--against-source"]);
        assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_comes_from_the_portal_and_the_tail_from_the_endpoints() {
    let node = EvmNode::new(EvmSpec::tiny(51), BLOCKS);
    // The portal lags: its finalized block is well below that of the endpoints.
    node.set_finalized_depth(600);
    let both = Both::new(&node, &node, PortalFaults::new(1), "").await;
    let running = both.bench.start();
    both.bench
        .wait("the history", || both.bench.head() == Some(BLOCKS - 10));
    let (receipts, streams) = (both.receipts(), both.streams());
    assert!(streams > 0, "the portal was not asked");
    assert!(
        (10..1_100).contains(&receipts),
        "{receipts} blocks from endpoints"
    );
    // The tail is the endpoints' alone.
    let head = node.mine(30).number;
    both.bench
        .wait("the tail", || both.bench.head() == Some(head - 10));
    assert_eq!(both.streams(), streams);
    assert!(both.receipts() > receipts);
    running.stop();
    both.assert_caught_up(&node);
}

/// Headers are not at the portal: nothing of the history is asked for there.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_portal_cannot_tell_comes_from_the_endpoints() {
    let node = EvmNode::new(EvmSpec::tiny(52), 600);
    let more = r#", "datasets": ["headers", "logs", "tx_hashes"]"#;
    let both = Both::new(&node, &node, PortalFaults::new(1), more).await;
    both.assert_caught_up(&node);
    assert_eq!(both.streams(), 0);
    assert!(both.receipts() >= 600);
}

/// The same genesis, another fork: not one of its blocks is archived, wherever its finalized block
/// is.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_on_another_fork_delivers_nothing() {
    for depth in [5, 300] {
        let node = EvmNode::new(EvmSpec::tiny(53), FEW);
        let fork = EvmNode::new(EvmSpec::tiny(53), FEW);
        fork.reorg(FEW - 400);
        fork.set_finalized_depth(depth);
        let both = Both::new(&node, &fork, PortalFaults::new(1), "").await;
        let said = both.assert_caught_up(&node);
        assert!(
            said.contains("the endpoints have another block there"),
            "{said}"
        );
        assert!(both.receipts() >= FEW - 10);
    }
}

/// What the portal fails at comes from the endpoints, at once and completely.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_fails_is_stood_in_for() {
    for fault in [PortalFault::WrongParent, PortalFault::Status(404)] {
        let node = EvmNode::new(EvmSpec::tiny(54), FEW);
        node.set_finalized_depth(5);
        let faults = PortalFaults::new(1);
        faults.always(fault);
        let both = Both::new(&node, &node, faults, "").await;
        let said = both.assert_caught_up(&node);
        assert!(said.contains("history comes from the endpoints"), "{said}");
    }
}

/// What endpoints proved further is rebuilt from them, although the portal has it by now.
#[tokio::test(flavor = "multi_thread")]
async fn what_endpoints_proved_is_repaired_from_them() {
    let node = EvmNode::new(EvmSpec::tiny(55), FEW);
    node.set_finalized_depth(600);
    let more = r#", "datasets": ["logs", "tx_hashes"]"#;
    let both = Both::new(&node, &node, PortalFaults::new(1), more).await;
    both.assert_caught_up(&node);
    let levels = both.bench.json(&["state", "--json"])[0]["covered"].clone();
    assert!(levels.as_array().unwrap().len() > 1, "one level: {levels}");
    node.set_finalized_depth(5);
    let batches = both.bench.chain_dir().join("blobs").join("bat");
    let lost: Vec<_> = std::fs::read_dir(batches).unwrap().collect();
    let lost_count = lost.len();
    for file in lost {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let repaired = both.bench.json(&["repair", "--json"]);
    let mended = repaired["mended"].as_array().unwrap().len();
    assert!(mended > 0 && mended <= lost_count, "{repaired}");
    let after = both.bench.json(&["state", "--json"])[0]["covered"].clone();
    let last =
        |levels: &serde_json::Value| levels.as_array().unwrap().last().unwrap()["level"].clone();
    assert_eq!(last(&after), last(&levels), "{after}");
    both.assert_caught_up(&node);
}

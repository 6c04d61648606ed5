//! `chronolith repair` of a chain over a Portal and endpoints. How such a chain is followed is tested in
//! `crates/follower/tests/portal.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalOptions, PortalServer};
use support::Bench;

const BLOCKS: u64 = 1_200;

struct Both {
    _rpc: RpcServer,
    _portal: PortalServer,
    bench: Bench,
}

impl Both {
    async fn new(node: &EvmNode) -> Self {
        let rpc = RpcServer::start(node.clone(), RpcOptions::default());
        let portal = PortalServer::start(node.clone(), PortalOptions::default());
        let (rpc, portal) = (rpc.await.unwrap(), portal.await.unwrap());
        let url = portal.url();
        let (base, dataset) = url.rsplit_once('/').unwrap();
        let more = format!(
            r#", "portal": {{ "url": "{base}", "dataset": "{dataset}" }}, "finality": {{ "confirmations": 10 }}, "datasets": ["logs", "tx_hashes"]"#
        );
        Self {
            bench: Bench::new(&[rpc.url()], &more),
            _rpc: rpc,
            _portal: portal,
        }
    }

    /// Catches up; every block is the endpoints'.
    fn assert_caught_up(&self, node: &EvmNode) {
        self.bench.say(&["run", "--until-caught-up"]);
        assert_eq!(self.bench.head(), Some(node.head().number - 10));
        let compared = self.bench.json(&["verify", "--json", "--against-source"]);
        assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
    }
}

/// What endpoints proved further is rebuilt from them, although the Portal has it by now.
#[tokio::test(flavor = "multi_thread")]
async fn what_endpoints_proved_is_repaired_from_them() {
    let node = EvmNode::new(EvmSpec::tiny(55), BLOCKS);
    node.set_finalized_depth(600);
    let both = Both::new(&node).await;
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
    let count = repaired["mended"].as_array().unwrap().len();
    assert!(count > 0 && count <= lost_count, "{repaired}");
    let after = both.bench.json(&["state", "--json"])[0]["covered"].clone();
    let last =
        |levels: &serde_json::Value| levels.as_array().unwrap().last().unwrap()["level"].clone();
    assert_eq!(last(&after), last(&levels), "{after}");
    both.assert_caught_up(&node);
}

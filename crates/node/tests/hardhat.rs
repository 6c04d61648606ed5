//! The program against a real node without `eth_getBlockReceipts`: Hardhat, with reorgs, compared
//! with receipts taken straight from the node. `scripts/need hardhat` installs it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::process::Command;

use serde_json::json;
use support::Bench;
use support::installed::installed;
use support::real_node::RealNode;

const HOME: &str = "hardhat-2.29.1";
const CONFIRMATIONS: u64 = 30;

async fn start() -> Option<RealNode> {
    let node = Command::new("node").arg("--version").output();
    let (Some(home), Ok(_)) = (installed(&format!("{HOME}/installed")), node) else {
        println!("skipped: there is no Hardhat; `scripts/need hardhat` installs it");
        return None;
    };
    let home = home.parent().unwrap();
    let mut command = Command::new("node");
    command.arg(home.join("node_modules/hardhat/internal/cli/bootstrap.js"));
    command.args(["node", "--port", "0", "--hostname", "127.0.0.1"]);
    command.current_dir(home);
    command.env("HARDHAT_DISABLE_TELEMETRY_PROMPT", "true");
    let hardhat = RealNode::start(&mut command, "server at http://");
    hardhat.deploy("hardhat_setCode").await;
    Some(hardhat)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_receipts_of_blocks_is_followed_through_reorgs() {
    let Some(hardhat) = start().await else {
        return;
    };
    let missing = hardhat.answer("eth_getBlockReceipts", json!(["0x0"])).await;
    assert_eq!(missing["error"]["code"], -32004, "{missing}");
    hardhat.mine(20, 20).await;
    hardhat.mine(CONFIRMATIONS, 1).await;
    let more = format!(
        r#", "finality": {{ "mode": "depth", "confirmations": {CONFIRMATIONS} }}, "rpcWs": ["{}"], "verification": "bloom""#,
        hardhat.socket()
    );
    let bench = Bench::new(std::slice::from_ref(&hardhat.url), &more);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(hardhat.head().await - CONFIRMATIONS));
    hardhat.assert_equals(&bench, 20).await;
    let running = bench.start();
    for depth in [1, 2, 5, 12, 29, 30] {
        let snapshot = hardhat.call("evm_snapshot", json!([])).await;
        hardhat.mine(depth, 2).await;
        let final_one = hardhat.head().await - CONFIRMATIONS;
        bench.wait("the head before a reorg", || {
            bench.head() == Some(final_one)
        });
        let before = bench.reorgs_of(depth);
        // The head goes down, and comes back by another way.
        assert_eq!(hardhat.call("evm_revert", json!([snapshot])).await, true);
        hardhat.mine(depth + 1, 3).await;
        bench.wait("the reorg", || bench.reorgs_of(depth) > before);
        let final_one = hardhat.head().await - CONFIRMATIONS;
        bench.wait("the head after a reorg", || bench.head() == Some(final_one));
    }
    hardhat.mine(CONFIRMATIONS + 5, 1).await;
    let last = hardhat.head().await - CONFIRMATIONS;
    bench.wait("the last head", || bench.head() == Some(last));
    running.stop();
    let compared = hardhat.assert_equals(&bench, last).await;
    println!("note: {compared} logs equal Hardhat's receipts");
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
    assert_eq!(verified["levels"]["logs"], "bloom");
    assert_eq!(verified["levels"]["tx_hashes"], "claimed");
    let refused = bench.events("method_missing");
    assert!(!refused.is_empty(), "{}", bench.log());
}

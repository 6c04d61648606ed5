//! The program against a real node: Anvil, with reorgs of every depth, compared with receipts taken
//! straight from the node. `scripts/need anvil` installs it; `CHRONOLITH_ANVIL` names another one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use serde_json::{Value, json};
use support::Bench;
use support::real_node::RealNode;

const CONFIRMATIONS: u64 = 60;

fn bench(anvil: &RealNode) -> Bench {
    let more = format!(
        r#", "rpcWs": ["{}"], "finality": {{ "mode": "depth", "confirmations": {CONFIRMATIONS} }}, "verification": "roots", "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#,
        anvil.socket()
    );
    Bench::new(std::slice::from_ref(&anvil.url), &more)
}

/// Waits until all that is final is archived.
async fn wait(bench: &Bench, anvil: &RealNode, what: &str) -> u64 {
    let final_one = anvil.head().await - CONFIRMATIONS;
    bench.wait(what, || bench.head() == Some(final_one));
    final_one
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_node_is_followed_through_reorgs_of_every_depth() {
    let Some(anvil) = RealNode::anvil().await else {
        return;
    };
    // History first, before anything follows.
    anvil.mine(20, 30).await;
    anvil.mine(70, 1).await;
    let bench = bench(&anvil);
    bench.say(&["run", "--until-caught-up"]);
    let archived = bench.head();
    assert_eq!(archived, Some(anvil.head().await - CONFIRMATIONS));
    anvil.assert_equals(&bench, archived.unwrap()).await;
    let running = bench.start();
    for depth in 1..=CONFIRMATIONS {
        // Those that were replaced must have been there: the head was reached before.
        anvil.mine(1, 1).await;
        wait(&bench, &anvil, "the head before a reorg").await;
        let before = bench.reorgs_of(depth);
        anvil.replace(depth).await;
        bench.wait("the reorg", || bench.reorgs_of(depth) > before);
        anvil.mine(1, 2).await;
        wait(&bench, &anvil, "the head after a reorg").await;
    }
    // The head goes down without a word, and comes back by another way.
    anvil.call("anvil_rollback", json!([5])).await;
    anvil.mine(70, 2).await;
    let last = wait(&bench, &anvil, "the last head").await;
    let compared = anvil.assert_equals(&bench, last).await;
    println!("note: {compared} logs equal Anvil's receipts after reorgs of 1 to 60 blocks");
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
    assert_eq!(verified["level"], "roots");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_final_block_of_a_real_node_halts_until_an_operator_acts() {
    let Some(anvil) = RealNode::anvil().await else {
        return;
    };
    anvil.mine(100, 5).await;
    let bench = bench(&anvil);
    let running = bench.start();
    let archived = wait(&bench, &anvil, "the first head").await;
    anvil.replace(CONFIRMATIONS + 10).await;
    anvil.mine(1, 1).await;
    let halted = || bench.json(&["state", "--json"])[0]["halted"].is_string();
    bench.wait("the halt", halted);
    // The halt is published before the process that published it reports it.
    let is_halted = |code, health: &Value| code == 503 && health.to_string().contains("replaced");
    bench.until_health("the halt", is_halted).await;
    running.stop();
    // Nothing of the other chain was archived, and what is archived is served on.
    assert_eq!(bench.head(), Some(archived));
    bench.json(&["logs", "--json", "--to", "20"]);
    // The operator decides for the new chain.
    let keep = (archived - 20).to_string();
    bench.say(&["rewind", "--to", &keep, "--reason", "test"]);
    anvil.mine(60, 2).await;
    bench.say(&["run", "--until-caught-up"]);
    let last = anvil.head().await - CONFIRMATIONS;
    assert_eq!(bench.head(), Some(last));
    anvil.assert_equals(&bench, last).await;
}

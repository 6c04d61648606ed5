//! `chronolith backfill`, and mode backfill: what is refused, and what is reported. What is fetched is tested in
//! `crates/follower/tests/history.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::{Bench, DEPTH_5, assert_equals, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_reports_how_many_blocks_it_fetched() {
    let node = EvmNode::new(EvmSpec::tiny(51), 400);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 150, "datasets": ["logs"]"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    bench.refused(
        &["backfill", "--from", "0", "--to", "396"],
        "only final blocks",
    );
    bench.refused(&["backfill", "--from", "9", "--to", "8"], "is after");
    // Below the first block, by the other names of the flags.
    let below = [
        "backfill",
        "--json",
        "--start-ledger",
        "100",
        "--end-ledger",
        "199",
    ];
    assert_eq!(bench.json(&below)["filledBlocks"], 50);
    assert_equals(&bench, &node, BlockRange::new(100, 396));
    let again = &bench.json(&below)["filledBlocks"];
    assert_eq!(again, 0, "the same again fetches nothing");
}

/// No block would name the last one of such a fill as its parent: only the source would vouch for it.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_link_to_nothing_are_not_filled_in() {
    let node = EvmNode::new(EvmSpec::tiny(55), 200);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 150, "datasets": ["logs"]"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    bench.refused(&["backfill", "--from", "0", "--to", "99"], "--to 149");
    // One block is missing between the two.
    bench.refused(&["backfill", "--from", "100", "--to", "148"], "--to 149");
    let covered = bench.json(&["state", "--json"]);
    assert_eq!(covered[0]["covered"][0]["from"], 150, "{covered}");
    let words = ["backfill", "--json", "--from", "100", "--to", "149"];
    assert_eq!(bench.json(&words)["filledBlocks"], 50);
}

/// Mode backfill ends with code 0 when every block between the bounds is archived, at once or when it is final.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_is_bounded_and_exits() {
    let node = EvmNode::new(EvmSpec::tiny(41), 900);
    let server = serve(&node, RpcOptions::default()).await;
    let bounds = |end: u64| format!(r#""startBlock": 100, "endBlock": {end}"#);
    let more = format!(r#"{DEPTH_5}, "mode": "backfill", {}"#, bounds(700));
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run"]);
    let state = bench.json(&["state", "--json"]);
    let covered = &state[0]["covered"];
    assert_eq!(
        (&covered[0]["from"], &covered[0]["to"]),
        (&100.into(), &700.into())
    );
    bench.change(&bounds(700), &bounds(905));
    let running = bench.start();
    bench.wait("what is final by now", || bench.head() == Some(895));
    node.mine(50);
    assert!(running.wait().success(), "{}", bench.log());
    assert_eq!(bench.head(), Some(905));
}

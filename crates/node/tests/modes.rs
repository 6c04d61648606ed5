//! A chain's mode: whether history is fetched, refused or all there is to do.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use support::Bench;

fn set(bench: &Bench, mode: &str) {
    let text = std::fs::read_to_string(&bench.config).unwrap();
    let at = text.find(r#""mode": ""#).unwrap();
    let end = text.find(r#", "finality""#).unwrap();
    std::fs::write(
        &bench.config,
        format!("{}{mode}{}", &text[..at], &text[end..]),
    )
    .unwrap();
}

async fn bench(node: &EvmNode, mode: &str) -> (RpcServer, Bench) {
    let server = RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap();
    let more = format!(r#", {mode}, "finality": {{ "confirmations": 5 }}"#);
    let bench = Bench::new(&[server.url()], &more);
    (server, bench)
}

/// What a run to its end says; it must exit with this code.
#[track_caller]
fn run(bench: &Bench, code: i32) -> String {
    let output = bench.output(&["run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_is_bounded_and_exits() {
    let node = EvmNode::new(EvmSpec::tiny(41), 900);
    let bounded = |start: u64, end: u64| {
        format!(r#""mode": "backfill", "startBlock": {start}, "endBlock": {end}"#)
    };
    let (_server, bench) = bench(&node, &bounded(100, 700)).await;
    run(&bench, 0);
    let state = bench.json(&["state", "--json"]);
    let covered = &state[0]["covered"];
    assert_eq!(
        (&covered[0]["from"], &covered[0]["to"]),
        (&100.into(), &700.into())
    );
    // There is nothing left to do.
    run(&bench, 0);
    assert_eq!(bench.head(), Some(700));
    // The last final block has no final successor yet, and is taken all the same; no more is.
    set(&bench, &bounded(100, 894));
    run(&bench, 0);
    assert_eq!(bench.head(), Some(894));
    // A block that is not final yet is waited for.
    set(&bench, &bounded(100, 905));
    let running = bench.start();
    bench.wait("what is final by now", || bench.head() == Some(895));
    node.mine(50);
    assert!(running.wait().success(), "{}", bench.log());
    assert_eq!(bench.head(), Some(905));
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}

/// A head behind the last block is not all of the blocks before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_below_what_is_archived_fills_it_in() {
    let node = EvmNode::new(EvmSpec::tiny(43), 300);
    let bounded = |start: u64, end: u64| {
        format!(r#""mode": "backfill", "startBlock": {start}, "endBlock": {end}"#)
    };
    let (_server, bench) = bench(&node, &bounded(200, 250)).await;
    run(&bench, 0);
    // All of it, or its first blocks, lie below.
    for (end, head) in [(100, 250), (220, 250), (280, 280)] {
        set(&bench, &bounded(50, end));
        run(&bench, 0);
        assert_eq!(bench.head(), Some(head));
    }
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(
        (&compared["from"], &compared["to"]),
        (&50.into(), &280.into())
    );
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_begins_with_nothing_but_what_was_fetched_before() {
    let node = EvmNode::new(EvmSpec::tiny(42), 300);
    let (_server, bench) = bench(&node, r#""mode": "streaming""#).await;
    let said = run(&bench, 1);
    for words in [
        "Cannot start streaming mode - the archive is empty",
        "Action required: Run backfill with --start-ledger 0 --end-ledger 295",
    ] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    assert_eq!(bench.head(), None, "something was fetched");
    // What it says works.
    bench.say(&["backfill", "--start-ledger", "0", "--end-ledger", "295"]);
    node.mine(1_100);
    let running = bench.start();
    bench.wait("the head", || bench.head() == Some(1_395));
    running.stop();
}

/// What is lacking below the head is fetched, while new blocks are followed and while they are not.
#[tokio::test(flavor = "multi_thread")]
async fn auto_mends_a_hole_while_it_follows() {
    let node = EvmNode::new(EvmSpec::tiny(44), 700);
    let (_server, followed) = bench(&node, r#""mode": "auto", "startBlock": 10"#).await;
    let (_server, caught_up) = bench(&node, r#""mode": "auto", "startBlock": 10"#).await;
    let covered = |bench: &Bench| bench.json(&["state", "--json"])[0]["covered"].clone();
    for bench in [&followed, &caught_up] {
        bench.say(&["backfill", "--from", "500", "--to", "600"]);
        bench.say(&["backfill", "--from", "100", "--to", "499"]);
    }
    let running = followed.start();
    node.mine(20);
    let is_whole = || {
        let covered = covered(&followed);
        covered[0]["from"] == 10 && covered[0]["to"] == 715
    };
    followed.wait("everything", is_whole);
    followed.wait("the end of the gaps", || followed.has("gaps_filled"));
    let what = "90 blocks between 10 and 99 are missing";
    let told = followed.has_with("history_has_gaps", "summary", what);
    assert!(told, "{}", followed.log());
    running.stop();
    caught_up.say(&["run", "--until-caught-up"]);
    for bench in [&followed, &caught_up] {
        let compared = bench.json(&["verify", "--json", "--against-source"]);
        assert_eq!(
            (&compared["from"], &compared["to"]),
            (&10.into(), &715.into())
        );
        assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
    }
}

//! A core that the program runs: through kills of the program, beside commands, and to the end of what core has. The
//! core is a stand-in. Its source alone: `crates/sim-cli/tests/captive_core.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::Path;

use chronolith_model::BlockRange;
use support::stellar::{Pond, bench, content_root};

/// The process that core is, by the file that names it.
fn process(dir: &Path) -> Option<u32> {
    let noted = std::fs::read_to_string(dir.join("core.pid")).ok()?;
    noted.trim().parse().ok().filter(|&id| is_alive(id))
}

/// A process that ended and was not waited for is gone too.
fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

/// The program takes the lake, follows core, is killed at any moment, and loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_program_goes_from_lake_to_core_through_kills() {
    let pond = Pond::new(48, 60);
    let core = pond.core_field("head = 100\nledgerMs = 20");
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    let chain = pond.network().chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}/core"));
    let mut from_core = 0;
    for step in [1, 6, 24, 3, 40, 12] {
        let before = bench.head();
        bench.crash_at(step, || {});
        // The lake ends with ledger 59.
        from_core += u64::from(bench.head() > before.max(Some(59)));
    }
    assert!(
        from_core >= 2,
        "too few lives archived a ledger of core: this proved nothing"
    );
    let above = bench.head().unwrap_or(0).max(130);
    let running = bench.start();
    bench.wait("core's ledgers", || bench.head() > Some(above));
    assert!(process(&dir).is_some(), "core runs");
    running.stop();
    bench.wait("core's end", || process(&dir).is_none());
    let head = bench.head().unwrap();
    pond.assert_archived(&bench, 2..head as u32 + 1).await;
    bench.say(&["verify"]);

    // The same out of a lake alone.
    pond.grow(head as u32 + 1);
    let clean = support::stellar::bench(&pond.fields(&pond.lake_field()), "");
    clean.say(&["run", "--until-caught-up"]);
    let range = BlockRange::new(2, head + 1);
    let network = pond.network();
    let root = content_root(&bench, &network, range).await;
    assert_eq!(root, content_root(&clean, &network, range).await);
}

/// A core that writes nothing does not notice that its pipe has no reader: it outlives its program, and holds the
/// directory until the next one ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_outlived_its_program_is_ended_by_the_next() {
    let pond = Pond::new(54, 60);
    let fault = "[[faults]]\nkind = \"stall\"\nafterFrames = 7\ncommand = \"run\"";
    let core = pond.core_field(&format!("head = 100\nledgerMs = 20\n{fault}"));
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    let running = bench.start();
    // Seven frames above the lake, and no more.
    bench.wait("core's last ledger", || bench.head() >= Some(66));
    let chain = pond.network().chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}/core"));
    let old = process(&dir).expect("core runs");
    running.kill();
    let words = "a core of before still runs: it is ended";
    assert!(!bench.log().contains(words), "{}", bench.log());
    assert!(is_alive(old), "it ended with its program");
    let running = bench.start();
    bench.wait("the old core's end", || !is_alive(old));
    bench.wait("newer ledgers", || bench.head() > Some(66));
    let log = bench.log();
    let line = log.lines().find(|line| line.contains(words));
    let line = line.unwrap_or_else(|| panic!("not logged: {log}"));
    assert!(line.contains(&format!("\"pid\":{old}")), "{line}");
    running.stop();
    pond.assert_archived(&bench, 2..bench.head().unwrap() as u32 + 1)
        .await;
}

/// The command waits for the first ledger, and streaming begins with what is archived: a core that has just
/// been started has no ledger yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_alone_fills_by_command_and_streams() {
    let pond = Pond::new(52, 2);
    let core = pond.core_field("head = 100\nledgerMs = 20");
    let ranges = r#", "ranges": { "size": 40, "parallel": 3, "checkpoint": 10 }"#;
    let bench = bench(&pond.fields(&core), ranges);
    bench.say(&["backfill", "--start-ledger", "60", "--end-ledger", "90"]);
    assert_eq!(bench.head(), Some(90));
    // It follows the network, and logs the command that fetches the rest.
    let running = bench.start();
    bench.wait("new ledgers", || bench.head() > Some(105));
    let command = "backfill --chain sim --from 2 --to 59`";
    bench.wait("the report of the gap", || bench.log().contains(command));
    let words = ["backfill", "--from", "2", "--to", "59"];
    bench.refused(&words, "the only core follows the network");
    running.stop();
    bench.change(r#", "ranges""#, r#", "mode": "streaming", "ranges""#);
    bench.refused(&["run"], "incomplete ranges detected");
    bench.say(&words);
    let before = bench.head();
    let running = bench.start();
    bench.wait("newer ledgers", || bench.head() > before);
    running.stop();
    pond.assert_archived(&bench, 2..bench.head().unwrap() as u32 + 1)
        .await;
}

/// The end of the lake is not the head of the chain, nor is the newest of the few ledgers that wait in the pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_has_caught_up_only_with_the_last_ledger_of_core() {
    let pond = Pond::new(53, 30);
    // No ledger closes after these while the test runs.
    let core = pond.core_field("head = 120\nledgerMs = 3600000");
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(120));
    // A range that begins above the lake comes too.
    let bounded = r#", "mode": "backfill", "startBlock": 40, "endBlock": 79"#;
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = support::stellar::bench(&fields, bounded);
    let status = bench.start().wait();
    assert!(status.success(), "{}", bench.log());
    pond.assert_archived(&bench, 40..80).await;
}

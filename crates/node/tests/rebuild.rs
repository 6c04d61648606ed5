//! A lost state is made again, and the format of an archive is told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::path::PathBuf;
use std::process::Command;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::json;
use support::{Bench, DEPTH_5, assert_equals, serve};

const REBUILD: [&str; 3] = ["archive", "rebuild-state", "--json"];

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_state_is_rebuilt_from_a_block_that_the_source_has() {
    let node = EvmNode::new(EvmSpec::tiny(71), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    bench.say(&["rewind", "--to", "250", "--reason", "test"]);
    bench.say(&["run", "--until-caught-up"]);
    let root = bench.json(&["verify", "--json"])["contentRoot"].clone();
    bench.refused(&REBUILD, "there is nothing to rebuild");
    let state = bench.chain_dir().join("state");
    let whole = std::fs::read(&state).unwrap();
    // A damaged one is not overwritten: the operator moves it away.
    std::fs::write(&state, &whole[..whole.len() / 2]).unwrap();
    bench.refused(&REBUILD, "move ");
    std::fs::remove_file(&state).unwrap();
    bench.refused(
        &["archive", "rebuild-state", "--anchor", "7"],
        "NUMBER:0xHASH",
    );
    let hash = node.block(7).unwrap().to_model().clock.hash;
    let nowhere = format!("8:{hash}");
    bench.refused(
        &["archive", "rebuild-state", "--anchor", &nowhere],
        "no segment ends",
    );
    let report = bench.json(&REBUILD);
    assert_eq!((&report["from"], &report["to"]), (&0.into(), &295.into()));
    assert_eq!(report["anchor"]["number"], 295);
    assert_eq!(bench.json(&["verify", "--json"])["contentRoot"], root);
    if report["halted"] == true {
        bench.say(&["resume", "--reason", "looked"]);
    }
    node.mine(20);
    bench.say(&["run", "--until-caught-up"]);
    assert_equals(&bench, &node, BlockRange::new(0, 316));
    // The same from a block that somebody vouches for, in words for people.
    std::fs::remove_file(&state).unwrap();
    let block = node.block(315).unwrap().to_model().clock;
    let anchor = format!("{}:{}", block.number, block.hash);
    let reported = bench.say(&["archive", "rebuild-state", "--anchor", &anchor]);
    assert!(
        reported.contains("decided   blocks 0 to 315")
            && reported.contains(&block.hash.to_string()),
        "{reported}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_nothing_to_upgrade() {
    let node = EvmNode::new(EvmSpec::tiny(72), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.refused(&["archive", "upgrade"], "there is no archive");
    bench.say(&["run", "--until-caught-up"]);
    assert!(
        bench
            .say(&["archive", "upgrade"])
            .contains("nothing to be done")
    );
    let reported = bench.json(&["archive", "upgrade", "--json"]);
    assert_eq!(
        (&reported[0]["format"], &reported[0]["upgraded"]),
        (&3.into(), &0.into())
    );
    assert!(
        reported[0]["objects"]["3"].as_u64().unwrap() > 2,
        "{reported}"
    );
}

/// Every object and state of the chain's directory, with its bytes.
fn files(bench: &Bench) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut due) = (Vec::new(), vec![bench.chain_dir()]);
    while let Some(dir) = due.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => due.push(path),
                false if path.ends_with("lock") => {}
                false => found.push((path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

/// Loses the state and every kept version of it.
fn lose_state(bench: &Bench) {
    std::fs::remove_file(bench.chain_dir().join("state")).unwrap();
    std::fs::remove_dir_all(bench.chain_dir().join("states")).unwrap();
}

/// Makes all objects so old that garbage collection takes what nothing names.
fn age_objects(bench: &Bench) {
    let blobs = bench.chain_dir().join("blobs");
    let touched = Command::new("find")
        .arg(blobs)
        .args([
            "-type",
            "f",
            "-exec",
            "touch",
            "-d",
            "1 hour ago",
            "{}",
            "+",
        ])
        .status();
    assert!(touched.unwrap().success());
}

fn segments(bench: &Bench) -> usize {
    let named = |folder: &str| {
        let dir = bench.chain_dir().join("blobs").join(folder);
        std::fs::read_dir(dir).map_or(0, Iterator::count)
    };
    named("seg") + named("bat")
}

/// A lost state made a new archive of an old one. `state` said "empty"; `gc --dry-run` wrote a new state,
/// so that `rebuild-state` had nothing to rebuild; `run` began at block 0 and removed every old object.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_refuses_an_archive_whose_state_is_lost() {
    let node = EvmNode::new(EvmSpec::tiny(73), 120);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    let root = bench.json(&["verify", "--json"])["contentRoot"].clone();
    std::fs::remove_file(bench.chain_dir().join("state")).unwrap();
    let before = files(&bench);
    let backup = bench.dir.path().join("backup");
    for words in [
        &["state"][..],
        &["state", "--ranges"],
        &["verify"],
        &["repair"],
        &["repair", "--dry-run"],
        &["gc", "--dry-run"],
        &["gc"],
        &["run"],
        &["run", "--until-caught-up"],
        &["serve"],
        &["serve", "--follow"],
        &["backfill", "--from", "0", "--to", "50"],
        &["logs", "--from", "0", "--to", "50"],
        &["block-at", "5"],
        &["resume", "--reason", "test"],
        &["resume", "--drop-undecided", "--reason", "test"],
        &["rewind", "--to", "50", "--reason", "test"],
        &["prune", "--below", "0", "--reason", "test"],
        &["range", "retry", "0", "--reason", "test"],
        &["archive", "upgrade"],
        &["backup", backup.to_str().unwrap()],
    ] {
        bench.refused(words, "chronolith archive rebuild-state");
        assert!(files(&bench) == before, "{words:?} wrote something");
    }
    let report = bench.json(&REBUILD);
    assert!(report["keptVersion"].is_u64(), "{report}");
    assert_eq!(report["to"], 115);
    assert_eq!(bench.json(&["verify", "--json"])["contentRoot"], root);
}

/// A dry run took the writer's epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_gc_writes_nothing() {
    let node = EvmNode::new(EvmSpec::tiny(74), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    let before = files(&bench);
    let reported = bench.json(&["gc", "--dry-run", "--json"]);
    assert_eq!(
        (&reported["dryRun"], &reported["removed"]),
        (&true.into(), &0.into())
    );
    assert!(files(&bench) == before);
}

/// Below the first hole everything was "undecided". `verify` found nothing wrong, the program said to
/// `resume`, and five minutes later the collector had removed days of fetching.
#[tokio::test(flavor = "multi_thread")]
async fn islands_survive_the_loss_of_the_state() {
    let node = EvmNode::new(EvmSpec::tiny(75), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "ranges": {{ "size": 50 }}"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    age_objects(&bench);
    bench.say(&["gc"]);
    // Two ranges are lost, so what is left of the archive has two holes.
    let folder = bench.chain_dir().join("blobs/seg");
    let mut lost = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let start: u64 = name.split('-').next().unwrap().parse().unwrap();
        if (50..100).contains(&start) || (150..200).contains(&start) {
            std::fs::remove_file(path).unwrap();
            lost += 1;
        }
    }
    assert!(lost >= 2, "{lost}");

    // The source has the last block of each island.
    lose_state(&bench);
    let report = bench.json(&REBUILD);
    let islands = json!([{ "from": 0, "to": 49 }, { "from": 100, "to": 149 }]);
    assert_eq!(report["islands"], islands, "{report}");
    assert_eq!((&report["from"], &report["to"]), (&200.into(), &295.into()));
    assert_eq!(report["unlinked"], json!([]));
    let covered = bench.json(&["state", "--json"])[0]["covered"].clone();
    let starts = covered.as_array().unwrap().iter();
    let starts: Vec<_> = starts.map(|one| one["from"].clone()).collect();
    assert_eq!(starts, [json!(0), json!(100), json!(200)], "{covered}");

    // Nobody can be asked: they stay, through `resume` and collection, until an operator drops them.
    lose_state(&bench);
    bench.change(&server.url(), "http://127.0.0.1:1");
    let head = node.block(295).unwrap().to_model().clock;
    let anchor = format!("{}:{}", head.number, head.hash);
    let words = ["archive", "rebuild-state", "--anchor", &anchor, "--json"];
    let report = bench.json(&words);
    assert_eq!(report["islands"], json!([]));
    let unlinked = report["unlinked"].as_array().unwrap();
    let ends = unlinked.iter().map(|one| one["end"]["number"].clone());
    assert_eq!(ends.collect::<Vec<_>>(), [json!(49), json!(149)]);
    assert_eq!(report["halted"], true);
    let all = segments(&bench);
    age_objects(&bench);
    bench.say(&["resume", "--reason", "looked"]);
    let reported = bench.json(&["gc", "--json"]);
    assert!(reported["held"].as_u64().unwrap() >= 2, "{reported}");
    assert_eq!(segments(&bench), all, "{reported}");

    // Once the operator vouches for their ends they are used again.
    lose_state(&bench);
    let named = |number: u64| {
        format!(
            "{number}:{}",
            node.block(number).unwrap().to_model().clock.hash
        )
    };
    let (low, middle) = (named(49), named(149));
    let report = bench.json(
        &[
            &words[..4],
            &["--anchor", &low, "--anchor", &middle, "--json"],
        ]
        .concat(),
    );
    assert_eq!(report["islands"], islands, "{report}");
    lose_state(&bench);
    bench.json(&words);
    age_objects(&bench);
    bench.say(&["resume", "--drop-undecided", "--reason", "they can go"]);
    bench.say(&["gc"]);
    assert!(segments(&bench) < all);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_blocks_are_pruned_by_command() {
    let node = EvmNode::new(EvmSpec::tiny(76), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 0, "ranges": {{ "size": 50 }}"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    let prune = ["prune", "--below", "120", "--reason", "disk", "--json"];
    // What the settings want would be fetched again.
    bench.refused(&prune, "set startBlock to 120 or more");
    bench.change(r#""startBlock": 0"#, r#""startBlock": 120"#);
    let reported = bench.json(&prune);
    assert_eq!(
        (&reported["below"], &reported["first"]),
        (&120.into(), &100.into())
    );
    assert!(reported["segments"].as_u64().unwrap() > 0, "{reported}");
    bench.refused(
        &["prune", "--below", "100000", "--reason", "typo"],
        "startBlock",
    );
    node.mine(10);
    bench.say(&["run", "--until-caught-up"]);
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(
        (&verified["from"], &verified["to"]),
        (&100.into(), &305.into())
    );
    bench.refused(&["logs", "--from", "0", "--to", "60"], "not covered");

    // The same through a node that runs.
    bench.change(r#""startBlock": 120"#, r#""startBlock": 160"#);
    let running = bench.start();
    bench.wait("the listener for acts", || {
        bench.dir.path().join("data/admin").exists()
    });
    let reported = bench.json(&["prune", "--below", "160", "--reason", "disk", "--json"]);
    assert_eq!(reported["first"], 150, "{reported}");
    running.stop();
}

/// `verify` and `repair` did not see bytes behind an object's end; a rebuild then dropped the object.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_behind_an_object_are_found_and_repaired() {
    let node = EvmNode::new(EvmSpec::tiny(77), 120);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "ranges": {{ "size": 50 }}"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    let root = bench.json(&["verify", "--json"])["contentRoot"].clone();
    let blobs = bench.chain_dir().join("blobs");
    for folder in ["seg", "pack", "run", "bat"] {
        let Ok(listed) = std::fs::read_dir(blobs.join(folder)) else {
            continue;
        };
        for entry in listed {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.extend([7; 100]);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let output = bench.output(&["verify"]);
    let message = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("bytes behind its end"), "{message}");
    bench.say(&["repair"]);
    assert_eq!(bench.json(&["verify", "--json"])["contentRoot"], root);
}

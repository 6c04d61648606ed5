//! Files are damaged as a bad disk would; the program finds it, refuses to answer, and rebuilds it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::path::{Path, PathBuf};

use chronolith_archive::{Archive, Provenance};
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet, Proof, Verification};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::Value;
use support::{
    Bench, DEPTH_5, assert_equals, open_archive, open_to_write, open_to_write_with, serve,
};

/// The objects of a folder that the state names, sorted.
fn objects(bench: &Bench, folder: &str) -> Vec<PathBuf> {
    let garbage = bench.say(&["gc", "--dry-run", "--json"]);
    let dir = bench.chain_dir().join("blobs").join(folder);
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let named = files.filter(|file| !garbage.contains(file.file_name().to_str().unwrap()));
    let mut paths: Vec<PathBuf> = named.map(|file| file.path()).collect();
    paths.sort();
    paths
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn name_of(path: &Path) -> String {
    let parts: Vec<&str> = path
        .iter()
        .rev()
        .take(2)
        .map(|part| part.to_str().unwrap())
        .collect();
    format!("{}/{}", parts[1], parts[0])
}

/// Everything that is kept of every block, against the simulator's.
async fn assert_whole(bench: &Bench, node: &EvmNode, range: BlockRange) {
    assert_equals(bench, node, range);
    let archive = open_archive(bench).await;
    for number in range.start..range.end {
        let theirs = node.block(number).unwrap().to_model();
        let ours = archive.block(number).await.unwrap();
        assert_eq!((ours.clock, ours.txs), (theirs.clock, theirs.txs.clone()));
        assert_eq!(ours.logs, theirs.logs);
        let payload = archive.payload(number, Dataset::Headers).await.unwrap();
        let header = payload.header.unwrap();
        let parent = header
            .windows(32)
            .position(|part| part == theirs.clock.parent_hash.0);
        assert_eq!(parent, Some(4), "another header");
        let found = archive.block_by_hash(&theirs.clock.hash).await.unwrap();
        assert_eq!(found, Some(theirs.clock));
        for tx in theirs.txs {
            let place = archive
                .transaction_by_hash(&tx.hash)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((place.block, place.index), (theirs.clock, tx.index));
        }
    }
}

/// An archive with sealed segments and batches, and packs of both.
async fn archived(seed: u64) -> (Bench, EvmNode, chronolith_sim::evm::RpcServer) {
    let node = EvmNode::new(EvmSpec::tiny(seed), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    // What stays after a rewind is sealed.
    bench.say(&["rewind", "--to", "200", "--reason", "test"]);
    bench.say(&["run", "--until-caught-up"]);
    (bench, node, server)
}

const ALL: BlockRange = BlockRange { start: 0, end: 296 };

#[tokio::test(flavor = "multi_thread")]
async fn every_sort_of_damage_is_named_repaired_and_gone() {
    let (bench, node, _server) = archived(31).await;
    assert_eq!(
        bench.json(&["repair", "--json"])["repaired"],
        Value::Array(Vec::new())
    );
    let mut tried = 0;
    for folder in ["seg", "bat", "pack"] {
        // In the data, in the tables, in the trailer; cut; gone.
        for damage in 0..5 {
            if objects(&bench, folder).is_empty() {
                // A batch that was rebuilt is a segment: there is none until blocks follow.
                node.mine(10);
                bench.say(&["run", "--until-caught-up"]);
            }
            let whole = bench.json(&["verify", "--json"]);
            let all = objects(&bench, folder);
            let path = &all[damage % all.len()];
            let len = std::fs::metadata(path).unwrap().len() as usize;
            match damage {
                0 => flip(path, 60),
                1 => flip(path, len / 2),
                2 => flip(path, len - 40),
                3 => std::fs::write(path, &std::fs::read(path).unwrap()[..len / 3]).unwrap(),
                _ => std::fs::remove_file(path).unwrap(),
            }
            let name = name_of(path);
            let found = bench.output(&["verify", "--json"]);
            assert_eq!(found.status.code(), Some(3), "{name}");
            let found: Value = serde_json::from_slice(&found.stdout).unwrap();
            assert_eq!(found["objects"][0]["object"], name.as_str(), "{found}");
            let dry = bench.output(&["repair", "--json", "--dry-run"]);
            assert_eq!(dry.status.code(), Some(3));
            let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
            assert_eq!(dry["objects"], found["objects"]);
            let repaired = bench.json(&["repair", "--json"]);
            assert_eq!(
                repaired["repaired"][0]["object"],
                name.as_str(),
                "{repaired}"
            );
            assert_eq!(repaired["repaired"].as_array().unwrap().len(), 1);
            assert_eq!(repaired["objects"], Value::Array(Vec::new()));
            let after = bench.json(&["verify", "--json", "--against-source"]);
            assert!(after["contentRoot"].is_string());
            assert_eq!(after["contentRoot"], whole["contentRoot"], "{name}");
            assert_eq!(after["level"], whole["level"]);
            tried += 1;
        }
    }
    assert_eq!(tried, 15);
    // It continues where it was.
    node.mine(50);
    bench.say(&["run", "--until-caught-up"]);
    let end = node.head().number - 4;
    assert_eq!(bench.head(), Some(end - 1));
    assert_whole(&bench, &node, BlockRange::new(0, end)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_what_is_damaged_is_an_error_that_names_it() {
    let (bench, node, _server) = archived(32).await;
    for folder in ["seg", "bat"] {
        let path = objects(&bench, folder).remove(0);
        std::fs::remove_file(&path).unwrap();
        let found = bench.output(&["verify", "--json"]).stdout;
        let found: Value = serde_json::from_slice(&found).unwrap();
        let mut damaged = found["objects"].as_array().unwrap().iter();
        let gone = damaged.find(|one| one["object"] == name_of(&path));
        let gone = gone.unwrap();
        let [from, to] = ["from", "to"].map(|end| gone[end].to_string());
        let requested = bench.output(&["logs", "--from", &from, "--to", &to]);
        let message = String::from_utf8_lossy(&requested.stderr).into_owned();
        assert_eq!(requested.status.code(), Some(1));
        assert!(
            message.contains("error: ") && message.contains(&name_of(&path)),
            "{message}"
        );
    }
    // Both at once.
    bench.say(&["repair"]);
    assert_whole(&bench, &node, ALL).await;
    // A catalog is in no source, and the message says what to do.
    let catalog = objects(&bench, "cat").remove(0);
    flip(&catalog, 20);
    let refused = bench.output(&["repair"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        message.contains("rebuild-state") && message.contains(&name_of(&catalog)),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_of_another_chain_repairs_nothing() {
    let (bench, node, server) = archived(33).await;
    let lost = objects(&bench, "seg").remove(0);
    std::fs::remove_file(&lost).unwrap();
    let other = EvmNode::new(EvmSpec::tiny(99), 300);
    let elsewhere = serve(&other, RpcOptions::default()).await;
    let text = std::fs::read_to_string(&bench.config).unwrap();
    std::fs::write(&bench.config, text.replace(&server.url(), &elsewhere.url())).unwrap();
    let refused = bench.output(&["repair", "--json"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{message}");
    let reported: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(reported["repaired"], Value::Array(Vec::new()));
    let what = reported["objects"][0]["what"].as_str().unwrap();
    assert!(what.contains("not repaired"), "{reported}");
    std::fs::write(&bench.config, text).unwrap();
    bench.say(&["repair"]);
    assert_whole(&bench, &node, ALL).await;
}

/// A halt keeps what is archived, and so does a repair, although the source has another head by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_halted_archive_whose_head_was_replaced_is_repaired() {
    let (bench, node, _server) = archived(37).await;
    node.reorg(10);
    let running = bench.start();
    bench.wait("the halt", || {
        bench.json(&["state", "--json"])[0]["halted"].is_string()
    });
    running.stop();
    for lost in objects(&bench, "seg") {
        std::fs::remove_file(lost).unwrap();
    }
    let reported = bench.json(&["repair", "--json"]);
    assert!(
        !reported["repaired"].as_array().unwrap().is_empty(),
        "{reported}"
    );
    assert!(bench.json(&["state", "--json"])[0]["halted"].is_string());
    assert_whole(&bench, &node, BlockRange::new(0, 200)).await;
}

/// Logs that a source once left out are put right only by a proof that is better than the one of then.
#[tokio::test(flavor = "multi_thread")]
async fn other_content_is_replaced_where_it_is_proven_further() {
    let node = EvmNode::new(EvmSpec::tiny(35), 150);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "datasets": ["logs", "tx_hashes"], "verification": "linked""#);
    let bench = Bench::new(&[server.url()], &more);
    let archive = open_to_write(&bench).await;
    let mut blocks: Vec<Block> = (0..146)
        .map(|number| node.block(number).unwrap().to_model())
        .collect();
    // The last log of a block can be missed without a gap in the numbers.
    let short = blocks
        .iter_mut()
        .filter_map(|block| block.logs.pop())
        .count();
    assert!(short > 50, "{short}");
    let linked = Provenance {
        proof: Proof::LINKED,
        ..Provenance::default()
    };
    archive
        .ingest_finalized_blocks(blocks, &linked)
        .await
        .unwrap();
    archive.release().await.unwrap();
    drop(archive);
    bench.say(&["verify"]);
    let words = ["repair", "--json", "--against-source"];
    let refused = bench.output(&words);
    assert_eq!(refused.status.code(), Some(3));
    let reported: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(reported["repaired"], Value::Array(Vec::new()));
    let what = reported["objects"][0]["what"].as_str().unwrap();
    assert!(what.contains("the source has other logs"), "{reported}");
    bench.change(r#""verification": "linked""#, r#""verification": "roots""#);
    let reported = bench.json(&words);
    assert!(
        !reported["repaired"].as_array().unwrap().is_empty(),
        "{reported}"
    );
    assert_equals(&bench, &node, BlockRange::new(0, 146));
    let level = bench.json(&["verify", "--json", "--against-source"])["level"].clone();
    assert_eq!(level, "roots");
}

/// Transactions that a source once gave wrong are put right where they are kept: in packs.
#[tokio::test(flavor = "multi_thread")]
async fn other_bodies_are_replaced_in_their_packs() {
    let node = EvmNode::new(EvmSpec::tiny(37), 150);
    let server = serve(&node, RpcOptions::default()).await;
    let kept = r#""datasets": ["logs", "tx_hashes", "headers", "transactions"]"#;
    let more = format!(r#"{DEPTH_5}, {kept}, "verification": "linked""#);
    let (right, bench) = (
        Bench::new(&[server.url()], &more),
        Bench::new(&[server.url()], &more),
    );
    right.say(&["run", "--until-caught-up"]);
    let right = open_archive(&right).await;
    let mut blocks: Vec<Block> = Vec::new();
    for number in 0..146 {
        let payload = right.payload(number, Dataset::Transactions).await.unwrap();
        let block = right.block(number).await.unwrap();
        blocks.push(Block { payload, ..block });
    }
    let kept = [
        Dataset::Logs,
        Dataset::TxHashes,
        Dataset::Headers,
        Dataset::Transactions,
    ];
    let archive = open_to_write_with(&bench, DatasetSet::of(&kept)).await;
    let wrong = blocks.iter_mut().filter_map(|block| {
        let bodies = block.payload.bodies.as_mut()?;
        bodies
            .first_mut()
            .map(|body| *body = bytes::Bytes::from_static(b"{}"))
    });
    assert!(wrong.count() > 50);
    let linked = Provenance::default();
    archive
        .ingest_finalized_blocks(blocks, &linked)
        .await
        .unwrap();
    archive.release().await.unwrap();
    drop(archive);
    bench.change(r#""verification": "linked""#, r#""verification": "roots""#);
    let reported = bench.json(&["repair", "--json", "--against-source"]);
    assert!(reported.to_string().contains("pack/"), "{reported}");
    bench.say(&["verify", "--against-source"]);
    let archive = open_archive(&bench).await;
    for number in 0..146 {
        let bodies = async |archive: &Archive| {
            let payload = archive.payload(number, Dataset::Transactions).await;
            payload.unwrap().bodies.unwrap()
        };
        assert_eq!(
            bodies(&archive).await,
            bodies(&right).await,
            "block {number}"
        );
    }
}

/// A body as an endpoint showed it once, unproven.
const UNPROVEN: &[u8] = b"{}";

/// An archive of unproven blocks whose bodies are wrong, and the blocks as they should be.
async fn with_unproven_bodies(bench: &Bench, node: &EvmNode, kept: &[Dataset]) -> Vec<Block> {
    let mut right = Vec::new();
    for number in 0..146 {
        let block = node.block(number).unwrap().to_model();
        right.push(block);
    }
    let wrong = right.iter().cloned().map(|mut block| {
        let bodies = block
            .txs
            .iter()
            .map(|_| bytes::Bytes::from_static(UNPROVEN));
        block.payload.bodies = Some(bodies.collect());
        block
    });
    let archive = open_to_write_with(bench, DatasetSet::of(kept)).await;
    // Two packs.
    let (first, second): (Vec<Block>, Vec<Block>) =
        wrong.partition(|block| block.clock.number < 61);
    for blocks in [first, second] {
        let how = Provenance::default();
        let taken = archive.ingest_finalized_blocks(blocks, &how).await;
        taken.unwrap();
    }
    archive.release().await.unwrap();
    right
}

/// Every body that is called proven is not the one that was never proven.
async fn count_proven(bench: &Bench, kept: &[Dataset]) -> (u64, u64) {
    let archive = open_archive(bench).await;
    let (mut proven, mut claimed) = (0, 0);
    for (range, proof) in archive.kept(DatasetSet::of(kept), &chronolith_model::Scope::All) {
        for number in range.start..range.end {
            let payload = archive
                .payload(number, Dataset::Transactions)
                .await
                .unwrap();
            let bodies = payload.bodies.unwrap();
            let is_proven = proof.of(Dataset::Transactions) == Verification::Roots;
            let wrong = bodies.iter().any(|body| body == UNPROVEN);
            assert!(!(is_proven && wrong), "block {number} is called proven");
            match is_proven {
                true => proven += 1,
                false => claimed += 1,
            }
        }
    }
    (proven, claimed)
}

/// A segment that is lost is rebuilt at a better level than its blocks had. The packs beside it hold what was
/// never proven, and no level says otherwise: once they were called `roots` for the segment's sake.
#[tokio::test(flavor = "multi_thread")]
async fn unproven_bodies_are_not_called_proven_by_a_repair() {
    let node = EvmNode::new(EvmSpec::tiny(38), 150);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "datasets": ["logs", "tx_hashes", "transactions"]"#);
    let bench = Bench::new(&[server.url()], &more);
    let kept = [Dataset::Logs, Dataset::TxHashes, Dataset::Transactions];
    let blocks = with_unproven_bodies(&bench, &node, &kept).await;
    assert_eq!(count_proven(&bench, &kept).await.0, 0);
    std::fs::remove_file(objects(&bench, "bat").remove(0)).unwrap();
    let reported = bench.json(&["repair", "--json"]);
    assert_eq!(
        reported["repaired"].as_array().unwrap().len(),
        1,
        "{reported}"
    );
    count_proven(&bench, &kept).await;
    bench.say(&["verify"]);
    // Only a comparison with the source replaces what was published, segments and packs together.
    let reported = bench.json(&["repair", "--json", "--against-source"]);
    assert!(reported.to_string().contains("pack/"), "{reported}");
    bench.say(&["verify", "--against-source"]);
    assert_eq!(count_proven(&bench, &kept).await, (146, 0));
    assert_equals(&bench, &node, BlockRange::new(0, blocks.len() as u64));
}

/// Right blocks that were archived before anything was proven of them: a comparison with the source raises their
/// level, and changes nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn levels_of_old_blocks_are_raised() {
    let node = EvmNode::new(EvmSpec::tiny(39), 150);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "datasets": ["logs", "tx_hashes"]"#);
    let bench = Bench::new(&[server.url()], &more);
    let archive = open_to_write(&bench).await;
    let blocks = (0..146).map(|number| node.block(number).unwrap().to_model());
    let how = Provenance::default();
    let taken = archive
        .ingest_finalized_blocks(blocks.collect(), &how)
        .await;
    taken.unwrap();
    archive.release().await.unwrap();
    drop(archive);
    let before = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(before["level"], "claimed");
    let reported = bench.json(&["repair", "--json", "--against-source"]);
    assert!(
        !reported["repaired"].as_array().unwrap().is_empty(),
        "{reported}"
    );
    let after = bench.json(&["verify", "--json"]);
    assert_eq!(after["level"], "roots");
    assert_eq!(after["contentRoot"], before["contentRoot"]);
    let again = bench.json(&["repair", "--json", "--against-source"]);
    assert!(again["repaired"].as_array().unwrap().is_empty(), "{again}");
}

/// Where nothing but the times of blocks is kept, all of it is verified and repaired as well.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_alone_are_verified_and_repaired() {
    let node = EvmNode::new(EvmSpec::tiny(36), 120);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "datasets": ["clock"]"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    let root = bench.json(&["verify", "--json", "--against-source"])["contentRoot"].clone();
    assert!(root.is_string());
    std::fs::remove_file(objects(&bench, "bat").remove(0)).unwrap();
    assert_eq!(bench.output(&["verify"]).status.code(), Some(3));
    bench.say(&["repair"]);
    assert_eq!(bench.json(&["verify", "--json"])["contentRoot"], root);
    let archive = open_archive(&bench).await;
    for number in 0..116 {
        let clock = node.block(number).unwrap().to_model().clock;
        assert_eq!(archive.block_by_number(number).await.unwrap(), clock);
    }
}

/// Beside a node that writes nothing is repaired, and the message says so; a dry run is fine.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_runs_is_not_disturbed() {
    let (bench, _node, _server) = archived(34).await;
    let running = bench.start();
    bench.wait("the node", || bench.has("following"));
    let refused = bench.output(&["repair"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(message.contains("stop the node"), "{message}");
    bench.say(&["repair", "--dry-run"]);
    running.stop();
    bench.say(&["repair"]);
}

//! `verify --against-source` compares all that is kept, and says whole only of that.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_evm::BlockFields;
use chronolith_model::{Block, ChainId, Dataset, DatasetSet, Proof};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use serde_json::{Value, json};
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, open_archive, serve};

fn kept(datasets: &[Dataset]) -> String {
    let names: Vec<&str> = datasets.iter().map(|dataset| dataset.name()).collect();
    format!(r#"{DEPTH_5}, "datasets": {names:?}"#)
}

/// Every block with its payload.
async fn blocks_of(bench: &Bench, count: u64) -> Vec<Block> {
    let archive = open_archive(bench).await;
    let mut blocks = Vec::new();
    for number in 0..count {
        let mut block = archive.block(number).await.unwrap();
        let headers = archive.payload(number, Dataset::Headers).await.unwrap();
        let bodies = archive.payload(number, Dataset::Transactions).await;
        block.payload.header = headers.header;
        block.payload.bodies = bodies.unwrap().bodies;
        blocks.push(block);
    }
    blocks
}

async fn archive(bench: &Bench, datasets: &[Dataset], blocks: Vec<Block>) {
    archive_as(bench, datasets, blocks, Proof::CLAIMED).await;
}

async fn archive_as(bench: &Bench, datasets: &[Dataset], blocks: Vec<Block>, proof: Proof) {
    let dir = bench.chain_dir();
    std::fs::create_dir_all(&dir).unwrap();
    let (meta, blobs) = (FileMeta::open_writer(&dir), FileBlobs::open_writer(&dir));
    let (meta, blobs) = (Arc::new(meta.unwrap()), Arc::new(blobs.unwrap()));
    let mut settings = Settings::evm(ChainId(31_337));
    settings.datasets = DatasetSet::of(datasets);
    let opened = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await;
    let archive = opened.unwrap();
    let how = Provenance {
        proof,
        ..Provenance::default()
    };
    archive.ingest_finalized_blocks(blocks, &how).await.unwrap();
    archive.release().await.unwrap();
}

fn flipped(bytes: &Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    bytes.into()
}

/// What is altered in a block, whether it could be.
type Alter = fn(&mut Block) -> bool;

#[tokio::test(flavor = "multi_thread")]
async fn every_dataset_that_is_kept_is_compared() {
    use Dataset::{Headers, Logs, Transactions, TxHashes};
    let node = EvmNode::new(EvmSpec::tiny(91), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let all = Bench::new(
        &[server.url()],
        &kept(&[Headers, Logs, TxHashes, Transactions]),
    );
    all.say(&["run", "--until-caught-up"]);
    let blocks = blocks_of(&all, 56).await;
    let header: Alter = |block| {
        block.payload.header = block.payload.header.as_ref().map(flipped);
        true
    };
    let bodies: Alter = |block| {
        let body = block.payload.bodies.iter_mut().flatten().next();
        body.map(|body| *body = flipped(body)).is_some()
    };
    let hashes: Alter = |block| {
        let tx = block.txs.last_mut();
        tx.map(|tx| tx.hash.0[0] ^= 1).is_some()
    };
    let cases: [(&[Dataset], Alter, &str); 5] = [
        (&[Headers, Logs, TxHashes], header, "another header"),
        (&[Headers], header, "another header"),
        (
            &[Logs, TxHashes, Transactions],
            bodies,
            "other bodies of transactions",
        ),
        (&[TxHashes], hashes, "other transactions"),
        (&[Headers, TxHashes], hashes, "other transactions"),
    ];
    for (datasets, alter, expected) in cases {
        let bench = Bench::new(&[server.url()], &kept(datasets));
        archive(&bench, datasets, blocks.clone()).await;
        bench.say(&["verify", "--against-source"]);
        let bench = Bench::new(&[server.url()], &kept(datasets));
        let mut altered = blocks.clone();
        let mut candidates = altered.iter_mut().skip(20);
        let number = candidates.find_map(|block| alter(block).then_some(block.clock.number));
        archive(&bench, datasets, altered).await;
        let output = bench.output(&["verify", "--json", "--against-source"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{datasets:?}: {message}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = found["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{datasets:?}: {found}");
        assert_eq!(findings[0]["block"].as_u64(), number);
        let what = findings[0]["what"].as_str().unwrap();
        assert!(what.contains(expected), "{datasets:?}: {what}");
    }
}

/// What a level promises is computed again from the archive alone: an archive that was poisoned before
/// levels meant anything is found out without a source.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_proven_is_computed_again_without_a_source() {
    use Dataset::{Headers, Logs, Transactions, TxHashes};
    let datasets = [Headers, Logs, TxHashes, Transactions];
    let node = EvmNode::new(EvmSpec::tiny(92), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let honest = Bench::new(&[server.url()], &kept(&datasets));
    honest.say(&["run", "--until-caught-up"]);
    assert_eq!(
        honest.json(&["state", "--json"])[0]["covered"][0]["level"],
        "roots"
    );
    let blocks = blocks_of(&honest, 56).await;
    drop(server);
    let header: Alter = |block| {
        block.payload.header = block.payload.header.as_ref().map(flipped);
        true
    };
    let body: Alter = |block| {
        let body = block.payload.bodies.iter_mut().flatten().next();
        // Inside of the transaction's bytes: behind them is what nothing proves.
        let altered = body.map(|body| {
            let mut bytes = body.to_vec();
            bytes[12] ^= 1;
            *body = bytes.into();
        });
        altered.is_some()
    };
    let hash: Alter = |block| {
        let tx = block.txs.last_mut();
        tx.map(|tx| tx.hash.0[0] ^= 1).is_some()
    };
    let log: Alter = |block| block.logs.pop().is_some();
    for (alter, expected) in [
        (header, "the archived header hashes to"),
        (body, "has another hash"),
        (hash, "has another hash"),
        (log, "do not give the bloom"),
    ] {
        for (proof, code) in [(Proof::ROOTS, 3), (Proof::CLAIMED, 0)] {
            let bench = Bench::new(&["http://127.0.0.1:1".to_owned()], &kept(&datasets));
            let mut altered = blocks.clone();
            let mut candidates = altered.iter_mut().skip(20);
            let number = candidates.find_map(|block| alter(block).then_some(block.clock.number));
            archive_as(&bench, &datasets, altered, proof).await;
            let output = bench.output(&["verify", "--json"]);
            let message = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(code), "{expected}: {message}");
            if code == 0 {
                continue;
            }
            let found: Value = serde_json::from_str(&message).unwrap();
            assert_eq!(found["findings"][0]["block"].as_u64(), number, "{found}");
            let what = found["findings"][0]["what"].as_str().unwrap();
            assert!(what.contains(expected), "{found}");
        }
    }
}

/// Archives blocks as if they were proven, and verifies them without a source.
async fn verified(
    datasets: &[Dataset],
    blocks: Vec<Block>,
    proof: Proof,
) -> (Option<i32>, Value, Bench) {
    let bench = Bench::new(&["http://127.0.0.1:1".to_owned()], &kept(datasets));
    archive_as(&bench, datasets, blocks, proof).await;
    let output = bench.output(&["verify", "--json"]);
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = serde_json::from_str(&message).unwrap();
    (output.status.code(), found, bench)
}

/// Blocks whose headers have a field that is not Ethereum's, as they are kept.
async fn with_another_field(datasets: &[Dataset]) -> Vec<Block> {
    let node = EvmNode::new(EvmSpec::tiny(93), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let honest = Bench::new(&[server.url()], &kept(datasets));
    honest.say(&["run", "--until-caught-up"]);
    let running = honest.start_with(&["serve"], &[]);
    honest.wait("its listener", || honest.has("archives_served"));
    let rpc = Rpc::new(honest.public());
    let mut blocks = blocks_of(&honest, 56).await;
    for block in &mut blocks {
        let number = format!("{:#x}", block.clock.number);
        let mut shown = rpc
            .call("eth_getBlockByNumber", json!([number, false]))
            .await;
        shown["l1BlockNumber"] = json!("0x7");
        let fields: BlockFields<Value> = serde_json::from_str(&shown.to_string()).unwrap();
        block.payload.header = Some(fields.header.to_json().into());
    }
    running.stop();
    blocks
}

/// One field that is not Ethereum's makes a header JSON. Such a block was not computed again at all, and
/// what nothing proves was served as if it were the header's.
#[tokio::test(flavor = "multi_thread")]
async fn headers_with_other_fields_are_computed_again_and_say_what_is_unproven() {
    use Dataset::{Headers, Logs, Transactions, TxHashes};
    let datasets = [Headers, Logs, TxHashes, Transactions];
    let blocks = with_another_field(&datasets).await;
    let (code, found, bench) = verified(&datasets, blocks.clone(), Proof::ROOTS).await;
    assert_eq!(
        (code, &found["notRecomputed"]),
        (Some(0), &json!(0)),
        "{found}"
    );
    let running = bench.start_with(&["serve"], &[]);
    bench.wait("its listener", || bench.has("archives_served"));
    let rpc = Rpc::new(bench.public());
    let shown = rpc
        .call("eth_getBlockByNumber", json!(["0x14", true]))
        .await;
    assert_eq!(shown["l1BlockNumber"], "0x7", "{shown}");
    assert_eq!(shown["unprovenFields"], json!(["l1BlockNumber"]), "{shown}");
    running.stop();
    let (code, found, _) = verified(&datasets, blocks.clone(), Proof::CLAIMED).await;
    assert_eq!(
        (code, &found["notRecomputed"]),
        (Some(0), &json!(56)),
        "{found}"
    );
    // Without logs a block is read without its transactions, which are there all the same.
    let less = [Headers, TxHashes, Transactions];
    let (code, found, _) = verified(&less, blocks.clone(), Proof::ROOTS).await;
    assert_eq!(
        (code, &found["notRecomputed"]),
        (Some(0), &json!(0)),
        "{found}"
    );
    let header: Alter = |block| {
        let json = block.payload.header.take().unwrap();
        let mut fields: Value = serde_json::from_slice(&json).unwrap();
        fields["stateRoot"] = fields["parentHash"].clone();
        block.payload.header = Some(fields.to_string().into());
        true
    };
    let body: Alter = |block| {
        let body = block.payload.bodies.iter_mut().flatten().next();
        let altered = body.map(|body| {
            let mut bytes = body.to_vec();
            bytes[12] ^= 1;
            *body = bytes.into();
        });
        altered.is_some()
    };
    let log: Alter = |block| block.logs.pop().is_some();
    for (alter, expected) in [
        (header, "in no known form"),
        (body, "has another hash"),
        (log, "do not give the bloom"),
    ] {
        let mut altered = blocks.clone();
        let mut candidates = altered.iter_mut().skip(20);
        let number = candidates.find_map(|block| alter(block).then_some(block.clock.number));
        let (code, found, _) = verified(&datasets, altered, Proof::ROOTS).await;
        assert_eq!(code, Some(3), "{expected}: {found}");
        assert_eq!(found["findings"][0]["block"].as_u64(), number, "{found}");
        let what = found["findings"][0]["what"].as_str().unwrap();
        assert!(what.contains(expected), "{found}");
    }
}

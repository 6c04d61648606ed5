//! `verify` and `repair` of archives that an older version wrote from an inconsistent lake, without a check of
//! events. What is refused of such a lake: `crates/follower/tests/lake_inconsistent.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, ChainId, Log, LogParts, Proof};
use chronolith_sim::stellar::{Forged, LakeForgery, forge};
use chronolith_stellar::{EventPlace, Ledger, TxParts, prove, without_proofs};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use support::Bench;
use support::stellar::{Pond, bench};

const END: u32 = 60;

/// The first ledger from here on that can be forged so.
fn chance(pond: &Pond, from: u32, forgery: LakeForgery) -> Option<(u32, Forged)> {
    let mut ledgers = from..END;
    ledgers.find_map(|at| Some((at, forge(&pond.chain, at, forgery)?)))
}

/// The block of a ledger as it was made.
fn made(pond: &Pond, number: u32) -> Block {
    let ledger = Ledger::walk(pond.chain.ledger(number).raw.clone()).unwrap();
    prove(ledger, &pond.network()).unwrap().block().unwrap()
}

/// Puts blocks where the program looks for them, as a version did that did not check events.
async fn put(bench: &Bench, pond: &Pond, blocks: Vec<Block>, proof: Proof) {
    let chain = pond.network().chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}"));
    std::fs::create_dir_all(&dir).unwrap();
    let (meta, blobs) = (FileMeta::open_writer(&dir), FileBlobs::open_writer(&dir));
    let (meta, blobs) = (Arc::new(meta.unwrap()), Arc::new(blobs.unwrap()));
    let settings = Settings::stellar(ChainId(chain));
    let opened = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await;
    let archive = opened.unwrap();
    let provenance = Provenance {
        proof,
        ..Provenance::default()
    };
    let taken = archive.ingest_finalized_blocks(blocks, &provenance).await;
    taken.unwrap();
    archive.release().await.unwrap();
}

/// The block as an old version made it of a ledger with a changed event.
fn poisoned(pond: &Pond, number: u32, forged: &Forged) -> Block {
    let mut block = made(pond, number);
    block.logs = without_proofs(&block.logs).unwrap();
    let position = forged.position.unwrap();
    let (was, is) = (pond.chain.ledger(number).raw.clone(), &forged.raw);
    // The change is one run of bytes: what is the same before and after it is left out.
    let before = was
        .iter()
        .zip(is.iter())
        .take_while(|(a, b)| a == b)
        .count();
    let after = was.iter().rev().zip(is.iter().rev());
    let after = after.take_while(|(a, b)| a == b).count();
    let after = after.min(was.len() - before).min(is.len() - before);
    let context = 24.min(before);
    let old = &was[before - context..was.len() - after];
    let new = &is[before - context..is.len() - after];
    let bodies = block.payload.bodies.as_mut().unwrap();
    let body = &mut bodies[position as usize];
    let at = body
        .windows(old.len())
        .position(|part| part == old)
        .unwrap();
    *body = Bytes::from([&body[..at], new, &body[at + old.len()..]].concat());
    let parts = TxParts::read(body).unwrap();
    let events = parts.events().unwrap();
    assert!(!events.operations[0].is_empty());
    // The value of the first event is the end of its XDR.
    let value = 6_666_u32.to_be_bytes();
    let first = block.logs.iter().position(|log| {
        let place = EventPlace::read(log).unwrap();
        log.tx_index() == position && matches!(place.stage, chronolith_stellar::Stage::Operation(0))
    });
    let log = &mut block.logs[first.unwrap()];
    let topics: Vec<Vec<u8>> = log.topics().map(<[u8]>::to_vec).collect();
    let topics: Vec<&[u8]> = topics.iter().map(|topic| &**topic).collect();
    *log = Log::new(&LogParts {
        tx_index: log.tx_index(),
        log_index: log.log_index(),
        kind: log.kind(),
        emitter: log.emitter(),
        topics: &topics,
        data: &[&3_u32.to_be_bytes()[..], &value].concat(),
        suffix: log.suffix(),
    })
    .unwrap();
    block
}

/// Archives of older versions may hold wrong events, as `receipts`. They read as `linked`, `verify` finds the event
/// without any source, and beside a consistent lake too; where nothing was changed it finds nothing, though no log
/// of such an archive says that it is proven.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_events_of_an_older_version_are_found() {
    let pond = Pond::new(82, END);
    let (number, forged) = chance(&pond, 30, LakeForgery::ChangedEvent).unwrap();
    let old = Proof::from_byte(2).unwrap();
    for is_poisoned in [false, true] {
        let bench = bench(&pond.fields(&pond.lake_field()), "");
        let blocks = (2..END).map(|at| match at == number && is_poisoned {
            true => poisoned(&pond, at, &forged),
            false => {
                let block = made(&pond, at);
                Block {
                    logs: without_proofs(&block.logs).unwrap(),
                    ..block
                }
            }
        });
        put(&bench, &pond, blocks.collect(), old).await;
        let state = bench.json(&["state", "--json"]);
        assert_eq!(
            state[0]["covered"][0]["levels"]["logs"], "linked",
            "{state}"
        );
        for words in [
            &["verify", "--json"][..],
            &["verify", "--against-source", "--json"],
        ] {
            let output = bench.output(words);
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let findings = answer["findings"].as_array().unwrap();
            let expected = match is_poisoned {
                true => words.len() - 1,
                false => 0,
            };
            assert_eq!(findings.len(), expected, "{answer}");
            assert!(
                findings.iter().all(|one| one["block"] == number),
                "{answer}"
            );
            if is_poisoned {
                let tx = pond.chain.ledger(number).txs[forged.position.unwrap() as usize].hash;
                let what = findings[0]["what"].as_str().unwrap();
                assert!(what.contains(&tx.to_string()), "{what}");
                assert!(!output.status.success());
            }
        }
    }
}

/// An archive of an older version has logs without marks of what is proven. A pack or a segment that is lost is
/// rebuilt.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_an_older_version_is_repaired() {
    let pond = Pond::new(83, END);
    for folder in ["pack", "bat"] {
        let bench = bench(&pond.fields(&pond.lake_field()), "");
        let old = |at| {
            let block = made(&pond, at);
            let logs = without_proofs(&block.logs).unwrap();
            Block { logs, ..block }
        };
        let proof = Proof::from_byte(2).unwrap();
        put(&bench, &pond, (2..END).map(old).collect(), proof).await;
        let chain = pond.network().chain_id();
        let dir = bench.dir.path();
        let dir = dir.join(format!("data/chains/{chain}/blobs/{folder}"));
        let file = std::fs::read_dir(dir).unwrap().next().unwrap().unwrap();
        std::fs::remove_file(file.path()).unwrap();
        let repaired = bench.json(&["repair", "--json"]);
        let left = repaired["objects"].as_array().unwrap();
        assert_eq!(left.len(), 0, "{repaired}");
        bench.say(&["verify", "--against-source"]);
        pond.assert_archived(&bench, 2..END).await;
    }
}

/// A lost pack that no state names is missing. A backfill brings it in steps, each of which cuts the segment
/// that an older version wrote: its digests are over logs without marks.
#[tokio::test(flavor = "multi_thread")]
async fn a_pack_of_an_older_version_is_filled_in_again() {
    let pond = Pond::new(84, END);
    let ranges = r#", "ranges": { "checkpoint": 7 }"#;
    let bench = bench(&pond.fields(&pond.lake_field()), ranges);
    let old = |at| {
        let block = made(&pond, at);
        let logs = without_proofs(&block.logs).unwrap();
        Block { logs, ..block }
    };
    let proof = Proof::from_byte(2).unwrap();
    put(&bench, &pond, (2..END).map(old).collect(), proof).await;
    let dir = bench.dir.path();
    let dir = dir.join(format!("data/chains/{}", pond.network().chain_id()));
    std::fs::remove_file(dir.join("state")).unwrap();
    std::fs::remove_dir_all(dir.join("states")).unwrap();
    std::fs::remove_dir_all(dir.join("blobs/pack")).unwrap();
    let hash = made(&pond, END - 1).clock.hash;
    let anchor = format!("{}:{hash}", END - 1);
    bench.json(&["archive", "rebuild-state", "--json", "--anchor", &anchor]);
    assert_eq!(bench.output(&["verify"]).status.code(), Some(3));
    let last = (END - 1).to_string();
    bench.say(&["backfill", "--from", "2", "--to", &last]);
    bench.say(&["verify", "--against-source"]);
    pond.assert_archived(&bench, 2..END).await;
}

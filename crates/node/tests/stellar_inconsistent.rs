//! A lake that lies: it changes, removes or doubles what a ledger holds and packs the object again with a right
//! checksum. What breaks a hash of the chain is refused, with ledger and transaction named; what no hash covers
//! is never called proven; and an archive that took such lies before is found out.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, BlockRange, ChainId, Log, LogParts, Proof};
use chronolith_sim::stellar::{Forged, LakeForgery, forge};
use chronolith_stellar::{EventPlace, Ledger, TxParts, prove, without_proofs};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use support::Bench;
use support::stellar::{Pond, archive, bench, ledger_bytes};

const END: u32 = 60;

/// The first ledger from here on that a lie can be told in.
fn chance(pond: &Pond, from: u32, lie: LakeForgery) -> Option<(u32, Forged)> {
    let mut ledgers = from..END;
    ledgers.find_map(|at| Some((at, forge(&pond.chain, at, lie)?)))
}

/// The block of a ledger as it was made.
fn honest(pond: &Pond, number: u32) -> Block {
    let ledger = Ledger::walk(pond.chain.ledger(number).raw.clone()).unwrap();
    prove(ledger, &pond.network()).unwrap().block().unwrap()
}

/// In the audit, one event was changed, four were removed and one was doubled: two wrong events were served as
/// proven, and `verify --against-source` found nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lying_lake_is_refused_and_the_transaction_named() {
    let lies = [
        LakeForgery::ChangedEvent,
        LakeForgery::RemovedEvent,
        LakeForgery::DoubledEvent,
    ];
    let pond = Pond::new(81, END);
    let mut from = 25;
    let mut told = Vec::new();
    for lie in lies {
        let (number, forged) = chance(&pond, from, lie).unwrap();
        pond.lake.forge(&pond.chain, number, lie).unwrap();
        let position = forged.position.unwrap();
        let tx = pond.chain.ledger(number).txs[position as usize].hash;
        told.push((number, format!("ledger {number}, transaction {tx}")));
        from = number + 1;
    }
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    let running = bench.start();
    for (number, words) in &told {
        bench.wait(words, || bench.has_with("ingest_failing", "error", words));
        assert!(bench.head() < Some(u64::from(*number)), "{words}");
        pond.lake.write(&pond.chain, *number..number + 1).unwrap();
    }
    bench.wait("all ledgers", || bench.head() == Some(u64::from(END) - 1));
    running.stop();
    pond.assert_archived(&bench, 2..END).await;
    bench.say(&["verify", "--against-source"]);
    // Logs say for themselves what is proven of them.
    let logs = bench.json(&["logs", "--json", "--limit", "10000"]);
    assert_eq!(logs["level"], "linked");
    let logs = logs["logs"].as_array().unwrap();
    let proven = logs.iter().filter(|log| log["level"] == "roots").count();
    assert!(
        proven > 0 && proven < logs.len(),
        "{proven} of {}",
        logs.len()
    );
    let table = bench.say(&["logs", "--limit", "10000"]);
    assert_eq!(table.matches("  roots ").count(), proven, "{table}");
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
    let mut block = honest(pond, number);
    block.logs = without_proofs(&block.logs).unwrap();
    let position = forged.position.unwrap();
    let (was, is) = (pond.chain.ledger(number).raw.clone(), &forged.raw);
    // The lie is one run of bytes: what is the same before and behind it is left out.
    let before = was
        .iter()
        .zip(is.iter())
        .take_while(|(a, b)| a == b)
        .count();
    let behind = was.iter().rev().zip(is.iter().rev());
    let behind = behind.take_while(|(a, b)| a == b).count();
    let behind = behind.min(was.len() - before).min(is.len() - before);
    let context = 24.min(before);
    let old = &was[before - context..was.len() - behind];
    let new = &is[before - context..is.len() - behind];
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

/// Archives of older versions may hold such lies, as `receipts`. They read as `linked`, `verify` finds the lie
/// without any source, and beside an honest lake too; where nothing was changed it finds nothing, though no log
/// of such an archive says that it is proven.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_was_poisoned_before_is_found_out() {
    let pond = Pond::new(82, END);
    let (number, forged) = chance(&pond, 30, LakeForgery::ChangedEvent).unwrap();
    let old = Proof::from_byte(2).unwrap();
    for is_poisoned in [false, true] {
        let bench = bench(&pond.fields(&pond.lake_field()), "");
        let blocks = (2..END).map(|at| match at == number && is_poisoned {
            true => poisoned(&pond, at, &forged),
            false => {
                let block = honest(&pond, at);
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
                let told = findings[0]["what"].as_str().unwrap();
                assert!(told.contains(&tx.to_string()), "{told}");
                assert!(!output.status.success());
            }
        }
    }
}

/// An archive of an older version has logs without marks of what is proven. Whatever of it is lost is repaired:
/// a pack or a segment.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_an_older_version_is_repaired() {
    let pond = Pond::new(83, END);
    for folder in ["pack", "bat"] {
        let bench = bench(&pond.fields(&pond.lake_field()), "");
        let old = |at| {
            let block = honest(&pond, at);
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
        let told = bench.json(&["repair", "--json"]);
        assert_eq!(told["objects"].as_array().unwrap().len(), 0, "{told}");
        bench.say(&["verify", "--against-source"]);
        pond.assert_archived(&bench, 2..END).await;
    }
}

/// A lost pack that no state names is lacking. A backfill brings it in steps, each of which cuts the segment
/// that an older version wrote: its digests are over logs without marks.
#[tokio::test(flavor = "multi_thread")]
async fn a_pack_of_an_older_version_is_filled_in_again() {
    let pond = Pond::new(84, END);
    let ranges = r#", "ranges": { "checkpoint": 7 }"#;
    let bench = bench(&pond.fields(&pond.lake_field()), ranges);
    let old = |at| {
        let block = honest(&pond, at);
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
    let hash = honest(&pond, END - 1).clock.hash;
    let anchor = format!("{}:{hash}", END - 1);
    bench.json(&["archive", "rebuild-state", "--json", "--anchor", &anchor]);
    assert_eq!(bench.output(&["verify"]).status.code(), Some(3));
    let last = (END - 1).to_string();
    bench.say(&["backfill", "--from", "2", "--to", &last]);
    bench.say(&["verify", "--against-source"]);
    pond.assert_archived(&bench, 2..END).await;
}

/// What a block claims: its transactions, and the logs that it calls proven.
fn claimed(block: &Block) -> Vec<String> {
    let logs = block.logs.iter().filter(|log| EventPlace::is_proven(log));
    let txs = block.txs.iter().map(|tx| format!("{tx:?}"));
    txs.chain(logs.map(|log| {
        // Its place in the ledger counts events before it that no hash covers.
        let place = EventPlace::read(log).unwrap();
        format!(
            "{place:?} {:?} {:?}",
            log.topics().collect::<Vec<_>>(),
            log.data()
        )
    }))
    .collect()
}

/// One lie about ledgers, two about transactions and as many about events as there is room for, and some that no
/// hash tells of. How many were told, by kind.
async fn torture(seed: u64, told: &mut BTreeMap<LakeForgery, u32>) {
    let pond = Pond::new(seed, END);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut lies = BTreeMap::new();
    let mut at = 4;
    while at < END {
        let lie = *LakeForgery::ALL.choose(&mut rng).unwrap();
        if pond.lake.forge(&pond.chain, at, lie).unwrap().is_some() {
            *told.entry(lie).or_default() += 1;
            lies.insert(at, lie);
        }
        at += rng.random_range(1..6);
    }
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    for (&number, &lie) in lies.iter().filter(|(_, lie)| lie.breaks_a_hash()) {
        // Killed after each: a program that continues would pause for longer after every lie.
        let running = bench.start();
        let key = pond.lake.layout().key(number);
        bench.wait(&format!("{lie:?} in {key}"), || bench.log().contains(&key));
        assert!(
            bench.head() < Some(number.into()),
            "seed {seed}: {lie:?} in {number}"
        );
        running.kill();
        pond.lake.write(&pond.chain, number..number + 1).unwrap();
    }
    let running = bench.start();
    bench.wait("all ledgers", || bench.head() == Some(u64::from(END) - 1));
    running.stop();
    let archived = archive(&bench, &pond.network()).await;
    for number in 2..END {
        let lie = lies.get(&number).filter(|lie| !lie.breaks_a_hash());
        let block = archived.block(number.into()).await.unwrap();
        let truth = honest(&pond, number);
        assert_eq!(
            claimed(&block),
            claimed(&truth),
            "seed {seed}: ledger {number}"
        );
        let raw = ledger_bytes(&archived, number.into()).await;
        let is_same = raw == pond.chain.ledger(number).raw;
        assert_eq!(is_same, lie.is_none(), "seed {seed}: ledger {number}");
    }
    let range = BlockRange::new(2, END.into());
    for (covered, proof) in archived.kept(
        Settings::stellar(ChainId(0)).datasets,
        &chronolith_model::Scope::All,
    ) {
        assert!(covered.intersect(&range).is_some());
        assert_eq!(proof, Proof::LINKED.with_transactions(), "seed {seed}");
    }
}

/// No event, transaction or ledger is wrong or missing at the level that is claimed of it, whatever the lake
/// says. Two seeds; twenty with `CHRONOLITH_TORTURE=1`, and every kind of lie is told.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_wrong_or_missing_at_the_level_that_is_claimed() {
    let is_long = std::env::var("CHRONOLITH_TORTURE").is_ok();
    let mut told = BTreeMap::new();
    for seed in 900..if is_long { 920 } else { 902 } {
        torture(seed, &mut told).await;
    }
    println!("summary: {told:?}");
    let datasets = told.keys().map(|lie| lie.dataset());
    let datasets: std::collections::BTreeSet<_> = datasets.collect();
    assert_eq!(datasets.len(), 3, "{told:?}");
    assert!(!is_long || told.len() == LakeForgery::ALL.len(), "{told:?}");
}

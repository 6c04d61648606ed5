//! Downloads of logs: beyond the budget of one query they are read in smaller parts and nothing is missing. They wait
//! where something else fails for a moment, and are cut where their blocks are taken back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use chronolith_archive::{Archive, AuditEntry, Error, GcMode, Settings};
use chronolith_finality::Tail;
use chronolith_model::{Block, ChainId};
use chronolith_serve::chain::{ServedChain, ServedChains};
use chronolith_serve::http::{Access, ApiKeys, KeyLimits, Limits, Rate};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_sim::{Fault, FaultPlan, FaultyBlobs, Operation};
use chronolith_stellar::Network;
use parking_lot::Mutex;
use serde_json::Value;
use stellar_support::{Rpc, Still, Stores, archived, archived_in, as_evm, ingest, served};
use tokio::time::{Instant, sleep};

const CHAIN: u64 = 31_337;
const BLOCKS: u64 = 150;

/// The first blocks of a chain, through its newest one.
fn blocks_of(node: &EvmNode) -> Vec<Block> {
    let blocks = (0..=node.head().number).map(|number| node.block(number).unwrap().to_model());
    blocks.collect()
}

fn settings(candidates: u64) -> Settings {
    let mut settings = Settings::evm(ChainId(CHAIN));
    settings.seal.grid_blocks = 32;
    settings.seal.range_blocks = 320;
    settings.seal.weight = 40;
    settings.limits.candidates_max = candidates;
    settings.garbage.grace = Duration::ZERO;
    settings
}

async fn serve(blocks: &[Block], candidates: u64) -> Rpc {
    let archive = archived(&settings(candidates), blocks).await;
    listen(&archive, &no_tail(), Limits::default())
}

/// The archive has all blocks.
fn no_tail() -> Arc<Still> {
    let tail = Tail::new(usize::MAX, None);
    Arc::new(Still(Mutex::new(tail.snapshot())))
}

/// Answers of so few logs that a download has many pages.
fn small_pages() -> Limits {
    let mut limits = Limits::default();
    limits.answers.results = 20;
    limits
}

fn listen(archive: &Archive, live: &Arc<Still>, limits: Limits) -> Rpc {
    let tail = Tail::new(usize::MAX, None).snapshot();
    let chain = served("simulated", &Network::new("a test"), archive.clone(), tail);
    let chain = ServedChain {
        live: live.clone(),
        ..as_evm(CHAIN, &chain)
    };
    Rpc::of(vec![chain], limits, 0)
}

/// A download of which the first page is read.
async fn begin(rpc: &Rpc, query: &str) -> Response {
    let path = format!("/v1/chains/{CHAIN}/logs/download?{query}");
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = rpc.begin(request).await;
    assert_eq!(response.status(), 200, "{query}");
    response
}

/// The rest of a download; none where it is cut.
async fn rest_of(response: Response) -> Option<String> {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.ok()?;
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

/// The lines of a download, and of those the last.
async fn download(rpc: &Rpc, query: &str) -> (u16, Vec<Value>, Value) {
    let path = format!("/v1/chains/{CHAIN}/logs/download?{query}");
    let (status, text) = rpc.text(&path).await;
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let last = lines.pop().unwrap_or_default();
    (status, lines, last)
}

#[tokio::test]
async fn a_query_beyond_its_budget_is_read_in_parts() {
    let blocks = blocks_of(&EvmNode::new(EvmSpec::tiny(612), BLOCKS));
    let (whole, small) = (serve(&blocks, 50_000_000).await, serve(&blocks, 60).await);
    let (status, all, last) = download(&whole, "").await;
    assert_eq!((status, &last["complete"]), (200, &Value::Bool(true)));
    assert_eq!(
        all.len(),
        blocks.iter().map(|block| block.logs.len()).sum::<usize>()
    );
    let topic = all[0]["topics"][0].as_str().unwrap();
    for query in [
        String::new(),
        "order=desc".to_owned(),
        format!("topic0={topic}"),
        format!("topic0={topic}&order=desc&fromBlock=9&toBlock=140"),
    ] {
        let path = format!("/v1/chains/{CHAIN}/logs?fromBlock=0&toBlock=150&limit=10000&{query}");
        if !query.contains("fromBlock") {
            let (status, error) = small.get(&path).await;
            assert_eq!((status, &error["budget"]), (422, &"candidates".into()));
        }
        let (_, expected, _) = download(&whole, &query).await;
        let (status, logs, last) = download(&small, &query).await;
        assert_eq!(status, 200, "{query}");
        assert!(logs == expected, "{query}: {} logs", logs.len());
        assert_eq!(last["count"], expected.len(), "{query}");
    }
}

/// Lines and tables did not say whether later blocks may be in the requested times, and a download ended as complete
/// before the last of them: a block that is not final followed, and another one can come in its place.
#[tokio::test]
async fn a_download_by_time_ends_before_a_final_block() {
    let blocks = blocks_of(&EvmNode::new(EvmSpec::tiny(618), BLOCKS));
    let time = |number: usize| blocks[number].clock.timestamp;
    let mut numbers = 130..BLOCKS as usize;
    let last = numbers.find(|&number| time(number + 1) > time(number));
    let (final_ones, rest) = blocks.split_at(last.unwrap() + 1);
    let archive = archived(&settings(50_000_000), final_ones).await;
    let live = no_tail();
    let base = final_ones.last().unwrap().clock.block_ref();
    let mut tail = Tail::new(usize::MAX, Some(base));
    rest.iter()
        .for_each(|block| tail.push(block.clone()).unwrap());
    *live.0.lock() = tail.snapshot();
    let rpc = listen(&archive, &live, Limits::default());

    let (from, passed) = (time(5), final_ones.last().unwrap().clock.timestamp);
    let times = format!("from={from}&to={passed}");
    let (status, logs, end) = download(&rpc, &times).await;
    let within = blocks
        .iter()
        .filter(|block| (from..passed).contains(&block.clock.timestamp));
    assert_eq!(
        logs.len(),
        within.map(|block| block.logs.len()).sum::<usize>()
    );
    assert_eq!((status, &end["settled"]), (200, &Value::Bool(true)));
    let (_, _, end) = download(&rpc, "").await;
    assert_eq!(end.get("settled"), None, "by block");

    let later = format!("from={from}&to={}", passed + 1);
    let path = format!("/v1/chains/{CHAIN}/logs/download?{later}");
    let (status, error) = rpc.get(&path).await;
    assert_eq!((status, &error["code"]), (400, &"INVALID_FILTER".into()));
    let message = error["detail"].to_string();
    assert!(message.contains("final blocks reach until"), "{message}");

    let page = async |format: &str| {
        let path = format!("/v1/chains/{CHAIN}/logs?{later}&limit=5&format={format}");
        rpc.text(&path).await.1
    };
    let (lines, table) = (page("ndjson").await, page("csv").await);
    assert!(lines.ends_with(",\"settled\":true}\n"), "{lines}");
    assert!(table.ends_with(",settled=true\n"), "{table}");
}

/// Takes back every block after this one, and puts others there.
async fn replace(archive: &Archive, to: u64, others: &[Block]) {
    let act = "rewind".to_owned();
    archive.rewind(to, AuditEntry { at: 1, act }).await.unwrap();
    ingest(archive, others).await;
}

/// The blocks after the one with this number.
fn after(blocks: &[Block], number: u64) -> &[Block] {
    &blocks[number as usize + 1..]
}

/// Each page has a view of its own: a download that had begun ended as if it were complete, without the blocks that a
/// rewind took back, or with others that came in their place.
#[tokio::test]
async fn a_download_is_cut_where_its_blocks_are_taken_back() {
    const KEPT: u64 = 100;
    let node = EvmNode::new(EvmSpec::tiny(613), BLOCKS);
    let blocks = blocks_of(&node);
    node.reorg(BLOCKS - KEPT);
    let replaced = blocks_of(&node);
    let none: &[Block] = &[];
    let (same, others) = (after(&blocks, KEPT), after(&replaced, KEPT));
    for (put, order, is_whole) in [
        (none, "asc", false),
        (none, "desc", false),
        (others, "asc", false),
        (others, "desc", false),
        (same, "asc", true),
        (same, "desc", true),
    ] {
        let archive = archived(&settings(50_000_000), &blocks).await;
        let rpc = listen(&archive, &no_tail(), small_pages());
        let query = format!("order={order}");
        let whole = rest_of(begin(&rpc, &query).await).await.unwrap();
        assert!(whole.lines().count() > 10 * 20, "too few pages");
        // The first page ends long before the blocks that are taken back, or among them.
        let begun = begin(&rpc, &query).await;
        replace(&archive, KEPT, put).await;
        let rest = rest_of(begun).await;
        let put = put.len();
        assert_eq!(rest.is_some(), is_whole, "{order}, {put} blocks");
        assert!(rest.is_none_or(|rest| rest == whole), "{order}");
    }
}

/// While ingest and archive change hands there is no view for a moment: it ended every download.
#[tokio::test(start_paused = true)]
async fn a_download_waits_until_tail_and_archive_are_one_chain() {
    let node = EvmNode::new(EvmSpec::tiny(615), BLOCKS + 10);
    let (blocks, later) = (blocks_of(&node), node.block(BLOCKS + 9).unwrap());
    let archive = archived(&settings(50_000_000), &blocks[..=BLOCKS as usize]).await;
    let live = no_tail();
    let rpc = listen(&archive, &live, small_pages());
    let whole = rest_of(begin(&rpc, "").await).await;
    let begun = begin(&rpc, "").await;
    let mut apart = Tail::new(usize::MAX, None);
    apart.push(later.to_model()).unwrap();
    let joined = std::mem::replace(&mut *live.0.lock(), apart.snapshot());
    assert_eq!(rpc.get("/v1/chains/31337/logs").await.0, 503);
    let join = async {
        sleep(Duration::from_secs(10)).await;
        *live.0.lock() = joined;
    };
    let (rest, ()) = tokio::join!(rest_of(begun), join);
    assert!(rest.is_some() && rest == whole);
}

/// An object store that fails for a moment ended every download.
#[tokio::test(start_paused = true)]
async fn a_download_waits_for_the_store() {
    let blocks = blocks_of(&EvmNode::new(EvmSpec::tiny(616), BLOCKS));
    let stores = Stores::default();
    let writer = archived_in(&stores, &settings(50_000_000), &blocks).await;
    let whole = rest_of(begin(&listen(&writer, &no_tail(), small_pages()), "").await).await;
    // What the first page takes is known from one that meets no faults.
    let mut first_page = 0;
    for faults in [0, 12] {
        let failing = first_page..first_page + faults;
        let plan = FaultPlan::script(failing.map(|number| (number, Fault::FailUnapplied)));
        let blobs = Arc::new(FaultyBlobs::new(stores.blobs.clone(), plan.clone()));
        let reader = Archive::open_reader(stores.meta.clone(), blobs, settings(50_000_000));
        let rpc = listen(&reader.await.unwrap(), &no_tail(), small_pages());
        let begun = begin(&rpc, "").await;
        first_page = plan.operations();
        let rest = rest_of(begun).await;
        assert!(rest.is_some() && rest == whole, "{faults} faults");
        let met = Operation::ALL.map(|operation| plan.tally(operation).faults);
        assert_eq!(met.iter().sum::<u64>(), faults);
    }
}

/// A reader finds out by a missing object that its state is old. The first page of a download failed then.
#[tokio::test]
async fn a_download_begins_with_the_newest_state() {
    let blocks = blocks_of(&EvmNode::new(EvmSpec::tiny(617), BLOCKS));
    let stores = Stores::default();
    let writer = archived_in(&stores, &settings(50_000_000), &blocks).await;
    let (meta, blobs) = (stores.meta.clone(), stores.blobs.clone());
    let reader = Archive::open_reader(meta, blobs, settings(50_000_000));
    let reader = reader.await.unwrap();
    let old = reader.pin().unwrap();
    replace(&writer, BLOCKS - 5, after(&blocks, BLOCKS - 5)).await;
    writer.collect_garbage(GcMode::Remove).await.unwrap();
    let gone = old.block_by_number(BLOCKS).await;
    assert!(matches!(gone, Err(Error::Corrupt { .. })), "{gone:?}");
    let rpc = listen(&reader, &no_tail(), small_pages());
    let rest = rest_of(begin(&rpc, "").await).await;
    let whole = listen(&writer, &no_tail(), small_pages());
    assert!(rest.is_some() && rest == rest_of(begin(&whole, "").await).await);
}

/// A download took all bytes of its key as they came back: every other request of the key was refused until its end.
#[tokio::test(start_paused = true)]
async fn other_requests_of_a_key_pass_a_download() {
    let bytes = Rate {
        per_second: 20_000.0,
        burst: 40_000.0,
    };
    let keys = ApiKeys {
        anonymous: KeyLimits {
            requests: None,
            bytes: Some(bytes),
        },
        ..ApiKeys::default()
    };
    let blocks = blocks_of(&EvmNode::new(EvmSpec::tiny(619), BLOCKS));
    let archive = archived(&settings(50_000_000), &blocks).await;
    let mut rpc = listen(&archive, &no_tail(), Limits::default());
    let whole = rest_of(begin(&rpc, "").await).await.unwrap();
    let access = Access::new(Some(&keys), None, &ServedChains::new(Vec::new()));
    rpc.router = access.unwrap().guard(rpc.router);

    let began = Instant::now();
    let others = async {
        let mut refused = 0;
        // The first ones while the download takes what is there at once.
        for _ in 0..100 {
            sleep(Duration::from_millis(100)).await;
            let (status, _) = rpc.text("/v1/chains").await;
            refused += u32::from(status != 200);
        }
        refused
    };
    let download = async {
        let rest = rest_of(begin(&rpc, "").await).await;
        (rest, began.elapsed().as_secs_f64())
    };
    let (refused, (rest, took)) = tokio::join!(others, download);
    assert_eq!(refused, 0);
    assert!(rest.is_some_and(|rest| rest == whole));
    // At the rate of the key, less what the others took.
    let paced = (whole.len() as f64 - bytes.burst) / bytes.per_second;
    assert!(paced > 10.0, "the download is short: {paced}");
    assert!((paced..2.0 * paced).contains(&took), "{took} of {paced}");
}

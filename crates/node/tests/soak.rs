//! Mixed traffic while the chain grows and reorganises meets no error, with hostile clients beside the honest ones.
//! Here every client asks a fixed number of questions; `make soak` does it for ten minutes, and memory must stay
//! where it is.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::{Value, json};
use support::hostile::Hostile;
use support::rpc::Rpc;
use support::{Bench, serve};

const SECONDS: &str = "CHRONOLITH_SOAK_SECONDS";
const CLIENTS: u64 = 16;
/// What each client asks, and how many blocks come meanwhile, where no time is given.
const QUESTIONS: u64 = 300;
const BLOCKS: u64 = 30;
const BLOCK_TIME: Duration = Duration::from_millis(100);
/// Memory may grow by so much from the first third to the last: the tail and the archive's tables do.
const GROWTH: f64 = 1.15;
const GROWTH_MIB: f64 = 48.0;

/// A question, by its number, about a chain that has so many blocks.
fn question(kind: u64, number: u64, head: u64) -> (&'static str, Value) {
    let block = number * 7_919 % head;
    let hex = |number: u64| format!("0x{number:x}");
    match kind % 7 {
        0 => (
            "eth_getLogs",
            json!([{ "fromBlock": hex(block), "toBlock": hex(block) }]),
        ),
        1 => (
            "eth_getLogs",
            json!([{ "fromBlock": hex(block.saturating_sub(50)), "toBlock": hex(block), "topics": [[format!("0x{}", "ab".repeat(32))]] }]),
        ),
        2 => ("eth_getLogs", json!([{ "fromBlock": "latest" }])),
        3 => (
            "eth_getBlockByNumber",
            json!([hex(block), number.is_multiple_of(2)]),
        ),
        4 => (
            "chronolith_getLogs",
            json!([{ "fromBlock": "earliest", "limit": 100, "order": "desc" }]),
        ),
        5 => ("eth_blockNumber", json!([])),
        _ => ("chronolith_getCoverage", json!([])),
    }
}

fn memory_mib(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1_024.0
}

/// The most memory that was taken in the first and in the last third of a run.
#[derive(Default)]
struct Peaks {
    early: f64,
    late: f64,
}

impl Peaks {
    /// `part` is how much of the run is over, from 0 to 1.
    fn record(&mut self, part: f64, memory: f64) {
        match part {
            part if part < 0.34 => self.early = self.early.max(memory),
            part if part > 0.66 => self.late = self.late.max(memory),
            _ => {}
        }
    }

    /// Both are 0 where no time is given: a short run cannot tell growth from a start.
    fn assert_flat(&self) {
        let Self { early, late } = self;
        assert!(
            *late <= early * GROWTH + GROWTH_MIB,
            "{early:.0} MiB became {late:.0} MiB"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_traffic_meets_no_error_and_memory_stays() {
    let seconds = std::env::var(SECONDS).ok();
    let lasting = seconds.map(|text| Duration::from_secs(text.parse().unwrap()));
    let node = EvmNode::new(EvmSpec::tiny(91), 500);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(
        r#", "rpcWs": ["{}"], "finality": {{ "mode": "depth", "confirmations": 20 }}, "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#,
        server.ws_url()
    );
    let bench = Bench::new(&[server.url()], &more);
    // A cache grows until it is full: with a small one that is soon, and the rest must stay flat.
    bench.change(r#""metricsPort": 0"#, r#""metricsPort": 0, "cacheMib": 8"#);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(500).await;
    let (began, sent) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    // Whether so many of so many were done, or the time is over.
    let done = move |count: u64, all: u64| match lasting {
        Some(lasting) => began.elapsed() >= lasting,
        None => count >= all,
    };
    let clients = (0..CLIENTS).map(|client| {
        let (rpc, sent) = (rpc.clone(), sent.clone());
        tokio::spawn(async move {
            let first = client * 1_000_003;
            let mut number = first;
            while !done(number - first, QUESTIONS) {
                number += 1;
                // The head of the start: it is there whatever reorgs come, and so is what is below it.
                let (method, params) = question(number, number, 480);
                let answer = rpc.answer(method, params.clone()).await;
                assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
                assert!(!answer["result"].is_null(), "{method} {params}: {answer}");
                if number.is_multiple_of(5) {
                    let (status, answer) =
                        rpc.get("/v1/chains/31337/block/before/1600001000").await;
                    assert_eq!(status, 200, "{answer}");
                }
                sent.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let hostile = Hostile::start(&rpc.base, 31_337);
    let (mut peaks, mut blocks) = (Peaks::default(), 0);
    while !done(blocks, BLOCKS) {
        blocks += 1;
        match blocks % 10 {
            0 => node.reorg(3),
            _ => node.mine(1),
        };
        if let Some(lasting) = lasting {
            let part = began.elapsed().as_secs_f64() / lasting.as_secs_f64();
            peaks.record(part, memory_mib(running.id()));
        }
        tokio::time::sleep(BLOCK_TIME).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    let attackers = hostile.count();
    drop(hostile);
    let sent = sent.load(Ordering::Relaxed);
    let Peaks { early, late } = peaks;
    println!(
        "note: {sent} questions, {attackers} hostile clients, {blocks} blocks, memory {early:.0} MiB early, {late:.0} MiB late"
    );
    assert!(sent >= CLIENTS * QUESTIONS, "only {sent} questions");
    peaks.assert_flat();
    bench.wait("a reorg", || bench.has("reorg"));
    let log = bench.log();
    assert!(!log.contains("\"level\":\"ERROR\""), "{log}");
    running.stop();
}

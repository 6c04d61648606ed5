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

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use support::hostile::{CONNECTIONS, Hostile, Lasting, Target};
use support::rpc::Rpc;
use support::{Bench, PATIENCE, serve};

const SECONDS: &str = "CHRONOLITH_SOAK_SECONDS";
const CLIENTS: u64 = 16;
/// What each client asks, and how many blocks come meanwhile, where no time is given.
const QUESTIONS: u64 = 300;
const BLOCKS: u64 = 30;
const BLOCK_TIME: Duration = Duration::from_millis(100);
/// Questions are about final blocks below this one: they are there whatever reorgs come.
const FINAL: u64 = 480;
/// A body that counts as medium, and must be received beside others that stall.
const BATCH_BYTES: usize = 20 << 10;
/// The longest that a probe for liveness may wait for its answer. Kubernetes waits for one second before it counts a
/// failure. In a long run the program is optimised and has the machine with its clients. A short one shares it with
/// other tests, and a second may pass before the probe itself gets a core: there it only must not wait for a timeout.
const LIVE_WITHIN: Duration = Duration::from_secs(1);
const LIVE_WITHIN_SHORT: Duration = Duration::from_secs(5);
/// Between two probes.
const LIVE_EVERY: Duration = Duration::from_millis(100);
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

/// Asks the next question of a client, and now and then others. None of them may be refused.
async fn ask(rpc: &Rpc, number: u64) {
    let (method, params) = question(number, number, FINAL);
    let answer = rpc.answer(method, params.clone()).await;
    assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
    assert!(!answer["result"].is_null(), "{method} {params}: {answer}");
    let first = number * 104_729 % (FINAL - 20);
    let blocks = format!("fromBlock={first}&toBlock={}", first + 9);
    if number.is_multiple_of(5) {
        get(rpc, "/v1/chains/31337/block/before/1600001000").await;
    }
    if number.is_multiple_of(7) {
        let path = format!("/v1/chains/31337/logs?{blocks}&limit=100");
        let page = get(rpc, &path).await;
        assert!(page["logs"].is_array(), "{page}");
    }
    if number.is_multiple_of(11) {
        let path = format!("/v1/logs?chains=31337&{blocks}&limit=100");
        let all = get(rpc, &path).await;
        assert!(all["results"][0]["logs"].is_array(), "{all}");
    }
    if number.is_multiple_of(50) {
        let (status, text) = rpc
            .get_text(&format!("/v1/chains/31337/logs/download?{blocks}"))
            .await;
        let last = text.lines().next_back().unwrap_or("");
        let is_whole = last.starts_with("{\"complete\":true");
        assert!(status == 200 && is_whole, "{status} {last}");
        ask_batch(rpc, first).await;
    }
}

async fn get(rpc: &Rpc, path: &str) -> Value {
    let (status, answer) = rpc.get(path).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// A batch of which every call finds nothing: large to receive, and not to answer.
async fn ask_batch(rpc: &Rpc, block: u64) {
    let topic = format!("0x{}", "ab".repeat(32));
    let call = |id: u64| {
        let filter = json!({ "fromBlock": format!("0x{block:x}"), "toBlock": format!("0x{block:x}"), "topics": [topic, topic] });
        json!({ "jsonrpc": "2.0", "id": id, "method": "eth_getLogs", "params": [filter] })
    };
    let batch: Value = (0..90).map(call).collect();
    let bytes = batch.to_string().len();
    assert!(bytes >= BATCH_BYTES, "only {bytes} bytes");
    let (status, answers) = rpc.post("/31337", &batch).await;
    let answers = answers.as_array().expect("a list of answers");
    let are_well = answers.iter().all(|answer| answer["result"] == json!([]));
    assert!(status == 200 && are_well, "{status} {answers:?}");
    assert_eq!(answers.len(), 90);
}

/// Asks for liveness again and again, each time over a new connection as probes do. It has a thread of its own: this
/// process is busy with hostile clients.
struct Liveness {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Liveness {
    fn start(address: String) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !ended.load(Ordering::Relaxed) {
                longest = longest.max(live(&address));
                std::thread::sleep(LIVE_EVERY);
            }
            longest
        });
        Self { ends, thread }
    }

    /// The longest wait for an answer.
    fn stop(self) -> Duration {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// How long one answer took.
fn live(address: &str) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    began.elapsed()
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

/// A chain of 500 blocks with an endpoint, and the settings of the program that follows it.
async fn chain() -> (EvmNode, RpcServer, Bench) {
    let node = EvmNode::new(EvmSpec::tiny(91), 500);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(
        r#", "rpcWs": ["{}"], "finality": {{ "mode": "depth", "confirmations": 20 }}, "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#,
        server.ws_url()
    );
    let bench = Bench::new(&[server.url()], &more);
    // A cache grows until it is full: with a small one that is soon, and the rest must stay flat.
    let more =
        format!(r#""metricsPort": 0, "cacheMib": 8, "limits": {{ "connections": {CONNECTIONS} }}"#);
    bench.change(r#""metricsPort": 0"#, &more);
    (node, server, bench)
}

/// Asks until it is done, and returns how many questions that were.
async fn honest(rpc: Rpc, client: u64, done: impl Fn(u64) -> bool) -> u64 {
    let first = client * 1_000_003;
    let mut number = first;
    while !done(number - first) {
        number += 1;
        ask(&rpc, number).await;
    }
    number - first
}

/// What the hostile clients attack.
fn target(bench: &Bench) -> Target {
    Target {
        public: bench.public().replace("http://", "").parse().unwrap(),
        metrics: bench.metrics().parse().unwrap(),
        chain: 31_337,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_traffic_meets_no_error_and_memory_stays() {
    let seconds = std::env::var(SECONDS).ok();
    let lasting = seconds.map(|text| Duration::from_secs(text.parse().unwrap()));
    let (length, live_within) = match lasting {
        Some(_) => (Lasting::Long, LIVE_WITHIN),
        None => (Lasting::Short, LIVE_WITHIN_SHORT),
    };
    let (node, _server, bench) = chain().await;
    let running = bench.start();
    let public = bench.public();
    Rpc::new(public.clone()).until_head(500).await;
    bench.wait("the archive", || bench.head() == Some(FINAL));
    let began = Instant::now();
    // Whether so many of so many were done, or the time is over.
    let done = move |count: u64, all: u64| match lasting {
        Some(lasting) => began.elapsed() >= lasting,
        None => count >= all,
    };
    let clients = (0..CLIENTS).map(|client| {
        // Each with its one connection, which is never idle for long: those that are make room for others.
        let rpc = Rpc::new(public.clone());
        tokio::spawn(honest(rpc, client, move |count| done(count, QUESTIONS)))
    });
    let clients: Vec<_> = clients.collect();
    let hostile = Hostile::start(&target(&bench), length);
    let liveness = Liveness::start(bench.metrics());
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
    let mut sent = 0;
    for client in clients {
        sent += client.await.unwrap();
    }
    let attackers = hostile.count();
    let waited = liveness.stop();
    drop(hostile);
    let Peaks { early, late } = peaks;
    println!(
        "note: {sent} questions, {attackers} hostile clients, {blocks} blocks, memory {early:.0} MiB early, {late:.0} MiB late, liveness within {waited:?}"
    );
    assert!(waited < live_within, "a probe waited for {waited:?}");
    assert!(sent >= CLIENTS * QUESTIONS, "only {sent} questions");
    peaks.assert_flat();
    bench.wait("a reorg", || bench.has("reorg"));
    let log = bench.log();
    assert!(!log.contains("\"level\":\"ERROR\""), "{log}");
    running.stop();
}

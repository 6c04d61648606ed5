//! An endpoint whose answers are small when they are sent and fill the memory when they are unpacked: what the program
//! takes for them, and what others wait meanwhile.
//!
//! It is a proper node for the newest block and its tags, and bombs everything that fetches history.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::CHAIN;
use crate::clients::{HEALTH_TARGET_MS, chains};
use crate::memory::TARGET_MIB;
use crate::probe::{self, Probe, Waited, get};
use crate::report::Report;
use crate::server::Server;

/// Just below the longest answer that is read.
const UNPACKED_BYTES: usize = 255_000_000;
/// What is unpacked at a time while bombs are made.
const PIECE_BYTES: usize = 1_000_000;
const IN_FLIGHT: usize = 8;
const BLOCKS: u64 = 20_000;
/// Before an answer: requests that are in flight together are answered together.
const DELAY: Duration = Duration::from_millis(500);
/// The newest block and its tags, in one request.
const HEAD_CALLS_MAX: usize = 3;
/// How long the program is probed without the endpoint, and with it.
const IDLE: Duration = Duration::from_secs(10);
const LASTING: Duration = Duration::from_secs(45);
/// An answer from the archive may take this many times as long meanwhile, or as long as a probe.
const WHILE_BOMBED: f64 = 2.0;

/// The endpoint, on threads of its own until it is dropped.
struct Endpoint {
    bombs: Arc<Bombs>,
    url: String,
    _node: RpcServer,
    _serving: JoinSet<()>,
}

/// What the endpoint answers, and how often it did.
struct Bombs {
    spaces: Bytes,
    text: Bytes,
    /// The proper node behind it.
    node: String,
    client: reqwest::Client,
    sent: AtomicUsize,
    /// Each request for history has a clone until it is answered, or its client is gone.
    held: Arc<()>,
    held_max: AtomicUsize,
}

pub(crate) fn run(dir: &Path, report: &mut Report) -> Result<()> {
    let runtime = Runtime::new()?;
    let endpoint = runtime.block_on(Endpoint::start(&runtime))?;
    let before = probes(dir, &chains(), |_| {
        std::thread::sleep(IDLE);
        Ok(())
    })?;
    let mut bombed = chains();
    let chain = json!({
        "chainId": 31_337, "name": "bombed", "datasets": ["headers", "logs", "tx_hashes"],
        "rpcHttp": [{ "url": endpoint.url, "inFlight": IN_FLIGHT }],
        "finality": { "mode": "depth", "confirmations": 5 },
    });
    bombed
        .as_array_mut()
        .context("a list of chains")?
        .push(chain);
    let mut peak = f64::NAN;
    let during = probes(dir, &bombed, |server| {
        server.forget_peak()?;
        std::thread::sleep(LASTING);
        peak = server.peak_mib();
        Ok(())
    })?;

    for waited in &before {
        report.waited("no endpoint answers", waited, None);
    }
    let load = "an endpoint sends gzip bombs";
    for (waited, before) in during.iter().zip(&before) {
        let target = match waited.name {
            "/health/live" => HEALTH_TARGET_MS,
            _ => (before.p99_ms * WHILE_BOMBED).max(HEALTH_TARGET_MS),
        };
        report.waited(load, waited, Some(target));
    }
    let (sent, at_once) = endpoint.bombs.counted();
    let verdict = report.verdict(sent >= IN_FLIGHT);
    println!(
        "    bombs: {sent}, {at_once} in flight at most (at least {IN_FLIGHT} in all, {verdict})"
    );
    let verdict = report.verdict(peak <= TARGET_MIB);
    println!("    memory: {peak:.0} MiB at most (target {TARGET_MIB:.0}, {verdict})");
    Ok(())
}

/// What probes wait while the program follows these chains and this lasts.
fn probes(
    dir: &Path,
    chains: &Value,
    lasts: impl FnOnce(&Server) -> Result<()>,
) -> Result<[Waited; 2]> {
    let server = Server::start(dir, chains, "run")?;
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [{ "fromBlock": "0x10", "toBlock": "0x10" }],
    });
    let call = probe::post(&format!("/{CHAIN}"), &call.to_string());
    let health = Probe::start("/health/live", &server.health, get("/health/live"));
    let calls = Probe::start("eth_getLogs, one block", &server.public, call);
    lasts(&server)?;
    Ok([health.stop()?, calls.stop()?])
}

impl Endpoint {
    async fn start(runtime: &Runtime) -> Result<Self> {
        let node = EvmNode::new(EvmSpec::sparse(7, 120), BLOCKS);
        let node = RpcServer::start(node, RpcOptions::default()).await?;
        let spaces = bomb(b"", b' ', b"[]")?;
        let text = bomb(br#"[{"jsonrpc":"2.0","id":0,"result":""#, b'x', br#""}]"#)?;
        let bombs = Arc::new(Bombs {
            spaces: spaces.into(),
            text: text.into(),
            node: node.url(),
            client: reqwest::Client::new(),
            sent: AtomicUsize::new(0),
            held: Arc::default(),
            held_max: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let router = Router::new()
            .route("/", post(answer))
            .with_state(bombs.clone());
        let mut serving = JoinSet::new();
        serving.spawn_on(
            async move {
                // It ends with the bench.
                let _ = axum::serve(listener, router).await;
            },
            runtime.handle(),
        );
        Ok(Self {
            bombs,
            url,
            _node: node,
            _serving: serving,
        })
    }
}

impl Bombs {
    /// How many were sent, and how many requests for history were in flight at most.
    fn counted(&self) -> (usize, usize) {
        let sent = self.sent.load(Ordering::Relaxed);
        (sent, self.held_max.load(Ordering::Relaxed))
    }

    async fn next(&self) -> Response {
        let held = self.held.clone();
        // One is that of the endpoint.
        let in_flight = Arc::strong_count(&held) - 1;
        self.held_max.fetch_max(in_flight, Ordering::Relaxed);
        tokio::time::sleep(DELAY).await;
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let bomb = if number.is_multiple_of(2) {
            &self.spaces
        } else {
            &self.text
        };
        let headers = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CONTENT_ENCODING, "gzip"),
        ];
        (headers, bomb.clone()).into_response()
    }

    async fn forward(&self, body: Bytes) -> reqwest::Result<Response> {
        let request = self.client.post(&self.node);
        let request = request.header("content-type", "application/json");
        let answer = request.body(body).send().await?;
        let headers = [(header::CONTENT_TYPE, "application/json")];
        Ok((headers, answer.bytes().await?).into_response())
    }
}

async fn answer(State(bombs): State<Arc<Bombs>>, body: Bytes) -> Response {
    if is_for_history(&body) {
        return bombs.next().await;
    }
    let forwarded = bombs.forward(body).await;
    forwarded.unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response())
}

/// Logs and receipts are, and many blocks at a time.
fn is_for_history(body: &[u8]) -> bool {
    let calls = serde_json::from_slice(body).unwrap_or(Value::Null);
    let is_batch = calls
        .as_array()
        .is_some_and(|all| all.len() > HEAD_CALLS_MAX);
    let has = |method: &str| memchr::memmem::find(body, method.as_bytes()).is_some();
    is_batch || has("eth_getLogs") || has("eth_getBlockReceipts")
}

/// About 250 kB that unpack to this text with a thousand times as much in its middle.
fn bomb(start: &[u8], filling: u8, end: &[u8]) -> Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(start)?;
    let piece = vec![filling; PIECE_BYTES];
    for _ in 0..UNPACKED_BYTES / PIECE_BYTES {
        packed.write_all(&piece)?;
    }
    packed.write_all(end)?;
    Ok(packed.finish()?)
}

//! Clients that fetch large pages and have them compressed: what others wait meanwhile.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use parking_lot::Mutex;

use crate::CHAIN;
use crate::probe::{Probe, Waited, get, post};
use crate::report::Report;
use crate::server::Server;

const LASTING: Duration = Duration::from_secs(10);
const TARGET_MS: f64 = 50.0;
pub(crate) const HEALTH_TARGET_MS: f64 = 20.0;
const CLIENTS: [(usize, &str); 5] = [
    (0, "identity"),
    (32, "identity"),
    (32, "gzip"),
    (32, "zstd"),
    (128, "gzip"),
];

pub(crate) fn gzip(dir: &Path, report: &mut Report) -> Result<()> {
    let server = Server::start(dir, &chains(), "serve")?;
    for (clients, coding) in CLIENTS {
        let load = format!("{clients} clients, pages of 10,000 logs, {coding}");
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": [] });
        let path = format!("/{CHAIN}");
        let call = post(&path, &call.to_string());
        let calls = Probe::start("eth_chainId", &server.public, call);
        let health = health_probes(&server);
        let stop = Arc::new(AtomicBool::new(false));
        let [pages, packed, refused] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let refusal = Arc::new(Mutex::new(None));
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                let (stop, refusal) = (stop.clone(), refusal.clone());
                let (pages, packed, refused) = (pages.clone(), packed.clone(), refused.clone());
                let address = server.public.clone();
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        match page(&address, coding) {
                            Ok(is_packed) => {
                                packed.fetch_add(u64::from(is_packed), Ordering::Relaxed);
                                pages.fetch_add(1, Ordering::Relaxed)
                            }
                            Err(error) => {
                                *refusal.lock() = Some(error);
                                refused.fetch_add(1, Ordering::Relaxed)
                            }
                        };
                    }
                })
            })
            .collect();
        std::thread::sleep(LASTING);
        let (calls, health) = (calls.stop(), health.map(Probe::stop));
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            ensure!(thread.join().is_ok(), "a client panicked");
        }
        // More clients than the target names are shown without one.
        let target = (clients == 32).then_some(TARGET_MS);
        report.waited(&load, &calls?, target);
        for health in health {
            report.waited(&load, &health?, Some(HEALTH_TARGET_MS));
        }
        let [pages, packed] = [pages, packed].map(|count| count.load(Ordering::Relaxed));
        // Refusals alone would be no load.
        let is_load = pages >= clients as u64 && (packed > 0 || coding == "identity");
        let verdict = report.verdict(is_load);
        println!(
            "    {pages} pages, {packed} of them compressed ({verdict}), {} refused, {:.0} MiB",
            refused.load(Ordering::Relaxed),
            server.memory_mib()
        );
        if let Some(error) = refusal.lock().take() {
            println!("    the last refusal: {error:#}");
        }
    }
    Ok(())
}

/// Probes of everything that operators and their systems request.
pub(crate) fn health_probes(server: &Server) -> [Probe; 3] {
    ["/health/live", "/health", "/metrics"]
        .map(|path| Probe::start(path, &server.health, get(path)))
}

/// Clients whose filters have a thousand alternatives at each of three positions: planning them takes long, and they
/// find nothing.
pub(crate) fn filters(dir: &Path, report: &mut Report) -> Result<()> {
    const CLIENTS: usize = 20;
    let load = format!("{CLIENTS} clients, 3 x 1,000 alternatives");
    let server = Server::start(dir, &chains(), "serve")?;
    let path = format!("/{CHAIN}");
    let topics = |first: u64| -> Vec<String> {
        let numbers = first..first + 1_000;
        numbers.map(|number| format!("0x{number:064x}")).collect()
    };
    let filter = json!({ "fromBlock": "0x0", "toBlock": "latest", "topics": [topics(0), topics(5_000), topics(9_000)] });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [filter] });
    let wide = post(&path, &call.to_string());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": [] });
    let call = post(&path, &call.to_string());
    let calls = Probe::start("eth_chainId", &server.public, call);
    let health = health_probes(&server);
    let clients: Vec<Probe> = (0..CLIENTS)
        .map(|_| Probe::start("wide eth_getLogs", &server.public, wide.clone()))
        .collect();
    std::thread::sleep(LASTING);
    let clients: Result<Vec<Waited>> = clients.into_iter().map(Probe::stop).collect();
    let (calls, health) = (calls.stop(), health.map(Probe::stop));
    report.waited(&load, &calls?, Some(TARGET_MS));
    for health in health {
        report.waited(&load, &health?, Some(HEALTH_TARGET_MS));
    }
    let slowest = clients?
        .into_iter()
        .max_by(|a, b| a.p50_ms.total_cmp(&b.p50_ms));
    report.waited(&load, &slowest.context("a client")?, None);
    Ok(())
}

/// The served chain, without an endpoint that answers.
pub(crate) fn chains() -> serde_json::Value {
    json!([{
        "chainId": CHAIN, "name": "bench", "rpcHttp": ["http://127.0.0.1:1"], "datasets": ["logs", "tx_hashes"],
    }])
}

/// Fetches a page to its end; returns whether it came in a coding. Only a few answers are compressed at a time.
fn page(address: &str, coding: &str) -> Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let request = format!(
        "GET /v1/chains/{CHAIN}/logs?fromBlock=0&limit=10000 HTTP/1.1\r\nhost: bench\r\naccept-encoding: {coding}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let (mut buffer, mut first, mut last) = (vec![0; 64 << 10], String::new(), Vec::new());
    loop {
        let read = stream.read(&mut buffer)?;
        let came = buffer.get(..read).context("what was read")?;
        if read == 0 {
            break;
        }
        if first.is_empty() {
            first = String::from_utf8_lossy(came.get(..read.min(1_000)).context("a head")?)
                .into_owned();
        }
        last.extend_from_slice(came.get(read.saturating_sub(5)..).context("an end")?);
        last.drain(..last.len().saturating_sub(5));
    }
    ensure!(first.starts_with("HTTP/1.1 200"), "{first}");
    ensure!(last == b"0\r\n\r\n", "it was cut");
    Ok(first.contains(&format!("content-encoding: {coding}")))
}

/// The whole answer to a request, over a connection of its own.
pub(crate) fn fetch(address: &str, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let request = request.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

//! Clients that fetch large pages and have them compressed: what others wait meanwhile.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::CHAIN;
use crate::probe::{Probe, get, post};
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
        let probes = [
            Probe::start(
                "eth_chainId",
                &server.public,
                post(&path, &call.to_string()),
            ),
            Probe::start("/health/live", &server.health, get("/health/live")),
        ];
        let stop = Arc::new(AtomicBool::new(false));
        let (pages, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                let (stop, pages, refused) = (stop.clone(), pages.clone(), refused.clone());
                let address = server.public.clone();
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        match page(&address, coding) {
                            Ok(true) => pages.fetch_add(1, Ordering::Relaxed),
                            _ => refused.fetch_add(1, Ordering::Relaxed),
                        };
                    }
                })
            })
            .collect();
        std::thread::sleep(LASTING);
        let [calls, health] = probes.map(Probe::stop);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            ensure!(thread.join().is_ok(), "a client panicked");
        }
        // More clients than the target names are shown without one.
        let target = (clients == 32).then_some(TARGET_MS);
        report.waited(&load, &calls?, target);
        report.waited(&load, &health?, Some(HEALTH_TARGET_MS));
        println!(
            "    {} pages, {} refused, {:.0} MiB",
            pages.load(Ordering::Relaxed),
            refused.load(Ordering::Relaxed),
            server.memory_mib()
        );
    }
    Ok(())
}

/// The served chain, without an endpoint that answers.
pub(crate) fn chains() -> serde_json::Value {
    json!([{
        "chainId": CHAIN, "name": "bench", "rpcHttp": ["http://127.0.0.1:1"], "datasets": ["logs", "tx_hashes"],
    }])
}

/// Fetches a page to its end; false where it was refused.
fn page(address: &str, coding: &str) -> Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let request = format!(
        "GET /v1/chains/{CHAIN}/logs?fromBlock=0&limit=10000 HTTP/1.1\r\nhost: bench\r\naccept-encoding: {coding}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let (mut buffer, mut first) = (vec![0; 64 << 10], None);
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(first.unwrap_or(false));
        }
        first.get_or_insert_with(|| buffer.starts_with(b"HTTP/1.1 200"));
    }
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

//! Clients that read slowly: what memory the program takes for them, and whether it gives it back.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::CHAIN;
use crate::clients::{HEALTH_TARGET_MS, chains, fetch, health_probes};
use crate::probe::{Probe, get, post};
use crate::report::Report;
use crate::server::Server;

/// The documented sum of everything that clients can make the program hold.
pub(crate) const TARGET_MIB: f64 = 600.0;
/// What it holds after they are gone: so many times what it held before, and a full query cache.
const AFTER_FACTOR: f64 = 1.5;
const CACHE_MIB: f64 = 256.0;
/// Just above what a client must read.
const BYTES_A_READ: usize = 4_000;
const READ_EVERY: Duration = Duration::from_millis(100);
/// A client that reads nothing for this long comes again: its request was refused, and that answer read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const LASTING: Duration = Duration::from_secs(40);
/// How long after the last client memory is looked at.
const AFTER: Duration = Duration::from_secs(15);
/// Clients that read nothing, and their requests, of which the system does not buffer all answers.
const UNREAD: usize = 300;
const UNREAD_REQUESTS: usize = 100;
const UNREAD_BUFFER: u32 = 16 << 10;
const UNREAD_LASTING: Duration = Duration::from_secs(20);
/// A request that is refused because memory is short is repeated. Not for longer than this, or the clients that read
/// nothing keep others out.
const REPEATED_FOR: Duration = Duration::from_secs(5);
/// Fewer than one address may have (`limits.connectionsPerPeer`), beside the probes.
const CLIENTS_PER_ADDRESS: usize = 300;
/// So many of the clients have a connection at the same time: a few are between two.
const OPEN_PART: f64 = 0.95;

/// 1,200 clients, each with a batch of pages that it reads at 40 kB/s.
pub(crate) fn slow_readers(dir: &Path, report: &mut Report) -> Result<()> {
    measure(dir, 1_200, report)
}

/// 400 of them: what a connection takes counts less, what an answer takes more.
pub(crate) fn batches(dir: &Path, report: &mut Report) -> Result<()> {
    measure(dir, 400, report)
}

/// Clients that request what counts as small and read nothing: they would keep others from all answers but the
/// smallest. Others repeat what is refused.
pub(crate) fn unread(dir: &Path, report: &mut Report) -> Result<()> {
    let server = Server::start(dir, &chains(), "serve")?;
    server.forget_peak()?;
    let health = health_probes(&server);
    let runtime = Runtime::new()?;
    let to: SocketAddr = server.public.parse().context("the address of the server")?;
    let path = |limit| format!("/v1/chains/{CHAIN}/logs?fromBlock=0&limit={limit}");
    let requests = get(&path(400)).repeat(UNREAD_REQUESTS);
    let mut clients = JoinSet::new();
    for _ in 0..UNREAD {
        let requests = requests.clone();
        let client = async move {
            loop {
                // One that was cut comes again.
                let _ = read_nothing(to, &requests).await;
            }
        };
        clients.spawn_on(client, runtime.handle());
    }
    std::thread::sleep(UNREAD_LASTING / 4);
    let (mut answered, mut refused, mut slowest) = (0, 0, Duration::ZERO);
    let began = Instant::now();
    while began.elapsed() < UNREAD_LASTING {
        for limit in [400, 10_000] {
            let asked = Instant::now();
            while !fetch(&server.public, &get(&path(limit)))?.starts_with("HTTP/1.1 200") {
                refused += 1;
                ensure!(asked.elapsed() < REPEATED_FOR * 4, "all pages are refused");
            }
            answered += 1;
            slowest = slowest.max(asked.elapsed());
        }
    }
    let load = format!("{UNREAD} clients that read nothing");
    for health in health.map(Probe::stop) {
        report.waited(&load, &health?, Some(HEALTH_TARGET_MS));
    }
    let verdict = report.verdict(slowest <= REPEATED_FOR);
    println!(
        "    {answered} pages of others, after {refused} refusals, each within {:.1} s (target {:.0}, {verdict})",
        slowest.as_secs_f64(),
        REPEATED_FOR.as_secs_f64()
    );
    let most = server.peak_mib();
    let verdict = report.verdict(most <= TARGET_MIB);
    println!("    memory: {most:.0} MiB at most (target {TARGET_MIB:.0}, {verdict})");
    Ok(())
}

async fn read_nothing(to: SocketAddr, requests: &str) -> Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, 99), 0).into())?;
    socket.set_recv_buffer_size(UNREAD_BUFFER)?;
    let mut stream = socket.connect(to).await?;
    stream.write_all(requests.as_bytes()).await?;
    // Until it is cut, without reading what came.
    let cut = stream.ready(tokio::io::Interest::ERROR);
    let _ = timeout(UNREAD_LASTING, cut).await;
    Ok(())
}

fn measure(dir: &Path, clients: usize, report: &mut Report) -> Result<()> {
    let load = format!("{clients} slow readers of batches of pages");
    let server = Server::start(dir, &chains(), "serve")?;
    let (before, others) = (server.memory_mib(), server.sockets()?);
    server.forget_peak()?;
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [{ "fromBlock": "0x10", "toBlock": "0x10" }],
    });
    let call = post(&format!("/{CHAIN}"), &call.to_string());
    let calls = Probe::start("eth_getLogs, one block", &server.public, call);
    let health = health_probes(&server);
    let runtime = Runtime::new()?;
    let readers = readers(&runtime, &server, clients)?;
    let (mut most, mut open) = (0_f64, 0);
    for _ in 0..LASTING.as_secs() {
        std::thread::sleep(Duration::from_secs(1));
        most = most.max(server.memory_mib());
        open = open.max(server.sockets()?.saturating_sub(others + 1 + health.len()));
    }
    most = most.max(server.peak_mib());
    let (calls, health) = (calls.stop(), health.map(Probe::stop));
    drop(readers);
    std::thread::sleep(AFTER);
    let after = server.memory_mib();

    report.waited(&load, &calls?, None);
    for health in health {
        report.waited(&load, &health?, Some(HEALTH_TARGET_MS));
    }
    let target = (clients as f64 * OPEN_PART) as usize;
    let verdict = report.verdict(open >= target);
    println!("    connections: {open} at the same time (at least {target}, {verdict})");
    let verdict = report.verdict(most <= TARGET_MIB);
    println!(
        "    memory: {before:.0} MiB before, {most:.0} at most (target {TARGET_MIB:.0}, {verdict})"
    );
    let target = before * AFTER_FACTOR + CACHE_MIB;
    let verdict = report.verdict(after <= target);
    println!(
        "    memory: {after:.0} MiB {} s after the last client (target {target:.0}, {verdict})",
        AFTER.as_secs()
    );
    Ok(())
}

/// Four pages of 10,000 logs.
fn batch() -> String {
    let page = |id| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "chronolith_getLogs",
            "params": [{ "fromBlock": "0x0", "toBlock": "latest", "limit": 10_000 }],
        })
    };
    json!((0..4).map(page).collect::<Vec<_>>()).to_string()
}

/// Clients from several addresses of this machine, until they are dropped. One address may not have as many
/// connections, and the probes have another one.
fn readers(runtime: &Runtime, server: &Server, clients: usize) -> Result<JoinSet<()>> {
    let to: SocketAddr = server.public.parse().context("the address of the server")?;
    let request = post(&format!("/{CHAIN}"), &batch());
    let mut readers = JoinSet::new();
    for number in 0..clients {
        let network = u8::try_from(2 + number / CLIENTS_PER_ADDRESS)?;
        let from = Ipv4Addr::new(127, 0, 0, network);
        let request = request.clone();
        let reading = async move {
            loop {
                // One that is refused or cut comes again.
                let _ = read_slowly(from, to, &request).await;
                tokio::time::sleep(READ_EVERY).await;
            }
        };
        readers.spawn_on(reading, runtime.handle());
    }
    Ok(readers)
}

async fn read_slowly(from: Ipv4Addr, to: SocketAddr, request: &str) -> Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let mut stream = socket.connect(to).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; BYTES_A_READ];
    while timeout(READ_TIMEOUT, stream.read(&mut buffer)).await?? > 0 {
        tokio::time::sleep(READ_EVERY).await;
    }
    Ok(())
}

//! Clients that read slowly: what memory the program takes for them, and whether it gives it back.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::CHAIN;
use crate::clients::chains;
use crate::probe::{Probe, post};
use crate::server::Server;

/// The documented sum of everything that clients can make the program hold.
const TARGET_MIB: f64 = 600.0;
/// Just above what a client must read.
const BYTES_A_READ: usize = 4_000;
const READ_EVERY: Duration = Duration::from_millis(100);
const LASTING: Duration = Duration::from_secs(40);
/// How long after the last client memory is looked at.
const AFTER: Duration = Duration::from_secs(15);
const STACK_BYTES: usize = 128 << 10;

/// 1,200 clients, each with a batch of pages that it reads at 40 kB/s.
pub(crate) fn slow_readers(dir: &Path) -> Result<()> {
    measure(dir, "1,200 slow readers of batches of pages", 1_200)
}

/// 400 of them: what a connection takes counts less, what an answer takes more.
pub(crate) fn batches(dir: &Path) -> Result<()> {
    measure(dir, "400 slow readers of batches of pages", 400)
}

fn measure(dir: &Path, load: &str, clients: usize) -> Result<()> {
    // Each client comes from this address, as behind a proxy.
    let server = Server::start(dir, &chains(), "serve")?;
    let before = server.memory_mib();
    server.forget_peak()?;
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [{ "fromBlock": "0x10", "toBlock": "0x10" }],
    });
    let path = format!("/{CHAIN}");
    let probe = Probe::start(
        "eth_getLogs, one block",
        &server.public,
        post(&path, &call.to_string()),
    );
    let stop = Arc::new(AtomicBool::new(false));
    let request = post(&path, &batch());
    let mut threads = Vec::new();
    for _ in 0..clients {
        let (stop, request, address) = (stop.clone(), request.clone(), server.public.clone());
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        threads.push(thread.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // One that is refused or cut comes again.
                let _ = read_slowly(&address, &request, &stop);
                std::thread::sleep(READ_EVERY);
            }
        })?);
    }
    let mut most = 0_f64;
    for _ in 0..LASTING.as_secs() {
        std::thread::sleep(Duration::from_secs(1));
        most = most.max(server.memory_mib());
    }
    most = most.max(server.peak_mib());
    let waited = probe.stop();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        ensure!(thread.join().is_ok(), "a client panicked");
    }
    std::thread::sleep(AFTER);
    let after = server.memory_mib();
    match waited {
        Ok(waited) => waited.print(load, None),
        Err(error) => println!("{load}: an honest call failed: {error:#}"),
    }
    let met = if most <= TARGET_MIB { "met" } else { "MISSED" };
    println!(
        "    memory: {before:.0} MiB before, {most:.0} at most (target {TARGET_MIB:.0}, {met}), {after:.0} after {} s",
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

fn read_slowly(address: &str, request: &str, stop: &AtomicBool) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request.as_bytes())?;
    let mut buffer = vec![0; BYTES_A_READ];
    while !stop.load(Ordering::Relaxed) {
        if stream.read(&mut buffer)? == 0 {
            return Ok(());
        }
        std::thread::sleep(READ_EVERY);
    }
    Ok(())
}

//! The peer: Ponder, from an empty database until it has every row.
//!
//! It gets the best of what it offers: inserts through its store in memory, which it copies into
//! PostgreSQL; the range that the node allows; WebSocket, over which a call takes it two thirds of the
//! CPU that it takes over HTTP; and the node's URL named often, because it holds itself to so many
//! requests a second for each URL. None of its other orderings was clearly faster than the usual one.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use chronolith_sim::evm::FeesSpec;

use crate::database::{Database, Server, Table, hex};
use crate::table::Measured;
use crate::workload::{BLOCKS_MAX, Chain, calls};
use crate::{installed, process};

pub(crate) const NAME: &str = "Ponder 0.16.10";
/// Where `scripts/need ponder` installs it.
const HOME: &str = "ponder-0.16.10";
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/projection/ponder");
const FILES: [&str; 5] = [
    "package.json",
    "ponder.config.ts",
    "ponder.schema.ts",
    "src/index.ts",
    "src/api/index.ts",
];
/// How often the node is named to it.
const URLS: &str = "64";
const TABLE: Table = Table {
    name: "bench.fee",
    is_row: "tx_hash = $1 AND log_index = $2",
    columns: "chain_id, block_number, block_hash, block_timestamp, tx_hash, log_index, lower(token), \
        lower(integrator), integrator_fee, lifi_fee",
};

/// A run of Ponder, ended when it is dropped.
struct Ponder {
    child: Mutex<Child>,
    id: u32,
    log: PathBuf,
}

impl Drop for Ponder {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// None where it is not installed.
pub(crate) async fn run(chain: &Chain, server: &Server) -> Result<Option<Measured>> {
    let Some(home) = installed::installed(&format!("{HOME}/installed")) else {
        println!("    `scripts/need ponder` installs {NAME}");
        return Ok(None);
    };
    let home = home.parent().context("a file without a directory")?;
    let dir = tempfile::tempdir()?;
    lay_out(dir.path(), home)?;
    let database = server.fresh("ponder").await?;
    let node = chain.serve().await?;
    let before = database.cpu_seconds().await?;
    let began = Instant::now();
    let ponder = start(dir.path(), chain, &node.ws_url(), &database)?;
    // It asks for the head for ever; only while it fetches history does it ask for logs.
    let alive = || {
        ponder.check()?;
        Ok(node.stats().calls.get("eth_getLogs").copied().unwrap_or(0))
    };
    database.wait_for(&TABLE, &chain.rows, alive).await?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = process::cpu_of(ponder.id)?;
    let peak_mib = process::peak_mib(ponder.id)?;
    let database_cpu_seconds = database.cpu_seconds().await? - before;
    drop(ponder);
    Ok(Some(Measured {
        seconds,
        cpu_seconds,
        database_cpu_seconds,
        peak_mib: Some(peak_mib),
        calls: calls(&node),
        faults: database.compare(&TABLE, &chain.rows).await?,
    }))
}

/// Ponder writes beside its project: it runs from a copy.
fn lay_out(dir: &Path, home: &Path) -> Result<()> {
    std::fs::create_dir_all(dir.join("src/api"))?;
    for file in FILES {
        std::fs::copy(Path::new(PROJECT).join(file), dir.join(file)).context(file)?;
    }
    std::os::unix::fs::symlink(home.join("node_modules"), dir.join("node_modules"))?;
    Ok(())
}

fn start(dir: &Path, chain: &Chain, node: &str, database: &Database) -> Result<Ponder> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let log = dir.join("log");
    let output = File::create(&log)?;
    let mut command = Command::new("node");
    command
        .arg(dir.join("node_modules/.bin/ponder"))
        .args(["start", "--schema", "bench", "--log-level", "warn"])
        .args(["--hostname", "127.0.0.1", "--port", &port.to_string()])
        .arg("--root")
        .arg(dir)
        .env("NODE_ENV", "production")
        .env("PONDER_TELEMETRY_DISABLED", "true")
        .env("BENCH_RPC_URL", node)
        .env("BENCH_RPC_URLS", URLS)
        .env("BENCH_BLOCKS_MAX", BLOCKS_MAX.to_string())
        .env("BENCH_CHAIN_ID", chain.id().to_string())
        .env("BENCH_CONTRACT", hex(&FeesSpec::CONTRACT))
        .env("BENCH_DATABASE_URL", &database.url)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let child = command.spawn().context("start node")?;
    Ok(Ponder {
        id: child.id(),
        child: Mutex::new(child),
        log,
    })
}

impl Ponder {
    /// Fails with what it said last, if it has ended.
    fn check(&self) -> Result<()> {
        let mut child = self.child.lock().ok().context("a panic before")?;
        if let Some(status) = child.try_wait()? {
            let said = std::fs::read_to_string(&self.log)?;
            bail!("it ended by itself with {status}:\n{said}");
        }
        Ok(())
    }
}

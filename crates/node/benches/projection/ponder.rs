//! The peer: Ponder, from an empty database until it has every row.
//!
//! It gets the best of what it offers: inserts through its store in memory, which it copies into
//! PostgreSQL; the range that the node allows; WebSocket, over which a call takes it two thirds of the
//! CPU that it takes over HTTP; and the node's URL named often, because it holds itself to so many
//! requests a second for each URL. None of its other orderings was clearly faster than the usual one.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use chronolith_sim::evm::FeesSpec;

use crate::database::{Database, Server, Table};
use crate::installed;
use crate::race::Race;
use crate::table::Measured;
use crate::workload::{BLOCKS_MAX, Chain};

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
    is_row: "chain_id = $3::bigint AND tx_hash = $1 AND log_index = $2 AND block_number = $4::bigint",
    columns: "chain_id, block_number, block_hash, block_timestamp, tx_hash, log_index, lower(token), \
        lower(integrator), integrator_fee, lifi_fee",
};

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
    let race = Race {
        chain,
        node: Some(&node),
        database: &database,
        table: TABLE,
        log: dir.path().join("log"),
    };
    let command = command(dir.path(), chain, &node.ws_url(), &database)?;
    race.run(command).await.map(Some)
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

fn command(dir: &Path, chain: &Chain, node: &str, database: &Database) -> Result<Command> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
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
        .env(
            "BENCH_CONTRACT",
            const_hex::encode_prefixed(FeesSpec::CONTRACT),
        )
        .env("BENCH_DATABASE_URL", &database.url);
    Ok(command)
}

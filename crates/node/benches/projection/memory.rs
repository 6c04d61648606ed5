//! What projections cost in memory: the same program with the same settings, and none.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::home::Home;
use crate::ours::entry;
use crate::process;
use crate::race::Program;
use crate::workload::Chain;

const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(600);

/// The most memory of a run without projections, until it holds the whole chain, and how long that took.
pub(crate) async fn without(chain: &Chain, strategy: &str) -> Result<(f64, f64)> {
    let node = chain.serve().await?;
    let home = Home::new(&entry(chain, &node, strategy))?;
    let log = File::create(home.path().join("log"))?;
    let mut command = home.command(&["run"], None);
    let began = Instant::now();
    let program = Program(command.stdout(log.try_clone()?).stderr(log).spawn()?);
    let client = reqwest::Client::new();
    while newest(&client, &home.health).await != Some(chain.blocks - 1) {
        ensure!(
            began.elapsed() < PATIENCE,
            "not caught up after {PATIENCE:?}"
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    let peak = process::peak_mib(program.0.id()).context("its memory")?;
    Ok((peak, seconds))
}

/// The newest block that the program holds; none while it does not answer.
async fn newest(client: &reqwest::Client, health: &str) -> Option<u64> {
    let text = client.get(health).send().await.ok()?.text().await.ok()?;
    let health: Value = serde_json::from_str(&text).ok()?;
    let number = |field: &str| health.pointer(&format!("/chains/0/{field}"))?.as_u64();
    number("lastSeenBlock")?.checked_sub(number("lagBlocks")?)
}

//! `chronolith sim torture`: everything at once, from a seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronolith_model::{Block, Payload};
use chronolith_sim::evm::{EvmNode, EvmSpec, FaultSizes, Faults, RpcFault, RpcOptions, RpcServer};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::chain::open_reader;
use crate::environment::Overrides;
use crate::settings::Settings;

/// Blocks before anything is followed, and the least in all.
const BLOCKS_FIRST: u64 = 4_000;
const BLOCKS_MIN: u64 = 5_000;
const REORGS_MIN: u64 = 20;
const KILLS_MIN: u64 = 3;
/// Reorgs are shallower, or they would replace what is final.
const CONFIRMATIONS: u64 = 12;
/// How long the last run may take to catch up.
const PATIENCE: Duration = Duration::from_secs(300);

/// What goes wrong on the way, for every node.
const TROUBLES: [RpcFault; 10] = [
    RpcFault::RpcError,
    RpcFault::Http500,
    RpcFault::Http429RetryAfter,
    RpcFault::Http429Bare,
    RpcFault::NullBlock,
    RpcFault::TruncatedBody,
    RpcFault::BatchOutOfOrder,
    RpcFault::HeadRegression,
    RpcFault::MissingBlockTimestamp,
    RpcFault::SlowAnswer,
];
/// What can go wrong only with receipts, and only with logs.
const OF_RECEIPTS: [RpcFault; 1] = [RpcFault::NullReceipts];
const OF_LOGS: [RpcFault; 1] = [RpcFault::RangeError];
/// What only the two preferred nodes do: with nobody honest there is nothing to archive.
const LIES: [RpcFault; 4] = [
    RpcFault::MissingLog,
    RpcFault::WrongBlockHashInLogs,
    RpcFault::BloomZero,
    RpcFault::HashChange,
];

/// What happened under one seed.
#[derive(Default)]
struct Tally {
    blocks: u64,
    logs: u64,
    reorgs: u64,
    kills: u64,
}

pub(crate) async fn torture(first: u64, seeds: u64) -> Result<ExitCode> {
    let mut injected: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in first..first + seeds {
        let began = Instant::now();
        let tally = one(seed, &mut injected).await;
        let tally = tally.with_context(|| format!("seed {seed} failed"))?;
        println!(
            "seed {seed}: {} blocks, {} logs, {} reorgs, {} kills: 0 missing, 0 made up, 0 twice ({:.0} s)",
            tally.blocks,
            tally.logs,
            tally.reorgs,
            tally.kills,
            began.elapsed().as_secs_f64()
        );
    }
    let seen = |logs: bool| (first..first + seeds).any(|seed| by_logs(seed) == logs);
    let of_receipts = OF_RECEIPTS.iter().filter(|_| seen(false));
    let of_logs = OF_LOGS.iter().filter(|_| seen(true));
    let all = TROUBLES.iter().chain(&LIES);
    for fault in all.chain(of_receipts).chain(of_logs) {
        let count = injected.get(fault.name()).copied().unwrap_or(0);
        println!("  {:<26} {count}", fault.name());
        ensure!(
            count > 0,
            "{} was never injected: nothing is proven about it",
            fault.name()
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(seed: u64, injected: &mut BTreeMap<&'static str, u64>) -> Result<Tally> {
    let mut random = StdRng::seed_from_u64(seed);
    let node = EvmNode::new(EvmSpec::tiny(seed), BLOCKS_FIRST);
    let (servers, all_faults) = nodes(seed, &node, &mut random).await?;
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("chronolith.json");
    let urls: Vec<String> = servers.iter().map(RpcServer::url).collect();
    let text = json!({
        "dataDir": dir.path().join("data"),
        "metricsPort": 0,
        "chains": [{
            "chainId": node.chain_id(), "name": "torture", "rpcHttp": urls,
            "strategy": if by_logs(seed) { "logs" } else { "receipts" },
            "datasets": ["logs", "tx_hashes"], "pollMs": 20,
            "finality": { "mode": "depth", "confirmations": CONFIRMATIONS },
        }],
    });
    std::fs::write(&config, text.to_string())?;
    let reorg_percent = one_of(&mut random, [3, 6, 12]);
    let mut tally = Tally::default();
    while node.head().number < BLOCKS_MIN || tally.reorgs < REORGS_MIN || tally.kills < KILLS_MIN {
        let mut child = start(&config, dir.path(), &["run"])?;
        live(&node, &mut random, reorg_percent, &mut tally).await;
        child.kill()?;
        child.wait()?;
        tally.kills += 1;
    }
    for faults in &all_faults {
        for (name, count) in faults.injected() {
            *injected.entry(name).or_default() += count;
        }
        faults.clear();
    }
    catch_up(&config, dir.path()).await?;
    compare(&config, &node, &mut tally).await?;
    Ok(tally)
}

/// Every other seed fetches by logs, the others by receipts.
fn by_logs(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

fn one_of<T: Copy>(random: &mut StdRng, of: [T; 3]) -> T {
    let [first, second, third] = of;
    match random.random_range(0..3) {
        0 => first,
        1 => second,
        _ => third,
    }
}

/// Three nodes of one chain. The last one errs, but never lies.
async fn nodes(
    seed: u64,
    node: &EvmNode,
    random: &mut StdRng,
) -> Result<(Vec<RpcServer>, Vec<Faults>)> {
    let often = one_of(random, [5_000, 20_000, 50_000]);
    let (mut servers, mut all_faults) = (Vec::new(), Vec::new());
    for at in 0..3_u64 {
        let faults = Faults::new(seed * 10 + at);
        TROUBLES.iter().for_each(|fault| faults.set(*fault, often));
        OF_RECEIPTS
            .iter()
            .for_each(|fault| faults.set(*fault, often));
        // Heads and logs are asked for seldom.
        faults.set(RpcFault::HeadRegression, 500_000);
        OF_LOGS.iter().for_each(|fault| faults.set(*fault, 200_000));
        if at < 2 {
            LIES.iter().for_each(|fault| faults.set(*fault, 3_000));
        }
        faults.set_sizes(FaultSizes {
            retry_after_seconds: 1,
            slow_answer: Duration::from_millis(200),
            ..faults.sizes()
        });
        let options = RpcOptions {
            max_block_range: one_of(random, [None, Some(100), Some(1_000)]),
            max_results: one_of(random, [None, Some(1_000), Some(10_000)]),
            faults: faults.clone(),
            ..RpcOptions::default()
        };
        servers.push(RpcServer::start(node.clone(), options).await?);
        all_faults.push(faults);
    }
    Ok((servers, all_faults))
}

/// Between one and five seconds of a chain's life.
async fn live(node: &EvmNode, random: &mut StdRng, reorg_percent: u32, tally: &mut Tally) {
    let end = Instant::now() + Duration::from_millis(random.random_range(1_000..5_000));
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if random.random_range(0..100) < reorg_percent {
            node.reorg(random.random_range(1..CONFIRMATIONS));
            tally.reorgs += 1;
        } else {
            node.mine(random.random_range(1..8));
        }
    }
}

/// This program once more, in a process of its own that can be killed.
fn start(config: &Path, dir: &Path, words: &[&str]) -> Result<Child> {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"))?;
    let program = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    command.args(words).arg("--config").arg(config);
    command
        .env_remove("DATA_DIR")
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().context("start this program once more")
}

async fn catch_up(config: &Path, dir: &Path) -> Result<()> {
    let mut child = start(config, dir, &["run", "--until-caught-up"])?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(
                status.success(),
                "the last run ended with {status}: {}",
                log_of(dir)
            );
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("the last run did not catch up: {}", log_of(dir));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn log_of(dir: &Path) -> String {
    let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(8).collect();
    last.join("\n")
}

/// Every archived block against the chain's.
async fn compare(config: &Path, node: &EvmNode, tally: &mut Tally) -> Result<()> {
    let settings = Settings::load(config, &Overrides::default())?;
    let chain = settings.chain(None)?;
    let archive = open_reader(chain, &settings.chain_dir(chain)).await?;
    let head = archive.health().head.context("nothing was archived")?;
    let expected = node.head().number - CONFIRMATIONS;
    ensure!(
        head.number == expected,
        "archived to {}, not to {expected}",
        head.number
    );
    for number in 0..=head.number {
        let theirs = node
            .block(number)
            .context("the chain has no such block")?
            .to_model();
        let theirs = Block {
            payload: Payload::default(),
            ..theirs
        };
        let ours = archive.block(number).await?;
        ensure!(ours.clock == theirs.clock, "block {number} is another one");
        ensure!(ours.txs == theirs.txs, "block {number}: other transactions");
        ensure!(
            ours.logs == theirs.logs,
            "block {number}: {} logs instead of {}",
            ours.logs.len(),
            theirs.logs.len()
        );
        tally.logs += ours.logs.len() as u64;
    }
    tally.blocks = head.number + 1;
    Ok(())
}

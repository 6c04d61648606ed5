//! `chronolith sim torture`: everything at once, from a seed.
//!
//! Each seed is one chain, one choice of servers, faults and limits, and one sequence of events. The
//! program is killed again and again while it follows, and in the end its archive must be the chain.

mod chain;
mod compare;
mod process;
mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::cli::Torture;
use crate::exit::Exit;
use chain::{Events, TorturedChain};
use compare::{Comparison, archived, compare};
use process::{End, Program};
use servers::{Servers, Way};

/// Blocks before anything is followed, and the least that are archived while things go wrong: what
/// is fetched after that proves nothing.
const BLOCKS_FIRST: u64 = 4_900;
const BLOCKS_MIN: u64 = 5_000;
const REORGS_MIN: u64 = 20;
const KILLS_MIN: u64 = 3;
/// Blocks from upgrade to upgrade of the chain's proxy.
const UPGRADE_EVERY: u64 = 97;
/// A seed whose faults have not all happened after so many lives has failed.
const LIVES_MAX: u64 = 100;
/// How long a life is, in milliseconds.
const LIFE_MS: std::ops::Range<u64> = 1_000..5_000;

/// What happened under one seed.
struct Tally {
    events: Events,
    lives: Lives,
    injected: BTreeMap<String, u64>,
    compared: Comparison,
    limits: Option<String>,
}

pub(crate) async fn torture(asked: &Torture) -> Result<Exit> {
    let seeds = asked.seed..asked.seed.saturating_add(asked.seeds);
    ensure!(!seeds.is_empty(), "--seeds: at least one");
    let mut injected: BTreeMap<String, u64> = BTreeMap::new();
    let mut notes = Vec::new();
    println!(
        "  seed  way         blocks      logs  reorgs    met  deepest  kills  faults  missing  made up  twice  seconds"
    );
    for seed in seeds.clone() {
        let began = Instant::now();
        let tally = one(seed).await;
        let tally = tally.with_context(|| format!("seed {seed} failed"))?;
        show(seed, &tally, began.elapsed());
        for (name, count) in tally.injected {
            *injected.entry(name).or_default() += count;
        }
        notes.extend(tally.limits.map(|limits| format!("seed {seed}: {limits}")));
        ensure!(
            tally.compared.is_equal(),
            "seed {seed}: the archive is not the chain"
        );
    }
    println!();
    notes.iter().for_each(|note| println!("{note}"));
    let mut expected: BTreeSet<String> = seeds.flat_map(|seed| Way::of(seed).faults()).collect();
    expected.insert(ROLLBACKS.to_owned());
    for name in &expected {
        let count = injected.get(name).copied().unwrap_or(0);
        println!("{count:>8}  {name}");
        ensure!(
            count > 0,
            "{name} was never injected: nothing is proven about it"
        );
    }
    Ok(Exit::Done)
}

/// What a head that really goes down is called in the list.
const ROLLBACKS: &str = "head_rollback";

fn show(seed: u64, tally: &Tally, took: Duration) {
    let Tally {
        events,
        lives,
        injected,
        compared,
        ..
    } = tally;
    let (way, faults) = (Way::of(seed).name(), injected.values().sum::<u64>());
    println!(
        "{seed:>6}  {way:<8} {:>9} {:>9} {:>7} {:>6} {:>8} {:>6} {faults:>7} {:>8} {:>8} {:>6} {:>8.0}",
        compared.blocks,
        compared.logs,
        events.reorgs,
        lives.met,
        events.deepest,
        lives.kills,
        compared.missing,
        compared.made_up,
        compared.twice,
        took.as_secs_f64()
    );
}

async fn one(seed: u64) -> Result<Tally> {
    let mut random = StdRng::seed_from_u64(seed);
    let spec = EvmSpec {
        upgrade_every: UPGRADE_EVERY,
        ..EvmSpec::tiny(seed)
    };
    let mut chain = TorturedChain::new(EvmNode::new(spec, BLOCKS_FIRST), &mut random);
    let mut servers = Servers::start(seed, &chain.node, &mut random).await?;
    let dir = tempfile::tempdir()?;
    let program = Program::in_dir(dir.path());
    let mut entry = servers.settings(chain.confirmations);
    let common = json!({
        "chainId": chain.node.chain_id(), "name": "torture", "pollMs": 20,
        "datasets": ["logs", "tx_hashes"],
    });
    let fields = entry.as_object_mut().into_iter();
    let common = common.as_object().cloned().unwrap_or_default();
    fields.for_each(|fields| fields.extend(common.clone()));
    let data = dir.path().join("data");
    let text = json!({ "dataDir": data, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": [entry] });
    std::fs::write(&program.config, text.to_string())?;
    let lives = lives(&mut chain, &mut servers, &program, &mut random).await?;
    let mut injected = servers.injected();
    injected.insert(ROLLBACKS.to_owned(), chain.events.rollbacks);
    servers.be_good();
    chain.settle();
    program.catch_up().await?;
    let last = chain.node.head().number - chain.confirmations;
    Ok(Tally {
        events: chain.events,
        lives,
        injected,
        compared: compare(&program.config, &chain.node, last).await?,
        limits: servers.limits(),
    })
}

/// What the lives of the program came to.
#[derive(Clone, Copy, Default)]
struct Lives {
    kills: u64,
    /// Blocks that were archived before the faults ended.
    archived: u64,
    /// Reorgs that the program met.
    met: u64,
}

/// Life after life until all has happened that must.
async fn lives(
    chain: &mut TorturedChain,
    servers: &mut Servers,
    program: &Program,
    random: &mut StdRng,
) -> Result<Lives> {
    let mut lives = Lives::default();
    for _ in 0..LIVES_MAX {
        let enough = lives.archived >= BLOCKS_MIN
            && chain.events.reorgs >= REORGS_MIN
            && chain.was_deepest()
            && lives.met >= servers.reorgs_met_min()
            && lives.kills >= KILLS_MIN;
        if enough && servers.did_their_worst() {
            return Ok(lives);
        }
        servers.begin_life(random);
        let life = random.random_range(LIFE_MS);
        let mut child = program.start(&["run"])?;
        let life = Duration::from_millis(life);
        chain.live(random, life, lives.archived).await;
        match program.kill(&mut child)? {
            End::Killed => lives.kills += 1,
            End::NotStarted => {}
        }
        lives.met += program.reorgs_told();
        lives.archived = archived(&program.config).await.unwrap_or(0);
    }
    let Lives {
        kills,
        archived,
        met,
    } = lives;
    let lacking = servers.lacking().join(", ");
    bail!(
        "{LIVES_MAX} lives were not enough: {kills} kills, {archived} blocks archived and {met} reorgs met among faults; never injected: {lacking}"
    )
}

//! `chronolith-sim torture`: everything at once, from a seed.
//!
//! Each seed is one chain, one choice of servers, faults and limits, and one sequence of events. The
//! program is killed again and again while it follows, and in the end its archive must be the chain. Where
//! there is a database, fees and feeds are projected into it all the while, by several programs at once, and
//! in the end its tables must be those of the chain and of a clean replay.

mod chain;
mod compare;
mod disruptions;
mod process;
mod rows;
mod servers;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use chronolith_model::{Dataset, Scope, ScopeEntry};
use chronolith_sim::evm::adfs::AdfsSpec;
use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::cli::Torture;
use chain::{ChainUnderTest, Events};
use compare::{ArchiveUnderTest, Comparison};
use disruptions::{Disruptions, NODE, SECOND};
use process::{End, Program, executable};
use rows::Server;
use servers::{Servers, Way};
use tables::Compared;

/// How many of the blocks come under faults; the others are there before. What is fetched after
/// that proves nothing.
const BLOCKS_LIVE: u64 = 100;
const REORGS_MIN: u64 = 20;
const KILLS_MIN: u64 = 3;
/// Blocks from upgrade to upgrade of the chain's proxy.
const UPGRADE_EVERY: u64 = 97;
/// What is projected: fees in a thousand blocks, and blocks of a job.
const FEES_PER_THOUSAND: u32 = 700;
const JOB_BLOCKS: u64 = 300;
/// A seed whose faults have not all happened after this many lives has failed.
const LIVES_MAX: u64 = 100;
/// How long a life is, in milliseconds. Where nothing was archived in one, or all was and too few reorgs were
/// met, the next is longer, at most this many times: on a slow machine a part of history may take longer than
/// a life, and so may the way to the head.
const LIFE_MS: std::ops::Range<u64> = 1_000..5_000;
const LONGER_MAX: u64 = 6;

/// What is tested: the program, and the archive that it writes.
struct Tested {
    program: Program,
    archive: ArchiveUnderTest,
}

/// What happened under one seed.
struct Tally {
    events: Events,
    lives: Lives,
    injected: BTreeMap<String, u64>,
    compared: Comparison,
    tables: Option<Compared>,
    limits: Option<String>,
}

pub(crate) async fn torture(options: &Torture) -> Result<()> {
    let executable = executable(options.program.as_deref())?;
    let seeds = options.seed..options.seed.saturating_add(options.seeds);
    ensure!(!seeds.is_empty(), "--seeds: at least one");
    let server = match options.no_projections {
        true => None,
        false => Server::start(options.database.as_deref()).await?,
    };
    let mut injected: BTreeMap<String, u64> = BTreeMap::new();
    let (mut notes, mut projected) = (Vec::new(), Vec::new());
    println!(
        "  seed  way         blocks      logs  reorgs    met  deepest  kills  faults  missing  made up  twice  seconds"
    );
    for seed in seeds.clone() {
        let began = Instant::now();
        let tally = one(&executable, (seed, options.blocks), server.as_ref()).await;
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
        projected.extend(tally.tables.map(|tables| (seed, tables)));
        let last: Option<&(u64, Compared)> = projected.last();
        if last.is_some_and(|(_, tables)| !tables.is_equal()) {
            break;
        }
    }
    println!();
    show_tables(&projected)?;
    notes.iter().for_each(|note| println!("{note}"));
    let mut expected: BTreeSet<String> = seeds.flat_map(|seed| Way::of(seed).faults()).collect();
    expected.insert(ROLLBACKS.to_owned());
    if let Some(server) = &server {
        expected.extend(disruptions::names(server.may_die()));
    }
    for name in &expected {
        let count = injected.get(name).copied().unwrap_or(0);
        println!("{count:>8}  {name}");
        ensure!(
            count > 0,
            "{name} was never injected: nothing is proven about it"
        );
    }
    Ok(())
}

/// The name of a head that really goes down in the list of faults.
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

/// What tables hold that were compared, by seed.
fn show_tables(projected: &[(u64, Compared)]) -> Result<()> {
    if projected.is_empty() {
        return Ok(());
    }
    println!(
        "  seed      fees     feeds  latest  upgrades  dropped  epochs  of second  writes  missing  made up  not as replayed"
    );
    for (seed, tables) in projected {
        println!(
            "{seed:>6} {:>9} {:>9} {:>7} {:>9} {:>8} {:>7} {:>10} {:>7} {:>8} {:>8} {:>16}",
            tables.fees,
            tables.feeds,
            tables.latest,
            tables.versions,
            tables.dropped,
            tables.epochs,
            tables.by_second,
            tables.writes,
            tables.missing,
            tables.made_up,
            tables.apart
        );
    }
    println!();
    for (seed, tables) in projected {
        ensure!(
            tables.is_equal(),
            "seed {seed}: the tables are not those of the chain"
        );
    }
    Ok(())
}

async fn one(
    executable: &Path,
    (seed, blocks): (u64, u64),
    server: Option<&Server>,
) -> Result<Tally> {
    let mut random = StdRng::seed_from_u64(seed);
    // A Portal does not serve transactions, and beside nodes it is not used where they are kept.
    let projects_feeds = server.is_some() && !matches!(Way::of(seed), Way::Portal | Way::Joint);
    let spec = EvmSpec {
        upgrade_every: UPGRADE_EVERY,
        fees: server.map(|_| FeesSpec::per_thousand_blocks(FEES_PER_THOUSAND)),
        adfs: projects_feeds.then_some(AdfsSpec {
            upgrade_every: UPGRADE_EVERY,
        }),
        ..EvmSpec::tiny(seed)
    };
    let node = EvmNode::new(spec, blocks.saturating_sub(BLOCKS_LIVE));
    let mut chain = ChainUnderTest::new(node, blocks, &mut random);
    let mut servers = Servers::start(seed, &chain.node, &mut random).await?;
    let dir = tempfile::tempdir()?;
    let narrow = servers.is_narrow().then(|| busiest(&chain.node));
    let entry = entry(&chain, &servers, &spec, narrow.as_deref());
    let write = |name: &str, url: Option<&str>| {
        let program = Program::named(executable, dir.path(), name);
        let text = settings(&program.data_dir, &entry, url);
        std::fs::write(&program.config, text.to_string())?;
        anyhow::Ok(program)
    };
    let tested = |program: Program| {
        let chain_id = chain.node.chain_id();
        let directory = program.chain_dir(chain_id);
        let scope = scope(&spec, narrow.as_deref());
        Tested {
            archive: ArchiveUnderTest::new(directory, chain_id, servers.datasets(), scope),
            program,
        }
    };
    let Some(server) = server else {
        let tested = tested(write(NODE, None)?);
        let lives = lives(&mut chain, &mut servers, (&tested, None), &mut random).await?;
        return tally(&mut chain, &servers, &tested, lives).await;
    };
    let names = [format!("torture_{seed}"), format!("replay_{seed}")];
    let [ours, clean] = &names;
    let (rows, replayed) = (server.database(ours).await?, server.database(clean).await?);
    rows.watch().await?;
    let tested = tested(write(NODE, Some(&rows.url_for(NODE)))?);
    let second = write(SECOND, Some(&rows.url_for(SECOND)))?;
    note_first_block(&chain.node, &second)?;
    let mut disruptions = Disruptions::new((server, &rows), (&tested.program, second), seed);
    let under = (&tested, Some(&mut disruptions));
    let lives = lives(&mut chain, &mut servers, under, &mut random).await?;
    let writes = disruptions.end().await?;
    let mut tally = tally(&mut chain, &servers, &tested, lives).await?;
    tally.injected.extend(disruptions.happened());
    write("replay", Some(&replayed.url))?.catch_up().await?;
    let last = chain.node.head().number - chain.confirmations;
    let mut tables = tables::compare(&rows, &replayed, &chain.node, last).await?;
    tables.writes = writes;
    tables.by_second = disruptions.epochs_of_second().await?;
    tally.tables = Some(tables);
    for name in &names {
        server.remove(name).await?;
    }
    Ok(tally)
}

/// Which logs the program keeps with these settings: all, or those of one contract and of the projected ones.
fn scope(spec: &EvmSpec, narrow: Option<&[u8]>) -> Scope {
    let Some(narrow) = narrow else {
        return Scope::All;
    };
    let fees = spec.fees.map(|fees| fees.contract.to_vec());
    let feeds = spec.adfs.map(|_| AdfsSpec::PROXY.to_vec());
    let contracts = [Some(narrow.to_vec()), fees, feeds].into_iter().flatten();
    let entry = |contract| ScopeEntry {
        emitter: Some(Bytes::from(contract)),
        topic0: None,
    };
    Scope::only(contracts.map(entry).collect())
}

/// Sets the chain that a node follows, as an operator does whose endpoints have different first blocks. A forged one
/// in each of its lives would keep a node without an archive from ever starting.
fn note_first_block(node: &EvmNode, program: &Program) -> Result<()> {
    let directory = program.chain_dir(node.chain_id());
    let first = node.block(0).context("the chain has no first block")?;
    std::fs::create_dir_all(&directory)?;
    let hash = const_hex::encode_prefixed(first.hash.0);
    std::fs::write(directory.join("genesis"), format!("{hash}\n"))?;
    Ok(())
}

/// The contract with the most logs in the first blocks.
fn busiest(node: &EvmNode) -> Vec<u8> {
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for block in (0..BLOCKS_LIVE).filter_map(|number| node.block(number)) {
        for log in &block.logs {
            *counts.entry(log.emitter().to_vec()).or_default() += 1;
        }
    }
    let busiest = counts.into_iter().max_by_key(|(_, count)| *count);
    busiest.map(|(emitter, _)| emitter).unwrap_or_default()
}

/// Ends all faults, lets the program catch up, and compares.
async fn tally(
    chain: &mut ChainUnderTest,
    servers: &Servers,
    tested: &Tested,
    lives: Lives,
) -> Result<Tally> {
    let mut injected = servers.injected();
    injected.insert(ROLLBACKS.to_owned(), chain.events.rollbacks);
    servers.stop_faults();
    chain.settle();
    tested.program.catch_up().await?;
    let last = chain.node.head().number - chain.confirmations;
    Ok(Tally {
        events: chain.events,
        lives,
        injected,
        compared: tested.archive.compare(&chain.node, last).await?,
        tables: None,
        limits: servers.limits(),
    })
}

/// The chain as the settings file has it.
fn entry(
    chain: &ChainUnderTest,
    servers: &Servers,
    spec: &EvmSpec,
    narrow: Option<&[u8]>,
) -> Value {
    let mut entry = servers.settings(chain.confirmations);
    let fees = |fees: FeesSpec| {
        json!({
            "contracts": [const_hex::encode_prefixed(fees.contract)], "jobBlocks": JOB_BLOCKS, "jobLeaseTtlMs": 1_000,
        })
    };
    let logs =
        narrow.map(|contract| json!({ "addresses": [const_hex::encode_prefixed(contract)] }));
    let datasets: Vec<&str> = servers.datasets().iter().map(Dataset::name).collect();
    let more = json!({
        "chainId": chain.node.chain_id(), "name": "torture", "pollMs": servers.poll_ms(), "logs": logs,
        "datasets": datasets, "fees": spec.fees.map(fees),
        "contractAddress": spec.adfs.map(|_| const_hex::encode_prefixed(AdfsSpec::PROXY)),
        "topicNames": { "1": "DataFeedsUpdated(uint256)", "2": "DataFeedsUpdated(uint256,address)" },
    });
    if let (Some(fields), Value::Object(more)) = (entry.as_object_mut(), more) {
        fields.extend(more);
    }
    entry
}

/// A settings file; with a database where there is one.
fn settings(data: &Path, entry: &Value, url: Option<&str>) -> Value {
    const ANY: &str = "127.0.0.1:0";
    let [first, second] = AdfsSpec::IMPLEMENTATIONS.map(const_hex::encode_prefixed);
    let accumulators = ["sourceAccumulator", "destinationAccumulator"];
    json!({
        "dataDir": data, "listen": ANY, "metricsPort": 0, "adminListen": ANY, "feesListen": ANY,
        "db": { "url": url, "connections": 4, "workers": 1 },
        "versions": {
            "1": { "hasBlockNumber": true }, "2": { "hasBlockNumber": false, "extraFields": accumulators },
        },
        "implVersionMap": { first: { "version": 1 }, second: { "version": 2 } },
        "chains": [entry],
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
    chain: &mut ChainUnderTest,
    servers: &mut Servers,
    (tested, mut disruptions): (&Tested, Option<&mut Disruptions<'_>>),
    random: &mut StdRng,
) -> Result<Lives> {
    let program = &tested.program;
    let mut lives = Lives::default();
    let mut longer = 1;
    for _ in 0..LIVES_MAX {
        let enough = lives.archived >= chain.wanted
            && chain.events.reorgs >= REORGS_MIN
            && chain.was_deepest()
            && lives.met >= servers.reorgs_met_min()
            && lives.kills >= KILLS_MIN;
        if enough && never_injected(servers, disruptions.as_deref()).is_empty() {
            return Ok(lives);
        }
        servers.begin_life(random, lives.archived);
        let life = random.random_range(LIFE_MS) * longer;
        let mut child = program.start(&["run"])?;
        let life = Duration::from_millis(life);
        let disruption = async {
            match &mut disruptions {
                None => Ok(()),
                Some(disruptions) => disruptions.live(&child, life, lives.archived).await,
            }
        };
        let ((), disruption) = tokio::join!(chain.live(random, life, lives.archived), disruption);
        let end = program.kill(&mut child);
        disruption?;
        lives.kills += u64::from(end? == End::Killed);
        if let Some(disruptions) = &mut disruptions {
            disruptions.node_is_dead().await;
        }
        lives.met += program.reorgs_logged();
        let before = lives.archived;
        lives.archived = tested.archive.head().await.unwrap_or(0);
        // Reorgs are met at the head, which the program may not reach in a short life.
        let has_head = lives.archived < chain.wanted || lives.met >= servers.reorgs_met_min();
        let went_on = lives.archived > before || before >= chain.wanted;
        longer = match went_on && has_head {
            true => 1,
            false => (longer + 1).min(LONGER_MAX),
        };
        tracing::debug!(
            kills = lives.kills,
            archived = lives.archived,
            reorgs_met = lives.met,
            never_injected = servers.never_injected().join(" "),
            "life ended"
        );
    }
    let Lives {
        kills,
        archived,
        met,
    } = lives;
    let never_injected = never_injected(servers, disruptions.as_deref()).join(", ");
    bail!(
        "{LIVES_MAX} lives were not enough: {kills} kills, {archived} blocks archived and {met} reorgs met among faults; never injected: {never_injected}"
    )
}

/// The faults and disruptions that must happen and never did.
fn never_injected(servers: &Servers, disruptions: Option<&Disruptions<'_>>) -> Vec<String> {
    let mut never_injected = servers.never_injected();
    never_injected.extend(
        disruptions
            .into_iter()
            .flat_map(Disruptions::never_injected),
    );
    never_injected
}

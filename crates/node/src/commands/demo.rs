//! `chronolith demo`: two simulated chains, followed before your eyes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use chronolith_follower::chain::Chain;
use chronolith_follower::ingest;
use chronolith_serve::chain::ServedChains;
use chronolith_serve::http::{Drain, Limits};
use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, RpcOptions, RpcServer, UPGRADED_TOPIC};
use const_hex::encode_prefixed;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::demo_rows::Rows;
use super::narrator::{Narrator, print};
use crate::exit::Exit;
use crate::health_server::Chains;
use crate::public_server::{self, Serving, bind};
use crate::running::RunningChain;
use crate::runtimes::Threads;
use crate::settings::Settings;

/// A chain of the demo.
struct Act {
    name: &'static str,
    chain_id: u64,
    blocks: u64,
    block_time_ms: u64,
    /// A reorg instead of every n-th block.
    reorg_every: u64,
    /// Blocks from upgrade to upgrade of a proxy; 0 for no proxy.
    upgrade_every: u64,
    /// Fees in a thousand blocks; 0 for none.
    fees: u32,
}

const ACTS: [Act; 2] = [
    Act {
        name: "steady",
        chain_id: 31_337,
        blocks: 2_010,
        block_time_ms: 700,
        reorg_every: 9,
        upgrade_every: 20,
        fees: 700,
    },
    Act {
        name: "hasty",
        chain_id: 31_338,
        blocks: 4_000,
        block_time_ms: 250,
        reorg_every: 40,
        upgrade_every: 0,
        fees: 0,
    },
];
const LOGS_PER_BLOCK: u32 = 40;
const CONFIRMATIONS: u64 = 8;
/// How often the chains are polled, and how often the heads are printed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const HEADS_EVERY: Duration = Duration::from_secs(3);

/// What runs while the demo does.
struct Stage {
    nodes: Vec<EvmNode>,
    chains: Vec<Arc<RunningChain>>,
    /// Stop when they are dropped.
    _servers: Vec<RpcServer>,
    config: PathBuf,
    /// Where the console is.
    url: String,
    /// Where rows go, if PostgreSQL is installed.
    rows: Option<Rows>,
}

/// The port of the public API, if it is free.
const PORT: u16 = 8_080;

pub(crate) async fn demo(seconds: u64, data_dir: &Path, threads: &Threads) -> Result<Exit> {
    let dir = fresh(data_dir)?;
    introduce(&dir);
    let bind = |port| bind((Ipv4Addr::LOCALHOST, port).into(), "port", &threads.answers);
    let listener = bind(PORT).or_else(|_| bind(0))?;
    let stage = set(&dir, listener.local_addr()?).await?;
    let fees = stage.rows.as_ref().map(Rows::reader).transpose()?;
    let served = stage.chains.iter().map(public_server::served).collect();
    let served = ServedChains::new(served)
        .with_fees(fees.clone())
        .with_projections(fees);
    let probe = Arc::new(Chains::new(stage.chains.clone()));
    let serving = Serving {
        limits: Limits::default(),
        threads: threads.clone(),
        drain: Drain::never(),
    };
    let mut tasks = JoinSet::new();
    for (at, act) in ACTS.iter().enumerate() {
        let (chain, node) = (stage.chains.get(at).cloned(), stage.nodes.get(at).cloned());
        if let (Some(chain), Some(node)) = (chain, node) {
            tasks.spawn(async move {
                // Without bounds it does not end.
                let _ = ingest::run(&chain).await;
            });
            let block_time = Duration::from_millis(act.block_time_ms);
            tasks.spawn(async move { node.grow(block_time, act.reorg_every).await });
        }
    }
    if let Some(rows) = &stage.rows {
        rows.project(&stage.chains, &mut tasks).await?;
    }
    let limit = match seconds {
        0 => Duration::MAX,
        seconds => Duration::from_secs(seconds),
    };
    let began = Instant::now();
    let mut spectators: Vec<Narrator> = ACTS
        .iter()
        .map(|act| Narrator::new(act.name, began))
        .collect();
    tokio::select! {
        () = watch(&stage, &mut spectators, began) => {}
        () = tokio::time::sleep(limit) => {}
        served = public_server::serve_on(listener, served, probe, &serving, None) => served?,
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    tasks.shutdown().await;
    println!();
    println!("Stopped. The archives are kept in {}:", dir.display());
    for (chain, spectator) in stage.chains.iter().zip(&spectators) {
        chain.archive.release().await?;
        println!("  {}", spectator.sum(chain));
    }
    if let Some(rows) = &stage.rows {
        println!("  {} (their database goes away now)", rows.sum().await?);
    }
    Ok(Exit::Done)
}

/// An empty directory for the demo. What is there is removed only if a demo made it.
fn fresh(data_dir: &Path) -> Result<PathBuf> {
    let dir = std::path::absolute(data_dir.join("demo"))?;
    if dir.exists() {
        if !dir.join("chronolith.json").exists() {
            bail!(
                "{} is not a demo's: remove it, or name another --data-dir",
                dir.display()
            );
        }
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    Ok(dir)
}

fn introduce(dir: &Path) {
    println!(
        "Two simulated chains, followed into {}. Ctrl-C ends it.",
        dir.display()
    );
    for act in ACTS {
        let Act { name, blocks, .. } = act;
        let every = act.block_time_ms as f64 / 1e3;
        let proxy = match act.upgrade_every {
            0 => "",
            _ => ", and a contract that is upgraded now and then",
        };
        println!("  {name:<7} {blocks} blocks of history, a new one every {every} s{proxy}");
    }
    println!(
        "A block is archived once {CONFIRMATIONS} others stand on it. Until then it waits in memory, \
         because a reorg may replace it."
    );
    println!();
}

/// Chains, those who serve them, and a settings file with both.
async fn set(dir: &Path, address: SocketAddr) -> Result<Stage> {
    let rows = Rows::start().await?;
    let (mut nodes, mut servers, mut entries) = (Vec::new(), Vec::new(), Vec::<Value>::new());
    for act in &ACTS {
        let mut spec = EvmSpec::mainnet(act.chain_id);
        spec.chain_id = act.chain_id;
        spec.content.logs_per_block = LOGS_PER_BLOCK;
        spec.upgrade_every = act.upgrade_every;
        spec.fees = (act.fees > 0).then(|| FeesSpec::per_thousand_blocks(act.fees));
        let node = EvmNode::new(spec, act.blocks);
        let server = RpcServer::start(node.clone(), RpcOptions::default()).await?;
        let collects = rows.is_some() && act.fees > 0;
        let fees = json!({ "contracts": [encode_prefixed(FeesSpec::CONTRACT)], "jobBlocks": 500 });
        entries.push(json!({
            "chainId": act.chain_id,
            "name": act.name,
            "rpcHttp": [server.url()],
            "rpcWs": [server.ws_url()],
            "finality": { "mode": "depth", "confirmations": CONFIRMATIONS },
            "pollMs": 100,
            "fees": collects.then_some(fees),
        }));
        servers.push(server);
        nodes.push(node);
    }
    let config = dir.join("chronolith.json");
    let db = json!({ "url": rows.as_ref().map(Rows::url) });
    let whole = json!({ "dataDir": dir, "db": db, "chains": entries });
    let text = serde_json::to_string_pretty(&whole)?;
    std::fs::write(&config, &text)?;
    let mut settings = Settings::parse(&text, false)?;
    // The environment may name the directory that the demo's is in.
    settings.data_dir = dir.to_owned();
    let mut chains = Vec::new();
    for chain in &settings.chains {
        let opened = Chain::open(chain.follow.clone(), &settings.place(chain)).await?;
        opened.admit().await?;
        chains.push(Arc::new(RunningChain::new(chain.clone(), opened)));
    }
    Ok(Stage {
        nodes,
        chains,
        _servers: servers,
        config,
        url: format!("http://{address}"),
        rows,
    })
}

/// Tells what happens, and once all have caught up, what to try.
async fn watch(stage: &Stage, spectators: &mut [Narrator], began: Instant) {
    let mut requested = false;
    let mut heads_printed = Instant::now();
    loop {
        for ((chain, node), spectator) in
            stage.chains.iter().zip(&stage.nodes).zip(&mut *spectators)
        {
            spectator.look(chain, node.head().number);
        }
        let ready = spectators.iter().all(Narrator::caught_up);
        if ready && !requested {
            requested = suggest(stage).await;
        }
        if ready && heads_printed.elapsed() >= HEADS_EVERY {
            heads_printed = Instant::now();
            let all = stage.chains.iter().zip(&stage.nodes).zip(&*spectators);
            let head = |((chain, node), spectator): ((&Arc<RunningChain>, &EvmNode), &Narrator)| {
                spectator.head(chain, node.head().number)
            };
            let heads: Vec<String> = all.map(head).collect();
            print(began, "heads", &heads.join("   "));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Questions to paste into another terminal, with values that have answers.
async fn suggest(stage: &Stage) -> bool {
    let Some(chain) = stage.chains.first() else {
        return false;
    };
    let Ok(block) = chain.archive.block(1_000).await else {
        return false;
    };
    let topic = encode_prefixed(UPGRADED_TOPIC);
    let (name, time) = (&chain.settings.name, block.clock.timestamp);
    let program = command(&stage.config);
    println!();
    println!("Look at it: {}/", stage.url);
    println!("Ask it something, in another terminal:");
    println!("  # when was the contract of {name} upgraded?");
    println!("  {program} logs --chain {name} --topic0 {topic} --limit 5");
    println!("  # which block was there at this time?");
    println!("  {program} block-at --chain {name} {time}");
    println!("  # the same as any client of a node or of the web asks");
    println!(
        "  curl -s {}/v1/chains/{}/block/before/{time}",
        stage.url, chain.settings.chain_id
    );
    if let Some(rows) = &stage.rows {
        println!("  # which fees were collected last, and are they final?");
        println!(
            "  psql {} -c \"SELECT block_number, integrator_fee, status FROM fee_events ORDER BY 1 DESC LIMIT 5\"",
            rows.url()
        );
        println!("  {program} projection state --chain {name}");
    }
    println!("  # is the history whole, every block of it?");
    println!("  {program} verify --chain {name}");
    println!();
    true
}

/// How this program is called with the demo's settings, from anywhere.
fn command(config: &Path) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "chronolith".into());
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&paths).find_map(|dir| {
        let found = dir.join("chronolith").canonicalize().ok()?;
        (Some(found) == program.canonicalize().ok()).then_some("chronolith".to_owned())
    });
    let program = on_path.unwrap_or_else(|| quoted(&program));
    // It is probably set in the other terminal as well.
    let data_dir = match (std::env::var_os("DATA_DIR"), config.parent()) {
        (Some(_), Some(dir)) => format!("DATA_DIR={} ", quoted(dir)),
        _ => String::new(),
    };
    format!("{data_dir}{program} -c {}", quoted(config))
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if text.bytes().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        for (path, shown) in [
            ("/a/b-1.json", "/a/b-1.json"),
            ("/my data/x", "'/my data/x'"),
            ("/it's", r"'/it'\''s'"),
        ] {
            assert_eq!(quoted(Path::new(path)), shown);
        }
    }
}

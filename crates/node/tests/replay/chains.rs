//! The simulated chains that the scenarios ask about, and the program that serves them.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use chronolith_model::{Block, BlockRange};
use chronolith_sim::evm::{EvmNode, Faults, RpcFault, RpcOptions, RpcServer};
use serde_json::{Value, json};

use super::plans::{ISLAND, Plan, plans};
use crate::support::{Bench, PATIENCE, Running, put_island, serve};

/// A chain and how it is kept.
pub(crate) struct Chain {
    pub(crate) name: &'static str,
    pub(crate) id: u64,
    /// The first block that is kept.
    pub(crate) start: u64,
    /// The newest block that is served.
    pub(crate) head: u64,
    /// The newest archived block, where there is one.
    pub(crate) finalized: Option<u64>,
    /// The newest block that the node shows.
    pub(crate) source_head: u64,
    /// Every block, whether it is kept or not.
    pub(crate) blocks: Vec<Block>,
    /// The logs of each block as they are shown.
    pub(crate) shown: OnceLock<Vec<Vec<Value>>>,
    /// Emitters and first topics, the most frequent first.
    pub(crate) addresses: Vec<String>,
    pub(crate) topics: Vec<String>,
    pub(crate) node: RpcServer,
    /// A cursor of another chain.
    pub(crate) strange_cursor: String,
    sim: EvmNode,
    faults: Faults,
    settings: Value,
}

impl Chain {
    async fn start(plan: Plan) -> Self {
        let sim = EvmNode::new(plan.spec, plan.blocks);
        let oracle = sim.oracle(BlockRange::new(0, plan.blocks + 1));
        let blocks: Vec<Block> = oracle.blocks().cloned().collect();
        let logs = || blocks.iter().flat_map(|block| &block.logs);
        let addresses = by_frequency(logs().map(|log| hex(log.emitter())));
        let topics = by_frequency(logs().filter_map(|log| log.topic(0)).map(hex));
        let mut head = plan.blocks;
        if let Some(from) = plan.hidden_from {
            // A block without transactions needs nothing of what is hidden later.
            let busy = blocks.iter().skip(from).find(|block| !block.txs.is_empty());
            head = busy.unwrap().clock.number - 1;
            sim.rollback(plan.blocks - head);
        }
        let faults = Faults::new(0);
        let options = RpcOptions {
            faults: faults.clone(),
            ..RpcOptions::default()
        };
        let node = serve(&sim, options).await;
        let mut settings = json!({
            "chainId": plan.spec.chain_id, "name": plan.name, "rpcHttp": [node.url()], "pollMs": 200,
            "startBlock": plan.start, "datasets": plan.datasets,
            "finality": { "mode": "depth", "confirmations": plan.depth },
        });
        let more = plan.more.as_object().unwrap().clone();
        settings.as_object_mut().unwrap().extend(more);
        Self {
            name: plan.name,
            id: plan.spec.chain_id,
            start: plan.start,
            head,
            finalized: head.checked_sub(plan.depth),
            source_head: plan.blocks,
            blocks,
            shown: OnceLock::new(),
            addresses,
            topics,
            node,
            strange_cursor: String::new(),
            sim,
            faults,
            settings,
        }
    }

    pub(crate) fn block(&self, number: u64) -> &Block {
        &self.blocks[usize::try_from(number).unwrap()]
    }

    /// Adds blocks that nobody asked for yet; the number of the last one.
    pub(crate) fn mine(&self, blocks: u64) -> u64 {
        self.sim.mine(blocks).number
    }

    /// Lets the node continue while it tells no receipts, so that nobody can follow it.
    fn hide(&self) {
        if self.head < self.source_head {
            self.faults.always(RpcFault::NullReceipts);
            self.mine(self.source_head - self.head);
        }
    }
}

/// The running program, and everything that it serves.
pub(crate) struct World {
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
    chains: Vec<Chain>,
    bench: Bench,
    _running: Running,
}

impl World {
    /// Starts everything.
    pub(crate) async fn start() -> Self {
        let mut chains = Vec::new();
        for plan in plans() {
            chains.push(Chain::start(plan).await);
        }
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("chronolith.json");
        let bench = Bench { dir, config };
        let holed = chains.iter().find(|chain| chain.name == "holed").unwrap();
        configure(&bench, &[holed]);
        bench.say(&["run", "--until-caught-up"]);
        put_island(&bench, &holed.sim, ISLAND).await;
        configure(&bench, &chains.iter().collect::<Vec<_>>());
        let running = bench.start();
        // Packing millions of bytes would take longer than everything else.
        let client = reqwest::Client::builder().no_gzip().no_zstd();
        Self {
            base: bench.public(),
            client: client.build().unwrap(),
            chains,
            bench,
            _running: running,
        }
    }

    /// Waits until every chain is caught up, and then lets one fall behind.
    pub(crate) async fn catch_up(&mut self) {
        self.until("the sources' heads", |chain| chain.head).await;
        self.chains.iter().for_each(Chain::hide);
        self.until("a head that cannot be followed", |chain| chain.source_head)
            .await;
        let cursor = self.cursor_of("late").await;
        for chain in self.chains.iter_mut().filter(|chain| chain.name != "late") {
            chain.strange_cursor.clone_from(&cursor);
        }
    }

    /// A cursor into the middle of a chain.
    async fn cursor_of(&self, name: &str) -> String {
        let path = format!(
            "/v1/chains/{}/logs?fromBlock=earliest&limit=1",
            self.chain(name).id
        );
        let page = self.get(&path).await.unwrap().json().unwrap();
        page["nextCursor"].as_str().unwrap().to_owned()
    }

    pub(crate) fn chain(&self, name: &str) -> &Chain {
        let found = self.chains.iter().find(|chain| chain.name == name);
        found.unwrap_or_else(|| panic!("no chain {name}"))
    }

    /// What the program said about itself.
    pub(crate) fn log(&self) -> String {
        self.bench.log()
    }

    /// Waits until each chain is served as it should be while its source has this head.
    async fn until(&self, what: &str, source_head: impl Fn(&Chain) -> u64) {
        let reached = async {
            while !self.is_reached(&source_head).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, reached).await;
        assert!(in_time.is_ok(), "no {what}:\n{}", self.bench.log());
    }

    async fn is_reached(&self, source_head: &impl Fn(&Chain) -> u64) -> bool {
        let overview = self.get("/v1/overview").await.unwrap().json().unwrap();
        let shown = overview["chains"].as_array().unwrap();
        self.chains.iter().all(|chain| {
            let one = shown.iter().find(|one| one["chainId"] == chain.id).unwrap();
            one["head"]["number"].as_u64() == Some(chain.head)
                && one["finalized"]["number"].as_u64() == chain.finalized
                && one["sourceHead"].as_u64() == Some(source_head(chain))
        })
    }
}

/// Writes the settings of these chains.
fn configure(bench: &Bench, chains: &[&Chain]) {
    let settings: Vec<&Value> = chains.iter().map(|chain| &chain.settings).collect();
    let text = json!({
        "dataDir": bench.dir.path().join("data"), "listen": "127.0.0.1:0", "metricsPort": 0,
        "adminListen": "127.0.0.1:0", "chains": settings,
    });
    std::fs::write(&bench.config, text.to_string()).unwrap();
}

/// Different texts, the most frequent first, equally frequent ones in their order.
fn by_frequency(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts = BTreeMap::<String, usize>::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(text, _)| text).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let digits = digits.map(|digit| char::from(DIGITS[usize::from(digit)]));
    "0x".chars().chain(digits).collect()
}

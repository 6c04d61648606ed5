//! The servers of the chain under test: three nodes, a Portal or both, and the faults that each injects.
//!
//! The first two nodes have byzantine faults and others, the last one only others: without an honest node
//! there is nothing to archive. The program does not use an endpoint for minutes once it answered
//! inconsistently, longer than a life lasts, so each life has a byzantine fault of its own that is frequent.
//! Some seeds have two more nodes before all others, which serve another fork and another chain with the same
//! id.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use chronolith_model::{Dataset, DatasetSet};
use chronolith_sim::evm::{EvmNode, EvmSpec, FaultSizes, Faults, RpcFault, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};

/// Requests that fail, as often as was drawn for a node; each life has one of them in front.
const FAILURES: [RpcFault; 4] = [
    RpcFault::Http500,
    RpcFault::Http429RetryAfter,
    RpcFault::Http429Bare,
    RpcFault::TruncatedBody,
];
/// The others are this many times rarer.
const IN_FRONT: u32 = 10;
/// Calls that fail, as often as was drawn for a node.
const CALL_FAILURES: [RpcFault; 2] = [RpcFault::RpcError, RpcFault::NullBlock];
/// The faults of every node with their rates in cases of a million: some are rarely possible, some are
/// costly.
const OTHER_FAULTS: [(RpcFault, u32); 7] = [
    (RpcFault::BatchOutOfOrder, 50_000),
    (RpcFault::MissingBlockTimestamp, 50_000),
    (RpcFault::SlowAnswer, 20_000),
    (RpcFault::HeadRegression, 300_000),
    (RpcFault::WsDrop, 50_000),
    (RpcFault::DuplicateHeads, 200_000),
    (RpcFault::HugeBody, 3_000),
];
/// This many of the nodes have byzantine faults.
const BYZANTINE_NODES: usize = 2;
/// Their byzantine faults, however blocks are fetched.
const BYZANTINE_FAULTS: [RpcFault; 4] = [
    RpcFault::WrongBlockHashInLogs,
    RpcFault::BloomZero,
    RpcFault::HashChange,
    RpcFault::WrongChainId,
];
/// The rate of a fault that is in every answer: the answers must agree with each other.
const ALWAYS: u32 = 1_000_000;
/// How often the byzantine fault of a life happens, one in what is rarely requested, and all the others.
const BYZANTINE_OFTEN: u32 = 10_000;
const BYZANTINE_OFTEN_IF_RARE: u32 = 300_000;
const BYZANTINE_SELDOM: u32 = 300;
const RANGE_ERROR_OFTEN: u32 = 30_000;
const NULL_RECEIPTS_OFTEN: u32 = 10_000;
/// Requests in flight: few, so that history is archived in many steps.
const IN_FLIGHT: u64 = 2;
/// Refusals that a Portal must be ridden out on. Others mean that the settings are wrong.
const REFUSALS: [PortalFault; 7] = [
    PortalFault::Status(204),
    PortalFault::Status(500),
    PortalFault::Status(502),
    PortalFault::Status(503),
    PortalFault::Status(529),
    PortalFault::StatusRetryAfter(429),
    PortalFault::StatusRetryAfter(503),
];
/// A Portal has few requests: this many faults that never happened are sure to happen in each life.
const ARMED_IN_A_LIFE: usize = 3;
/// How often Portal faults happen by chance: those of an answer as was drawn for all of them
/// together, those of a line each.
const OF_ANSWERS: [u32; 3] = [0, 20_000, 50_000];
const OF_LINES: u32 = 20;
/// Limits are smaller than those of real providers, because the chain is small: 250 blocks of it,
/// which is what the program requests, have some 3,000 logs.
const RESULT_CAPS: [Option<u64>; 3] = [Some(300), Some(1_000), None];
const BLOCK_CAPS: [Option<u64>; 3] = [Some(25), Some(100), None];

/// How blocks are fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Receipts,
    Logs,
    /// A Portal alone: nothing can be compared with it, so that it has no byzantine faults.
    Portal,
    /// A byzantine Portal beside honest nodes.
    Joint,
    /// The logs of one contract.
    Narrow,
}

impl Way {
    /// All five in any five seeds in a row.
    pub(super) fn of(seed: u64) -> Self {
        match seed % 5 {
            0 => Self::Portal,
            1 => Self::Receipts,
            2 => Self::Logs,
            3 => Self::Joint,
            _ => Self::Narrow,
        }
    }

    /// How logs are fetched, in the settings.
    fn strategy(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            _ => "receipts",
        }
    }

    fn has_portal(self) -> bool {
        matches!(self, Self::Portal | Self::Joint)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Receipts => "receipts",
            Self::Logs => "logs",
            Self::Portal => "portal",
            Self::Joint => "joint",
            Self::Narrow => "narrow",
        }
    }

    /// What must happen under every seed of this way.
    pub(super) fn faults(self) -> Vec<String> {
        if self == Self::Portal {
            return portal_faults().into_iter().map(portal_name).collect();
        }
        if self == Self::Joint {
            return portal_byzantine_faults().map(portal_name).collect();
        }
        let name = |fault: RpcFault| fault.name().to_owned();
        let failures = FAILURES.into_iter().chain(CALL_FAILURES);
        let others = failures.chain(OTHER_FAULTS.map(|(fault, _)| fault));
        let own = self.own().map(|(fault, _)| fault);
        let byzantine = self.byzantine_faults().into_iter().chain(own);
        let mut all: Vec<String> = others.chain(byzantine).map(name).collect();
        if self == Self::Receipts {
            all.extend(FOREIGN_NODES.map(ToOwned::to_owned));
        }
        all
    }

    /// Nothing but its receipts prove that the last log of a block is there: where only logs are
    /// fetched, single ones do not go missing.
    fn byzantine_faults(self) -> Vec<RpcFault> {
        let more = match self {
            Self::Receipts => vec![
                RpcFault::MissingLog,
                RpcFault::MovedLog,
                RpcFault::ChangedData,
                RpcFault::ForeignTxHashes,
                RpcFault::ChangedBodies,
                RpcFault::NoReceipts,
            ],
            Self::Logs => vec![
                RpcFault::EmptyLogs,
                RpcFault::MovedLog,
                RpcFault::ForeignTxHashes,
                RpcFault::ChangedBodies,
            ],
            Self::Narrow => vec![
                RpcFault::EmptyLogs,
                RpcFault::ForeignTxHashes,
                RpcFault::ChangedBodies,
                RpcFault::NoReceipts,
            ],
            Self::Portal | Self::Joint => Vec::new(),
        };
        BYZANTINE_FAULTS.into_iter().chain(more).collect()
    }

    /// The fault that only this way can meet, and its rate.
    fn own(self) -> Option<(RpcFault, u32)> {
        match self {
            Self::Receipts => Some((RpcFault::NullReceipts, NULL_RECEIPTS_OFTEN)),
            Self::Logs => Some((RpcFault::RangeError, RANGE_ERROR_OFTEN)),
            Self::Portal | Self::Joint | Self::Narrow => None,
        }
    }
}

fn portal_faults() -> Vec<PortalFault> {
    let named = PortalFault::NAMED.into_iter().map(|(fault, _)| fault);
    named.chain(REFUSALS).collect()
}

/// The byzantine faults of a Portal beside nodes, with a bloom that fits.
fn portal_byzantine_faults() -> impl Iterator<Item = PortalFault> {
    PortalFault::BYZANTINE.into_iter().map(|(fault, _)| fault)
}

fn portal_name(fault: PortalFault) -> String {
    format!("portal_{}", fault.name())
}

/// The servers of one seed.
pub(super) struct Servers {
    way: Way,
    rpc: Vec<Rpc>,
    /// Nodes of another fork and of another chain, before all others in the settings.
    foreign_nodes: Vec<(&'static str, RpcServer, Faults)>,
    portal: Option<(PortalServer, PortalFaults)>,
    /// How often faults of a Portal's answers happen.
    of_answers: u32,
    lives: usize,
}

struct Rpc {
    server: RpcServer,
    faults: Faults,
    /// How often requests fail, and how often calls do.
    rate: u32,
    block_cap: Option<u64>,
    result_cap: Option<u64>,
}

impl Servers {
    pub(super) async fn start(seed: u64, node: &EvmNode, random: &mut StdRng) -> Result<Self> {
        let mut servers = Self {
            way: Way::of(seed),
            rpc: Vec::new(),
            foreign_nodes: Vec::new(),
            portal: None,
            of_answers: one_of(random, OF_ANSWERS),
            lives: 0,
        };
        if servers.way.has_portal() {
            let faults = PortalFaults::new(seed);
            let options = PortalOptions {
                blocks_max: one_of(random, [Some(500), Some(1_000), None]),
                faults: faults.clone(),
                ..PortalOptions::default()
            };
            let server = PortalServer::start(node.clone(), options).await?;
            servers.portal = Some((server, faults));
        }
        if servers.way == Way::Portal {
            return Ok(servers);
        }
        if servers.way == Way::Receipts {
            servers.foreign_nodes = foreign_nodes(seed, node).await?;
        }
        for at in 0..3_u64 {
            let faults = Faults::new(seed * 10 + at);
            faults.set_sizes(FaultSizes {
                retry_after_seconds: 1,
                slow_answer: Duration::from_millis(200),
                ..faults.sizes()
            });
            // Once the others are suspended the last one serves everything: it is never perfect.
            let rate = match at {
                2 => one_of(random, [20_000, 50_000, 50_000]),
                _ => one_of(random, [0, 20_000, 50_000]),
            };
            let (block_cap, mut result_cap) =
                (one_of(random, BLOCK_CAPS), one_of(random, RESULT_CAPS));
            if at == 0 && block_cap.is_none() {
                result_cap = result_cap.or(Some(1_000));
            }
            let options = RpcOptions {
                max_block_range: block_cap,
                max_results: result_cap,
                faults: faults.clone(),
                ..RpcOptions::default()
            };
            let server = RpcServer::start(node.clone(), options).await?;
            servers.rpc.push(Rpc {
                server,
                faults,
                rate,
                block_cap,
                result_cap,
            });
        }
        Ok(servers)
    }

    /// Whether the logs of one contract are kept.
    pub(super) fn is_narrow(&self) -> bool {
        self.way == Way::Narrow
    }

    /// How often the program looks for new blocks. The program sends a Portal at most 20 requests in ten seconds: faster
    /// looks would use that up at once, and see no reorg for the rest.
    pub(super) fn poll_ms(&self) -> u64 {
        match self.way {
            Way::Portal => 1_000,
            _ => 20,
        }
    }

    /// What is kept: a Portal has neither whole headers nor whole transactions.
    pub(super) fn datasets(&self) -> DatasetSet {
        let set = DatasetSet::CLOCK
            .with(Dataset::Logs)
            .with(Dataset::TxHashes);
        match self.way {
            Way::Portal | Way::Joint => set,
            Way::Receipts | Way::Logs | Way::Narrow => {
                set.with(Dataset::Headers).with(Dataset::Transactions)
            }
        }
    }

    /// The part of the settings file that says where the chain is.
    pub(super) fn settings(&self, confirmations: u64) -> Value {
        let portal = self.portal.as_ref().map(|(server, _)| {
            let url = server.url();
            let (url, dataset) = url.rsplit_once('/').unwrap_or((&url, ""));
            json!({ "url": url, "dataset": dataset })
        });
        if self.way == Way::Portal {
            return json!({ "portal": portal });
        }
        let endpoint = |server: &RpcServer| json!({ "url": server.url(), "inFlight": IN_FLIGHT });
        let foreign_nodes = self.foreign_nodes.iter().map(|(_, server, _)| server);
        let urls = foreign_nodes.chain(self.rpc.iter().map(|rpc| &rpc.server));
        let urls: Vec<Value> = urls.map(endpoint).collect();
        let sockets: Vec<String> = self.rpc.iter().map(|rpc| rpc.server.ws_url()).collect();
        json!({
            "rpcHttp": urls, "rpcWs": sockets, "strategy": self.way.strategy(), "portal": portal,
            "finality": { "mode": "depth", "confirmations": confirmations },
        })
    }

    /// Chooses the faults of the next life.
    pub(super) fn begin_life(&mut self, random: &mut StdRng, archived: u64) {
        self.lives += 1;
        for (_, _, faults) in &self.foreign_nodes {
            // Without an archive the program cannot know which of two chains is right.
            match archived {
                0 => faults.always(RpcFault::Http500),
                _ => faults.clear(),
            }
        }
        match (&self.portal, self.way) {
            (Some((_, faults)), Way::Joint) => {
                portal_byzantine_faults().for_each(|fault| faults.times(fault, 1));
            }
            (Some((_, faults)), _) => self.set_portal_faults(faults, random),
            (None, _) => {}
        }
        // A Portal alone has no nodes beside it.
        for (at, rpc) in self.rpc.iter().enumerate() {
            self.set_faults(at, rpc);
        }
    }

    /// Sets the faults of a Portal alone in this life.
    fn set_portal_faults(&self, faults: &PortalFaults, random: &mut StdRng) {
        let all = portal_faults();
        let mut never = all.clone();
        never.retain(|fault| faults.injected(*fault) == 0);
        never.shuffle(random);
        faults.clear();
        let of_answer = self.of_answers / all.len() as u32;
        for fault in all {
            match fault {
                // Waited for longer than a life lasts: once is enough.
                PortalFault::Stall => {}
                _ if PortalFault::OF_LINES.contains(&fault) => faults.set(fault, OF_LINES),
                _ => faults.set(fault, of_answer),
            }
        }
        let armed = never.into_iter().take(ARMED_IN_A_LIFE);
        armed.for_each(|fault| faults.times(fault, 1));
    }

    /// Sets the faults of a node in this life.
    fn set_faults(&self, at: usize, Rpc { faults, rate, .. }: &Rpc) {
        for (fault, rate) in OTHER_FAULTS {
            faults.set(fault, rate);
        }
        for fault in CALL_FAILURES {
            faults.set(fault, *rate);
        }
        let in_front = self.lives % FAILURES.len();
        for (which, fault) in FAILURES.iter().enumerate() {
            let seldom = if which == in_front { 1 } else { IN_FRONT };
            faults.set(*fault, *rate / seldom);
        }
        if let Some((fault, rate)) = self.way.own() {
            faults.set(fault, rate);
        }
        if at >= BYZANTINE_NODES || self.way == Way::Joint {
            return;
        }
        let byzantine = self.way.byzantine_faults();
        let in_front = (self.lives * BYZANTINE_NODES + at) % byzantine.len();
        for (which, fault) in byzantine.iter().enumerate() {
            let rate = match *fault {
                RpcFault::NoReceipts if which != in_front => 0,
                // A node that denies receipts is asked for logs, which are wrong then.
                RpcFault::NoReceipts => {
                    let with = match self.way {
                        Way::Narrow => RpcFault::EmptyLogs,
                        _ => RpcFault::ChangedData,
                    };
                    faults.set(with, ALWAYS);
                    ALWAYS
                }
                // In every answer, or its own answers show it.
                RpcFault::ForeignTxHashes | RpcFault::ChangedBodies => match which == in_front {
                    true => ALWAYS,
                    false => 0,
                },
                _ if which != in_front => BYZANTINE_SELDOM,
                // Requested once in a life: by chance it would take many lives until it happens.
                RpcFault::WrongChainId => ALWAYS,
                RpcFault::EmptyLogs => BYZANTINE_OFTEN_IF_RARE,
                // Once in an answer for many blocks, instead of in each of them.
                RpcFault::WrongBlockHashInLogs if self.way != Way::Receipts => {
                    BYZANTINE_OFTEN_IF_RARE
                }
                // Few blocks are fetched once history is archived.
                _ if self.lives > 2 * byzantine.len() => BYZANTINE_OFTEN_IF_RARE,
                _ => BYZANTINE_OFTEN,
            };
            faults.set(*fault, rate);
        }
    }

    /// The least reorgs that the program must meet at the head; others happen while it is behind or
    /// dead. The head of a Portal is requested only now and then.
    pub(super) fn reorgs_met_min(&self) -> u64 {
        match self.way {
            Way::Portal => 1,
            _ => 3,
        }
    }

    /// Ends all faults.
    pub(super) fn stop_faults(&self) {
        self.rpc.iter().for_each(|rpc| rpc.faults.clear());
        self.portal.iter().for_each(|(_, faults)| faults.clear());
    }

    /// How often each fault was injected so far.
    pub(super) fn injected(&self) -> BTreeMap<String, u64> {
        let mut injected: BTreeMap<String, u64> = BTreeMap::new();
        for rpc in &self.rpc {
            for (name, count) in rpc.faults.injected() {
                *injected.entry(name.to_owned()).or_default() += count;
            }
        }
        if let Some((_, faults)) = &self.portal {
            let counts = faults.counts().into_iter();
            injected.extend(counts.map(|(name, count)| (format!("portal_{name}"), count)));
        }
        for (name, server, _) in &self.foreign_nodes {
            let calls = server.stats().calls.values().sum();
            injected.insert((*name).to_owned(), calls);
        }
        injected.retain(|_, count| *count > 0);
        injected
    }

    /// The faults that must happen and never did.
    pub(super) fn never_injected(&self) -> Vec<String> {
        let injected = self.injected();
        let mut never_injected = self.way.faults();
        never_injected.retain(|name| !injected.contains_key(name));
        if self.way == Way::Logs && self.bitten() == 0 {
            never_injected.push("a refused range".to_owned());
        }
        never_injected
    }

    /// How often a limit of `eth_getLogs` was hit.
    fn bitten(&self) -> u64 {
        let stats = self.rpc.iter().map(|rpc| rpc.server.stats());
        let refused = stats.map(|stats| stats.refused_for_blocks + stats.refused_for_results);
        refused.sum()
    }

    /// Which limits there were, and how often each was hit.
    pub(super) fn limits(&self) -> Option<String> {
        if self.way != Way::Logs {
            return None;
        }
        let limit = |cap: Option<u64>, what: &str, hits: u64| match cap {
            Some(cap) => format!("{cap} {what} ({hits} times)"),
            None => format!("any {what}"),
        };
        let of = |rpc: &Rpc| {
            let stats = rpc.server.stats();
            let blocks = limit(rpc.block_cap, "blocks", stats.refused_for_blocks);
            let logs = limit(rpc.result_cap, "logs", stats.refused_for_results);
            format!("{blocks}, {logs}")
        };
        let all: Vec<String> = self.rpc.iter().map(of).collect();
        Some(format!("eth_getLogs refused above: {}", all.join("; ")))
    }
}

/// The names of the nodes of other chains in the list of faults.
const FOREIGN_NODES: [&str; 2] = ["another_fork", "another_genesis"];

/// A node of another fork above block 0, and one of another chain with the same id.
async fn foreign_nodes(
    seed: u64,
    node: &EvmNode,
) -> Result<Vec<(&'static str, RpcServer, Faults)>> {
    let blocks = node.head().number;
    let fork = node.another_fork();
    let foreign = EvmNode::new(EvmSpec::tiny(!seed), blocks);
    let mut all = Vec::new();
    for (name, node) in FOREIGN_NODES.into_iter().zip([fork, foreign]) {
        let faults = Faults::new(seed);
        let options = RpcOptions {
            faults: faults.clone(),
            ..RpcOptions::default()
        };
        all.push((name, RpcServer::start(node, options).await?, faults));
    }
    Ok(all)
}

pub(super) fn one_of<T: Copy>(random: &mut StdRng, of: [T; 3]) -> T {
    let [first, second, third] = of;
    match random.random_range(0..3) {
        0 => first,
        1 => second,
        _ => third,
    }
}

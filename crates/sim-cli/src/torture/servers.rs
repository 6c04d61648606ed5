//! Who serves the tortured chain: three nodes, a Portal or both, and what each of them does wrong.
//!
//! The first two nodes err and lie, the last one only errs: with nobody honest there is nothing to
//! archive. An endpoint that was caught lying is left alone for minutes, longer than a life lasts, so
//! each life has a lie of its own in front. In front of the nodes of some seeds stand two that serve another
//! fork and another chain with the same id.

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
/// Those that are not in front happen so many times less.
const IN_FRONT: u32 = 10;
/// Calls that fail, as often as was drawn for a node.
const CALL_FAILURES: [RpcFault; 2] = [RpcFault::RpcError, RpcFault::NullBlock];
/// What every node does wrong as often as here, in cases of a million: some of it is seldom
/// possible, some of it is costly.
const OTHER_TROUBLES: [(RpcFault, u32); 7] = [
    (RpcFault::BatchOutOfOrder, 50_000),
    (RpcFault::MissingBlockTimestamp, 50_000),
    (RpcFault::SlowAnswer, 20_000),
    (RpcFault::HeadRegression, 300_000),
    (RpcFault::WsDrop, 50_000),
    (RpcFault::DuplicateHeads, 200_000),
    (RpcFault::HugeBody, 3_000),
];
/// So many of the nodes lie.
const LIARS: usize = 2;
/// What only they do, whichever way they are asked.
const LIES: [RpcFault; 4] = [
    RpcFault::WrongBlockHashInLogs,
    RpcFault::BloomZero,
    RpcFault::HashChange,
    RpcFault::WrongChainId,
];
/// A lie that is told in every answer, or in none: its answers must agree with each other.
const ALWAYS: u32 = 1_000_000;
/// How often the lie of a life is told, one about what is seldom asked for, and all the others.
const LIE_OFTEN: u32 = 10_000;
const RARE_LIE_OFTEN: u32 = 300_000;
const LIE_SELDOM: u32 = 300;
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
/// A Portal is asked seldom: so many faults that never happened are sure to happen in each life.
const ARMED_IN_A_LIFE: usize = 3;
/// How often Portal faults happen by chance: those of an answer as was drawn for all of them
/// together, those of a line each.
const OF_ANSWERS: [u32; 3] = [0, 20_000, 50_000];
const OF_LINES: u32 = 20;
/// Limits are smaller than those of real providers, because the chain is small: 250 blocks of it,
/// which is what is asked for, have some 3,000 logs.
const RESULT_CAPS: [Option<u64>; 3] = [Some(300), Some(1_000), None];
const BLOCK_CAPS: [Option<u64>; 3] = [Some(25), Some(100), None];

/// How blocks are fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Receipts,
    Logs,
    /// A Portal alone: its word is all there is, so that it does not lie.
    Portal,
    /// A Portal that lies beside nodes that do not.
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

    /// How logs are asked for, in the settings.
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

    /// What must go wrong under every seed of this way.
    pub(super) fn faults(self) -> Vec<String> {
        if self == Self::Portal {
            return portal_faults().into_iter().map(portal_name).collect();
        }
        if self == Self::Joint {
            return portal_lies().map(portal_name).collect();
        }
        let name = |fault: RpcFault| fault.name().to_owned();
        let failures = FAILURES.into_iter().chain(CALL_FAILURES);
        let troubles = failures.chain(OTHER_TROUBLES.map(|(fault, _)| fault));
        let lies = self.lies().into_iter().chain(self.own());
        let mut all: Vec<String> = troubles.chain(lies).map(name).collect();
        if self == Self::Receipts {
            all.extend(STRANGERS.map(ToOwned::to_owned));
        }
        all
    }

    /// Nothing but its receipts prove that the last log of a block is there: where only logs are
    /// asked for, single ones do not go missing.
    fn lies(self) -> Vec<RpcFault> {
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
        LIES.into_iter().chain(more).collect()
    }

    /// Troubles that only this way can meet.
    fn own(self) -> Option<RpcFault> {
        match self {
            Self::Receipts => Some(RpcFault::NullReceipts),
            Self::Logs => Some(RpcFault::RangeError),
            Self::Portal | Self::Joint | Self::Narrow => None,
        }
    }
}

fn portal_faults() -> Vec<PortalFault> {
    let named = PortalFault::NAMED.into_iter().map(|(fault, _)| fault);
    named.chain(REFUSALS).collect()
}

/// What a Portal beside nodes lies about, with a bloom that fits.
fn portal_lies() -> impl Iterator<Item = PortalFault> {
    PortalFault::LIES.into_iter().map(|(lie, _)| lie)
}

fn portal_name(fault: PortalFault) -> String {
    format!("portal_{}", fault.name())
}

/// Those who serve, while they do.
pub(super) struct Servers {
    way: Way,
    rpc: Vec<Rpc>,
    /// Nodes of another fork and of another chain, asked before all others.
    strangers: Vec<(&'static str, RpcServer, Faults)>,
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
            strangers: Vec::new(),
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
            servers.strangers = strangers(seed, node).await?;
        }
        for at in 0..3_u64 {
            let faults = Faults::new(seed * 10 + at);
            faults.set_sizes(FaultSizes {
                retry_after_seconds: 1,
                slow_answer: Duration::from_millis(200),
                ..faults.sizes()
            });
            // Once the others were caught lying the last one is asked for everything: it is never
            // perfect.
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

    /// How often the program looks for new blocks. A Portal is asked 20 times in ten seconds at the most: faster
    /// looks would use that up at once, and see no reorg for the rest.
    pub(super) fn poll_ms(&self) -> u64 {
        match self.way {
            Way::Portal => 1_000,
            _ => 20,
        }
    }

    /// What is kept: a Portal tells neither whole headers nor whole transactions.
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
        let strangers = self.strangers.iter().map(|(_, server, _)| server);
        let urls = strangers.chain(self.rpc.iter().map(|rpc| &rpc.server));
        let urls: Vec<Value> = urls.map(endpoint).collect();
        let sockets: Vec<String> = self.rpc.iter().map(|rpc| rpc.server.ws_url()).collect();
        json!({
            "rpcHttp": urls, "rpcWs": sockets, "strategy": self.way.strategy(), "portal": portal,
            "finality": { "mode": "depth", "confirmations": confirmations },
        })
    }

    /// Decides what goes wrong in the next life.
    pub(super) fn begin_life(&mut self, random: &mut StdRng, archived: u64) {
        self.lives += 1;
        for (_, _, faults) in &self.strangers {
            // Without an archive nothing says which of two chains is right.
            match archived {
                0 => faults.always(RpcFault::Http500),
                _ => faults.clear(),
            }
        }
        if self.way == Way::Joint {
            let portal = self.portal.iter();
            portal.for_each(|(_, faults)| portal_lies().for_each(|lie| faults.times(lie, 1)));
        } else if let Some((_, faults)) = &self.portal {
            let mut never = portal_faults();
            never.retain(|fault| faults.injected(*fault) == 0);
            never.shuffle(random);
            faults.clear();
            portal_faults().into_iter().for_each(|fault| match fault {
                // Waited for longer than a life lasts: once is enough.
                PortalFault::Stall => {}
                PortalFault::SkippedBlock
                | PortalFault::RepeatedBlock
                | PortalFault::WrongParent
                | PortalFault::MissingLog
                | PortalFault::Garbage
                | PortalFault::LongLine => faults.set(fault, OF_LINES),
                _ => faults.set(fault, self.of_answers / portal_faults().len() as u32),
            });
            let armed = never.into_iter().take(ARMED_IN_A_LIFE);
            armed.for_each(|fault| faults.times(fault, 1));
            return;
        }
        for (at, rpc) in self.rpc.iter().enumerate() {
            self.set_faults(at, rpc);
        }
    }

    /// What a node does wrong in this life.
    fn set_faults(&self, at: usize, Rpc { faults, rate, .. }: &Rpc) {
        OTHER_TROUBLES
            .iter()
            .for_each(|(fault, rate)| faults.set(*fault, *rate));
        CALL_FAILURES
            .iter()
            .for_each(|fault| faults.set(*fault, *rate));
        let in_front = self.lives % FAILURES.len();
        for (which, fault) in FAILURES.iter().enumerate() {
            let seldom = if which == in_front { 1 } else { IN_FRONT };
            faults.set(*fault, *rate / seldom);
        }
        let own = match self.way {
            Way::Logs => RANGE_ERROR_OFTEN,
            _ => NULL_RECEIPTS_OFTEN,
        };
        self.way
            .own()
            .iter()
            .for_each(|fault| faults.set(*fault, own));
        if at >= LIARS || self.way == Way::Joint {
            return;
        }
        let lies = self.way.lies();
        let in_front = (self.lives * LIARS + at) % lies.len();
        for (which, lie) in lies.iter().enumerate() {
            let rate = match *lie {
                RpcFault::NoReceipts if which != in_front => 0,
                // Whoever denies receipts wants to be asked for logs, and lies about them.
                RpcFault::NoReceipts => {
                    let with = match self.way {
                        Way::Narrow => RpcFault::EmptyLogs,
                        _ => RpcFault::ChangedData,
                    };
                    faults.set(with, ALWAYS);
                    ALWAYS
                }
                // Told in every answer, or its own answers show it.
                RpcFault::ForeignTxHashes | RpcFault::ChangedBodies => match which == in_front {
                    true => ALWAYS,
                    false => 0,
                },
                _ if which != in_front => LIE_SELDOM,
                // Asked once in a life: by chance it would take many lives until it is told.
                RpcFault::WrongChainId => ALWAYS,
                RpcFault::EmptyLogs => RARE_LIE_OFTEN,
                // Once in an answer for many blocks, instead of in each of them.
                RpcFault::WrongBlockHashInLogs if self.way != Way::Receipts => RARE_LIE_OFTEN,
                // Few blocks are asked for once history is there.
                _ if self.lives > 2 * lies.len() => RARE_LIE_OFTEN,
                _ => LIE_OFTEN,
            };
            faults.set(*lie, rate);
        }
    }

    /// The least reorgs that the program must meet at the head; others happen while it is behind or
    /// dead. A Portal is asked for its head only now and then.
    pub(super) fn reorgs_met_min(&self) -> u64 {
        match self.way {
            Way::Portal => 1,
            _ => 3,
        }
    }

    /// From now on nothing goes wrong.
    pub(super) fn be_good(&self) {
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
        for (name, server, _) in &self.strangers {
            let calls = server.stats().calls.values().sum();
            injected.insert((*name).to_owned(), calls);
        }
        injected.retain(|_, count| *count > 0);
        injected
    }

    /// What must go wrong and never did.
    pub(super) fn lacking(&self) -> Vec<String> {
        let injected = self.injected();
        let mut lacking = self.way.faults();
        lacking.retain(|name| !injected.contains_key(name));
        if self.way == Way::Logs && self.bitten() == 0 {
            lacking.push("a refused range".to_owned());
        }
        lacking
    }

    /// Whether all that must go wrong did.
    pub(super) fn did_their_worst(&self) -> bool {
        self.lacking().is_empty()
    }

    /// How often a limit of `eth_getLogs` was hit.
    fn bitten(&self) -> u64 {
        let stats = self.rpc.iter().map(|rpc| rpc.server.stats());
        stats
            .map(|stats| stats.refused_for_blocks + stats.refused_for_results)
            .sum()
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

/// What the nodes of other chains are called in the list.
const STRANGERS: [&str; 2] = ["another_fork", "another_genesis"];

/// A node of another fork above block 0, and one of another chain with the same id.
async fn strangers(seed: u64, node: &EvmNode) -> Result<Vec<(&'static str, RpcServer, Faults)>> {
    let blocks = node.head().number;
    let fork = node.another_fork();
    let foreign = EvmNode::new(EvmSpec::tiny(!seed), blocks);
    let mut all = Vec::new();
    for (name, node) in STRANGERS.into_iter().zip([fork, foreign]) {
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

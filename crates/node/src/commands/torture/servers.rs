//! Who serves the tortured chain: three nodes or a Portal, and what each of them does wrong.
//!
//! The first two nodes err and lie, the last one only errs: with nobody honest there is nothing to
//! archive. An endpoint that was caught lying is left alone for minutes, longer than a life lasts, so
//! each life has a lie of its own in front.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use chronolith_sim::evm::{EvmNode, FaultSizes, Faults, RpcFault, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};

/// What every node does wrong, as often as was drawn for it.
const TROUBLES: [RpcFault; 9] = [
    RpcFault::RpcError,
    RpcFault::Http500,
    RpcFault::Http429RetryAfter,
    RpcFault::Http429Bare,
    RpcFault::NullBlock,
    RpcFault::TruncatedBody,
    RpcFault::BatchOutOfOrder,
    RpcFault::MissingBlockTimestamp,
    RpcFault::SlowAnswer,
];
/// What every node does wrong as often as here, in cases of a million: some of it is seldom
/// possible, some of it is costly.
const OTHER_TROUBLES: [(RpcFault, u32); 4] = [
    (RpcFault::HeadRegression, 300_000),
    (RpcFault::WsDrop, 50_000),
    (RpcFault::DuplicateHeads, 200_000),
    (RpcFault::HugeBody, 5_000),
];
/// What only two of the nodes do, whichever way they are asked.
const LIES: [RpcFault; 4] = [
    RpcFault::WrongBlockHashInLogs,
    RpcFault::BloomZero,
    RpcFault::HashChange,
    RpcFault::WrongChainId,
];
/// How often the lie of a life is told, one about what is seldom asked for, and all the others.
const LIE_OFTEN: u32 = 50_000;
const RARE_LIE_OFTEN: u32 = 500_000;
const LIE_SELDOM: u32 = 500;
const RANGE_ERROR_OFTEN: u32 = 200_000;
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
const ARMED_IN_A_LIFE: usize = 5;
/// How often Portal faults happen by chance: those of an answer as was drawn, those of a line.
const OF_ANSWERS: [u32; 3] = [0, 20_000, 50_000];
const OF_LINES: u32 = 20;
/// Limits are a tenth of those of real providers, because the chain is small.
const RESULT_CAPS: [Option<u64>; 3] = [Some(100), Some(1_000), None];
const BLOCK_CAPS: [Option<u64>; 3] = [Some(10), Some(100), None];

/// How blocks are fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Receipts,
    Logs,
    Portal,
}

impl Way {
    /// All three in any three seeds in a row.
    pub(super) fn of(seed: u64) -> Self {
        match seed % 3 {
            0 => Self::Portal,
            1 => Self::Receipts,
            _ => Self::Logs,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Receipts => "receipts",
            Self::Logs => "logs",
            Self::Portal => "portal",
        }
    }

    /// What must go wrong under every seed of this way.
    pub(super) fn faults(self) -> Vec<String> {
        if self == Self::Portal {
            return portal_faults().into_iter().map(portal_name).collect();
        }
        let name = |fault: RpcFault| fault.name().to_owned();
        let troubles = TROUBLES
            .into_iter()
            .chain(OTHER_TROUBLES.map(|(fault, _)| fault));
        let lies = self.lies().into_iter().chain(self.own());
        troubles.chain(lies).map(name).collect()
    }

    /// Nothing but its receipts prove that the last log of a block is there: where only logs are
    /// asked for, single ones do not go missing.
    fn lies(self) -> Vec<RpcFault> {
        let more = match self {
            Self::Receipts => vec![RpcFault::MissingLog],
            Self::Logs => vec![RpcFault::EmptyLogs],
            Self::Portal => Vec::new(),
        };
        LIES.into_iter().chain(more).collect()
    }

    /// Troubles that only this way can meet.
    fn own(self) -> Option<RpcFault> {
        match self {
            Self::Receipts => Some(RpcFault::NullReceipts),
            Self::Logs => Some(RpcFault::RangeError),
            Self::Portal => None,
        }
    }
}

fn portal_faults() -> Vec<PortalFault> {
    let named = PortalFault::NAMED.into_iter().map(|(fault, _)| fault);
    named.chain(REFUSALS).collect()
}

fn portal_name(fault: PortalFault) -> String {
    format!("portal_{}", fault.name())
}

/// Those who serve, while they do.
pub(super) struct Servers {
    way: Way,
    rpc: Vec<Rpc>,
    portal: Option<(PortalServer, PortalFaults)>,
    /// How often faults of a Portal's answers happen.
    of_answers: u32,
    lives: usize,
}

struct Rpc {
    server: RpcServer,
    faults: Faults,
    block_cap: Option<u64>,
    result_cap: Option<u64>,
}

impl Servers {
    pub(super) async fn start(
        seed: u64,
        node: &EvmNode,
        random: &mut StdRng,
        huge_body_bytes: u64,
    ) -> Result<Self> {
        let mut servers = Self {
            way: Way::of(seed),
            rpc: Vec::new(),
            portal: None,
            of_answers: one_of(random, OF_ANSWERS),
            lives: 0,
        };
        if servers.way == Way::Portal {
            let faults = PortalFaults::new(seed);
            let options = PortalOptions {
                blocks_max: one_of(random, [Some(100), Some(1_000), None]),
                faults: faults.clone(),
                ..PortalOptions::default()
            };
            let server = PortalServer::start(node.clone(), options).await?;
            servers.portal = Some((server, faults));
            return Ok(servers);
        }
        for at in 0..3_u64 {
            let faults = Faults::new(seed * 10 + at);
            faults.set_sizes(FaultSizes {
                huge_body_bytes,
                retry_after_seconds: 1,
                slow_answer: Duration::from_millis(200),
                ..faults.sizes()
            });
            // The one that is asked most is never perfect, and has a limit.
            let rate = match at {
                0 => one_of(random, [20_000, 50_000, 50_000]),
                _ => one_of(random, [0, 20_000, 50_000]),
            };
            TROUBLES.iter().for_each(|fault| faults.set(*fault, rate));
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
                block_cap,
                result_cap,
            });
        }
        Ok(servers)
    }

    /// The part of the settings file that says where the chain is.
    pub(super) fn settings(&self, confirmations: u64) -> Value {
        if let Some((server, _)) = &self.portal {
            let url = server.url();
            let (url, dataset) = url.rsplit_once('/').unwrap_or((&url, ""));
            return json!({ "portal": { "url": url, "dataset": dataset } });
        }
        let urls: Vec<String> = self.rpc.iter().map(|rpc| rpc.server.url()).collect();
        let sockets: Vec<String> = self.rpc.iter().map(|rpc| rpc.server.ws_url()).collect();
        json!({
            "rpcHttp": urls, "rpcWs": sockets, "strategy": self.way.name(),
            "finality": { "mode": "depth", "confirmations": confirmations },
        })
    }

    /// Decides what goes wrong in the next life.
    pub(super) fn begin_life(&mut self, random: &mut StdRng) {
        self.lives += 1;
        if let Some((_, faults)) = &self.portal {
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
                _ => faults.set(fault, self.of_answers),
            });
            let armed = never.into_iter().take(ARMED_IN_A_LIFE);
            armed.for_each(|fault| faults.times(fault, 1));
            return;
        }
        let lies = self.way.lies();
        for (at, Rpc { faults, .. }) in self.rpc.iter().enumerate() {
            for (fault, rate) in OTHER_TROUBLES {
                faults.set(fault, rate);
            }
            let own = match self.way {
                Way::Logs => RANGE_ERROR_OFTEN,
                _ => LIE_OFTEN,
            };
            self.way
                .own()
                .iter()
                .for_each(|fault| faults.set(*fault, own));
            if at == 2 {
                continue;
            }
            let in_front = (self.lives * 2 + at) % lies.len();
            for (which, lie) in lies.iter().enumerate() {
                let rate = match *lie {
                    _ if which != in_front => LIE_SELDOM,
                    RpcFault::WrongChainId | RpcFault::EmptyLogs => RARE_LIE_OFTEN,
                    _ => LIE_OFTEN,
                };
                faults.set(*lie, rate);
            }
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
        injected.retain(|_, count| *count > 0);
        injected
    }

    /// Whether all that must go wrong did.
    pub(super) fn did_their_worst(&self) -> bool {
        let injected = self.injected();
        let all = self
            .way
            .faults()
            .iter()
            .all(|name| injected.contains_key(name));
        all && (self.way != Way::Logs || self.bitten() > 0)
    }

    /// How often a limit of `eth_getLogs` was hit.
    pub(super) fn bitten(&self) -> u64 {
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

pub(super) fn one_of<T: Copy>(random: &mut StdRng, of: [T; 3]) -> T {
    let [first, second, third] = of;
    match random.random_range(0..3) {
        0 => first,
        1 => second,
        _ => third,
    }
}

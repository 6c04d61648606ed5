//! Which chains there are. Scenarios name them.

use chronolith_model::BlockRange;
use chronolith_sim::ChainSpec;
use chronolith_sim::evm::EvmSpec;
use serde_json::{Value, json};

/// Blocks of `holed` that lie below its first one, with nothing in between.
pub(super) const ISLAND: BlockRange = BlockRange { start: 20, end: 60 };

/// A chain to be, and how it is kept.
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) spec: EvmSpec,
    pub(super) blocks: u64,
    pub(super) start: u64,
    /// Confirmations that make a block final.
    pub(super) depth: u64,
    pub(super) datasets: &'static [&'static str],
    /// More settings.
    pub(super) more: Value,
    /// About from here on its blocks are shown late, and without what they hold.
    pub(super) hidden_from: Option<usize>,
}

const ALL: &[&str] = &["headers", "logs", "tx_hashes", "transactions"];
const LOGS: &[&str] = &["logs", "tx_hashes"];

pub(super) fn plans() -> Vec<Plan> {
    let spaced = EvmSpec {
        block_seconds: 1_000,
        ..EvmSpec::sparse(5, 1_000)
    };
    let scope = json!({
        "addresses": [format!("0x{}", "12".repeat(20))],
        "topic0": [format!("0x{}", "13".repeat(32))],
    });
    let late = |name, id| Plan {
        start: 100,
        ..plan(name, id, 150)
    };
    vec![
        Plan {
            more: json!({ "verification": "receipts" }),
            ..plan("whole", 31_331, 180)
        },
        Plan {
            depth: 5,
            ..dense(plan("crowded", 31_332, 50), 300, 40)
        },
        // No block but the first fits into an answer, in the archive and in the tail.
        Plan {
            depth: 2,
            ..dense(plan("giant", 31_333, 3), 10_100, 0)
        },
        late("late", 31_334),
        // The example of the requirement: blocks 100, 101 and 102, a thousand seconds apart.
        Plan {
            start: 100,
            depth: 1,
            datasets: LOGS,
            ..of_spec("spaced", 31_335, spaced, 102)
        },
        Plan {
            datasets: &["clock"],
            ..plan("clock", 31_336, 200)
        },
        Plan {
            datasets: LOGS,
            ..late("holed", 31_337)
        },
        // Nothing is final.
        Plan {
            depth: 64,
            ..plan("young", 31_338, 0)
        },
        Plan {
            hidden_from: Some(40),
            ..plan("behind", 31_339, 80)
        },
        Plan {
            datasets: LOGS,
            more: json!({ "logs": scope }),
            ..plan("narrow", 31_340, 200)
        },
    ]
}

/// Small blocks with odd cases, all of which is kept.
fn plan(name: &'static str, id: u64, blocks: u64) -> Plan {
    of_spec(name, id, EvmSpec::tiny(id), blocks)
}

fn of_spec(name: &'static str, id: u64, spec: EvmSpec, blocks: u64) -> Plan {
    Plan {
        name,
        spec: EvmSpec {
            chain_id: id,
            ..spec
        },
        blocks,
        start: 0,
        depth: 12,
        datasets: ALL,
        more: json!({}),
        hidden_from: None,
    }
}

/// The same chain with so many logs a block.
fn dense(mut plan: Plan, logs_per_block: u32, jitter_percent: u32) -> Plan {
    plan.spec.content = ChainSpec {
        logs_per_block,
        jitter_percent,
        ..ChainSpec::mainnet(plan.spec.seed)
    };
    plan.datasets = LOGS;
    plan
}

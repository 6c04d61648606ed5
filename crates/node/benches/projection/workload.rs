//! The chains that are projected, and the node that serves them.

use anyhow::Result;
use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, FeeRow, FeesSpec, RpcOptions, RpcServer};

/// No chain that is known by its id.
const CHAIN_ID: u64 = 900_001;
const SEED: u64 = 1;
/// What the simulated provider allows, as real ones do.
pub(crate) const BLOCKS_MAX: u64 = 10_000;
const LOGS_MAX: u64 = 10_000;
/// Fewer blocks than a side may hold back as not final say nothing about history.
const BLOCKS_MIN: f64 = 1_000.0;

/// How large a chain is, and how many fees it has.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    blocks: f64,
    fees_per_thousand_blocks: u32,
}

/// One token of Ethereum, and one pool: the densities that others publish their figures for.
pub(crate) const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "sparse",
        blocks: 250_000.0,
        fees_per_thousand_blocks: 120,
    },
    Workload {
        name: "dense",
        blocks: 500_000.0,
        fees_per_thousand_blocks: 904,
    },
];

/// A chain with so many fees, and no logs but those of the fee collector and its impostor.
pub(crate) fn spec(fees_per_thousand_blocks: u32) -> EvmSpec {
    let fees = FeesSpec::per_thousand_blocks(fees_per_thousand_blocks);
    let mut spec = EvmSpec::sparse(SEED, 0).with_fees(fees);
    spec.chain_id = CHAIN_ID;
    spec
}

/// A chain, and the rows that a projection of it must end with.
pub(crate) struct Chain {
    pub(crate) name: &'static str,
    pub(crate) blocks: u64,
    pub(crate) rows: Vec<FeeRow>,
    node: EvmNode,
}

impl Chain {
    /// The chain of a workload, larger or smaller by a factor. It does not grow.
    pub(crate) fn make(workload: &Workload, scale: f64) -> Self {
        let blocks = (workload.blocks * scale).max(BLOCKS_MIN) as u64;
        let node = EvmNode::new(spec(workload.fees_per_thousand_blocks), blocks - 1);
        Self {
            name: workload.name,
            blocks,
            rows: node.fees(BlockRange::new(0, blocks)),
            node,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.node.chain_id()
    }

    /// A node of this chain that nobody has asked yet.
    pub(crate) async fn serve(&self) -> Result<RpcServer> {
        let options = RpcOptions {
            max_block_range: Some(BLOCKS_MAX),
            max_results: Some(LOGS_MAX),
            ..RpcOptions::default()
        };
        Ok(RpcServer::start(self.node.clone(), options).await?)
    }
}

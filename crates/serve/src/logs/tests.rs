//! Pages of a chain of which the archive has the old blocks and the tail the new ones.

use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_model::{BlockRef, ChainId, DatasetSet, Hash32, Scope};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_store::{MemoryBlobs, MemoryMeta, TakeOver};

use super::*;
use crate::chain::{ChainStatus, EndpointHealth, Family, Ingested, Reorg, ServedChain};
use crate::health::ChainHealth;
use crate::http::limits::Limits;

const CHAIN: u64 = 31_337;
/// The newest archived block, and the newest one.
const ARCHIVED: u64 = 20;
const HEAD: u64 = 30;

/// A tail that stays as it is.
struct Still(TailSnapshot);

impl Live for Still {
    fn tail(&self) -> TailSnapshot {
        self.0.clone()
    }

    fn source_head(&self) -> Option<u64> {
        None
    }

    fn is_source_head(&self, _head: BlockRef) -> bool {
        false
    }

    fn was_source_head(&self, _head: BlockRef) -> bool {
        false
    }

    fn proof(&self, _block: &Hash32) -> Option<Proof> {
        None
    }
}

impl ChainStatus for Still {
    fn health(&self) -> ChainHealth {
        ChainHealth::new(0, "")
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }

    fn reorgs(&self) -> Vec<Reorg> {
        Vec::new()
    }

    fn ingested(&self) -> Ingested {
        Ingested::default()
    }
}

async fn chain() -> ServedChain {
    let node = EvmNode::new(EvmSpec::tiny(614), HEAD);
    let blocks = (0..=HEAD).map(|number| node.block(number).unwrap().to_model());
    let blocks: Vec<Block> = blocks.collect();
    let (final_ones, rest) = blocks.split_at(ARCHIVED as usize + 1);
    let (meta, blobs) = (Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()));
    let settings = Settings::evm(ChainId(CHAIN));
    let opened = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait);
    let archive = opened.await.unwrap();
    let provenance = Provenance::default();
    let ingested = archive.ingest_finalized_blocks(final_ones.to_vec(), &provenance);
    ingested.await.unwrap();
    let base = final_ones.last().map(|block| block.clock.block_ref());
    let mut tail = Tail::new(usize::MAX, base);
    rest.iter()
        .for_each(|block| tail.push(block.clone()).unwrap());
    ServedChain {
        id: CHAIN,
        name: "simulated".to_owned(),
        family: Family::Evm,
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        start_block: 0,
        finality: "a test".to_owned(),
        archive,
        live: Arc::new(Still(tail.snapshot())),
        history: Default::default(),
    }
}

/// Blocks above the head used to be passed over: a range that ends there got a page without their logs.
#[tokio::test]
async fn a_range_that_ends_above_the_head_is_refused() {
    let chain = chain().await;
    let view = View::take(&chain).await.unwrap();
    let above = HEAD + 1;
    for (start, end, missing) in [
        (0, above, None),
        (above, above, None),
        (HEAD + 9, HEAD + 9, None),
        (0, above + 1, Some((above, above + 1))),
        (ARCHIVED + 1, HEAD + 9, Some((above, HEAD + 9))),
        (HEAD + 3, HEAD + 9, Some((HEAD + 3, HEAD + 9))),
    ] {
        for order in [Order::Ascending, Order::Descending] {
            let range = BlockRange::new(start, end);
            let filter = LogFilter {
                order,
                limit: Some(5),
                ..LogFilter::over(range)
            };
            let answers = Limits::default().answers;
            let mut memory = PageMemory::new(AnswerMemory::of_bytes(64 << 20));
            let found = view.logs(range, &filter, answers, &mut memory).await;
            let refused = match found {
                Err(Fault::Archive(ArchiveError::NotCovered { missing, .. })) => Some(missing),
                found => {
                    let page = found.unwrap();
                    assert_eq!(page.logs.is_empty(), range.is_empty(), "{range}");
                    None
                }
            };
            let missing = missing.map(|(start, end)| BlockRange::new(start, end));
            assert_eq!(refused, missing, "{range} {order:?}");
        }
    }
}

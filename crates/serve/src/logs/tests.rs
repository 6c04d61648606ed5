//! Pages of a chain of which the archive has the old blocks and the tail the new ones.

use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_model::{BlockRef, ChainId, DatasetSet, Hash32, Scope};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_store::{MemoryBlobs, MemoryMeta, TakeOver};

use super::*;
use crate::chain::{
    ChainStatus, EndpointHealth, Family, Ingested, Reorg, ServedChain, ServedChains,
};
use crate::health::ChainHealth;
use crate::http::HeavyWork;
use crate::http::answer_memory::HOLD_TIMEOUT;
use crate::http::context::Context;
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
            let memory = AnswerMemory::of_bytes(64 << 20);
            let mut memory = PageMemory::new(memory, MemoryReservation::default());
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

/// Queries that waited for memory, which slow readers hold for seconds, used to wait in their slots: small queries
/// were refused although there was memory for them.
#[tokio::test(start_paused = true)]
async fn a_query_waits_for_memory_without_its_slot() {
    let limits = Limits {
        queries_at_once: 1,
        unread_bytes: 1 << 20,
        ..Limits::default()
    };
    let served = ServedChains::new(vec![Arc::new(chain().await)]);
    let context = Context::new(served, limits, Arc::new(|| 0), HeavyWork::here());
    let chain = context.served.find(CHAIN).unwrap();
    let view = View::take(chain).await.unwrap();
    let range = BlockRange::new(0, HEAD + 1);
    let filter = LogFilter::over(range);
    let (whole, _) = context.query(&view, range, &filter).await.unwrap();

    let mut slow_reader = MemoryReservation::default();
    context.grow(&mut slow_reader, usize::MAX).await.unwrap();
    let refused = context.query(&view, range, &filter).await;
    assert!(matches!(refused, Err(Fault::Busy)));

    let others = async {
        // Time passes only where nothing else can: the query waits.
        tokio::time::sleep(HOLD_TIMEOUT / 2).await;
        let number = whole.logs[0].block.number;
        let one_block = BlockRange::new(number, number + 1);
        let small = LogFilter::over(one_block);
        let (small, _) = context.query(&view, one_block, &small).await.unwrap();
        assert!(!small.logs.is_empty());
        drop(slow_reader);
    };
    let (found, ()) = tokio::join!(context.query(&view, range, &filter), others);
    let (page, held) = found.unwrap();
    assert_eq!(page.logs, whole.logs);
    let needed = page.bytes() as usize + page.logs.len() * RECORD_BYTES;
    assert_eq!(
        held.bytes(),
        needed.next_multiple_of(1 << 10),
        "and no more"
    );
}

//! What confirming costs: many pending rows are written block by block, as they are when a chain is
//! followed, and then all their blocks become final at once.
//!
//! The projector runs in this process, so that what is timed is the projection's own work alone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_model::{Block, BlockRef, ChainId, Hash32, Proof};
use chronolith_projection::{
    ChainFeed, Database, Following, Passwords, Projector, ProjectorSettings, set_up,
};
use chronolith_projection_fees::{FeeContract, Fees, FeesKind};
use chronolith_sim::evm::{EvmNode, FeesSpec};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use tokio_postgres::Client;

use crate::database::{Server, connect};
use crate::latency::ROWS_A_BLOCK;
use crate::workload;

const BLOCKS: u64 = 1_000;
const TAIL_BYTES: usize = 1 << 30;
const CONNECTIONS: usize = 4;

/// The newest blocks, as this process says they are.
struct Newest(Mutex<Tail>);

impl Newest {
    fn change<T>(&self, change: impl FnOnce(&mut Tail) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Live for Newest {
    fn tail(&self) -> TailSnapshot {
        self.change(|tail| tail.snapshot())
    }

    fn source_head(&self) -> Option<u64> {
        self.change(|tail| tail.head()).map(|head| head.number)
    }

    fn is_source_head(&self, block: BlockRef) -> bool {
        self.was_source_head(block)
    }

    fn was_source_head(&self, block: BlockRef) -> bool {
        self.change(|tail| tail.head() == Some(block))
    }

    fn proof(&self, _block: &Hash32) -> Option<Proof> {
        Some(Proof::ROOTS)
    }
}

/// Writes, confirms, and prints what either took.
pub(crate) async fn run(server: &Server) -> Result<()> {
    let node = EvmNode::new(workload::spec(ROWS_A_BLOCK * 1_000), BLOCKS);
    let dir = tempfile::tempdir()?;
    let archive = Archive::open_writer(
        Arc::new(FileMeta::open_writer(dir.path())?),
        Arc::new(FileBlobs::open_writer(dir.path())?),
        Settings::evm(ChainId(node.chain_id())),
        TakeOver::NoWait,
    );
    let archive = archive.await?;
    let made = |number: u64| node.block(number).map(|block| block.to_model());
    let first = made(0).context("a block")?;
    let base = first.clock.block_ref();
    ingest(&archive, vec![first]).await?;
    let newest = Arc::new(Newest(Mutex::new(Tail::new(TAIL_BYTES, Some(base)))));
    let database = server.fresh("confirm").await?;
    set_up(&database.url, &Passwords::default()).await?;
    let projector = projector(&database.url, &node, &archive, newest.clone())?;
    projector.register(0).await?;
    let mut following = Following::default();
    projector.follow(&mut following).await?;
    let blocks: Vec<Block> = (1..=BLOCKS).filter_map(made).collect();
    for block in &blocks {
        newest.change(|tail| tail.push(block.clone()))?;
    }
    let began = Instant::now();
    let written = projector.follow(&mut following).await?.rows;
    let insert = began.elapsed().as_secs_f64();
    let client = connect(&database.url).await?;
    ensure!(count(&client, "pending").await? == written, "rows are lost");
    ingest(&archive, blocks).await?;
    newest.change(|tail| drop(tail.drop_through(BLOCKS)));
    let began = Instant::now();
    projector.follow(&mut following).await?;
    let confirm = began.elapsed().as_secs_f64();
    let confirmed = count(&client, "confirmed").await?;
    ensure!(
        confirmed == written,
        "{confirmed} of {written} rows are confirmed"
    );
    println!(
        "confirm: {written} rows of {BLOCKS} blocks inserted in {insert:.2} s, confirmed in {:.1} ms: 1/{:.0} \
         (target <= 1/10)",
        confirm * 1e3,
        insert / confirm
    );
    Ok(())
}

fn projector(
    url: &str,
    node: &EvmNode,
    archive: &Archive,
    live: Arc<dyn Live>,
) -> Result<Projector> {
    let contract = FeeContract {
        address: FeesSpec::CONTRACT,
        from_block: 0,
    };
    let fees = Fees::new(node.chain_id(), vec![contract])?;
    let settings = ProjectorSettings::default();
    let feed = ChainFeed {
        chain: node.chain_id(),
        name: "confirm".to_owned(),
        archive: archive.clone(),
        live,
    };
    let database = Database::writer(url, CONNECTIONS, &[&FeesKind])?;
    Ok(Projector::new(
        database,
        feed,
        vec![Arc::new(fees)],
        settings,
        "bench",
    )?)
}

async fn ingest(archive: &Archive, blocks: Vec<Block>) -> Result<()> {
    let provenance = Provenance {
        proof: Proof::LINKED,
        source: "bench".to_owned(),
        now: 0,
    };
    archive.ingest_finalized_blocks(blocks, &provenance).await?;
    Ok(())
}

async fn count(client: &Client, status: &str) -> Result<u64> {
    let count = "SELECT count(*) FROM fee_events WHERE status::text = $1";
    let row = client.query_one(count, &[&status]).await?;
    Ok(row.try_get::<_, i64>(0)?.try_into()?)
}

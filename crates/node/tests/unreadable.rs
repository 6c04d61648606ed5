//! Chains that cannot be read for the moment, or not yet to their end: that is an error with words, never
//! a null that looks as if there were nothing, and other chains are told as ever. What takes long to read is
//! read beside other things.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and serves beside asking"
)]

mod support;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_model::{Block, BlockRef, ChainId, Dataset, DatasetSet, Hash32, Proof, Scope};
use chronolith_serve::chain::{
    ChainStatus, EndpointHealth, Family, Ingested, Reorg, ServedChain, ServedChains,
};
use chronolith_serve::health::{ChainHealth, Probe};
use chronolith_serve::http::{ConnectionLimits, Drain, HeavyWork, Limits, listen, public_router};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_sim::{FaultPlan, FaultyBlobs, FaultyMeta};
use chronolith_store::{BlobInfo, BlobStore, BlobWriter, MemoryBlobs, MemoryMeta, TakeOver};
use serde_json::{Value, json};
use support::rpc::Rpc;
use tokio::net::TcpListener;
use tokio::sync::Barrier;

/// A tail that stays as it is, below a source that is this high.
struct Still {
    tail: TailSnapshot,
    source_head: u64,
    /// So often it is not known yet that the source has nothing newer.
    unknown: AtomicU32,
}

impl Live for Still {
    fn tail(&self) -> TailSnapshot {
        self.tail.clone()
    }

    fn source_head(&self) -> Option<u64> {
        Some(self.source_head)
    }

    fn is_source_head(&self, _head: BlockRef) -> bool {
        let left = |left: u32| left.checked_sub(1);
        let looked = self
            .unknown
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        looked.is_err()
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

struct Nobody;

impl Probe for Nobody {
    fn chains(&self) -> Vec<ChainHealth> {
        Vec::new()
    }
}

/// Archived blocks below a number, and whoever reads them: its reads fail from the day the plan is killed.
async fn archive(blocks: impl Iterator<Item = Block>, plan: &Arc<FaultPlan>) -> Archive {
    archive_in(Arc::new(MemoryBlobs::new()), blocks, plan).await
}

async fn archive_in(
    blobs: Arc<dyn BlobStore>,
    blocks: impl Iterator<Item = Block>,
    plan: &Arc<FaultPlan>,
) -> Archive {
    let meta = Arc::new(MemoryMeta::new());
    let settings = Settings::evm(ChainId(1));
    let opened = Archive::open_writer(
        meta.clone(),
        blobs.clone(),
        settings.clone(),
        TakeOver::NoWait,
    );
    let writer = opened.await.unwrap();
    let blocks: Vec<Block> = blocks.collect();
    if !blocks.is_empty() {
        let provenance = Provenance::default();
        let ingested = writer.ingest_finalized_blocks(blocks, &provenance).await;
        ingested.unwrap();
    }
    let meta = Arc::new(FaultyMeta::new(meta, plan.clone()));
    let blobs = Arc::new(FaultyBlobs::new(blobs, plan.clone()));
    Archive::open_reader(meta, blobs, settings).await.unwrap()
}

fn still(tail: TailSnapshot) -> Still {
    Still {
        tail,
        source_head: 30,
        unknown: AtomicU32::new(u32::MAX),
    }
}

fn served(id: u64, archive: Archive, live: Still) -> Arc<ServedChain> {
    Arc::new(ServedChain {
        id,
        name: format!("chain {id}"),
        family: Family::Evm,
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        start_block: 0,
        finality: "5 confirmations".to_owned(),
        archive,
        live: Arc::new(live),
        history: Default::default(),
    })
}

/// A node that serves a whole chain, one whose tail does not stand on its archive, one whose archive
/// cannot be read, and one that has nothing yet.
async fn serve(node: &EvmNode) -> Rpc {
    let block = |number: u64| node.block(number).unwrap().to_model();
    let mut apart = Tail::new(1 << 20, None);
    apart.push(block(20)).unwrap();
    let none = || still(Tail::new(0, None).snapshot());
    let (good, bad) = (FaultPlan::none(), FaultPlan::none());
    let chains = vec![
        served(1, archive((0..=10).map(block), &good).await, none()),
        served(
            2,
            archive((0..=10).map(block), &good).await,
            still(apart.snapshot()),
        ),
        served(3, archive((0..=10).map(block), &bad).await, none()),
        served(4, archive(std::iter::empty(), &good).await, none()),
    ];
    bad.kill();
    listening(chains).await
}

async fn listening(chains: Vec<Arc<ServedChain>>) -> Rpc {
    listening_to(ServedChains::new(chains)).await
}

async fn listening_to(chains: ServedChains) -> Rpc {
    let limits = Limits::default();
    let router = public_router(
        chains,
        Arc::new(Nobody),
        limits,
        Arc::new(|| 0),
        HeavyWork::here(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let room = ConnectionLimits {
        connections: limits.connections,
        per_peer: None,
        place_kept: None,
    };
    tokio::spawn(listen(listener, router, room, Drain::never()));
    Rpc::new(base)
}

/// Each with its value of a field and the code of its error, by chain.
fn told(list: &Value, field: &str) -> Vec<(Value, Value)> {
    let list = list.as_array().unwrap().iter();
    let told = list.map(|one| (one[field].clone(), one["error"]["code"].clone()));
    told.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_no_null() {
    let node = EvmNode::new(EvmSpec::tiny(5), 30);
    let rpc = serve(&node).await;
    let (null, fault, rearranged) = (json!(null), json!("INTERNAL_ERROR"), json!("NOT_READY"));
    let genesis = json!(node.block(0).unwrap().to_model().clock.timestamp);
    let (status, chains) = rpc.get("/v1/chains").await;
    assert_eq!(status, 200);
    let expected = [
        (genesis.clone(), null.clone()),
        (null.clone(), rearranged.clone()),
        (null.clone(), fault.clone()),
        (null.clone(), null.clone()),
    ];
    assert_eq!(told(&chains, "genesisTimestamp"), expected, "{chains}");
    for (id, status, code) in [
        (1, 200, &null),
        (2, 503, &rearranged),
        (3, 500, &fault),
        (4, 200, &null),
    ] {
        let (is, chain) = rpc.get(&format!("/v1/chains/{id}")).await;
        assert_eq!((is, &chain["error"]["code"]), (status, code), "{chain}");
        assert!(
            status != 200 || chain["genesisTimestamp"] == expected[id - 1].0,
            "{chain}"
        );
    }
    let (status, chains) = rpc.get("/v1/indexing-status").await;
    assert_eq!(status, 200);
    let expected = [
        (json!(10), null.clone()),
        (null.clone(), rearranged),
        (json!(10), null.clone()),
        (null.clone(), null.clone()),
    ];
    assert_eq!(told(&chains, "lastIndexedBlock"), expected, "{chains}");
    let (_, overview) = rpc.get("/v1/overview").await;
    let troubled = |chain: &Value| chain["trouble"].is_string();
    let troubled: Vec<bool> = overview["chains"]
        .as_array()
        .unwrap()
        .iter()
        .map(troubled)
        .collect();
    assert_eq!(troubled, [false, true, false, false], "{overview}");
    let head = node.block(10).unwrap().to_model().clock;
    let head = json!({
        "number": head.number, "hash": head.hash.to_string(), "timestamp": head.timestamp,
    });
    let chains = overview["chains"].as_array().unwrap();
    for (chain, is_there) in chains.iter().zip([true, false, true, false]) {
        let expected = if is_there { &head } else { &null };
        let shown = (&chain["head"], &chain["finalized"]);
        assert_eq!(shown, (expected, expected), "{chain}");
    }
}

/// A chart has a gap where no block can be served, and not the number of another moment.
#[tokio::test(flavor = "multi_thread")]
async fn samples_are_of_moments_at_which_a_block_can_be_served() {
    let node = EvmNode::new(EvmSpec::tiny(5), 30);
    let block = |number: u64| node.block(number).unwrap().to_model();
    let archived = async || archive((0..=10).map(block), &FaultPlan::none()).await;
    let mut above = Tail::new(1 << 20, Some(block(10).clock.block_ref()));
    above.push(block(11)).unwrap();
    let mut apart = Tail::new(1 << 20, None);
    apart.push(block(20)).unwrap();
    let large = u64::MAX;
    let chains = ServedChains::new(vec![
        served(1, archived().await, still(above.snapshot())),
        served(2, archived().await, still(apart.snapshot())),
        served(3, archived().await, still(Tail::new(0, None).snapshot())),
        served(
            large,
            archive(std::iter::empty(), &FaultPlan::none()).await,
            still(Tail::new(0, None).snapshot()),
        ),
    ]);
    let time = block(11).clock.timestamp;
    for now in [time + 7, time + 12, time + 17, time - 1_000] {
        chains.note_history(now).await;
    }
    for now in [time + 7, time + 12, time + 17] {
        chains.note_history(now).await;
    }
    let rpc = listening_to(chains).await;
    let sample = |at: u64, head: u64| {
        let lag = at.saturating_sub(block(head).clock.timestamp);
        json!({
            "at": at, "head": head, "finalized": null, "archived": 10, "lagSeconds": lag, "blocks": 0,
        })
    };
    let samples = |head: u64| {
        let times = [time - 1_000, time + 7, time + 17];
        Value::Array(times.map(|at| sample(at, head)).to_vec())
    };
    for (id, shown, samples) in [
        ("1", json!(1), samples(11)),
        ("2", json!(2), json!([])),
        ("3", json!(3), samples(10)),
        (&large.to_string(), json!(large.to_string()), json!([])),
    ] {
        let (status, history) = rpc.get(&format!("/v1/chains/{id}/history")).await;
        assert_eq!(status, 200, "{history}");
        assert_eq!(history, json!({ "chainId": shown, "samples": samples }));
    }
    let (status, problem) = rpc.get("/v1/chains/9/history").await;
    assert_eq!((status, &problem["code"]), (404, &json!("CHAIN_NOT_FOUND")));
}

/// A block that was just seen is waited for before it is said that a hash is not there: on a chain of fast
/// blocks every other question would be an error. Where there is much to index, nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_indexed_in_a_moment_is_waited_for() {
    let node = EvmNode::new(EvmSpec::tiny(6), 10);
    let block = |number: u64| node.block(number).unwrap().to_model();
    let unknown = json!([format!("0x{}", "11".repeat(32)), false]);
    // The last would be null if it had been looked at as often as the first.
    for (source_head, looks, is_null) in [(11, 3, true), (11, u32::MAX, false), (40, 3, false)] {
        let live = Still {
            source_head,
            unknown: AtomicU32::new(looks),
            ..still(Tail::new(0, None).snapshot())
        };
        let archive = archive((0..=10).map(block), &FaultPlan::none()).await;
        let rpc = listening(vec![served(31_337, archive, live)]).await;
        let answer = rpc.answer("eth_getBlockByHash", unknown.clone()).await;
        let data = json!({ "indexedUpTo": 10, "sourceHead": source_head });
        match is_null {
            true => assert_eq!(answer.get("result"), Some(&json!(null)), "{answer}"),
            false => assert_eq!(answer["error"]["data"], data, "{answer}"),
        }
    }
}

/// A store in which a read waits for another one, once that is asked for.
#[derive(Debug)]
struct InPairs {
    inner: MemoryBlobs,
    begun: AtomicBool,
    pair: Barrier,
    alone: AtomicU32,
}

impl InPairs {
    async fn meet(&self) {
        let met = tokio::time::timeout(Duration::from_secs(10), self.pair.wait());
        if self.begun.load(Ordering::SeqCst) && met.await.is_err() {
            self.alone.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl BlobStore for InPairs {
    async fn put(&self, name: &str, bytes: Bytes) -> chronolith_store::Result<()> {
        self.inner.put(name, bytes).await
    }
    async fn create(&self, name: &str) -> chronolith_store::Result<Box<dyn BlobWriter>> {
        self.inner.create(name).await
    }
    async fn get(&self, name: &str) -> chronolith_store::Result<Bytes> {
        self.inner.get(name).await
    }
    async fn range(&self, name: &str, range: Range<u64>) -> chronolith_store::Result<Bytes> {
        self.inner.range(name, range).await
    }
    async fn ranges(
        &self,
        name: &str,
        ranges: &[Range<u64>],
    ) -> chronolith_store::Result<Vec<Bytes>> {
        self.meet().await;
        self.inner.ranges(name, ranges).await
    }
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> chronolith_store::Result<Vec<BlobInfo>> {
        self.inner.list(prefix, after, limit).await
    }
    async fn delete(&self, name: &str) -> chronolith_store::Result<()> {
        self.inner.delete(name).await
    }
}

/// A thousand times one behind the other would take longer than an answer may, where a read takes 30 ms.
#[tokio::test(flavor = "multi_thread")]
async fn many_times_are_looked_up_beside_each_other() {
    let node = EvmNode::new(EvmSpec::tiny(7), 300);
    let block = |number: u64| node.block(number).unwrap().to_model();
    let blobs = Arc::new(InPairs {
        inner: MemoryBlobs::new(),
        begun: AtomicBool::new(false),
        pair: Barrier::new(2),
        alone: AtomicU32::new(0),
    });
    let archive = archive_in(blobs.clone(), (0..=290).map(block), &FaultPlan::none()).await;
    let live = still(Tail::new(0, None).snapshot());
    let rpc = listening(vec![served(1, archive, live)]).await;
    let time = |number: u64| block(number).clock.timestamp;
    let (status, _) = rpc
        .get(&format!("/v1/chains/1/block/after/{}", time(5)))
        .await;
    assert_eq!(status, 200);
    blobs.begun.store(true, Ordering::SeqCst);
    // Their hashes lie in different pieces, which are read one by one.
    let item = |number: u64| json!({ "chainId": 1, "time": time(number), "direction": "after", "inclusive": true });
    let requested = json!({ "items": [item(100), item(230)] });
    let (status, told) = rpc.post("/v1/blocks/by-time", &requested).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(blobs.alone.load(Ordering::SeqCst), 0, "{told}");
    for (at, number) in [100, 230].into_iter().enumerate() {
        let hash = block(number).clock.hash.to_string();
        assert!(told["results"][at].to_string().contains(&hash), "{told}");
    }
}

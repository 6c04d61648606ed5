//! What the tests of Stellar's methods share: ledgers proven, archived and held in a tail, a listener that
//! serves them, and asking it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test file uses its own part, and a test may panic"
)]

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_model::{Block, BlockRef, ChainId, Dataset, DatasetSet, Hash32, Proof, Scope};
use chronolith_serve::chain::{
    ChainStatus, EndpointHealth, Family, Ingested, Reorg, ServedChain, ServedChains, StellarChain,
};
use chronolith_serve::health::{ChainHealth, Probe};
use chronolith_serve::http::{HeavyWork, Limits, public_router};
use chronolith_sim::stellar::{Made, StellarChain as SimChain, StellarSettings};
use chronolith_stellar::{Ledger, Network, prove};
use chronolith_store::{MemoryBlobs, MemoryMeta, TakeOver};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A ledger as a block, as it comes out of a source.
pub fn block_of(raw: &Bytes, network: &Network) -> Block {
    let ledger = Ledger::walk(raw.clone()).unwrap();
    let proven = prove(ledger, network).unwrap();
    proven.block().unwrap()
}

/// A real file; none, and a word about it, where the folder is absent.
pub fn fixture(name: &str) -> Option<Bytes> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/stellar");
    let path = root.join(name);
    if !path.exists() {
        let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some();
        assert!(!required, "no fixture {}", path.display());
        println!("skipped: {} is absent", path.display());
        return None;
    }
    let packed = std::fs::read(&path).unwrap();
    Some(zstd::stream::decode_all(&packed[..]).unwrap().into())
}

/// The first ledgers of a stream with record marks.
pub fn framed(raw: &Bytes, most: usize) -> Vec<Bytes> {
    let (mut ledgers, mut at) = (Vec::new(), 0);
    while at < raw.len() && ledgers.len() < most {
        let mark = u32::from_be_bytes(raw[at..at + 4].try_into().unwrap());
        let end = at + 4 + (mark & 0x7fff_ffff) as usize;
        ledgers.push(raw.slice(at + 4..end));
        at = end;
    }
    ledgers
}

/// A made-up network.
pub struct World {
    pub network: Network,
    pub made: Vec<Arc<Made>>,
}

impl World {
    /// Its first ledgers, from 2 on.
    pub fn new(settings: StellarSettings, ledgers: u32) -> Self {
        let network = Network::new(settings.passphrase.clone());
        let first = settings.first_ledger;
        let chain = SimChain::new(settings);
        let made = (first..first + ledgers).map(|number| chain.ledger(number));
        Self {
            network,
            made: made.collect(),
        }
    }

    pub fn blocks(&self) -> Vec<Block> {
        let blocks = self.made.iter();
        blocks
            .map(|made| block_of(&made.raw, &self.network))
            .collect()
    }

    pub fn latest(&self) -> u32 {
        self.made[self.made.len() - 1].sequence
    }

    /// A listener that has so many of the newest ledgers in its tail alone.
    pub async fn serve(&self, in_tail: usize) -> Rpc {
        Rpc::new(&self.network, self.blocks(), in_tail, Limits::default()).await
    }
}

/// Small segments, runs and packs, so that a few ledgers cross every border.
pub fn small_settings(network: &Network) -> Settings {
    let mut settings = Settings::stellar(ChainId(network.chain_id()));
    settings.seal.grid_blocks = 64;
    settings.seal.range_blocks = 640;
    settings.seal.weight = 40;
    settings.seal.fan_in = 3;
    settings.seal.batches_max = 4;
    settings.seal.pack_bytes = 64 << 10;
    settings
}

pub fn datasets() -> DatasetSet {
    DatasetSet::of(&[
        Dataset::Headers,
        Dataset::Logs,
        Dataset::TxHashes,
        Dataset::Transactions,
    ])
}

pub async fn archived(settings: &Settings, blocks: &[Block]) -> Archive {
    archived_in(&Stores::default(), settings, blocks).await
}

/// Where an archive is; clones share it.
#[derive(Clone, Default)]
pub struct Stores {
    pub meta: Arc<MemoryMeta>,
    pub blobs: Arc<MemoryBlobs>,
}

pub async fn archived_in(stores: &Stores, settings: &Settings, blocks: &[Block]) -> Archive {
    let (meta, blobs) = (stores.meta.clone(), stores.blobs.clone());
    let opened = Archive::open_writer(meta, blobs, settings.clone(), TakeOver::NoWait);
    let archive = opened.await.unwrap();
    ingest(&archive, blocks).await;
    archive
}

/// Archives more blocks.
pub async fn ingest(archive: &Archive, blocks: &[Block]) {
    for blocks in blocks.chunks(7) {
        let provenance = Provenance::default();
        let ingested = archive.ingest_finalized_blocks(blocks.to_vec(), &provenance);
        ingested.await.unwrap();
        while archive.maintain().await.unwrap() {}
    }
}

/// A tail that stays as it is, unless the test changes it.
pub struct Still(pub Mutex<TailSnapshot>);

impl Live for Still {
    fn tail(&self) -> TailSnapshot {
        self.0.lock().clone()
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

struct Nobody;

impl Probe for Nobody {
    fn chains(&self) -> Vec<ChainHealth> {
        Vec::new()
    }
}

/// A Stellar chain as it is served.
pub fn served(name: &str, network: &Network, archive: Archive, tail: TailSnapshot) -> ServedChain {
    ServedChain {
        id: network.chain_id(),
        name: name.to_owned(),
        family: Family::Stellar(StellarChain {
            network: network.clone(),
            network_name: "pubnet".to_owned(),
            friendbot_url: None,
            mode: "streaming".to_owned(),
        }),
        datasets: datasets(),
        scope: Scope::All,
        start_block: 2,
        finality: "by the source".to_owned(),
        archive,
        live: Arc::new(Still(Mutex::new(tail))),
        history: Default::default(),
    }
}

/// The same chain, spoken to as if it were one of Ethereum's.
pub fn as_evm(id: u64, chain: &ServedChain) -> ServedChain {
    ServedChain {
        id,
        name: "other".to_owned(),
        family: Family::Evm,
        datasets: chain.datasets,
        scope: Scope::All,
        start_block: 0,
        finality: chain.finality.clone(),
        archive: chain.archive.clone(),
        live: chain.live.clone(),
        history: Default::default(),
    }
}

/// When the clock of the listener stands still: as long after the newest ledger.
pub const CLOCK_AFTER: u64 = 7;

/// A listener.
pub struct Rpc {
    pub router: Router,
    pub place: String,
}

impl Rpc {
    pub async fn new(
        network: &Network,
        blocks: Vec<Block>,
        in_tail: usize,
        limits: Limits,
    ) -> Self {
        let (final_ones, rest) = blocks.split_at(blocks.len() - in_tail);
        let archive = archived(&small_settings(network), final_ones).await;
        let base = final_ones.last().map(|block| block.clock.block_ref());
        let mut tail = Tail::new(usize::MAX, base);
        rest.iter()
            .for_each(|block| tail.push(block.clone()).unwrap());
        let chain = served("simulated", network, archive, tail.snapshot());
        let now = blocks.last().map_or(0, |block| block.clock.timestamp) + CLOCK_AFTER;
        Self::of(vec![chain], limits, now)
    }

    pub fn of(chains: Vec<ServedChain>, limits: Limits, now: u64) -> Self {
        let served = ServedChains::new(chains.into_iter().map(Arc::new).collect());
        let router = public_router(
            served,
            Arc::new(Nobody),
            limits,
            Arc::new(move || now),
            HeavyWork::here(),
        );
        Self {
            router,
            place: "/stellar/simulated".to_owned(),
        }
    }

    /// Sends a body; returns the status and what came.
    pub async fn send(&self, place: &str, body: impl Into<Body>) -> (u16, String) {
        self.request(Request::post(place).body(body.into()).unwrap())
            .await
    }

    pub async fn text(&self, place: &str) -> (u16, String) {
        self.request(Request::get(place).body(Body::empty()).unwrap())
            .await
    }

    pub async fn get(&self, place: &str) -> (u16, Value) {
        let (status, text) = self.text(place).await;
        let body = serde_json::from_str(&text);
        (status, body.unwrap_or_else(|_| panic!("{place}: {text}")))
    }

    /// The answer to a request, as far as it has begun.
    pub async fn begin(&self, request: Request<Body>) -> Response {
        let service = TowerToHyperService::new(self.router.clone());
        service.call(request).await.unwrap()
    }

    async fn request(&self, request: Request<Body>) -> (u16, String) {
        let response = self.begin(request).await;
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 256 << 20).await;
        (status, String::from_utf8(body.unwrap().into()).unwrap())
    }

    /// Calls a method; returns its result, or its error.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (_, text) = self.send(&self.place, body.to_string()).await;
        let mut reply: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method}: {text}"));
        assert_eq!(reply["id"], 1, "{text}");
        match reply.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(reply["result"].take()),
        }
    }

    pub async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params.clone()).await;
        answer.unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// Code and message of the error that a call must have.
    pub async fn refused(&self, method: &str, params: Value) -> (i64, String) {
        let error = self.call(method, params.clone()).await;
        let error = error.expect_err(&format!("{method} {params} must be refused"));
        let message = error["message"].as_str().unwrap().to_owned();
        (error["code"].as_i64().unwrap(), message)
    }
}

pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub fn hex(hash: &Hash32) -> String {
    const_hex::encode(hash.0)
}

//! What the tests of projections share: a chain that can be made to do anything, in a real archive and
//! tail, and what the tables must say of it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test file uses its own part, and a test may panic"
)]

pub mod adfs;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chronolith_archive::{Archive, AuditEntry, Provenance, Settings};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_model::{
    Block, BlockMeta, BlockRef, ChainId, Dataset, DatasetSet, Hash32, Log, LogParts, Payload,
    Proof, Scope, ScopeEntry, Tx,
};
use chronolith_projection::{
    ChainFeed, Database, Kinds, Passwords, Projection, Projector, ProjectorSettings, set_up,
};
use chronolith_projection_adfs::AdfsKind;
use chronolith_projection_fees::{FeeContract, Fees, FeesKind};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use chronolith_store::{MemoryBlobs, MemoryMeta, TakeOver};

/// Those that the tests use.
pub const KINDS: Kinds = &[&FeesKind, &AdfsKind];

/// 2024-02-29T23:50:00Z: a month ends soon after.
pub const GENESIS_TIME: u64 = 1_709_250_600;
pub const CONTRACT: [u8; 20] = [0xfe; 20];
pub const OTHER: [u8; 20] = [0xef; 20];
pub const COLLECTED: &str = "28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea";
pub const WITHDRAWN: &str = "5e110f8bc8a20b65dcc87f224bdf1cc039346e267118bae2739847f07321ffa8";

/// A row as people read it: number, hash, transaction, log index, fees, status.
pub type Row = (i64, String, String, i32, String, String, String);

pub fn hash(seed: &[u64]) -> Hash32 {
    let mut bytes = [0; 32];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for part in seed {
        state = (state ^ part)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .rotate_left(29);
    }
    for chunk in bytes.chunks_mut(8) {
        state = (state ^ (state >> 31))
            .wrapping_mul(0x94d0_49bb_1331_11eb)
            .wrapping_add(1);
        chunk.copy_from_slice(&state.to_be_bytes());
    }
    Hash32(bytes)
}

pub fn word(address: &[u8; 20]) -> [u8; 32] {
    let mut word = [0; 32];
    word[12..].copy_from_slice(address);
    word
}

/// A chain with an archive and a tail, one block every ten seconds.
pub struct TestChain {
    pub id: u64,
    pub archive: Archive,
    tail: Mutex<Tail>,
    /// The blocks of the chain as it is, from the first.
    pub blocks: Mutex<Vec<Block>>,
    /// Every block that was ever in the tail, by hash.
    pub ever: Mutex<BTreeMap<Hash32, Block>>,
    /// What ADFS transactions blocks have, by hash.
    pub sent: Mutex<BTreeMap<Hash32, Vec<adfs::Sent>>>,
    /// How far its blocks are proven.
    pub proof: Mutex<Proof>,
}

impl Live for TestChain {
    fn tail(&self) -> TailSnapshot {
        self.tail.lock().unwrap().snapshot()
    }

    fn source_head(&self) -> Option<u64> {
        self.head().map(|head| head.number)
    }

    fn is_source_head(&self, block: BlockRef) -> bool {
        self.was_source_head(block)
    }

    fn was_source_head(&self, block: BlockRef) -> bool {
        self.head() == Some(block)
    }

    fn proof(&self, _block: &Hash32) -> Option<Proof> {
        Some(*self.proof.lock().unwrap())
    }
}

impl TestChain {
    pub async fn new(id: u64) -> Arc<Self> {
        let all = [Dataset::Logs, Dataset::TxHashes, Dataset::Transactions];
        Self::keeping(id, &all, Scope::All).await
    }

    /// With an archive that keeps the logs of one contract, and the transactions that they name.
    pub async fn narrow(id: u64, emitter: &[u8]) -> Arc<Self> {
        let scope = Scope::only(vec![ScopeEntry {
            emitter: Some(Bytes::copy_from_slice(emitter)),
            topic0: None,
        }]);
        let named = [Dataset::Logs, Dataset::Transactions];
        Self::keeping(id, &named, scope).await
    }

    async fn keeping(id: u64, datasets: &[Dataset], scope: Scope) -> Arc<Self> {
        let mut settings = Settings::evm(ChainId(id));
        settings.seal.grid_blocks = 64;
        settings.seal.range_blocks = 640;
        settings.seal.weight = 40;
        (settings.datasets, settings.scope) = (DatasetSet::of(datasets), scope);
        let (meta, blobs) = (Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()));
        let archive = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait)
            .await
            .unwrap();
        Arc::new(Self {
            id,
            archive,
            tail: Mutex::new(Tail::new(64 << 20, None)),
            blocks: Mutex::default(),
            ever: Mutex::default(),
            sent: Mutex::default(),
            proof: Mutex::new(Proof::LINKED),
        })
    }

    pub fn feed(self: &Arc<Self>) -> ChainFeed {
        ChainFeed {
            chain: self.id,
            name: format!("chain-{}", self.id),
            archive: self.archive.clone(),
            live: self.clone(),
        }
    }

    pub fn head(&self) -> Option<BlockRef> {
        self.blocks
            .lock()
            .unwrap()
            .last()
            .map(|block| block.clock.block_ref())
    }

    /// A block on the head, with transactions of these seeds; each has one event, and some more. A
    /// transaction with a seed that an earlier block had is that transaction, mined again.
    pub fn extend(&self, fork: u64, txs: &[u64]) -> Block {
        self.extend_by(fork, |clock| block_of(clock, txs))
    }

    /// A block on the head.
    pub fn extend_by(&self, fork: u64, make: impl FnOnce(BlockMeta) -> Block) -> Block {
        let mut blocks = self.blocks.lock().unwrap();
        let number = blocks.len() as u64;
        let parent_hash = blocks
            .last()
            .map_or(Hash32::default(), |last| last.clock.hash);
        let clock = BlockMeta {
            number,
            hash: hash(&[self.id, number, fork, 1]),
            parent_hash,
            timestamp: GENESIS_TIME + 10 * number,
        };
        let block = make(clock);
        self.tail.lock().unwrap().push(block.clone()).unwrap();
        self.ever
            .lock()
            .unwrap()
            .insert(block.clock.hash, block.clone());
        blocks.push(block.clone());
        block
    }

    /// Takes the newest blocks away.
    pub fn roll_back(&self, depth: usize) {
        let mut blocks = self.blocks.lock().unwrap();
        let keep = blocks.len() - depth;
        blocks.truncate(keep);
        let mut tail = self.tail.lock().unwrap();
        match blocks.last() {
            Some(to) => drop(tail.rollback(to.clock.block_ref()).unwrap()),
            None => *tail = Tail::new(64 << 20, None),
        }
    }

    /// Archives everything through a block.
    pub async fn finalize(&self, through: u64) {
        let head = self.archive.health().head;
        let next = head.map_or(0, |head| head.number + 1);
        let due: Vec<Block> = {
            let blocks = self.blocks.lock().unwrap();
            blocks[next as usize..=through as usize].to_vec()
        };
        if due.is_empty() {
            return;
        }
        let provenance = Provenance {
            proof: *self.proof.lock().unwrap(),
            source: "test".to_owned(),
            now: 0,
        };
        self.archive
            .ingest_finalized_blocks(due, &provenance)
            .await
            .unwrap();
        while self.archive.maintain().await.unwrap() {}
        self.tail.lock().unwrap().drop_through(through);
    }

    /// Takes archived blocks back, as an operator does. Returns the block that is the last one now.
    pub async fn rewind(&self, to: u64) -> BlockRef {
        let audit = AuditEntry {
            at: GENESIS_TIME,
            act: "rewind".to_owned(),
        };
        self.archive.rewind(to, audit).await.unwrap();
        let head = self.archive.health().head;
        self.blocks.lock().unwrap().truncate(to as usize + 1);
        *self.tail.lock().unwrap() = Tail::new(64 << 20, head);
        head.unwrap()
    }

    /// How many blocks are not final.
    pub fn open(&self) -> usize {
        let head = self.archive.health().head;
        let next = head.map_or(0, |head| head.number + 1);
        self.blocks.lock().unwrap().len() - next as usize
    }

    /// Forgets the tail, as a process that is killed does, and fills it again to a block.
    pub fn lose_tail(&self, through: Option<u64>) {
        let head = self.archive.health().head;
        let next = head.map_or(0, |head| head.number + 1);
        let mut tail = Tail::new(64 << 20, head);
        let blocks = self.blocks.lock().unwrap();
        let through = through.map_or(blocks.len(), |through| through as usize + 1);
        let through = through.max(next as usize);
        for block in blocks.iter().take(through).skip(next as usize) {
            tail.push(block.clone()).unwrap();
        }
        *self.tail.lock().unwrap() = tail;
    }
}

fn block_of(clock: BlockMeta, txs: &[u64]) -> Block {
    let mut logs = Vec::new();
    let mut push = |tx: usize, emitter: &[u8], topics: &[&[u8]], data: &[u8]| {
        let parts = LogParts {
            tx_index: tx as u32,
            log_index: logs.len() as u32,
            emitter,
            topics,
            data,
            ..LogParts::default()
        };
        logs.push(Log::new(&parts).unwrap());
    };
    let collected = const_hex::decode(COLLECTED).unwrap();
    let withdrawn = const_hex::decode(WITHDRAWN).unwrap();
    for (at, seed) in txs.iter().enumerate() {
        let (token, integrator) = (word(&[*seed as u8; 20]), word(&[0x11; 20]));
        let mut data = hash(&[*seed, 77]).as_bytes().to_vec();
        data.extend(hash(&[*seed, 78]).as_bytes());
        push(at, &CONTRACT, &[&collected, &token, &integrator], &data);
        // Of another contract; of another event; and one that is no such event at all.
        push(at, &OTHER, &[&collected, &token, &integrator], &data);
        if seed % 3 == 0 {
            push(
                at,
                &CONTRACT,
                &[&withdrawn, &token, &integrator],
                &data[..32],
            );
        }
        if seed % 5 == 0 {
            push(
                at,
                &CONTRACT,
                &[&collected, &token, &integrator],
                &data[..40],
            );
        }
        for (topics, data) in adfs::beside(*seed) {
            let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
            push(at, &adfs::PROXY, &topics, &data);
        }
    }
    let tx = |(index, seed): (usize, &u64)| Tx {
        index: index as u32,
        hash: hash(&[*seed, 5]),
    };
    Block {
        clock,
        txs: txs.iter().enumerate().map(tx).collect(),
        logs,
        payload: Payload {
            bodies: Some(txs.iter().map(|seed| adfs::body_beside(*seed)).collect()),
            ..Payload::default()
        },
    }
}

/// A database with tables.
pub async fn database() -> (TempPostgres, Database) {
    let server = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    set_up(&server.url, &Passwords::default()).await.unwrap();
    let database = Database::writer(&server.url, 4, KINDS).unwrap();
    (server, database)
}

pub fn projector(database: &Database, chain: &Arc<TestChain>, holder: &str) -> Projector {
    projector_of(database, chain, vec![fees(chain)], 7, holder)
}

/// The fees of a chain.
pub fn fees(chain: &TestChain) -> Arc<dyn Projection> {
    let contracts = vec![FeeContract {
        address: CONTRACT,
        from_block: 0,
    }];
    Arc::new(Fees::new(chain.id, contracts).unwrap())
}

/// Projections of a chain, with jobs of this many blocks.
pub fn projector_of(
    database: &Database,
    chain: &Arc<TestChain>,
    projections: Vec<Arc<dyn Projection>>,
    job_blocks: u64,
    holder: &str,
) -> Projector {
    let settings = ProjectorSettings {
        job_blocks: Some(job_blocks),
        ..ProjectorSettings::default()
    };
    let (database, feed) = (database.clone(), chain.feed());
    Projector::new(database, feed, projections, settings, holder).unwrap()
}

pub fn hex(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

/// The rows that a block must have, as (log index, number one, number two).
fn expected_of(block: &Block) -> Vec<(u32, Hash32, String, String)> {
    let mut rows = Vec::new();
    for log in &block.logs {
        let topic = log.topic(0).map(const_hex::encode).unwrap_or_default();
        let number = |at: usize| {
            let word = &log.data()[at * 32..at * 32 + 32];
            alloy_primitives::U256::from_be_slice(word).to_string()
        };
        if log.emitter() != CONTRACT {
            continue;
        }
        let tx = block.tx_hash(log.tx_index()).unwrap();
        if topic == COLLECTED && log.data().len() == 64 {
            rows.push((log.log_index(), tx, number(0), number(1)));
        } else if topic == WITHDRAWN {
            rows.push((log.log_index(), tx, number(0), String::new()));
        }
    }
    rows
}

/// What the table must hold of these blocks.
pub fn expected(blocks: &[(Block, &str)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (block, status) in blocks {
        for (index, tx, one, two) in expected_of(block) {
            let (number, at) = (block.clock.number as i64, hex(block.clock.hash.as_bytes()));
            let tx = hex(tx.as_bytes());
            rows.push((number, at, tx, index as i32, one, two, (*status).to_owned()));
        }
    }
    rows.sort();
    rows
}

/// What the table holds.
pub async fn stored(database: &Database, chain: u64) -> Vec<Row> {
    let client = database.client().await.unwrap();
    let read = "SELECT block_number, encode(block_hash, 'hex'), encode(tx_hash, 'hex'), log_index, \
        coalesce(integrator_fee, amount)::text, coalesce(lifi_fee::text, ''), status::text \
        FROM fee_events WHERE chain_id = $1";
    let rows = client.query(read, &[&(chain as i64)]).await.unwrap();
    let mut rows: Vec<Row> = rows
        .iter()
        .map(|row| {
            (
                row.get(0),
                row.get(1),
                row.get(2),
                row.get(3),
                row.get(4),
                row.get(5),
                row.get(6),
            )
        })
        .collect();
    rows.sort();
    rows
}

/// One number out of the database.
pub async fn number(database: &Database, sql: &str) -> i64 {
    let client = database.client().await.unwrap();
    client.query_one(sql, &[]).await.unwrap().get(0)
}

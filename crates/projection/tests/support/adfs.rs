//! Chains with ADFS transactions: what is sent, the blocks it makes, and the rows it must make. Nothing
//! here knows the decoder.

pub use chronolith_sim::evm::adfs::encode;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, BlockMeta, Hash32, Log, LogParts, Payload, Tx};
use chronolith_projection::{Database, Projection, Projector};
use chronolith_projection_adfs::{Adfs, AdfsSettings, AdfsVersion};
use encode::{Row, Value, accumulated, calldata, numbered};

use super::{TestChain, hash, hex, projector_of, word};

pub const PROXY: [u8; 20] = [0xad; 20];
pub const SAFE: [u8; 20] = [0x5a; 20];
pub const FIRST: [u8; 20] = [0xa1; 20];
pub const SECOND: [u8; 20] = [0xa2; 20];
pub const STRANGER: [u8; 20] = [0xa9; 20];
const UPDATED: &str = "e64378c8d8a289137204264780c7669f3860a703795c6f0574d925d473a4a2a7";
const UPDATED_2: &str = "18c59a580901679ceb4ee20344521bd114ce1554efea9c4a9d3cabfb0431c0cc";
const UPGRADED: &str = "bc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b";

/// A call of the proxy.
#[derive(Clone, Debug)]
pub enum Act {
    /// An update that becomes rows.
    Update(Update),
    /// Calldata, and the version and number of the event that it emits: it becomes no rows.
    Odd(Vec<u8>, u32, u64),
    /// An upgrade to an implementation.
    Upgrade([u8; 20]),
}

#[derive(Clone, Debug)]
pub struct Update {
    pub version: u32,
    pub number: u64,
    pub feeds: Vec<Value>,
    pub rows: Vec<Row>,
}

impl Update {
    pub fn calldata(&self) -> Vec<u8> {
        let header = match self.version {
            1 => numbered(self.number),
            _ => accumulated(self.number as u8, self.number as u8 + 1),
        };
        calldata(header, &self.feeds, &self.rows)
    }
}

/// How the calls of a transaction reach the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Direct,
    Safe,
    Many,
    /// In a way that the input does not show.
    Hidden,
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Sent {
    pub seed: u64,
    pub way: Way,
    pub acts: Vec<Act>,
}

/// A transaction with one call.
pub fn direct(seed: u64, act: Act) -> Sent {
    Sent {
        seed,
        way: Way::Direct,
        acts: vec![act],
    }
}

/// A value of a feed, with what makes it its own.
pub fn value(feed: u128, index: u16, seed: u64) -> Value {
    Value::new(feed, index, hash(&[seed, 3]).as_bytes())
}

/// An update of one feed of the first version; its row of the table agrees with it.
pub fn update(version: u32, number: u64, feeds: &[(u128, u16)]) -> Act {
    let mut rows: BTreeMap<u128, [u16; 16]> = BTreeMap::new();
    let mut values = Vec::new();
    for (at, (feed, index)) in feeds.iter().enumerate() {
        values.push(value(*feed, *index, number * 100 + at as u64));
        rows.entry(feed / 16).or_default()[(feed % 16) as usize] = *index;
    }
    let rows = rows
        .into_iter()
        .map(|(table_index, lanes)| Row { table_index, lanes });
    Act::Update(Update {
        version,
        number,
        feeds: values,
        rows: rows.collect(),
    })
}

/// An update of so many feeds, each with its lane in the table, and values of so many bytes.
pub fn many(version: u32, number: u64, feeds: usize, value_bytes: usize) -> Update {
    let index = (number % 8_192) as u16;
    let all: Vec<(u128, u16)> = (0..feeds as u128).map(|feed| (feed, index)).collect();
    let Act::Update(mut made) = update(version, number, &all) else {
        panic!()
    };
    for (at, feed) in made.feeds.iter_mut().enumerate() {
        feed.data = hash(&[number, at as u64]).as_bytes()[..value_bytes].to_vec();
    }
    made
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut all = number(bytes.len());
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(32), 0);
    all
}

fn number(value: usize) -> Vec<u8> {
    let mut word = vec![0; 24];
    word.extend((value as u64).to_be_bytes());
    word
}

fn input_of(sent: &Sent) -> ([u8; 20], Vec<u8>) {
    let calls: Vec<Vec<u8>> = sent.acts.iter().map(call_of).collect();
    match sent.way {
        Way::Direct => (PROXY, calls[0].clone()),
        Way::Hidden => (SAFE, b"nothing that anybody could read".to_vec()),
        Way::Safe => {
            let mut input = const_hex::decode("6a761202").unwrap();
            input.extend(word(&PROXY));
            for value in [0, 320, 0, 0, 0, 0, 0, 0] {
                input.extend(number(value));
            }
            input.extend(number(320 + padded(&calls[0]).len()));
            input.extend(padded(&calls[0]));
            input.extend(padded(b"signature"));
            (SAFE, input)
        }
        Way::Many => {
            let mut packed = Vec::new();
            for call in &calls {
                packed.push(0);
                packed.extend(PROXY);
                packed.extend(number(0));
                packed.extend(number(call.len()));
                packed.extend(call);
            }
            let mut input = const_hex::decode("8d80ff0a").unwrap();
            input.extend(number(32));
            input.extend(padded(&packed));
            (SAFE, input)
        }
    }
}

fn call_of(act: &Act) -> Vec<u8> {
    match act {
        Act::Update(update) => update.calldata(),
        Act::Odd(calldata, ..) => calldata.clone(),
        Act::Upgrade(to) => [&[0, 0, 0, 1], &to[..]].concat(),
    }
}

fn event_of(act: &Act) -> (Vec<Vec<u8>>, Vec<u8>) {
    let topic = |hex: &str| const_hex::decode(hex).unwrap();
    let updated = |version: u32, number_of: u64| {
        let topic = topic(if version == 1 { UPDATED } else { UPDATED_2 });
        (vec![topic], number(number_of as usize))
    };
    match act {
        Act::Update(update) => updated(update.version, update.number),
        Act::Odd(_, version, number) => updated(*version, *number),
        Act::Upgrade(to) => (vec![topic(UPGRADED), word(to).to_vec()], Vec::new()),
    }
}

pub fn tx_hash(sent: &Sent) -> Hash32 {
    hash(&[sent.seed, 5])
}

fn body_of(sent: &Sent) -> Bytes {
    let (to, input) = input_of(sent);
    let (hash, to, input) = (
        hex(tx_hash(sent).as_bytes()),
        hex(&to),
        const_hex::encode(input),
    );
    Bytes::from(format!(
        r#"{{"hash":"0x{hash}","from":"0x{to}","to":"0x{to}","input":"0x{input}","v":"0x0"}}"#
    ))
}

/// The one update that some transactions of fees make as well.
fn update_beside(seed: u64) -> Sent {
    let feed = (u128::from(seed % 5), (seed % 8_192) as u16);
    direct(seed, update(1, seed, &[feed]))
}

/// The ADFS events of a transaction of fees: an update, and sometimes an upgrade that changes nothing.
pub fn beside(seed: u64) -> Vec<(Vec<Vec<u8>>, Vec<u8>)> {
    let mut events = Vec::new();
    if seed.is_multiple_of(7) {
        events.push(event_of(&Act::Upgrade(FIRST)));
    }
    if seed.is_multiple_of(2) {
        events.extend(update_beside(seed).acts.iter().map(event_of));
    }
    events
}

pub fn body_beside(seed: u64) -> Bytes {
    body_of(&update_beside(seed))
}

/// Rows of feeds and newest values that blocks with transactions of fees must have.
pub fn expected_beside(blocks: &[(Block, &str)]) -> (Dump, Dump) {
    let mut all = Tables::default();
    let mut latest = BTreeMap::new();
    for (block, status) in blocks {
        let updates = block.logs.iter().filter(|log| {
            log.emitter() == PROXY && log.topic(0).map(hex).as_deref() == Some(UPDATED)
        });
        for log in updates {
            let seed = u64::from_be_bytes(log.data()[24..].try_into().unwrap());
            let place = format!(
                "{} {} {} {}",
                block.clock.number,
                hex(block.clock.hash.as_bytes()),
                hex(block.tx_hash(log.tx_index()).unwrap().as_bytes()),
                log.log_index()
            );
            let Act::Update(update) = update_beside(seed).acts.remove(0) else {
                unreachable!("it is an update");
            };
            expect_update(&mut all, &place, status, &update);
            if *status == "confirmed" {
                newest(&mut latest, &place, &update);
            }
        }
    }
    (all.feeds, latest.into_values().collect())
}

/// A block whose transactions are kept in the bytes that they hash to.
fn block_in_bytes(clock: BlockMeta, all: &[Sent]) -> Block {
    let mut block = block_of(clock, all);
    let bodies = all.iter().map(|sent| {
        let (to, input) = input_of(sent);
        let seed = [sent.seed as u8];
        let fields: [&[u8]; 9] = [
            &seed,
            &[1],
            &[2],
            &to,
            &[],
            &input,
            &[27],
            &[3; 32],
            &[4; 32],
        ];
        let fields: Vec<Vec<u8>> = fields.iter().map(|field| rlp(0x80, field)).collect();
        Bytes::from(rlp(0xc0, &fields.concat()))
    });
    let bodies: Vec<Bytes> = bodies.collect();
    for (tx, body) in block.txs.iter_mut().zip(&bodies) {
        tx.hash = Hash32(alloy_primitives::keccak256(body).0);
    }
    block.payload.bodies = Some(bodies);
    block
}

/// Bytes, or a list of such.
fn rlp(kind: u8, bytes: &[u8]) -> Vec<u8> {
    if let ([only @ ..0x80], 0x80) = (bytes, kind) {
        return vec![*only];
    }
    let mut out = match bytes.len() {
        short @ ..56 => vec![kind + short as u8],
        long @ ..256 => vec![kind + 55 + 1, long as u8],
        long => {
            let length = (long as u16).to_be_bytes();
            vec![kind + 55 + 2, length[0], length[1]]
        }
    };
    out.extend(bytes);
    out
}

fn block_of(clock: BlockMeta, all: &[Sent]) -> Block {
    let (mut logs, mut bodies) = (Vec::new(), Vec::new());
    for (at, sent) in all.iter().enumerate() {
        for act in &sent.acts {
            let (topics, data) = event_of(act);
            let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
            let parts = LogParts {
                tx_index: at as u32,
                log_index: logs.len() as u32,
                emitter: &PROXY,
                topics: &topics,
                data: &data,
                ..LogParts::default()
            };
            logs.push(Log::new(&parts).unwrap());
        }
        bodies.push(body_of(sent));
    }
    let tx = |(index, sent): (usize, &Sent)| Tx {
        index: index as u32,
        hash: tx_hash(sent),
    };
    Block {
        clock,
        txs: all.iter().enumerate().map(tx).collect(),
        logs,
        payload: Payload {
            bodies: Some(bodies),
            ..Payload::default()
        },
    }
}

impl TestChain {
    /// A block on the head with ADFS transactions.
    pub fn send(&self, fork: u64, all: &[Sent]) -> Block {
        let block = self.extend_by(fork, |clock| block_of(clock, all));
        let mut sent = self.sent.lock().unwrap();
        sent.insert(block.clock.hash, all.to_vec());
        block
    }

    /// The same, with transactions in the bytes that they hash to.
    pub fn send_in_bytes(&self, fork: u64, all: &[Sent]) -> Block {
        self.extend_by(fork, |clock| block_in_bytes(clock, all))
    }
}

pub fn settings() -> AdfsSettings {
    AdfsSettings {
        proxy: PROXY,
        start_block: 0,
        versions: [
            (1, AdfsVersion::new("DataFeedsUpdated(uint256)", true)),
            (
                2,
                AdfsVersion::new("DataFeedsUpdated(uint256,address)", false),
            ),
        ]
        .into(),
        implementations: [(FIRST, 1), (SECOND, 2)].into(),
        initial_version: None,
        code_hashes: BTreeMap::new(),
        calldata_bytes_max: 4_096,
    }
}

/// One version, so that what comes before an upgrade is of it.
pub fn settings_beside() -> AdfsSettings {
    let mut settings = settings();
    settings.versions.remove(&2);
    settings.implementations.remove(&SECOND);
    settings
}

pub fn projector(
    database: &Database,
    chain: &Arc<TestChain>,
    settings: AdfsSettings,
    holder: &str,
) -> Projector {
    let adfs = adfs(database, chain, settings);
    projector_of(database, chain, vec![adfs], 3, holder)
}

/// The ADFS contract of a chain.
pub fn adfs(database: &Database, chain: &TestChain, settings: AdfsSettings) -> Arc<dyn Projection> {
    Arc::new(Adfs::new(chain.id, settings, database.clone()).unwrap())
}

/// A table as text, in some order that is always the same.
pub type Dump = BTreeSet<String>;

/// The rows that blocks must have, by table.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Tables {
    pub events: Dump,
    pub inputs: Dump,
    pub feeds: Dump,
    pub ring: Dump,
    pub upgrades: Dump,
    pub latest: Dump,
}

/// What the tables must hold of these blocks, in the order of the chain.
pub fn expected(chain: &TestChain, blocks: &[(Block, &str)]) -> Tables {
    let sent = chain.sent.lock().unwrap();
    let mut all = Tables::default();
    let mut latest: BTreeMap<(u128, u8), String> = BTreeMap::new();
    for (block, status) in blocks {
        let at = format!(
            "{} {}",
            block.clock.number,
            hex(block.clock.hash.as_bytes())
        );
        let mut log_index = 0;
        for one in sent.get(&block.clock.hash).into_iter().flatten() {
            let tx = hex(tx_hash(one).as_bytes());
            let (_, input) = input_of(one);
            let mut version = None;
            for act in &one.acts {
                let place = format!("{at} {tx} {log_index}");
                log_index += 1;
                match act {
                    Act::Odd(..) => {}
                    Act::Upgrade(to) if *status != "dropped" => {
                        let number = if *to == SECOND { 2 } else { 1 };
                        let block = block.clock.number;
                        all.upgrades.insert(format!("{number} {} {block}", hex(to)));
                    }
                    Act::Upgrade(_) => {}
                    Act::Update(_) if one.way == Way::Hidden => {}
                    Act::Update(update) => {
                        version = version.or(Some(update.version));
                        all.events.insert(format!(
                            "{place} {status} {} {}",
                            update.version,
                            hex(&input)
                        ));
                        expect_update(&mut all, &place, status, update);
                        if *status == "confirmed" {
                            newest(&mut latest, &place, update);
                        }
                    }
                }
            }
            if let Some(version) = version {
                let bytes = if one.way == Way::Direct { 1 } else { 4 };
                let selector = hex(&input[..bytes]);
                all.inputs
                    .insert(format!("{tx} {status} {version} {selector}"));
            }
        }
    }
    all.latest = latest.into_values().collect();
    all
}

fn expect_update(all: &mut Tables, place: &str, status: &str, update: &Update) {
    let version = update.version;
    // Of those with one key the last one is what the chain has.
    let mut feeds = BTreeMap::new();
    for feed in &update.feeds {
        let key = (feed.feed_id, feed.stride, feed.rb_index);
        feeds.insert(key, hex(&feed.data));
    }
    for ((id, stride, index), data) in feeds {
        let row = format!("{place} {status} {version} {stride} {id:032x} {index} {data}");
        all.feeds.insert(row);
    }
    let rows: BTreeMap<u128, [u16; 16]> = update
        .rows
        .iter()
        .map(|row| (row.table_index, row.lanes))
        .collect();
    for (index, lanes) in rows {
        let data: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_be_bytes()).collect();
        let row = format!("{place} {status} {version} {index:032x} {}", hex(&data));
        all.ring.insert(row);
    }
}

/// One after the other: whatever comes later is newer.
fn newest(latest: &mut BTreeMap<(u128, u8), String>, place: &str, update: &Update) {
    for feed in &update.feeds {
        let (id, stride, index) = (feed.feed_id, feed.stride, feed.rb_index);
        let data = hex(&feed.data);
        let row = format!(
            "{place} {} {stride} {id:032x} {index} {data}",
            update.version
        );
        latest.insert((id, stride), row);
    }
}

async fn dump(database: &Database, sql: &str, chain: u64) -> Dump {
    let client = database.client().await.unwrap();
    let rows = client.query(sql, &[&(chain as i64)]).await.unwrap();
    let all: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    // A transaction may have been dropped with several blocks, which inputs do not name.
    let alive = || all.iter().filter(|row| !row.contains("dropped"));
    let once: BTreeSet<_> = alive().collect();
    assert_eq!(alive().count(), once.len(), "twice in: {sql}");
    all.into_iter().collect()
}

/// What the tables hold.
pub async fn stored(database: &Database, chain: u64) -> Tables {
    let place = "block_number, encode(block_hash, 'hex'), encode(tx_hash, 'hex'), log_index";
    let read = |columns: String, table: &str| {
        format!("SELECT concat_ws(' ', {columns}) FROM {table} WHERE chain_id = $1")
    };
    let hex = |column: &str| format!("encode({column}, 'hex')");
    let (data, feed) = (hex("data"), hex("feed_id"));
    Tables {
        events: dump(
            database,
            &read(
                format!("{place}, status, version, {}", hex("calldata")),
                "adfs_events",
            ),
            chain,
        )
        .await,
        inputs: dump(
            database,
            &read(
                format!("{}, status, version, {}", hex("tx_hash"), hex("selector")),
                "tx_inputs",
            ),
            chain,
        )
        .await,
        feeds: dump(
            database,
            &read(
                format!("{place}, status, version, stride, {feed}, rb_index, {data}"),
                "feed_updates",
            ),
            chain,
        )
        .await,
        ring: dump(
            database,
            &read(
                format!("{place}, status, version, {}, {data}", hex("table_index")),
                "ring_buffer_updates",
            ),
            chain,
        )
        .await,
        upgrades: dump(
            database,
            &read(
                format!("version, {}, activated_block", hex("implementation")),
                // Two upgrades of one block to one implementation look the same.
                "(SELECT DISTINCT * FROM proxy_versions) once",
            ),
            chain,
        )
        .await,
        latest: dump(
            database,
            &read(
                format!("{place}, version, stride, {feed}, rb_index, {data}"),
                "feed_latest",
            ),
            chain,
        )
        .await,
    }
}

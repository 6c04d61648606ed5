//! The rows that blocks must have, made from what was sent; and those that the tables have. Every column
//! of every table is compared.

use std::collections::BTreeMap;

use alloy_primitives::{U256, hex};
use serde_json::{Map, Value as Json, json};
use tokio_postgres::Client;

use super::ground::{Act, Ground, Mined, MinedTx, UPDATED, Update, Way};
use chronolith_sim::evm::adfs::encode::{Row, Value, feed_index, row, value};

pub const CHAIN: u64 = 31_337;
const TABLES: [&str; 7] = [
    "adfs_events",
    "tx_inputs",
    "feed_updates",
    "ring_buffer_updates",
    "proxy_versions",
    "feed_latest",
    "quarantine",
];

/// Rows by table, in some order that is always the same.
pub type Tables = BTreeMap<&'static str, Vec<String>>;

/// What the tables hold.
pub async fn stored(client: &Client) -> Tables {
    let mut all = Tables::new();
    for table in TABLES {
        // Times in a form of their own; what is said to people, and when it was written, is not compared.
        let read = format!(
            "SELECT (to_jsonb(t) - 'block_timestamp' - 'detail' - 'created_at' - 'id')::text, \
                (to_jsonb(t) ->> 'block_timestamp')::timestamptz FROM {table} t"
        );
        let read = format!(
            "SELECT t.text, extract(epoch FROM t.timestamptz)::bigint FROM ({read}) \
             AS t (text, timestamptz)"
        );
        let rows = client.query(&read, &[]).await.unwrap();
        for row in rows {
            let mut found: Json = serde_json::from_str(row.get(0)).unwrap();
            if let Some(seconds) = row.get::<_, Option<i64>>(1) {
                found["block_timestamp"] = json!(seconds);
            }
            put(&mut all, table, &found);
        }
    }
    in_order(all)
}

/// What they must hold of these blocks, in the order of the chain as it is; dropped ones first.
pub fn expected(ground: &Ground, blocks: &[(&Mined, &str)]) -> Tables {
    let mut all = Tables::new();
    let mut latest = BTreeMap::new();
    for (block, status) in blocks {
        for tx in &block.txs {
            let place = Place {
                ground,
                block,
                tx,
                status,
            };
            place.expect(&mut all, &mut latest);
        }
    }
    for row in latest.values() {
        put(&mut all, "feed_latest", row);
    }
    in_order(all)
}

/// The first rows that one has and the other has not.
pub fn difference(found: &Tables, wanted: &Tables) -> String {
    let mut message = String::new();
    let none = Vec::new();
    for table in TABLES {
        let of = |all: &Tables| all.get(table).unwrap_or(&none).clone();
        let (found, wanted) = (of(found), of(wanted));
        let only = |one: &[String], other: &[String]| {
            let only = one.iter().filter(|row| !other.contains(row));
            only.cloned().collect::<Vec<_>>()
        };
        let (odd, missing) = (only(&found, &wanted), only(&wanted, &found));
        if found != wanted {
            message += &format!(
                "{table}: {} rows, {} wanted; odd {odd:#?}; missing {missing:#?}\n",
                found.len(),
                wanted.len()
            );
        }
    }
    message
}

fn put(all: &mut Tables, table: &'static str, row: &Json) {
    all.entry(table).or_default().push(row.to_string());
}

fn in_order(mut all: Tables) -> Tables {
    all.values_mut().for_each(|rows| rows.sort());
    all
}

/// Bytes as the database shows them in JSON.
fn bytea(bytes: &[u8]) -> String {
    format!("\\x{}", hex::encode(bytes))
}

/// The same of text such as `0x00`.
fn bytea_of(text: &str) -> String {
    format!("\\x{}", text.trim_start_matches("0x"))
}

fn joined(one: &Json, other: &Json) -> Json {
    let mut all: Map<String, Json> = one.as_object().unwrap().clone();
    all.extend(other.as_object().unwrap().clone());
    Json::Object(all)
}

/// The newest values, by feed and stride.
type Latest = BTreeMap<(u128, u8), Json>;

/// A transaction in a block with a status.
struct Place<'a> {
    ground: &'a Ground,
    block: &'a Mined,
    tx: &'a MinedTx,
    status: &'a str,
}

impl Place<'_> {
    fn expect(&self, all: &mut Tables, latest: &mut Latest) {
        let mut updates = Vec::new();
        for (act, log_index, offset) in &self.tx.events {
            match act {
                Act::Upgrade(which) => self.expect_upgrade(all, *which),
                Act::Update(update) if self.is_hidden(update) => {
                    self.expect_refused(all, *log_index, "noCalldata");
                }
                Act::Guarded(_, reason) => self.expect_refused(all, *log_index, reason),
                Act::Update(update) => {
                    self.expect_event(all, update, (*log_index, *offset));
                    self.expect_feeds(all, update, *log_index);
                    self.expect_rows(all, update, *log_index);
                    if self.status == "confirmed" {
                        self.newest(latest, update, *log_index);
                    }
                    updates.push((update, *log_index, *offset));
                }
                Act::Refused(_) | Act::Starved(_) => panic!("it leaves no event"),
            }
        }
        self.expect_input(all, &updates);
    }

    fn expect_refused(&self, all: &mut Tables, log_index: u64, reason: &str) {
        let refused = json!({ "projection": "adfs", "reason": reason });
        put(all, "quarantine", &joined(&self.at(log_index), &refused));
    }

    /// Where a call left no event, nobody knows which did: of those without a number none, and of those
    /// with the same number.
    fn is_hidden(&self, update: &Update) -> bool {
        self.tx.sent.acts.iter().any(|act| match act {
            Act::Refused(other) | Act::Starved(other) => {
                update.version == 2 || update.number == other.number
            }
            _ => false,
        })
    }

    fn at(&self, log_index: u64) -> Json {
        json!({
            "chain_id": CHAIN, "block_number": self.block.number,
            "block_hash": bytea_of(&self.block.hash), "block_timestamp": self.block.timestamp,
            "tx_hash": bytea_of(&self.tx.hash), "log_index": log_index,
        })
    }

    fn of(&self, update: &Update, log_index: u64) -> Json {
        let more = json!({ "status": self.status, "version": update.version });
        joined(&self.at(log_index), &more)
    }

    /// What was in force when: only of blocks that are on the chain.
    fn expect_upgrade(&self, all: &mut Tables, which: u32) {
        if self.status == "dropped" {
            return;
        }
        let version = which.min(2);
        let row = json!({
            "chain_id": CHAIN, "version": version,
            "bytecode_hash": bytea_of(self.ground.code_hash(which)),
            "implementation": bytea_of(self.ground.implementation(which)),
            "topic_hash": bytea_of(UPDATED[version as usize - 1]),
            "activated_block": self.block.number,
        });
        put(all, "proxy_versions", &row);
    }

    fn wrapper(&self) -> &'static str {
        match self.tx.sent.way {
            Way::Direct => "direct",
            Way::Safe => "execTransaction",
            Way::Many => "multiSend",
            Way::SafeMany => "execTransaction > multiSend",
        }
    }

    fn expect_event(&self, all: &mut Tables, update: &Update, (log, offset): (u64, usize)) {
        let place = json!({ "wrapper": self.wrapper(), "offset": offset });
        let row = json!({
            "topic0": bytea_of(UPDATED[update.version as usize - 1]),
            "calldata": bytea(&self.tx.input), "calldata_level": "roots", "extra": joined(&header_of(update), &place),
        });
        put(all, "adfs_events", &joined(&self.of(update, log), &row));
    }

    fn expect_feeds(&self, all: &mut Tables, update: &Update, log_index: u64) {
        // Of those with one key the last one is what the chain has.
        let key = |feed: &Value| (feed.feed_id, feed.stride, feed.rb_index);
        let last: BTreeMap<_, _> = update.feeds.iter().map(|feed| (key(feed), feed)).collect();
        for feed in last.values() {
            let row = joined(&self.of(update, log_index), &columns_of(feed, update));
            put(all, "feed_updates", &row);
        }
    }

    fn expect_rows(&self, all: &mut Tables, update: &Update, log_index: u64) {
        let rows = update.rows.iter();
        let last: BTreeMap<u128, &Row> = rows.map(|row| (row.table_index, row)).collect();
        for (index, row) in last {
            let columns = json!({
                "table_index": bytea(&index.to_be_bytes()), "data": bytea(&lanes_of(row)),
                "extra": accumulators_of(update),
            });
            let row = joined(&self.of(update, log_index), &columns);
            put(all, "ring_buffer_updates", &row);
        }
    }

    /// One after the other: whatever comes later is newer.
    fn newest(&self, latest: &mut Latest, update: &Update, log_index: u64) {
        for (position, feed) in update.feeds.iter().enumerate() {
            let more = json!({ "version": update.version, "position": position });
            let row = joined(&self.at(log_index), &columns_of(feed, update));
            latest.insert((feed.feed_id, feed.stride), joined(&row, &more));
        }
    }

    fn expect_input(&self, all: &mut Tables, updates: &[(&Update, u64, usize)]) {
        let Some((first, ..)) = updates.first() else {
            return;
        };
        let decoded = |(update, log_index, offset): &(&Update, u64, usize)| {
            json!({
                "logIndex": log_index, "version": update.version, "wrapper": self.wrapper(),
                "offset": offset, "decoded": decoded_of(update),
            })
        };
        let selector = if self.tx.sent.way == Way::Direct {
            1
        } else {
            4
        };
        let row = json!({
            "chain_id": CHAIN, "tx_hash": bytea_of(&self.tx.hash), "status": self.status,
            "calldata_level": "roots",
            "version": first.version, "selector": bytea(&self.tx.input[..selector]),
            "decoded": { "updates": updates.iter().map(decoded).collect::<Vec<_>>() },
        });
        put(all, "tx_inputs", &row);
    }
}

fn columns_of(feed: &Value, update: &Update) -> Json {
    json!({
        "stride": feed.stride, "feed_id": bytea(&feed.feed_id.to_be_bytes()),
        "rb_index": feed.rb_index, "data": bytea(&feed.data), "extra": accumulators_of(update),
    })
}

fn accumulators_of(update: &Update) -> Json {
    if update.version == 1 {
        return json!({});
    }
    let header = update.header();
    json!({
        "sourceAccumulator": hex::encode_prefixed(&header[1..33]),
        "destinationAccumulator": hex::encode_prefixed(&header[33..65]),
    })
}

fn header_of(update: &Update) -> Json {
    match update.version {
        1 => json!({ "blockNumber": update.number.to_string() }),
        _ => accumulators_of(update),
    }
}

fn lanes_of(row: &Row) -> Vec<u8> {
    row.lanes
        .iter()
        .flat_map(|lane| lane.to_be_bytes())
        .collect()
}

/// The calldata as JSON, every entry of it, with the place where each begins.
fn decoded_of(update: &Update) -> Json {
    let mut offset = update.header().len() + 4;
    let (mut feeds, mut rows) = (Vec::new(), Vec::new());
    for (position, feed) in update.feeds.iter().enumerate() {
        let index = U256::from_be_slice(&feed_index(feed));
        feeds.push(json!({
            "position": position, "offset": offset, "stride": feed.stride,
            "feedIndex": format!("{index:#x}"), "feedId": feed.feed_id.to_string(),
            "index": feed.rb_index, "slotOffset": feed.slot_offset,
            "tableLane": lane_of(update, feed), "spill": false, "dataLen": feed.data.len(),
            "data": hex::encode_prefixed(&feed.data),
        }));
        offset += value(feed).len();
    }
    for (position, one) in update.rows.iter().enumerate() {
        let (stride, base) = (one.table_index >> 111, one.table_index % (1 << 111) * 16);
        rows.push(json!({
            "position": position, "offset": offset,
            "tableIndex": hex::encode_prefixed(one.table_index.to_be_bytes()),
            "stride": stride as u64, "feedIdBase": base.to_string(), "lanes": one.lanes,
            "data": hex::encode_prefixed(lanes_of(one)),
        }));
        offset += row(one).len();
    }
    let rest = json!({
        "hasBlockNumber": update.version == 1, "feedsLength": feeds.len(), "feeds": feeds,
        "ringBufferTable": rows, "highLanes": [], "disagreements": [],
    });
    joined(&header_of(update), &rest)
}

/// What the calldata says of a feed in its table.
fn lane_of(update: &Update, feed: &Value) -> Option<u16> {
    let index = (u128::from(feed.stride) << 111) + feed.feed_id / 16;
    let mut rows = update.rows.iter().rev();
    let row = rows.find(|row| row.table_index == index)?;
    Some(row.lanes[(feed.feed_id % 16) as usize])
}

/// Newest values and rows of the table against the contract's own storage; returns how many of both.
pub async fn assert_storage(ground: &Ground, tables: &Tables, block: u64) -> (usize, usize) {
    let parse = |row: &String| serde_json::from_str::<Json>(row).unwrap();
    let latest: Vec<Json> = tables["feed_latest"].iter().map(parse).collect();
    for row in &latest {
        let feed = U256::from_be_slice(&bytes_of(row, "feed_id"));
        let (stride, index) = (row["stride"].as_u64(), row["rb_index"].as_u64());
        let stride = stride.unwrap() as usize;
        let first = ((feed << 13) + U256::from(index.unwrap())) << stride;
        let mut slot = (U256::from(1) << (128 + stride)) + first;
        for part in bytes_of(row, "data").chunks(32) {
            // What does not fill a slot lies at its right end.
            let stored = ground.storage(&format!("{slot:#x}"), block).await;
            let stored = hex::decode(stored).unwrap();
            assert_eq!(stored[32 - part.len()..], *part, "{row}");
            slot += U256::from(1);
        }
    }
    let confirmed = tables["ring_buffer_updates"].iter().map(parse);
    let confirmed = confirmed.filter(|row| row["status"] == "confirmed");
    let place = |row: &Json| (row["block_number"].as_u64(), row["log_index"].as_u64());
    let mut newest: BTreeMap<Vec<u8>, Json> = BTreeMap::new();
    for row in confirmed {
        let known = newest.entry(bytes_of(&row, "table_index"));
        let known = known.or_insert_with(|| row.clone());
        if place(known) < place(&row) {
            *known = row;
        }
    }
    let table = (U256::from(1) << 128) - (U256::from(1) << 116);
    for (index, row) in &newest {
        let slot = table + U256::from_be_slice(index);
        let stored = ground.storage(&format!("{slot:#x}"), block).await;
        assert_eq!(hex::decode(stored).unwrap(), bytes_of(row, "data"), "{row}");
    }
    (latest.len(), newest.len())
}

fn bytes_of(row: &Json, column: &str) -> Vec<u8> {
    let text = row[column].as_str().unwrap();
    hex::decode(text.trim_start_matches("\\x")).unwrap()
}

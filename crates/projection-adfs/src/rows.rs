//! Updates of one transaction as rows.

use std::borrow::Cow;
use std::collections::HashMap;

use alloy_primitives::Address;
use bytes::Bytes;
use chronolith_evm::Body;
use chronolith_model::{Hash32, Proof, Verification};
use chronolith_projection::{BlockLog, Refusal, Rows, Table, TableRole};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::calldata::{Profile, block_number, decode};
use crate::decoded::{Decoded, Header};
use crate::fault::Reason;
use crate::pair::{Pairing, event_block_number, pair};
use crate::to_bytes16;
use crate::unwrap::{Call, find};

/// The projection's name.
pub(crate) const NAME: &str = "adfs";

/// There is no calldata for an event, and only a call trace could show it.
const NO_CALLDATA: &str = "noCalldata";
/// The only calldata that may be an event's says another block number.
pub(crate) const OTHER_NUMBER: &str = "blockNumber";
/// An event of another version than the one in force.
const OTHER_VERSION: &str = "otherVersion";

/// Bytes that the events of one transaction may take with them: each keeps the whole input, so that of
/// many small updates in a large one there would be more than memory holds.
const INPUTS_BYTES_MAX: usize = 64 << 20;

const UNKNOWN_CALL: (&str, &str) = (
    NO_CALLDATA,
    "it is unknown which call of the proxy emitted the event",
);
const DISAGREES: (&str, &str) = (
    OTHER_NUMBER,
    "the call says another block number than the event, which the contract takes from the call",
);

pub(crate) const EVENTS: Table = Table {
    name: "adfs_event_rows",
    columns: &[
        "log_index",
        "topic0",
        "version",
        "calldata",
        "extra",
        "calldata_level",
    ],
    role: TableRole::Events,
};
const INPUTS: Table = Table {
    name: "tx_input_rows",
    columns: &["version", "selector", "decoded", "calldata_level"],
    role: TableRole::Details,
};
pub(crate) const FEEDS: Table = Table {
    name: "feed_update_rows",
    columns: &[
        "log_index",
        "position",
        "version",
        "stride",
        "feed_id",
        "rb_index",
        "data",
        "extra",
    ],
    role: TableRole::Details,
};
const RING: Table = Table {
    name: "ring_buffer_update_rows",
    columns: &[
        "log_index",
        "position",
        "version",
        "table_index",
        "data",
        "extra",
    ],
    role: TableRole::Details,
};
const VERSIONS: Table = Table {
    name: "proxy_version_rows",
    columns: &["log_index", "version", "implementation", "topic_hash"],
    role: TableRole::Sparse,
};
/// All of them.
pub(crate) const TABLES: &[&Table] = &[&EVENTS, &INPUTS, &FEEDS, &RING, &VERSIONS];

/// A version as rows need it.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) number: u32,
    pub(crate) topic0: [u8; 32],
    pub(crate) profile: Profile,
}

/// What is the same for all rows.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) chain: i64,
    pub(crate) proxy: Address,
}

/// An event, and the version in force where it is.
pub(crate) struct Event<'a> {
    pub(crate) found: &'a BlockLog<'a>,
    pub(crate) version: &'a Version,
}

/// What is needed of a transaction that is archived as JSON.
#[derive(Deserialize)]
struct JsonBody<'a> {
    #[serde(borrow)]
    hash: Cow<'a, str>,
    #[serde(borrow, default)]
    to: Option<Cow<'a, str>>,
    /// Some nodes serve it under both names.
    #[serde(borrow, default)]
    input: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
}

/// Who was called, and with what.
pub(crate) struct Input {
    to: Option<Address>,
    bytes: Vec<u8>,
    /// `roots` where it is in the bytes that the block's transactions root is over.
    level: Verification,
}

impl Input {
    /// The transaction with a hash: where it should be, or wherever it is. JSON is proven by nothing.
    pub(crate) fn of(bodies: &Bodies, index: u32, hash: &Hash32) -> Option<Self> {
        let expected = bodies.stored.get(index as usize);
        let mut all = expected.into_iter().chain(&bodies.stored);
        all.find_map(|stored| match Body::parse(stored).ok()? {
            Body::Json(json) => Self::of_json(json, hash),
            body => {
                let named = body.hash().is_some_and(|found| found.0 == hash.0);
                let call = named.then(|| body.call().ok()).flatten().flatten()?;
                Some(Self {
                    to: call.to,
                    bytes: call.input.to_vec(),
                    level: bodies.proof.txs(),
                })
            }
        })
    }

    fn of_json(json: &[u8], hash: &Hash32) -> Option<Self> {
        let body: JsonBody<'_> = serde_json::from_slice(json).ok()?;
        let named = const_hex::decode(body.hash.as_bytes());
        named.ok().filter(|found| found == hash.as_bytes())?;
        let to = body.to.map(|to| to.parse::<Address>()).transpose().ok()?;
        let bytes = const_hex::decode(body.input.or(body.data)?.as_bytes()).ok()?;
        Some(Self {
            to,
            bytes,
            level: Verification::Claimed,
        })
    }

    /// What rows without a column for it say, where it is not proven.
    fn doubt(&self) -> Option<(String, Value)> {
        let named = || ("calldataLevel".to_owned(), json!(self.level.as_str()));
        (self.level < Verification::Roots).then(named)
    }
}

/// Bodies of a block's transactions, and how far the block is proven.
#[derive(Debug)]
pub(crate) struct Bodies {
    pub(crate) stored: Vec<Bytes>,
    pub(crate) proof: Proof,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            stored: Vec::new(),
            proof: Proof::CLAIMED,
        }
    }
}

/// Writes down an upgrade.
pub(crate) fn put_upgrade(
    rows: &mut Rows,
    place: Place,
    event: &Event<'_>,
    implementation: &[u8; 20],
) {
    let (found, version) = (event.found, event.version);
    rows.row(&VERSIONS, place.chain, found)
        .int4(found.log.log_index())
        .int4(version.number)
        .bytes(implementation)
        .bytes(&version.topic0)
        .finish();
}

/// Writes down the events of one transaction: as rows, or as what could not be projected.
pub(crate) fn put_transaction(
    rows: &mut Rows,
    place: Place,
    events: &[Event<'_>],
    input: Option<&Input>,
) {
    let mut due = Vec::new();
    for event in events {
        if event.found.log.topic(0) == Some(event.version.topic0.as_slice()) {
            due.push(event);
        } else {
            let why = format!("version {} is in force here", event.version.number);
            refuse(rows, place, event.found, (OTHER_VERSION, &why));
        }
    }
    let (Some(first), Some(input)) = (due.first(), input) else {
        let why = "the body of the transaction cannot be read";
        let none = |event: &&Event<'_>| refuse(rows, place, event.found, (NO_CALLDATA, why));
        return due.iter().for_each(none);
    };
    let calls = match calls_of(place, due.len(), input) {
        Ok(calls) => calls,
        Err((reason, why)) => {
            let none = |event: &&Event<'_>| refuse(rows, place, event.found, (reason, &why));
            return due.iter().for_each(none);
        }
    };
    let form = first.version.profile.header;
    // Where versions change within the transaction it is open which call is of which, and what is a number
    // in one is something else in another.
    let is_one = due.iter().all(|event| event.version.profile.header == form);
    let number = |call: &Call<'_>| block_number(call.calldata, form).filter(|_| is_one);
    let numbers: Vec<_> = calls.iter().map(number).collect();
    let numbered = due
        .iter()
        .map(|event| event_block_number(event.found.log.data()));
    let numbered: Vec<_> = numbered.collect();
    let mut updates = Vec::new();
    for (event, pairing) in due.iter().zip(pair(&numbers, &numbered)) {
        let (call, why) = match pairing {
            Pairing::ByNumber(at) | Pairing::ByOrder(at) => (calls.get(at), UNKNOWN_CALL),
            Pairing::Alone => (None, UNKNOWN_CALL),
            Pairing::Disagreeing => (None, DISAGREES),
        };
        let Some(call) = call else {
            refuse(rows, place, event.found, why);
            continue;
        };
        match decode(call.calldata, &event.version.profile) {
            Ok(decoded) => updates.push((*event, call, decoded)),
            Err(fault) => {
                let why = fault.to_string();
                refuse(rows, place, event.found, (fault.reason().as_str(), &why));
            }
        }
    }
    for (event, call, decoded) in &updates {
        put_event(rows, place, event, (call, decoded, input));
        put_feeds(rows, place, event, (decoded, input));
        put_ring(rows, place, event, (decoded, input));
    }
    put_input(rows, place, &updates, input);
}

/// The updates in a transaction with this many events, or why none of them can be projected.
fn calls_of(
    place: Place,
    events: usize,
    input: &Input,
) -> Result<Vec<Call<'_>>, (&'static str, String)> {
    let bytes = input.bytes.len();
    if events.saturating_mul(bytes) > INPUTS_BYTES_MAX {
        let why = format!(
            "the input is larger than the limit as often as it would be kept (events={events}, \
             bytes={bytes}, limit={INPUTS_BYTES_MAX})"
        );
        return Err((Reason::CalldataSize.as_str(), why));
    }
    let found = find(input.to, &input.bytes, place.proxy);
    found.map_err(|none| (NO_CALLDATA, none.to_string()))
}

pub(crate) fn refuse(
    rows: &mut Rows,
    place: Place,
    found: &BlockLog<'_>,
    (reason, detail): (&str, &str),
) {
    let refusal = Refusal {
        projection: NAME,
        reason,
        detail,
    };
    rows.quarantine(place.chain, found, refusal);
}

fn put_event(
    rows: &mut Rows,
    place: Place,
    event: &Event<'_>,
    (call, decoded, input): (&Call<'_>, &Decoded, &Input),
) {
    let found = event.found;
    rows.row(&EVENTS, place.chain, found)
        .int4(found.log.log_index())
        .bytes(&event.version.topic0)
        .int4(event.version.number)
        .bytes(&input.bytes)
        .json(&Value::Object(extra_of(found, call, decoded)))
        .text(input.level.as_str())
        .finish();
}

/// What there is to say of an event beside its columns.
fn extra_of(found: &BlockLog<'_>, call: &Call<'_>, decoded: &Decoded) -> Map<String, Value> {
    let mut extra = decoded.header.extra();
    extra.insert("wrapper".to_owned(), json!(call.wrappers.to_string()));
    extra.insert("offset".to_owned(), json!(call.offset));
    if let Header::BlockNumber(number) = decoded.header {
        extra.insert("blockNumber".to_owned(), json!(number.to_string()));
        let in_event = event_block_number(found.log.data());
        if in_event != Some(number) {
            let in_event = in_event.map(|number| number.to_string());
            extra.insert("eventBlockNumber".to_owned(), json!(in_event));
        }
    }
    let apart = decoded.disagreements.iter();
    let apart = apart
        .map(|it| json!({ "position": it.feed, "index": it.rb_index, "tableLane": it.table_lane }));
    let high = decoded.high_lanes.iter();
    let high = high.map(|it| json!({ "position": it.row, "lane": it.lane, "value": it.value }));
    let lists: [(&str, Vec<Value>); 2] = [
        ("disagreements", apart.collect()),
        ("highLanes", high.collect()),
    ];
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        extra.insert(name.to_owned(), Value::Array(list));
    }
    extra
}

fn put_feeds(
    rows: &mut Rows,
    place: Place,
    event: &Event<'_>,
    (decoded, input): (&Decoded, &Input),
) {
    let found = event.found;
    let mut common = decoded.header.extra();
    common.extend(input.doubt());
    // A value that another one of the same calldata comes after is not where the table points to, and
    // nothing is odd about that.
    let apart = decoded.disagreements.iter();
    let apart: HashMap<u32, u16> = apart.map(|one| (one.feed, one.table_lane)).collect();
    for feed in decoded.distinct_feeds() {
        let mut extra = common.clone();
        if feed.slot_offset != 0 {
            extra.insert("slotOffset".to_owned(), json!(feed.slot_offset));
        }
        if feed.spill {
            extra.insert("spill".to_owned(), json!(true));
        }
        if let Some(lane) = apart.get(&feed.position) {
            extra.insert("tableLane".to_owned(), json!(lane));
        }
        rows.row(&FEEDS, place.chain, found)
            .int4(found.log.log_index())
            .int4(feed.position)
            .int4(event.version.number)
            .int2(feed.stride.into())
            .bytes(&to_bytes16(feed.feed_id))
            .int2(feed.rb_index)
            .bytes(&feed.data)
            .json(&Value::Object(extra))
            .finish();
    }
}

fn put_ring(
    rows: &mut Rows,
    place: Place,
    event: &Event<'_>,
    (decoded, input): (&Decoded, &Input),
) {
    let found = event.found;
    let mut common = decoded.header.extra();
    common.extend(input.doubt());
    for row in decoded.distinct_rows() {
        let mut extra = common.clone();
        let stored = row.stored();
        if stored != row.data {
            let sent = const_hex::encode_prefixed(row.data);
            extra.insert("sent".to_owned(), json!(sent));
        }
        rows.row(&RING, place.chain, found)
            .int4(found.log.log_index())
            .int4(row.position)
            .int4(event.version.number)
            .bytes(&to_bytes16(row.table_index))
            .bytes(&stored)
            .json(&Value::Object(extra))
            .finish();
    }
}

/// One row for the whole transaction, with all of its updates.
fn put_input(
    rows: &mut Rows,
    place: Place,
    updates: &[(&Event<'_>, &Call<'_>, Decoded)],
    input: &Input,
) {
    let Some((event, first, _)) = updates.first() else {
        return;
    };
    let update = |(event, call, decoded): &(&Event<'_>, &Call<'_>, Decoded)| {
        json!({
            "logIndex": event.found.log.log_index(),
            "version": event.version.number,
            "wrapper": call.wrappers.to_string(),
            "offset": call.offset,
            "decoded": decoded.to_json(),
        })
    };
    let all: Vec<Value> = updates.iter().map(update).collect();
    // The contract's own selector is one byte, that of a wrapper four.
    let length = if first.offset == 0 { 1 } else { 4 };
    let selector = input.bytes.get(..length).unwrap_or_default();
    rows.row(&INPUTS, place.chain, event.found)
        .int4(event.version.number)
        .bytes(selector)
        .json(&json!({ "updates": all }))
        .text(input.level.as_str())
        .finish();
}

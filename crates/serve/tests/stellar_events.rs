//! `getEvents` against a naive look at every decoded event: random filters, pages of every length, cursors
//! at every event, out of archive and tail.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use bytes::Bytes;
use chrono::DateTime;
use chronolith_archive::LogRecord;
use chronolith_serve::http::Limits;
use chronolith_sim::stellar::{Made, MadeEvent, StellarSettings};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use stellar_strkey::Contract;
use stellar_support::{Rpc, World, base64, hex};
use stellar_xdr::ContractEventType;

const LEDGERS: u32 = 60;

struct Events {
    world: World,
    /// In the order of their ids.
    all: Vec<Known>,
}

/// An event, taken apart once.
struct Known {
    ledger: u32,
    kind: &'static str,
    contract: Option<[u8; 32]>,
    topics: Vec<Bytes>,
    made: MadeEvent,
    told: Value,
}

impl Events {
    fn new(seed: u64) -> Self {
        // Events begin with V1, and V2 has all sorts of them.
        let settings = StellarSettings {
            v1_from: 6,
            v2_from: 14,
            ..StellarSettings::new(seed)
        };
        let world = World::new(settings, LEDGERS);
        let all = world.made.iter().flat_map(|made| {
            let events = made.events().into_iter();
            events.map(|event| Known {
                ledger: made.sequence,
                kind: kind(&event),
                contract: event.contract_id(),
                topics: event.topics(),
                told: told(made, &event),
                made: event,
            })
        });
        let all: Vec<_> = all.collect();
        assert!(all.len() > 300, "{}", all.len());
        Self { world, all }
    }
}

fn strkey(contract: [u8; 32]) -> String {
    Contract(contract).to_string().as_str().to_owned()
}

fn kind(event: &MadeEvent) -> &'static str {
    match event.event.type_ {
        ContractEventType::System => "system",
        ContractEventType::Contract => "contract",
        ContractEventType::Diagnostic => "diagnostic",
    }
}

/// What must be told of an event.
fn told(made: &Made, event: &MadeEvent) -> Value {
    let closed = DateTime::from_timestamp(made.close_time as i64, 0).unwrap();
    let mut told = json!({
        "type": kind(event),
        "ledger": made.sequence,
        "ledgerClosedAt": closed.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "contractId": event.contract_id().map(strkey).unwrap_or_default(),
        "id": event.id.to_string(),
        "operationIndex": event.id.operation,
        "transactionIndex": event.id.tx,
        "txHash": hex(&made.txs[event.tx_position as usize].hash),
        "inSuccessfulContractCall": event.success,
        "value": base64(&event.value()),
    });
    let topics: Vec<String> = event.topics().iter().map(|topic| base64(topic)).collect();
    if !topics.is_empty() {
        told["topic"] = json!(topics);
    }
    told
}

/// Everything that is wanted, page by page.
async fn pages(rpc: &Rpc, (start, limit): (u32, usize), filters: &Value) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut requested = json!({
        "startLedger": start, "filters": filters, "pagination": { "limit": limit },
    });
    loop {
        let mut page = rpc.result("getEvents", requested).await;
        let events = page["events"].as_array_mut().unwrap().split_off(0);
        let cursor = page["cursor"].as_str().unwrap().to_owned();
        assert!(events.len() <= limit);
        let is_full = events.len() == limit;
        if is_full {
            assert_eq!(
                events[limit - 1]["id"],
                cursor,
                "a full page ends with its last event"
            );
        }
        found.extend(events);
        // The newest ledger was looked through.
        if !is_full && cursor.ends_with("-4294967295") {
            let latest = page["latestLedger"].as_u64().unwrap();
            let number: u64 = cursor.split_once('-').unwrap().0.parse().unwrap();
            assert_eq!(number >> 32, latest);
            return found;
        }
        requested =
            json!({ "filters": filters, "pagination": { "limit": limit, "cursor": cursor } });
    }
}

/// A filter as it is asked, and as a naive reader takes it.
#[derive(Clone, Debug, Default)]
struct Naive {
    kinds: Vec<&'static str>,
    contracts: Vec<[u8; 32]>,
    patterns: Vec<(Vec<Option<Bytes>>, bool)>,
}

impl Naive {
    fn draw(rng: &mut StdRng, events: &[Known]) -> Self {
        let mut filter = Self::default();
        match rng.random_range(0..6) {
            0 => filter.kinds = vec!["system"],
            1 => filter.kinds = vec!["contract"],
            2 => filter.kinds = vec!["system", "contract"],
            _ => {}
        }
        let some = |rng: &mut StdRng| events.choose(rng).unwrap();
        for _ in 0..rng.random_range(0..3) {
            let contract = some(rng).contract;
            filter.contracts.push(contract.unwrap_or([7; 32]));
        }
        for _ in 0..rng.random_range(0..4) {
            let topics = some(rng).topics.clone();
            let mut pattern: Vec<Option<Bytes>> = topics.into_iter().map(Some).collect();
            pattern.truncate(4);
            for one in &mut pattern {
                if rng.random_bool(0.6) {
                    *one = None;
                }
            }
            if rng.random_bool(0.4) {
                pattern.truncate(rng.random_range(0..=pattern.len()));
            }
            // A pattern is not empty, and has any topics where it only says that there are more.
            let is_open = pattern.is_empty() || rng.random_bool(0.5);
            filter.patterns.push((pattern, is_open));
        }
        filter
    }

    fn as_json(&self) -> Value {
        let mut filter = json!({});
        if !self.kinds.is_empty() {
            filter["type"] = json!(self.kinds.join(","));
        }
        if !self.contracts.is_empty() {
            let contracts = self.contracts.iter().copied().map(strkey);
            filter["contractIds"] = contracts.collect();
        }
        if !self.patterns.is_empty() {
            let pattern = |(positions, is_open): &(Vec<Option<Bytes>>, bool)| -> Value {
                let one = |wanted: &Option<Bytes>| match wanted {
                    None => "*".to_owned(),
                    Some(value) => base64(value),
                };
                let rest = is_open.then(|| "**".to_owned());
                positions.iter().map(one).chain(rest).collect()
            };
            filter["topics"] = self.patterns.iter().map(pattern).collect();
        }
        filter
    }

    fn wants(&self, event: &Known) -> bool {
        let topics = &event.topics;
        let fits = |(positions, is_open): &(Vec<Option<Bytes>>, bool)| {
            let count = match is_open {
                true => topics.len() >= positions.len(),
                false => topics.len() == positions.len(),
            };
            let mut both = positions.iter().zip(topics);
            count && both.all(|(wanted, topic)| wanted.as_ref().is_none_or(|value| value == topic))
        };
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && (self.contracts.is_empty()
                || event
                    .contract
                    .is_some_and(|id| self.contracts.contains(&id)))
            && (self.patterns.is_empty() || self.patterns.iter().any(fits))
    }
}

#[tokio::test]
async fn every_event_comes_once_and_in_the_order_of_ids() {
    let events = Events::new(21);
    let all: Vec<Value> = events.all.iter().map(|event| event.told.clone()).collect();
    for in_tail in [0, 7, LEDGERS as usize] {
        let rpc = events.world.serve(in_tail).await;
        for limit in [1, 2, 3, 10, 97, 100, 1_000, 10_000] {
            if limit < 10 && in_tail == 7 {
                continue;
            }
            let found = pages(&rpc, (2, limit), &json!([])).await;
            assert!(
                found == all,
                "limit {limit}: {} of {}",
                found.len(),
                all.len()
            );
        }
    }
}

/// Ids order the events of a ledger otherwise than the archive does: none is lost where a page ends in the
/// middle of one.
#[tokio::test]
async fn a_page_may_begin_behind_any_event() {
    let events = Events::new(22);
    let all: Vec<Value> = events.all.iter().map(|event| event.told.clone()).collect();
    let rpc = events.world.serve(9).await;
    for (at, event) in all.iter().enumerate() {
        let requested = json!({ "pagination": { "cursor": event["id"], "limit": 5 } });
        let page = rpc.result("getEvents", requested).await;
        let rest = &all[at + 1..];
        let rest = &rest[..rest.len().min(5)];
        assert_eq!(page["events"], json!(rest), "behind {}", event["id"]);
    }
}

#[tokio::test]
async fn filters_find_what_a_naive_look_finds() {
    let mut rng = StdRng::seed_from_u64(5);
    let (mut hits, mut with_none, mut partly) = (0, 0, 0);
    for seed in [23, 24] {
        let events = Events::new(seed);
        for in_tail in [0, 12] {
            let rpc = events.world.serve(in_tail).await;
            for _ in 0..40 {
                let filters: Vec<Naive> = (0..rng.random_range(1..=5))
                    .map(|_| Naive::draw(&mut rng, &events.all))
                    .collect();
                let requested: Value = filters.iter().map(Naive::as_json).collect();
                let start = rng.random_range(2..2 + LEDGERS);
                let wanted: Vec<Value> = events
                    .all
                    .iter()
                    .filter(|event| {
                        event.ledger >= start && filters.iter().any(|filter| filter.wants(event))
                    })
                    .map(|event| event.told.clone())
                    .collect();
                let limit = match wanted.len() {
                    0..60 => *[1, 3, 17].choose(&mut rng).unwrap(),
                    _ => *[17, 60, 100].choose(&mut rng).unwrap(),
                };
                let found = pages(&rpc, (start, limit), &requested).await;
                let counts = (found.len(), wanted.len());
                assert!(
                    found == wanted,
                    "{counts:?} from {start}, limit {limit}: {requested}"
                );
                hits += found.len();
                with_none += usize::from(wanted.is_empty());
                partly += usize::from(!wanted.is_empty() && wanted.len() < events.all.len() / 2);
            }
        }
    }
    // Neither everything nor nothing is asked for.
    assert!(
        hits > 2_000 && with_none > 2 && partly > 40,
        "{hits} {with_none} {partly}"
    );
}

#[tokio::test]
async fn ledgers_up_to_the_end_and_no_further() {
    let events = Events::new(25);
    let rpc = events.world.serve(5).await;
    for (start, end) in [(2, 3), (10, 10), (15, 30), (40, 1_000_000), (61, 62)] {
        let requested =
            json!({ "startLedger": start, "endLedger": end, "pagination": { "limit": 10_000 } });
        let page = rpc.result("getEvents", requested).await;
        let wanted: Vec<Value> = events
            .all
            .iter()
            .filter(|event| (start..end).contains(&event.ledger))
            .map(|event| event.told.clone())
            .collect();
        assert_eq!(page["events"], json!(wanted), "{start} to {end}");
        // Behind the last ledger that was looked at, whatever it held.
        let last = u64::from(end.min(events.world.latest() + 1) - 1);
        let cursor = format!("{:019}-4294967295", (last << 32) + 0xffff_ffff);
        assert_eq!(page["cursor"], cursor, "{start} to {end}");
    }
    let last = &events.world.made[events.world.made.len() - 1];
    let page = rpc.result("getEvents", json!({ "startLedger": 2 })).await;
    assert_eq!(page["events"].as_array().unwrap().len(), 100);
    assert_eq!(page["latestLedgerCloseTime"], last.close_time.to_string());
    assert_eq!(
        page["oldestLedgerCloseTime"],
        events.world.made[0].close_time.to_string()
    );
}

#[tokio::test]
async fn a_page_is_cut_where_it_would_be_too_large() {
    let events = Events::new(26);
    let all: Vec<Value> = events.all.iter().map(|event| event.told.clone()).collect();
    for answer_bytes in [1, 20_000] {
        let limits = Limits {
            answer_bytes,
            ..Limits::default()
        };
        let rpc = Rpc::new(&events.world.network, events.world.blocks(), 3, limits).await;
        let (mut found, mut requested) = (
            Vec::new(),
            json!({ "startLedger": 2, "pagination": { "limit": 1_000 } }),
        );
        let mut counts = Vec::new();
        while found.len() < all.len() {
            let mut page = rpc.result("getEvents", requested).await;
            let events = page["events"].as_array_mut().unwrap().split_off(0);
            assert!(!events.is_empty(), "{page}");
            counts.push(events.len());
            found.extend(events);
            requested = json!({ "pagination": { "limit": 1_000, "cursor": page["cursor"] } });
        }
        assert!(found == all);
        assert!(counts.len() > 5, "{counts:?}");
    }
}

/// Each page that was read used to stay counted, also where all of its events were rejected: one call took the memory
/// of the answers to everybody.
#[tokio::test]
async fn events_that_are_rejected_take_no_memory() {
    let events = Events::new(29);
    let wanted = events.all.iter().filter(|event| event.kind == "system");
    let wanted: Vec<Value> = wanted.map(|event| event.told.clone()).collect();
    assert!(!wanted.is_empty());
    let blocks = events.world.blocks();
    let logs = blocks.iter().flat_map(|block| &block.logs);
    let bytes: usize = logs
        .map(|log| log.byte_len() + size_of::<LogRecord>())
        .sum();
    // Three quarters are for large answers: most of the logs fit, and not all of them.
    let limits = Limits {
        unread_bytes: bytes * 8 / 7,
        ..Limits::default()
    };
    let rpc = Rpc::new(&events.world.network, blocks, 0, limits).await;
    let requested = json!({
        "startLedger": 2,
        "filters": [{ "type": "system" }],
        "pagination": { "limit": wanted.len() + 1 },
    });
    let page = rpc.result("getEvents", requested).await;
    assert_eq!(page["events"], json!(wanted));
    let cursor = page["cursor"].as_str().unwrap();
    assert!(cursor.ends_with("-4294967295"), "{cursor}");
}

/// However few ledgers a call may look through: nothing comes twice, nothing is left out, and the cursor of a
/// page that is not full stands behind the last of them.
#[tokio::test]
async fn pages_end_where_enough_ledgers_were_looked_through() {
    let events = Events::new(28);
    let all: Vec<Value> = events.all.iter().map(|event| event.told.clone()).collect();
    for page_ledgers in [2, 3, 7, u64::from(LEDGERS) - 1] {
        let limits = Limits {
            page_ledgers,
            ..Limits::default()
        };
        let rpc = Rpc::new(&events.world.network, events.world.blocks(), 3, limits).await;
        for limit in [1, 5, 10_000] {
            let mut requested = json!({ "startLedger": 2, "pagination": { "limit": limit } });
            let (mut found, mut next) = (Vec::new(), 2);
            while next <= u64::from(events.world.latest()) {
                let mut page = rpc.result("getEvents", requested).await;
                let some = page["events"].as_array_mut().unwrap().split_off(0);
                let cursor = page["cursor"].as_str().unwrap();
                let at = cursor.split_once('-').unwrap().0.parse::<u64>().unwrap() >> 32;
                let most = next + page_ledgers - 1;
                let ledgers = some.iter().map(|event| event["ledger"].as_u64().unwrap());
                assert!(ledgers.max() <= Some(most), "{limit} from {next}: {cursor}");
                let is_whole = cursor.ends_with("-4294967295");
                if some.len() < limit {
                    let end = most.min(events.world.latest().into());
                    assert!(is_whole && at == end, "{limit} from {next}: {cursor}");
                }
                next = at + u64::from(is_whole);
                found.extend(some);
                requested = json!({ "pagination": { "limit": limit, "cursor": cursor } });
            }
            assert!(found == all, "{page_ledgers} ledgers, {limit} events");
        }
    }
}

#[tokio::test]
async fn json_says_what_the_xdr_says() {
    let events = Events::new(27);
    let rpc = events.world.serve(5).await;
    let requested =
        json!({ "startLedger": 2, "xdrFormat": "json", "pagination": { "limit": 10_000 } });
    let page = rpc.result("getEvents", requested).await;
    let found = page["events"].as_array().unwrap();
    assert_eq!(found.len(), events.all.len());
    for (event, known) in found.iter().zip(&events.all) {
        let stellar_xdr::ContractEventBody::V0(body) = &known.made.event.body;
        assert_eq!(
            event["valueJson"],
            serde_json::to_value(&body.data).unwrap()
        );
        let topics: Vec<Value> = body
            .topics
            .iter()
            .map(|one| serde_json::to_value(one).unwrap())
            .collect();
        let shown = event.get("topicJson").cloned().unwrap_or(json!([]));
        assert_eq!(shown, json!(topics));
        assert!(event.get("value").is_none() && event.get("topic").is_none());
    }
}

//! What the tests of fees share: a database with made-up events of two chains, what must be told of
//! them, and asking for it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test file uses its own part, and a test may panic"
)]

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use chronolith_projection::{Database, Month, Passwords, partitions, set_up};
use chronolith_projection_fees::FeesKind;
use chronolith_serve::chain::ServedChains;
use chronolith_serve::health::ChainHealth;
use chronolith_serve::health::Probe;
use chronolith_serve::http::Limits;
use chronolith_serve::http::{HeavyWork, public_router};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

/// 2024-02-20T00:00:00Z. A block every twelve hours leads through three months.
pub const START: u64 = 1_708_387_200;
pub const BLOCK_SECONDS: u64 = 43_200;
pub const CHAINS: [u64; 2] = [1, 137];
/// It is projected, and has no events.
pub const EMPTY_CHAIN: u64 = 10;
pub const BLOCKS: u64 = 80;
/// The last final block.
pub const SAFE: u64 = 70;
pub const EVENTS: [&str; 4] = [
    "FeesCollected",
    "FeesWithdrawn",
    "LiFiFeesWithdrawn",
    "FeesForwarded",
];

/// An event, and what must be told of it.
#[derive(Clone, Debug)]
pub struct Made {
    pub chain: u64,
    pub block: u64,
    pub hash: [u8; 32],
    pub time: u64,
    pub tx: [u8; 32],
    pub log: u32,
    pub position: u32,
    pub event: &'static str,
    pub token: [u8; 20],
    pub integrator: Option<[u8; 20]>,
    pub fees: Option<(U256, U256)>,
    pub recipient: Option<[u8; 20]>,
    pub amount: Option<U256>,
    pub dropped: bool,
}

impl Made {
    /// One that was collected, in the first block.
    pub fn collected(chain: u64, block: u64, log: u32) -> Self {
        let mut tx = [0; 32];
        tx[..8].copy_from_slice(&chain.to_be_bytes());
        tx[8..16].copy_from_slice(&block.to_be_bytes());
        tx[16..20].copy_from_slice(&log.to_be_bytes());
        Self {
            chain,
            block,
            hash: hash_of(chain, block, 0),
            time: START + block * BLOCK_SECONDS,
            tx,
            log,
            position: 0,
            event: "FeesCollected",
            token: [0; 20],
            integrator: Some([0x11; 20]),
            fees: Some((U256::from(10 * block), U256::from(log))),
            recipient: None,
            amount: None,
            dropped: false,
        }
    }

    pub fn status(&self) -> &'static str {
        match (self.dropped, self.block <= SAFE) {
            (true, _) => "dropped",
            (false, true) => "confirmed",
            (false, false) => "pending",
        }
    }

    pub fn as_json(&self) -> Value {
        let address = |bytes: [u8; 20]| Address::from(bytes).to_checksum(None);
        json!({
            "chainId": self.chain, "blockNumber": self.block, "blockHash": hex(&self.hash),
            "timestamp": self.time, "transactionHash": hex(&self.tx), "logIndex": self.log,
            "position": self.position, "event": self.event, "status": self.status(),
            "contract": address([0xfe; 20]), "token": address(self.token),
            "integrator": self.integrator.map(address),
            "integratorFee": self.fees.map(|(one, _)| one.to_string()),
            "lifiFee": self.fees.map(|(_, two)| two.to_string()),
            "recipient": self.recipient.map(address),
            "amount": self.amount.map(|amount| amount.to_string()),
        })
    }

    fn as_values(&self) -> String {
        let bytes = |bytes: &[u8]| format!("'\\x{}'", const_hex::encode(bytes));
        let maybe = |text: Option<String>| text.unwrap_or_else(|| "NULL".to_owned());
        format!(
            "({}, {}, {}, to_timestamp({}), {}, {}, {}, '{}', {}, {}, {}, {}, {}, {}, {})",
            self.chain,
            self.block,
            bytes(&self.hash),
            self.time,
            bytes(&self.tx),
            self.log,
            self.position,
            self.event,
            bytes(&[0xfe; 20]),
            bytes(&self.token),
            maybe(self.integrator.map(|who| bytes(&who))),
            maybe(self.fees.map(|(one, _)| one.to_string())),
            maybe(self.fees.map(|(_, two)| two.to_string())),
            maybe(self.recipient.map(|who| bytes(&who))),
            maybe(self.amount.map(|amount| amount.to_string())),
        )
    }
}

/// The hash of a block: 0 is the one that stayed, the others were dropped.
pub fn hash_of(chain: u64, block: u64, fork: u8) -> [u8; 32] {
    let mut hash = [fork; 32];
    // Of two forks either may have the larger hash.
    hash[0] = (block as u8).wrapping_mul([31, 77, 113][usize::from(fork)]);
    hash[8..16].copy_from_slice(&chain.to_be_bytes());
    hash[16..24].copy_from_slice(&block.to_be_bytes());
    hash
}

pub fn hex(bytes: &[u8]) -> String {
    const_hex::encode_prefixed(bytes)
}

/// Events of both chains in the same blocks, some of them in blocks that were dropped.
pub fn made_up(seed: u64) -> Vec<Made> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    for chain in CHAINS {
        for block in 0..BLOCKS {
            // Some blocks were dropped twice, with events at the same places.
            let forks = if block % 4 == 0 { 3 } else { 1 };
            for fork in 0..forks {
                for log in 0..random.random_range(0..4) {
                    all.extend(made_up_log(&mut random, chain, block, (log, fork)));
                }
            }
        }
    }
    all
}

fn made_up_log(random: &mut StdRng, chain: u64, block: u64, (log, fork): (u32, u8)) -> Vec<Made> {
    let dropped = fork > 0;
    let mut one = Made {
        hash: hash_of(chain, block, fork),
        // A block that was dropped came a little earlier or later than the one that stayed.
        time: START + block * BLOCK_SECONDS + u64::from(dropped) * random.random_range(0..60),
        tx: random.random(),
        dropped,
        token: [random.random_range(0..3); 20],
        ..Made::collected(chain, block, 2 * log)
    };
    let number = |random: &mut StdRng| {
        let bytes: [u8; 32] = random.random();
        U256::from_be_bytes(bytes) >> random.random_range(0..256_usize)
    };
    one.event = EVENTS[random.random_range(0..6_usize).saturating_sub(2)];
    if one.event == "FeesCollected" {
        one.integrator = Some([random.random_range(0x10..0x13); 20]);
        one.fees = Some((number(random), number(random)));
        return vec![one];
    }
    (one.integrator, one.fees) = (None, None);
    let receivers = if one.event == "FeesForwarded" { 3 } else { 1 };
    let receiver = |position| Made {
        position,
        recipient: Some([random.random(); 20]),
        amount: Some(number(random)),
        ..one.clone()
    };
    (0..receivers).map(receiver).collect()
}

/// A database with tables, for writing and for reading.
pub struct World {
    pub server: TempPostgres,
    pub writer: Database,
    pub reader: Database,
}

impl World {
    pub async fn new(rows: &[Made]) -> Self {
        let server = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
        set_up(&server.url, &Passwords::default()).await.unwrap();
        let world = Self {
            writer: Database::writer(&server.url, 2, &[&FeesKind]).unwrap(),
            reader: Database::reader(&server.url, 4, &[&FeesKind]).unwrap(),
            server,
        };
        let first = Month::of(START);
        for month in 0..3 {
            let made = partitions::create(&world.writer, &CHAINS, first.plus(month)).await;
            let made = made.unwrap();
            let of_fees = made.iter().filter(|name| name.starts_with("fee_events"));
            assert_eq!(of_fees.count(), CHAINS.len());
        }
        for chain in CHAINS.into_iter().chain([EMPTY_CHAIN]) {
            world.register(chain).await;
        }
        world.insert(rows).await;
        world
    }

    async fn register(&self, chain: u64) {
        self.run(&format!(
            "INSERT INTO chains VALUES ({chain}, 'chain-{chain}'); \
             INSERT INTO processing_state (chain_id, last_seen_block, last_safe_block) \
                VALUES ({chain}, {BLOCKS}, {SAFE}); \
             INSERT INTO projections (chain_id, projection, start_block, next_block, settings) \
                VALUES ({chain}, 'fees', 0, {SAFE} + 1, '{{}}'); \
             INSERT INTO projected_ranges VALUES ({chain}, 'fees', 0, {SAFE})"
        ))
        .await;
    }

    pub async fn insert(&self, rows: &[Made]) {
        if rows.is_empty() {
            return;
        }
        let values: Vec<String> = rows.iter().map(Made::as_values).collect();
        let dropped = rows.iter().filter(|row| row.dropped).map(|row| {
            let hash = const_hex::encode(row.hash);
            let (chain, block, time) = (row.chain, row.block, row.time);
            format!(
                "INSERT INTO dropped_blocks VALUES \
                 ({chain}, '\\x{hash}', {block}, to_timestamp({time})) ON CONFLICT DO NOTHING; "
            )
        });
        self.run(&format!(
            "{} INSERT INTO fee_event_rows (chain_id, block_number, block_hash, block_timestamp, \
             tx_hash, log_index, position, event, contract, token, integrator, integrator_fee, \
             lifi_fee, recipient, amount) VALUES {}; \
             UPDATE fee_event_rows SET created_at = '2024-05-06 07:08:09.0987654Z'",
            dropped.collect::<String>(),
            values.join(", ")
        ))
        .await;
    }

    pub async fn run(&self, sql: &str) {
        let client = self.writer.client().await.unwrap();
        client.batch_execute(sql).await.unwrap();
    }

    pub async fn count(&self) -> i64 {
        let client = self.writer.client().await.unwrap();
        let count = "SELECT count(*) FROM fee_event_rows";
        client.query_one(count, &[]).await.unwrap().get(0)
    }

    pub fn public(&self) -> Router {
        public_of(Some(self.reader.clone()))
    }
}

struct Nobody;

impl Probe for Nobody {
    fn chains(&self) -> Vec<ChainHealth> {
        Vec::new()
    }
}

/// The public listener, with fees out of a database.
pub fn public_of(database: Option<Database>) -> Router {
    let served = ServedChains::new(Vec::new()).with_fees(database);
    public_router(
        served,
        Arc::new(Nobody),
        Limits::default(),
        Arc::new(|| 0),
        HeavyWork::here(),
    )
}

/// Asks; returns the status and the body as it came.
pub async fn ask_for_text(router: &Router, target: &str) -> (u16, String) {
    let request = Request::get(target).body(Body::empty()).unwrap();
    let service = TowerToHyperService::new(router.clone());
    let response = service.call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 64 << 20).await;
    (status, String::from_utf8(body.unwrap().into()).unwrap())
}

pub async fn ask(router: &Router, target: &str) -> (u16, Value) {
    let (status, text) = ask_for_text(router, target).await;
    let body = serde_json::from_str(&text);
    (status, body.unwrap_or_else(|_| panic!("{target}: {text}")))
}

/// As [`ask`] if it succeeds, with the headers.
pub async fn ask_with_headers(router: &Router, target: &str) -> (Value, HeaderMap) {
    let request = Request::get(target).body(Body::empty()).unwrap();
    let service = TowerToHyperService::new(router.clone());
    let response = service.call(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200, "{target}");
    let headers = response.headers().clone();
    let body = axum::body::to_bytes(response.into_body(), 64 << 20).await;
    (serde_json::from_slice(&body.unwrap()).unwrap(), headers)
}

/// After how many seconds an answer says to retry.
pub async fn ask_when_to_retry(router: &Router, target: &str) -> Option<String> {
    let request = Request::get(target).body(Body::empty()).unwrap();
    let service = TowerToHyperService::new(router.clone());
    let response = service.call(request).await.unwrap();
    let seconds = response.headers().get("retry-after");
    seconds.map(|value| value.to_str().unwrap().to_owned())
}

/// A path with parameters, whatever is in them.
pub fn target(path: &str, parameters: &[(&str, String)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("{path}?{}", query.finish())
}

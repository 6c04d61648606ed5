//! Lists and totals of fees against a naive look at the same events.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fees_support;

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, U512};
use axum::Router;
use chronolith_serve::OPENAPI;
use chronolith_serve::http::fees_router;
use fees_support::{
    BLOCK_SECONDS, BLOCKS, CHAINS, EMPTY_CHAIN, EVENTS, Made, SAFE, START, World, ask,
    ask_with_headers, hash_of, hex, made_up, target,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

type Parameters = Vec<(&'static str, String)>;

/// A filter out of many, in which something is left out more often than not.
fn some_filter(random: &mut StdRng) -> Parameters {
    let mut all: Parameters = Vec::new();
    let block = |random: &mut StdRng| random.random_range(0..BLOCKS + 5);
    let time = |random: &mut StdRng| {
        let seconds = START + random.random_range(0..BLOCKS) * BLOCK_SECONDS;
        seconds + random.random_range(0..3)
    };
    // Ends in the wrong order are refused.
    let ends = |one: u64, other: u64| (one.min(other).to_string(), one.max(other).to_string());
    let address = |byte: u8| hex(&[byte; 20]);
    let mut maybe = |random: &mut StdRng, name, value: String| {
        if random.random_ratio(1, 3) {
            all.push((name, value));
        }
    };
    let (low, who, what) = (
        random.random_range(0..3),
        random.random_range(0x10..0x14),
        EVENTS.choose(random).unwrap().to_string(),
    );
    let status = ["pending", "confirmed", "dropped"].choose(random).unwrap();
    let chain = CHAINS.choose(random).unwrap().to_string();
    let (from_block, to_block) = ends(block(random), block(random));
    let (from, to) = ends(time(random), time(random));
    maybe(random, "integrator", address(who));
    maybe(random, "chainId", chain);
    maybe(random, "token", address(low));
    maybe(random, "event", what);
    maybe(random, "fromBlock", from_block);
    maybe(random, "toBlock", to_block);
    maybe(random, "from", from);
    maybe(random, "to", to);
    maybe(random, "status", (*status).to_owned());
    maybe(random, "order", "asc".to_owned());
    all
}

/// Whether an event is asked for, by looking at it.
fn is_asked_for(row: &Made, parameters: &Parameters) -> bool {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let has_status = parameters.iter().any(|(name, _)| *name == "status");
    let holds = |(name, value): &(&str, String)| match *name {
        "integrator" => row.integrator.is_some_and(|who| hex(&who) == *value),
        "chainId" => row.chain == number(value),
        "token" => hex(&row.token) == *value,
        "event" => row.event == value,
        "fromBlock" => row.block >= number(value),
        "toBlock" => row.block <= number(value),
        "from" => row.time >= number(value),
        "to" => row.time < number(value),
        "status" => row.status() == value,
        "order" | "limit" => true,
        _ => panic!("{name}"),
    };
    (has_status || !row.dropped) && parameters.iter().all(holds)
}

fn is_ascending(parameters: &Parameters) -> bool {
    parameters.contains(&("order", "asc".to_owned()))
}

fn looked_for(rows: &[Made], parameters: &Parameters) -> Vec<Made> {
    let found = rows.iter().filter(|row| is_asked_for(row, parameters));
    let mut found: Vec<Made> = found.cloned().collect();
    let ascending = is_ascending(parameters);
    found.sort_by(|a, b| {
        let place = |row: &Made| (row.block, row.log, row.position, row.hash);
        let order = place(a).cmp(&place(b));
        let order = if ascending { order } else { order.reverse() };
        a.chain.cmp(&b.chain).then(order)
    });
    found
}

/// All parts of a list, one after the other, and how many there were.
async fn all_parts(router: &Router, path: &str, parameters: &Parameters) -> (Vec<Value>, usize) {
    let (mut all, mut parts, mut next) = (Vec::new(), 0, None::<String>);
    loop {
        let mut requested = parameters.clone();
        requested.extend(next.map(|cursor| ("cursor", cursor)));
        let (status, body) = ask(router, &target(path, &requested)).await;
        assert_eq!(status, 200, "{requested:?}: {body}");
        all.extend(body["data"].as_array().unwrap().clone());
        parts += 1;
        match body["nextCursor"].as_str() {
            Some(cursor) => next = Some(cursor.to_owned()),
            None => return (all, parts),
        }
    }
}

#[tokio::test]
async fn a_list_is_what_a_look_at_every_event_finds() {
    let rows = made_up(1);
    let world = World::new(&rows).await;
    let router = world.public();
    let mut random = StdRng::seed_from_u64(2);
    let mut found = 0;
    for _ in 0..300 {
        let mut filter = some_filter(&mut random);
        // Without any filter it would be a page of the fee document.
        if filter.is_empty() {
            filter.push(("order", "desc".to_owned()));
        }
        let expected: Vec<Value> = looked_for(&rows, &filter)
            .iter()
            .map(Made::as_json)
            .collect();
        found += expected.len();
        filter.push(("limit", random.random_range(1..40).to_string()));
        let (listed, parts) = all_parts(&router, "/fees", &filter).await;
        assert_eq!(listed, expected, "{filter:?}");
        let limit: usize = filter.last().unwrap().1.parse().unwrap();
        assert_eq!(parts, expected.len().div_ceil(limit).max(1), "{filter:?}");
    }
    assert!(found > 1_000, "{found} events tell little");
}

#[tokio::test]
async fn an_answer_says_what_it_is_whole_of() {
    let world = World::new(&[]).await;
    let router = world.public();
    let of = |chain: u64, through: Option<u64>, quarantined: u64, paused: Option<&str>| {
        json!({ "chainId": chain, "fromBlock": 0, "throughBlock": through, "safeBlock": SAFE,
            "seenBlock": BLOCKS, "quarantined": quarantined, "paused": paused })
    };
    let whole = |chain| of(chain, Some(SAFE), 0, None);
    let (_, body) = ask(&router, "/fees?order=desc").await;
    let all = json!([whole(1), whole(EMPTY_CHAIN), whole(137)]);
    assert_eq!(body["coverage"], all);
    // A hole in the middle, one at the beginning, and one that stands still.
    world
        .run(
            "UPDATE projected_ranges SET to_block = 20 WHERE chain_id = 1; \
             INSERT INTO projected_ranges VALUES (1, 'fees', 30, 70); \
             UPDATE projected_ranges SET from_block = 1 WHERE chain_id = 10; \
             UPDATE projections SET paused_at = now(), paused_reason = 'upgrade' WHERE chain_id = 137; \
             INSERT INTO quarantine SELECT 137, 'fees', 1, sha256('a'), now(), sha256('b'), n, 'x', 'y' \
                FROM generate_series(1, 3) n",
        )
        .await;
    let expected = [
        of(1, Some(20), 0, None),
        of(EMPTY_CHAIN, None, 0, None),
        of(137, Some(SAFE), 3, Some("upgrade")),
    ];
    for path in ["/fees", "/fees/totals"] {
        let (_, body) = ask(&router, &format!("{path}?order=desc")).await;
        assert_eq!(body["coverage"], json!(expected), "{path}");
        let (_, body) = ask(&router, &format!("{path}?chainId=1")).await;
        assert_eq!(body["coverage"], json!([expected[0]]), "{path}");
        // Nothing is known of this one, so nothing is told.
        let (status, body) = ask(&router, &format!("{path}?chainId=5")).await;
        let nothing = json!({ "error": "fees of chain 5 are not projected here" });
        assert_eq!((status, body), (404, nothing), "{path}");
    }
}

#[tokio::test]
async fn parts_are_one_list_whatever_is_written_meanwhile() {
    let rows = made_up(3);
    let world = World::new(&rows).await;
    let router = world.public();
    for (seed, order) in [(10, "desc"), (11, "asc")] {
        let mut random = StdRng::seed_from_u64(seed);
        let filter: Parameters = vec![
            ("chainId", "137".to_owned()),
            ("order", order.to_owned()),
            ("limit", "9".to_owned()),
        ];
        let one: Parameters = [filter[..2].to_vec(), vec![("limit", "1000".to_owned())]].concat();
        let (whole, parts) = all_parts(&router, "/fees", &one).await;
        assert!(parts == 1 && whole.len() > 50, "{}", whole.len());
        let (mut all, mut next) = (Vec::new(), None::<String>);
        for round in 0.. {
            let mut requested = filter.clone();
            requested.extend(next.map(|cursor| ("cursor", cursor)));
            let (_, body) = ask(&router, &target("/fees", &requested)).await;
            let data = body["data"].as_array().unwrap();
            all.extend(data.clone());
            let Some(cursor) = body["nextCursor"].as_str() else {
                break;
            };
            next = Some(cursor.to_owned());
            // Behind the part that was read: newer blocks, and logs of blocks that were told.
            let last = data.last().unwrap()["blockNumber"].as_u64().unwrap();
            let block = match order {
                "desc" => random.random_range(last + 1..=BLOCKS + 4),
                _ => random.random_range(0..last.max(1)),
            };
            if block != last {
                let log = 1_000 * (1 + seed as u32) + round;
                world.insert(&[Made::collected(137, block, log)]).await;
            }
        }
        assert_eq!(all, whole, "{order}");
        let (now, _) = all_parts(&router, "/fees", &one).await;
        assert!(now.len() > whole.len(), "{order}: nothing was written");
    }
}

/// The header names the whole request of the next part, as for logs, and the cursor has its name of other pages too.
#[tokio::test]
async fn a_link_leads_through_all_parts() {
    let world = World::new(&made_up(8)).await;
    let router = world.public();
    for (path, filter) in [
        ("/fees", "order=asc"),
        (
            "/fees",
            "status=confirmed&from=2024-02-25T00%3A00%3A00%2B01:00&chainId=137",
        ),
        (
            "/fees",
            "integrator=0x1111111111111111111111111111111111111111",
        ),
        ("/fees/totals", "chainId=1"),
        ("/fees/totals", "order=desc"),
    ] {
        let (whole, headers) =
            ask_with_headers(&router, &format!("{path}?{filter}&limit=1000")).await;
        assert_eq!(whole["nextCursor"], Value::Null, "{path} {filter}");
        assert!(!headers.contains_key("link"), "{headers:?}");
        let (mut all, mut parts) = (Vec::new(), 0);
        let mut query = format!("{filter}&limit=7");
        loop {
            let (body, headers) = ask_with_headers(&router, &format!("{path}?{query}")).await;
            all.extend(body["data"].as_array().unwrap().clone());
            parts += 1;
            let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
            assert_eq!(json!(header("x-next-cursor")), body["nextCursor"]);
            assert_eq!(body["next"], body["nextCursor"]);
            let Some(link) = header("link") else {
                assert_eq!(body["nextCursor"], Value::Null, "{query}");
                break;
            };
            let link = link.strip_prefix("<?");
            let next = link.and_then(|link| link.strip_suffix(">; rel=\"next\""));
            query = next.unwrap().to_owned();
        }
        assert!(parts > 2, "{path} {filter}: {parts} parts tell little");
        assert_eq!(json!(all), whole["data"], "{path} {filter}");
    }
    let (page, headers) = ask_with_headers(&router, "/fees?integrator=137&limit=1").await;
    assert!(page["pagination"]["totalPages"].as_u64() > Some(1));
    for name in ["link", "x-next-cursor"] {
        assert!(!headers.contains_key(name), "the fee document has none");
    }
}

/// Every answer has the fields of its description and no others.
#[tokio::test]
async fn answers_are_as_they_are_described() {
    let world = World::new(&made_up(7)).await;
    let router = world.public();
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let schemas = &description["components"]["schemas"];
    for (target, whole, item) in [
        ("/fees", "FeesPage", "CollectedFee"),
        ("/fees?order=desc", "FeesList", "Fee"),
        ("/fees/totals", "FeeTotals", "FeeTotal"),
    ] {
        let (status, body) = ask(&router, target).await;
        assert_eq!(status, 200, "{target}: {body}");
        let mut parts = vec![(&body, whole), (&body["data"][0], item)];
        if let Some(coverage) = body["coverage"].get(0) {
            parts.push((coverage, "FeeCoverage"));
        }
        for (part, schema) in parts {
            let reported = names(part);
            assert!(!reported.is_empty(), "{target} {schema}");
            assert_eq!(reported, names(&schemas[schema]["properties"]), "{target}");
            let required = schemas[schema]["required"].as_array().unwrap();
            assert_eq!(reported.len(), required.len(), "{target} {schema}");
        }
    }
}

fn names(object: &Value) -> BTreeSet<&String> {
    object.as_object().unwrap().keys().collect()
}

/// A reorg between two parts: what is behind the cursor is told as it is then.
#[tokio::test]
async fn a_cursor_outlives_the_block_that_it_stands_on() {
    let rows: Vec<Made> = (60..80).map(|block| Made::collected(1, block, 0)).collect();
    let world = World::new(&rows).await;
    let router = world.public();
    let (_, first) = ask(&router, "/fees?chainId=1&limit=3").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let hash = const_hex::encode(hash_of(1, 77, 0));
    world
        .run(&format!(
            "INSERT INTO dropped_blocks VALUES (1, '\\x{hash}', 77, now())"
        ))
        .await;
    let (_, second) = ask(&router, &format!("/fees?chainId=1&cursor={cursor}")).await;
    let blocks = second["data"].as_array().unwrap().iter();
    let blocks: Vec<u64> = blocks
        .map(|row| row["blockNumber"].as_u64().unwrap())
        .collect();
    assert_eq!(blocks, (60..77).rev().collect::<Vec<u64>>());
    let (status, body) = ask(&router, &format!("/fees?chainId=137&cursor={cursor}")).await;
    assert_eq!(status, 400, "{body}");
}

/// Chain, day, integrator, token and event.
type Of = (u64, u64, Option<[u8; 20]>, [u8; 20], &'static str);

#[derive(Default)]
struct Sums {
    events: u64,
    fees: Option<[U512; 2]>,
    amount: Option<U512>,
}

/// Sums by looking at every event, in the order of an answer.
fn summed(rows: &[Made], parameters: &Parameters) -> Vec<Value> {
    let mut all: BTreeMap<Of, Sums> = BTreeMap::new();
    for row in looked_for(rows, parameters) {
        let day = row.time / 86_400;
        let of = (row.chain, day, row.integrator, row.token, row.event);
        let sums = all.entry(of).or_default();
        sums.events += 1;
        if let Some((one, two)) = row.fees {
            let [first, second] = sums.fees.unwrap_or_default();
            sums.fees = Some([first + U512::from(one), second + U512::from(two)]);
        }
        if let Some(more) = row.amount {
            sums.amount = Some(sums.amount.unwrap_or_default() + U512::from(more));
        }
    }
    let mut all: Vec<(Of, Sums)> = all.into_iter().collect();
    if !is_ascending(parameters) {
        all.reverse();
        all.sort_by_key(|((chain, ..), _)| *chain);
    }
    all.into_iter().map(|(of, sums)| shown(of, &sums)).collect()
}

fn shown((chain, day, who, token, event): Of, sums: &Sums) -> Value {
    let address = |bytes: [u8; 20]| Address::from(bytes).to_checksum(None);
    let day = chrono::DateTime::from_timestamp(day as i64 * 86_400, 0).unwrap();
    json!({
        "chainId": chain, "day": day.format("%Y-%m-%d").to_string(),
        "integrator": who.map(address), "token": address(token), "event": event,
        "events": sums.events,
        "integratorFee": sums.fees.map(|[one, _]| one.to_string()),
        "lifiFee": sums.fees.map(|[_, two]| two.to_string()),
        "amount": sums.amount.map(|sum| sum.to_string()),
    })
}

#[tokio::test]
async fn totals_are_the_sums_of_a_list() {
    let rows = made_up(4);
    let world = World::new(&rows).await;
    let router = world.public();
    let mut random = StdRng::seed_from_u64(5);
    let mut found = 0;
    for _ in 0..150 {
        let mut filter = some_filter(&mut random);
        let expected = summed(&rows, &filter);
        found += expected.len();
        filter.push(("limit", random.random_range(1..60).to_string()));
        let (listed, _) = all_parts(&router, "/fees/totals", &filter).await;
        assert_eq!(listed, expected, "{filter:?}");
    }
    assert!(found > 1_000, "{found} sums tell little");
}

/// Texts that mean something to a database, or to whoever pastes statements together.
const HOSTILE: [&str; 12] = [
    "'",
    "''; DROP TABLE fee_event_rows; --",
    "1 OR 1=1",
    "1; DELETE FROM fee_event_rows",
    "$1",
    "\\x00",
    "\0",
    "%' UNION SELECT * FROM leases --",
    "0x1111111111111111111111111111111111111111' OR '1'='1",
    "FeesCollected'::fee_event) OR (1=1",
    "{\"$gt\": 0}",
    "\u{202e}1",
];

#[tokio::test]
async fn no_text_of_a_caller_becomes_a_part_of_a_statement() {
    let rows = made_up(6);
    let world = World::new(&rows).await;
    let (public, compatible) = (world.public(), fees_router(Some(world.reader.clone())));
    let names = [
        "integrator",
        "chainId",
        "token",
        "event",
        "fromBlock",
        "toBlock",
        "from",
        "to",
        "status",
        "order",
        "cursor",
        "limit",
        "page",
    ];
    let long = "9".repeat(20_000);
    for name in names {
        for text in HOSTILE.into_iter().chain([long.as_str()]) {
            let requested = |first: Option<(&'static str, String)>| {
                let one = first.into_iter().chain([(name, text.to_owned())]);
                one.collect::<Parameters>()
            };
            let refused = [
                ("/fees", &public, Some(("order", "asc".to_owned()))),
                ("/fees/totals", &public, None),
            ];
            for (path, router, first) in refused {
                let (status, body) = ask(router, &target(path, &requested(first))).await;
                assert_eq!(status, 400, "{path} {name}={text}: {body}");
                assert!(body["error"].as_str().unwrap().len() < 400, "{body}");
            }
            // To the fee document it is a bad chain, or no page and no limit, or nothing at all.
            let (status, body) = ask(&compatible, &target("/fees", &requested(None))).await;
            match (name, text.parse::<f64>()) {
                ("integrator", Err(_)) => assert_eq!(status, 400, "{name}={text}: {body}"),
                _ => assert_eq!(status, 200, "{name}={text}: {body}"),
            }
        }
    }
    assert_eq!(world.count().await, rows.len() as i64);
}

//! `/fees` as the fee document has it: requests and their answers, line by line, on both listeners.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fees_support;

use axum::Router;
use chronolith_projection::Database;
use chronolith_serve::http::fees_router;
use fees_support::{Made, World, ask, ask_for_text, ask_when_to_retry, hex, public_of};
use serde_json::{Value, json};

/// Twenty-five collected fees of chain 137, newest first, and whatever must not be among them.
fn rows() -> (Vec<Made>, Vec<Made>) {
    let mut seen: Vec<Made> = (60..85)
        .map(|block| Made::collected(137, block, (block % 3) as u32))
        .collect();
    // Two in one block: the later log comes first.
    seen[24] = Made::collected(137, 83, 7);
    let token = const_hex::decode_to_array("bd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9").unwrap();
    seen[24].token = token;
    seen.reverse();
    let mut others = vec![Made::collected(1, 83, 3), Made::collected(1, 2, 3)];
    others.push(Made {
        hash: [9; 32],
        dropped: true,
        ..Made::collected(137, 83, 8)
    });
    others.push(Made {
        event: "FeesWithdrawn",
        integrator: None,
        fees: None,
        recipient: Some([3; 20]),
        amount: Some(alloy_primitives::U256::MAX),
        ..Made::collected(137, 84, 9)
    });
    (seen, others)
}

async fn world() -> (World, Vec<Made>) {
    let (seen, others) = rows();
    let world = World::new(&[seen.clone(), others].concat()).await;
    (world, seen)
}

/// Logs of an answer, as block and log index.
fn places(body: &Value) -> Vec<(u64, u32)> {
    let data = body["data"].as_array().unwrap().iter();
    let place = |row: &Value| {
        let (block, log) = (row["blockNumber"].as_u64(), row["logIndex"].as_u64());
        (block.unwrap(), log.unwrap() as u32)
    };
    data.map(place).collect()
}

fn both(database: Option<&Database>) -> [(&'static str, Router); 2] {
    let database = || database.cloned();
    [
        ("public", public_of(database())),
        ("compatible", fees_router(database())),
    ]
}

#[tokio::test]
async fn the_listener_says_that_it_runs_and_knows_nothing_else() {
    let router = fees_router(None);
    let running = (200, "Api Running".to_owned());
    assert_eq!(ask_for_text(&router, "/").await, running);
    for target in ["/fees/totals", "/v1/chains", "/health"] {
        let nothing = (404, json!({ "error": "Not found" }));
        assert_eq!(ask(&router, target).await, nothing, "{target}");
    }
}

#[tokio::test]
async fn pages_are_newest_first_with_where_in_them_one_is() {
    let (world, seen) = world().await;
    let all: Vec<(u64, u32)> = seen.iter().map(|row| (row.block, row.log)).collect();
    for (name, router) in both(Some(&world.reader)) {
        for (query, (page, limit), range) in [
            // The chain: missing, empty, a list, a number in any spelling.
            ("", (1, 20), 0..20),
            ("?integrator", (1, 20), 0..20),
            ("?integrator=", (1, 20), 0..20),
            ("?integrator=1&integrator=1", (1, 20), 0..20),
            ("?integrator[]=1", (1, 20), 0..20),
            ("?integrator[0]=1&integrator=1", (1, 20), 0..20),
            ("?integrator=137", (1, 20), 0..20),
            ("?integrator=0x89", (1, 20), 0..20),
            ("?integrator=1.37e2", (1, 20), 0..20),
            ("?integrator=%20137%20", (1, 20), 0..20),
            // Pages: from 1, and what is no whole number is the first.
            ("?page=1", (1, 20), 0..20),
            ("?page=2", (2, 20), 20..25),
            ("?page=3", (3, 20), 25..25),
            ("?page=0", (1, 20), 0..20),
            ("?page=-1", (1, 20), 0..20),
            ("?page=abc", (1, 20), 0..20),
            ("?page=1.5", (1, 20), 0..20),
            (
                "?page=9007199254740991",
                (9_007_199_254_740_991_u64, 20),
                25..25,
            ),
            // Limits: 20 where there is none, from 1 to 100.
            ("?limit=5", (1, 5), 0..5),
            ("?limit=5&page=2", (2, 5), 5..10),
            ("?limit=7&page=4", (4, 7), 21..25),
            ("?limit=3&page=5", (5, 3), 12..15),
            ("?limit=3&page=6", (6, 3), 15..18),
            ("?limit=3&page=9", (9, 3), 24..25),
            ("?limit=5&page=5", (5, 5), 20..25),
            ("?limit=5&page=6", (6, 5), 25..25),
            ("?limit=0", (1, 20), 0..20),
            ("?limit=abc", (1, 20), 0..20),
            ("?limit=-3", (1, 1), 0..1),
            ("?limit=100", (1, 100), 0..25),
            ("?limit=101", (1, 100), 0..25),
            // What the document does not know is passed over.
            ("?verbose=1&limit=3", (1, 3), 0..3),
        ] {
            let (status, body) = ask(&router, &format!("/fees{query}")).await;
            assert_eq!(status, 200, "{name} {query}: {body}");
            assert_eq!(places(&body), &all[range], "{name} {query}");
            let total_pages = 25_u64.div_ceil(limit);
            let pagination =
                json!({ "page": page, "limit": limit, "total": 25, "totalPages": total_pages });
            assert_eq!(body["pagination"], pagination, "{name} {query}");
        }
    }
}

#[tokio::test]
async fn a_chain_is_a_number_and_one_without_fees_has_no_pages() {
    let (world, _) = world().await;
    for (name, router) in both(Some(&world.reader)) {
        let (_, body) = ask(&router, "/fees?integrator=1").await;
        assert_eq!(places(&body), [(83, 3), (2, 3)], "{name}");
        for id in ["5", "10", "0", "-1", "137.5", "Infinity", "1e300", "%20"] {
            let (status, body) = ask(&router, &format!("/fees?integrator={id}")).await;
            let empty = json!({
                "data": [],
                "pagination": { "page": 1, "limit": 20, "total": 0, "totalPages": 0 },
            });
            assert_eq!((status, body), (200, empty), "{name} {id}");
        }
        for id in ["polygon", "NaN", "0xzz", "1_000", "137;", "137'--", "true"] {
            let refused =
                json!({ "error": "Invalid integrator value. Expected numeric chain id." });
            let answer = ask(&router, &format!("/fees?integrator={id}")).await;
            assert_eq!(answer, (400, refused), "{name} {id}");
        }
    }
    // An address was a number to the old callers; on the public listener it is an integrator.
    let address = "/fees?integrator=0x2222222222222222222222222222222222222222";
    let [(_, public), (_, compatible)] = both(Some(&world.reader));
    let (status, body) = ask(&compatible, address).await;
    assert_eq!((status, &body["pagination"]["total"]), (200, &json!(0)));
    let (status, body) = ask(&public, address).await;
    assert_eq!((status, &body["data"]), (200, &json!([])));
    assert!(body["coverage"].is_array(), "{body}");
    let (status, _) = ask(&public, &address[..50]).await;
    assert_eq!(status, 400, "a part of an address is no chain");
}

/// Every byte of an answer: names in their order, capitals of addresses, decimal texts, time.
#[tokio::test]
async fn a_row_is_answered_as_in_the_document() {
    let (world, seen) = world().await;
    let row = &seen[0];
    let expected = format!(
        "{{\"data\":[{{\"chainId\":137,\"transactionHash\":\"{}\",\"logIndex\":7,\"blockNumber\":83,\
         \"token\":\"0xbD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9\",\
         \"eventIntegrator\":\"0x1111111111111111111111111111111111111111\",\
         \"integratorFee\":\"830\",\"lifiFee\":\"7\",\"createdAt\":\"2024-05-06T07:08:09.098Z\"}}],\
         \"pagination\":{{\"page\":1,\"limit\":1,\"total\":25,\"totalPages\":25}}}}",
        hex(&row.tx)
    );
    for (name, router) in both(Some(&world.reader)) {
        let answer = ask_for_text(&router, "/fees?limit=1").await;
        assert_eq!(answer, (200, expected.clone()), "{name}");
    }
}

#[tokio::test]
async fn whatever_goes_wrong_behind_a_page_is_a_500() {
    let (world, _) = world().await;
    world.server.kill().unwrap();
    for (name, router) in both(Some(&world.reader)) {
        let answer = ask(&router, "/fees").await;
        let failed = json!({ "error": "Internal server error" });
        assert_eq!(answer, (500, failed), "{name}");
        assert_eq!(ask_when_to_retry(&router, "/fees").await, None, "{name}");
    }
    // A list says whether to ask again, and names nothing of the database.
    let (status, body) = ask(&world.public(), "/fees?chainId=137").await;
    let late = "the database does not answer in time: retry, or request less";
    assert_eq!((status, body), (503, json!({ "error": late })));
    let seconds = ask_when_to_retry(&world.public(), "/fees?chainId=137").await;
    assert_eq!(seconds.as_deref(), Some("5"));
}

#[tokio::test]
async fn without_a_database_the_error_says_how_to_get_fees() {
    let [(_, public), (_, compatible)] = both(None);
    let (list, totals) = ("/fees?chainId=137", "/fees/totals");
    for (router, target) in [
        (&public, "/fees"),
        (&public, list),
        (&public, totals),
        (&compatible, "/fees"),
    ] {
        let (status, body) = ask(router, target).await;
        let message = body["error"].as_str().unwrap();
        assert!(
            status == 404 && message.contains("PG_URL"),
            "{target}: {body}"
        );
    }
}

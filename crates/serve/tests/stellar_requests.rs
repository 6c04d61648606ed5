//! Requests that are wrong, hostile or at the wrong place: each is refused as Stellar RPC refuses it, and
//! none harms.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use chronolith_finality::Tail;
use chronolith_serve::http::Limits;
use chronolith_sim::stellar::StellarSettings;
use chronolith_stellar::{EventPlace, Network};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use stellar_support::{Rpc, World, archived, as_evm, hex, served, small_settings};

const LEDGERS: u32 = 40;
/// A symbol.
const TOPIC: &str = "AAAADwAAAAh0cmFuc2Zlcg==";

fn world() -> World {
    World::new(StellarSettings::new(31), LEDGERS)
}

/// A method, its parameters, and the code and the words of the error. `HASH` is a hash, `CONTRACT` a contract.
const WRONG: &str = r#"
getTransaction {} => -32602 unexpected hash length (0)
getTransaction {"hash":"abc"} => -32602 unexpected hash length (3)
getTransaction {"hash":"zzHASH"} => -32602 unexpected hash length (66)
getTransaction {"hash":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"} => -32602 incorrect hash
getTransaction {"hash":5} => -32602 invalid parameters: invalid type
getTransaction ["HASH"] => -32602 invalid parameters: invalid type: sequence, expected an object
getTransaction {"hash":"HASH","xdrFormat":"xml"} => -32602 got 'xml': expected base64, json for optional 'xdrFormat'
getHealth [] => -32602 invalid parameters: invalid type
getNetwork [] => -32602 invalid parameters: invalid type
getLatestLedger [] => -32602 invalid parameters: invalid type
getVersionInfo [1] => -32602 invalid parameters: invalid type
getLedgers {} => -32600 start ledger (0) must be between the oldest ledger: 2 and the latest ledger: 41
getLedgers {"startLedger":42} => -32600 start ledger (42) must be between
getLedgers {"startLedger":1} => -32600 start ledger (1) must be between the oldest ledger: 2 and
getLedgers {"startLedger":5,"pagination":{"cursor":"7"}} => -32600 startLedger (5) and cursor (7) cannot both be set
getLedgers {"startLedger":5,"pagination":{"limit":201}} => -32600 limit must not exceed 200
getLedgers {"startLedger":5,"pagination":{"limit":-1}} => -32602 invalid parameters: invalid value
getLedgers {"startLedger":5,"xdrFormat":"xml"} => -32600 got 'xml': expected base64, json
getLedgers {"pagination":{"cursor":"x"}} => -32602 cursor ('x') must be between
getLedgers {"pagination":{"cursor":"0"}} => -32602 cursor ('0') must be between
getLedgers {"pagination":{"cursor":"99"}} => -32602 cursor ('99') must be between
getTransactions {"startLedger":42} => -32600 start ledger (42) must be between
getTransactions {"startLedger":1} => -32600 start ledger (1) must be between
getTransactions {"startLedger":5,"pagination":{"cursor":"7"}} => -32600 startLedger (5) and cursor (7) cannot both be set
getTransactions {"startLedger":5,"pagination":{"limit":201}} => -32600 limit must not exceed 200
getTransactions {"startLedger":5,"xdrFormat":"xml"} => -32600 got 'xml': expected base64, json
getTransactions {"pagination":{"cursor":"-1"}} => -32602 cursor ('-1')
getTransactions {"pagination":{"cursor":"9223372036854775808"}} => -32602 cursor (
getTransactions {"pagination":{"cursor":"4294967297"}} => -32602 database does not contain metadata for ledger: 1
getEvents {} => -32602 startLedger must be positive
getEvents {"startLedger":0} => -32602 startLedger must be positive
getEvents {"startLedger":42} => -32600 startLedger must be within the ledger range: 2 - 41
getEvents {"startLedger":1} => -32600 startLedger must be within the ledger range: 2 - 41
getEvents {"startLedger":5,"pagination":{"cursor":"1-1"}} => -32602 ledger ranges and cursor cannot both be set
getEvents {"pagination":{"cursor":"abc"}} => -32602 invalid parameters: invalid event id abc
getEvents {"pagination":{"cursor":"0-0"}} => -32600 within the ledger range
getEvents {"pagination":{"cursor":"184683593727-4294967295"}} => -32600 within the ledger range
getEvents {"startLedger":5,"pagination":{"limit":10001}} => -32602 limit must not exceed 10000
getEvents {"startLedger":5,"xdrFormat":"xml"} => -32602 'xdrFormat'
getEvents {"startLedger":5,"filters":[{},{},{},{},{},{}]} => -32602 maximum 5 filters per request
getEvents {"startLedger":5,"filters":[{"type":"diagnostic"}]} => -32602 filter 1 invalid: filter type invalid: if set, type must be either 'system' or 'contract'
getEvents {"startLedger":5,"filters":[{},{"contractIds":["CONTRACT","CONTRACT","CONTRACT","CONTRACT","CONTRACT","CONTRACT"]}]} => -32602 filter 2 invalid: maximum 5 contract IDs per filter
getEvents {"startLedger":5,"filters":[{"contractIds":["GA"]}]} => -32602 contract ID 1 invalid
getEvents {"startLedger":5,"filters":[{"topics":[["*"],["*"],["*"],["*"],["*"],["*"]]}]} => -32602 maximum 5 topics per filter
getEvents {"startLedger":5,"filters":[{"topics":[[]]}]} => -32602 topic 1 invalid: topic must have at least 1 segment
getEvents {"startLedger":5,"filters":[{"topics":[["*","*","*","*","*"]]}]} => -32602 topic cannot have more than 4 segments
getEvents {"startLedger":5,"filters":[{"topics":[["**","*"]]}]} => -32602 segment 1 invalid: wildcard '**' is only allowed as the last segment
getEvents {"startLedger":5,"filters":[{"topics":[["***"]]}]} => -32602 neither a wildcard nor base64
getEvents {"startLedger":5,"filters":[{"topics":[["AAAA"]]}]} => -32602 not the XDR of an ScVal
eth_blockNumber [] => -32601 method not found: eth_blockNumber
"#;

const CONTRACT: &str = "CDLZFC3SYJYDZT7K67VZ75HPJVIEUVNIXF47ZG2FB2RMQQVU2HHGCYSC";

#[tokio::test]
async fn errors_are_worded_as_stellars() {
    let rpc = world().serve(4).await;
    for case in WRONG.trim().lines() {
        let case = case
            .replace("HASH", &"ab".repeat(32))
            .replace("CONTRACT", CONTRACT);
        let (requested, reported) = case.split_once(" => ").unwrap();
        let (method, params) = requested.split_once(' ').unwrap();
        let (code, words) = reported.split_once(' ').unwrap();
        let params = serde_json::from_str(params).unwrap();
        let error = rpc.call(method, params).await.unwrap_err();
        let (found, mut message) = (
            &error["code"],
            error["message"].as_str().unwrap().to_owned(),
        );
        if let Some(cause) = error["data"].as_str() {
            message = format!("{message}: {cause}");
        }
        assert_eq!(found.to_string(), code, "{case}: {message}");
        assert!(message.contains(words), "{case}: {message}");
        assert!(
            !message.contains("block") || method == "eth_blockNumber",
            "{case}: {message}"
        );
    }
    for fine in [
        json!({ "filters": [{ "contractIds": vec![CONTRACT; 5], "type": "contract,system" }] }),
        json!({ "filters": [{ "topics": [[TOPIC, "*", "*", "*", "**"], ["**"], [TOPIC]], "type": "" }] }),
        json!({ "filters": null, "pagination": { "limit": 0, "cursor": null } }),
        json!({ "endLedger": null, "xdrFormat": null, "pagination": null, "unknown": 1 }),
    ] {
        let mut requested = fine;
        requested["startLedger"] = json!(5);
        rpc.result("getEvents", requested).await;
    }
}

/// What is lacking is an error and never a shorter answer; a page ends before it.
#[tokio::test]
async fn missing_history_is_an_error() {
    let world = world();
    let blocks = world.blocks();
    // Ledgers from 20 on, as after a start in the middle of history.
    let rpc = Rpc::new(&world.network, blocks[18..].to_vec(), 3, Limits::default()).await;
    let known = world.made[18..]
        .iter()
        .find_map(|made| made.txs.first())
        .unwrap();
    let found = rpc
        .result("getTransaction", json!({ "hash": hex(&known.hash) }))
        .await;
    assert_eq!(found["oldestLedger"], 20);
    for hash in [hex(&world.made[8].txs[0].hash), "cd".repeat(32)] {
        let (code, message) = rpc.refused("getTransaction", json!({ "hash": hash })).await;
        assert_eq!(code, -32_600, "{message}");
        assert!(
            message.contains('2') && message.contains("not archived here"),
            "{message}"
        );
    }
    for method in ["getLedgers", "getTransactions", "getEvents"] {
        let (code, message) = rpc.refused(method, json!({ "startLedger": 19 })).await;
        assert_eq!(code, -32_600, "{method}: {message}");
        rpc.result(method, json!({ "startLedger": 20 })).await;
    }
    // Two islands: a page ends where the first one does, and the next one says why.
    let settings = small_settings(&world.network);
    let archive = archived(&settings, &blocks[33..]).await;
    let mut island = archive
        .fill(chronolith_model::BlockRange::new(2, 30))
        .unwrap();
    for block in &blocks[..28] {
        island
            .push(
                vec![block.clone()],
                &chronolith_archive::Provenance::default(),
            )
            .await
            .unwrap();
    }
    island.finish().await.unwrap();
    let tail = Tail::new(0, None).snapshot();
    let chain = served("simulated", &world.network, archive, tail);
    let rpc = Rpc::of(vec![chain], Limits::default(), 0);
    for (method, list) in [
        ("getLedgers", "ledgers"),
        ("getTransactions", "transactions"),
        ("getEvents", "events"),
    ] {
        let requested = json!({ "startLedger": 25, "pagination": { "limit": 200 } });
        let page = rpc.result(method, requested).await;
        let last = page[list].as_array().unwrap().last().unwrap();
        let number = last.get("ledger").or(last.get("sequence")).unwrap();
        assert_eq!(page["oldestLedger"], 35);
        assert!(number.as_u64() <= Some(29), "{method}");
        let requested = json!({ "pagination": { "cursor": page["cursor"] } });
        let (code, message) = rpc.refused(method, requested).await;
        let expected = if method == "getEvents" {
            -32_600
        } else {
            -32_602
        };
        assert_eq!(code, expected, "{method}: {message}");
        // The last one before the gap, whatever is in it.
        rpc.result(method, json!({ "startLedger": 29 })).await;
        let requested = json!({ "startLedger": 30 });
        let (code, _) = rpc.refused(method, requested).await;
        assert_eq!(code, -32_600);
    }
    let cut = rpc.result("getEvents", json!({ "startLedger": 25 })).await;
    let requested = json!({ "startLedger": 25, "endLedger": 30 });
    assert_eq!(cut, rpc.result("getEvents", requested).await);
}

#[tokio::test]
async fn a_chain_without_ledgers_says_so() {
    let network = Network::new(Network::TESTNET);
    let rpc = Rpc::new(&network, Vec::new(), 0, Limits::default()).await;
    for method in [
        "getHealth",
        "getNetwork",
        "getLatestLedger",
        "getLedgers",
        "getTransactions",
        "getEvents",
    ] {
        let (code, message) = rpc.refused(method, json!({ "startLedger": 2 })).await;
        assert_eq!(code, -32_603, "{method}: {message}");
    }
    let (code, _) = rpc
        .refused("getTransaction", json!({ "hash": "ab".repeat(32) }))
        .await;
    assert_eq!(code, -32_603);
    let version = rpc.result("getVersionInfo", json!({})).await;
    assert_eq!(version["protocolVersion"], 0);
    let status = rpc.result("getStatus", json!({})).await;
    assert_eq!(status["last_ledger"], Value::Null);
}

#[tokio::test]
async fn a_node_that_fell_behind_is_not_healthy() {
    let world = world();
    let latest = world.made[world.made.len() - 1].close_time;
    for (later, is_healthy) in [(0, true), (30, true), (31, false), (86_400, false)] {
        let archive = archived(&small_settings(&world.network), &world.blocks()).await;
        let tail = Tail::new(0, None).snapshot();
        let chain = served("simulated", &world.network, archive, tail);
        let rpc = Rpc::of(vec![chain], Limits::default(), latest + later);
        let health = rpc.call("getHealth", json!({})).await;
        assert_eq!(health.is_ok(), is_healthy, "{later}: {health:?}");
        if let Ok(health) = &health {
            // Numbers in quotes: a client in Go refuses them without.
            assert_eq!(health["latestLedgerCloseTime"], latest.to_string());
            let oldest = world.made[0].close_time.to_string();
            assert_eq!(health["oldestLedgerCloseTime"], oldest);
            assert!(health["latestLedger"].is_u64() && health["oldestLedger"].is_u64());
            assert!(health["ledgerRetentionWindow"].is_u64());
        }
        if let Err(error) = health {
            let reported = error["message"].as_str().unwrap();
            assert!(
                later != 86_400 || reported.contains("latency (24h0m0s) since"),
                "{reported}"
            );
            assert_eq!(error["code"], -32_603);
            assert!(
                error["message"].as_str().unwrap().contains("latency"),
                "{error}"
            );
        }
    }
}

/// Chains by their names and by those of their networks; and whoever asks at the wrong place is told the
/// right one.
#[tokio::test]
async fn chains_go_by_name_and_methods_have_their_place() {
    let world = World::new(
        StellarSettings {
            passphrase: Network::PUBNET.to_owned(),
            ..StellarSettings::new(3)
        },
        30,
    );
    let archive = archived(&small_settings(&world.network), &world.blocks()).await;
    let chain = served(
        "our pubnet",
        &world.network,
        archive,
        Tail::new(0, None).snapshot(),
    );
    let id = chain.id;
    let evm = as_evm(5, &chain);
    let rpc = Rpc::of(vec![chain, evm], Limits::default(), 0);
    let call = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method }).to_string();
    let ask = async |place: &str, method: &str| {
        let (status, text) = rpc.send(place, call(method)).await;
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    for place in [
        "/stellar/pubnet".to_owned(),
        "/stellar/our%20pubnet".to_owned(),
        format!("/stellar/{id}"),
    ] {
        let (_, reply) = ask(&place, "getLatestLedger").await;
        assert_eq!(reply["result"]["sequence"], 31, "{place}: {reply}");
    }
    for (place, right) in [
        (format!("/{id}"), "/stellar/our pubnet"),
        ("/pubnet".to_owned(), "/stellar/our pubnet"),
        ("/stellar/5".to_owned(), "/5"),
        ("/stellar/other".to_owned(), "/5"),
    ] {
        for method in ["eth_blockNumber", "getLatestLedger"] {
            let (status, reply) = ask(&place, method).await;
            assert_eq!(
                (status, reply["error"]["code"].as_i64()),
                (200, Some(-32_601)),
                "{place}: {reply}"
            );
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(
                message.ends_with(&format!("POST {right}")),
                "{place}: {message}"
            );
        }
    }
    for place in [
        "/stellar/testnet",
        "/stellar/nothing",
        "/stellar/%FF",
        "/nothing",
    ] {
        let (status, reply) = ask(place, "getLatestLedger").await;
        assert_eq!(
            (status, reply["error"]["code"].as_i64()),
            (404, Some(-32_000)),
            "{place}"
        );
    }
    let (status, _) = rpc.get("/stellar/pubnet").await;
    assert_eq!(status, 405);
    let batch = format!("[{},{}]", call("getNetwork"), call("getVersionInfo"));
    let (_, text) = rpc.send("/stellar/pubnet", batch).await;
    let replies: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(replies[0]["result"]["passphrase"], Network::PUBNET);
    assert!(replies[1]["result"]["version"].is_string());
}

/// A second hash of a transaction is no second transaction, out of the archive and out of the tail.
#[tokio::test]
async fn other_hashes_of_transactions_are_not_counted() {
    let world = world();
    let blocks = world.blocks();
    let (final_ones, rest) = blocks.split_at(30);
    let archive = archived(&small_settings(&world.network), final_ones).await;
    let mut tail = Tail::new(usize::MAX, Some(final_ones[29].clock.block_ref()));
    rest.iter()
        .for_each(|block| tail.push(block.clone()).unwrap());
    let chain = served("simulated", &world.network, archive, tail.snapshot());
    let rpc = Rpc::of(vec![as_evm(5, &chain)], Limits::default(), 0);
    let (mut aliases, method) = ([0, 0], "eth_getBlockTransactionCountByNumber");
    for (at, (made, block)) in world.made.iter().zip(&blocks).enumerate() {
        let params = [format!("0x{:x}", made.sequence)];
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (_, text) = rpc.send("/5", body.to_string()).await;
        let reply: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(reply["result"], format!("0x{:x}", made.txs.len()), "{text}");
        aliases[usize::from(at >= 30)] += block.txs.len() - made.txs.len();
    }
    assert!(aliases[0] > 0 && aliases[1] > 0, "{aliases:?}");
}

/// Blocks by time are ledgers by the times at which they closed.
#[tokio::test]
async fn rest_knows_the_chain_by_name_too() {
    let world = world();
    let rpc = world.serve(4).await;
    let id = world.network.chain_id();
    for name in ["simulated".to_owned(), id.to_string()] {
        let (status, chain) = rpc.get(&format!("/v1/chains/{name}")).await;
        // Too large for clients whose numbers are floating point.
        let text = json!(id.to_string());
        assert_eq!((status, &chain["chainId"]), (200, &text), "{chain}");
        for made in world.made.iter().skip(1).take(LEDGERS as usize - 2) {
            let place = format!(
                "/v1/chains/{name}/block/before/{}?inclusive=true",
                made.close_time
            );
            let (status, block) = rpc.get(&place).await;
            assert_eq!(status, 200, "{place}: {block}");
            // Several ledgers may close at one time: the last of them is before it.
            let mut same = world
                .made
                .iter()
                .filter(|other| other.close_time == made.close_time);
            assert_eq!(
                block["number"],
                same.next_back().unwrap().sequence,
                "{place}"
            );
        }
    }
    let made = &world.made[20];
    let items: Vec<Value> = [json!(id), json!("simulated"), json!("nothing")]
        .iter()
        .map(
            |chain| json!({ "chainId": chain, "time": made.close_time + 1, "direction": "before" }),
        )
        .collect();
    let (status, text) = rpc
        .send("/v1/blocks/by-time", json!({ "items": items }).to_string())
        .await;
    assert_eq!(status, 200, "{text}");
    let results: Value = serde_json::from_str(&text).unwrap();
    assert!(
        results["results"][0]["number"].as_u64() >= Some(u64::from(made.sequence)),
        "{results}"
    );
    assert_eq!(results["results"][0], results["results"][1]);
    assert_eq!(results["results"][2]["error"]["code"], "CHAIN_NOT_FOUND");
}

/// Number, hash, parent and time of a block are kept on every chain. The other places of blocks are for EVM chains.
#[tokio::test]
async fn rest_has_the_clock_of_each_ledger() {
    const IN_TAIL: usize = 4;
    let world = world();
    let rpc = world.serve(IN_TAIL).await;
    let chain = "/v1/chains/simulated";
    for (at, made) in world.made.iter().enumerate() {
        let hash = format!("0x{}", hex(&made.hash));
        let expected = json!({
            "number": made.sequence,
            "hash": hash,
            "parentHash": format!("0x{}", hex(&made.previous_hash)),
            "timestamp": made.close_time,
            "finalized": at + IN_TAIL < world.made.len(),
        });
        for block in [made.sequence.to_string(), hash] {
            let (status, clock) = rpc.get(&format!("{chain}/blocks/{block}/clock")).await;
            assert_eq!((status, &clock), (200, &expected), "{block}");
        }
    }
    let (newest, above) = (world.latest(), world.latest() + 1);
    let (_, clock) = rpc.get(&format!("{chain}/blocks/latest/clock")).await;
    assert_eq!(clock["number"], newest, "{clock}");
    let unknown = "ab".repeat(32);
    for (place, status, code) in [
        (format!("blocks/{above}/clock"), 409, "NOT_INDEXED_YET"),
        (format!("blocks/0x{unknown}/clock"), 409, "NOT_INDEXED_YET"),
        ("blocks/1/clock".to_owned(), 409, "NOT_COVERED"),
        (format!("blocks/{newest}"), 404, "NOT_FOUND"),
        (format!("transactions/0x{unknown}"), 404, "NOT_FOUND"),
    ] {
        let (answered, problem) = rpc.get(&format!("{chain}/{place}")).await;
        let said = (answered, problem["code"].as_str());
        assert_eq!(said, (status, Some(code)), "{place}: {problem}");
    }
}

/// Logs that a hash of the chain covers say so, in the archive and in the tail; the answer as a whole cannot.
#[tokio::test]
async fn logs_say_for_themselves_what_covers_them() {
    let world = world();
    let rpc = world.serve(4).await;
    let place = "/v1/chains/simulated/logs?fromBlock=0x2&toBlock=0x29&limit=10000";
    let (status, answer) = rpc.get(place).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["nextCursor"], Value::Null);
    let logs = answer["logs"].as_array().unwrap();
    let blocks = world.blocks();
    let expected: Vec<Value> = blocks
        .iter()
        .flat_map(|block| &block.logs)
        .map(|log| match EventPlace::is_proven(log) {
            true => json!("roots"),
            false => Value::Null,
        })
        .collect();
    let found: Vec<Value> = logs.iter().map(|log| log["level"].clone()).collect();
    assert_eq!(found, expected);
    assert!(expected.contains(&json!("roots")) && expected.contains(&Value::Null));
    assert_ne!(answer["level"], "roots");
}

/// Parameters of any shape: an answer or an error, and never a panic.
#[tokio::test]
async fn no_parameters_are_too_strange() {
    let world = world();
    let rpc = world.serve(4).await;
    let mut rng = StdRng::seed_from_u64(8);
    let methods = [
        "getHealth",
        "getNetwork",
        "getLatestLedger",
        "getLedgers",
        "getTransaction",
        "getTransactions",
        "getEvents",
        "getVersionInfo",
        "getStatus",
    ];
    let names = [
        "hash",
        "startLedger",
        "endLedger",
        "filters",
        "pagination",
        "cursor",
        "limit",
        "xdrFormat",
        "type",
        "contractIds",
        "topics",
    ];
    let (mut good, mut bad) = (0, 0);
    for _ in 0..3_000 {
        let method = *methods.choose(&mut rng).unwrap();
        let params = strange(&mut rng, &names, 3);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (status, text) = rpc.send(&rpc.place, body.to_string()).await;
        assert_eq!(status, 200, "{body}: {text}");
        let reply: Value = serde_json::from_str(&text).unwrap();
        match reply.get("error") {
            None => good += 1,
            Some(error) => {
                let code = error["code"].as_i64().unwrap();
                assert!([-32_600, -32_602].contains(&code), "{body}: {text}");
                bad += 1;
            }
        }
    }
    assert!(good > 100 && bad > 1_000, "{good} {bad}");
}

/// Any value, with names that mean something more often than not.
fn strange(rng: &mut StdRng, names: &[&str], depth: u32) -> Value {
    let words = [
        "*",
        "**",
        "json",
        "base64",
        "",
        "contract",
        "system",
        TOPIC,
        "7",
        "17179869185",
        "0000000017179869184-0000000000",
        "CDLZFC3SYJYDZT7K67VZ75HPJVIEUVNIXF47ZG2FB2RMQQVU2HHGCYSC",
    ];
    match rng.random_range(0..if depth == 0 { 5 } else { 11 }) {
        0 => Value::Null,
        1 => json!(rng.random_range(0..60)),
        2 => json!(rng.random::<i64>()),
        3 => json!(*words.choose(rng).unwrap()),
        4 => json!(rng.random::<f64>()),
        5 | 6 => (0..rng.random_range(0..7))
            .map(|_| strange(rng, names, depth - 1))
            .collect(),
        _ => {
            let mut fields = serde_json::Map::new();
            for _ in 0..rng.random_range(0..5) {
                let name = *names.choose(rng).unwrap();
                let value = match (name, rng.random_bool(0.7)) {
                    ("startLedger" | "endLedger" | "limit", true) => json!(rng.random_range(0..50)),
                    ("cursor" | "hash" | "xdrFormat" | "type", true) => {
                        json!(*words.choose(rng).unwrap())
                    }
                    _ => strange(rng, names, depth - 1),
                };
                fields.insert(name.to_owned(), value);
            }
            fields.into()
        }
    }
}

/// Parts that do not fit together are a fault of the server, and are told as one.
#[tokio::test]
async fn ledgers_that_were_not_kept_well_are_no_answer() {
    let world = world();
    let mut blocks = world.blocks();
    let at = blocks
        .iter()
        .position(|block| block.txs.len() > 1 && block.clock.number > 30)
        .unwrap();
    let bodies = blocks[at].payload.bodies.as_mut().unwrap();
    bodies[0] = bytes::Bytes::from_static(b"nonsense");
    blocks[at].payload.header = Some(bytes::Bytes::from_static(b"nonsense"));
    let rpc = Rpc::new(&world.network, blocks, 0, Limits::default()).await;
    let made = &world.made[at];
    let (code, message) = rpc
        .refused("getTransaction", json!({ "hash": hex(&made.txs[0].hash) }))
        .await;
    assert_eq!(code, -32_603, "{message}");
    assert!(!message.contains("nonsense"), "{message}");
    for method in ["getLedgers", "getTransactions"] {
        let requested = json!({ "startLedger": made.sequence, "pagination": { "limit": 1 } });
        let (code, _) = rpc.refused(method, requested).await;
        assert_eq!(code, -32_603, "{method}");
    }
}

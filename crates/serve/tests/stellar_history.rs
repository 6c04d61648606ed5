//! Transactions and ledgers of a made-up network, as Stellar RPC answers them: each by every hash, and in
//! pages that follow each other exactly, out of the archive and out of the tail alike.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use chronolith_serve::http::Limits;
use chronolith_sim::stellar::{Made, MadeTx, StellarSettings};
use chronolith_stellar::{Ledger, TxParts};
use serde::Serialize;
use serde_json::{Value, json};
use stellar_support::{Rpc, World, base64, hex};
use stellar_xdr::{
    FeeBumpTransactionInnerTx, LedgerCloseMeta, LedgerHeader, LedgerHeaderHistoryEntry,
    Limits as XdrLimits, ReadXdr, TransactionEnvelope, TransactionExt, TransactionMeta,
    TransactionResult,
};

const LEDGERS: u32 = 45;

fn world() -> World {
    World::new(StellarSettings::new(11), LEDGERS)
}

/// What must be told of a transaction, but for times and the ends of history.
fn told(made: &Made, tx: &MadeTx, position: usize) -> Value {
    let meta = TransactionMeta::from_xdr(&tx.meta, XdrLimits::none()).unwrap();
    json!({
        "status": if tx.success { "SUCCESS" } else { "FAILED" },
        "txHash": hex(&tx.hash),
        "applicationOrder": position + 1,
        "feeBump": tx.inner_hash.is_some(),
        "envelopeXdr": base64(&tx.envelope),
        "resultXdr": base64(&tx.result),
        "resultMetaXdr": base64(&tx.meta),
        "events": events(&meta, is_soroban(tx)).0,
        "ledger": made.sequence,
    })
}

/// Whether a transaction is one of Soroban, by its envelope.
fn is_soroban(tx: &MadeTx) -> bool {
    let envelope = TransactionEnvelope::from_xdr(&tx.envelope, XdrLimits::none()).unwrap();
    let inner = match envelope {
        TransactionEnvelope::Tx(it) => it,
        TransactionEnvelope::TxFeeBump(bump) => match bump.tx.inner_tx {
            FeeBumpTransactionInnerTx::Tx(it) => it,
        },
        TransactionEnvelope::TxV0(_) => return false,
    };
    matches!(inner.tx.ext, TransactionExt::V1(_))
}

/// What must be told of a transaction's events, and its diagnostic ones. A call that failed may have no part of
/// Soroban in its meta: then Stellar RPC lists the events of one operation, of which there are none.
fn events(meta: &TransactionMeta, is_soroban: bool) -> (Value, Vec<String>) {
    fn xdr(value: &impl stellar_xdr::WriteXdr) -> String {
        base64(&value.to_xdr(XdrLimits::none()).unwrap())
    }
    let mut events = json!({});
    let mut diagnostic = Vec::new();
    match meta {
        TransactionMeta::V3(meta) => {
            if let Some(soroban) = &meta.soroban_meta {
                let own: Vec<String> = soroban.events.iter().map(xdr).collect();
                events["contractEventsXdr"] = json!([own]);
                diagnostic = soroban.diagnostic_events.iter().map(xdr).collect();
            } else if is_soroban {
                events["contractEventsXdr"] = json!([[]]);
            }
        }
        TransactionMeta::V4(meta) => {
            let of_operation = |events: &[stellar_xdr::ContractEvent]| -> Vec<String> {
                events.iter().map(xdr).collect()
            };
            let operations = meta.operations.iter();
            let operations: Vec<_> = operations.map(|one| of_operation(&one.events)).collect();
            if !operations.is_empty() {
                events["contractEventsXdr"] = json!(operations);
            }
            let own: Vec<String> = meta.events.iter().map(xdr).collect();
            if !own.is_empty() {
                events["transactionEventsXdr"] = json!(own);
            }
            diagnostic = meta.diagnostic_events.iter().map(xdr).collect();
        }
        _ => {}
    }
    (events, diagnostic)
}

fn with_diagnostic(mut told: Value, tx: &MadeTx) -> Value {
    let meta = TransactionMeta::from_xdr(&tx.meta, XdrLimits::none()).unwrap();
    let (_, diagnostic) = events(&meta, is_soroban(tx));
    if !diagnostic.is_empty() {
        told["diagnosticEventsXdr"] = json!(diagnostic);
    }
    told
}

fn add(mut told: Value, fields: &Value) -> Value {
    let more = fields.as_object().unwrap().clone();
    told.as_object_mut().unwrap().extend(more);
    told
}

fn ends(world: &World) -> Value {
    let (first, last) = (&world.made[0], &world.made[world.made.len() - 1]);
    json!({
        "latestLedger": last.sequence,
        "latestLedgerCloseTime": last.close_time.to_string(),
        "oldestLedger": first.sequence,
        "oldestLedgerCloseTime": first.close_time.to_string(),
    })
}

#[tokio::test]
async fn every_transaction_is_found_by_each_of_its_hashes() {
    let world = world();
    let (mut bumps, mut failed, mut noisy) = (0, 0, 0);
    for in_tail in [0, 9, LEDGERS as usize] {
        let rpc = world.serve(in_tail).await;
        for made in &world.made {
            for (position, tx) in made.txs.iter().enumerate() {
                let told = with_diagnostic(told(made, tx, position), tx);
                noisy += u32::from(told.get("diagnosticEventsXdr").is_some());
                let told = add(told, &json!({ "createdAt": made.close_time.to_string() }));
                let told = add(told, &ends(&world));
                // The hash is said as it was asked for: in capitals too, and that inside of a fee bump.
                let hashes = [Some(&tx.hash), tx.inner_hash.as_ref()].into_iter();
                for hash in hashes.flatten().map(hex) {
                    for hash in [hash.to_uppercase(), hash] {
                        let requested = json!({ "hash": hash });
                        let found = rpc.result("getTransaction", requested).await;
                        let told = add(told.clone(), &json!({ "txHash": hash }));
                        assert_eq!(found, told, "{hash} with {in_tail} in the tail");
                    }
                }
                bumps += u32::from(tx.inner_hash.is_some());
                failed += u32::from(!tx.success);
            }
        }
        let unknown = "ab".repeat(32);
        let found = rpc
            .result("getTransaction", json!({ "hash": unknown }))
            .await;
        let nothing = json!({
            "status": "NOT_FOUND", "txHash": unknown, "applicationOrder": 0, "feeBump": false,
            "events": {}, "ledger": 0, "createdAt": "0",
        });
        assert_eq!(found, add(nothing, &ends(&world)));
    }
    assert!(
        bumps > 10 && failed > 10 && noisy > 10,
        "{bumps} {failed} {noisy}"
    );
}

/// What XDR of a type says.
fn said<T: ReadXdr + Serialize>(xdr: &[u8]) -> Value {
    serde_json::to_value(T::from_xdr(xdr, XdrLimits::none()).unwrap()).unwrap()
}

/// What must be told as JSON of a transaction's events, and its diagnostic ones: null where there are none.
fn events_json(meta: &TransactionMeta, is_soroban: bool) -> (Value, Value) {
    let mut own = json!({});
    let diagnostic = match meta {
        TransactionMeta::V3(meta) => {
            if is_soroban {
                own["contractEventsJson"] = json!([[]]);
            }
            meta.soroban_meta.as_ref().map(|soroban| {
                own["contractEventsJson"] = json!([soroban.events]);
                &soroban.diagnostic_events
            })
        }
        TransactionMeta::V4(meta) => {
            if !meta.operations.is_empty() {
                let operations: Vec<_> = meta.operations.iter().map(|one| &one.events).collect();
                own["contractEventsJson"] = json!(operations);
            }
            if !meta.events.is_empty() {
                own["transactionEventsJson"] = json!(meta.events);
            }
            Some(&meta.diagnostic_events)
        }
        _ => None,
    };
    let diagnostic = diagnostic.filter(|events| !events.is_empty());
    (own, json!(diagnostic))
}

/// What is asked for as JSON is what the XDR says, and never both.
#[tokio::test]
async fn json_says_what_the_xdr_says() {
    let world = World::new(StellarSettings::new(12), 30);
    let rpc = world.serve(3).await;
    let (mut looked_at, mut noisy, mut eventful) = (0, 0, 0);
    for made in &world.made {
        for tx in &made.txs {
            let requested = json!({ "hash": hex(&tx.hash), "xdrFormat": "json" });
            let found = rpc.result("getTransaction", requested).await;
            assert_eq!(
                found["envelopeJson"],
                said::<TransactionEnvelope>(&tx.envelope)
            );
            assert_eq!(found["resultJson"], said::<TransactionResult>(&tx.result));
            assert_eq!(found["resultMetaJson"], said::<TransactionMeta>(&tx.meta));
            let meta = TransactionMeta::from_xdr(&tx.meta, XdrLimits::none()).unwrap();
            let (own, diagnostic) = events_json(&meta, is_soroban(tx));
            assert_eq!(found["events"], own);
            assert_eq!(found["diagnosticEventsJson"], diagnostic);
            noisy += usize::from(!diagnostic.is_null());
            eventful += usize::from(own != json!({}));
            assert!(!found.to_string().contains("Xdr\""), "{found}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 50, "{looked_at}");
    assert!(noisy > 5 && eventful > 10, "{noisy} {eventful}");
    let requested = json!({ "startLedger": 25, "pagination": { "limit": 2 }, "xdrFormat": "json" });
    let found = rpc.result("getLedgers", requested).await;
    for (ledger, made) in found["ledgers"]
        .as_array()
        .unwrap()
        .iter()
        .zip(&world.made[23..])
    {
        assert_eq!(ledger["metadataJson"], said::<LedgerCloseMeta>(&made.raw));
        let walked = Ledger::walk(made.raw.clone()).unwrap();
        let header = said::<LedgerHeaderHistoryEntry>(walked.header());
        assert_eq!(ledger["headerJson"], header);
        assert_eq!(ledger["headerJson"]["hash"], hex(&made.hash));
        // Clients in Go have fields for both: those of XDR are there, and empty.
        assert_eq!(
            (&ledger["metadataXdr"], &ledger["headerXdr"]),
            (&json!(""), &json!(""))
        );
    }
}

/// All pages of a method from a ledger on, with the number of items of each.
async fn pages(
    rpc: &Rpc,
    method: &str,
    list: &str,
    (start, limit): (u32, usize),
) -> (Vec<Value>, Vec<usize>) {
    let (mut items, mut counts) = (Vec::new(), Vec::new());
    let mut requested = json!({ "startLedger": start, "pagination": { "limit": limit } });
    loop {
        let mut page = rpc.result(method, requested).await;
        let found = page[list].as_array_mut().unwrap().split_off(0);
        assert!(found.len() <= limit);
        let cursor = page["cursor"].as_str().unwrap().to_owned();
        let is_end = found.is_empty();
        counts.push(found.len());
        items.extend(found);
        if is_end {
            return (items, counts);
        }
        requested = json!({ "pagination": { "limit": limit, "cursor": cursor } });
    }
}

#[tokio::test]
async fn pages_of_transactions_follow_each_other_whatever_their_length() {
    let world = world();
    for in_tail in [0, 6] {
        let rpc = world.serve(in_tail).await;
        let all: Vec<Value> = world
            .made
            .iter()
            .flat_map(|made| {
                let txs = made.txs.iter().enumerate();
                txs.map(|(position, tx)| {
                    let told = with_diagnostic(told(made, tx, position), tx);
                    // A number here, and a text where one is asked for.
                    add(told, &json!({ "createdAt": made.close_time }))
                })
            })
            .collect();
        for limit in [1, 2, 3, 7, 50, 199, 200] {
            let (found, counts) = pages(&rpc, "getTransactions", "transactions", (2, limit)).await;
            assert!(found == all, "limit {limit}: {counts:?}");
            let (_, full) = counts.split_last().unwrap();
            let (_, full) = full.split_last().unwrap();
            assert!(
                full.iter().all(|&count| count == limit),
                "limit {limit}: {counts:?}"
            );
        }
        for start in [2, 5, 21, 22, world.latest()] {
            let (found, _) = pages(&rpc, "getTransactions", "transactions", (start, 13)).await;
            let rest = all
                .iter()
                .filter(|tx| tx["ledger"].as_u64() >= Some(start.into()));
            assert!(found.iter().eq(rest), "from {start}");
        }
        let page = rpc
            .result("getTransactions", json!({ "startLedger": 2 }))
            .await;
        assert_eq!(page["transactions"].as_array().unwrap().len(), 50);
        let last = &world.made[world.made.len() - 1];
        assert_eq!(page["latestLedgerCloseTimestamp"], last.close_time);
        assert_eq!(page["oldestLedger"], 2);
    }
}

/// However few ledgers a page may look at: nothing comes twice, nothing is left out.
#[tokio::test]
async fn pages_of_transactions_end_where_enough_ledgers_were_looked_at() {
    let world = world();
    let made = world.made.iter().flat_map(|made| &made.txs);
    let all: Vec<String> = made.map(|tx| hex(&tx.hash)).collect();
    for page_ledgers in [2, 3, 7, world.made.len() as u64 - 1] {
        let limits = Limits {
            page_ledgers,
            ..Limits::default()
        };
        let rpc = Rpc::new(&world.network, world.blocks(), 3, limits).await;
        for limit in [1, 5, 200] {
            let mut requested = json!({ "startLedger": 2, "pagination": { "limit": limit } });
            let (mut found, mut first) = (Vec::new(), 2);
            loop {
                let page = rpc.result("getTransactions", requested).await;
                let some = page["transactions"].as_array().unwrap();
                let ledgers = some.iter().map(|tx| tx["ledger"].as_u64().unwrap());
                let most = first + page_ledgers - 1;
                assert!(ledgers.max() <= Some(most), "{limit} from {first}");
                let hashes = some.iter().map(|tx| tx["txHash"].as_str().unwrap());
                found.extend(hashes.map(str::to_owned));
                let cursor = page["cursor"].as_str().unwrap();
                let at = cursor.parse::<u64>().unwrap() >> 32;
                if some.len() < limit {
                    let end = most.min(world.latest().into());
                    assert_eq!(at, end, "{limit} from {first}");
                    if end == u64::from(world.latest()) {
                        break;
                    }
                }
                first = at;
                requested = json!({ "pagination": { "limit": limit, "cursor": cursor } });
            }
            assert!(found == all, "{page_ledgers} ledgers, {limit} transactions");
        }
    }
}

#[tokio::test]
async fn pages_of_ledgers_follow_each_other_and_are_the_very_bytes() {
    let world = world();
    for in_tail in [0, 8] {
        let rpc = world.serve(in_tail).await;
        let all: Vec<Value> = world
            .made
            .iter()
            .map(|made| {
                let ledger = Ledger::walk(made.raw.clone()).unwrap();
                json!({
                    "hash": hex(&made.hash),
                    "sequence": made.sequence,
                    "ledgerCloseTime": made.close_time.to_string(),
                    "headerXdr": base64(ledger.header()),
                    "metadataXdr": base64(&made.raw),
                })
            })
            .collect();
        for limit in [1, 2, 7, 44, 45, 200] {
            let (found, counts) = pages(&rpc, "getLedgers", "ledgers", (2, limit)).await;
            assert!(found == all, "limit {limit}: {counts:?}");
        }
        let (found, _) = pages(&rpc, "getLedgers", "ledgers", (30, 4)).await;
        assert!(found == all[28..]);
        let newest = rpc.result("getLatestLedger", json!(null)).await;
        let made = &world.made[world.made.len() - 1];
        let header = LedgerHeader::from_xdr(&made.header, XdrLimits::none()).unwrap();
        let expected = json!({
            "id": hex(&made.hash),
            "protocolVersion": header.ledger_version,
            "sequence": made.sequence,
            "closeTime": made.close_time.to_string(),
            "headerXdr": base64(&made.header),
            "metadataXdr": base64(&made.raw),
        });
        assert_eq!(newest, expected);
    }
}

/// A page is cut where it would be too large, and the next one continues there.
#[tokio::test]
async fn large_pages_are_cut_and_nothing_is_lost() {
    let world = world();
    let largest = world
        .made
        .iter()
        .map(|made| made.raw.len() * 4 / 3)
        .max()
        .unwrap();
    let limits = Limits {
        answer_bytes: largest * 2,
        ..Limits::default()
    };
    let rpc = Rpc::new(&world.network, world.blocks(), 4, limits).await;
    let (found, counts) = pages(&rpc, "getLedgers", "ledgers", (2, 200)).await;
    let numbers = found
        .iter()
        .map(|ledger| ledger["sequence"].as_u64().unwrap());
    assert!(numbers.eq(2..u64::from(LEDGERS) + 2));
    assert!(counts.len() > 5, "{counts:?}");
    let (found, cut) = pages(&rpc, "getTransactions", "transactions", (2, 200)).await;
    let hashes = found
        .iter()
        .map(|tx| tx["txHash"].as_str().unwrap().to_owned());
    let made = world
        .made
        .iter()
        .flat_map(|made| made.txs.iter().map(|tx| hex(&tx.hash)));
    assert!(hashes.eq(made));
    assert!(cut.len() > 5, "{cut:?}");
    // Nothing fits in so little: then one is answered.
    let limits = Limits {
        answer_bytes: 1,
        ..Limits::default()
    };
    let rpc = Rpc::new(&world.network, world.blocks(), 4, limits).await;
    let (found, counts) = pages(&rpc, "getLedgers", "ledgers", (2, 3)).await;
    assert_eq!(found.len(), LEDGERS as usize);
    assert!(counts.iter().all(|&count| count <= 1), "{counts:?}");
}

/// What is made of an answer is counted while it grows: a page that meets the end of memory ends there, and
/// nothing is lost.
#[tokio::test]
async fn pages_take_no_more_memory_than_there_is() {
    let world = world();
    let largest = world.made.iter().map(|made| made.raw.len() * 4 / 3).max();
    let limits = Limits {
        unread_bytes: largest.unwrap() * 2,
        ..Limits::default()
    };
    let rpc = Rpc::new(&world.network, world.blocks(), 4, limits).await;
    for (method, list) in [
        ("getLedgers", "ledgers"),
        ("getTransactions", "transactions"),
    ] {
        let (found, counts) = pages(&rpc, method, list, (2, 200)).await;
        let all = match list {
            "ledgers" => LEDGERS as usize,
            _ => world.made.iter().map(|made| made.txs.len()).sum(),
        };
        assert_eq!(found.len(), all, "{method}");
        assert!(counts.len() > 5, "{method}: {counts:?}");
        let page = json!({ "startLedger": 2, "pagination": { "limit": 200 } });
        let size = rpc.result(method, page).await.to_string().len();
        assert!(size <= limits.unread_bytes, "{method}: {size}");
    }
}

/// Whoever wants a page waits for a turn; what is small does not.
#[tokio::test(start_paused = true)]
async fn pages_wait_for_their_turn() {
    let world = world();
    let limits = Limits {
        queries_at_once: 0,
        ..Limits::default()
    };
    let rpc = Rpc::new(&world.network, world.blocks(), 4, limits).await;
    let hash = hex(&world
        .made
        .iter()
        .find_map(|made| made.txs.first())
        .unwrap()
        .hash);
    for (method, params) in [
        ("getLatestLedger", json!({})),
        ("getLedgers", json!({ "startLedger": 2 })),
        ("getTransactions", json!({ "startLedger": 2 })),
        ("getEvents", json!({ "startLedger": 2 })),
        (
            "getTransaction",
            json!({ "hash": hash, "xdrFormat": "json" }),
        ),
    ] {
        let (code, message) = rpc.refused(method, params).await;
        assert_eq!(code, -32_005, "{method}: {message}");
    }
    rpc.result("getTransaction", json!({ "hash": hash })).await;
    rpc.result("getHealth", json!({})).await;
}

/// Behind the newest ledger there is nothing yet: an empty page, as Stellar RPC has it, that ends where it began.
/// (Stellar RPC gives the cursor `0` there, which it refuses itself.)
#[tokio::test]
async fn a_cursor_behind_the_newest_ledger_is_an_empty_page() {
    let world = world();
    let rpc = world.serve(6).await;
    let latest = world.made.last().unwrap().sequence;
    for (ledger, is_known) in [(latest, true), (latest + 1, false), (latest + 50, false)] {
        let cursor = (u64::from(ledger) << 32 | 1 << 12 | 1).to_string();
        let requested = json!({ "pagination": { "cursor": cursor, "limit": 2 } });
        if is_known {
            rpc.result("getTransactions", requested).await;
            continue;
        }
        let page = rpc.result("getTransactions", requested).await;
        assert_eq!(
            (&page["transactions"], &page["cursor"]),
            (&json!([]), &json!(cursor))
        );
        assert_eq!(page["latestLedger"], latest);
    }
}

/// A page that has no time left ends, and its cursor is further than where it began.
#[tokio::test]
async fn pages_without_time_follow_each_other_to_the_end() {
    let world = world();
    let limits = Limits {
        timeout: std::time::Duration::ZERO,
        ..Limits::default()
    };
    let rpc = Rpc::new(&world.network, world.blocks(), 4, limits).await;
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut requested = json!({ "startLedger": 2, "pagination": { "limit": 200 } });
    loop {
        let mut page = rpc.result("getTransactions", requested.clone()).await;
        let cursor = page["cursor"].take();
        if cursor == requested["pagination"]["cursor"] {
            break;
        }
        pages += 1;
        let txs = page["transactions"].as_array().unwrap().iter();
        found.extend(txs.map(|tx| tx["txHash"].as_str().unwrap().to_owned()));
        requested = json!({ "pagination": { "limit": 200, "cursor": cursor } });
    }
    let made = world.made.iter().flat_map(|made| &made.txs);
    assert!(found.into_iter().eq(made.map(|tx| hex(&tx.hash))));
    assert!(pages > 20, "{pages}");
}

#[tokio::test]
async fn the_node_says_which_network_it_is_and_how_it_does() {
    let world = world();
    let rpc = world.serve(2).await;
    let last = &world.made[world.made.len() - 1];
    let header = LedgerHeader::from_xdr(&last.header, XdrLimits::none()).unwrap();
    let network = rpc.result("getNetwork", json!({})).await;
    let expected = json!({
        "passphrase": world.network.passphrase(), "protocolVersion": header.ledger_version,
    });
    assert_eq!(network, expected);
    let health = rpc.result("getHealth", json!({})).await;
    let expected = json!({
        "status": "healthy",
        "latestLedger": last.sequence,
        "latestLedgerCloseTime": last.close_time.to_string(),
        "oldestLedger": 2,
        "oldestLedgerCloseTime": world.made[0].close_time.to_string(),
        "ledgerRetentionWindow": LEDGERS,
    });
    assert_eq!(health, expected);
    let version = rpc.result("getVersionInfo", json!(null)).await;
    assert_eq!(version["protocolVersion"], header.ledger_version);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let status = rpc.result("getStatus", json!({})).await;
    assert_eq!(status["mode"], "streaming");
    assert_eq!(status["last_ledger"], last.sequence);
    let range = &status["ranges"][0];
    assert_eq!(
        (&range["start_ledger"], &range["end_ledger"]),
        (&json!(2), &json!(641))
    );
    assert_eq!(range["state"], "INGESTING");
    // Those of the tail are not archived.
    assert_eq!(range["last_committed_ledger"], last.sequence - 2);
    assert_eq!(range["count"], LEDGERS - 2);
}

/// A body is what its parts are made from: whoever changes one notices here.
#[test]
fn parts_of_bodies_are_those_of_the_ledger() {
    let world = world();
    for (made, block) in world.made.iter().zip(world.blocks()) {
        let bodies = block.payload.bodies.unwrap();
        for (tx, body) in made.txs.iter().zip(&bodies) {
            let parts = TxParts::read(body).unwrap();
            assert_eq!((&parts.envelope, &parts.result), (&tx.envelope, &tx.result));
            assert_eq!((&parts.meta, parts.inner_hash), (&tx.meta, tx.inner_hash));
        }
    }
}

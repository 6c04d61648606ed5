//! Stellar's own client in front of real ledgers: what it reads is what they hold.
//!
//! `make test-clients` installs the client and says in `STELLAR_CLIENT` where its script is.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and has tasks of its own"
)]

mod stellar_support;

use bytes::Bytes;
use chronolith_model::Block;
use chronolith_serve::http::{ConnectionLimits, Drain, Limits, listen};
use chronolith_stellar::{EventPlace, Ledger, Network, TxParts};
use serde_json::{Value, json};
use stellar_support::{Rpc, base64, block_of, fixture, framed, hex};
use tokio::net::TcpListener;

/// Ledgers with events.
const LEDGERS: usize = 3;

/// What the client must have read of these ledgers.
fn expected(network: &Network, raws: &[Bytes], blocks: &[Block]) -> Value {
    let (mut ledgers, mut transactions, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for (raw, block) in raws.iter().zip(blocks) {
        let number = block.clock.number;
        ledgers.push(json!({
            "sequence": number, "hash": hex(&block.clock.hash), "meta": base64(raw),
        }));
        for (body, order) in block.payload.bodies.iter().flatten().zip(1..) {
            let tx = TxParts::read(body).unwrap();
            transactions.push(json!({
                "status": if tx.successful { "SUCCESS" } else { "FAILED" },
                "txHash": hex(&tx.hash),
                "ledger": number,
                "applicationOrder": order,
                "feeBump": tx.fee_bump,
                "envelope": base64(&tx.envelope),
                "result": base64(&tx.result),
                "meta": base64(&tx.meta),
            }));
        }
        for log in &block.logs {
            let id = EventPlace::read(log).unwrap().id(number as u32);
            events.push(json!({
                "id": id.to_string(),
                "txHash": hex(&block.tx_hash(log.tx_index()).unwrap()),
                "topics": log.topics().map(base64).collect::<Vec<_>>(),
                "value": base64(log.data()),
            }));
        }
    }
    events.sort_by_key(|event| event["id"].to_string());
    let last = raws[raws.len() - 1].clone();
    let last = Ledger::walk(last).unwrap();
    let header = last.header();
    json!({
        "health": "healthy",
        "passphrase": network.passphrase(),
        "latest": {
            "id": hex(&last.hash()), "sequence": last.sequence(),
            // Without the hash before it, and the extension behind it.
            "header": base64(&header[32..header.len() - 4]), "meta": base64(last.raw()),
        },
        "ledgers": ledgers,
        "listed": &transactions,
        "transactions": &transactions,
        "events": events,
        "missing": -32_600,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_reads_what_the_network_holds() {
    let Some(script) = std::env::var_os("STELLAR_CLIENT") else {
        println!("skipped: STELLAR_CLIENT names no script; make test-clients does");
        return;
    };
    let Some(raw) = fixture("load-test-ledgers-v26.xdr.zst") else {
        return;
    };
    let network = Network::new("load test network");
    let raws = framed(&raw, LEDGERS);
    let blocks: Vec<Block> = raws.iter().map(|raw| block_of(raw, &network)).collect();
    let first = blocks[0].clock.number.to_string();
    let expected = expected(&network, &raws, &blocks);
    let rpc = Rpc::new(&network, blocks, 1, Limits::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{}", listener.local_addr().unwrap(), rpc.place);
    let room = ConnectionLimits {
        connections: 64,
        per_peer: None,
        place_kept: None,
    };
    tokio::spawn(listen(listener, rpc.router.clone(), room, Drain::never()));
    let requested = tokio::task::spawn_blocking(move || {
        std::process::Command::new("node")
            .arg(script)
            .args([&url, &first])
            .output()
    });
    let output = requested.await.unwrap().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        let shown: String = read[name].to_string().chars().take(200).collect();
        assert!(
            read[name] == *expected,
            "{name} was read otherwise: {shown}"
        );
    }
    let events = read["events"].as_array().unwrap().len();
    println!(
        "{} transactions, {events} events",
        read["listed"].as_array().unwrap().len()
    );
}

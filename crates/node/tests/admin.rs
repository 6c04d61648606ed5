//! What an operator asks of a node that runs, by command and over its listener.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use support::Bench;

const DEPTH_5: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

async fn serve(node: &EvmNode) -> RpcServer {
    RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap()
}

fn address(bench: &Bench) -> String {
    let path = bench.dir.path().join("data").join("admin");
    std::fs::read_to_string(path).unwrap()
}

/// Status and body of a request.
async fn ask(bench: &Bench, path: &str, body: Option<&Value>) -> (u16, Value) {
    let url = format!("http://{}/admin/v1/{path}", address(bench));
    let client = reqwest::Client::new();
    let request = match body {
        Some(body) => client
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string()),
        None => client.get(url),
    };
    let request = request.bearer_auth(bench.admin().1);
    let answer = request.send().await.unwrap();
    let code = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (code, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// A final block is replaced while the node runs: it halts, and continues once it was told to go back,
/// without being stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_halt_is_ended_while_the_node_runs() {
    let node = EvmNode::new(EvmSpec::tiny(61), 60);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(55));
    node.reorg(30);
    let halted = || bench.json(&["state", "--json"])[0]["halted"].is_string();
    bench.wait("the halt", halted);
    let rewound = bench.json(&["rewind", "--to", "20", "--reason", "a deep reorg", "--json"]);
    assert_eq!(
        (&rewound["headBefore"], &rewound["head"]),
        (&json!(55), &json!(20))
    );
    let head = node.head().number;
    bench.wait("the new chain", || bench.head() == Some(head - 5));
    assert!(!halted());
    running.stop();
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(verified["findings"], json!([]));
    assert!(
        !bench.dir.path().join("data").join("admin").exists(),
        "the address of a node that is gone"
    );
}

/// Older history is fetched beside the head, by command and by request.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_is_handed_to_the_node_that_runs() {
    let node = EvmNode::new(EvmSpec::tiny(62), 300);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], &format!(r#"{DEPTH_5}, "startBlock": 200"#));
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(295));
    let filled = bench.json(&["backfill", "--from", "100", "--to", "199", "--json"]);
    assert_eq!(filled["filledBlocks"], 100);
    let range = json!({ "chain": "sim", "from": 0, "to": 99 });
    let (code, begun) = ask(&bench, "backfill", Some(&range)).await;
    assert_eq!(code, 200, "{begun}");
    let covered = || bench.json(&["state", "--json"])[0]["covered"][0]["from"] == 0;
    bench.wait("the oldest block", covered);
    let head = node.mine(20).number;
    bench.wait("the head", || bench.head() == Some(head - 5));
    let (_, jobs) = ask(&bench, "jobs", None).await;
    let jobs = jobs["jobs"].as_array().unwrap().clone();
    assert!(jobs.iter().all(|job| job["status"] == "done"), "{jobs:?}");
    assert_eq!(jobs.len(), 2);
    // What cannot be is told, and nothing else happens.
    let above = json!({ "chain": 31_337, "from": 0, "to": 1_000_000 });
    ask(&bench, "backfill", Some(&above)).await;
    let failed = async || {
        let (_, jobs) = ask(&bench, "jobs", None).await;
        jobs["jobs"][2]["error"].as_str().map(str::to_owned)
    };
    let error = loop {
        if let Some(error) = failed().await {
            break error;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(error.contains("only final blocks"), "{error}");
    running.stop();
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(
        (&verified["from"], &verified["findings"]),
        (&json!(0), &json!([]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_with_a_reason() {
    let node = EvmNode::new(EvmSpec::tiny(63), 30);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(25));
    for (path, body, code, printed) in [
        ("rewind", json!({ "chain": "sim" }), 400, "missing field"),
        (
            "rewind",
            json!({ "chain": "sim", "to": 9, "reason": " " }),
            409,
            "the reason is empty",
        ),
        (
            "resume",
            json!({ "chain": "sim", "reason": "x", "by": "me" }),
            409,
            "sim is not halted",
        ),
        (
            "resume",
            json!({ "chain": "other", "reason": "x" }),
            409,
            "no chain other",
        ),
        (
            "resume",
            json!({ "chain": "sim", "reason": "x", "more": 1 }),
            400,
            "unknown field",
        ),
        (
            "backfill",
            json!({ "chain": "sim", "from": 9, "to": 3 }),
            409,
            "is after",
        ),
        ("partitions", json!({}), 404, "there are"),
    ] {
        let (got, answer) = ask(&bench, path, Some(&body)).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            got == code && message.contains(printed),
            "{path}: {got} {answer}"
        );
    }
    // A web page may send plain text anywhere, but no JSON.
    let url = format!("http://{}/admin/v1/gc", address(&bench));
    let plain = reqwest::Client::new().post(url).body(r#"{"chain":"sim"}"#);
    let plain = plain.bearer_auth(bench.admin().1);
    assert_eq!(plain.send().await.unwrap().status().as_u16(), 415);
    let (code, collected) = ask(&bench, "gc", Some(&json!({ "chain": "sim" }))).await;
    assert_eq!((code, &collected["chainId"]), (200, &json!(31_337)));
    assert_eq!(bench.head(), Some(25));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn elsewhere_a_token_is_needed() {
    let node = EvmNode::new(EvmSpec::tiny(64), 30);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.change(r#""127.0.0.1:0""#, r#""0.0.0.0:0""#);
    let refused = bench.output(&["run"]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(printed.contains("give an adminToken"), "{printed}");
    bench.change(r#""0.0.0.0:0""#, r#""0.0.0.0:0", "adminToken": "SECRET""#);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(25));
    let port = address(&bench);
    let port = port.rsplit(':').next().unwrap();
    let url = format!("http://127.0.0.1:{port}/admin/v1/state");
    let client = reqwest::Client::new();
    for (token, code) in [(None, 401), (Some("WRONG"), 401), (Some("SECRET"), 200)] {
        let request = client.get(&url);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        assert_eq!(request.send().await.unwrap().status().as_u16(), code);
    }
    // Commands have the token of the node itself.
    let (_, own) = bench.admin();
    bench.say(&["gc"]);
    running.stop();
    for secret in ["SECRET", &own] {
        assert!(!bench.log().contains(secret), "a secret was logged");
    }
}

/// Every program of the machine could act as an operator. And a node that was killed leaves its address: commands
/// sent the token to whatever listened there.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_user_of_the_node_is_its_operator_and_only_the_node_gets_the_token() {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    let node = EvmNode::new(EvmSpec::tiny(65), 30);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(25));
    let (address, token) = bench.admin();
    let path = bench.dir.path().join("data").join("admin-token");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let state = reqwest::Client::new().get(format!("http://{address}/admin/v1/state"));
    let answer = state.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 401);
    let (code, state) = ask(&bench, "state", None).await;
    assert_eq!((code, &state["chains"][0]["name"]), (200, &json!("sim")));
    running.kill();

    // It says yes to everything.
    let impostor = std::net::TcpListener::bind(&address).unwrap();
    let heard = std::thread::spawn(move || {
        let mut heard = String::new();
        while let Ok((mut stream, _)) = impostor.accept() {
            let mut head = [0; 4_096];
            let read = stream.read(&mut head).unwrap_or(0);
            let text = String::from_utf8_lossy(&head[..read]).into_owned();
            if text == "end" {
                break;
            }
            heard.push_str(&text);
            let body = r#"{"proof":"00","dataDir":"/","chains":[]}"#;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
        heard
    });
    // The command finds out that no node runs, and does it itself.
    let rewound = bench.json(&["rewind", "--to", "20", "--reason", "test", "--json"]);
    assert_eq!(
        (&rewound["head"], &rewound["headBefore"]),
        (&json!(20), &json!(25))
    );
    let mut end = std::net::TcpStream::connect(&address).unwrap();
    end.write_all(b"end").unwrap();
    let heard = heard.join().unwrap();
    assert!(heard.contains("/admin/v1/proof?challenge="), "{heard}");
    assert!(!heard.contains(&token), "{heard}");
    assert!(!heard.to_lowercase().contains("authorization"), "{heard}");
}

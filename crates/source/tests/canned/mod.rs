//! A server that answers byte for byte what it is told to, as no proper node would.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "every test takes what it needs, may panic, and serves beside itself"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A part of an answer, and how long it keeps one waiting.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    pub(crate) fn now(bytes: impl Into<Vec<u8>>) -> Self {
        Self::after(Duration::ZERO, bytes)
    }

    pub(crate) fn after(after: Duration, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self { after, bytes }
    }
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Canned {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Canned {
    /// Answers every request, head and body, with these pieces and then ends the connection.
    pub(crate) async fn start(answer: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (answer, kept) = (Arc::new(answer), asked.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, kept) = (answer.clone(), kept.clone());
                tokio::spawn(async move {
                    let say = |request: &str| {
                        kept.lock().unwrap().push(request.to_owned());
                        answer(request)
                    };
                    serve(stream, say).await
                });
            }
        });
        Self {
            address,
            asked,
            task,
        }
    }

    /// Where it is, below a path that holds a key.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v3/SECRET-KEY", self.address)
    }

    /// All requests so far, heads and bodies.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// None where the client left.
async fn serve(mut stream: TcpStream, say: impl Fn(&str) -> Vec<Piece>) -> Option<()> {
    let mut bytes = Vec::new();
    let request = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                break text;
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    for Piece { after, bytes } in say(&request) {
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        stream.write_all(&bytes).await.ok()?;
    }
    stream.shutdown().await.ok()
}

/// The beginning of an answer whose end is the end of the connection.
pub(crate) fn head(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\n").into_bytes()
}

/// An answer that is all there.
pub(crate) fn whole(body: &str) -> Vec<Piece> {
    let mut bytes = head("200 OK");
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    vec![Piece::now(bytes)]
}

/// What a request calls: JSON, one call or several.
pub(crate) fn calls(request: &str) -> Value {
    let body = request.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// A proper answer to each call of a request.
pub(crate) fn replies(request: &str, result: impl Fn(&str, &Value) -> Value) -> String {
    let reply = |call: &Value| {
        let result = result(call["method"].as_str().unwrap(), &call["params"]);
        json!({"jsonrpc": "2.0", "id": call["id"], "result": result})
    };
    match calls(request) {
        Value::Array(calls) => Value::Array(calls.iter().map(reply).collect()),
        call => reply(&call),
    }
    .to_string()
}

/// A chain of a few empty blocks that proves nothing.
pub(crate) fn chain(method: &str, params: &Value) -> Value {
    let number = match params[0].as_str() {
        Some("latest") => 9,
        Some("safe") => 6,
        Some("finalized") => 3,
        Some(number) => u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap(),
        None => 0,
    };
    match method {
        "eth_chainId" => "0x7a69".into(),
        "eth_getBlockByNumber" => json!({
            "hash": format!("0x{:064x}", number + 1), "parentHash": format!("0x{number:064x}"),
            "number": format!("{number:#x}"), "timestamp": "0x1", "transactions": [],
        }),
        "eth_getLogs" | "eth_getBlockReceipts" => json!([]),
        "eth_syncing" => false.into(),
        method => panic!("{method} is asked for"),
    }
}

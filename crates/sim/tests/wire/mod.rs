//! A raw HTTP client that hides nothing: status, headers, and whether the body came whole.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: u16,
    /// Everything before the body, in lower case.
    pub(crate) head: String,
    /// The body, as far as it came.
    pub(crate) body: Vec<u8>,
    /// Whether it came as long as promised.
    pub(crate) is_whole: bool,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        assert!(self.is_whole, "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Posts a text on a connection of its own.
pub(crate) async fn post(url: &str, text: &str) -> Reply {
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A connection that breaks is what some tests are after; the length tells.
    let _ = stream.read_to_end(&mut bytes).await;
    let border = bytes
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..border].to_vec())
        .unwrap()
        .to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let raw = &bytes[border + 4..];
    let mut reply = Reply {
        status,
        head,
        body: raw.to_vec(),
        is_whole: false,
    };
    if reply.header("transfer-encoding") == Some("chunked") {
        (reply.body, reply.is_whole) = join_chunks(raw);
    } else {
        let promised: usize = reply.header("content-length").unwrap().parse().unwrap();
        reply.is_whole = promised == raw.len();
    }
    reply
}

fn join_chunks(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(border) = rest.windows(2).position(|part| part == b"\r\n") else {
            return (body, false);
        };
        let len = std::str::from_utf8(&rest[..border]).unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        rest = &rest[border + 2..];
        if len == 0 {
            return (body, true);
        }
        if rest.len() < len + 2 {
            body.extend_from_slice(rest);
            return (body, false);
        }
        body.extend_from_slice(&rest[..len]);
        rest = &rest[len + 2..];
    }
}

/// A request as text.
pub(crate) fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// Calls a method and returns the whole answer.
pub(crate) async fn call(url: &str, method: &str, params: Value) -> Value {
    let reply = post(url, &request(method, &params)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// Calls a method that must succeed.
pub(crate) async fn result(url: &str, method: &str, params: Value) -> Value {
    let answer = call(url, method, params).await;
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

/// A number from its hex.
pub(crate) fn number(value: &Value) -> u64 {
    let digits = value.as_str().unwrap().strip_prefix("0x").unwrap();
    assert!(digits == "0" || !digits.starts_with('0'), "{value}");
    u64::from_str_radix(digits, 16).unwrap()
}

/// A number as hex.
pub(crate) fn hex(number: u64) -> String {
    format!("{number:#x}")
}

//! An endpoint that repeats its request in what it answers, with the credentials in it, in every spelling.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Begins everything that the endpoint says: a word of the provider.
pub const WORD: &str = "ECHO-OF-PROVIDER";

/// Characters of a message that the node keeps.
const KEPT_CHARS: usize = 1_000;

/// The endpoint, until it is dropped.
pub struct Echo {
    pub address: SocketAddr,
    /// Requests that it answered.
    pub answered: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Echo {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = answered.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counted = counted.clone();
                connections.spawn(async move {
                    let _ = answer_all(stream, &counted).await;
                });
            }
        });
        Self {
            address,
            answered,
            _serving: serving,
        }
    }
}

async fn answer_all(mut stream: TcpStream, answered: &AtomicUsize) -> std::io::Result<()> {
    while let Some(head) = request(&mut stream).await? {
        let turn = answered.fetch_add(1, Ordering::SeqCst);
        let (status, body) = answer(&head, turn);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await?;
    }
    Ok(())
}

/// The head of the next request, whose body is read too; none at the end of the connection.
async fn request(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at + 4;
        }
        let mut part = [0; 4_096];
        match stream.read(&mut part).await? {
            0 => return Ok(None),
            read => bytes.extend_from_slice(&part[..read]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse::<usize>().ok())?
    });
    let mut rest = vec![0; (end + length.unwrap_or(0)).saturating_sub(bytes.len())];
    stream.read_exact(&mut rest).await?;
    Ok(Some(head))
}

fn answer(head: &str, turn: usize) -> (u16, String) {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let sent = head
        .lines()
        .find(|line| line.to_ascii_lowercase().starts_with("authorization"));
    let sent = sent.unwrap_or_default();
    let decoded = path.replace("%2B", "+").replace("%2F", "/");
    let twice = path.replace('%', "%25");
    let text = match turn % 3 {
        // The last part is cut by the provider.
        0 => [
            format!("{WORD} {path} {sent} {decoded}"),
            sent.to_ascii_uppercase(),
            path.to_lowercase(),
            decoded.to_uppercase(),
            decoded.replace('+', " "),
            twice,
            sent[..sent.len().min(30)].to_owned(),
        ]
        .join(" "),
        // Cut by the node in the middle of the key.
        1 => {
            let kept = "/v2/PATHKEY%2B123%2F".len();
            let before = ".".repeat(KEPT_CHARS - kept - WORD.len() - 1);
            format!("{WORD} {before}{path}")
        }
        // No answer to a call: what was wrong with it is quoted.
        _ => {
            let text = format!("{WORD} {path} {decoded} {sent}");
            return (401, json!(text).to_string());
        }
    };
    assert!(turn % 3 == 1 || text.len() < KEPT_CHARS, "{}", text.len());
    let error = json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32_000, "message": text } });
    (200, error.to_string())
}

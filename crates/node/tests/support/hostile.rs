//! Clients that take what they can: each of them used to stall every other client, or to take memory without end.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long a stalled request is held before its client begins another one.
const HELD: Duration = Duration::from_secs(5);
/// Between two reads of a slow reader.
const READ_EVERY: Duration = Duration::from_millis(100);
/// What a slow reader reads at once: at this pace it stays just above what a client must read.
const READ_BYTES: usize = 4_000;

/// What a client does, again and again.
#[derive(Clone, Copy)]
enum Attack {
    /// Announces a large body and sends one byte of it.
    StalledBody,
    /// Sends a body of medium size a byte at a time.
    SlowBody,
    /// Begins a head and does not end it.
    HalfHead,
    /// Reads a batch of large pages slowly.
    SlowReader,
    /// Fetches large pages that are compressed for it.
    Compressed,
    /// Fetches large pages as clients of HTTP/1.0 do.
    Old,
    /// Sends bytes that are no request.
    Garbage,
    /// Goes away in the middle of an answer.
    Leaves,
}

const CLIENTS: [(Attack, usize); 8] = [
    (Attack::StalledBody, 40),
    (Attack::SlowBody, 8),
    (Attack::HalfHead, 64),
    (Attack::SlowReader, 32),
    (Attack::Compressed, 4),
    (Attack::Old, 2),
    (Attack::Garbage, 2),
    (Attack::Leaves, 2),
];

/// Hostile clients of a listener, until it is dropped.
pub struct Hostile(JoinSet<()>);

impl Hostile {
    /// `base` is a URL without a path; `chain` is an id.
    pub fn start(base: &str, chain: u64) -> Self {
        let address = base.replace("http://", "");
        let mut clients = JoinSet::new();
        for (attack, count) in CLIENTS {
            for _ in 0..count {
                let address = address.clone();
                clients.spawn(async move {
                    loop {
                        // Being refused or cut is what it is after.
                        let _ = attack.once(&address, chain).await;
                        tokio::time::sleep(READ_EVERY).await;
                    }
                });
            }
        }
        Self(clients)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Attack {
    async fn once(self, address: &str, chain: u64) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address).await?;
        let page = format!("/v1/chains/{chain}/logs?fromBlock=0&limit=10000");
        match self {
            Self::StalledBody => {
                let head = format!(
                    "POST /{chain} HTTP/1.1\r\nhost: x\r\ncontent-length: 2097152\r\n\r\n["
                );
                stream.write_all(head.as_bytes()).await?;
                read_for(&mut stream, HELD).await
            }
            Self::SlowBody => {
                let head =
                    format!("POST /{chain} HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&[b' '; 50_000]).await?;
                for _ in 0..HELD.as_millis() / READ_EVERY.as_millis() {
                    stream.write_all(b" ").await?;
                    tokio::time::sleep(READ_EVERY).await;
                }
                Ok(())
            }
            Self::HalfHead => {
                stream.write_all(b"GET /v1/chains HTTP/1.1\r\nx: ").await?;
                read_for(&mut stream, HELD).await
            }
            Self::SlowReader => {
                let body = batch();
                let length = body.len();
                let head = format!(
                    "POST /{chain} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(head.as_bytes()).await?;
                let mut buffer = [0; READ_BYTES];
                while stream.read(&mut buffer).await? > 0 {
                    tokio::time::sleep(READ_EVERY).await;
                }
                Ok(())
            }
            Self::Compressed => {
                let head = format!(
                    "GET {page} HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await?;
                read_for(&mut stream, HELD).await
            }
            Self::Old => {
                let head = format!("GET {page}&format=ndjson HTTP/1.0\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                read_for(&mut stream, HELD).await
            }
            Self::Garbage => {
                stream.write_all(&[0xff; 4_096]).await?;
                read_for(&mut stream, HELD).await
            }
            Self::Leaves => {
                let head = format!("GET {page} HTTP/1.1\r\nhost: x\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                stream.read(&mut [0; 1_000]).await.map(|_| ())
            }
        }
    }
}

/// Four pages of 10,000 logs.
fn batch() -> String {
    let page = |id| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "chronolith_getLogs",
            "params": [{ "fromBlock": "0x0", "toBlock": "latest", "limit": 10_000 }],
        })
    };
    json!((0..4).map(page).collect::<Vec<_>>()).to_string()
}

/// Reads until the other side ends the connection, or this time is over.
async fn read_for(stream: &mut TcpStream, time: Duration) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let all = async {
        while stream.read(&mut buffer).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(time, all).await.unwrap_or(Ok(()))
}

//! Clients that take what they can: each of them used to stall every other client, or to take memory without end.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// How long a stalled request is held before its client begins another one.
const HELD: Duration = Duration::from_secs(5);
/// How long an idle connection is held, and the pause after one that was closed before.
const IDLE_HELD: Duration = Duration::from_secs(60);
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Between two reads of a slow reader.
const READ_EVERY: Duration = Duration::from_millis(100);
/// What a slow reader reads at once: at this pace it stays just above what a client must read.
const READ_BYTES: usize = 4_000;
/// What the system buffers for a client that does not read.
const UNREAD_BYTES: u32 = 16 << 10;
/// Requests of such a client: their answers are more than the server's system buffers.
const UNREAD_REQUESTS: usize = 100;

/// A listener of the program.
#[derive(Clone, Copy)]
enum Listener {
    Public,
    /// Health and metrics.
    Metrics,
}

/// What a client does, again and again.
#[derive(Clone, Copy)]
enum Attack {
    /// Announces a large body and sends one byte of it.
    StalledBody,
    /// Sends 60 KiB of a body, and the rest never: it counts, and is not long enough to have to come at a pace.
    LateBody,
    /// Sends a body of medium size a byte at a time.
    SlowBody,
    /// Begins a head and does not end it.
    HalfHead,
    /// Connects and sends nothing.
    Idle,
    /// Reads a batch of large pages slowly.
    SlowReader,
    /// Sends many requests and reads nothing.
    Unread,
    /// Fetches large pages that are compressed for it.
    Compressed,
    /// Fetches large pages as clients of HTTP/1.0 do.
    Old,
    /// Sends bytes that are no request.
    Garbage,
    /// Goes away in the middle of an answer.
    Leaves,
}

/// How many clients of each kind there are in a short run, where the program is not optimised and other tests run
/// beside it, and in a long one.
///
/// In each of them more come than the public listener has places for (`CONNECTIONS`) and than that of health and
/// metrics has (64). Those that are being answered leave places.
const CLIENTS: [(Attack, Listener, [usize; 2]); 13] = [
    (Attack::StalledBody, Listener::Public, [40, 40]),
    (Attack::LateBody, Listener::Public, [100, 300]),
    (Attack::SlowBody, Listener::Public, [8, 8]),
    (Attack::HalfHead, Listener::Public, [64, 64]),
    (Attack::Idle, Listener::Public, [600, 400]),
    (Attack::SlowReader, Listener::Public, [32, 32]),
    (Attack::Unread, Listener::Public, [4, 32]),
    (Attack::Compressed, Listener::Public, [4, 32]),
    (Attack::Old, Listener::Public, [2, 2]),
    (Attack::Garbage, Listener::Public, [2, 2]),
    (Attack::Leaves, Listener::Public, [2, 2]),
    (Attack::HalfHead, Listener::Metrics, [64, 64]),
    (Attack::Unread, Listener::Metrics, [8, 72]),
];
/// Places of the public listener, which the settings must have.
pub const CONNECTIONS: usize = 700;

/// How long the clients are there.
#[derive(Clone, Copy)]
pub enum Lasting {
    Short,
    Long,
}

/// The program that is attacked.
pub struct Target {
    pub public: SocketAddr,
    pub metrics: SocketAddr,
    /// The id of a chain.
    pub chain: u64,
}

/// Hostile clients, until they are dropped.
pub struct Hostile(JoinSet<()>);

impl Hostile {
    pub fn start(target: &Target, lasting: Lasting) -> Self {
        // Each connection is a file of this process.
        let maximum = getrlimit(Resource::Nofile).maximum;
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
        let mut clients = JoinSet::new();
        for (attack, listener, [short, long]) in CLIENTS {
            let address = match listener {
                Listener::Public => target.public,
                Listener::Metrics => target.metrics,
            };
            let opening = attack.opening(listener, target.chain);
            let clients_of_it = match lasting {
                Lasting::Short => short,
                Lasting::Long => long,
            };
            for _ in 0..clients_of_it {
                let opening = opening.clone();
                clients.spawn(async move {
                    loop {
                        // Being refused or cut is what it is after.
                        let _ = attack.once(address, &opening).await;
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
    /// What it sends at first.
    fn opening(self, listener: Listener, chain: u64) -> Vec<u8> {
        let post = |length: usize| {
            format!("POST /{chain} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n")
        };
        let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n{more}\r\n");
        let page = |limit: usize| format!("/v1/chains/{chain}/logs?fromBlock=0&limit={limit}");
        let whole = page(10_000);
        match self {
            Self::StalledBody => post(2 << 20) + "[",
            Self::LateBody => post(64 << 10) + &" ".repeat(60 << 10),
            Self::SlowBody => post(60_000) + &" ".repeat(50_000),
            Self::HalfHead => "GET /v1/chains HTTP/1.1\r\nx: ".to_owned(),
            Self::Idle => String::new(),
            Self::SlowReader => {
                let body = batch();
                post(body.len()) + &body
            }
            Self::Unread => {
                let path = match listener {
                    // As long as an answer may be that counts as small.
                    Listener::Public => page(400),
                    Listener::Metrics => "/metrics".to_owned(),
                };
                get(&path, "").repeat(UNREAD_REQUESTS)
            }
            Self::Compressed => get(&whole, "accept-encoding: gzip\r\nconnection: close\r\n"),
            Self::Old => format!("GET {whole}&format=ndjson HTTP/1.0\r\n\r\n"),
            Self::Garbage => return vec![0xff; 4_096],
            Self::Leaves => get(&whole, ""),
        }
        .into_bytes()
    }

    async fn once(self, address: SocketAddr, opening: &[u8]) -> io::Result<()> {
        let socket = TcpSocket::new_v4()?;
        if let Self::Unread = self {
            socket.set_recv_buffer_size(UNREAD_BYTES)?;
        }
        let mut stream = socket.connect(address).await?;
        stream.write_all(opening).await?;
        match self {
            Self::SlowBody => drip(&mut stream).await,
            Self::SlowReader => read_slowly(&mut stream).await,
            Self::Leaves => stream.read(&mut [0; 1_000]).await.map(|_| ()),
            Self::Unread => {
                tokio::time::sleep(HELD).await;
                Ok(())
            }
            Self::Idle => {
                let ended = read_for(&mut stream, IDLE_HELD).await;
                tokio::time::sleep(IDLE_PAUSE).await;
                ended
            }
            _ => read_for(&mut stream, HELD).await,
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

async fn drip(stream: &mut TcpStream) -> io::Result<()> {
    for _ in 0..HELD.as_millis() / READ_EVERY.as_millis() {
        stream.write_all(b" ").await?;
        tokio::time::sleep(READ_EVERY).await;
    }
    Ok(())
}

async fn read_slowly(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; READ_BYTES];
    while stream.read(&mut buffer).await? > 0 {
        tokio::time::sleep(READ_EVERY).await;
    }
    Ok(())
}

/// Reads until the other side ends the connection, or this time is over.
async fn read_for(stream: &mut TcpStream, time: Duration) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let all = async {
        while stream.read(&mut buffer).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(time, all).await.unwrap_or(Ok(()))
}

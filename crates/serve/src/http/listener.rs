//! Connections: a bounded number, and none forever.
//!
//! Where there is no room for another one, the one that has been idle for longest is closed, or one whose request has a
//! late body: both cost a client nothing, so a few thousand of them must not keep others out. One that has been idle for
//! less than a second stays: its client may be using it. A listener whose answers are short
//! closes busy ones too: clients that request and do not read cost no more.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::activity::Connections;
use super::connection::{self, Peer};
use super::drain::Drain;
use crate::http::peers::{PeerPermit, Peers};

/// How long to wait after a connection could not be accepted: the process may be out of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a new connection waits before another idle one is closed for it.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

/// At the end of a listener: for how long no connection comes before it is closed.
const LAST_ACCEPT: Duration = Duration::from_millis(10);

/// How many connections may be open.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In total; others wait.
    pub connections: usize,
    /// From one address; others are closed at once. None where they are not counted.
    pub per_peer: Option<usize>,
    /// How long a connection keeps its place at least, after which it makes room for another one even while it is
    /// answered. None where only idle ones make room, whenever they were opened.
    pub place_kept: Option<Duration>,
}

/// A connection that has its place.
struct Admitted {
    stream: TcpStream,
    from: SocketAddr,
    place: OwnedSemaphorePermit,
    peer: PeerPermit,
}

/// The connections of a listener.
struct Server {
    listener: TcpListener,
    peers: Peers,
    places: Arc<Semaphore>,
    place_kept: Option<Duration>,
    connections: Connections,
}

/// Serves until the drain begins, and then until no connection is open or the drain's time is over.
///
/// # Errors
/// None so far: a connection that cannot be accepted is left to the next one.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    mut drain: Drain,
) -> io::Result<()> {
    let server = Server {
        listener,
        peers: Peers::new(limits.per_peer),
        places: Arc::new(Semaphore::new(limits.connections)),
        place_kept: limits.place_kept,
        connections: Connections::default(),
    };
    let mut open = JoinSet::new();
    let ends = drain.clone();
    let serve = |open: &mut JoinSet<()>, admitted: Admitted| {
        let registered = server.connections.register();
        let (router, ends) = (router.clone(), ends.clone());
        open.spawn(async move {
            let stream = (admitted.stream, Peer(admitted.from));
            connection::serve(stream, router, registered, ends).await;
            drop((admitted.place, admitted.peer));
        });
    };
    // It may hold a connection that waits for its place: only the drain may end it before its time.
    let mut accepting = Box::pin(server.accept());
    let within = loop {
        let admitted = tokio::select! {
            admitted = accepting.as_mut() => admitted,
            // Only drops the tasks of connections that ended.
            Some(_) = open.join_next() => continue,
            within = drain.begun() => break within,
        };
        accepting.set(server.accept());
        serve(&mut open, admitted);
    };
    let drain_started = Instant::now();
    // Connections that the system has accepted already would be reset.
    let until = drain_started + within / 2;
    while let Ok(admitted) =
        timeout_at(until.min(Instant::now() + LAST_ACCEPT), accepting.as_mut()).await
    {
        accepting.set(server.accept());
        serve(&mut open, admitted);
    }
    // New connections are refused from here on: a proxy takes another server.
    drop(accepting);
    drop(server);
    let ended = async { while open.join_next().await.is_some() {} };
    if timeout_at(drain_started + within, ended).await.is_err() {
        tracing::warn!(
            event = "connections_cut",
            open = open.len(),
            seconds = within.as_secs(),
            "connections cut"
        );
    }
    Ok(())
}

impl Server {
    /// Waits for a connection that has a place.
    async fn accept(&self) -> Admitted {
        loop {
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(peer) = self.peers.admit(from.ip()) else {
                continue;
            };
            // Without it, a small response waits for the acknowledgement of the one before.
            let _ = stream.set_nodelay(true);
            let place = self.place().await;
            return Admitted {
                stream,
                from,
                place,
                peer,
            };
        }
    }

    async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                return place;
            }
            match self.place_kept {
                None => self.connections.close_longest_idle(),
                Some(kept) => self.connections.close_opened_before(kept),
            };
            let place = self.places.clone().acquire_owned();
            if let Ok(Ok(place)) = tokio::time::timeout(ROOM_PAUSE, place).await {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;

    use super::*;
    use crate::http::drain::drain;

    const WITHIN: Duration = Duration::from_secs(1);

    /// Requests a path on a new connection; none where it is refused.
    async fn request(address: SocketAddr, path: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.ok()?;
        Some(stream)
    }

    /// Connections that kept coming used to make a drain last half as long again.
    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_in_time_while_connections_come() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stuck = Arc::new(Notify::new());
        let begun = stuck.clone();
        let never = move || {
            begun.notify_one();
            pending::<()>()
        };
        let router = Router::new()
            .route("/", get(|| async {}))
            .route("/never", get(never));
        let limits = ConnectionLimits {
            connections: 1_000,
            per_peer: None,
            place_kept: None,
        };
        let (drainer, drain) = drain();
        // While a thread works for the runtime, its paused time moves only where the test moves it.
        let (let_go, waits) = mpsc::channel::<()>();
        let works = tokio::task::spawn_blocking(move || waits.recv());
        let clients = async {
            let open = request(address, "/never").await;
            stuck.notified().await;
            let begin = Instant::now();
            drainer.begin(WITHIN);
            let mut answered = 0;
            while let Some(mut stream) = request(address, "/").await {
                let mut answer = String::new();
                if stream.read_to_string(&mut answer).await.is_err() || answer.is_empty() {
                    break;
                }
                answered += 1;
                tokio::time::advance(LAST_ACCEPT / 2).await;
            }
            drop(let_go);
            (open, begin, answered)
        };
        let (listened, (_open, begin, answered)) =
            tokio::join!(listen(listener, router, limits, drain), clients);
        listened.unwrap();
        let took = begin.elapsed();
        assert!(answered > 50, "{answered} connections came");
        assert!(took < WITHIN * 5 / 4, "{took:?}");
        assert!(works.await.is_ok());
    }
}

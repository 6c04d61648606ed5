//! The directory on the wire.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::faults::{FileFault, FileFaults};
use super::range::{Asked, parse};

/// What a server was asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileStats {
    /// Requests by path, whatever came of them.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of files that were sent.
    pub bytes: u64,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    faults: FileFaults,
    stats: Mutex<FileStats>,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<io::Result<()>>,
}

impl FileServer {
    /// Serves what is below this directory on a free local port. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(directory: impl Into<PathBuf>, faults: FileFaults) -> io::Result<Self> {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let listener = TcpListener::bind(any).await?;
        let address = listener.local_addr()?;
        let (stop, mut stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            directory: directory.into(),
            faults,
            stats: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let until = async move {
            // An error means that the sender is gone, and the server with it.
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let serve = axum::serve(listener, router).with_graceful_shutdown(until);
        #[expect(
            clippy::disallowed_methods,
            reason = "a simulated server lives beside the test that talks to it"
        )]
        let task = tokio::spawn(async move { serve.await });
        Ok(Self {
            address,
            shared,
            stop,
            task,
        })
    }

    /// Where the directory is, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked, so far.
    #[must_use]
    pub fn stats(&self) -> FileStats {
        self.shared.stats.lock().clone()
    }

    /// Stops taking requests and waits until those under way are answered.
    ///
    /// # Errors
    /// When serving had failed before.
    pub async fn shutdown(self) -> io::Result<()> {
        // Nobody to tell means that the task has ended already.
        let _ = self.stop.send(true);
        self.task.await.map_err(io::Error::other)?
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    shared.count(|stats| *stats.requests.entry(uri.path().to_owned()).or_default() += 1);
    if method != Method::GET && method != Method::HEAD {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let fault = shared.faults.draw(uri.path());
    match fault {
        Some(FileFault::NotFound) => return status(StatusCode::NOT_FOUND),
        Some(FileFault::Status(code)) => {
            let code = StatusCode::from_u16(code);
            return status(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
        }
        Some(FileFault::Slow(delay)) => tokio::time::sleep(delay).await,
        _ => {}
    }
    let file = path(&shared.directory, uri.path()).and_then(|path| std::fs::read(path).ok());
    let Some(mut file) = file else {
        return status(StatusCode::NOT_FOUND);
    };
    match fault {
        Some(FileFault::Half) => file.truncate(file.len() / 2),
        Some(FileFault::WrongByte) => {
            let middle = file.len() / 2;
            file.get_mut(middle)
                .into_iter()
                .for_each(|byte| *byte ^= 0x10);
        }
        _ => {}
    }
    let file = Bytes::from(file);
    let asked = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let part = match parse(asked, file.len()) {
        Asked::Whole => None,
        Asked::Part(part) => Some(part),
        Asked::Beyond => return status(StatusCode::RANGE_NOT_SATISFIABLE),
    };
    let answer = Answer {
        file,
        part,
        cut: fault == Some(FileFault::CutShort),
        body: method == Method::GET,
    };
    answer.send(&shared)
}

/// What is sent of a file.
struct Answer {
    file: Bytes,
    part: Option<Range<usize>>,
    cut: bool,
    body: bool,
}

impl Answer {
    fn send(self, shared: &Shared) -> Response {
        let whole = self.file.len();
        let builder = Response::builder().header(ACCEPT_RANGES, "bytes");
        let (builder, bytes) = match self.part {
            Some(part) => {
                let range = format!("bytes {}-{}/{whole}", part.start, part.end - 1);
                let builder = builder.status(StatusCode::PARTIAL_CONTENT);
                (builder.header(CONTENT_RANGE, range), self.file.slice(part))
            }
            None => (builder.status(StatusCode::OK), self.file),
        };
        let builder = builder.header(CONTENT_LENGTH, bytes.len());
        let body = match (self.body, self.cut) {
            (false, _) => Body::empty(),
            (true, false) => {
                shared.count(|stats| stats.bytes += bytes.len() as u64);
                Body::from(bytes)
            }
            (true, true) => broken(&bytes),
        };
        builder.body(body).expect("status and headers are valid")
    }
}

/// Half of the bytes, and then the connection breaks.
fn broken(bytes: &Bytes) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    // The pause lets the half leave before the connection breaks.
    let end = async {
        tokio::task::yield_now().await;
        Err(io::Error::other("injected fault: body cut short"))
    };
    Body::from_stream(stream::iter([Ok(half)]).chain(stream::once(end)))
}

fn status(code: StatusCode) -> Response {
    let response = Response::builder().status(code).body(Body::empty());
    response.expect("a status is valid")
}

/// Where a path of a URL lies below the directory; none where it leads out of it.
fn path(directory: &Path, url: &str) -> Option<PathBuf> {
    let mut path = directory.to_owned();
    for part in url.split('/').filter(|part| !part.is_empty()) {
        if part == ".." || part == "." || part.contains('\\') {
            return None;
        }
        path.push(part);
    }
    Some(path)
}

impl Shared {
    fn count(&self, count: impl FnOnce(&mut FileStats)) {
        count(&mut self.stats.lock());
    }
}

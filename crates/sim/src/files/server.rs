//! The directory on the wire.

use std::collections::BTreeMap;
use std::io;
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
use parking_lot::Mutex;

use super::faults::{FileFault, FileFaults};
use super::range::{RequestedRange, parse};
use crate::http_server::{ANY_LOCAL_PORT, HttpServer, cut_short};

/// What a server was asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileStats {
    /// Requests by path, with refused ones.
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
    http: HttpServer,
    shared: Arc<Shared>,
}

impl FileServer {
    /// Serves what is below this directory on a free local port. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(directory: impl Into<PathBuf>, faults: FileFaults) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            directory: directory.into(),
            faults,
            stats: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let http = HttpServer::start(ANY_LOCAL_PORT, |_| router).await?;
        Ok(Self { http, shared })
    }

    /// Where the directory is, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.http.address)
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
        self.http.shutdown().await
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let requested = uri.path().to_owned();
    *shared.stats.lock().requests.entry(requested).or_default() += 1;
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
            if let Some(byte) = file.get_mut(middle) {
                *byte ^= 0x10;
            }
        }
        _ => {}
    }
    let file = Bytes::from(file);
    let header = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let part = match parse(header, file.len()) {
        RequestedRange::Whole => None,
        RequestedRange::Part(part) => Some(part),
        RequestedRange::Beyond => return status(StatusCode::RANGE_NOT_SATISFIABLE),
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
                shared.stats.lock().bytes += bytes.len() as u64;
                Body::from(bytes)
            }
            (true, true) => cut_short(&bytes),
        };
        builder.body(body).expect("status and headers are valid")
    }
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

//! A simulated Portal on the wire: one dataset on one local port, or several.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef, Hash32};
use parking_lot::Mutex;
use serde_json::json;

use super::body::{BodyPlan, body};
use super::encoder::Encoder;
use super::faults::{PortalFault, PortalFaults};
use super::query::Query;
use crate::evm::{EvmNode, Limiter, RateLimit};
use crate::http_server::{ANY_LOCAL_PORT, HttpServer};

/// How far the finalized head goes down.
const DOWN_BLOCKS: u64 = 7;
/// How many blocks the answer to a refused continuation lists.
const PREVIOUS_BLOCKS: u64 = 5;

/// How bodies are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortalEncoding {
    /// Zstd where the client takes it, else gzip.
    #[default]
    Negotiated,
    Gzip,
}

/// How a Portal behaves.
#[derive(Clone, Debug, Default)]
pub struct PortalOptions {
    /// The name of its dataset; `sim` where there is none.
    pub dataset: Option<String>,
    /// Its first block.
    pub start_block: u64,
    /// Most blocks of one answer; none for as many as were requested.
    pub blocks_max: Option<u64>,
    pub encoding: PortalEncoding,
    /// How long every answer takes at least to begin.
    pub delay: Duration,
    /// How often it may be asked.
    pub rate_limit: Option<RateLimit>,
    pub faults: PortalFaults,
}

/// What a Portal was asked and how it answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortalStats {
    /// Requests by the last part of their path; refused ones count.
    pub requests: BTreeMap<String, u64>,
    /// Bodies by their compression.
    pub encodings: BTreeMap<&'static str, u64>,
    /// Requests for a stream that named the block before it.
    pub with_parent: u64,
}

#[derive(Debug)]
struct Shared {
    node: EvmNode,
    options: PortalOptions,
    limiter: Limiter,
    stats: Mutex<PortalStats>,
}

impl Shared {
    fn new(node: EvmNode, options: PortalOptions) -> Arc<Self> {
        Arc::new(Self {
            node,
            limiter: Limiter::new(options.rate_limit),
            options,
            stats: Mutex::default(),
        })
    }

    /// The paths of its dataset.
    fn router(self: &Arc<Self>) -> Router {
        let path = format!("/datasets/{}/{{call}}", self.dataset());
        let calls = get(look_up).post(stream);
        Router::new().route(&path, calls).with_state(self.clone())
    }

    fn dataset(&self) -> &str {
        self.options.dataset.as_deref().unwrap_or("sim")
    }
}

/// A running Portal. Dropping it stops it.
#[derive(Debug)]
pub struct PortalServer {
    http: HttpServer,
    shared: Arc<Shared>,
}

impl PortalServer {
    /// Serves the chain of this node on a free local port. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(node: EvmNode, options: PortalOptions) -> io::Result<Self> {
        Self::start_at(ANY_LOCAL_PORT, node, options).await
    }

    /// Serves the chain of this node at this address; port 0 is a free one. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be opened.
    pub async fn start_at(
        at: SocketAddr,
        node: EvmNode,
        options: PortalOptions,
    ) -> io::Result<Self> {
        let shared = Shared::new(node, options);
        let router = shared.router().fallback(unknown);
        let http = HttpServer::start(at, |_| router).await?;
        Ok(Self { http, shared })
    }

    /// Where its dataset is.
    #[must_use]
    pub fn url(&self) -> String {
        let dataset = self.shared.dataset();
        format!("http://{}/datasets/{dataset}", self.http.address)
    }

    /// What it was asked and how it answered, so far.
    #[must_use]
    pub fn stats(&self) -> PortalStats {
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

/// A running Portal with several datasets; it knows no others. Dropping it stops it.
#[derive(Debug)]
pub struct PortalDatasets(HttpServer);

impl PortalDatasets {
    /// Serves a chain for each dataset on one free local port. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(datasets: Vec<(EvmNode, PortalOptions)>) -> io::Result<Self> {
        let datasets = datasets.into_iter();
        let routers = datasets.map(|(node, options)| Shared::new(node, options).router());
        let router = routers.fold(Router::new(), Router::merge).fallback(unknown);
        Ok(Self(HttpServer::start(ANY_LOCAL_PORT, |_| router).await?))
    }

    /// Where its datasets are.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/datasets", self.0.address)
    }
}

/// How far a stream goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Head,
    Finalized,
}

/// A refusal, which is an answer all the same.
type Refused = Box<Response>;

async fn unknown() -> Response {
    respond(StatusCode::NOT_FOUND, "Not found: unknown dataset")
}

/// Answers a GET.
async fn look_up(State(shared): State<Arc<Shared>>, Path(call): Path<String>) -> Response {
    shared.arrive(&call).await;
    if let Some(refused) = shared.refused(&[204]) {
        return refused;
    }
    let (node, options) = (&shared.node, &shared.options);
    let head = |block: BlockRef| {
        if options.faults.hits(PortalFault::HeadNull) {
            return "null".to_owned();
        }
        json!({"number": block.number, "hash": block.hash.to_string()}).to_string()
    };
    let start = options.start_block;
    let text = match call.as_str() {
        "metadata" => {
            json!({"dataset": "sim", "aliases": [], "real_time": true, "start_block": start})
                .to_string()
        }
        "head" => head(node.head()),
        "finalized-head" => head(shared.finalized()),
        _ => return unknown().await,
    };
    respond(StatusCode::OK, text)
}

/// Answers a POST.
async fn stream(
    State(shared): State<Arc<Shared>>,
    Path(call): Path<String>,
    headers: HeaderMap,
    request: Bytes,
) -> Response {
    shared.arrive(&call).await;
    let which = match call.as_str() {
        "stream" => Which::Head,
        "finalized-stream" => Which::Finalized,
        _ => return unknown().await,
    };
    let answered = shared.stream(&request, &headers, which);
    let mut response = answered.unwrap_or_else(|refused| *refused);
    let (head, finalized) = (shared.node.head(), shared.finalized());
    for (name, value) in [
        ("x-sqd-head-number", head.number.to_string()),
        ("x-sqd-finalized-head-number", finalized.number.to_string()),
        ("x-sqd-finalized-head-hash", finalized.hash.to_string()),
    ] {
        let value = value.parse().expect("digits are a header's value");
        response.headers_mut().insert(name, value);
    }
    response
}

impl Shared {
    fn stream(
        &self,
        request: &[u8],
        headers: &HeaderMap,
        which: Which,
    ) -> Result<Response, Refused> {
        if let Some(refused) = self.refused(&[]) {
            return Err(refused.into());
        }
        let bad = |what| respond(StatusCode::BAD_REQUEST, format!("Bad request: {what}"));
        let query = Query::parse(request).map_err(bad)?;
        let from = query.from_block;
        if from < self.options.start_block {
            return Err(bad("fromBlock is below the start of the dataset".to_owned()).into());
        }
        self.stats.lock().with_parent += u64::from(query.parent_block_hash.is_some());
        let frontier = match which {
            Which::Head => self.node.head(),
            Which::Finalized => self.node.finalized(),
        };
        if from > frontier.number {
            return Err(respond(StatusCode::NO_CONTENT, "").into());
        }
        self.check_parent(&query, which)?;
        let most = self.options.blocks_max.unwrap_or(u64::MAX);
        let to = query.to_block.unwrap_or(u64::MAX).min(frontier.number);
        let range = BlockRange::new(from, (to + 1).min(from.saturating_add(most)));
        let encoder = match self.options.encoding {
            PortalEncoding::Gzip => Encoder::gzip(),
            PortalEncoding::Negotiated => Encoder::negotiated(headers)
                .map_err(|error| respond(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?,
        };
        let name = encoder.name();
        *self.stats.lock().encodings.entry(name).or_default() += 1;
        let faults = self.options.faults.clone();
        let mut response = respond(StatusCode::OK, "");
        let name = HeaderValue::from_static(name);
        response.headers_mut().insert(CONTENT_ENCODING, name);
        *response.body_mut() = if faults.hits(PortalFault::EmptyBody) {
            Body::from(encoder.finish().unwrap_or_default())
        } else {
            let plan = BodyPlan {
                node: self.node.clone(),
                query,
                range,
                faults,
            };
            body(plan, encoder)
        };
        Ok(response)
    }

    /// Refuses to continue a block that is not part of the chain.
    fn check_parent(&self, query: &Query, which: Which) -> Result<(), Refused> {
        let from = query.from_block;
        let before = BlockRange::new(from.saturating_sub(PREVIOUS_BLOCKS), from);
        let mut previous = self.node.clocks(before);
        let parent = previous.last().map(|clock| clock.hash);
        // The parent of a final block is not checked.
        let asked = query.parent_block_hash.map(|hash| Hash32(hash.0));
        let asked = asked.filter(|_| which == Which::Head);
        let injected = from > 0 && self.options.faults.hits(PortalFault::Conflict);
        if !injected && asked.is_none_or(|asked| parent == Some(asked)) {
            return Ok(());
        }
        // Neither rising nor falling: both are found in the wild.
        let middle = previous.len() / 2;
        previous.rotate_left(middle);
        let block = |clock: &chronolith_model::BlockMeta| json!({"number": clock.number, "hash": clock.hash.to_string()});
        let previous: Vec<_> = previous.iter().map(block).collect();
        let text = json!({"previousBlocks": previous}).to_string();
        Err(respond(StatusCode::CONFLICT, text).into())
    }

    /// The finalized head, or an older one.
    fn finalized(&self) -> BlockRef {
        let finalized = self.node.finalized();
        if !self.options.faults.hits(PortalFault::FinalizedHeadDown) {
            return finalized;
        }
        let lower = finalized.number.saturating_sub(DOWN_BLOCKS);
        let clocks = self.node.clocks(BlockRange::one(lower));
        clocks.first().map_or(finalized, |clock| clock.block_ref())
    }

    /// Too many requests, or a status that is injected, unless it is invalid here.
    fn refused(&self, never: &[u16]) -> Option<Response> {
        let (status, retry_after) = if self.limiter.admits(1) {
            match self.options.faults.draw_status(never)? {
                PortalFault::Status(status) => (status, None),
                PortalFault::StatusRetryAfter(status) => (status, Some(1)),
                _ => return None,
            }
        } else {
            (429, self.limiter.retry_after_seconds())
        };
        let status = StatusCode::from_u16(status).ok()?;
        let mut response = respond(status, "Bad request: injected fault");
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::NO_CONTENT {
            *response.body_mut() = Body::empty();
        }
        Some(response)
    }

    /// Counts a request, and lets it wait as long as every one does.
    async fn arrive(&self, call: &str) {
        let call = call.to_owned();
        *self.stats.lock().requests.entry(call).or_default() += 1;
        if !self.options.delay.is_zero() {
            tokio::time::sleep(self.options.delay).await;
        }
    }
}

fn respond(status: StatusCode, text: impl Into<Body>) -> Response {
    // A real Portal is inconsistent about the type; clients must not depend on it.
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "text/plain")
        .body(text.into())
        .expect("status and headers are valid")
}

//! `/v1/chains/{id}/logs/download`: all matching logs of final blocks in one answer of any size.
//!
//! Logs are read page by page, as the client takes them: an answer needs the memory of one page. It ends with a line
//! that says that it is complete. One that is cut has no such line, and continues after the last log that arrived
//! (`after`): final blocks do not change in between. Where an operator takes final blocks back, it is cut.

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use chronolith_archive::{Pinned, after_cursor};
use chronolith_model::{BlockRange, BlockRef, Cursor, LogFilter, Order};
use futures::stream::try_unfold;
use serde_json::json;

use super::log_query::LogQuery;
use super::logs::trailer;
use super::pages::{LoadedPage, Pages};
use super::{PathParams, chain};
use crate::chain::ServedChain;
use crate::error::ApiError;
use crate::fault::Fault;
use crate::http::access::Visit;
use crate::http::answer_memory::MemoryReservation;
use crate::http::body::{CHUNK_BYTES, HeldMemory, LogFormat, LogsAnswer, ResponseBody};
use crate::http::caching::NO_STORE;
use crate::http::context::Context;
use crate::times::{Timestamp, utc};
use crate::view::View;

/// The route of downloads.
pub(crate) const DOWNLOAD: &str = "/v1/chains/{chainId}/logs/download";

const PARAMETERS: [&str; 14] = [
    "fromBlock",
    "toBlock",
    "from",
    "to",
    "address",
    "topic0",
    "topic1",
    "topic2",
    "topic3",
    "order",
    "cursor",
    "after",
    "format",
    "trailer",
];
/// About what a log takes as a line.
const LOG_BYTES: usize = 600;
/// Logs of the smallest page: each is a query.
const PAGE_LOGS_MIN: usize = 100;
/// How many chunks are what a caller may be sent at once: with half of it left to others, none brings it into debt.
const CHUNKS_PER_BURST: usize = 4;
const CHUNK_BYTES_MIN: usize = 1 << 10;

pub(crate) async fn download_logs(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
    visit: Option<Extension<Visit>>,
) -> Result<Response, ApiError> {
    let query = LogQuery::parse(&context, query.as_deref(), &PARAMETERS)?.for_download()?;
    let chain = context.served.find(chain(&context, &id)?.id);
    let request = Request {
        chain: chain.ok_or(Fault::Empty)?,
        context: &context,
        visit: visit.map(|Extension(visit)| visit),
        query: &query,
    };
    let begun = match request.begin(&View::take(request.chain).await?).await {
        Err(error) => {
            let view = View::retry(request.chain, error).await?;
            request.begin(&view).await?
        }
        Ok(begun) => begun,
    };
    let name = file_name(request.chain.id, begun.range, query.format);
    let mut response = Download::new(&request, begun).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, query.format.content_type());
    headers.insert(header::CONTENT_DISPOSITION, name);
    // It may be larger than the disk of a cache, and is continued by parts that no cache has.
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    Ok(response)
}

/// A request for a download.
struct Request<'a> {
    context: &'a Context,
    chain: &'a Arc<ServedChain>,
    /// Where callers have limits.
    visit: Option<Visit>,
    query: &'a LogQuery,
}

/// A download whose first page is read: an error after it has no status.
struct Begun {
    range: BlockRange,
    /// Where the blocks were requested by time.
    settled: Option<bool>,
    first: Option<LoadedPage>,
    pages: Pages,
}

impl Request<'_> {
    /// Finds the blocks in a view, and reads the first page.
    async fn begin(&self, view: &View<'_>) -> Result<Begun, ApiError> {
        let (context, query) = (self.context, self.query);
        let scope = query.scope(context, view).await?;
        check_passed(view, query.until())?;
        let range = scope.range.unwrap_or(BlockRange::new(0, 0));
        let last = last_of(view, range).await?;
        let cursor = match query.after {
            Some(place) => Some(cursor_at(view, place).await?),
            None => query.filter.cursor,
        };
        let order = query.filter.order;
        let rest = match &cursor {
            Some(cursor) => rest_from(range, cursor, order)?,
            None => range,
        };
        let mut pages = Pages {
            context: context.clone(),
            chain: self.chain.clone(),
            filter: LogFilter {
                cursor,
                limit: Some(self.page_logs()),
                ..query.filter.clone()
            },
            last,
            rest,
            window: u64::MAX,
        };
        let first = pages.next().await?;
        Ok(Begun {
            range,
            settled: scope.settled,
            first,
            pages,
        })
    }

    /// Logs of a page. It takes memory until it is sent: at the rate of a caller that is about the time in which the
    /// bytes at once come back.
    fn page_logs(&self) -> usize {
        let most = self.context.limits.answers.results;
        let burst = self.visit.as_ref().and_then(Visit::byte_burst);
        let logs = burst.map(|burst| (burst / LOG_BYTES).max(PAGE_LOGS_MIN));
        logs.unwrap_or(most).min(most)
    }

    /// Bytes that are sent before the caller's other requests get their turn.
    fn chunk_bytes(&self) -> usize {
        let burst = self.visit.as_ref().and_then(Visit::byte_burst);
        let bytes = burst.map_or(CHUNK_BYTES, |burst| burst / CHUNKS_PER_BURST);
        bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES)
    }
}

/// Times that no final block has passed are refused: a later block may be in them, or another one in the place of a
/// block that is not final.
fn check_passed(view: &View<'_>, until: Option<Timestamp>) -> Result<(), ApiError> {
    let Some(until) = until else {
        return Ok(());
    };
    let latest = view.archive.as_ref().and_then(Pinned::latest_timestamp);
    let passed = latest.map(|seconds| Timestamp { seconds, nanos: 0 });
    if passed.is_some_and(|passed| passed >= until) {
        return Ok(());
    }
    let newest = latest.and_then(utc);
    let newest = newest.map_or("no block is final yet".to_owned(), |time| {
        format!("final blocks reach until {time}")
    });
    let message = format!(
        "to: later blocks may be in these times, and only what stays as it is can be downloaded: {newest}"
    );
    let finalized = view.finalized_head().map(|head| head.number);
    Err(ApiError::params(message).with(json!({ "finalized": finalized })))
}

/// The last block of a range. Blocks that may still be replaced are refused: a download takes long, and is continued
/// later.
async fn last_of(view: &View<'_>, range: BlockRange) -> Result<Option<BlockRef>, ApiError> {
    let Some(last) = range.end.checked_sub(1).filter(|_| !range.is_empty()) else {
        return Ok(None);
    };
    if view.is_final(last) {
        let clock = view.clock(last).await?;
        return Ok(clock.map(|clock| clock.block_ref()));
    }
    let finalized = view.finalized_head().map(|head| head.number);
    let newest = finalized.map_or("no block is final yet".to_owned(), |number| {
        format!("the newest final block is {number}")
    });
    let message = format!(
        "toBlock: block {last} is not final, and only final blocks can be downloaded: {newest}; leave toBlock out to get all of them"
    );
    Err(ApiError::params(message).with(json!({ "finalized": finalized })))
}

/// The cursor after a log of a block.
async fn cursor_at(view: &View<'_>, (number, log_index): (u64, u32)) -> Result<Cursor, ApiError> {
    let unknown = || ApiError::params(format!("after: block {number} is not indexed"));
    let clock = view.clock(number).await?.ok_or_else(unknown)?;
    let block = BlockRef {
        number,
        hash: clock.hash,
    };
    Ok(Cursor { block, log_index })
}

/// The blocks of a range that a cursor leaves, with its own.
fn rest_from(range: BlockRange, cursor: &Cursor, order: Order) -> Result<BlockRange, ApiError> {
    let number = cursor.block.number;
    if !range.contains(number) {
        let message = format!(
            "block {number}, after whose log the download continues, is not one of the requested blocks"
        );
        return Err(ApiError::params(message));
    }
    Ok(after_cursor(&range, cursor, order))
}

/// The name under which clients save logs of these blocks.
pub(super) fn file_name(chain: u64, range: BlockRange, format: LogFormat) -> HeaderValue {
    let (from, to) = (range.start, range.end.saturating_sub(1));
    let end = match format {
        LogFormat::Csv => "csv",
        LogFormat::Lines | LogFormat::List => "ndjson",
    };
    let text = format!("attachment; filename=\"chronolith-{chain}-logs-{from}-{to}.{end}\"");
    HeaderValue::try_from(text).expect("it is digits and letters")
}

/// A download on its way.
struct Download {
    pages: Pages,
    /// Where callers have limits.
    visit: Option<Visit>,
    chunk_bytes: usize,
    /// What is left of the page that is being sent.
    page: ResponseBody,
    held: HeldMemory,
    format: LogFormat,
    has_trailer: bool,
    settled: Option<bool>,
    count: usize,
    has_ended: bool,
}

impl Download {
    fn new(request: &Request<'_>, begun: Begun) -> Self {
        let query = request.query;
        let mut download = Self {
            pages: begun.pages,
            visit: request.visit.clone(),
            chunk_bytes: request.chunk_bytes(),
            page: ResponseBody::default(),
            held: HeldMemory::new(MemoryReservation::default()),
            format: query.format,
            has_trailer: query.trailer,
            settled: begun.settled,
            count: 0,
            has_ended: false,
        };
        // A part that continues another one is appended to it.
        if !query.continues() {
            download.page.text(query.format.head());
        }
        download.put(begun.first);
        download
    }

    /// Writes a page, or the end.
    fn put(&mut self, loaded: Option<LoadedPage>) {
        let Some(LoadedPage { page, held }) = loaded else {
            self.has_ended = true;
            if self.has_trailer {
                let trailer = trailer(self.format, self.count, None, self.settled);
                self.page.text(trailer.as_bytes());
            }
            return;
        };
        self.count += page.logs.len();
        self.held = HeldMemory::new(held);
        self.page.rows(LogsAnswer {
            logs: page.logs,
            format: self.format,
            own_levels: self.pages.chain.stellar().is_some(),
            ..LogsAnswer::default()
        });
    }

    /// The next bytes to send; none at the end. The caller drops the answer at an error, so that the client sees
    /// that it was cut.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        // The next bytes may always be there: other connections of the thread get their turn.
        tokio::task::yield_now().await;
        if self.has_ended && self.page.is_empty() {
            return Ok(None);
        }
        if let Some(visit) = &self.visit {
            visit.until_turn().await;
        }
        loop {
            if let Some(chunk) = self.page.next_chunk(self.chunk_bytes) {
                return Ok(Some(self.held.hold(chunk)));
            }
            if self.has_ended {
                return Ok(None);
            }
            // Chunks that are not sent yet keep their own part: the next page must not wait for this one.
            self.held = HeldMemory::new(MemoryReservation::default());
            let loaded = self.pages.next_when_free().await?;
            self.put(loaded);
        }
    }

    fn into_response(self) -> Response {
        let chunks = try_unfold(self, |mut download| async move {
            let chunk = download.next().await;
            if let Err(error) = &chunk {
                tracing::warn!(chain = download.pages.chain.id, %error, "download cut");
            }
            chunk.map(|chunk| chunk.map(|chunk| (chunk, download)))
        });
        Body::from_stream(chunks).into_response()
    }
}

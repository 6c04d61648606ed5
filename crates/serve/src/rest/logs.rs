//! `/v1/chains/{id}/logs`: the filter of `eth_getLogs` for clients without JSON-RPC.
//!
//! Lines and tables end with a line that says that they are whole: over most paths from a server to a program
//! nothing else tells a whole file from one that was cut.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use chronolith_model::BlockRange;

use super::download::file_name;
use super::log_query::LogQuery;
use super::{PathParams, chain, final_answers, put_next};
use crate::cursor;
use crate::error::ApiError;
use crate::http::answer_memory::MemoryReservation;
use crate::http::body::{LogFormat, LogsAnswer, ResponseBody};
use crate::http::context::Context;
use crate::logs::Page;
use crate::rpc::{PageScope, page_answer};
use crate::view::View;

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
    "limit",
    "order",
    "cursor",
    "format",
    "trailer",
];
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// A page, and how to continue.
pub(super) struct FoundPage {
    pub(super) answer: LogsAnswer,
    /// The cursor of the next page, and its query string where that is short.
    pub(super) next: Option<(String, Option<String>)>,
    /// Its blocks; none where no block is between the two times of the request.
    range: Option<BlockRange>,
}

pub(crate) async fn get_logs(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let query = LogQuery::parse(&context, query.as_deref(), &PARAMETERS)?;
    let chain = chain(&context, &id)?;
    match answer(&context, &View::take(chain).await?, &query, &headers).await {
        Err(error) => {
            let view = View::retry(chain, error).await?;
            answer(&context, &view, &query, &headers).await
        }
        answered => answered,
    }
}

async fn answer(
    context: &Context,
    view: &View<'_>,
    query: &LogQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let tag = final_answers::tag(view, query, "logs").await;
    if let Some(known) = tag.as_ref().filter(|tag| tag.is_known(headers)) {
        return Ok(known.clone().not_modified());
    }
    let page = find(context, view, query).await?;
    let mut response = respond(view.chain.id, query.format, page);
    if let Some(tag) = tag {
        tag.put(&mut response);
    }
    Ok(response)
}

fn respond(chain: u64, format: LogFormat, page: FoundPage) -> Response {
    let mut body = ResponseBody::default();
    body.logs(page.answer);
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, format.content_type());
    if format == LogFormat::Csv {
        // Browsers save tables anyway; other formats they show.
        let range = page.range.unwrap_or(BlockRange::new(0, 0));
        let name = file_name(chain, range, format);
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    if let Some((cursor, link)) = page.next {
        put_next(headers, &cursor, link.as_deref());
    }
    response
}

/// A page of logs, in a view.
pub(super) async fn find(
    context: &Context,
    view: &View<'_>,
    query: &LogQuery,
) -> Result<FoundPage, ApiError> {
    let scope = query.scope(context, view).await?;
    let (page, held) = match scope.range {
        Some(range) => context.query(view, range, &query.filter).await?,
        None => (Page::default(), MemoryReservation::default()),
    };
    let cursor = page.next.as_ref().map(cursor::encode);
    let next = cursor.zip(scope.range);
    let next = next.map(|(cursor, range): (String, BlockRange)| {
        let link = query.next(range, &cursor);
        (cursor, link)
    });
    let answer = written(view, query, scope, page).await?;
    Ok(FoundPage {
        answer: LogsAnswer { held, ..answer },
        next,
        range: scope.range,
    })
}

async fn written(
    view: &View<'_>,
    query: &LogQuery,
    scope: PageScope,
    page: Page,
) -> Result<LogsAnswer, ApiError> {
    if query.format == LogFormat::List {
        return page_answer(view, scope, page).await;
    }
    let cursor = page.next.as_ref().map(cursor::encode);
    let suffix = match query.trailer {
        true => {
            let cursor = cursor.as_deref();
            trailer(query.format, page.logs.len(), cursor, scope.settled)
        }
        false => String::new(),
    };
    Ok(LogsAnswer {
        logs: page.logs,
        suffix: suffix.into_bytes(),
        format: query.format,
        own_levels: view.chain.stellar().is_some(),
        ..LogsAnswer::default()
    })
}

/// The last line of a whole answer: a JSON object without the fields of a log, or a comment of CSV.
/// `settled` is there where the blocks were requested by time.
pub(super) fn trailer(
    format: LogFormat,
    count: usize,
    cursor: Option<&str>,
    settled: Option<bool>,
) -> String {
    match format {
        // It is whole where its brackets are.
        LogFormat::List => String::new(),
        LogFormat::Lines => {
            let cursor = cursor.map_or("null".to_owned(), |cursor| format!("\"{cursor}\""));
            let settled =
                settled.map_or(String::new(), |settled| format!(",\"settled\":{settled}"));
            format!("{{\"complete\":true,\"count\":{count},\"nextCursor\":{cursor}{settled}}}\n")
        }
        LogFormat::Csv => {
            let cursor = cursor.unwrap_or_default();
            let settled = settled.map_or(String::new(), |settled| format!(",settled={settled}"));
            format!("#complete,count={count},nextCursor={cursor}{settled}\n")
        }
    }
}

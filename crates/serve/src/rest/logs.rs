//! `/v1/chains/{id}/logs`: the same filter for clients without JSON-RPC.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, LogFilter};

use super::{PathParams, chain, final_logs, order, parameters};
use crate::cursor;
use crate::error::{ApiError, ErrorCode};
use crate::http::body::{LogFormat, LogsAnswer, ResponseBody};
use crate::http::context::Context;
use crate::rpc::{BlockTag, Fixed, page_answer, range_between};
use crate::view::View;

/// Logs in an answer without the parameter `limit`.
const LIMIT: usize = 100;
const PARAMETERS: [&str; 11] = [
    "fromBlock",
    "toBlock",
    "address",
    "topic0",
    "topic1",
    "topic2",
    "topic3",
    "limit",
    "order",
    "cursor",
    "format",
];
/// Those that may be given more than once.
const LISTS: [&str; 5] = ["address", "topic0", "topic1", "topic2", "topic3"];
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// The parameters of a request, parsed before any chain is read.
pub(super) struct LogsRequest {
    pub(super) from: Option<BlockTag>,
    pub(super) to: Option<BlockTag>,
    filter: LogFilter,
    format: LogFormat,
    /// As it came.
    pub(super) query: String,
}

pub(crate) async fn get_logs(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let request = parse(&context, query.as_deref())?;
    let chain = chain(&context, &id)?;
    let view = View::take(chain).await?;
    match answer(&context, &view, &request, &headers).await {
        Err(error) => {
            let view = View::retry(chain, error).await?;
            answer(&context, &view, &request, &headers).await
        }
        answered => answered,
    }
}

async fn answer(
    context: &Context,
    view: &View<'_>,
    request: &LogsRequest,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let range = range_between(context, view, request.from, request.to)?;
    let tag = final_logs::tag(view, range, request, "logs").await;
    if let Some(known) = tag.as_ref().filter(|tag| tag.is_known(headers)) {
        return Ok(known.clone().not_modified());
    }
    let (page, held) = context.query(view, range, &request.filter).await?;
    let next = page.next.as_ref().map(cursor::encode);
    let answer = if request.format == LogFormat::List {
        page_answer(view, range, page).await?
    } else {
        LogsAnswer {
            logs: page.logs,
            format: request.format,
            own_levels: view.chain.stellar().is_some(),
            ..LogsAnswer::default()
        }
    };
    let mut body = ResponseBody::default();
    body.logs(LogsAnswer { held, ..answer });
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, request.format.content_type());
    if let Some(next) = next.and_then(|next| next.parse().ok()) {
        headers.insert(NEXT_CURSOR, next);
    }
    if let Some(tag) = tag {
        tag.put(&mut response);
    }
    Ok(response)
}

fn parse(context: &Context, query: Option<&str>) -> Result<LogsRequest, ApiError> {
    let bad = |name: &str, message: &str| ApiError::params(format!("{name}: {message}"));
    let mut request = LogsRequest {
        from: None,
        to: None,
        filter: LogFilter::over(BlockRange::new(0, 0)),
        format: LogFormat::List,
        query: query.unwrap_or_default().to_owned(),
    };
    request.filter.limit = Some(LIMIT);
    let mut topics: [Vec<Bytes>; 4] = Default::default();
    let mut addresses = Vec::new();
    let max = context.limits.alternatives;
    for (name, value) in parameters(query, &PARAMETERS, &LISTS, ErrorCode::InvalidParams)? {
        let refused = |message: String| bad(&name, &message);
        match name.as_str() {
            "fromBlock" => request.from = Some(tag(&value).map_err(refused)?),
            "toBlock" => request.to = Some(tag(&value).map_err(refused)?),
            "address" => values::<20>(&value, max, &mut addresses).map_err(refused)?,
            "limit" => {
                let max = context.limits.answers.results;
                let limit = value.parse().ok().filter(|limit| (1..=max).contains(limit));
                let message = || bad(&name, &format!("want a number from 1 to {max}"));
                request.filter.limit = Some(limit.ok_or_else(message)?);
            }
            "order" => request.filter.order = order(&value).map_err(refused)?,
            "cursor" => {
                let read = cursor::parse(&value);
                let message = || bad(&name, "it is not a cursor of this API");
                request.filter.cursor = Some(read.ok_or_else(message)?);
            }
            "format" => {
                let message = || bad(&name, "want json, ndjson or csv");
                request.format = LogFormat::parse(&value).ok_or_else(message)?;
            }
            topic => {
                let place = topic
                    .bytes()
                    .last()
                    .map_or(0, |digit| digit.wrapping_sub(b'0'));
                let place = topics.get_mut(usize::from(place));
                if let Some(values_of) = place {
                    values::<32>(&value, max, values_of).map_err(|message| bad(topic, &message))?;
                }
            }
        }
    }
    request.filter.emitters = clause(addresses);
    let given = topics.iter().rposition(|values| !values.is_empty());
    let positions = given.map_or(0, |last| last + 1);
    request.filter.topics = topics.into_iter().take(positions).map(clause).collect();
    Ok(request)
}

fn clause(values: Vec<Bytes>) -> Clause {
    if values.is_empty() {
        Clause::Any
    } else {
        Clause::OneOf(values)
    }
}

/// A tag, a hex number, or a decimal one.
fn tag(text: &str) -> Result<BlockTag, String> {
    match text.parse() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(BlockTag::Number(number))
        }
        _ => BlockTag::parse(text),
    }
}

/// One value, or several with commas between them.
fn values<const N: usize>(
    text: &str,
    max: Option<usize>,
    values: &mut Vec<Bytes>,
) -> Result<(), String> {
    for one in text.split(',') {
        let value = Fixed::<N>::parse(one.trim())?;
        values.push(Bytes::copy_from_slice(&value.0));
    }
    match max {
        Some(max) if values.len() > max => Err(format!("more than {max} values")),
        _ => Ok(()),
    }
}

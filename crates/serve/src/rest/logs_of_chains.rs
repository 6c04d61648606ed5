//! `/v1/logs`: logs of several chains in one answer, of blocks or of times.
//!
//! Each chain is answered by itself: with a page, or with an error that leaves the other chains as they are. The
//! answer can never change where the page of every chain cannot: an error may be a page tomorrow.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::log_query::LogQuery;
use super::logs::{FoundPage, find};
use super::{chain, final_answers};
use crate::encode::field;
use crate::error::{ApiError, Limit};
use crate::http::access::Visit;
use crate::http::body::ResponseBody;
use crate::http::caching::Tag;
use crate::http::context::Context;
use crate::names::ChainId;
use crate::problem::ItemProblem;
use crate::view::View;

const PARAMETERS: [&str; 12] = [
    "chains",
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
];
/// Chains of one request.
pub(crate) const CHAINS_MAX: usize = 32;
/// Chains that are queried at the same time: one request leaves room for others.
const CHAINS_AT_ONCE: usize = 4;
/// Keeps the tags of these pages apart from those of one chain alone.
const ROUTE: &str = "logs of chains";

/// The page of a chain.
struct ChainPage {
    id: u64,
    page: FoundPage,
    /// None where it may change.
    tag: Option<Tag>,
}

pub(crate) async fn get_logs(
    State(context): State<Context>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    visit: Option<Extension<Visit>>,
) -> Result<Response, ApiError> {
    let mut query = LogQuery::parse(&context, query.as_deref(), &PARAMETERS)?;
    query.filter.limit = Some(limit_of_each(&context, &query)?);
    if let Some(Extension(visit)) = visit {
        visit.count_calls(query.chains.len())?;
    }
    let deadline = Instant::now() + context.limits.timeout;
    if headers.contains_key(header::IF_NONE_MATCH) {
        let known = timeout_at(deadline, known_tag(&context, &query, &headers)).await;
        if let Ok(Some(known)) = known {
            return Ok(known.not_modified());
        }
    }
    let pages = query.chains.clone().into_iter().map(|id| {
        let (context, query) = (&context, &query);
        async move {
            let page = page_of(context, &id, query, deadline).await;
            (id, page)
        }
    });
    let mut pages = stream::iter(pages).buffered(CHAINS_AT_ONCE);
    let mut body = ResponseBody::default();
    body.text(b"{\"results\":[");
    let mut tags = Vec::with_capacity(query.chains.len());
    let mut bytes = 0;
    while let Some((id, page)) = pages.next().await {
        bytes += page.as_ref().map_or(0, |page| page.page.answer.size());
        // One page is always sent, whatever it takes.
        let is_first = tags.is_empty();
        if !is_first && bytes > context.limits.answer_bytes {
            break;
        }
        tags.push(page.as_ref().ok().and_then(|page| page.tag.clone()));
        write(&mut body, (&id, is_first), page);
    }
    // The others are not read.
    drop(pages);
    for id in query.chains.iter().skip(tags.len()) {
        tags.push(None);
        write(&mut body, (id, false), Err(too_large(&context)));
    }
    body.text(b"]}");
    let mut response = body.into_response();
    if let Some(tags) = tags.into_iter().collect::<Option<Vec<Tag>>>() {
        Tag::of_all(&tags).put(&mut response);
    }
    Ok(response)
}

/// The tag of an answer that can never change, where the client has it: no log is read for that.
async fn known_tag(context: &Context, query: &LogQuery, headers: &HeaderMap) -> Option<Tag> {
    let mut tags = Vec::with_capacity(query.chains.len());
    for id in &query.chains {
        let view = View::take(chain(context, id).ok()?).await.ok()?;
        tags.push(final_answers::tag(&view, query, ROUTE).await?);
    }
    Some(Tag::of_all(&tags)).filter(|tag| tag.is_known(headers))
}

/// The pages before this one are as large as an answer may be.
fn too_large(context: &Context) -> ApiError {
    let limit = context.limits.answer_bytes as u64;
    let message = format!(
        "the pages of the chains exceed max response bytes {limit}: request this chain again, with those after it"
    );
    ApiError::over(Limit::ResponseBytes, limit, message)
}

/// The logs of each chain: all pages together have at most as many as one answer may have.
fn limit_of_each(context: &Context, query: &LogQuery) -> Result<usize, ApiError> {
    let bad = |message: String| Err(ApiError::params(message));
    let (chains, count) = (&query.chains, query.chains.len());
    if count == 0 || chains.iter().any(String::is_empty) {
        return bad("chains: want ids of chains with commas between them".to_owned());
    }
    if count > CHAINS_MAX {
        return bad(format!(
            "chains: {count} are given, at most {CHAINS_MAX} are allowed"
        ));
    }
    let mut rest = chains.as_slice();
    while let Some((first, others)) = rest.split_first() {
        if others.contains(first) {
            return bad("chains: one is given twice".to_owned());
        }
        rest = others;
    }
    let max = (context.limits.answers.results / count).max(1);
    let limit = query.filter.limit.unwrap_or(max);
    if limit > max && query.has("limit") {
        return bad(format!(
            "limit: it is of each chain, want at most {max} for {count} chains"
        ));
    }
    Ok(limit.min(max))
}

async fn page_of(
    context: &Context,
    id: &str,
    query: &LogQuery,
    deadline: Instant,
) -> Result<ChainPage, ApiError> {
    let chain = chain(context, id)?;
    let page = async {
        match page_in(context, &View::take(chain).await?, query).await {
            Err(error) => page_in(context, &View::retry(chain, error).await?, query).await,
            found => found,
        }
    };
    timeout_at(deadline, page).await.unwrap_or_else(|_| {
        let limit = u64::try_from(context.limits.timeout.as_millis()).unwrap_or(u64::MAX);
        let message =
            format!("query exceeds max milliseconds {limit}: request fewer chains or blocks");
        Err(ApiError::over(Limit::Milliseconds, limit, message))
    })
}

/// The page of a chain in a view, and its tag in the same one.
async fn page_in(
    context: &Context,
    view: &View<'_>,
    query: &LogQuery,
) -> Result<ChainPage, ApiError> {
    Ok(ChainPage {
        id: view.chain.id,
        page: find(context, view, query).await?,
        tag: final_answers::tag(view, query, ROUTE).await,
    })
}

fn write(body: &mut ResponseBody, (id, is_first): (&str, bool), page: Result<ChainPage, ApiError>) {
    if !is_first {
        body.text(b",");
    }
    match page {
        Ok(ChainPage { id, page, .. }) => {
            let FoundPage {
                mut answer, next, ..
            } = page;
            let chain = json!(ChainId(id));
            answer.prefix = format!("{{\"chainId\":{chain},\"logs\":").into_bytes();
            let next = next.and_then(|(_, query)| query);
            let next = next.map(|query| format!("chains/{id}/logs?{query}"));
            answer.suffix.pop();
            field(&mut answer.suffix, "next", &next);
            answer.suffix.push(b'}');
            body.logs(answer);
        }
        Err(error) => {
            // As it was given: there may be no such chain.
            let number = id
                .parse()
                .ok()
                .filter(|number: &u64| number.to_string() == id);
            let chain = number.map_or_else(|| json!(id), |number| json!(ChainId(number)));
            let failed = json!({ "chainId": chain, "error": ItemProblem::from(&error) });
            body.text(failed.to_string().as_bytes());
        }
    }
}

//! `/v1/logs`: logs of several chains in one answer, of blocks or of times.
//!
//! Each chain is answered by itself: with a page, or with an error that leaves the other chains as they are.

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::chain;
use super::log_query::LogQuery;
use super::logs::{FoundPage, find};
use crate::encode::field;
use crate::error::{ApiError, Limit};
use crate::http::body::ResponseBody;
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

pub(crate) async fn get_logs(
    State(context): State<Context>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let query = LogQuery::parse(&context, query.as_deref(), &PARAMETERS)?;
    check_chains(&context, &query)?;
    let deadline = Instant::now() + context.limits.timeout;
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
    let mut is_first = true;
    while let Some((id, page)) = pages.next().await {
        if !std::mem::take(&mut is_first) {
            body.text(b",");
        }
        write(&mut body, &id, page);
    }
    body.text(b"]}");
    drop(pages);
    Ok(body.into_response())
}

/// All pages together have at most as many logs as one answer may have.
fn check_chains(context: &Context, query: &LogQuery) -> Result<(), ApiError> {
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
    match query.filter.limit {
        Some(limit) if limit > max => bad(format!(
            "limit: it is of each chain, want at most {max} for {count} chains"
        )),
        _ => Ok(()),
    }
}

async fn page_of(
    context: &Context,
    id: &str,
    query: &LogQuery,
    deadline: Instant,
) -> Result<(u64, FoundPage), ApiError> {
    let chain = chain(context, id)?;
    let page = async {
        match find(context, &View::take(chain).await?, query).await {
            Err(error) => find(context, &View::retry(chain, error).await?, query).await,
            found => found,
        }
    };
    let page = async { page.await.map(|page| (chain.id, page)) };
    timeout_at(deadline, page).await.unwrap_or_else(|_| {
        let limit = u64::try_from(context.limits.timeout.as_millis()).unwrap_or(u64::MAX);
        let message =
            format!("query exceeds max milliseconds {limit}: request fewer chains or blocks");
        Err(ApiError::over(Limit::Milliseconds, limit, message))
    })
}

fn write(body: &mut ResponseBody, id: &str, page: Result<(u64, FoundPage), ApiError>) {
    match page {
        Ok((id, FoundPage { mut answer, next })) => {
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

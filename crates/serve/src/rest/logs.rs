//! `/v1/chains/{id}/logs`: the same filter for people without a JSON-RPC client.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, LogFilter, Order};

use super::{At, chain, parameters};
use crate::cursor;
use crate::error::{ApiError, ErrorCode};
use crate::http::body::{LogsAnswer, Pieces, Shape};
use crate::http::context::Context;
use crate::rpc::{BlockTag, Fixed, about, range_between};
use crate::view::View;

/// Logs in an answer that asked for no number.
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
/// Those that may stand there more than once.
const LISTS: [&str; 5] = ["address", "topic0", "topic1", "topic2", "topic3"];
const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// What is asked for, before any chain is looked at.
struct Asked {
    from: Option<BlockTag>,
    to: Option<BlockTag>,
    filter: LogFilter,
    shape: Shape,
}

pub(crate) async fn show(
    State(context): State<Context>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let asked = read(&context, query.as_deref())?;
    let chain = chain(&context, &id)?;
    let view = View::take(chain).await?;
    match answer(&context, &view, &asked).await {
        Err(error) => match View::newer(chain, error.again).await? {
            Some(view) => answer(&context, &view, &asked).await,
            None => Err(error),
        },
        answered => answered,
    }
}

async fn answer(context: &Context, view: &View<'_>, asked: &Asked) -> Result<Response, ApiError> {
    let range = range_between(context, view, asked.from, asked.to)?;
    let (page, held) = context.query(view, range, &asked.filter).await?;
    let mut pieces = Pieces::default();
    let next = page.next.as_ref().map(cursor::show);
    let mut answer = LogsAnswer {
        shape: asked.shape,
        held,
        own_levels: view.chain.stellar().is_some(),
        ..LogsAnswer::default()
    };
    if asked.shape == Shape::List {
        answer.before = b"{\"logs\":".to_vec();
        answer.behind = about(view, range, &page).await?.to_string().into_bytes();
        // The list comes first, so that a reader can begin before all of it is there.
        answer
            .behind
            .first_mut()
            .into_iter()
            .for_each(|first| *first = b',');
    }
    answer.logs = page.logs;
    pieces.logs(answer);
    let mut response = pieces.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, asked.shape.content_type());
    if let Some(next) = next.and_then(|next| next.parse().ok()) {
        headers.insert(NEXT_CURSOR, next);
    }
    Ok(response)
}

fn read(context: &Context, query: Option<&str>) -> Result<Asked, ApiError> {
    let bad = |name: &str, said: &str| ApiError::params(format!("{name}: {said}"));
    let mut asked = Asked {
        from: None,
        to: None,
        filter: LogFilter::over(BlockRange::new(0, 0)),
        shape: Shape::List,
    };
    asked.filter.limit = Some(LIMIT);
    let mut topics: [Vec<Bytes>; 4] = Default::default();
    let mut addresses = Vec::new();
    let most = context.limits.alternatives;
    for (name, value) in parameters(query, &PARAMETERS, &LISTS, ErrorCode::InvalidParams)? {
        let refused = |said: String| bad(&name, &said);
        match name.as_str() {
            "fromBlock" => asked.from = Some(tag(&value).map_err(refused)?),
            "toBlock" => asked.to = Some(tag(&value).map_err(refused)?),
            "address" => values::<20>(&value, most, &mut addresses).map_err(refused)?,
            "limit" => {
                let most = context.limits.answers.results;
                let limit = value
                    .parse()
                    .ok()
                    .filter(|limit| (1..=most).contains(limit));
                let said = || bad(&name, &format!("want a number from 1 to {most}"));
                asked.filter.limit = Some(limit.ok_or_else(said)?);
            }
            "order" => {
                asked.filter.order = match value.as_str() {
                    "asc" => Order::Ascending,
                    "desc" => Order::Descending,
                    _ => return Err(bad(&name, "want asc or desc")),
                }
            }
            "cursor" => {
                let read = cursor::read(&value);
                let said = || bad(&name, "it is not one that was given here");
                asked.filter.cursor = Some(read.ok_or_else(said)?);
            }
            "format" => {
                let said = || bad(&name, "want json, ndjson or csv");
                asked.shape = Shape::parse(&value).ok_or_else(said)?;
            }
            topic => {
                let place = topic
                    .bytes()
                    .last()
                    .map_or(0, |digit| digit.wrapping_sub(b'0'));
                let place = topics.get_mut(usize::from(place));
                if let Some(values_of) = place {
                    values::<32>(&value, most, values_of).map_err(|said| bad(topic, &said))?;
                }
            }
        }
    }
    asked.filter.emitters = clause(addresses);
    let given = topics.iter().rposition(|values| !values.is_empty());
    let positions = given.map_or(0, |last| last + 1);
    asked.filter.topics = topics.into_iter().take(positions).map(clause).collect();
    Ok(asked)
}

fn clause(values: Vec<Bytes>) -> Clause {
    match values.is_empty() {
        true => Clause::Any,
        false => Clause::OneOf(values),
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
    most: Option<usize>,
    values: &mut Vec<Bytes>,
) -> Result<(), String> {
    for one in text.split(',') {
        let value = Fixed::<N>::parse(one.trim())?;
        values.push(Bytes::copy_from_slice(&value.0));
    }
    match most {
        Some(most) if values.len() > most => Err(format!("more than {most} values")),
        _ => Ok(()),
    }
}

//! `eth_getLogs`, and `chronolith_getLogs` with pages and more fields.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chronolith_model::{BlockRange, Cursor, Hash32, LogFilter, Order};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny};
use serde_json::json;

use super::reply::Answer;
use super::tags::resolve;
use super::wire::{BlockTag, Filter, Fixed, Object, Params};
use crate::cursor;
use crate::encode::field;
use crate::error::{ApiError, ErrorCode, Limit, excerpt};
use crate::http::body::LogsAnswer;
use crate::http::context::Context;
use crate::logs::Page;
use crate::names::BlockJson;
use crate::view::View;

/// How many ancestors an error lists: a client finds the common one among them.
const ANCESTORS: u64 = 64;

/// More than the fields after the logs take.
const SUFFIX_BYTES: usize = 512;

pub(super) async fn get_logs(
    context: &Context,
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let request = read_filter(context, params)?;
    let range = range_of(context, view, &request).await?;
    let filter = filter_of(request, range);
    let (page, held) = context.query(view, range, &filter).await?;
    Ok(Answer::Logs(LogsAnswer {
        logs: page.logs,
        held,
        ..LogsAnswer::default()
    }))
}

/// The filter of a call, within the limits.
fn read_filter(context: &Context, params: &Params<'_>) -> Result<Filter, ApiError> {
    let Object(request) = params.get::<Object<Filter>>(0)?;
    request.check_alternatives(context.limits.alternatives)?;
    Ok(request)
}

/// What `chronolith_getLogs` takes besides the filter.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paging {
    cursor: Option<String>,
    limit: Option<usize>,
    order: Option<String>,
    from_block_hash: Option<Fixed<32>>,
}

const FIELDS: [&str; 9] = [
    "fromBlock",
    "toBlock",
    "blockHash",
    "address",
    "topics",
    "cursor",
    "limit",
    "order",
    "fromBlockHash",
];

/// The names of the fields of a request, all of them known: one that is misspelt would give another answer than
/// was requested. Nodes pass over such fields in `eth_getLogs`, and so do we there.
struct FieldNames;

impl<'de> Deserialize<'de> for FieldNames {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<Cow<'de, str>, IgnoredAny>::deserialize(from)?;
        let unknown = fields.keys().find(|name| !FIELDS.contains(&&***name));
        unknown.map_or(Ok(Self), |name| {
            Err(D::Error::unknown_field(&excerpt(name), &FIELDS))
        })
    }
}

pub(super) async fn get_page(
    context: &Context,
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let request = read_filter(context, params)?;
    let Object(FieldNames) = params.get::<Object<FieldNames>>(0)?;
    let Object(paging) = params.get::<Object<Paging>>(0)?;
    check_anchor(view, request.from_block, paging.from_block_hash).await?;
    let range = range_of(context, view, &request).await?;
    let mut filter = filter_of(request, range);
    filter.cursor = paging.cursor.as_deref().map(read_cursor).transpose()?;
    let max = context.limits.answers.results;
    filter.limit = Some(paging.limit.unwrap_or(max).min(max));
    filter.order = match paging.order.as_deref() {
        None | Some("asc") => Order::Ascending,
        Some("desc") => Order::Descending,
        Some(_) => return Err(ApiError::params("order must be asc or desc")),
    };
    if filter.limit == Some(0) {
        return Err(ApiError::params("limit must be at least 1"));
    }
    let (page, held) = context.query(view, range, &filter).await?;
    let scope = PageScope {
        range: Some(range),
        settled: None,
    };
    let answer = page_answer(view, scope, page).await?;
    Ok(Answer::Logs(LogsAnswer { held, ..answer }))
}

/// Which blocks a page is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageScope {
    /// None where no block is between the two times of the request.
    pub(crate) range: Option<BlockRange>,
    /// Whether no later block can be in the requested times; none where blocks were requested.
    pub(crate) settled: Option<bool>,
}

/// A page as an object. The logs come first, so that a client can begin before all of it has arrived;
/// then which blocks it covers by hash, at which level they are verified, and where it continues.
pub(crate) async fn page_answer(
    view: &View<'_>,
    scope: PageScope,
    page: Page,
) -> Result<LogsAnswer, ApiError> {
    let block = async |number: Option<u64>| -> Result<Option<BlockJson>, ApiError> {
        let Some(number) = number else {
            return Ok(None);
        };
        let clock = view.clock(number).await?;
        Ok(clock.map(|clock| clock.block_ref().into()))
    };
    let first = scope.range.map(|range| range.start);
    let last = scope.range.map(|range| range.end.saturating_sub(1));
    let mut suffix = Vec::with_capacity(SUFFIX_BYTES);
    let finalized = view.finalized_head().map(BlockJson::from);
    field(&mut suffix, "finalizedHead", &finalized);
    field(&mut suffix, "fromBlock", &block(first).await?);
    field(
        &mut suffix,
        "level",
        &page.level.map(|level| level.as_str()),
    );
    field(
        &mut suffix,
        "nextCursor",
        &page.next.as_ref().map(cursor::encode),
    );
    if let Some(settled) = scope.settled {
        field(&mut suffix, "settled", &settled);
    }
    field(&mut suffix, "toBlock", &block(last).await?);
    suffix.push(b'}');
    Ok(LogsAnswer {
        prefix: b"{\"logs\":".to_vec(),
        logs: page.logs,
        suffix,
        own_levels: view.chain.stellar().is_some(),
        ..LogsAnswer::default()
    })
}

/// The block that the client continues from must be on this chain, or its logs would mix two forks.
async fn check_anchor(
    view: &View<'_>,
    from: Option<BlockTag>,
    expected: Option<Fixed<32>>,
) -> Result<(), ApiError> {
    let Some(expected) = expected.map(Hash32::from) else {
        return Ok(());
    };
    let number = resolve(view, from.unwrap_or(BlockTag::Latest))?;
    let clock = view.clock(number).await?;
    if clock.is_some_and(|clock| clock.hash == expected) {
        return Ok(());
    }
    let mut ancestors = Vec::new();
    let newest = number.min(view.known_head()?.number);
    for number in (newest.saturating_sub(ANCESTORS)..=newest).rev() {
        // Below the first indexed block there are no more.
        let Ok(Some(clock)) = view.clock(number).await else {
            break;
        };
        ancestors.push(BlockJson::from(clock.block_ref()));
    }
    let message = format!(
        "block {number} is another one here: go back to a block of `ancestors` that you know"
    );
    let details = json!({ "expected": expected.to_string(), "ancestors": ancestors });
    Err(ApiError::new(ErrorCode::Conflict, message).with(details))
}

fn read_cursor(text: &str) -> Result<Cursor, ApiError> {
    cursor::parse(text).ok_or_else(|| ApiError::params("cursor is not a cursor of this API"))
}

/// The requested blocks. Both ends are resolved in one view.
async fn range_of(
    context: &Context,
    view: &View<'_>,
    request: &Filter,
) -> Result<BlockRange, ApiError> {
    if let Some(hash) = request.block_hash {
        if request.from_block.is_some() || request.to_block.is_some() {
            return Err(ApiError::params(
                "invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other",
            ));
        }
        let block = view.find_block(&hash.into()).await?;
        let number = block.ok_or_else(ApiError::unknown_block)?.number;
        return Ok(BlockRange::one(number));
    }
    range_between(context, view, request.from_block, request.to_block)
}

/// The blocks between two tags, `latest` where there is none.
pub(crate) fn range_between(
    context: &Context,
    view: &View<'_>,
    from: Option<BlockTag>,
    to: Option<BlockTag>,
) -> Result<BlockRange, ApiError> {
    let head = view.known_head()?.number;
    let tag = |tag: Option<BlockTag>| match tag.unwrap_or(BlockTag::Latest) {
        BlockTag::Pending => Err(ApiError::params("pending logs are not supported")),
        tag => resolve(view, tag),
    };
    let both_numbers = matches!(
        (from, to),
        (Some(BlockTag::Number(_)), Some(BlockTag::Number(_)))
    );
    let (start, last) = (tag(from)?, tag(to)?);
    let reversed = || ApiError::params("invalid block range params");
    if both_numbers && start > last {
        return Err(reversed());
    }
    if start > head || last > head {
        let error = ApiError::params("block range extends beyond current head block");
        return Err(error.with(json!({ "head": head })));
    }
    if start > last {
        return Err(reversed());
    }
    let max = context.limits.block_range.unwrap_or(u64::MAX);
    if last - start >= max {
        // A limit of 0 is refused by the settings.
        let fits = BlockRange::new(start, start + max.max(1));
        return Err(ApiError::exceeds(Limit::BlockRange, max, Some(fits)));
    }
    Ok(BlockRange::new(start, last.saturating_add(1)))
}

fn filter_of(request: Filter, range: BlockRange) -> LogFilter {
    let mut filter = LogFilter::over(range);
    filter.emitters = request.address.clause;
    let topics = request.topics.0.into_iter();
    filter.topics = topics.map(|topic| topic.clause).collect();
    filter
}

//! `/v1/chains/{chainId}/ranges`: the ranges of a chain's history and their states.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::{PathParams, chain};
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::ranges::Range;

/// The ranges of a chain's history.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ranges {
    /// Whether it fetches the history, or follows the chain.
    #[schemars(extend("enum" = ["backfill", "streaming"]))]
    mode: &'static str,
    /// Blocks of a range.
    #[schemars(range(min = 1))]
    size: u64,
    /// In order.
    ranges: Vec<Range>,
}

pub(crate) async fn get_ranges(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Ranges>, ApiError> {
    let chain = chain(&context, &id)?;
    let message = "the ranges are not loaded yet: retry in a moment";
    let not_ready = || ApiError::new(ErrorCode::NotReady, message);
    let ranges = chain.live.ranges().ok_or_else(not_ready)?;
    Ok(Json(Ranges {
        mode: ranges.mode,
        size: ranges.size,
        ranges: ranges.ranges.iter().map(Range::from).collect(),
    }))
}

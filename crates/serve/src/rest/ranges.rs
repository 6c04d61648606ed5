//! `/v1/chains/{chainId}/ranges`: the ranges of a chain's history and their states.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::{PathParams, chain};
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::ranges::range_json;

pub(crate) async fn get_ranges(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiError> {
    let chain = chain(&context, &id)?;
    let message = "the ranges are not loaded yet: retry in a moment";
    let not_ready = || ApiError::new(ErrorCode::NotReady, message);
    let ranges = chain.live.ranges().ok_or_else(not_ready)?;
    Ok(Json(json!({
        "mode": ranges.mode,
        "size": ranges.size,
        "ranges": ranges.ranges.iter().map(range_json).collect::<Vec<_>>(),
    })))
}

//! `/v1/chains/{chainId}/ranges`: where the ranges of a chain's history are in their life.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::{PathParams, chain};
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::ranges::range_json;

pub(crate) async fn show(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiError> {
    let chain = chain(&context, &id)?;
    let not_yet = || {
        let message = "ranges were not looked at yet; ask again in a moment";
        ApiError::new(ErrorCode::NotReady, message)
    };
    let shown = chain.live.ranges().ok_or_else(not_yet)?;
    Ok(Json(json!({
        "mode": shown.mode,
        "size": shown.size,
        "ranges": shown.ranges.iter().map(range_json).collect::<Vec<_>>(),
    })))
}

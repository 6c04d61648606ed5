//! `/v1/chains/{chainId}/history`: where a chain's heads were over the last day.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::{PathParams, chain};
use crate::error::ApiError;
use crate::history::{SAMPLES_MAX, Sample};
use crate::http::context::Context;
use crate::names::ChainId;

/// Samples of a chain since the start of the process, of at most 24 hours.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    chain_id: ChainId,
    /// Oldest first: every 10 s within the last hour, every 5 min before. Times without a sample are times at
    /// which no block could be served.
    #[schemars(length(max = SAMPLES_MAX))]
    samples: Vec<Sample>,
}

pub(crate) async fn get_history(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<History>, ApiError> {
    let chain = chain(&context, &id)?;
    Ok(Json(History {
        chain_id: ChainId(chain.id),
        samples: chain.history.lock().samples(),
    }))
}

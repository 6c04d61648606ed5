//! `/v1/chains` and `/v1/indexing-status`.

use axum::Json;
use axum::extract::State;
use chronolith_archive::Error as ArchiveError;
use chronolith_model::{BlockRange, DatasetSet};
use schemars::JsonSchema;
use serde::Serialize;

use super::{PathParams, chain};
use crate::chain::{KnownChain, ServedChain};
use crate::error::{ApiError, Failure};
use crate::fault::Fault;
use crate::http::context::Context;
use crate::names::{ChainId, DatasetName, dataset_names, scope_text};
use crate::times::utc;
use crate::view::View;

/// A chain: one that is followed here, or one that the program only knows.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chain {
    chain_id: ChainId,
    /// What people call it; of a chain that is not known its name in the settings.
    #[schemars(example = "Arbitrum One")]
    name: String,
    /// Whether this service has its data. Only then are `configuredName`, `startBlock`, `datasets`, `scope` and
    /// `finality` there.
    followed: bool,
    /// Its name in the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    configured_name: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    configured: Option<Configured>,
    /// The time of its first block, in seconds since 1970. Of a chain that is not known, the time of block 0: null
    /// where it is not indexed, or where `error` says why it is not known.
    genesis_timestamp: Option<u64>,
    /// Only among all chains, and only where this one cannot be read right now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    error: Option<Failure>,
}

/// What the settings of a chain say.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Configured {
    /// The first block that is indexed.
    start_block: u64,
    /// What is kept of each block.
    datasets: Vec<DatasetName>,
    /// Which logs are kept: `all`, or how many pairs of address and topic.
    #[schemars(example = &"all")]
    scope: String,
    /// What makes a block final, in words.
    #[schemars(example = "10 confirmations")]
    finality: String,
}

impl From<&ServedChain> for Configured {
    fn from(chain: &ServedChain) -> Self {
        Self {
            start_block: chain.start_block,
            datasets: dataset_names(chain.datasets),
            scope: scope_text(&chain.scope),
            finality: chain.finality.clone(),
        }
    }
}

impl Chain {
    /// One that is followed.
    fn followed(context: &Context, chain: &ServedChain, genesis_timestamp: Option<u64>) -> Self {
        Self {
            chain_id: ChainId(chain.id),
            name: name_of(context, chain),
            followed: true,
            configured_name: Some(chain.name.clone()),
            configured: Some(chain.into()),
            genesis_timestamp,
            error: None,
        }
    }
}

impl From<&KnownChain> for Chain {
    fn from(known: &KnownChain) -> Self {
        Self {
            chain_id: ChainId(known.id),
            name: known.title.to_owned(),
            followed: false,
            configured_name: None,
            configured: None,
            genesis_timestamp: Some(known.genesis_timestamp),
            error: None,
        }
    }
}

/// What people call a chain.
pub(super) fn name_of(context: &Context, chain: &ServedChain) -> String {
    let known = context.served.known(chain.id);
    known.map_or_else(|| chain.name.clone(), |known| known.title.to_owned())
}

/// Those that are followed first, then the others that are known, each by id. A chain that cannot be read has an
/// error beside what is known of it; the others are complete.
pub(crate) async fn list(State(context): State<Context>) -> Json<Vec<Chain>> {
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        let (genesis_timestamp, error) = match first_time(&context, chain).await {
            Ok(genesis) => (genesis, None),
            Err(error) => (None, Some(error.failure())),
        };
        chains.push(Chain {
            error,
            ..Chain::followed(&context, chain, genesis_timestamp)
        });
    }
    chains.extend(context.served.known_only().map(Chain::from));
    Json(chains)
}

pub(crate) async fn one(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Chain>, ApiError> {
    if let Some(known) = context.served.known_named(&id) {
        return Ok(Json(known.into()));
    }
    let chain = chain(&context, &id)?;
    let genesis = first_time(&context, chain).await?;
    Ok(Json(Chain::followed(&context, chain, genesis)))
}

/// The time of the first block: of a known chain the one that it is known for, which is block 1 where block 0 has
/// none.
async fn first_time(context: &Context, chain: &ServedChain) -> Result<Option<u64>, ApiError> {
    match context.served.known(chain.id) {
        Some(known) => Ok(Some(known.genesis_timestamp)),
        None => genesis(chain).await,
    }
}

/// The time of block 0; none where it is not indexed, and an error where it cannot be read.
async fn genesis(chain: &ServedChain) -> Result<Option<u64>, ApiError> {
    match genesis_of(&View::take(chain).await?).await {
        Err(error) => genesis_of(&View::retry(chain, error).await?).await,
        answered => answered,
    }
}

async fn genesis_of(view: &View<'_>) -> Result<Option<u64>, ApiError> {
    match view.clock(0).await {
        Ok(clock) => Ok(clock.map(|clock| clock.timestamp)),
        Err(Fault::Empty | Fault::Archive(ArchiveError::NotCovered { .. })) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

/// The progress of a chain.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexingStatus {
    chain_id: ChainId,
    /// What people call it; of a chain that is not known its name in the settings.
    name: String,
    /// The newest block that is served; null where there is none, or where `error` says why it is not known.
    last_indexed_block: Option<u64>,
    /// The source's newest block.
    latest_known_block: Option<u64>,
    /// Percent of the wanted blocks that are indexed, rounded down: 100 only where none is missing.
    #[schemars(range(min = 0, max = 100))]
    progress: Option<f64>,
    /// When the source was last requested with success.
    #[schemars(extend("format" = "date-time"))]
    updated_at: Option<String>,
    /// Only where the chain is being reorganized right now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Failure")]
    error: Option<Failure>,
}

/// The progress of each chain.
pub(crate) async fn status(State(context): State<Context>) -> Json<Vec<IndexingStatus>> {
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        let view = View::take(chain).await;
        let head = view.as_ref().ok().and_then(|view| view.head());
        let (indexed, source) = (head.map(|head| head.number), chain.live.source_head());
        let since = chain.live.health().last_success_seconds;
        let updated = since.map(|since| (context.clock)().saturating_sub(since));
        // Without a view the progress is unknown, which is not zero.
        let known = source.zip(view.as_ref().ok());
        chains.push(IndexingStatus {
            chain_id: ChainId(chain.id),
            name: name_of(&context, chain),
            last_indexed_block: indexed,
            latest_known_block: source,
            progress: known.map(|(source, view)| progress(chain, indexed_blocks(view), source)),
            updated_at: updated.and_then(utc),
            error: view.err().map(|fault| ApiError::from(fault).failure()),
        });
    }
    Json(chains)
}

/// How many of the configured blocks are indexed, without those in gaps.
fn indexed_blocks(view: &View<'_>) -> u64 {
    let configured = BlockRange::new(view.chain.start_block, u64::MAX);
    let archive = view.archive.iter();
    let covered = archive.flat_map(|archive| archive.coverage(DatasetSet::CLOCK, None));
    let ranges = covered.map(|(range, _)| range).chain([view.tail_range()]);
    let indexed = ranges.filter_map(|range| range.intersect(&configured));
    indexed.map(|range| range.len()).sum()
}

/// Percent of the configured blocks up to the source's head that are indexed, from 0 to 100.
fn progress(chain: &ServedChain, indexed: u64, source: u64) -> f64 {
    let configured = source.saturating_add(1).saturating_sub(chain.start_block);
    match configured {
        0 => 100.0,
        _ => (indexed.min(configured) as f64 / configured as f64 * 10_000.0).floor() / 100.0,
    }
}

//! `/v1/projections`: the state of the projections, for the console and for monitoring.
//!
//! Anyone may request it, so all requests within a second share one query of the database.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use chronolith_projection::{ChainOverview, Database, Result as QueryResult, overview};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::{ApiError, ErrorCode};
use crate::health::without_host;
use crate::http::context::Context;
use crate::names::ChainId;
use crate::openapi::add_field;

/// For how long an answer is at least reused.
const FRESH: Duration = Duration::from_secs(1);
/// A slow query is not repeated soon: querying takes at most this part of the time.
const QUERYING_PART: u32 = 10;
/// How long a query may take, with connecting and all statements.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The last answer of the database with the projections.
#[derive(Default)]
pub(crate) struct ProjectionsCache {
    database: Option<Database>,
    /// Locked during a query, so that other requests wait for its answer instead of querying.
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    overview: Option<Overview>,
    valid_until: Option<Instant>,
    unavailable_since: Option<u64>,
}

#[derive(Clone)]
enum Overview {
    Known {
        as_of: u64,
        chains: Arc<[ChainOverview]>,
    },
    Unavailable {
        since: u64,
    },
}

impl ProjectionsCache {
    pub(crate) fn new(database: Option<Database>) -> Self {
        let cached = Mutex::default();
        Self { database, cached }
    }

    /// The answer of the last second, or that of a query now.
    async fn get(
        &self,
        now: u64,
        query: impl Future<Output = QueryResult<Vec<ChainOverview>>>,
    ) -> Overview {
        let mut cached = self.cached.lock().await;
        if cached
            .valid_until
            .is_some_and(|until| Instant::now() < until)
        {
            // There is none where the first request was cancelled.
            let unknown = Overview::Unavailable { since: now };
            return cached.overview.clone().unwrap_or(unknown);
        }
        let started = Instant::now();
        // A request that is cancelled during its query must not make the next one query at once.
        cached.valid_until = Some(started + FRESH);
        let chains = match tokio::time::timeout(QUERY_TIMEOUT, query).await {
            Ok(Ok(chains)) => Some(chains),
            Ok(Err(error)) => {
                // The error may name what clients must not see.
                tracing::warn!(%error, "cannot read projections");
                None
            }
            Err(_) => {
                tracing::warn!(limit = ?QUERY_TIMEOUT, "reading projections timed out");
                None
            }
        };
        let mut fresh = FRESH;
        let overview = match chains {
            Some(chains) => {
                fresh = fresh.max(started.elapsed() * QUERYING_PART);
                cached.unavailable_since = None;
                Overview::Known {
                    as_of: now,
                    chains: chains.into(),
                }
            }
            None => Overview::Unavailable {
                since: *cached.unavailable_since.get_or_insert(now),
            },
        };
        cached.valid_until = Some(Instant::now() + fresh);
        cached.overview = Some(overview.clone());
        overview
    }
}

/// The state of the projections.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Projections {
    /// False where nothing is projected here.
    enabled: bool,
    /// When the database was read, in seconds since 1970.
    as_of: u64,
    /// The chains that are served here and have projections.
    chains: Vec<ChainProjections>,
}

/// A chain and its projections.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = describe_details)]
struct ChainProjections {
    chain_id: ChainId,
    /// The source's newest block, where it is known.
    source_head: Option<u64>,
    /// Blocks between that and the newest that was seen.
    head_lag_blocks: Option<u64>,
    #[serde(flatten)]
    overview: ChainOverview,
}

/// Describes what the kinds of projections add to an overview: [`ChainOverview::details`].
fn describe_details(schema: &mut Schema) {
    schema.insert("additionalProperties".to_owned(), false.into());
    for (name, of, description) in [
        (
            "versions",
            "ContractVersion",
            "Versions of the ADFS contract, the newest first.",
        ),
        ("recentFees", "RecentFee", "The newest fee events."),
        (
            "latestFeeds",
            "LatestFeed",
            "Feeds that were confirmed last.",
        ),
    ] {
        let items = Schema::new_ref(format!("#/components/schemas/{of}"));
        let list = json!({ "type": "array", "items": items, "description": description });
        add_field(schema, name, list);
    }
}

pub(crate) async fn get_projections(
    State(context): State<Context>,
) -> Result<Json<Projections>, ApiError> {
    let now = (context.clock)();
    let cache = &context.projections;
    let Some(database) = &cache.database else {
        return Ok(Json(Projections {
            enabled: false,
            as_of: now,
            chains: Vec::new(),
        }));
    };
    let served: Vec<u64> = context.served.iter().map(|chain| chain.id).collect();
    match cache.get(now, overview(database, &served)).await {
        Overview::Known { as_of, chains } => {
            let chains = chains.iter().filter_map(|chain| about(&context, chain));
            Ok(Json(Projections {
                enabled: true,
                as_of,
                chains: chains.collect(),
            }))
        }
        Overview::Unavailable { since } => {
            let message = format!(
                "the database with projections has not answered for {} s: see that PostgreSQL runs and that \
                 PG_READONLY_URL or PG_URL leads to it",
                now.saturating_sub(since)
            );
            let error = ApiError::new(ErrorCode::DatabaseUnavailable, message);
            Err(error.with(json!({ "since": since })))
        }
    }
}

/// A chain with the head of its source; none where it is not served here.
fn about(context: &Context, chain: &ChainOverview) -> Option<ChainProjections> {
    let id = u64::try_from(chain.chain_id).ok()?;
    let source_head = context.served.find(id)?.live.source_head();
    let seen = chain
        .last_seen_block
        .and_then(|block| u64::try_from(block).ok());
    let lag = source_head
        .zip(seen)
        .map(|(head, seen)| head.saturating_sub(seen));
    Some(ChainProjections {
        chain_id: ChainId(id),
        source_head,
        head_lag_blocks: lag,
        overview: redacted(chain.clone()),
    })
}

/// Without host names and names of operators.
fn redacted(mut chain: ChainOverview) -> ChainOverview {
    for lock in &mut chain.locks {
        lock.holder = lock.holder.take().map(without_host);
    }
    let projections = chain.projections.iter_mut();
    for job in projections.flat_map(|one| &mut one.some_jobs) {
        job.locked_by = job.locked_by.take().map(without_host);
    }
    chain
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use chronolith_projection::Error;
    use futures::future::join_all;

    use super::*;

    fn unavailable() -> Error {
        Error::Unavailable {
            context: "connect".to_owned(),
            reason: "no answer".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_cost_one_query_a_second() {
        let (cache, queries) = (ProjectionsCache::default(), AtomicUsize::new(0));
        let query = || async {
            queries.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Vec::new())
        };
        for seconds in 1..=3 {
            let found = join_all((0..100).map(|_| cache.get(seconds, query()))).await;
            let same =
                |one: &Overview| matches!(one, Overview::Known { as_of, .. } if *as_of == seconds);
            assert!(found.iter().all(same));
            assert_eq!(queries.load(Ordering::SeqCst), seconds as usize);
            tokio::time::advance(FRESH).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_query_is_not_repeated_soon() {
        let cache = ProjectionsCache::default();
        let slow = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(Vec::new())
        };
        cache.get(1, slow).await;
        tokio::time::advance(Duration::from_secs(19)).await;
        let found = cache.get(20, async { panic!("queried again") }).await;
        assert!(matches!(found, Overview::Known { as_of: 1, .. }));
        tokio::time::advance(Duration::from_secs(1)).await;
        let found = cache.get(21, async { Ok(Vec::new()) }).await;
        assert!(matches!(found, Overview::Known { as_of: 21, .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_reported_from_its_start_and_costs_no_more() {
        let cache = ProjectionsCache::default();
        let since = |found: &Overview| match found {
            Overview::Unavailable { since } => Some(*since),
            Overview::Known { .. } => None,
        };
        let found = cache.get(10, async { Err(unavailable()) }).await;
        assert_eq!(since(&found), Some(10));
        // The next request does not wait for the same failure.
        let found = cache
            .get(10, async { panic!("queried again at once") })
            .await;
        assert_eq!(since(&found), Some(10));
        tokio::time::advance(FRESH).await;
        // A query without any answer times out.
        let found = cache.get(12, std::future::pending()).await;
        assert_eq!(since(&found), Some(10));
        tokio::time::advance(FRESH).await;
        let found = cache.get(20, async { Ok(Vec::new()) }).await;
        assert_eq!(since(&found), None);
        tokio::time::advance(FRESH).await;
        let found = cache.get(30, async { Err(unavailable()) }).await;
        assert_eq!(since(&found), Some(30));
    }
}

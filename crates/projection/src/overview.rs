//! Everything about projections at one moment, for a page that people look at.
//!
//! Every list has a limit and no statement may take long: the page is public and may be loaded often.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::database::Database;
use crate::error::{Result, Tried as _};
use crate::kind::{self, Kinds};
use crate::leases::{self, LeaseReport};
use crate::partitions::chain_partition;
use crate::rows::TableRole;
use crate::state::{self, ChainState, ProjectionState, snapshot};

/// Jobs of a projection that are listed: those failing first.
const JOBS_SHOWN: i64 = 12;
/// Rows of a projection that are listed.
const NEWEST_SHOWN: i64 = 8;

/// How long one statement may take.
const PATIENCE: &str = "SET LOCAL statement_timeout = '2s'";

/// A chain and what is projected of it.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainOverview {
    /// Its id. Who serializes it decides how a large one is written.
    #[serde(skip)]
    pub chain_id: i64,
    /// Its name in the settings.
    pub name: String,
    /// The newest block that was seen.
    pub last_seen_block: Option<i64>,
    /// The block through which everything is confirmed.
    pub last_safe_block: Option<i64>,
    /// Blocks with rows that are not final.
    pub pending_blocks: i64,
    /// Blocks with rows that were dropped.
    pub dropped_blocks: i64,
    /// The version of the contract that is in force, where a projection has versions.
    pub version: Option<i32>,
    /// Its projections.
    pub projections: Vec<ProjectionOverview>,
    /// Who may write.
    pub locks: Vec<LeaseReport>,
    /// What each kind of projection adds.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// A projection and its jobs.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionOverview {
    #[serde(flatten)]
    pub state: ProjectionState,
    /// About how many events it has, as far as the server's statistics know.
    pub events_about: Option<i64>,
    /// Some of its jobs, those failing first.
    pub some_jobs: Vec<JobBrief>,
}

/// A range of history that is being projected.
// Without its error: that may have details that are not public.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ProjectionJob")]
pub struct JobBrief {
    /// Its number.
    pub id: i64,
    /// The first block.
    pub from_block: i64,
    /// The last block.
    pub to_block: i64,
    /// The first block that is not projected yet.
    pub next_block: i64,
    /// `dead` where it was abandoned.
    #[schemars(extend("enum" = ["pending", "processing", "failed", "dead"]))]
    pub status: String,
    /// How often it was tried.
    pub attempts: i32,
    /// The worker that runs it.
    pub locked_by: Option<String>,
    /// Seconds since its last change.
    pub idle_seconds: f64,
}

/// Everything about those of these chains that have projections.
///
/// # Errors
/// The database does not answer, or not in time.
pub async fn overview(database: &Database, chains: &[u64]) -> Result<Vec<ChainOverview>> {
    let mut client = database.client().await?;
    let tx = snapshot(&mut client).await?;
    tx.batch_execute(PATIENCE).await.tried("begin to read")?;
    let kinds = database.kinds();
    let mut states = state::read(&tx, kinds, None).await?;
    states.retain(|one| u64::try_from(one.chain_id).is_ok_and(|id| chains.contains(&id)));
    let mut locks = by_chain(leases::read(&tx, None).await?, |one| one.chain_id);
    let mut jobs = some_jobs(&tx).await?;
    let events = events_about(&tx, kinds, &states).await?;
    let mut all = Vec::new();
    for chain in states {
        let id = chain.chain_id;
        let mut details = Map::new();
        for kind in kinds {
            details.extend(kind.overview(&tx, &chain).await?);
        }
        let projections = chain.projections.into_iter().map(|state| {
            let of = (id, state.projection.clone());
            ProjectionOverview {
                events_about: events.get(&of).copied(),
                some_jobs: jobs.remove(&of).unwrap_or_default(),
                state,
            }
        });
        all.push(ChainOverview {
            chain_id: id,
            name: chain.name,
            last_seen_block: chain.last_seen_block,
            last_safe_block: chain.last_safe_block,
            pending_blocks: chain.pending_blocks,
            dropped_blocks: chain.dropped_blocks,
            version: chain.version,
            projections: projections.collect(),
            locks: locks.remove(&id).unwrap_or_default(),
            details,
        });
    }
    tx.commit().await.tried("read the overview")?;
    Ok(all)
}

/// The newest rows of a projection of a chain, for [`ProjectionKind::overview`](crate::ProjectionKind::overview). The
/// statement selects one JSON object for each row, of chain `$1`, at most `$2` rows.
///
/// # Errors
/// The database does not answer.
pub async fn newest(
    tx: &Transaction<'_>,
    chain: &ChainState,
    projection: &str,
    statement: &str,
) -> Result<Vec<Value>> {
    if !chain.has(projection) {
        return Ok(Vec::new());
    }
    let rows = tx.query(statement, &[&chain.chain_id, &NEWEST_SHOWN]).await;
    let rows = rows.tried("read the newest rows")?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn by_chain<T>(all: Vec<T>, chain: impl Fn(&T) -> i64) -> BTreeMap<i64, Vec<T>> {
    let mut sorted: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    for one in all {
        sorted.entry(chain(&one)).or_default().push(one);
    }
    sorted
}

/// A projection of a chain.
type Of = (i64, String);

/// Some jobs of each projection.
async fn some_jobs(tx: &Transaction<'_>) -> Result<BTreeMap<Of, Vec<JobBrief>>> {
    const JOBS: &str = "\
        SELECT p.chain_id, p.projection, j.id, j.from_block, j.to_block, j.next_block, j.status, \
            j.attempts, j.locked_by, extract(epoch FROM now() - j.updated_at)::float8 \
        FROM projections p, LATERAL (SELECT j.id, j.from_block, j.to_block, j.next_block, j.status, j.attempts, \
            j.locked_by, j.updated_at FROM jobs j \
            WHERE j.chain_id = p.chain_id AND j.projection = p.projection \
            ORDER BY array_position(ARRAY['dead', 'failed', 'processing', 'pending'], j.status), \
                j.from_block LIMIT $1) j \
        ORDER BY 1, 2, array_position(ARRAY['dead', 'failed', 'processing', 'pending'], j.status), 4";
    let rows = tx.query(JOBS, &[&JOBS_SHOWN]).await;
    let mut all: BTreeMap<Of, Vec<JobBrief>> = BTreeMap::new();
    for row in rows.tried("read jobs")? {
        let of = (row.get(0), row.get(1));
        all.entry(of).or_default().push(JobBrief {
            id: row.get(2),
            from_block: row.get(3),
            to_block: row.get(4),
            next_block: row.get(5),
            status: row.get(6),
            attempts: row.get(7),
            locked_by: row.get(8),
            idle_seconds: row.get(9),
        });
    }
    Ok(all)
}

/// The partition with a projection's events of a chain.
fn partition(kinds: Kinds, chain: i64, projection: &str) -> Option<String> {
    let tables = kind::named(kinds, projection)?.tables();
    let events = tables.iter().find(|one| one.role == TableRole::Events)?;
    Some(chain_partition(events.name, u64::try_from(chain).ok()?))
}

/// About how many events each projection has. Nothing is counted: the server keeps statistics. It forgets
/// them in a crash, and a partition with fewer than four events a page has more: then the number is unknown.
async fn events_about(
    tx: &Transaction<'_>,
    kinds: Kinds,
    states: &[ChainState],
) -> Result<BTreeMap<Of, i64>> {
    const ABOUT: &str = "\
        SELECT CASE WHEN NOT bool_or(pg_relation_size(c.oid) - 8192 > e.events * 2048) \
            THEN sum(e.events)::bigint END \
        FROM unnest($1::text[]) WITH ORDINALITY AS n (name, at) \
        LEFT JOIN pg_inherits i ON i.inhparent = to_regclass(n.name) \
        LEFT JOIN pg_class c ON c.oid = i.inhrelid, \
        LATERAL (SELECT greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0) AS events) e \
        GROUP BY n.at ORDER BY n.at";
    let of = states.iter().flat_map(|chain| {
        let names = chain.projections.iter().map(|one| &one.projection);
        names.map(|name| (chain.chain_id, name.clone()))
    });
    let of: Vec<Of> = of.collect();
    let names = of
        .iter()
        .map(|(chain, name)| partition(kinds, *chain, name));
    let names: Vec<Option<String>> = names.collect();
    let rows = tx.query(ABOUT, &[&names]).await;
    let rows = rows.tried("read statistics")?;
    let counts = rows.iter().map(|row| row.get::<_, Option<i64>>(0));
    let known = of.into_iter().zip(counts);
    Ok(known.filter_map(|(of, count)| Some((of, count?))).collect())
}

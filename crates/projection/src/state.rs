//! How far projections are, for people.

use std::collections::BTreeMap;

use deadpool_postgres::{Client, Transaction};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio_postgres::{IsolationLevel, Row};

use crate::chain_id;
use crate::database::Database;
use crate::error::{Result, Tried as _};
use crate::kind::{self, Kinds};
use crate::leases::audit;

/// How far a chain is.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainState {
    pub chain_id: i64,
    pub name: String,
    /// The newest block that was seen; none before the first.
    pub last_seen_block: Option<i64>,
    /// The block through which everything is confirmed.
    pub last_safe_block: Option<i64>,
    /// Blocks with rows that are not final.
    pub pending_blocks: i64,
    /// Blocks with rows that were dropped.
    pub dropped_blocks: i64,
    /// The version of the contract that is in force, where a projection has versions.
    pub version: Option<i32>,
    pub projections: Vec<ProjectionState>,
}

impl ChainState {
    /// Whether the chain has a projection.
    #[must_use]
    pub fn has(&self, projection: &str) -> bool {
        let mut projections = self.projections.iter();
        projections.any(|one| one.projection == projection)
    }
}

/// How far a projection is.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionState {
    /// Its name: `fees` or `adfs`.
    pub projection: String,
    /// The first block that counts.
    pub start_block: i64,
    /// The first block that no job covers yet.
    pub next_block: i64,
    /// Through which block every row is there; null where the first is missing.
    pub whole_through: Option<i64>,
    /// Through which block every row is there and confirmed.
    pub complete_through: Option<i64>,
    /// Final blocks whose rows are not all there yet.
    pub lag_blocks: i64,
    /// Rows of blocks that are not final.
    pub pending_rows: i64,
    /// Jobs that are not done.
    pub jobs: i64,
    /// Those of them that wait for a worker.
    pub waiting_jobs: i64,
    /// Those of them that a worker runs.
    pub running_jobs: i64,
    /// Those of them that failed and are retried.
    pub failed_jobs: i64,
    /// Jobs that were abandoned.
    pub dead_jobs: i64,
    /// Logs that could not be projected; counted up to 10,000.
    pub quarantined: i64,
    /// Since when it is paused, in seconds since 1970; null while it runs.
    pub paused_at: Option<i64>,
    /// Why, in a word.
    pub paused_reason: Option<String>,
    /// Why, in detail.
    pub paused_detail: Option<String>,
    /// The command that lets it continue once the reason is gone.
    pub remedy: Option<String>,
}

/// How far chains are: one of them, or all.
///
/// # Errors
/// The database does not answer.
pub async fn state(database: &Database, chain: Option<u64>) -> Result<Vec<ChainState>> {
    let mut client = database.client().await?;
    let tx = snapshot(&mut client).await?;
    let chain = chain.map(chain_id).transpose()?;
    let states = read(&tx, database.kinds(), chain).await?;
    tx.commit().await.tried("read the state")?;
    Ok(states)
}

/// A transaction that only reads, and sees the database at one moment.
///
/// # Errors
/// The database does not answer.
pub async fn snapshot(client: &mut Client) -> Result<Transaction<'_>> {
    let begun = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await;
    begun.tried("begin to read")
}

pub(crate) async fn read(
    tx: &Transaction<'_>,
    kinds: Kinds,
    chain: Option<i64>,
) -> Result<Vec<ChainState>> {
    const CHAINS: &str = "SELECT c.chain_id, c.name, nullif(s.last_seen_block, -1), \
        nullif(s.last_safe_block, -1), \
        (SELECT count(*) FROM pending_blocks p WHERE p.chain_id = c.chain_id), \
        (SELECT count(*) FROM dropped_blocks d WHERE d.chain_id = c.chain_id) \
        FROM chains c JOIN processing_state s USING (chain_id) \
        WHERE $1::bigint IS NULL OR c.chain_id = $1 ORDER BY 1";
    let rows = tx.query(CHAINS, &[&chain]).await;
    let rows = rows.tried("read the state")?;
    let mut all = projections(tx, kinds, chain).await?;
    let mut versions = BTreeMap::new();
    for kind in kinds {
        versions.extend(kind.versions_in_force(tx, chain).await?);
    }
    let state = |row: &Row| {
        let chain_id: i64 = row.get(0);
        ChainState {
            chain_id,
            name: row.get(1),
            last_seen_block: row.get(2),
            last_safe_block: row.get(3),
            pending_blocks: row.get(4),
            dropped_blocks: row.get(5),
            version: versions.remove(&chain_id),
            projections: all.remove(&chain_id).unwrap_or_default(),
        }
    };
    Ok(rows.iter().map(state).collect())
}

/// What is projected of each chain.
async fn projections(
    tx: &Transaction<'_>,
    kinds: Kinds,
    chain: Option<i64>,
) -> Result<BTreeMap<i64, Vec<ProjectionState>>> {
    // Hostile logs must not make this query expensive: beyond this many, logs are not counted. In the order
    // of its key the table is not read whole for a projection that has none.
    const PROJECTIONS: &str = "SELECT p.chain_id, p.projection, p.start_block, p.next_block, \
        r.to_block, c.complete_through, \
        greatest(s.last_safe_block - coalesce(c.complete_through, p.start_block - 1), 0), \
        coalesce((SELECT sum((b.counts->>p.projection)::bigint) FROM pending_blocks b \
            WHERE b.chain_id = p.chain_id), 0)::bigint, \
        j.waiting, j.running, j.failed, j.dead, \
        (SELECT count(*) FROM (SELECT 1 FROM quarantine q WHERE q.chain_id = p.chain_id \
            AND q.projection = p.projection AND NOT EXISTS (SELECT FROM dropped_blocks d \
                WHERE d.chain_id = q.chain_id AND d.block_hash = q.block_hash) ORDER BY q.chain_id, q.projection, q.tx_hash \
            LIMIT 10000) known), \
        extract(epoch FROM p.paused_at)::bigint, p.paused_reason, p.paused_detail \
        FROM projections p JOIN processing_state s USING (chain_id) \
        JOIN complete_through c ON c.chain_id = p.chain_id AND c.projection = p.projection \
        LEFT JOIN LATERAL (SELECT to_block FROM projected_ranges r WHERE r.chain_id = p.chain_id \
            AND r.projection = p.projection AND r.from_block <= p.start_block \
            ORDER BY r.from_block DESC LIMIT 1) r ON true, \
        LATERAL (SELECT count(*) FILTER (WHERE status = 'pending') AS waiting, \
            count(*) FILTER (WHERE status = 'processing') AS running, \
            count(*) FILTER (WHERE status = 'failed') AS failed, \
            count(*) FILTER (WHERE status = 'dead') AS dead \
            FROM jobs j WHERE j.chain_id = p.chain_id AND j.projection = p.projection) j \
        WHERE $1::bigint IS NULL OR p.chain_id = $1 ORDER BY 1, 2";
    let rows = tx.query(PROJECTIONS, &[&chain]).await;
    let mut all: BTreeMap<i64, Vec<ProjectionState>> = BTreeMap::new();
    for row in rows.tried("read the state")? {
        let of_chain = all.entry(row.get(0)).or_default();
        of_chain.push(projection(&row, kinds));
    }
    Ok(all)
}

fn projection(row: &Row, kinds: Kinds) -> ProjectionState {
    let [waiting, running, failed] = [8, 9, 10].map(|at| row.get::<_, i64>(at));
    let mut state = ProjectionState {
        projection: row.get(1),
        start_block: row.get(2),
        next_block: row.get(3),
        whole_through: row.get(4),
        complete_through: row.get(5),
        lag_blocks: row.get(6),
        pending_rows: row.get(7),
        jobs: waiting + running + failed,
        waiting_jobs: waiting,
        running_jobs: running,
        failed_jobs: failed,
        dead_jobs: row.get(11),
        quarantined: row.get(12),
        paused_at: row.get(13),
        paused_reason: row.get(14),
        paused_detail: row.get(15),
        remedy: None,
    };
    state.remedy = remedy(row.get(0), &state, kinds);
    state
}

/// The command that ends what a projection waits for an operator for.
fn remedy(chain: i64, state: &ProjectionState, kinds: Kinds) -> Option<String> {
    let name = &state.projection;
    let own = state.paused_reason.as_deref().and_then(|reason| {
        let detail = state.paused_detail.as_deref().unwrap_or_default();
        kind::named(kinds, name)?.remedy(chain, reason, detail)
    });
    let resume = || format!("chronolith projection resume --chain {chain} --projection {name}");
    let retry = || (state.dead_jobs > 0).then(|| "chronolith jobs retry".to_owned());
    own.or_else(|| state.paused_at.map(|_| resume()))
        .or_else(retry)
}

/// Lets a projection that is paused continue. Audited. False where it did not.
///
/// # Errors
/// The database does not answer.
pub async fn resume(
    database: &Database,
    chain: u64,
    projection: &str,
    operator: &str,
) -> Result<bool> {
    const RESUME: &str = "\
        WITH before AS (SELECT paused_reason FROM projections WHERE chain_id = $1 AND projection = $2 \
            AND paused_at IS NOT NULL FOR UPDATE) \
        UPDATE projections p SET paused_at = NULL, paused_reason = NULL, paused_detail = NULL \
        FROM before WHERE p.chain_id = $1 AND p.projection = $2 RETURNING before.paused_reason";
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let chain = chain_id(chain)?;
    let resumed = tx.query_opt(RESUME, &[&chain, &projection]).await;
    let Some(row) = resumed.tried("resume a projection")? else {
        return Ok(false);
    };
    let reason: Option<String> = row.get(0);
    let detail = json!({ "projection": projection, "reason": reason });
    audit(&tx, Some(chain), "projection resume", operator, &detail).await?;
    tx.commit().await.tried("resume a projection")?;
    Ok(true)
}

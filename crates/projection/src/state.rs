//! How far projections are, for people.

use deadpool_postgres::Client;
use serde::Serialize;
use serde_json::json;

use crate::chain_id;
use crate::database::Database;
use crate::error::{Result, Tried as _};
use crate::leases::audit;

/// How far a chain is.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainState {
    /// The chain.
    pub chain_id: i64,
    /// Its name.
    pub name: String,
    /// The newest block that was seen; none before the first.
    pub last_seen_block: Option<i64>,
    /// The block through which everything is confirmed.
    pub last_safe_block: Option<i64>,
    /// Blocks with rows that are not final.
    pub pending_blocks: i64,
    /// Blocks with rows that were dropped.
    pub dropped_blocks: i64,
    /// What is projected.
    pub projections: Vec<ProjectionState>,
}

/// How far a projection is.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionState {
    /// Its name.
    pub projection: String,
    /// The first block that counts.
    pub start_block: i64,
    /// The first block that nobody was asked to project yet.
    pub next_block: i64,
    /// Through which block every row is there; none where the first is missing.
    pub whole_through: Option<i64>,
    /// Jobs on their way.
    pub jobs: i64,
    /// Jobs that were given up.
    pub dead_jobs: i64,
    /// Logs that could not be projected.
    pub quarantined: i64,
    /// Why it stands still, where it does.
    pub paused_reason: Option<String>,
    /// In detail.
    pub paused_detail: Option<String>,
}

/// How far chains are: one of them, or all.
///
/// # Errors
/// The database does not answer.
pub async fn state(database: &Database, chain: Option<u64>) -> Result<Vec<ChainState>> {
    const CHAINS: &str = "SELECT c.chain_id, c.name, nullif(s.last_seen_block, -1), \
        nullif(s.last_safe_block, -1), \
        (SELECT count(*) FROM pending_blocks p WHERE p.chain_id = c.chain_id), \
        (SELECT count(*) FROM dropped_blocks d WHERE d.chain_id = c.chain_id) \
        FROM chains c JOIN processing_state s USING (chain_id) \
        WHERE $1::bigint IS NULL OR c.chain_id = $1 ORDER BY 1";
    let client = database.client().await?;
    let chain = chain.map(chain_id).transpose()?;
    let rows = client
        .query(CHAINS, &[&chain])
        .await
        .tried("read the state")?;
    let mut states = Vec::new();
    for row in rows {
        let chain_id: i64 = row.get(0);
        states.push(ChainState {
            chain_id,
            name: row.get(1),
            last_seen_block: row.get(2),
            last_safe_block: row.get(3),
            pending_blocks: row.get(4),
            dropped_blocks: row.get(5),
            projections: projections(&client, chain_id).await?,
        });
    }
    Ok(states)
}

async fn projections(client: &Client, chain: i64) -> Result<Vec<ProjectionState>> {
    const PROJECTIONS: &str = "SELECT p.projection, p.start_block, p.next_block, \
        (SELECT r.to_block FROM projected_ranges r WHERE r.chain_id = p.chain_id \
            AND r.projection = p.projection AND r.from_block <= p.start_block \
            ORDER BY r.from_block DESC LIMIT 1), \
        (SELECT count(*) FROM jobs j WHERE j.chain_id = p.chain_id AND j.projection = p.projection \
            AND j.status <> 'dead'), \
        (SELECT count(*) FROM jobs j WHERE j.chain_id = p.chain_id AND j.projection = p.projection \
            AND j.status = 'dead'), \
        (SELECT count(*) FROM quarantine q WHERE q.chain_id = p.chain_id \
            AND q.projection = p.projection AND NOT EXISTS (SELECT FROM dropped_blocks d \
                WHERE d.chain_id = q.chain_id AND d.block_hash = q.block_hash)), \
        p.paused_reason, p.paused_detail \
        FROM projections p WHERE p.chain_id = $1 ORDER BY 1";
    let rows = client.query(PROJECTIONS, &[&chain]).await;
    let state = |row: &tokio_postgres::Row| ProjectionState {
        projection: row.get(0),
        start_block: row.get(1),
        next_block: row.get(2),
        whole_through: row.get(3),
        jobs: row.get(4),
        dead_jobs: row.get(5),
        quarantined: row.get(6),
        paused_reason: row.get(7),
        paused_detail: row.get(8),
    };
    Ok(rows.tried("read the state")?.iter().map(state).collect())
}

/// Lets a projection that stands still go on. Audited. False where it did not.
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

//! Range jobs: history in pieces that any number of workers can take.
//!
//! Taking a range is one statement: the cursor moves and the job appears together, so no range can be
//! lost between the two. A worker holds a job for a while; every write of it checks a token that changes
//! with its holder. What is done becomes part of a projected range and the job is gone.

use std::time::Duration;

use deadpool_postgres::Transaction;
use serde::Serialize;
use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::error::{Error, Result, Tried as _};
use crate::leases::audit;

/// After this many attempts an operator has to act.
pub const ATTEMPTS_MAX: i32 = 10;
/// So many jobs may be requested at once.
const JOBS_AT_ONCE_MAX: i64 = 100_000;
/// So many jobs are listed.
const LISTED_MAX: i64 = 10_000;

/// A projection of a chain, by name.
pub(crate) type Of<'a> = (i64, &'a str);

/// A job that is ours for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) id: i64,
    pub(crate) from: i64,
    /// The last block.
    pub(crate) to: i64,
    /// The first block that is not projected yet.
    pub(crate) next: i64,
    /// It changes whenever the job changes hands.
    pub(crate) token: i64,
}

impl Job {
    fn of(row: &Row) -> Self {
        Self {
            id: row.get(0),
            from: row.get(1),
            to: row.get(2),
            next: row.get(3),
            token: row.get(4),
        }
    }

    fn fenced(&self) -> Error {
        Error::Fenced {
            what: format!("job {} (blocks {} to {})", self.id, self.from, self.to),
            epoch: self.token,
        }
    }
}

/// Who takes jobs, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimer<'a> {
    pub(crate) worker: &'a str,
    /// The settings of its projection: a worker with other settings would leave rows out.
    pub(crate) settings: &'a serde_json::Value,
    /// Blocks of a new job.
    pub(crate) blocks: i64,
    pub(crate) ttl: Duration,
}

/// Takes a job that failed, was abandoned by its worker, or waits.
pub(crate) async fn claim_again(
    database: &Database,
    (chain, projection): Of<'_>,
    claimer: Claimer<'_>,
) -> Result<Option<Job>> {
    const AGAIN: &str = "\
        UPDATE jobs SET status = 'processing', attempts = attempts + 1, token = nextval('job_tokens'), \
            locked_by = $3, locked_until = now() + $4 * interval '1 second', updated_at = now() \
        WHERE id = (SELECT j.id FROM jobs j JOIN projections p USING (chain_id, projection) \
            WHERE j.chain_id = $1 AND j.projection = $2 AND p.paused_at IS NULL AND p.settings = $6 \
            AND j.attempts < $5 AND j.retry_at <= now() \
            AND (j.status IN ('pending', 'failed') OR (j.status = 'processing' AND j.locked_until < now())) \
            ORDER BY j.from_block FOR UPDATE OF j SKIP LOCKED LIMIT 1) \
        RETURNING id, from_block, to_block, next_block, token";
    let client = database.client().await?;
    let (worker, seconds) = (claimer.worker, claimer.ttl.as_secs_f64());
    let parameters: [&(dyn ToSql + Sync); 6] = [
        &chain,
        &projection,
        &worker,
        &seconds,
        &ATTEMPTS_MAX,
        claimer.settings,
    ];
    let again = client.query_opt(AGAIN, &parameters).await;
    Ok(again.tried("take a job again")?.map(|row| Job::of(&row)))
}

/// The first block that no job covers yet; none where the projection is paused.
pub(crate) async fn next_block(
    database: &Database,
    (chain, projection): Of<'_>,
) -> Result<Option<i64>> {
    const NEXT: &str = "SELECT next_block FROM projections \
        WHERE chain_id = $1 AND projection = $2 AND paused_at IS NULL";
    let client = database.client().await?;
    let row = client.query_opt(NEXT, &[&chain, &projection]).await;
    Ok(row.tried("read a cursor")?.map(|row| row.get(0)))
}

/// Takes the next range of final blocks: from `next`, if that is still the cursor, and not beyond
/// `last`.
pub(crate) async fn claim_next(
    database: &Database,
    (chain, projection): Of<'_>,
    claimer: Claimer<'_>,
    (next, last): (i64, i64),
) -> Result<Option<Job>> {
    const NEXT: &str = "\
        WITH old AS ( \
            SELECT p.next_block, least(p.next_block + $4::bigint - 1, s.last_safe_block, $7::bigint) AS last \
            FROM projections p JOIN processing_state s USING (chain_id) \
            WHERE p.chain_id = $1 AND p.projection = $2 AND p.paused_at IS NULL AND p.settings = $8 \
            AND p.next_block = $6::bigint AND p.next_block <= least(s.last_safe_block, $7::bigint) \
            FOR UPDATE OF p), \
        moved AS ( \
            UPDATE projections p SET next_block = old.last + 1 FROM old \
            WHERE p.chain_id = $1 AND p.projection = $2) \
        INSERT INTO jobs (chain_id, projection, from_block, to_block, next_block, status, attempts, \
            locked_by, locked_until) \
        SELECT $1, $2, next_block, last, next_block, 'processing', 1, $3, \
            now() + $5 * interval '1 second' FROM old \
        RETURNING id, from_block, to_block, next_block, token";
    let client = database.client().await?;
    let seconds = claimer.ttl.as_secs_f64();
    let parameters: [&(dyn ToSql + Sync); 8] = [
        &chain,
        &projection,
        &claimer.worker,
        &claimer.blocks,
        &seconds,
        &next,
        &last,
        claimer.settings,
    ];
    let claimed = client.query_opt(NEXT, &parameters).await;
    let row = claimed.tried("take the next range")?;
    Ok(row.map(|row| Job::of(&row)))
}

/// Renews the hold of a worker on its job.
pub(crate) async fn renew(database: &Database, job: &Job, ttl: Duration) -> Result<()> {
    const RENEW: &str = "UPDATE jobs SET locked_until = now() + $3 * interval '1 second' \
        WHERE id = $1 AND token = $2 AND status = 'processing'";
    let client = database.client().await?;
    let seconds = ttl.as_secs_f64();
    let renewed = client
        .execute(RENEW, &[&job.id, &job.token, &seconds])
        .await;
    match renewed.tried("renew a job")? {
        0 => Err(job.fenced()),
        _ => Ok(()),
    }
}

/// Makes sure, to the end of a transaction, that a job is still ours.
pub(crate) async fn hold(tx: &Transaction<'_>, job: &Job) -> Result<()> {
    const HOLD: &str = "SELECT 1 FROM jobs WHERE id = $1 AND token = $2 AND status = 'processing' \
        FOR UPDATE";
    let held = tx.query_opt(HOLD, &[&job.id, &job.token]).await;
    match held.tried("hold a job")? {
        Some(_) => Ok(()),
        None => Err(job.fenced()),
    }
}

/// Moves a job's cursor in the transaction that wrote the rows below it, if the job is still ours. At
/// the end the job becomes a projected range. One that gets on has all its attempts again.
pub(crate) async fn advance(tx: &Transaction<'_>, of: Of<'_>, job: &Job, next: i64) -> Result<()> {
    const MOVE: &str = "UPDATE jobs SET next_block = $3, attempts = 1, updated_at = now() \
        WHERE id = $1 AND token = $2 AND status = 'processing'";
    const END: &str = "DELETE FROM jobs WHERE id = $1 AND token = $2 AND status = 'processing' \
        AND to_block = $3";
    // More blocks were requested meanwhile.
    const MORE: &str = "UPDATE jobs SET next_block = $3, status = 'pending', attempts = 0, \
        locked_by = NULL, locked_until = NULL, updated_at = now() \
        WHERE id = $1 AND token = $2 AND status = 'processing'";
    let statement = if next <= job.to { MOVE } else { MORE };
    if next > job.to {
        let ended = tx.execute(END, &[&job.id, &job.token, &job.to]).await;
        if ended.tried("end a job")? == 1 {
            return merge(tx, of, job.from, job.to).await;
        }
    }
    let moved = tx.execute(statement, &[&job.id, &job.token, &next]).await;
    match moved.tried("move a job's cursor")? {
        0 => Err(job.fenced()),
        _ => Ok(()),
    }
}

/// Adds a range to those that are projected.
async fn merge(
    tx: &Transaction<'_>,
    (chain, projection): Of<'_>,
    from: i64,
    to: i64,
) -> Result<()> {
    // Two ends of jobs must not merge with the same neighbour at once.
    const ONE: &str =
        "SELECT 1 FROM projections WHERE chain_id = $1 AND projection = $2 FOR NO KEY UPDATE";
    const MERGE: &str = "\
        WITH gone AS (DELETE FROM projected_ranges WHERE chain_id = $1 AND projection = $2 \
            AND from_block <= $4::bigint + 1 AND to_block >= $3::bigint - 1 RETURNING from_block, to_block) \
        SELECT least($3::bigint, min(from_block)), greatest($4::bigint, max(to_block)) FROM gone";
    const PUT: &str = "INSERT INTO projected_ranges (chain_id, projection, from_block, to_block) \
        VALUES ($1, $2, $3, $4)";
    let one = tx.execute(ONE, &[&chain, &projection]).await;
    one.tried("merge ranges")?;
    let merged = tx
        .query_one(MERGE, &[&chain, &projection, &from, &to])
        .await;
    let merged = merged.tried("merge ranges")?;
    let (from, to): (i64, i64) = (merged.get(0), merged.get(1));
    let put = tx.execute(PUT, &[&chain, &projection, &from, &to]).await;
    put.tried("merge ranges").map(|_| ())
}

/// Blocks from `first` to `last` need no job: the follower of the tail is done with them.
pub(crate) async fn skip(
    tx: &Transaction<'_>,
    of: Of<'_>,
    settings: &serde_json::Value,
    (first, last): (i64, i64),
) -> Result<()> {
    const SKIP: &str = "\
        WITH old AS (SELECT next_block FROM projections WHERE chain_id = $1 AND projection = $2 \
            AND settings = $5 AND next_block BETWEEN $3::bigint AND $4::bigint FOR UPDATE) \
        UPDATE projections p SET next_block = $4::bigint + 1 FROM old \
        WHERE p.chain_id = $1 AND p.projection = $2 RETURNING old.next_block";
    let skipped = tx
        .query_opt(SKIP, &[&of.0, &of.1, &first, &last, settings])
        .await;
    match skipped.tried("skip a range")? {
        Some(row) => merge(tx, of, row.get(0), last).await,
        None => Ok(()),
    }
}

/// Notes that an attempt failed. The next one waits, longer each time.
pub(crate) async fn fail(database: &Database, job: &Job, error: &str) -> Result<()> {
    const FAIL: &str = "UPDATE jobs SET error = $3, locked_by = NULL, locked_until = NULL, \
        updated_at = now(), retry_at = now() + least(power(2, attempts), 300) * interval '1 second', \
        status = CASE WHEN attempts >= $4 THEN 'dead' ELSE 'failed' END \
        WHERE id = $1 AND token = $2 AND status = 'processing'";
    let client = database.client().await?;
    let failed = client
        .execute(FAIL, &[&job.id, &job.token, &error, &ATTEMPTS_MAX])
        .await;
    failed.tried("note a failure").map(|_| ())
}

/// Puts a job back as if it had not been taken, for a while: it is not the job's fault.
pub(crate) async fn put_back(database: &Database, job: &Job, why: Option<&str>) -> Result<()> {
    const BACK: &str = "UPDATE jobs SET status = 'pending', attempts = greatest(attempts - 1, 0), \
        locked_by = NULL, locked_until = NULL, updated_at = now(), error = $3, \
        retry_at = now() + CASE WHEN $3::text IS NULL THEN interval '0' ELSE interval '2 seconds' END \
        WHERE id = $1 AND token = $2 AND status = 'processing'";
    let client = database.client().await?;
    let back = client.execute(BACK, &[&job.id, &job.token, &why]).await;
    back.tried("put a job back").map(|_| ())
}

/// Puts back every job of a worker that ends.
pub(crate) async fn put_all_back(database: &Database, chain: i64, worker: &str) -> Result<()> {
    const BACK: &str = "UPDATE jobs SET status = 'pending', attempts = greatest(attempts - 1, 0), \
        locked_by = NULL, locked_until = NULL, updated_at = now() \
        WHERE chain_id = $1 AND locked_by = $2 AND status = 'processing'";
    let client = database.client().await?;
    let back = client.execute(BACK, &[&chain, &worker]).await;
    back.tried("put jobs back").map(|_| ())
}

/// What keeps a chain from being projected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    pub open: i64,
    /// Jobs that were abandoned.
    pub dead: i64,
    pub paused: i64,
}

pub(crate) async fn left(database: &Database, chain: i64) -> Result<Left> {
    const LEFT: &str = "SELECT count(*) FILTER (WHERE status <> 'dead'), \
        count(*) FILTER (WHERE status = 'dead'), \
        (SELECT count(*) FROM projections WHERE chain_id = $1 AND paused_at IS NOT NULL) \
        FROM jobs WHERE chain_id = $1";
    let client = database.client().await?;
    let row = client.query_one(LEFT, &[&chain]).await;
    let row = row.tried("count jobs")?;
    Ok(Left {
        open: row.get(0),
        dead: row.get(1),
        paused: row.get(2),
    })
}

/// Gives up jobs whose last worker died.
pub(crate) async fn bury(database: &Database, chain: i64) -> Result<u64> {
    const BURY: &str = "UPDATE jobs SET status = 'dead', locked_by = NULL, updated_at = now(), \
        error = coalesce(error, 'its worker went away') \
        WHERE id IN (SELECT id FROM jobs WHERE chain_id = $1 AND status = 'processing' \
            AND locked_until < now() AND attempts >= $2 FOR UPDATE SKIP LOCKED)";
    let client = database.client().await?;
    let buried = client.execute(BURY, &[&chain, &ATTEMPTS_MAX]).await;
    buried.tried("give jobs up")
}

/// A job, for people.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobReport {
    pub id: i64,
    pub chain_id: i64,
    pub projection: String,
    /// The first block.
    pub from_block: i64,
    /// The last block.
    pub to_block: i64,
    /// The first block that is not projected yet.
    pub next_block: i64,
    /// `pending`, `processing`, `failed` or `dead`.
    pub status: String,
    /// How often it was tried.
    pub attempts: i32,
    pub locked_by: Option<String>,
    /// Seconds until others may take it.
    pub lock_seconds: Option<f64>,
    /// Seconds until it is tried again.
    pub retry_in_seconds: f64,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

const REPORT: &str = "SELECT id, chain_id, projection, from_block, to_block, next_block, status, attempts, \
    locked_by, extract(epoch FROM locked_until - now())::float8, \
    greatest(extract(epoch FROM retry_at - now()), 0)::float8, error FROM jobs";

fn report(row: &Row) -> JobReport {
    JobReport {
        id: row.get(0),
        chain_id: row.get(1),
        projection: row.get(2),
        from_block: row.get(3),
        to_block: row.get(4),
        next_block: row.get(5),
        status: row.get(6),
        attempts: row.get(7),
        locked_by: row.get(8),
        lock_seconds: row.get(9),
        retry_in_seconds: row.get(10),
        error: row.get(11),
    }
}

/// The jobs on their way, of one chain or of all: the first 10,000 of them.
///
/// # Errors
/// The database does not answer.
pub async fn list(database: &Database, chain: Option<u64>) -> Result<Vec<JobReport>> {
    let client = database.client().await?;
    let chain = chain.map(number);
    let list = format!(
        "{REPORT} WHERE $1::bigint IS NULL OR chain_id = $1 \
         ORDER BY chain_id, projection, from_block LIMIT {LISTED_MAX}"
    );
    let rows = client.query(&list, &[&chain]).await.tried("list jobs")?;
    Ok(rows.iter().map(report).collect())
}

/// One job.
///
/// # Errors
/// The database does not answer.
pub async fn find(database: &Database, id: i64) -> Result<Option<JobReport>> {
    let client = database.client().await?;
    let find = format!("{REPORT} WHERE id = $1");
    let row = client.query_opt(&find, &[&id]).await;
    Ok(row.tried("find a job")?.as_ref().map(report))
}

/// Lets jobs that failed or were abandoned be tried again, at once and with all their attempts: one of
/// them, or all. Audited. Returns how many.
///
/// # Errors
/// The database does not answer.
pub async fn retry(database: &Database, id: Option<i64>, operator: &str) -> Result<u64> {
    const RETRY: &str = "UPDATE jobs SET status = 'pending', attempts = 0, retry_at = now(), \
        updated_at = now() WHERE status IN ('failed', 'dead') AND ($1::bigint IS NULL OR id = $1)";
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let retried = tx.execute(RETRY, &[&id]).await.tried("retry jobs")?;
    let detail = json!({ "job": id, "jobs": retried });
    audit(&tx, None, "jobs retry", operator, &detail).await?;
    tx.commit().await.tried("retry jobs")?;
    Ok(retried)
}

/// A range that was handed out and is neither projected nor on its way: it must not exist.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    pub chain_id: i64,
    pub projection: String,
    /// The first block.
    pub from_block: i64,
    /// The last block.
    pub to_block: i64,
}

/// Compares the cursors with what is projected and what is on its way.
///
/// # Errors
/// The database does not answer.
pub async fn audit_gaps(database: &Database, chain: Option<u64>) -> Result<Vec<Gap>> {
    const GAPS: &str = "\
        WITH known AS ( \
            SELECT chain_id, projection, from_block, to_block FROM projected_ranges \
            UNION ALL SELECT chain_id, projection, from_block, to_block FROM jobs \
            UNION ALL SELECT chain_id, projection, next_block, 9223372036854775806 FROM projections \
            UNION ALL SELECT chain_id, projection, -1, start_block - 1 FROM projections), \
        reached AS ( \
            SELECT *, max(to_block) OVER (PARTITION BY chain_id, projection \
                ORDER BY from_block, to_block ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
            FROM known) \
        SELECT chain_id, projection, before + 1, from_block - 1 FROM reached \
        WHERE before + 1 < from_block AND ($1::bigint IS NULL OR chain_id = $1) ORDER BY 1, 2, 3";
    let client = database.client().await?;
    let chain = chain.map(number);
    let rows = client.query(GAPS, &[&chain]).await.tried("look for gaps")?;
    let gap = |row: &Row| Gap {
        chain_id: row.get(0),
        projection: row.get(1),
        from_block: row.get(2),
        to_block: row.get(3),
    };
    Ok(rows.iter().map(gap).collect())
}

/// Makes jobs of a range, whether it was projected or not; a job that begins at the same block gets the
/// longer of the two ranges. Rows that are there stay as they are. Returns how many.
///
/// # Errors
/// The database does not answer, or there is no such projection.
pub async fn enqueue(
    database: &Database,
    of: (u64, &str),
    range: (u64, u64),
    blocks: u64,
) -> Result<u64> {
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let made = make(&tx, of, range, blocks).await?;
    tx.commit().await.tried("make jobs")?;
    Ok(made)
}

/// The same by order of an operator. Audited.
///
/// # Errors
/// As there, or the range is more jobs than may be requested at once.
pub async fn replay(
    database: &Database,
    of: (u64, &str),
    range: (u64, u64),
    blocks: u64,
    operator: &str,
) -> Result<u64> {
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let made = make(&tx, of, range, blocks).await?;
    let detail = json!({ "projection": of.1, "from": range.0, "to": range.1, "jobs": made });
    let chain = Some(number(of.0));
    audit(&tx, chain, "projection replay", operator, &detail).await?;
    tx.commit().await.tried("make jobs")?;
    Ok(made)
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

async fn make(
    tx: &Transaction<'_>,
    (chain, projection): (u64, &str),
    (from, to): (u64, u64),
    blocks: u64,
) -> Result<u64> {
    // Of a projection what is final and was handed out; a row more than may be shows that it is too much.
    const ENQUEUE: &str = "\
        INSERT INTO jobs AS j (chain_id, projection, from_block, to_block, next_block, status) \
        SELECT p.chain_id, p.projection, f, least(f + $5::bigint - 1, last), f, 'pending' \
        FROM projections p JOIN processing_state s USING (chain_id), \
            LATERAL (SELECT least($4::bigint, s.last_safe_block, p.next_block - 1) AS last) l, \
            LATERAL generate_series(greatest($3::bigint, p.start_block), last, $5::bigint) f \
        WHERE p.chain_id = $1 AND p.projection = $2 LIMIT $6 \
        ON CONFLICT (chain_id, projection, from_block) DO UPDATE SET \
            to_block = greatest(j.to_block, excluded.to_block), \
            next_block = CASE j.status WHEN 'processing' THEN j.next_block ELSE j.from_block END, \
            status = CASE j.status WHEN 'processing' THEN j.status ELSE 'pending' END, \
            attempts = CASE j.status WHEN 'processing' THEN j.attempts ELSE 0 END, retry_at = now()";
    // What is final must not be taken back meanwhile.
    const SAFE: &str = "SELECT 1 FROM processing_state WHERE chain_id = $1 FOR SHARE";
    let [chain, from, to, blocks] = [chain, from, to, blocks.max(1)].map(number);
    tx.execute(SAFE, &[&chain]).await.tried("make jobs")?;
    let most = JOBS_AT_ONCE_MAX + 1;
    let parameters: [&(dyn ToSql + Sync); 6] = [&chain, &projection, &from, &to, &blocks, &most];
    let made = tx.execute(ENQUEUE, &parameters).await.tried("make jobs")?;
    if made > JOBS_AT_ONCE_MAX as u64 {
        return Err(Error::Invalid(format!(
            "blocks {from} to {to} are more than {JOBS_AT_ONCE_MAX} jobs of {blocks} blocks: request a part of \
             them, or set more jobBlocks"
        )));
    }
    Ok(made)
}

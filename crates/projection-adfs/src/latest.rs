//! What follows when rows are confirmed: the newest value of each feed, and what is odd about them.

use chronolith_projection::{Result, Tried as _, once_committed};
use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use crate::rows::{EVENTS, FEEDS, NAME};

/// Counts events whose calldata says another block number.
pub(crate) const OTHER_NUMBER_METRIC: &str = "chronolith_adfs_block_number_mismatch_total";

/// Rows of pending blocks that are confirmed now. They are found by their events, which are few and have
/// an index by block.
const OF_BLOCKS: &str = "adfs_event_rows e JOIN feed_update_rows f ON f.chain_id = e.chain_id \
    AND f.tx_hash = e.tx_hash AND f.log_index = e.log_index AND f.block_hash = e.block_hash \
    AND f.block_timestamp = e.block_timestamp \
    WHERE e.chain_id = $1 AND e.block_number = ANY($2) AND e.block_hash = ANY($3)";
/// Rows that are just staged.
const STAGED: &str = "stage_feed_update_rows f WHERE f.chain_id = $1";

/// In the order of the key: two that do this at once lock rows in the same order.
fn upsert(from: &str) -> String {
    format!(
        "INSERT INTO feed_latest AS fl (chain_id, feed_id, stride, block_number, block_timestamp, \
            block_hash, tx_hash, log_index, rb_index, data, version, extra, position) \
         SELECT DISTINCT ON (f.feed_id, f.stride) f.chain_id, f.feed_id, f.stride, f.block_number, \
            f.block_timestamp, f.block_hash, f.tx_hash, f.log_index, f.rb_index, f.data, f.version, \
            f.extra, f.position FROM {from} \
         ORDER BY f.feed_id, f.stride, f.block_number DESC, f.log_index DESC, f.position DESC \
         ON CONFLICT (chain_id, feed_id, stride) DO UPDATE SET block_number = excluded.block_number, \
            block_timestamp = excluded.block_timestamp, block_hash = excluded.block_hash, \
            tx_hash = excluded.tx_hash, log_index = excluded.log_index, rb_index = excluded.rb_index, \
            data = excluded.data, version = excluded.version, extra = excluded.extra, \
            position = excluded.position \
         WHERE (fl.block_number, fl.log_index, fl.position) \
             < (excluded.block_number, excluded.log_index, excluded.position)"
    )
}

/// Takes confirmed rows into the newest values: those of blocks, or those that are staged.
pub(crate) async fn confirm(
    tx: &Transaction<'_>,
    chain: i64,
    blocks: Option<&[(i64, Vec<u8>)]>,
) -> Result<()> {
    let Some(blocks) = blocks else {
        if has_stage(tx, EVENTS.name).await? {
            let staged = "stage_adfs_event_rows e WHERE e.chain_id = $1";
            count_odd(tx, chain, (staged, &[&chain])).await?;
            if forgive(tx, chain).await? {
                renew_inputs(tx).await?;
            }
        }
        if has_stage(tx, FEEDS.name).await? {
            let done = tx.execute(&upsert(STAGED), &[&chain]).await;
            done.tried("move the newest values")?;
        }
        return Ok(());
    };
    let numbers: Vec<i64> = blocks.iter().map(|(number, _)| *number).collect();
    let hashes: Vec<&[u8]> = blocks.iter().map(|(_, hash)| hash.as_slice()).collect();
    let parameters: [&(dyn ToSql + Sync); 3] = [&chain, &numbers, &hashes];
    let events = "adfs_event_rows e WHERE e.chain_id = $1 AND e.block_number = ANY($2) \
        AND e.block_hash = ANY($3)";
    count_odd(tx, chain, (events, &parameters)).await?;
    count_steps(tx, chain, &parameters).await?;
    let done = tx.execute(&upsert(OF_BLOCKS), &parameters).await;
    done.tried("move the newest values").map(|_| ())
}

/// Takes back the newest values above a block: those before them are the newest again.
pub(crate) async fn take_back(tx: &Transaction<'_>, chain: i64, to: i64) -> Result<()> {
    const BACK: &str = "\
        WITH gone AS (DELETE FROM feed_latest WHERE chain_id = $1 AND block_number > $2 \
            RETURNING feed_id, stride) \
        SELECT feed_id, stride FROM gone";
    const BEFORE: &str = "\
        INSERT INTO feed_latest (chain_id, feed_id, stride, block_number, block_timestamp, \
            block_hash, tx_hash, log_index, rb_index, data, version, extra, position) \
        SELECT f.* FROM unnest($3::bytea[], $4::smallint[]) AS gone (feed_id, stride), \
        LATERAL (SELECT f.chain_id, f.feed_id, f.stride, f.block_number, f.block_timestamp, \
                f.block_hash, f.tx_hash, f.log_index, f.rb_index, f.data, f.version, f.extra, f.position \
            FROM feed_update_rows f WHERE f.chain_id = $1 AND f.feed_id = gone.feed_id \
            AND f.stride = gone.stride AND f.block_number <= $2 \
            AND NOT EXISTS (SELECT FROM dropped_blocks d \
                WHERE d.chain_id = f.chain_id AND d.block_hash = f.block_hash) \
            ORDER BY f.block_number DESC, f.log_index DESC, f.position DESC LIMIT 1) f";
    let gone = tx.query(BACK, &[&chain, &to]).await;
    let gone = gone.tried("take back the newest values")?;
    let feeds: Vec<Vec<u8>> = gone.iter().map(|row| row.get(0)).collect();
    let strides: Vec<i16> = gone.iter().map(|row| row.get(1)).collect();
    let done = tx.execute(BEFORE, &[&chain, &to, &feeds, &strides]).await;
    done.tried("take back the newest values").map(|_| ())
}

/// What was refused once and is projected now, under wider guards, is not refused any more.
/// Whether there was any.
async fn forgive(tx: &Transaction<'_>, chain: i64) -> Result<bool> {
    const FORGIVE: &str = "DELETE FROM quarantine q USING stage_adfs_event_rows e \
        WHERE q.chain_id = $1 AND q.projection = $2 AND q.tx_hash = e.tx_hash \
        AND q.log_index = e.log_index AND q.block_hash = e.block_hash";
    let done = tx.execute(FORGIVE, &[&chain, &NAME]).await;
    Ok(done.tried("take back what was refused")? > 0)
}

/// A transaction of which a part was refused before has more decoded inputs now.
async fn renew_inputs(tx: &Transaction<'_>) -> Result<()> {
    const RENEW: &str = "UPDATE tx_input_rows r SET decoded = s.decoded FROM stage_tx_input_rows s \
        WHERE r.chain_id = s.chain_id AND r.tx_hash = s.tx_hash AND r.block_hash = s.block_hash \
        AND r.block_timestamp = s.block_timestamp AND r.decoded IS DISTINCT FROM s.decoded";
    let done = tx.execute(RENEW, &[]).await;
    done.tried("renew decoded inputs").map(|_| ())
}

/// A stage is there once a row of its table was staged on this connection.
async fn has_stage(tx: &Transaction<'_>, table: &str) -> Result<bool> {
    let stage = format!("pg_temp.stage_{table}");
    const EXISTS: &str = "SELECT to_regclass($1) IS NOT NULL";
    let there = tx.query_one(EXISTS, &[&stage]).await;
    Ok(there.tried("look for a stage")?.get(0))
}

/// Counts events whose calldata says another block number, and those that put a value elsewhere than the
/// table says.
async fn count_odd(
    tx: &Transaction<'_>,
    chain: i64,
    (from, parameters): (&str, &[&(dyn ToSql + Sync)]),
) -> Result<()> {
    let odd = format!(
        "SELECT count(*) FILTER (WHERE jsonb_exists(sub.extra, 'eventBlockNumber')), \
            coalesce(sum(jsonb_array_length(sub.extra -> 'disagreements')), 0)::bigint \
         FROM (SELECT e.extra FROM {from}) sub"
    );
    let row = tx.query_one(&odd, parameters).await;
    let row = row.tried("look for odd events")?;
    count(OTHER_NUMBER_METRIC, chain, row.get(0));
    count("chronolith_adfs_lane_mismatch_total", chain, row.get(1));
    Ok(())
}

/// Counts where the ring of a feed does not continue by one. It is known only where everything before is
/// projected; the view `feed_ring_gaps` says it of the whole history.
async fn count_steps(
    tx: &Transaction<'_>,
    chain: i64,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<()> {
    let steps = format!(
        "SELECT count(*) FILTER (WHERE rb_index <> (before + 1) % 8192), \
            count(*) FILTER (WHERE before = 8191 AND rb_index = 0) \
         FROM (SELECT n.rb_index, lag(n.rb_index, 1, l.rb_index) OVER ( \
                PARTITION BY n.feed_id, n.stride ORDER BY n.block_number, n.log_index, n.position) AS before \
            FROM (SELECT f.feed_id, f.stride, f.block_number, f.log_index, f.position, f.rb_index \
                FROM {OF_BLOCKS}) n \
            LEFT JOIN feed_latest l ON l.chain_id = $1 AND l.feed_id = n.feed_id AND l.stride = n.stride \
                AND l.block_number < n.block_number) steps \
         WHERE EXISTS (SELECT FROM complete_through c JOIN processing_state s USING (chain_id) \
            WHERE c.chain_id = $1 AND c.projection = '{NAME}' \
            AND c.complete_through >= s.last_safe_block)"
    );
    let row = tx.query_one(&steps, parameters).await;
    let row = row.tried("look for gaps in rings")?;
    count("chronolith_adfs_ring_gaps_total", chain, row.get(0));
    count("chronolith_adfs_ring_wraps_total", chain, row.get(1));
    Ok(())
}

fn count(name: &'static str, chain: i64, found: i64) {
    if found > 0 {
        let counter = metrics::counter!(name, "chain" => chain.to_string());
        once_committed(counter, found as u64);
    }
}

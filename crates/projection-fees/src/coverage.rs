//! How far the events of each chain are there, so that an answer can say what it is whole of.

use chronolith_projection::{Result, Tried as _, chain_id};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

/// How far the events of a chain are there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeeCoverage {
    pub chain: u64,
    /// The first block whose events count.
    pub from_block: u64,
    /// The last block through which every event is there, from the first on without a gap; none
    /// where not even the first block is.
    pub through_block: Option<u64>,
    /// The last block that is final.
    pub safe_block: Option<u64>,
    /// The newest block that was seen.
    pub seen_block: Option<u64>,
    /// Logs that look like an event and could not be read as one.
    pub quarantined: u64,
    /// Why nothing is projected until an operator acts.
    pub paused: Option<String>,
}

const COVERAGE: &str = "\
    SELECT p.chain_id, p.start_block, r.to_block, s.last_safe_block, s.last_seen_block, \
        (SELECT count(*) FROM quarantine q \
            WHERE q.chain_id = p.chain_id AND q.projection = p.projection \
            AND NOT EXISTS (SELECT FROM dropped_blocks d \
                WHERE d.chain_id = q.chain_id AND d.block_hash = q.block_hash)), \
        CASE WHEN p.paused_at IS NOT NULL THEN coalesce(p.paused_reason, 'unknown') END \
    FROM projections p JOIN processing_state s ON s.chain_id = p.chain_id \
    LEFT JOIN projected_ranges r ON r.chain_id = p.chain_id AND r.projection = p.projection \
        AND r.from_block <= p.start_block AND r.to_block >= p.start_block \
    WHERE p.projection = 'fees' AND ($1::bigint IS NULL OR p.chain_id = $1) ORDER BY p.chain_id";

/// The coverage of one chain or of all, by their ids. A chain without a projection of fees is not
/// among them.
pub(crate) async fn read(tx: &Transaction<'_>, chain: Option<u64>) -> Result<Vec<FeeCoverage>> {
    let chain = chain.map(chain_id).transpose()?;
    let rows = tx.query(COVERAGE, &[&chain]).await;
    Ok(rows
        .tried("read coverage")?
        .iter()
        .map(coverage_of)
        .collect())
}

fn coverage_of(row: &Row) -> FeeCoverage {
    // Where there is no block yet, the number is -1.
    let number = |at: usize| row.get::<_, Option<i64>>(at);
    let block = |at: usize| number(at).and_then(|number| number.try_into().ok());
    FeeCoverage {
        chain: block(0).unwrap_or(0),
        from_block: block(1).unwrap_or(0),
        through_block: block(2),
        safe_block: block(3),
        seen_block: block(4),
        quarantined: block(5).unwrap_or(0),
        paused: row.get(6),
    }
}

//! Whether a final block was replaced, as far as endpoints report.

use chronolith_archive::Provenance;
use chronolith_model::BlockRange;

use crate::chain::Chain;
use crate::clock::now;
use crate::error::FollowError;

/// Requests the block at the archive's head from every endpoint, after one contradicted it.
///
/// Where one of them still has it, it stays, and endpoints that have another one are reported. Where all
/// have another one, or most of them and at least two, offering it halts the archive, durably and with
/// both blocks named: the one that still has it may be stuck. Only an operator can end a halt, so the word of
/// one endpoint is not enough for it, unless there is only one.
///
/// # Errors
/// The halt, or that it is not decided yet.
pub(crate) async fn head(chain: &Chain, contradicted_by: &str) -> Result<(), FollowError> {
    let Some(head) = chain.archive.health().head else {
        return Ok(());
    };
    let number = head.number;
    let opinions = chain.source.block_at_each_endpoint(number).await;
    let others: Vec<_> = opinions.iter().filter(|one| one.block != head).collect();
    let outvoted = others.len() >= 2 && others.len() * 2 > opinions.len();
    if others.len() < opinions.len() && !outvoted {
        for other in others {
            let what = "a final block that others confirm is another one here";
            chain.source.report_bad(&other.endpoint, other.block, what);
        }
        return Ok(());
    }
    let second = others.iter().find(|one| &*one.endpoint != contradicted_by);
    let alone = chain.source.endpoints().len() == 1;
    let Some(other) = second.or(others.first().filter(|_| alone)) else {
        return Err(FollowError::Disagreement(format!(
            "block {number} is final here, but {contradicted_by} reports another chain: waiting for a second endpoint to say which is right"
        )));
    };
    let replaced = chain
        .source
        .fetch(BlockRange::one(number), &chain.want, Some(other.block))
        .await?;
    for one in replaced {
        let provenance = Provenance {
            proof: one.proof,
            source: one.endpoint.to_string(),
            now: now(),
        };
        let offered = chain.archive.ingest_finalized_block(one.block, &provenance);
        offered.await?;
    }
    Ok(())
}

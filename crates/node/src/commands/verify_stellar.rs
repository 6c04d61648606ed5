//! What `verify` computes again of Stellar ledgers, from what is archived of them alone.

use chronolith_archive::{Archive, Difference, Error as ArchiveError, Result as ArchiveResult};
use chronolith_model::{Block, Dataset};
use chronolith_stellar::{prove_kept, without_proofs};

use super::verify::Recomputed;
use crate::settings::ChainSettings;

/// What is wrong with an archived ledger, by its own bytes: a hash in it does not fit, or what is kept beside it
/// is not what it says. Nothing is found where too little is kept to compute anything.
pub(super) async fn recomputed(
    archive: &Archive,
    chain: &ChainSettings,
    block: &Block,
) -> ArchiveResult<Recomputed> {
    let needed = [Dataset::Headers, Dataset::Transactions, Dataset::Logs];
    let is_kept = needed.iter().all(|one| chain.datasets.contains(*one));
    let Some(stellar) = chain.stellar.as_ref().filter(|_| is_kept) else {
        return Ok(Recomputed::Nothing);
    };
    let number = block.clock.number;
    let skeleton = archive.header(number).await?;
    let payload = archive.payload(number, Dataset::Transactions).await?;
    let network = stellar.network.clone();
    let bodies = payload.bodies.unwrap_or_default();
    let proven = tokio::task::spawn_blocking(move || prove_kept(&skeleton, &bodies, &network));
    let proven = proven.await.map_err(|error| {
        ArchiveError::Internal(format!("ledger {number} was not computed again: {error}"))
    })?;
    let wrong = match proven {
        Err(fault) => Some(fault.to_string()),
        Ok(proven) if proven.clock != block.clock => {
            Some("number, hash, parent or time are not those of its bytes".to_owned())
        }
        Ok(proven) if chain.datasets.contains(Dataset::TxHashes) && proven.txs != block.txs => {
            Some("transaction hashes are not those of its bytes".to_owned())
        }
        Ok(proven) if !same_logs(&proven, block) => {
            Some("logs are not those of its bytes".to_owned())
        }
        Ok(_) => None,
    };
    Ok(wrong.map_or(Recomputed::Right, Recomputed::Wrong))
}

/// Whether the archived logs are these. Those that were archived before events were checked say nothing of it.
fn same_logs(proven: &Block, archived: &Block) -> bool {
    proven.logs == archived.logs
        || without_proofs(&proven.logs).is_ok_and(|logs| logs == archived.logs)
}

/// Where a ledger of the source differs from the archived one. That logs were archived before events were
/// checked, and say nothing of it, is no difference.
pub(super) async fn difference(
    archive: &Archive,
    chain: &ChainSettings,
    theirs: &Block,
) -> ArchiveResult<Option<Difference>> {
    let found = archive
        .difference(theirs, chain.datasets, &chain.scope)
        .await?;
    if found != Some(Difference::Logs) || chain.stellar.is_none() {
        return Ok(found);
    }
    let Ok(logs) = without_proofs(&theirs.logs) else {
        return Ok(found);
    };
    let unmarked = Block {
        logs,
        ..theirs.clone()
    };
    archive
        .difference(&unmarked, chain.datasets, &chain.scope)
        .await
}

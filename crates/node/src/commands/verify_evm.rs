//! What `verify` computes again of blocks of EVM chains, from what is archived of them alone: header hash,
//! transaction hashes, transactions root and logs bloom. Receipts are not archived, so their root is not.

use alloy_primitives::B256;
use chronolith_archive::{Archive, Result as ArchiveResult};
use chronolith_evm::{Body, kept_header};
use chronolith_model::{Block, Dataset, Log, Proof, Scope, Tx, Verification};

use super::verify::Recomputed;
use crate::settings::ChainSettings;

/// What is wrong with an archived block, by its own bytes. Nothing is computed where nothing was proven, or
/// too little is kept.
pub(super) async fn recomputed(
    archive: &Archive,
    chain: &ChainSettings,
    block: &Block,
    proof: Proof,
) -> ArchiveResult<Recomputed> {
    let keeps = |dataset| chain.datasets.contains(dataset);
    if chain.datasets.bodies_by_logs()
        && proof.txs() >= Verification::Roots
        && let Some(what) = wrong_body(archive, block).await?
    {
        return Ok(Recomputed::Wrong(what));
    }
    let hashed = proof.of(Dataset::Headers) >= Verification::Linked;
    if !keeps(Dataset::Headers) || !hashed {
        return Ok(Recomputed::Nothing);
    }
    let number = block.clock.number;
    let stored = archive.header(number).await?;
    let txs = all_txs(archive, chain, block).await?;
    let hashes = txs.as_ref().map(|txs| {
        let hashes = txs.iter().map(|tx| B256::new(tx.hash.0));
        hashes.collect::<Vec<_>>()
    });
    let header = match kept_header(&stored, &block.clock.hash.0, hashes.as_deref()) {
        Ok(Some(header)) => header,
        // No root is under such a hash, and without the transactions it is not computed.
        Ok(None) if hashes.is_some() => return Ok(Recomputed::Right),
        Ok(None) => return Ok(Recomputed::Nothing),
        Err(what) => return Ok(Recomputed::Wrong(what)),
    };
    let all_logs = keeps(Dataset::Logs) && chain.scope == Scope::All;
    if all_logs && proof.logs() >= Verification::Bloom {
        let parts = |log: &Log| {
            (
                log.emitter().to_vec(),
                log.topics().map(<[u8]>::to_vec).collect(),
            )
        };
        let logs: Vec<(Vec<u8>, Vec<Vec<u8>>)> = block.logs.iter().map(parts).collect();
        let logs = logs.iter().map(|(emitter, topics)| {
            let topics = topics.iter().map(Vec::as_slice).collect();
            (emitter.as_slice(), topics)
        });
        if let Err(what) = header.check_bloom(logs) {
            return Ok(Recomputed::Wrong(what));
        }
    }
    let Some(txs) = txs.filter(|_| keeps(Dataset::Transactions)) else {
        return Ok(Recomputed::Right);
    };
    if proof.txs() < Verification::Roots {
        return Ok(Recomputed::Right);
    }
    let bodies = archive.payload(number, Dataset::Transactions).await?.bodies;
    let bodies = bodies.unwrap_or_default();
    if txs.len() != bodies.len() {
        let (txs, bodies) = (txs.len(), bodies.len());
        let what = format!("{txs} transactions, {bodies} bodies");
        return Ok(Recomputed::Wrong(what));
    }
    let both = txs
        .iter()
        .zip(&bodies)
        .map(|(tx, body)| (&tx.hash.0, &body[..]));
    match header.check_transactions(both) {
        Ok(()) => Ok(Recomputed::Right),
        Err(what) => Ok(Recomputed::Wrong(what)),
    }
}

/// All transactions of a block, each under its own hash alone; none where not all are kept.
async fn all_txs(
    archive: &Archive,
    chain: &ChainSettings,
    block: &Block,
) -> ArchiveResult<Option<Vec<Tx>>> {
    if !chain.datasets.contains(Dataset::TxHashes) {
        return Ok(None);
    }
    // A block is read without them where it is read without logs.
    let mut txs = match archive.pin() {
        Some(pinned) if !chain.datasets.contains(Dataset::Logs) => {
            pinned.transactions(block.clock.number).await?
        }
        _ => block.txs.clone(),
    };
    txs.retain(|tx| !tx.is_alias() && !tx.is_block(&block.clock));
    Ok(Some(txs))
}

/// The first transaction that does not hash to what it is called, where only those that logs name are
/// kept: their root cannot be computed again.
async fn wrong_body(archive: &Archive, block: &Block) -> ArchiveResult<Option<String>> {
    let Some(archive) = archive.pin() else {
        return Ok(None);
    };
    let number = block.clock.number;
    // Logs of no transaction are listed under the block's own hash.
    for tx in block.txs.iter().filter(|tx| tx.hash != block.clock.hash) {
        let stored = archive.body_at(number, tx.index).await?;
        let is_right = match Body::parse(&stored) {
            // Nothing proves it, and no row says that something does.
            Ok(Body::Json(_)) => true,
            Ok(body) => body.hash().is_some_and(|hash| hash.0 == tx.hash.0),
            Err(_) => false,
        };
        if !is_right {
            return Ok(Some(format!(
                "transaction {} does not hash to {}",
                tx.index, tx.hash
            )));
        }
    }
    Ok(None)
}

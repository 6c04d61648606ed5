//! What `verify` computes again of blocks of EVM chains, from what is archived of them alone: header hash,
//! transaction hashes, transactions root and logs bloom. Receipts are not archived, so their root is not.

use chronolith_archive::{Archive, Result as ArchiveResult};
use chronolith_evm::{Body, kept_header};
use chronolith_model::{Block, Dataset, Log, Proof, Scope, Verification};

use crate::settings::ChainSettings;

/// What is wrong with an archived block, by its own bytes. Nothing is found where nothing was proven, or
/// too little is kept to compute anything.
pub(super) async fn recomputed(
    archive: &Archive,
    chain: &ChainSettings,
    block: &Block,
    proof: Proof,
) -> ArchiveResult<Option<String>> {
    let keeps = |dataset| chain.datasets.contains(dataset);
    if chain.datasets.bodies_by_logs() && proof.txs() >= Verification::Roots {
        let wrong = wrong_body(archive, block).await?;
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    let hashed = proof.of(Dataset::Headers) >= Verification::Linked;
    if chain.stellar.is_some() || !keeps(Dataset::Headers) || !hashed {
        return Ok(None);
    }
    let number = block.clock.number;
    let stored = archive.header(number).await?;
    let header = match kept_header(&stored, &block.clock.hash.0) {
        Ok(Some(header)) => header,
        Ok(None) => return Ok(None),
        Err(what) => return Ok(Some(what)),
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
            return Ok(Some(what));
        }
    }
    let all_bodies = keeps(Dataset::Transactions) && keeps(Dataset::TxHashes);
    if !all_bodies || proof.txs() < Verification::Roots {
        return Ok(None);
    }
    let bodies = archive.payload(number, Dataset::Transactions).await?.bodies;
    let bodies = bodies.unwrap_or_default();
    let txs = block.txs.iter();
    let txs: Vec<_> = txs
        .filter(|tx| !tx.is_alias() && !tx.is_block(&block.clock))
        .collect();
    if txs.len() != bodies.len() {
        return Ok(Some(format!(
            "{} transactions, {} bodies",
            txs.len(),
            bodies.len()
        )));
    }
    let both = txs
        .iter()
        .zip(&bodies)
        .map(|(tx, body)| (&tx.hash.0, &body[..]));
    Ok(header.check_transactions(both).err())
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

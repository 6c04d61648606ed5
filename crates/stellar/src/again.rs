//! Archived ledgers proven again: from what is kept of them, without any source.

use bytes::Bytes;
use chronolith_model::{Block, Log, LogParts};

use crate::events::unproven;
use crate::fault::Fault;
use crate::ledger::Ledger;
use crate::network::Network;
use crate::prove::prove;
use crate::skeleton::join;

/// The block of a ledger whose skeleton and bodies were kept, with every hash in it computed again.
///
/// # Errors
/// As [`prove`], and `Parts` where skeleton and bodies are not of one ledger.
pub fn prove_kept(skeleton: &[u8], bodies: &[Bytes], network: &Network) -> Result<Block, Fault> {
    let ledger = Ledger::walk(join(skeleton, bodies)?)?;
    prove(ledger, network)?.block()
}

/// The same logs without a word about what was proven of them, as versions wrote them that did not check
/// events.
///
/// # Errors
/// `Parts` where a log is not an event.
pub fn without_proofs(logs: &[Log]) -> Result<Vec<Log>, Fault> {
    let unmarked = |log: &Log| {
        let topics: Vec<&[u8]> = log.topics().collect();
        let suffix = unproven(log)?;
        let parts = LogParts {
            tx_index: log.tx_index(),
            log_index: log.log_index(),
            kind: log.kind(),
            emitter: log.emitter(),
            topics: &topics,
            data: log.data(),
            suffix: &suffix,
        };
        Log::new(&parts).map_err(|_| Fault::Parts("an event too large for a log"))
    };
    logs.iter().map(unmarked).collect()
}

//! Whether a block that came without logs has none.
//!
//! An endpoint may be many nodes. One that does not have a block yet answers for its number with
//! nothing, while another serves the header; a request by the hash of the block fails there. Below
//! an anchor all nodes have had the block for long, and nothing is requested, unless the bloom of the
//! hashed header allows a log and the endpoint cannot show receipts.

use std::collections::HashMap;

use chronolith_model::{Dataset, Verification};

use super::fetch::{Fetcher, GET_LOGS, GET_RECEIPTS, scope_params};
use super::reader::INVALID_PARAMS;
use super::wire::{WireBlock, WireLog};
use crate::error::Result;
use crate::jsonrpc::call::Call;
use crate::jsonrpc::reply::{Answer, RpcFault};
use crate::meters;

/// What an endpoint that does not take the hash of a block is noted to lack.
const BLOCK_HASHES: &str = "eth_getLogs by block hash";
/// Bytes of one request: a scope may be long, and is repeated in every call.
const REQUEST_BYTES_MAX: usize = 512 << 10;

impl Fetcher<'_> {
    /// Whether it is open that a block of which no log came has none.
    pub(super) fn is_doubtful(&self, block: &WireBlock) -> bool {
        let is_open = if self.is_suspicious(block) {
            !self.endpoint.has(GET_RECEIPTS)
        } else {
            self.anchor.is_none() && !self.verifier.settles(block, &self.want.scope)
        };
        is_open
            && self.want.datasets.contains(Dataset::Logs)
            // Every log is of a transaction.
            && !block.tx_hashes.is_empty()
            && self.endpoint.has(BLOCK_HASHES)
    }

    /// Whether a block that its bloom does not clear is taken as empty from an endpoint that has no
    /// receipts: another endpoint says so too and this one confirmed it by the block's hash, or the
    /// settings require links only.
    pub(super) fn takes_as_empty(
        &self,
        block: &WireBlock,
        confirmed: &HashMap<u64, Vec<WireLog>>,
    ) -> bool {
        let name = &self.endpoint.name;
        self.claims.note(block.hash, name);
        let by_hash = confirmed.contains_key(&block.number());
        if by_hash && self.claims.by_another(block.hash, name) {
            return true;
        }
        if self.want.proof.logs() != Verification::Linked {
            return false;
        }
        meters::unproven(self.endpoint.chain_id).increment(1);
        tracing::debug!(endpoint = %name, block = block.number(), "block taken as empty without proof");
        true
    }

    /// The logs of blocks by their hashes, under their numbers. Without an entry a block is as it
    /// was: the endpoint takes no hashes.
    ///
    /// # Errors
    /// `Unavailable` where the endpoint does not know one of them.
    pub(super) async fn by_hash(
        &self,
        blocks: &[&WireBlock],
    ) -> Result<HashMap<u64, Vec<WireLog>>> {
        let scope = scope_params(&self.want.scope);
        let call = |block: &&WireBlock| {
            let params = format!(r#"[{{"blockHash":"{}"{scope}}}]"#, block.hash);
            Call::new(GET_LOGS, params)
        };
        let together = (REQUEST_BYTES_MAX / (scope.len() + 100)).max(1);
        let mut found = HashMap::with_capacity(blocks.len());
        for some in blocks.chunks(together) {
            let calls: Vec<Call> = some.iter().map(call).collect();
            let answers: Vec<Answer<Vec<WireLog>>> = self.request(&calls).await?;
            let mut refused = answers
                .iter()
                .map(|one| one.as_ref().is_err_and(takes_no_hashes));
            if refused.all(|refused| refused) {
                if self.endpoint.is_missing(BLOCK_HASHES) {
                    tracing::warn!(
                        endpoint = %self.endpoint.name,
                        "logs by block hash are refused: blocks without logs are taken unconfirmed"
                    );
                }
                break;
            }
            for (block, answer) in some.iter().zip(answers) {
                let number = block.number();
                found.insert(number, self.required(number, GET_LOGS, answer)?);
            }
        }
        Ok(found)
    }
}

/// Some call a block that they do not have an invalid parameter: that is not a refusal of hashes.
fn takes_no_hashes(fault: &RpcFault) -> bool {
    let text = fault.message.to_lowercase();
    let unknown = ["unknown block", "not found", "block not available"];
    fault.code == INVALID_PARAMS && !unknown.iter().any(|part| text.contains(part))
}

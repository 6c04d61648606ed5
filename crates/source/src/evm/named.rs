//! Whole transactions of the blocks with logs that are kept, where no others are wanted.
//!
//! Headers and logs come first. A block is fetched whole only where one of its logs is kept: its
//! transactions root is over all of its transactions, so fewer would prove nothing. What is kept of it
//! is the bodies that the logs name.

use bytes::Bytes;
use chronolith_model::{Proof, Tx};

use super::fetch::{Fetcher, GET_BLOCK, block_call, meta_of};
use super::wire::{WholeBlock, WireBlock, hex};
use crate::error::Result;
use crate::jsonrpc::call::Call;

impl Fetcher<'_> {
    /// Replaces headers by whole blocks where logs are kept and only their transactions are wanted.
    ///
    /// # Errors
    /// `Unavailable` where a block was replaced by another one meanwhile.
    pub(super) async fn make_whole(
        &self,
        blocks: &mut [WireBlock],
        has_logs: impl Fn(&WireBlock) -> bool,
    ) -> Result<()> {
        if !self.want.datasets.bodies_by_logs() {
            return Ok(());
        }
        let mut due: Vec<&mut WireBlock> = blocks.iter_mut().filter(|one| has_logs(one)).collect();
        let calls = due
            .iter()
            .map(|block| block_call(&hex(block.number()), true));
        let calls: Vec<Call> = calls.collect();
        let answers = self.request::<WholeBlock<true>>(&calls).await?;
        for (block, answer) in due.iter_mut().zip(answers) {
            let number = block.number();
            let whole: WireBlock = self.required(number, GET_BLOCK, answer)?.into();
            if (whole.number(), whole.hash) != (number, block.hash) {
                return Err(self.moved(number));
            }
            **block = whole;
        }
        Ok(())
    }

    /// The bodies that go with the listed transactions: all, or those that logs name.
    pub(super) fn bodies(&self, wire: &WireBlock, listed: &[Tx]) -> Option<Vec<Bytes>> {
        if !self.want.datasets.bodies_by_logs() {
            return wire.kept_bodies();
        }
        if listed.is_empty() {
            return Some(Vec::new());
        }
        let all = wire.kept_bodies()?;
        let meta = meta_of(wire);
        // Celo lists the block for its own logs: it has no body.
        let own = listed.iter().filter(|tx| !tx.is_block(&meta));
        own.map(|tx| all.get(tx.index as usize).cloned()).collect()
    }

    /// What is proven of what is kept. Where only transactions of kept logs are, and there are none,
    /// none is unproven.
    pub(super) fn proof_of_kept(&self, proof: Proof, listed: &[Tx]) -> Proof {
        let none = self.want.datasets.bodies_by_logs() && listed.is_empty();
        if none && self.verifier.proves_transactions() {
            proof.with_transactions()
        } else {
            proof
        }
    }
}

//! Which endpoint a range of blocks comes from.

use std::sync::Arc;

use chronolith_model::{BlockRange, BlockRef, Scope, Verification};

use super::claims::Claims;
use super::fetch::GET_RECEIPTS;
use super::source::{ATTEMPTS, EvmSource, Strategy};
use super::strength::{needs_receipts, weaker};
use crate::error::{Error, Result};
use crate::jsonrpc::pool::PassedOver;
use crate::source::{Fetched, Want};

impl EvmSource {
    /// The first blocks of a range, from the first endpoint that serves and proves them.
    pub(super) async fn first_of(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        let endpoints = self.pool.endpoints();
        let without = |avoid: &[Arc<str>]| {
            let mut passed_over = weaker(&self.settings, endpoints, want);
            passed_over.retain(|name| !avoid.contains(name));
            passed_over.extend_from_slice(avoid);
            passed_over
        };
        // Another request to these would change nothing.
        let mut unfit: Vec<Arc<str>> = Vec::new();
        let mut avoid: Vec<Arc<str>> = Vec::new();
        let mut attempts = 0;
        let claims = Claims::default();
        loop {
            if without(&avoid).len() == endpoints.len() {
                avoid.clone_from(&unfit);
            }
            let passed = PassedOver {
                failed: &avoid,
                unfit: &without(&unfit),
            };
            let endpoint = self.pool.endpoint(&passed).await?;
            let claimed = claims.count();
            // An endpoint may count as one with receipts again while its answer is on the way.
            let strategy = self.strategy(&endpoint, want);
            let answer = async {
                self.admit(&endpoint, anchor).await?;
                let fetcher = self.fetcher(&endpoint, want, anchor, &claims);
                let fetched = self.prefix(&fetcher, range, strategy).await?;
                check_level(&fetched, want)?;
                Ok((fetched, fetcher.verifier.has_excused()))
            };
            let error = match answer.await {
                Ok((fetched, excused)) => {
                    self.note_proof(strategy, want, &fetched);
                    return Ok(if excused {
                        self.proven_elsewhere(fetched, want, anchor).await
                    } else {
                        fetched
                    });
                }
                Err(error) => error,
            };
            self.note(&endpoint, &error);
            let is_unfit = match &error {
                // Without receipts there is another way to request them; without anything else there is none.
                Error::NoMethod { method, .. } if *method == GET_RECEIPTS => None,
                Error::NoMethod { .. } | Error::Invalid(_) => Some(true),
                // A second request may confirm what another endpoint says.
                Error::Unproven { .. } => Some(claims.count() == claimed),
                _ => Some(false),
            };
            if let Some(is_unfit) = is_unfit {
                avoid.push(endpoint.name.clone());
                unfit.extend(is_unfit.then(|| endpoint.name.clone()));
            }
            attempts += 1;
            if attempts >= ATTEMPTS || without(&unfit).len() == endpoints.len() {
                return Err(Error::Exhausted(Box::new(error)));
            }
        }
    }

    /// Reports where blocks are proven less far than the chain allows.
    fn note_proof(&self, strategy: Strategy, want: &Want, fetched: &[Fetched]) {
        if want.scope != Scope::All || !needs_receipts(&self.settings, want) {
            return;
        }
        // Where a node leaves a block's own receipt out, the blocks came by their logs all the same.
        let below = |one: &Fetched| one.proof.logs() < Verification::Receipts;
        let by_logs = self.verifier.may_lack_block_receipts() && fetched.iter().any(below);
        match strategy {
            Strategy::Receipts if !by_logs => self.downgrades.end(),
            Strategy::Receipts | Strategy::Logs => self.downgrades.note(fetched),
        }
    }
}

/// Whether every block is proven as far as is wanted.
pub(super) fn check_level(fetched: &[Fetched], want: &Want) -> Result<()> {
    let Some(weak) = fetched.iter().find(|one| !one.proof.covers(want.proof)) else {
        return Ok(());
    };
    let number = weak.block.clock.number;
    Err(Error::Invalid(format!(
        "block {number} cannot be proven as far as is wanted (proven={:?}, wanted={:?})",
        weak.proof, want.proof
    )))
}

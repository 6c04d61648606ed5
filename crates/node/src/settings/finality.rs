//! How blocks become final, as the file says it.

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_follower::settings::{Finality, L1Settings};
use chronolith_source::KnownChain;

use super::ChainSettings;
use super::endpoints::endpoints;
use super::raw::{RawFinality, RawFinalityMode};

/// The rule of the file, or the one that the chain is known for.
pub(super) fn rule(raw: Option<&RawFinality>, known: Option<&KnownChain>) -> Result<Finality> {
    let default_depth = known.map_or(64, |known| known.confirmations);
    let Some(raw) = raw else {
        let tag = known.is_some_and(|known| known.finalized_tag);
        return Ok(if tag {
            Finality::Finalized
        } else {
            Finality::Depth(default_depth)
        });
    };
    Ok(match raw.mode.unwrap_or(RawFinalityMode::Depth) {
        RawFinalityMode::L1Confirmations | RawFinalityMode::Depth => {
            Finality::Depth(raw.confirmations.unwrap_or(default_depth))
        }
        RawFinalityMode::Finalized | RawFinalityMode::Source => Finality::Finalized,
        RawFinalityMode::Safe => Finality::Safe,
        RawFinalityMode::DualSource => Finality::Dual {
            l2_depth: raw
                .l2_depth
                .context("l2Depth is needed in mode dual_source")?,
            l1_confirmations: raw
                .confirmations
                .context("l1Confirmations is needed in mode dual_source")?,
            max_l1_delay_seconds: raw.max_l1_delay_seconds.unwrap_or(180),
        },
    })
}

/// The L1, where the rule needs it and it is another chain.
pub(super) fn l1(
    raw: Option<&RawFinality>,
    chain_id: u64,
    known: Option<&KnownChain>,
) -> Result<Option<L1Settings>> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    if raw.mode != Some(RawFinalityMode::DualSource) {
        let given = raw.l1_chain_id.is_some() || !raw.l1_rpc_http.is_empty();
        ensure!(
            !given,
            "l1ChainId and l1RpcHttp are for mode dual_source only"
        );
        return Ok(None);
    }
    let id = match (raw.l1_chain_id, known) {
        (Some(id), _) => id,
        (None, Some(known)) => known.l1.unwrap_or(chain_id),
        (None, None) => bail!(
            "dual_source: which chain this one settles on is not known: give l1ChainId, its own chainId where it settles on no other"
        ),
    };
    if id == chain_id {
        return Ok(None);
    }
    Ok(Some(L1Settings {
        chain_id: id,
        endpoints: endpoints("l1RpcHttp", &raw.l1_rpc_http)?,
    }))
}

/// Finds the source of the L1 head for each chain that needs it: the L1 chain itself where it is followed too,
/// else endpoints of its own.
pub(super) fn settle(chains: &mut [ChainSettings]) -> Result<()> {
    let followed: Vec<u64> = chains.iter().map(|chain| chain.chain_id).collect();
    for (at, chain) in chains.iter_mut().enumerate() {
        let Some(l1) = &mut chain.l1 else { continue };
        if followed.contains(&l1.chain_id) {
            l1.endpoints.clear();
        } else if l1.endpoints.is_empty() {
            let id = l1.chain_id;
            bail!(
                "chains[{at}]: finality: dual_source needs the head of its L1: add chain {id} to chains, or its URLs as finality.l1RpcHttp"
            );
        }
    }
    Ok(())
}

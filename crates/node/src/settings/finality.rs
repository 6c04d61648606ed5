//! How blocks become final: the rule, the tags that it needs, and the chain below.

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_finality::Rule;
use chronolith_source::evm::Tags;
use chronolith_source::{EndpointSettings, KnownChain};

use super::ChainSettings;
use super::raw::RawFinality;

/// How blocks become final, and which tag says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finality {
    Depth(u64),
    Finalized,
    Safe,
    Dual {
        l2_depth: u64,
        l1_confirmations: u64,
        max_l1_delay_seconds: u64,
    },
}

impl std::fmt::Display for Finality {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth(confirmations) => write!(f, "{confirmations} confirmations"),
            Self::Finalized => f.write_str("the source's finalized block"),
            Self::Safe => f.write_str("the source's safe block"),
            Self::Dual {
                l2_depth,
                l1_confirmations,
                ..
            } => write!(f, "{l2_depth} deep, and {l1_confirmations} blocks in L1"),
        }
    }
}

impl Finality {
    /// The tags that the rule needs: each is one more call at every look at the head.
    pub(crate) fn tags(self) -> Tags {
        Tags {
            finalized: matches!(self, Self::Finalized | Self::Dual { .. }),
            safe: matches!(self, Self::Safe | Self::Dual { .. }),
        }
    }

    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Depth(confirmations) => Rule::Depth { confirmations },
            Self::Finalized | Self::Safe => Rule::Tag,
            Self::Dual {
                l2_depth,
                l1_confirmations,
                max_l1_delay_seconds,
            } => Rule::DualSource {
                l2_depth,
                l1_confirmations,
                max_l1_delay_seconds,
            },
        }
    }
}

/// The chain that an L2 settles on.
#[derive(Clone, Debug)]
pub(crate) struct L1Settings {
    pub(crate) chain_id: u64,
    /// Who tells its head; nobody here where the chain is followed itself.
    pub(crate) endpoints: Vec<EndpointSettings>,
}

/// What the file asks for, or what the chain is known for.
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
    match raw.mode.as_deref() {
        None | Some("l1_confirmations" | "depth") => {
            Ok(Finality::Depth(raw.confirmations.unwrap_or(default_depth)))
        }
        Some("finalized" | "source") => Ok(Finality::Finalized),
        Some("safe") => Ok(Finality::Safe),
        Some("dual_source") => {
            let delay = raw.max_l1_delay_seconds.unwrap_or(180);
            Ok(Finality::Dual {
                l2_depth: raw
                    .l2_depth
                    .context("l2Depth is needed in mode dual_source")?,
                l1_confirmations: raw
                    .confirmations
                    .context("l1Confirmations is needed in mode dual_source")?,
                max_l1_delay_seconds: delay,
            })
        }
        Some(other) => bail!(
            "mode: `{other}` is none of l1_confirmations, dual_source, finalized, safe, source"
        ),
    }
}

/// The chain below, where the rule needs it and it is another one.
pub(super) fn l1(
    raw: Option<&RawFinality>,
    chain_id: u64,
    known: Option<&KnownChain>,
) -> Result<Option<L1Settings>> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    if raw.mode.as_deref() != Some("dual_source") {
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
    let endpoints = raw.l1_rpc_http.iter();
    let endpoints = endpoints.map(super::endpoint).collect::<Result<_>>();
    Ok(Some(L1Settings {
        chain_id: id,
        endpoints: endpoints.context("l1RpcHttp")?,
    }))
}

/// Finds for each chain that needs it whoever tells the head of the chain below: that chain itself,
/// where it is followed too, else endpoints of its own.
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

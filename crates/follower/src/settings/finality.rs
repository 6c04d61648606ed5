//! How blocks become final: the rule, the tags that it needs, and the settlement chain.

use chronolith_finality::Rule;
use chronolith_source::EndpointSettings;
use chronolith_source::evm::Tags;

/// How blocks become final, and which tag says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finality {
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
    pub fn tags(self) -> Tags {
        Tags {
            finalized: matches!(self, Self::Finalized | Self::Dual { .. }),
            safe: matches!(self, Self::Safe | Self::Dual { .. }),
        }
    }

    pub fn rule(self) -> Rule {
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
pub struct L1Settings {
    pub chain_id: u64,
    /// The endpoints that report its head; none where the chain is followed itself.
    pub endpoints: Vec<EndpointSettings>,
}

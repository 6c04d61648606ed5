//! A chain as this program runs it: followed, and projected into PostgreSQL.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use chronolith_projection::Database;

use crate::chain::Chain;
use crate::settings::ChainSettings;
use crate::watched::Watched;

/// A followed chain and its projections.
pub(crate) struct RunningChain {
    pub(crate) settings: ChainSettings,
    pub(crate) chain: Arc<Chain>,
    /// The database that it is projected into, where it is.
    pub(crate) projected_into: OnceLock<Database>,
    pub(crate) projected: Watched,
}

impl RunningChain {
    pub(crate) fn new(settings: ChainSettings, chain: Chain) -> Self {
        Self {
            settings,
            chain: Arc::new(chain),
            projected_into: OnceLock::new(),
            projected: Watched::default(),
        }
    }
}

/// Archive, source, tail and status are those of the followed chain.
impl Deref for RunningChain {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.chain
    }
}

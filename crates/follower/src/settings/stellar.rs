//! Where the ledgers of a Stellar network come from.

use std::path::Path;

use chronolith_source::stellar::{CoreSettings, LakeSettings};
use chronolith_stellar::Network;

/// Where a network's ledgers come from.
#[derive(Clone, Debug)]
pub struct StellarSettings {
    pub network: Network,
    /// What the network is called, in paths and by people.
    pub network_name: String,
    pub lake: Option<LakeSettings>,
    pub core: Option<CoreSettings>,
}

impl StellarSettings {
    /// Puts core beside the chain's archive, where it is not put elsewhere.
    pub fn place_core(&mut self, notes: &Path) {
        let core = self.core.as_mut();
        let unplaced = core.filter(|core| core.work_dir.as_os_str().is_empty());
        if let Some(core) = unplaced {
            core.work_dir = notes.join("core");
        }
    }
}

impl std::fmt::Display for StellarSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, phrase) = (&self.network_name, self.network.passphrase());
        let from = match (&self.lake, &self.core) {
            (Some(_), Some(_)) => "its lake, then a core",
            (Some(_), None) => "its lake",
            (None, _) => "a core",
        };
        write!(f, "Stellar {name} ({phrase:?}) from {from}")
    }
}

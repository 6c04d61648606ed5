//! A chain as this program runs it: followed, and projected into PostgreSQL.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use chronolith_follower::chain::Chain;
use chronolith_projection::Database;

use crate::projection_health::ProjectionHealth;
use crate::settings::ChainSettings;

/// A followed chain and its projections.
pub(crate) struct RunningChain {
    pub(crate) settings: ChainSettings,
    pub(crate) chain: Arc<Chain>,
    /// The database that it is projected into, where it is.
    pub(crate) projected_into: OnceLock<Database>,
    pub(crate) projected: ProjectionHealth,
}

impl RunningChain {
    pub(crate) fn new(settings: ChainSettings, chain: Chain) -> Self {
        Self {
            settings,
            chain: Arc::new(chain),
            projected_into: OnceLock::new(),
            projected: ProjectionHealth::default(),
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

#[cfg(test)]
mod tests {
    use chronolith_sim::stellar::{Lake, LakeLayout, StellarChain, StellarSettings};
    use serde_json::json;

    use std::time::Duration;

    use chronolith_follower::maintenance::beside;

    use super::*;
    use crate::settings::Settings;

    /// A round may last for days: a first synchronisation is one.
    #[tokio::test(start_paused = true)]
    async fn what_nothing_names_goes_while_a_round_lasts() {
        let dir = tempfile::tempdir().unwrap();
        let source = StellarChain::new(StellarSettings::new(5));
        let lake = Lake::new(dir.path().join("lake"), LakeLayout::default());
        lake.write(&source, 2..4).unwrap();
        lake.write_manifest(&source).unwrap();
        let passphrase = &source.settings().passphrase;
        let text = json!({ "dataDir": dir.path(), "chains": [{
            "name": "test",
            "stellar": {
                "network": "test", "passphrase": passphrase,
                "lake": { "dir": dir.path().join("lake") },
            },
        }] });
        let settings = Settings::parse(&text.to_string(), false).unwrap();
        let one = settings.chains.first().unwrap();
        let place = settings.place(one);
        let chain = Chain::open(one.follow.clone(), &place).await.unwrap();
        let orphan = place.directory().unwrap().join("blobs/seg/nobody-names-it");
        std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
        std::fs::write(&orphan, "nothing").unwrap();
        let round = async {
            while orphan.exists() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(900), round);
        beside(&chain, in_time).await.expect("it is still there");
    }
}

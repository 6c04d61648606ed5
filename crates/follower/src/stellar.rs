//! A Stellar network's source: its data lake, a core, or one after the other.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use chronolith_model::ErrorKind;
use chronolith_source::Source;
use chronolith_source::stellar::{CoreSource, LakeAndCore, LakeSource};

use crate::settings::{FollowSettings, StellarSettings};

/// The source of a network, where it needs nothing of a lake. Settings of a core that make no sense are
/// refused in any case.
pub fn open_at_once(settings: &StellarSettings) -> Result<Option<Arc<dyn Source>>> {
    let core = settings.core.clone().map(CoreSource::new).transpose()?;
    let core = core.filter(|_| settings.lake.is_none());
    Ok(core.map(|core| Arc::new(core) as Arc<dyn Source>))
}

/// Opens the source of a chain that is one of Stellar.
pub async fn open_of(chain: &FollowSettings) -> Result<Arc<dyn Source>> {
    let settings = chain.stellar.as_ref();
    let settings = settings.context("no network of Stellar is given")?;
    open(&chain.name, settings).await
}

/// Opens the source of a network. A lake is sure to be of that network; core shows it with its first
/// ledger, which takes a while.
pub async fn open(name: &str, settings: &StellarSettings) -> Result<Arc<dyn Source>> {
    let lake = lake(name, settings).await?;
    let core = settings.core.clone().map(CoreSource::new).transpose()?;
    Ok(match (lake, core) {
        (Some(lake), Some(core)) => Arc::new(LakeAndCore::new(lake, core)),
        (Some(lake), None) => Arc::new(lake),
        (None, Some(core)) => Arc::new(core),
        (None, None) => bail!("neither a lake nor a core is given"),
    })
}

/// The lake alone: beside a process that runs the core.
pub async fn open_lake_alone(name: &str, settings: &StellarSettings) -> Result<Arc<dyn Source>> {
    match lake(name, settings).await? {
        Some(lake) => Ok(Arc::new(lake)),
        None => bail!(
            "its ledgers come from a core, which the process that writes runs: without a lake, \
             `chronolith serve` shows what is archived, and --follow adds nothing"
        ),
    }
}

async fn lake(name: &str, settings: &StellarSettings) -> Result<Option<LakeSource>> {
    let Some(lake) = settings.lake.clone() else {
        return Ok(None);
    };
    let lake = LakeSource::open(lake).await;
    let lake = lake.context("the lake cannot be used")?;
    check(name, &lake).await?;
    Ok(Some(lake))
}

/// Reads the newest ledger: one of another network is refused. A damaged object does not keep the program
/// from starting: what is archived is served, and the rounds report the object.
async fn check(name: &str, lake: &LakeSource) -> Result<()> {
    match lake.heads().await {
        Err(error) if error.kind() == ErrorKind::Disagreement => {
            tracing::warn!(chain = %name, %error, "the newest object of the lake is wrong");
            Ok(())
        }
        heads => heads.map(|_| ()).context("the lake cannot be used"),
    }
}

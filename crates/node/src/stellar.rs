//! A Stellar network's source: its data lake.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use chronolith_model::ErrorKind;
use chronolith_source::Source;
use chronolith_source::stellar::LakeSource;

use crate::settings::StellarSettings;

/// Opens the source of a network, which is sure to be of that network.
pub(crate) async fn open(name: &str, settings: &StellarSettings) -> Result<Arc<dyn Source>> {
    let Some(lake) = settings.lake.clone() else {
        bail!("no lake is given");
    };
    let lake = LakeSource::open(lake).await;
    let lake = lake.context("the lake cannot be used")?;
    check(name, &lake).await?;
    Ok(Arc::new(lake))
}

/// Looks at the newest ledger, which tells of the wrong network. A damaged object does not keep the
/// program from starting: what is archived is served, and the rounds tell of it.
async fn check(name: &str, lake: &LakeSource) -> Result<()> {
    match lake.heads().await {
        Err(error) if error.kind() == ErrorKind::Disagreement => {
            tracing::warn!(chain = %name, %error, "the newest object of the lake is wrong");
            Ok(())
        }
        heads => heads.map(|_| ()).context("the lake cannot be used"),
    }
}

//! The projections that this program knows. This is the one place that names them all.

use std::sync::Arc;

use chronolith_follower::clock::precise_now;
use chronolith_projection::{
    ChainFeed, Database, Kinds, Projection, Projector, ProjectorSettings, Result,
};
use chronolith_projection_adfs::{Adfs, AdfsKind};
use chronolith_projection_fees::{Fees, FeesKind};

use crate::projecting::who;
use crate::settings::ChainSettings;

/// Their names and tables, in the order in which operators read them.
pub(crate) const KINDS: Kinds = &[&FeesKind, &AdfsKind];

/// Whether anything is projected of a chain.
pub(crate) fn has_any(settings: &ChainSettings) -> bool {
    settings.fees.is_some() || settings.adfs.is_some()
}

/// The projections of a chain, as its settings say.
pub(crate) fn projector(
    database: &Database,
    feed: ChainFeed,
    settings: &ChainSettings,
) -> Result<Projector> {
    let id = settings.chain_id;
    let mut projections: Vec<Arc<dyn Projection>> = Vec::new();
    if let Some(fees) = &settings.fees {
        let made = Fees::new(id, fees.contracts.clone())?;
        projections.push(Arc::new(match fees.first_run_only {
            true => made.of_first_run(),
            false => made,
        }));
    }
    if let Some(adfs) = &settings.adfs {
        projections.push(Arc::new(Adfs::new(id, adfs.clone(), database.clone())?));
    }
    let fees = settings.fees.as_ref();
    let how = ProjectorSettings {
        job_blocks: fees.and_then(|fees| fees.job_blocks),
        job_ttl: fees.and_then(|fees| fees.job_ttl),
        clock: Some(precise_now),
    };
    Projector::new(database.clone(), feed, projections, how, &who())
}

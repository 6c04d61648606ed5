//! Kept versions of the state: where one of them still fits, a rebuild starts from it.
//!
//! Objects do not tell everything: which halts there were, what operators did, how ranges were
//! counted. A kept version does. It is used only where its newest block is the anchor, so that no
//! confirmed block is left behind, and where everything that it names is there.

use std::sync::Arc;

use chronolith_model::{BlockRange, BlockRef};
use chronolith_store::{MetaStore, Version};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::format::segment::SegmentTables;
use crate::inspect::{Entry, entries, open_pack};
use crate::read::objects::Objects;
use crate::read::snapshot::Snapshot;
use crate::settings::Settings;
use crate::state::State;
use crate::view::View;

const EVERYTHING: BlockRange = BlockRange {
    start: 0,
    end: u64::MAX,
};

/// The newest kept version that fits.
pub(super) async fn newest_fitting(
    view: &View,
    meta: &dyn MetaStore,
    settings: &Settings,
    anchor: BlockRef,
) -> Result<Option<Snapshot>> {
    let kept = meta.kept().await;
    for version in kept.map_err(Error::store("load kept versions of the state"))? {
        let Ok(state) = State::decode(&version.bytes) else {
            continue;
        };
        let head = state.live.map(|live| live.head);
        if state.chain != settings.chain || head != Some(anchor) {
            continue;
        }
        match opened(view, version.version, state).await {
            Ok(snapshot) => return Ok(Some(snapshot)),
            Err(Error::Corrupt { object, reason }) => {
                let version = version.version.0;
                tracing::info!(
                    version,
                    object,
                    reason,
                    "kept version of the state does not fit"
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// A kept version with its catalog, if everything it names can be opened.
async fn opened(view: &View, version: Version, state: State) -> Result<Snapshot> {
    let catalog = match &state.catalog {
        Some(place) => Arc::new(view.load_catalog(place).await?),
        None => Arc::new(Catalog::default()),
    };
    let snapshot = Snapshot::new(version, state, catalog);
    for entry in entries(&snapshot, &EVERYTHING) {
        open(&view.objects, &entry).await?;
    }
    Ok(snapshot)
}

/// Opens one object and sees that it is the one that is named.
async fn open(objects: &Objects, entry: &Entry) -> Result<()> {
    let place = entry.place();
    match entry {
        Entry::Segment(entry) => {
            let tail = objects.tail(place).await?;
            let tables = SegmentTables::decode(tail, place.tables_start);
            let tables = tables.map_err(|damage| Error::damaged(&place.name, damage))?;
            if tables.facts == entry.facts {
                return Ok(());
            }
            Err(Error::Corrupt {
                object: place.name.clone(),
                reason: "it is not the segment that the state names".to_owned(),
            })
        }
        Entry::Pack(entry) => open_pack(objects, entry).await.map(|_| ()),
        Entry::Run(_) => objects.open_run(place).await.map(|_| ()),
    }
}

//! Kept versions of the state: where one of them still fits, a rebuild starts from it.
//!
//! Objects do not record everything: which halts there were, what operators did, how ranges were
//! counted. A kept version does. It is used only where its newest block is the anchor, so that no
//! confirmed block is left out, and where everything that it names is there.

use chronolith_model::BlockRef;
use chronolith_store::{MetaStore, Version};

use crate::error::{Error, Result};
use crate::settings::Settings;
use crate::state::head::View;
use crate::state::record::{Halt, State};
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{EVERYTHING, Entry, entries, open_pack, open_segment};

/// What the kept versions give.
#[derive(Default)]
pub(super) struct Kept {
    /// The newest version that fits.
    pub(super) base: Option<Snapshot>,
    /// Versions newer than that which cannot be used, and why.
    pub(super) unusable: Vec<(u64, String)>,
    /// The halt of the newest version that can be read: it is not lost with that version.
    pub(super) halt: Option<Halt>,
}

/// Looks for the newest kept version that fits.
pub(super) async fn newest_fitting(
    view: &View,
    meta: &dyn MetaStore,
    settings: &Settings,
    anchor: BlockRef,
) -> Result<Kept> {
    let versions = meta.kept().await;
    let (mut kept, mut newest) = (Kept::default(), None);
    for (version, bytes) in versions.map_err(Error::store("load kept versions of the state"))? {
        let state = match bytes {
            Ok(bytes) => State::decode(&bytes).map_err(|damage| damage.0.to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let state = match state {
            Ok(state) if state.chain == settings.chain => state,
            Ok(_) => continue,
            Err(reason) => {
                kept.unusable.push((version.0, reason));
                continue;
            }
        };
        newest.get_or_insert_with(|| state.halt.clone());
        if state.live.map(|live| live.head) != Some(anchor) {
            continue;
        }
        match opened(view, version, state).await {
            Ok(snapshot) => {
                kept.base = Some(snapshot);
                break;
            }
            Err(Error::Corrupt { object, reason }) => {
                kept.unusable
                    .push((version.0, format!("it names {object}: {reason}")));
            }
            Err(error) => return Err(error),
        }
    }
    kept.halt = newest.flatten();
    Ok(kept)
}

/// A kept version with its catalog, if everything it names can be opened.
async fn opened(view: &View, version: Version, state: State) -> Result<Snapshot> {
    let snapshot = view.load_snapshot(version, state).await?;
    for entry in entries(&snapshot, &EVERYTHING) {
        match &entry {
            Entry::Segment(entry) => drop(open_segment(&view.objects, entry).await?),
            Entry::Pack(entry) => drop(open_pack(&view.objects, entry).await?),
            Entry::Run(entry) => drop(view.objects.open_run(&entry.object).await?),
        }
    }
    Ok(snapshot)
}

//! Which version of the format an archive is in.
//!
//! Objects of older versions are read as they are and rewritten when they are merged, so there is
//! nothing to bring up to date: this is where it is found out, and where an archive of the future is
//! refused in words that help.

use std::collections::BTreeMap;

use super::copy::Place;
use super::inspect::{EVERYTHING, entries};
use crate::error::{Error, Result};
use crate::format::container::{FORMAT_VERSION, versions};
use crate::read::objects::Objects;
use crate::state::catalog::ObjectRef;
use crate::state::head::decode_state;
use crate::state::record::State;

/// Which versions an archive is written in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatReport {
    /// The version that this code writes.
    pub newest: u16,
    /// How many objects each version wrote, the state and the catalog among them.
    pub objects: BTreeMap<u16, u64>,
}

/// Looks at the version of the state and of everything it names.
///
/// # Errors
/// `Invalid` where there is no archive, or something is of a version that this code cannot read;
/// `Corrupt` or `Store`.
pub async fn check_format(place: &Place) -> Result<FormatReport> {
    let found = place.load().await?;
    let mut report = FormatReport {
        newest: FORMAT_VERSION,
        objects: BTreeMap::new(),
    };
    let of_state = State::versions(&found.bytes);
    let of_state = of_state.map_err(|damage| Error::damaged("state", damage))?;
    report.add("state", of_state)?;
    let state = decode_state(&found)?;
    let view = place.view(state.chain);
    if let Some(catalog) = &state.catalog {
        look(&view.objects, &catalog.object, &mut report).await?;
    }
    let snapshot = view.load_snapshot(found.version, state).await?;
    for entry in entries(&snapshot, &EVERYTHING) {
        look(&view.objects, entry.place(), &mut report).await?;
    }
    Ok(report)
}

async fn look(objects: &Objects, object: &ObjectRef, report: &mut FormatReport) -> Result<()> {
    let tail = objects.tail(object).await?;
    let found = versions(&tail, object.tables_start);
    let found = found.map_err(|damage| Error::damaged(&object.name, damage))?;
    report.add(&object.name, found)
}

impl FormatReport {
    fn add(&mut self, name: &str, (written_by, readable_from): (u16, u16)) -> Result<()> {
        if readable_from > self.newest {
            return Err(Error::Invalid(format!(
                "it is of a newer format than this program knows: use a newer one (object={name}, \
                 format={written_by}, readable_from={readable_from}, known={})",
                self.newest
            )));
        }
        *self.objects.entry(written_by).or_default() += 1;
        Ok(())
    }
}

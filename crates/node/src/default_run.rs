//! Directories of runs without a settings file, and what a command may do to them where it has none either.
//!
//! Such a run keeps the block times of all known chains, from a Portal. Before it makes an archive it leaves a note in
//! its data directory. Without a settings file nothing else says what archives should hold, so a directory that has
//! neither the note nor archives that can be no others is refused: new blocks would come without their logs, a rewind
//! would leave the rows of a database, and `verify` would miss nothing. Whatever changes archives by a settings file
//! removes the note.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use chronolith_archive::Archive;
use chronolith_follower::chain::{Chain, open_reader};
use chronolith_follower::location::ArchiveLocation;
use chronolith_model::{Dataset, DatasetSet, Proof, Scope};
use chronolith_store::replace_file;
use serde::{Deserialize, Serialize};

use crate::cli::Command;
use crate::settings::{Origin, Settings};

/// The note.
const FILE: &str = "default-run";
/// What follows the id of a chain in the name of a directory that is being restored.
const RESTORING: &str = ".restoring";

/// What a command does with its settings, where it has no settings file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It makes archives.
    Run,
    /// It changes what archives hold.
    Change,
    /// It is about archives that are there.
    Archives,
    /// It is about projections, which a run without a settings file does not have.
    Projections,
    /// It looks by itself, or needs a database alone.
    Other,
}

impl Use {
    /// One that is not named here is about archives.
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Run { .. } => Self::Run,
            Command::Backfill(_) | Command::Repair(_) | Command::Archive { .. } => Self::Change,
            Command::Work { .. }
            | Command::Projection { .. }
            | Command::Jobs { .. }
            | Command::Locks { .. }
            | Command::Partitions { .. }
            | Command::Versions { .. } => Self::Projections,
            Command::Restore { .. } | Command::Db { .. } => Self::Other,
            _ => Self::Archives,
        }
    }
}

/// Refuses what a command would do without a settings file, before it opens anything.
pub(crate) async fn admit(what: Use, settings: &Settings) -> Result<()> {
    let (dir, has_file) = (&settings.data_dir, has_file(settings));
    match what {
        Use::Run => enter(settings, dir).await,
        Use::Change if has_file => forget(dir),
        Use::Change | Use::Archives => find(settings, dir).await,
        Use::Projections => {
            ensure!(
                has_file,
                "no settings file is here, and a run without one projects nothing: name the settings file with --config"
            );
            Ok(())
        }
        Use::Other => Ok(()),
    }
}

/// Before archives are made in a directory: notes what makes them.
///
/// # Errors
/// Without a settings file: the directory has archives that a run without one did not make.
pub(crate) async fn enter(settings: &Settings, dir: &Path) -> Result<()> {
    if has_file(settings) {
        return forget(dir);
    }
    let mut note = Note::of(settings);
    if let Found::Noted(before) = Box::pin(look(settings, dir)).await? {
        if before.chains.is_superset(&note.chains) {
            return Ok(());
        }
        note.chains.extend(before.chains);
    }
    note.write(dir)
}

/// Before archives of a directory are used.
///
/// # Errors
/// Without a settings file: they are not those of a run without one.
pub(crate) async fn find(settings: &Settings, dir: &Path) -> Result<()> {
    if has_file(settings) {
        return Ok(());
    }
    if Box::pin(look(settings, dir)).await? == Found::Nothing {
        bail!(
            "no settings file is here, and no archive is in {}: name the settings file with --config, another directory with --data-dir, or start `chronolith run`",
            dir.display()
        );
    }
    Ok(())
}

/// Refuses to follow block times alone into archives that have more after all: an older program may have run there
/// with a settings file.
pub(crate) fn check_opened(settings: &Settings, chains: &[Chain]) -> Result<()> {
    let others = chains.iter().filter(|chain| has_more(&chain.archive));
    let others: Vec<String> = others
        .map(|chain| chain.settings.chain_id.to_string())
        .collect();
    ensure!(
        has_file(settings) || others.is_empty(),
        refused(&settings.data_dir, &format!("chains {}", others.join(", ")))
    );
    Ok(())
}

fn has_file(settings: &Settings) -> bool {
    settings.origin != Origin::KnownChains
}

/// What there is in a directory.
#[derive(PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    Noted(Note),
    /// Archives without a note that can be of no other run: an earlier version left none.
    Unnoted,
}

async fn look(settings: &Settings, dir: &Path) -> Result<Found> {
    let there = chains_in(dir)?;
    let Some(note) = Note::read(dir)? else {
        if there.is_empty() {
            return Ok(Found::Nothing);
        }
        check_unnoted(settings, dir, &there).await?;
        return Ok(Found::Unnoted);
    };
    let kept = Note::of(settings).datasets;
    ensure!(
        note.datasets == kept,
        refused(dir, &format!("it keeps {}", note.datasets.join(", ")))
    );
    let noted: BTreeSet<String> = note.chains.iter().map(u64::to_string).collect();
    let others: Vec<&str> = there.difference(&noted).map(String::as_str).collect();
    ensure!(
        others.is_empty(),
        refused(dir, &format!("chains {}", others.join(", ")))
    );
    Ok(Found::Noted(note))
}

/// Every run without a settings file has opened archives of all known chains, and keeps block times from block 0 on
/// that nothing but a Portal says.
async fn check_unnoted(settings: &Settings, dir: &Path, there: &BTreeSet<String>) -> Result<()> {
    let known: BTreeSet<String> = settings
        .chains
        .iter()
        .map(|chain| chain.chain_id.to_string())
        .collect();
    let names: Vec<&str> = there.iter().map(String::as_str).collect();
    ensure!(
        *there == known,
        refused(dir, &format!("chains {}", names.join(", ")))
    );
    let mut has_blocks = false;
    for chain in &settings.chains {
        let id = chain.chain_id.to_string();
        let place = ArchiveLocation::Directory(dir.join("chains").join(&id));
        // What a machine notes of an archive in an object store lies there too.
        let is_here = place.has_state().await?;
        ensure!(is_here, refused(dir, &format!("chain {id} is elsewhere")));
        let archive = open_reader(chain, &place).await?;
        ensure!(
            is_of_default_run(&archive),
            refused(dir, &format!("chains {id}"))
        );
        has_blocks |= archive.health().head.is_some();
    }
    ensure!(has_blocks, refused(dir, "they are empty"));
    Ok(())
}

fn is_of_default_run(archive: &Archive) -> bool {
    let clocks = archive.coverage(DatasetSet::CLOCK, None);
    let from_first = clocks.first().is_none_or(|(range, _)| range.start == 0);
    let claimed = clocks.iter().all(|(_, proof)| *proof == Proof::CLAIMED);
    // A narrower scope is one of a settings file.
    let whole = archive.kept(DatasetSet::CLOCK, &Scope::All) == clocks;
    from_first && claimed && whole && !has_more(archive)
}

/// Whether an archive has more than block times.
fn has_more(archive: &Archive) -> bool {
    let more = [
        Dataset::Headers,
        Dataset::Logs,
        Dataset::TxHashes,
        Dataset::Payload,
    ];
    let covers = |one| !archive.coverage(DatasetSet::of(&[one]), None).is_empty();
    archive.health().logs > 0 || more.into_iter().any(covers)
}

/// The names of the directories of chains.
fn chains_in(dir: &Path) -> Result<BTreeSet<String>> {
    let dir = dir.join("chains");
    let failed = || format!("cannot read {}", dir.display());
    let entries = match dir.read_dir() {
        Err(error) if is_missing(&error) => return Ok(BTreeSet::new()),
        entries => entries.with_context(failed)?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.with_context(failed)?.file_name();
        let name = name.to_string_lossy();
        names.insert(name.strip_suffix(RESTORING).unwrap_or(&name).to_owned());
    }
    Ok(names)
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn refused(dir: &Path, what: &str) -> Error {
    anyhow!(
        "no settings file is here, and {} has archives that are not of a run without one ({what}): name their settings file with --config, or another directory with --data-dir",
        dir.display()
    )
}

/// What runs without a settings file keep in a directory.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    datasets: Vec<String>,
    chains: BTreeSet<u64>,
}

impl Note {
    fn of(settings: &Settings) -> Self {
        let chains = settings.chains.iter();
        let kept = chains
            .clone()
            .flat_map(|chain| chain.datasets.iter().map(Dataset::name));
        let kept: BTreeSet<&str> = kept.collect();
        Self {
            datasets: kept.into_iter().map(str::to_owned).collect(),
            chains: chains.map(|chain| chain.chain_id).collect(),
        }
    }

    fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        let text = match fs::read(&path) {
            Err(error) if is_missing(&error) => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let note = serde_json::from_slice(&text);
        note.map(Some).with_context(|| {
            format!(
                "{} is damaged or of a newer program: without it, the archives themselves are looked at",
                path.display()
            )
        })
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let failed = || format!("cannot write to the data directory {}", dir.display());
        fs::create_dir_all(dir).with_context(failed)?;
        replace_file(&dir.join(FILE), &serde_json::to_vec(self)?).with_context(failed)
    }
}

/// Removes the note: from now on the archives may have anything.
fn forget(dir: &Path) -> Result<()> {
    let path = dir.join(FILE);
    let removed = match fs::remove_file(&path) {
        Err(error) if is_missing(&error) => return Ok(()),
        // A power cut must not bring it back.
        Ok(()) => File::open(dir).and_then(|dir| dir.sync_all()),
        failed => failed,
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests;

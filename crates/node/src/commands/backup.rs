//! `chronolith backup` and `chronolith restore`.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::{Copied, Error as ArchiveError, copy_archive};
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::preflight::genesis;
use chronolith_follower::progress::{Progress, Unit};
use chronolith_model::ChainId;
use chronolith_store::rename_durably;
use serde_json::{Value, json};

use super::output::print_json;
use super::state::chosen;
use crate::cli::Wanted;
use crate::default_run;
use crate::exit::Exit;
use crate::settings::{ChainSettings, Settings};

/// Objects that are listed at once.
const LIST_PAGE: usize = 1000;

/// Copies the archives into a directory that is laid out like a data directory.
pub(crate) async fn backup(settings: &Settings, dir: &Path, wanted: &Wanted) -> Result<Exit> {
    default_run::enter(settings, dir).await?;
    let mut copies = Vec::new();
    for chain in chosen(settings, wanted)? {
        let (from, to) = (settings.place(chain), backup_of(dir, chain));
        ensure!(
            from.has_archive().await?,
            "there is no archive of {} yet in {from}",
            chain.name
        );
        ensure!(
            !same(from.notes(), to.notes()),
            "the backup would lie in the data directory itself"
        );
        let copied = copy(chain, "backup", &from, &to).await;
        let copied =
            copied.with_context(|| format!("chain {}: no new backup was made", chain.name))?;
        copies.push(report_copy(chain, "backed up", &copied, wanted));
    }
    if wanted.json {
        print_json(&copies)?;
    }
    Ok(Exit::Done)
}

/// Copies archives back. The archive appears when all of it is there and checked.
pub(crate) async fn restore(settings: &Settings, dir: &Path, wanted: &Wanted) -> Result<Exit> {
    default_run::find(settings, dir).await?;
    default_run::enter(settings, &settings.data_dir).await?;
    let chains = chosen(settings, wanted)?;
    for chain in &chains {
        let (from, to) = (backup_of(dir, chain), settings.place(chain));
        ensure!(
            from.has_archive().await?,
            "there is no whole backup of {} in {from}",
            chain.name
        );
        let exists = match to.directory() {
            Some(dir) => dir.exists(),
            None => to.has_state().await?,
        };
        ensure!(
            !exists,
            "an archive of {} lies in {to} already: move it away to restore over it",
            chain.name
        );
        refuse_foreign(&from, &to).await?;
    }
    let mut copies = Vec::new();
    for chain in chains {
        let (from, to) = (backup_of(dir, chain), settings.place(chain));
        let beside = match &to {
            ArchiveLocation::Directory(dir) => {
                ArchiveLocation::Directory(dir.with_extension("restoring"))
            }
            // Objects are there when they are named, and the state that names them comes last.
            remote => remote.clone(),
        };
        let copied = copy(chain, "restore", &from, &beside).await;
        let copied = copied.with_context(|| {
            format!(
                "chain {}: not restored; what was copied so far lies in {beside}",
                chain.name
            )
        })?;
        if let (Some(beside), Some(to)) = (beside.directory(), to.directory()) {
            rename_durably(beside, to)
                .with_context(|| format!("cannot put the archive in place at {}", to.display()))?;
        }
        copies.push(report_copy(chain, "restored", &copied, wanted));
    }
    if wanted.json {
        print_json(&copies)?;
    }
    Ok(Exit::Done)
}

fn backup_of(dir: &Path, chain: &ChainSettings) -> ArchiveLocation {
    ArchiveLocation::Directory(dir.join("chains").join(chain.chain_id.to_string()))
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

async fn copy(
    chain: &ChainSettings,
    what: &'static str,
    from: &ArchiveLocation,
    to: &ArchiveLocation,
) -> Result<Copied> {
    let target = to.writer().await?;
    let mut progress = Progress::of_command(what, &chain.name, Unit::Bytes);
    let reached =
        &mut |done: chronolith_archive::Inspected| progress.reach(done.bytes, done.bytes_all);
    let chain = ChainId(chain.chain_id);
    let copied = copy_archive(&from.reader(), &target.place, chain, reached).await?;
    // Which chain an archive is of goes with it, where a source served block 0.
    if let Some(hash) = genesis::load(from).await? {
        genesis::store(to, hash).await?;
    }
    Ok(copied)
}

/// Refuses to restore over objects whose state is lost: the restored state would make garbage of them.
/// Objects of an interrupted restore are those of the backup.
async fn refuse_foreign(from: &ArchiveLocation, to: &ArchiveLocation) -> Result<()> {
    if !matches!(to.has_archive().await, Err(error) if is_lost(&error)) {
        return Ok(());
    }
    let (backup, there) = (from.reader().blobs, to.reader().blobs);
    let mut after: Option<String> = None;
    loop {
        let page = there.list("", after.as_deref(), LIST_PAGE).await?;
        let full = page.len() == LIST_PAGE;
        after = page.last().map(|info| info.name.clone());
        for info in page.iter().filter(|info| is_archived(&info.name)) {
            if backup.range(&info.name, 0..0).await.is_err() {
                bail!(
                    "{to} holds {}, which is not in the backup, and no state: run `chronolith archive rebuild-state`, or move the objects away to restore",
                    info.name
                );
            }
        }
        if !full {
            return Ok(());
        }
    }
}

/// Whether objects lie there and no state.
fn is_lost(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<ArchiveError>();
    matches!(cause, Some(ArchiveError::StateLost { .. }))
}

/// Whether an object is of an archive: there may be versions of its state and a note of its genesis.
fn is_archived(name: &str) -> bool {
    let folders = ["seg/", "bat/", "run/", "pack/", "cat/"];
    folders.iter().any(|folder| name.starts_with(folder))
}

/// Prints what was copied, unless JSON is requested; returns it as JSON.
fn report_copy(chain: &ChainSettings, what: &str, copied: &Copied, wanted: &Wanted) -> Value {
    let head = copied.head.map(|head| head.number);
    if !wanted.json {
        let until = head.map_or("empty".to_owned(), |head| format!("up to block {head}"));
        let mib = copied.new_bytes as f64 / f64::from(1 << 20);
        println!(
            "{}: {what}, {until}: {} objects, {} of them copied ({mib:.1} MiB)",
            chain.name, copied.objects, copied.new_objects
        );
    }
    json!({
        "chainId": chronolith_serve::ChainId(chain.chain_id),
        "head": head,
        "objects": copied.objects,
        "copiedObjects": copied.new_objects,
        "copiedBytes": copied.new_bytes,
    })
}

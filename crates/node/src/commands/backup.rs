//! `chronolith backup` and `chronolith restore`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::{Copied, Place, copy_archive};
use chronolith_model::ChainId;
use chronolith_store::{FileBlobs, FileMeta};
use serde_json::{Value, json};

use super::state::chosen;
use crate::cli::Wanted;
use crate::exit::Exit;
use crate::progress::{Progress, Unit};
use crate::settings::{ChainSettings, Settings};

/// The hash of the chain's first block, beside its archive.
const GENESIS: &str = "genesis";

/// Copies the archives into a directory that is laid out like a data directory.
pub(crate) async fn backup(settings: &Settings, dir: &Path, wanted: &Wanted) -> Result<Exit> {
    let mut told = Vec::new();
    for chain in chosen(settings, wanted)? {
        let (from, to) = (settings.chain_dir(chain), chain_dir(dir, chain));
        ensure!(
            from.join("state").exists(),
            "there is no archive of {} yet in {}",
            chain.name,
            from.display()
        );
        ensure!(
            !same(&from, &to),
            "the backup would lie in the data directory itself"
        );
        let copied = copy(chain, "backup", &from, &to).await;
        let copied =
            copied.with_context(|| format!("chain {}: no new backup was made", chain.name))?;
        told.push(tell(chain, "backed up", &copied, wanted));
    }
    print_json(&told, wanted)
}

/// Copies archives back. The archive appears when all of it is there and checked.
pub(crate) async fn restore(settings: &Settings, dir: &Path, wanted: &Wanted) -> Result<Exit> {
    let chains = chosen(settings, wanted)?;
    for chain in &chains {
        let (from, to) = (chain_dir(dir, chain), settings.chain_dir(chain));
        ensure!(
            from.join("state").exists(),
            "there is no whole backup of {} in {}",
            chain.name,
            from.display()
        );
        ensure!(
            !to.exists(),
            "an archive of {} lies in {} already: move it away to restore over it",
            chain.name,
            to.display()
        );
    }
    let mut told = Vec::new();
    for chain in chains {
        let (from, to) = (chain_dir(dir, chain), settings.chain_dir(chain));
        let beside = to.with_extension("restoring");
        let copied = copy(chain, "restore", &from, &beside).await;
        let copied = copied.with_context(|| {
            let beside = beside.display();
            format!(
                "chain {}: not restored; what was copied so far lies in {beside}",
                chain.name
            )
        })?;
        put_in_place(&beside, &to)?;
        told.push(tell(chain, "restored", &copied, wanted));
    }
    print_json(&told, wanted)
}

fn chain_dir(dir: &Path, chain: &ChainSettings) -> PathBuf {
    dir.join("chains").join(chain.chain_id.to_string())
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

async fn copy(chain: &ChainSettings, what: &'static str, from: &Path, to: &Path) -> Result<Copied> {
    let source = Place {
        meta: Arc::new(FileMeta::open_reader(from)),
        blobs: Arc::new(FileBlobs::open_reader(from)),
    };
    let target = Place {
        meta: Arc::new(FileMeta::open_writer(to)?),
        blobs: Arc::new(FileBlobs::open_writer(to)?),
    };
    let mut progress = Progress::of_command(what, &chain.name, Unit::Bytes);
    let told =
        &mut |done: chronolith_archive::Inspected| progress.reach(done.bytes, done.bytes_all);
    let copied = copy_archive(&source, &target, ChainId(chain.chain_id), told).await?;
    copy_genesis(from, to)?;
    Ok(copied)
}

/// Which chain an archive is of goes with it. The file is not there where no source served block 0.
fn copy_genesis(from: &Path, to: &Path) -> Result<()> {
    let (from, place) = (from.join(GENESIS), to.join(GENESIS));
    if !from.exists() {
        return Ok(());
    }
    let beside = to.join("genesis.tmp");
    let copied = std::fs::copy(&from, &beside)
        .and_then(|_| File::open(&beside)?.sync_all())
        .and_then(|()| std::fs::rename(&beside, &place))
        .and_then(|()| File::open(to)?.sync_all());
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), place.display()))
}

/// Gives the directory its name, durably.
fn put_in_place(beside: &Path, to: &Path) -> Result<()> {
    std::fs::rename(beside, to)
        .with_context(|| format!("cannot put the archive in place at {}", to.display()))?;
    let parent = to.parent().unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.with_context(|| format!("cannot sync {}", parent.display()))
}

/// Says what was copied, or returns it where JSON is wanted.
fn tell(chain: &ChainSettings, what: &str, copied: &Copied, wanted: &Wanted) -> Value {
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
        "chainId": chain.chain_id,
        "head": head,
        "objects": copied.objects,
        "copiedObjects": copied.new_objects,
        "copiedBytes": copied.new_bytes,
    })
}

fn print_json(told: &[Value], wanted: &Wanted) -> Result<Exit> {
    if wanted.json {
        println!("{}", serde_json::to_string_pretty(told)?);
    }
    Ok(Exit::Done)
}

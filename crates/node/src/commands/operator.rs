//! What operators do: `resume`, `rewind`, `prune`, `gc`. Where a node runs on the data directory, it is asked;
//! else the archive is opened for it.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Error, Result, anyhow};
use chronolith_archive::{GarbageReport, GcMode};
use chronolith_follower::chain::{open_for_operator, open_reader};
use chronolith_follower::clock::now;
use chronolith_follower::location::ArchiveLocation;
use chronolith_serve::admin::operation::Gc;
use chronolith_serve::admin::operation::Prune;
use chronolith_serve::admin::operation::Resume;
use chronolith_serve::admin::operation::Rewind;
use chronolith_serve::admin::operation::signed;
use chronolith_store::BlobInfo;
use serde_json::{Value, json};

use super::projection_reset::line_of;
use super::projections::tell;
use crate::cli::{Act, Wanted};
use crate::control::queue::{self, Undecided, audit, half_done, user, with_database};
use crate::control::server::ask_running;
use crate::exit::Exit;
use crate::projecting::{database_of, take_back};
use crate::projections::has_any;
use crate::settings::{ChainSettings, Settings};

pub(crate) async fn resume(settings: &Settings, undecided: Undecided, act: &Act) -> Result<Exit> {
    let chain = settings.chain(act.wanted.chain.as_deref())?;
    let reason = signed(&act.reason, user().as_deref()).map_err(Error::msg)?;
    let asked = Resume {
        chain: chain.chain_id.to_string(),
        reason: act.reason.clone(),
        by: user(),
        drop_undecided: undecided == Undecided::Drop,
    };
    if let Some(told) = ask_running(settings, "resume", &asked).await? {
        let line = format!("{}: the halt is over; the node goes on", chain.name);
        return tell(&act.wanted, &told, &line);
    }
    let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
    let resumed = queue::resume((&archive, &chain.name), &reason, undecided).await;
    let resumed = resumed.map_err(Error::msg);
    archive.release().await?;
    resumed?;
    let head = archive.health().head.map(|head| head.number);
    let told = json!({ "chainId": chain.chain_id, "halted": false, "head": head });
    let line = format!("{}: the halt is over; `chronolith run` goes on", chain.name);
    tell(&act.wanted, &told, &line)
}

pub(crate) async fn rewind(settings: &Settings, to: u64, act: &Act) -> Result<Exit> {
    let chain = settings.chain(act.wanted.chain.as_deref())?;
    let reason = signed(&act.reason, user().as_deref()).map_err(Error::msg)?;
    let asked = Rewind {
        chain: chain.chain_id.to_string(),
        to,
        reason: act.reason.clone(),
        by: user(),
    };
    if let Some(told) = ask_running(settings, "rewind", &asked).await? {
        let mut line = format!(
            "{}: blocks above {to} were dropped; the node goes on from there",
            chain.name
        );
        if let Some(taken) = told.get("database") {
            let taken = serde_json::from_value(taken.clone())?;
            line = format!("{line}\n{}", line_of(chain, &taken));
        }
        return tell(&act.wanted, &told, &line);
    }
    let database = has_any(chain).then(|| database_of(settings)).transpose();
    let database = database.context("the rows of this chain must be taken back as well")?;
    let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
    let before = archive.health().head.map(|head| head.number);
    let rewound = archive.rewind(to, audit("rewind", &reason)).await;
    rewound.context("rewind")?;
    archive.release().await?;
    let mut told = json!({ "chainId": chain.chain_id, "head": to, "headBefore": before });
    let mut line = format!("{}: blocks above {to} are gone", chain.name);
    if let Some(database) = database {
        let taken = take_back(&database, &archive, chain, &act.reason).await;
        let taken = taken.map_err(|error| anyhow!(half_done(&chain.name, &error)))?;
        told = with_database(told, &taken);
        line = format!("{line}\n{}", line_of(chain, &taken));
    }
    tell(&act.wanted, &told, &line)
}

pub(crate) async fn prune(settings: &Settings, below: u64, act: &Act) -> Result<Exit> {
    let chain = settings.chain(act.wanted.chain.as_deref())?;
    let reason = signed(&act.reason, user().as_deref()).map_err(Error::msg)?;
    let asked = Prune {
        chain: chain.chain_id.to_string(),
        below,
        reason: act.reason.clone(),
        by: user(),
    };
    let told = match ask_running(settings, "prune", &asked).await? {
        Some(told) => told,
        None => {
            let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
            let told = queue::prune(chain, &archive, below, &reason).await;
            archive.release().await?;
            told?
        }
    };
    let count = |field: &str| told.get(field).and_then(Value::as_u64);
    let segments = count("segments").unwrap_or(0);
    let first = count("first").map_or("none".to_owned(), |first| first.to_string());
    let line = format!(
        "{}: {segments} segments below block {below} were let go; the first archived block is {first}",
        chain.name
    );
    tell(&act.wanted, &told, &line)
}

/// What nothing names. A dry run reads: it takes no epoch and needs no right to write.
async fn garbage(
    chain: &ChainSettings,
    place: &ArchiveLocation,
    how: GcMode,
) -> Result<GarbageReport> {
    if how == GcMode::DryRun {
        let archive = open_reader(chain, place).await?;
        return Ok(archive.collect_garbage(how).await?);
    }
    let (archive, _lock) = open_for_operator(chain, place).await?;
    let (blobs, now) = (place.directory().map(|dir| dir.join("blobs")), now());
    let age = |info: &BlobInfo| age_of(&blobs.as_ref()?.join(&info.name), now);
    let report = archive.collect_garbage_by_age(how, &age).await?;
    archive.release().await?;
    Ok(report)
}

pub(crate) async fn gc(settings: &Settings, dry_run: bool, wanted: &Wanted) -> Result<Exit> {
    let chain = settings.chain(wanted.chain.as_deref())?;
    let asked = Gc {
        chain: chain.chain_id.to_string(),
        dry_run,
    };
    if let Some(told) = ask_running(settings, "gc", &asked).await? {
        let line = format!("{}: the node that runs did it: {told}", chain.name);
        return tell(wanted, &told, &line);
    }
    let how = match dry_run {
        true => GcMode::DryRun,
        false => GcMode::Remove,
    };
    let report = garbage(chain, &settings.place(chain), how).await?;
    let (count, removed) = (report.orphans.len(), report.removed);
    let bytes: u64 = report.orphans.iter().map(|info| info.len).sum();
    let orphans = report.orphans.iter();
    let orphans = orphans.map(|info| json!({ "object": info.name, "bytes": info.len }));
    let told = json!({
        "chainId": chain.chain_id,
        "dryRun": dry_run,
        "orphanSegmentBytes": report.orphan_segment_bytes,
        "orphanStateRecords": report.orphan_state_records,
        "staleBatchKeys": report.stale_batch_keys,
        "orphans": orphans.collect::<Vec<_>>(),
        "removed": removed,
        "held": report.held,
    });
    let mib = bytes as f64 / f64::from(1 << 20);
    let line = format!(
        "{}: nothing names {count} objects ({mib:.1} MiB); {removed} of them were removed, the others \
         are too young",
        chain.name
    );
    let dry = format!(
        "{}: nothing names {count} objects ({mib:.1} MiB)",
        chain.name
    );
    let mut line = if dry_run { dry } else { line };
    if report.held > 0 {
        line = format!(
            "{line}\n{}: {} more are undecided since the state was rebuilt and stay; `chronolith resume \
             --drop-undecided` lets them go",
            chain.name, report.held
        );
    }
    tell(wanted, &told, &line)
}

/// How long ago a file was written: this process sees it for the first time.
fn age_of(path: &Path, now: u64) -> Option<Duration> {
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    let written = written.ok()?.duration_since(UNIX_EPOCH).ok()?;
    Duration::from_secs(now).checked_sub(written)
}

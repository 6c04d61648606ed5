//! Operations on a chain: `resume`, `rewind`, `prune`, `gc`. A node that runs on the data directory performs
//! them; where there is none, the command opens the archive itself.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Error, Result, anyhow};
use chronolith_archive::{GarbageReport, GcMode};
use chronolith_follower::chain::{open_for_operator, open_reader};
use chronolith_follower::clock::now;
use chronolith_follower::location::ArchiveLocation;
use chronolith_serve::ChainId;
use chronolith_serve::admin::operation::{Gc, Prune, Resume, Rewind, signed};
use chronolith_store::BlobInfo;
use serde_json::{Value, json};

use super::output::print_result;
use super::projection_reset::line_of;
use crate::cli::{Reasoned, Wanted};
use crate::control::queue::{self, audit, gc_mode, half_done, user, with_database};
use crate::control::server::send_to_running;
use crate::exit::Exit;
use crate::projecting::{database_of, take_back};
use crate::projections::has_any;
use crate::settings::{ChainSettings, Settings};

pub(crate) async fn resume(
    settings: &Settings,
    drop_undecided: bool,
    args: &Reasoned,
) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let reason = signed(&args.reason, user().as_deref()).map_err(Error::msg)?;
    let operation = Resume {
        chain: chain.chain_id.to_string(),
        reason: args.reason.clone(),
        by: user(),
        drop_undecided,
    };
    if let Some(answer) = send_to_running(settings, "resume", &operation).await? {
        let line = format!("{}: the halt is over; the node continues", chain.name);
        return print_result(&args.wanted, &answer, &line);
    }
    let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
    let resumed = queue::resume(&archive, &chain.name, &reason, &operation).await;
    archive.release().await?;
    resumed.map_err(Error::msg)?;
    let head = archive.health().head.map(|head| head.number);
    let answer = json!({ "chainId": ChainId(chain.chain_id), "halted": false, "head": head });
    let name = &chain.name;
    let line = format!("{name}: the halt is over; `chronolith run` continues");
    print_result(&args.wanted, &answer, &line)
}

pub(crate) async fn rewind(settings: &Settings, to: u64, args: &Reasoned) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let name = &chain.name;
    let reason = signed(&args.reason, user().as_deref()).map_err(Error::msg)?;
    let operation = Rewind {
        chain: chain.chain_id.to_string(),
        to,
        reason: args.reason.clone(),
        by: user(),
    };
    if let Some(answer) = send_to_running(settings, "rewind", &operation).await? {
        let mut line =
            format!("{name}: blocks above {to} were dropped; the node continues from there");
        if let Some(taken) = answer.get("database") {
            let taken = serde_json::from_value(taken.clone())?;
            line = format!("{line}\n{}", line_of(chain, &taken));
        }
        return print_result(&args.wanted, &answer, &line);
    }
    let database = has_any(chain).then(|| database_of(settings)).transpose();
    let database = database.context("the rows of this chain must be taken back as well")?;
    let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
    let before = archive.health().head.map(|head| head.number);
    let rewound = archive.rewind(to, audit("rewind", &reason)).await;
    rewound.context("rewind")?;
    archive.release().await?;
    let mut answer =
        json!({ "chainId": ChainId(chain.chain_id), "head": to, "headBefore": before });
    let mut line = format!("{name}: blocks above {to} are gone");
    if let Some(database) = database {
        let taken = take_back(&database, &archive, chain, &args.reason).await;
        let taken = taken.map_err(|error| anyhow!(half_done(name, &error)))?;
        answer = with_database(answer, &taken);
        line = format!("{line}\n{}", line_of(chain, &taken));
    }
    print_result(&args.wanted, &answer, &line)
}

pub(crate) async fn prune(settings: &Settings, below: u64, args: &Reasoned) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let reason = signed(&args.reason, user().as_deref()).map_err(Error::msg)?;
    let operation = Prune {
        chain: chain.chain_id.to_string(),
        below,
        reason: args.reason.clone(),
        by: user(),
    };
    let answer = match send_to_running(settings, "prune", &operation).await? {
        Some(answer) => answer,
        None => {
            let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
            let pruned = queue::prune(chain, &archive, below, &reason).await;
            archive.release().await?;
            pruned?
        }
    };
    let count = |field: &str| answer.get(field).and_then(Value::as_u64);
    let segments = count("segments").context("the answer has no count of segments")?;
    let first = count("first").map_or("none".to_owned(), |first| first.to_string());
    let line = format!(
        "{}: {segments} segments below block {below} were let go; the first archived block is {first}",
        chain.name
    );
    print_result(&args.wanted, &answer, &line)
}

/// Objects that nothing names. A dry run only reads: it takes no epoch and needs no write access.
async fn garbage(
    chain: &ChainSettings,
    place: &ArchiveLocation,
    mode: GcMode,
) -> Result<GarbageReport> {
    if mode == GcMode::DryRun {
        let archive = open_reader(chain, place).await?;
        return Ok(archive.collect_garbage(mode).await?);
    }
    let (archive, _lock) = open_for_operator(chain, place).await?;
    let (blobs, now) = (place.directory().map(|dir| dir.join("blobs")), now());
    let age = |info: &BlobInfo| age_of(&blobs.as_ref()?.join(&info.name), now);
    let report = archive.collect_garbage_by_age(mode, &age).await?;
    archive.release().await?;
    Ok(report)
}

pub(crate) async fn gc(settings: &Settings, dry_run: bool, wanted: &Wanted) -> Result<Exit> {
    let chain = settings.chain(wanted.chain.as_deref())?;
    let operation = Gc {
        chain: chain.chain_id.to_string(),
        dry_run,
    };
    let name = &chain.name;
    if let Some(answer) = send_to_running(settings, "gc", &operation).await? {
        let line = format!("{name}: the node that runs did it: {answer}");
        return print_result(wanted, &answer, &line);
    }
    let mode = gc_mode(dry_run);
    let report = garbage(chain, &settings.place(chain), mode).await?;
    let orphans = report.orphans.iter();
    let orphans = orphans.map(|info| json!({ "object": info.name, "bytes": info.len }));
    let answer = json!({
        "chainId": ChainId(chain.chain_id),
        "dryRun": dry_run,
        "orphanSegmentBytes": report.orphan_segment_bytes,
        "orphanStateRecords": report.orphan_state_records,
        "staleBatchKeys": report.stale_batch_keys,
        "orphans": orphans.collect::<Vec<_>>(),
        "removed": report.removed,
        "held": report.held,
    });
    let bytes: u64 = report.orphans.iter().map(|info| info.len).sum();
    let mib = bytes as f64 / f64::from(1 << 20);
    let count = report.orphans.len();
    let mut line = format!("{name}: nothing names {count} objects ({mib:.1} MiB)");
    if !dry_run {
        let removed = report.removed;
        line = format!("{line}; {removed} of them were removed, the others are too young");
    }
    if report.held > 0 {
        line = format!(
            "{line}\n{name}: {} more are undecided since the state was rebuilt and stay; `chronolith resume \
             --drop-undecided` lets them go",
            report.held
        );
    }
    print_result(wanted, &answer, &line)
}

/// How long ago a file was written: this process sees it for the first time.
fn age_of(path: &Path, now: u64) -> Option<Duration> {
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    let written = written.ok()?.duration_since(UNIX_EPOCH).ok()?;
    Duration::from_secs(now).checked_sub(written)
}

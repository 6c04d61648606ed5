//! `chronolith repair`: rebuilds from the source what `verify` finds.

use anyhow::Result;
use chronolith_archive::{
    Archive, AuditEntry, DamagedObject, Error as ArchiveError, Fill, ObjectSort, StoredObject,
};
use chronolith_follower::backfill::fill::{Filler, Filling};
use chronolith_follower::chain::{open_for_operator, open_reader, open_source};
use chronolith_follower::error::FollowError;
use chronolith_follower::progress::{Progress, Unit};
use chronolith_follower::ranges::settle;
use chronolith_model::{BlockRange, ErrorKind, Proof};
use chronolith_serve::ChainId;
use chronolith_source::Want;
use serde_json::json;

use super::output::print_json;
use super::query::range_of;
use super::verify::{
    Found, against_source, finding_json, look, not_compared_json, object_json, show,
};
use crate::cli::RepairRange;
use crate::control::queue::audit;
use crate::exit::Exit;
use crate::settings::{ChainSettings, Settings};

/// Objects that were repaired, and what is still not whole, with the reason.
type Repaired = (Vec<DamagedObject>, Found);

pub(crate) async fn repair(settings: &Settings, args: &RepairRange) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let place = settings.place(chain);
    let opened = if args.dry_run {
        open_reader(chain, &place)
            .await
            .map(|archive| (archive, None))
    } else {
        open_for_operator(chain, &place).await
    };
    let (archive, _lock) = opened.map_err(with_rebuild_hint)?;
    let range = range_of(&archive, args.from, args.to)?;
    let (repaired, left) = if args.dry_run {
        (Vec::new(), find(&archive, chain, range, args).await?)
    } else {
        let repaired = repair_found(&archive, chain, range, args).await;
        archive.release().await?;
        repaired?
    };
    print_repaired(chain, range, args, (&repaired, &left))?;
    left.end()
}

/// No source knows which objects there are: a damaged state or catalog is rebuilt from the objects.
fn with_rebuild_hint(error: anyhow::Error) -> anyhow::Error {
    let damaged = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<ArchiveError>();
        cause.is_some_and(|error| error.kind() == ErrorKind::Corrupt)
    };
    if error.chain().any(damaged) {
        error.context(
            "the list of what is archived is damaged and in no source: see `chronolith archive \
             rebuild-state --help`",
        )
    } else {
        error
    }
}

/// What is not whole. Where the source has other content, the segments and packs that hold it are to be
/// replaced.
async fn find(
    archive: &Archive,
    chain: &ChainSettings,
    range: BlockRange,
    args: &RepairRange,
) -> Result<Found> {
    let mut found = look(archive, chain, range).await?;
    if args.against_source {
        let differing = against_source(archive, chain, range, &mut found).await;
        for finding in differing.iter().filter(|finding| finding.content_differs) {
            let holding = archive.segments_of(finding.block).into_iter();
            let ours = holding
                .filter(|object| object.datasets == chain.datasets && object.scope == chain.scope);
            let packs = archive.packs_of(finding.block).into_iter();
            let packs = packs.filter(|pack| pack.datasets == chain.datasets);
            for object in ours.chain(packs) {
                let reason = format!("block {}: {}", finding.block, finding.what);
                found.add_other(DamagedObject { object, reason });
            }
        }
        found.blocks.extend(differing);
    }
    Ok(found)
}

async fn repair_found(
    archive: &Archive,
    chain: &ChainSettings,
    range: BlockRange,
    args: &RepairRange,
) -> Result<Repaired> {
    let found = find(archive, chain, range, args).await?;
    if found.objects.is_empty() && found.less_proven.is_empty() {
        return Ok((Vec::new(), found));
    }
    let source = open_source(chain).await?;
    let filler = Filler {
        chain,
        archive,
        source: &source,
    };
    let (repaired, failed) = repair_all(&filler, found).await?;
    settle(archive).await?;
    // Nothing is called whole that was not read.
    let mut left = find(archive, chain, range, args).await?;
    for damaged in &mut left.objects {
        let mut failed = failed.iter();
        if let Some(why) = failed.find(|one| one.object.name == damaged.object.name) {
            damaged.reason.clone_from(&why.reason);
        }
    }
    Ok((repaired, left))
}

/// Rebuilds objects: segments first, since packs are compared with them and runs made from them.
/// What cannot be repaired is left as it is and returned with the reason.
async fn repair_all(
    filler: &Filler<'_>,
    found: Found,
) -> Result<(Vec<DamagedObject>, Vec<DamagedObject>)> {
    let damaged = found.objects.iter();
    let damaged = damaged.filter(|one| !found.other.contains(&one.object.name));
    let damaged: Vec<StoredObject> = damaged.map(|one| one.object.clone()).collect();
    let mut all = found.objects;
    let known = |one: &DamagedObject| all.iter().any(|known| known.object.name == one.object.name);
    let raised = found.less_proven.into_iter();
    let raised: Vec<DamagedObject> = raised.filter(|one| !known(one)).collect();
    all.extend(raised);
    all.sort_by_key(|one| match one.object.sort {
        ObjectSort::Segment => 0,
        ObjectSort::Pack => 1,
        ObjectSort::Run => 2,
    });
    let (mut repaired, mut failed) = (Vec::new(), Vec::new());
    for one in all {
        if !filler.archive.names(&one.object) {
            // A repaired segment may have made a run needless; all else was replaced with its neighbours.
            if one.object.sort != ObjectSort::Run {
                repaired.push(one);
            }
            continue;
        }
        let done = if found.other.contains(&one.object.name) {
            renew(filler, &one, &damaged).await
        } else {
            repair_one(filler, &one, &damaged).await
        };
        match done {
            Ok(()) => {
                let object = &one.object.name;
                tracing::info!(chain = %filler.chain.name, %object, "rebuilt");
                repaired.push(one);
            }
            Err(error) => {
                let reason = format!("{}; not repaired: {error}", one.reason);
                tracing::warn!(chain = %filler.chain.name, object = %one.object.name, %error, "not repaired");
                failed.push(DamagedObject { reason, ..one });
            }
        }
    }
    Ok((repaired, failed))
}

fn audit_repair(damaged: &DamagedObject) -> AuditEntry {
    let DamagedObject { object, reason } = damaged;
    audit("repair", &format!("{}: {reason}", object.name))
}

/// Rebuilds an object by itself, or with those around it where its content changes.
async fn repair_one(
    filler: &Filler<'_>,
    one: &DamagedObject,
    damaged: &[StoredObject],
) -> Result<(), FollowError> {
    let (archive, object) = (filler.archive, &one.object);
    if object.sort == ObjectSort::Run {
        return Ok(archive.rebuild_run(object, audit_repair(one)).await?);
    }
    let begin = || archive.repair(object, audit_repair(one));
    match fetch(filler, object, begin).await {
        Err(FollowError::Archive(error @ ArchiveError::OtherContent { .. })) => {
            tracing::warn!(chain = %filler.chain.name, object = %object.name, %error, "object does not fit alone, replacing segments and packs together");
            renew(filler, one, damaged).await
        }
        done => done,
    }
}

/// Replaces the segments and packs that hold blocks of an object, together.
async fn renew(
    filler: &Filler<'_>,
    one: &DamagedObject,
    damaged: &[StoredObject],
) -> Result<(), FollowError> {
    let archive = filler.archive;
    let begin = || archive.repair_together(&one.object, damaged, audit_repair(one));
    let planned = begin()?;
    let object = StoredObject {
        range: planned.range(),
        scope: planned.scope().clone(),
        ..one.object.clone()
    };
    fetch(filler, &object, begin).await
}

/// Fetches the blocks of an object, proven as far as they were, and finishes a fill with them.
async fn fetch(
    filler: &Filler<'_>,
    object: &StoredObject,
    begin: impl Fn() -> Result<Fill, ArchiveError> + Send + Sync,
) -> Result<(), FollowError> {
    let held = filler.archive.highest_level(object);
    let demanded = Proof::demanded(filler.chain.level);
    let want = Want {
        datasets: object.datasets,
        scope: object.scope.clone(),
        // Endpoints beside a Portal prove more than is demanded of both.
        proof: held.map_or(demanded, |held| held.higher(demanded)),
    };
    let progress = Progress::of_command("fetching", &filler.chain.name, Unit::Blocks);
    let mut filling = Filling::new(progress, object.range.len(), &|| {});
    filler
        .rebuild(object.range, &want, begin, &mut filling)
        .await
}

fn print_repaired(
    chain: &ChainSettings,
    range: BlockRange,
    args: &RepairRange,
    (repaired, left): (&[DamagedObject], &Found),
) -> Result<()> {
    let (from, to) = (range.start, range.end - 1);
    if args.wanted.json {
        let answer = json!({
            "chainId": ChainId(chain.chain_id),
            "from": from,
            "to": to,
            "dryRun": args.dry_run,
            "repaired": repaired.iter().map(object_json).collect::<Vec<_>>(),
            // Its name before, for one release.
            "mended": repaired.iter().map(object_json).collect::<Vec<_>>(),
            "findings": left.blocks.iter().map(finding_json).collect::<Vec<_>>(),
            "objects": left.objects.iter().map(object_json).collect::<Vec<_>>(),
            "notCompared": not_compared_json(left),
        });
        print_json(&answer)?;
        return Ok(());
    }
    for DamagedObject { object, reason } in repaired {
        let (from, to) = (object.range.start, object.range.end - 1);
        println!(
            "  rebuilt: {} (blocks {from} to {to}), was: {reason}",
            object.name
        );
    }
    let (repaired, count) = (repaired.len(), left.objects.len() + left.blocks.len());
    match (left.is_empty(), args.dry_run) {
        (true, _) => println!("blocks {from} to {to} are whole; {repaired} objects were rebuilt"),
        (false, true) => println!("blocks {from} to {to} are not whole, {count} findings:"),
        (false, false) => println!("blocks {from} to {to} are still not whole, {count} findings:"),
    }
    show(left);
    Ok(())
}

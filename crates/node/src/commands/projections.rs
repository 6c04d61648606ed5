//! What operators do with projections: `db`, `projection`, `jobs`, `locks`, `partitions`.

use anyhow::{Context as _, Result, ensure};
use chronolith_projection::jobs::{self, ATTEMPTS_MAX, JobReport};
use chronolith_projection::leases::{self, LeaseKind};
use chronolith_projection::{
    ChainState, Database, JOB_BLOCKS, Month, Passwords, partitions, set_up,
};
use serde::Serialize;
use serde_json::json;

use super::anew;
use super::state::chosen;
use crate::cli::{
    DbCommand, JobsCommand, LocksCommand, PartitionsCommand, ProjectionAct, ProjectionCommand,
    Wanted,
};
use crate::clock::now;
use crate::environment::variable;
use crate::exit::Exit;
use crate::projecting::{database_of, who};
use crate::settings::Settings;

/// `db`. The settings file is needed only where it says what is not said otherwise.
pub(crate) async fn db(settings: Result<Settings>, what: &DbCommand) -> Result<Exit> {
    match what {
        DbCommand::Init { admin_url, json } => {
            let given = admin_url.clone().or_else(|| variable("PG_ADMIN_URL"));
            let given = given.or_else(|| variable("PG_URL"));
            let url = match given {
                Some(url) => url,
                None => {
                    let set = settings?.database.writer;
                    let set = set.context(
                        "no database is named: give --admin-url, PG_ADMIN_URL or PG_URL, such as \
                         postgres://postgres:password@127.0.0.1:5432/chronolith",
                    )?;
                    set.0
                }
            };
            init(&url, *json).await
        }
        DbCommand::Status(wanted) => status(&settings?, wanted).await,
    }
}

async fn init(url: &str, json: bool) -> Result<Exit> {
    let passwords = Passwords {
        writer: variable("PG_WRITER_PASSWORD"),
        reader: variable("PG_READER_PASSWORD"),
    };
    let done = set_up(url, &passwords).await.context("db init")?;
    if json {
        return print_json(&done);
    }
    for role in &done.created_roles {
        println!("made the role {role}");
    }
    for migration in &done.applied {
        println!("applied {migration}");
    }
    println!("the database is ready, schema version {}", done.version);
    Ok(Exit::Done)
}

async fn status(settings: &Settings, wanted: &Wanted) -> Result<Exit> {
    let database = database_of(settings)?;
    database.check_version().await?;
    let states = chronolith_projection::state(&database, chain_of(settings, wanted)?).await?;
    if wanted.json {
        let version = chronolith_projection::latest_version();
        return print_json(&json!({ "schemaVersion": version, "chains": states }));
    }
    println!(
        "the database answers, schema version {}",
        chronolith_projection::latest_version()
    );
    states.iter().for_each(print_state);
    Ok(Exit::Done)
}

/// `projection`.
pub(crate) async fn projection(settings: &Settings, what: &ProjectionCommand) -> Result<Exit> {
    let database = database_of(settings)?;
    match what {
        ProjectionCommand::State(wanted) => status(settings, wanted).await,
        ProjectionCommand::Resume(act) => {
            let chain = settings.chain(act.wanted.chain.as_deref())?;
            let mut resumed = Vec::new();
            for name in names(&database, chain.chain_id, act).await? {
                let id = chain.chain_id;
                if chronolith_projection::resume(&database, id, &name, &who()).await? {
                    resumed.push(name);
                }
            }
            let line = match resumed.as_slice() {
                [] => format!("{}: no projection stood still", chain.name),
                all => format!("{}: {} goes on", chain.name, all.join(", ")),
            };
            let told = json!({ "chainId": chain.chain_id, "resumed": resumed });
            tell(&act.wanted, &told, &line)
        }
        ProjectionCommand::Rewind(act) => anew::rewind(settings, act).await,
        ProjectionCommand::Reset { reason, act } => anew::reset(settings, act, reason).await,
        ProjectionCommand::Replay { from, to, act } => {
            let chain = settings.chain(act.wanted.chain.as_deref())?;
            ensure!(from <= to, "--to {to} is below --from {from}");
            let blocks = chain.fees.as_ref().and_then(|fees| fees.job_blocks);
            let blocks = blocks.unwrap_or(JOB_BLOCKS);
            let mut made = 0;
            for name in names(&database, chain.chain_id, act).await? {
                let of = (chain.chain_id, name.as_str());
                made += jobs::enqueue(&database, of, (*from, *to), blocks).await?;
            }
            let line = format!(
                "{}: {made} jobs; `chronolith run` or `chronolith work` works on them",
                chain.name
            );
            tell(
                &act.wanted,
                &json!({ "chainId": chain.chain_id, "jobs": made }),
                &line,
            )
        }
    }
}

/// The projection that is meant, or all of the chain.
async fn names(database: &Database, chain: u64, act: &ProjectionAct) -> Result<Vec<String>> {
    let states = chronolith_projection::state(database, Some(chain)).await?;
    let known = states.into_iter().flat_map(|state| state.projections);
    let known: Vec<String> = known.map(|one| one.projection).collect();
    match &act.projection {
        None => Ok(known),
        Some(name) => {
            let all = known.join(", ");
            ensure!(
                known.contains(name),
                "chain {chain} has no projection {name}; it has: {all}"
            );
            Ok(vec![name.clone()])
        }
    }
}

fn print_state(chain: &ChainState) {
    let number =
        |block: Option<i64>| block.map_or("none yet".to_owned(), |block| block.to_string());
    println!("{} ({})", chain.name, chain.chain_id);
    println!("  seen       {}", number(chain.last_seen_block));
    println!("  confirmed  through {}", number(chain.last_safe_block));
    println!(
        "  in doubt   {} blocks with rows; {} were dropped",
        chain.pending_blocks, chain.dropped_blocks
    );
    for one in &chain.projections {
        let whole = match one.whole_through {
            Some(through) => format!("whole from {} through {through}", one.start_block),
            None => format!("nothing of {} and above yet", one.start_block),
        };
        println!("  {:<10} {whole}; {} jobs", one.projection, one.jobs);
        if one.dead_jobs > 0 {
            println!(
                "             {} jobs were given up: `chronolith jobs list`",
                one.dead_jobs
            );
        }
        if one.quarantined > 0 {
            println!(
                "             {} logs could not be decoded: table quarantine",
                one.quarantined
            );
        }
        if let Some(reason) = &one.paused_reason {
            let detail = one.paused_detail.as_deref().unwrap_or_default();
            println!("             STANDS STILL ({reason}): {detail}");
        }
    }
}

/// `jobs`.
pub(crate) async fn jobs(settings: &Settings, what: &JobsCommand) -> Result<Exit> {
    let database = database_of(settings)?;
    match what {
        JobsCommand::List(wanted) => {
            let all = jobs::list(&database, chain_of(settings, wanted)?).await?;
            if wanted.json {
                return print_json(&all);
            }
            if all.is_empty() {
                println!("no job is on its way");
                return Ok(Exit::Done);
            }
            println!(
                "{:>8} {:>10} {:<6} {:>12} {:>12} {:<10} {:>5}",
                "job", "chain", "of", "from", "to", "status", "tries"
            );
            for job in &all {
                println!(
                    "{:>8} {:>10} {:<6} {:>12} {:>12} {:<10} {:>5}",
                    job.id,
                    job.chain_id,
                    job.projection,
                    job.from_block,
                    job.to_block,
                    job.status,
                    job.attempts
                );
            }
            Ok(Exit::Done)
        }
        JobsCommand::Retry { id, json } => {
            let retried = jobs::retry(&database, *id, &who()).await?;
            if *json {
                return print_json(&json!({ "retried": retried }));
            }
            println!("{retried} jobs are tried anew");
            Ok(Exit::Done)
        }
        JobsCommand::Explain { id, json } => {
            let job = jobs::find(&database, *id).await?;
            let job =
                job.with_context(|| format!("there is no job {id}: it is done, or never was"))?;
            if *json {
                return print_json(&job);
            }
            println!("{}", explain(&job));
            Ok(Exit::Done)
        }
        JobsCommand::Audit(wanted) => audit(&database, chain_of(settings, wanted)?, wanted).await,
    }
}

async fn audit(database: &Database, chain: Option<u64>, wanted: &Wanted) -> Result<Exit> {
    let gaps = jobs::audit_gaps(database, chain).await?;
    for gap in &gaps {
        let of = (gap.chain_id as u64, gap.projection.as_str());
        let range = (gap.from_block as u64, gap.to_block as u64);
        jobs::enqueue(database, of, range, 10_000).await?;
    }
    if wanted.json {
        return print_json(&gaps);
    }
    if gaps.is_empty() {
        println!("every block below the cursors is projected or on its way");
        return Ok(Exit::Done);
    }
    for gap in &gaps {
        println!(
            "chain {}, {}: nobody has blocks {} to {}; they are jobs now. Please report this",
            gap.chain_id, gap.projection, gap.from_block, gap.to_block
        );
    }
    Ok(Exit::Failed)
}

fn explain(job: &JobReport) -> String {
    let range = format!(
        "job {}: blocks {} to {} of chain {}, {}, done below {}",
        job.id, job.from_block, job.to_block, job.chain_id, job.projection, job.next_block
    );
    let error = job.error.as_deref().unwrap_or("nothing is known");
    let how = match job.status.as_str() {
        "processing" => format!(
            "{} works on it (attempt {}); others may take it in {:.0} s",
            job.locked_by.as_deref().unwrap_or("somebody"),
            job.attempts,
            job.lock_seconds.unwrap_or(0.0).max(0.0)
        ),
        "failed" => format!(
            "attempt {} of {ATTEMPTS_MAX} failed: {error}; it is tried again in {:.0} s",
            job.attempts, job.retry_in_seconds
        ),
        "dead" => format!(
            "it failed {} times and is not tried any more: {error}. When the cause is gone, run \
             `chronolith jobs retry {}`",
            job.attempts, job.id
        ),
        _ => "it waits for a worker: `chronolith run` or `chronolith work`".to_owned(),
    };
    format!("{range}\n{how}")
}

/// `locks`.
pub(crate) async fn locks(settings: &Settings, what: &LocksCommand) -> Result<Exit> {
    let database = database_of(settings)?;
    match what {
        LocksCommand::List(wanted) => {
            let all = leases::list(&database, chain_of(settings, wanted)?).await?;
            if wanted.json {
                return print_json(&all);
            }
            for lease in &all {
                let holder = lease.holder.as_deref().unwrap_or("nobody");
                println!(
                    "chain {} {:<9} {holder}, for {:.0} s (epoch {}), ends in {:.0} s",
                    lease.chain_id,
                    lease.kind,
                    lease.age_seconds,
                    lease.epoch,
                    lease.expires_in_seconds
                );
            }
            Ok(Exit::Done)
        }
        LocksCommand::Release { kind, wanted } => {
            let chain = settings.chain(wanted.chain.as_deref())?;
            let kind: LeaseKind = kind.parse()?;
            let released = leases::release(&database, chain.chain_id, kind, &who()).await?;
            let line = match released {
                true => format!("{}: the {kind} lock is free", chain.name),
                false => format!("{}: nobody held the {kind} lock", chain.name),
            };
            let told =
                json!({ "chainId": chain.chain_id, "type": kind.name(), "released": released });
            tell(wanted, &told, &line)
        }
    }
}

/// `partitions`.
pub(crate) async fn partitions(settings: &Settings, what: &PartitionsCommand) -> Result<Exit> {
    let database = database_of(settings)?;
    match what {
        PartitionsCommand::Create { month, wanted } => {
            let month: Month = month.parse()?;
            let chains = chosen(settings, wanted)?;
            let chains: Vec<u64> = chains.iter().map(|chain| chain.chain_id).collect();
            let made = partitions::create(&database, &chains, month).await?;
            let line = format!("{} partitions were made for {month}", made.len());
            tell(
                wanted,
                &json!({ "month": month.to_string(), "created": made }),
                &line,
            )
        }
        PartitionsCommand::Prune { dry_run, json } => {
            let pruned = partitions::prune(&database, now(), *dry_run).await?;
            if *json {
                return print_json(&json!({ "dryRun": dry_run, "partitions": pruned }));
            }
            if pruned.is_empty() {
                println!(
                    "no partition is older than {} months",
                    partitions::MONTHS_KEPT
                );
            }
            for one in &pruned {
                let outcome = match (&one.reason, dry_run) {
                    (Some(reason), _) => format!("kept: {reason}"),
                    (None, true) => "would be removed".to_owned(),
                    (None, false) => "removed".to_owned(),
                };
                println!("{} ({} rows): {outcome}", one.partition, one.rows);
            }
            Ok(Exit::Done)
        }
    }
}

pub(super) fn chain_of(settings: &Settings, wanted: &Wanted) -> Result<Option<u64>> {
    let chain = wanted.chain.as_deref();
    let chain = chain.map(|name| settings.chain(Some(name))).transpose()?;
    Ok(chain.map(|chain| chain.chain_id))
}

pub(super) fn print_json(value: &impl Serialize) -> Result<Exit> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(Exit::Done)
}

/// The answer in the form that was asked for.
pub(super) fn tell(wanted: &Wanted, told: &serde_json::Value, line: &str) -> Result<Exit> {
    match wanted.json {
        true => print_json(told),
        false => {
            println!("{line}");
            Ok(Exit::Done)
        }
    }
}

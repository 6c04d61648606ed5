//! Operations on projections by command: `db`, `projection`, `jobs`, `locks`, `partitions`, `versions`.

use anyhow::{Context as _, Result};
use chronolith_projection::jobs::{Gap, JobReport};
use chronolith_projection::leases::LeaseReport;
use chronolith_projection::{ChainState, Passwords, partitions, set_up};
use chronolith_projection_adfs::KnownVersion;
use chronolith_serve::admin::operation::ProjectionOperation as Operation;

use super::output::print_json;
use super::projection_reset;
use crate::cli::{DbCommand, ProjectionCommand, ProjectionRequest};
use crate::control::projection::{Outcome, ProjectionOperator};
use crate::environment::variable;
use crate::exit::Exit;
use crate::projecting::{database_of, who};
use crate::settings::Settings;

/// `db`. The settings file is needed only where neither a flag nor the environment names the database.
pub(crate) async fn db(settings: Result<Settings>, command: DbCommand) -> Result<Exit> {
    match command {
        DbCommand::Init { admin_url, json } => {
            let given = admin_url.or_else(|| variable("PG_ADMIN_URL"));
            let url = match given.or_else(|| variable("PG_URL")) {
                Some(url) => url,
                None => {
                    let set = settings?.database.writer.context(
                        "no database is named: give --admin-url, PG_ADMIN_URL or PG_URL, such as \
                         postgres://postgres:password@127.0.0.1:5432/chronolith",
                    )?;
                    set.0
                }
            };
            init(&url, json).await
        }
        DbCommand::Status(request) => {
            perform(&settings?, request.into_operation(Operation::Status)).await
        }
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

/// `projection`.
pub(crate) async fn projection(settings: &Settings, command: ProjectionCommand) -> Result<Exit> {
    let request = match command {
        ProjectionCommand::State(request) => request.into_operation(Operation::Status),
        ProjectionCommand::Resume(request) => request.into_operation(Operation::Resume),
        ProjectionCommand::Replay(request) => request.into_operation(Operation::Replay),
        ProjectionCommand::Rewind(act) => return projection_reset::rewind(settings, &act).await,
        ProjectionCommand::Reset(reset) => return projection_reset::reset(settings, &reset).await,
    };
    perform(settings, request).await
}

/// Performs an operation on the database of the settings, and prints its result.
pub(crate) async fn perform(settings: &Settings, request: ProjectionRequest) -> Result<Exit> {
    let operator = ProjectionOperator {
        settings,
        database: &database_of(settings)?,
        operator: who(),
    };
    let outcome = operator.perform(request.operation).await?;
    if request.json {
        print_json(&outcome)?;
    } else {
        print(&outcome);
    }
    Ok(match outcome {
        Outcome::Gaps(gaps) if !gaps.is_empty() => Exit::Failed,
        _ => Exit::Done,
    })
}

fn print(outcome: &Outcome) {
    match outcome {
        Outcome::Status {
            schema_version,
            chains,
        } => {
            println!("the database answers, schema version {schema_version}");
            chains.iter().for_each(print_state);
        }
        Outcome::Resumed { chain, resumed, .. } if resumed.is_empty() => {
            println!("{chain}: no projection was paused");
        }
        Outcome::Resumed { chain, resumed, .. } => {
            println!("{chain}: {} resumed", resumed.join(", "));
        }
        Outcome::Replayed { chain, jobs, .. } => {
            println!("{chain}: {jobs} jobs; `chronolith run` or `chronolith work` works on them");
        }
        Outcome::Jobs(jobs) => print_jobs(jobs),
        Outcome::Explained { explanation, .. } => println!("{explanation}"),
        Outcome::Retried { retried } => println!("{retried} jobs are tried again"),
        Outcome::Gaps(gaps) => print_gaps(gaps),
        Outcome::Locks(locks) => locks.iter().for_each(print_lock),
        Outcome::Released {
            chain,
            kind,
            released,
            ..
        } => {
            if *released {
                println!("{chain}: the {kind} lock is free")
            } else {
                println!("{chain}: the {kind} lock was free already")
            }
        }
        Outcome::CreatedPartitions { month, created } => {
            println!("{} partitions were made for {month}", created.len());
        }
        Outcome::PrunedPartitions {
            dry_run,
            partitions,
        } => print_pruned(partitions, *dry_run),
        Outcome::Versions(versions) => print_versions(versions),
        Outcome::AddedVersion {
            chain,
            implementation,
            version,
            new,
            ..
        } => {
            let already = if *new { "" } else { " already" };
            println!("{chain}: {implementation} is version {version}{already}");
        }
        Outcome::RemovedVersion {
            chain,
            implementation,
            removed,
            ..
        } => {
            if *removed {
                println!("{chain}: {implementation} has no version any more")
            } else {
                println!("{chain}: {implementation} was not added here")
            }
        }
    }
}

fn print_state(chain: &ChainState) {
    let number =
        |block: Option<i64>| block.map_or("none yet".to_owned(), |block| block.to_string());
    println!("{} ({})", chain.name, chain.chain_id);
    println!("  seen       {}", number(chain.last_seen_block));
    println!("  confirmed  through {}", number(chain.last_safe_block));
    if let Some(version) = chain.version {
        println!("  version    {version}");
    }
    println!(
        "  in doubt   {} blocks with rows; {} were dropped",
        chain.pending_blocks, chain.dropped_blocks
    );
    for one in &chain.projections {
        let whole = match one.whole_through {
            Some(through) => format!("whole from {} through {through}", one.start_block),
            None => format!("nothing of {} and above yet", one.start_block),
        };
        println!(
            "  {:<10} {whole}, {} final blocks behind; {} jobs",
            one.projection, one.lag_blocks, one.jobs
        );
        if one.dead_jobs > 0 {
            println!(
                "             {} jobs failed permanently: `chronolith jobs list`",
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
            println!("             PAUSED ({reason}): {detail}");
        }
        if let Some(remedy) = &one.remedy {
            println!("             when the cause is gone: `{remedy}`");
        }
    }
}

fn print_jobs(all: &[JobReport]) {
    if all.is_empty() {
        println!("no job is on its way");
        return;
    }
    println!(
        "{:>8} {:>10} {:<6} {:>12} {:>12} {:<10} {:>5}",
        "job", "chain", "of", "from", "to", "status", "tries"
    );
    for job in all {
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
}

/// A gap is a defect of the program.
fn print_gaps(gaps: &[Gap]) {
    if gaps.is_empty() {
        println!("every block below the cursors is projected or on its way");
    }
    for gap in gaps {
        println!(
            "chain {}, {}: blocks {} to {} are missing; they are jobs now. Please report this",
            gap.chain_id, gap.projection, gap.from_block, gap.to_block
        );
    }
}

fn print_lock(lease: &LeaseReport) {
    let holder = lease.holder.as_deref().unwrap_or("not held");
    println!(
        "chain {} {:<9} {holder}, for {:.0} s (epoch {}), ends in {:.0} s",
        lease.chain_id, lease.kind, lease.age_seconds, lease.epoch, lease.expires_in_seconds
    );
}

fn print_pruned(partitions: &[partitions::Pruned], dry_run: bool) {
    if partitions.is_empty() {
        println!(
            "no partition is older than {} months",
            partitions::MONTHS_KEPT
        );
    }
    for one in partitions {
        let outcome = match (&one.reason, dry_run) {
            (Some(reason), _) => format!("kept: {reason}"),
            (None, true) => "would be removed".to_owned(),
            (None, false) => "removed".to_owned(),
        };
        println!("{} ({} rows): {outcome}", one.partition, one.rows);
    }
}

fn print_versions(versions: &[KnownVersion]) {
    if versions.is_empty() {
        println!("no implementation was seen or added");
    }
    for one in versions {
        let since = match one.activated_block {
            Some(block) => format!("since block {block}"),
            None => "not seen yet".to_owned(),
        };
        let by = one.operator.as_deref();
        let by = by.map_or_else(String::new, |by| format!(", added by {by}"));
        println!(
            "chain {}: {} is version {}, {since}{by}",
            one.chain_id, one.implementation, one.version
        );
    }
}

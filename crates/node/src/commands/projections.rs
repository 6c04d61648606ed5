//! What operators do with projections: `db`, `projection`, `jobs`, `locks`, `partitions`.

use anyhow::{Context as _, Result};
use chronolith_projection::jobs::{Gap, JobReport};
use chronolith_projection::{ChainState, Database, Passwords, partitions, set_up};
use serde::Serialize;

use super::anew;
use crate::cli::{
    DbCommand, JobsCommand, LocksCommand, PartitionsCommand, ProjectionCommand, Wanted,
};
use crate::environment::variable;
use crate::exit::Exit;
use crate::projecting::{database_of, who};
use crate::projection_acts::ProjectionActs;
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

/// Does acts on the database of the settings.
pub(super) struct ByCommand {
    database: Database,
}

impl ByCommand {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let database = database_of(settings)?;
        Ok(Self { database })
    }

    pub(super) fn acts<'a>(&'a self, settings: &'a Settings) -> ProjectionActs<'a> {
        ProjectionActs {
            settings,
            database: &self.database,
            operator: who(),
        }
    }
}

async fn status(settings: &Settings, wanted: &Wanted) -> Result<Exit> {
    let by = ByCommand::new(settings)?;
    let told = by.acts(settings).status(wanted.chain.as_deref()).await?;
    if wanted.json {
        return print_json(&told);
    }
    println!(
        "the database answers, schema version {}",
        told.schema_version
    );
    told.chains.iter().for_each(print_state);
    Ok(Exit::Done)
}

/// `projection`.
pub(crate) async fn projection(settings: &Settings, what: &ProjectionCommand) -> Result<Exit> {
    let by = ByCommand::new(settings)?;
    let acts = by.acts(settings);
    match what {
        ProjectionCommand::State(wanted) => status(settings, wanted).await,
        ProjectionCommand::Resume(act) => {
            let (chain, name) = (act.wanted.chain.as_deref(), act.projection.as_deref());
            let told = acts.resume(chain, name).await?;
            let line = match told.resumed.as_slice() {
                [] => format!("{}: no projection stood still", told.name),
                all => format!("{}: {} goes on", told.name, all.join(", ")),
            };
            tell(&act.wanted, &told, &line)
        }
        ProjectionCommand::Rewind(act) => anew::rewind(settings, act).await,
        ProjectionCommand::Reset { reason, act } => anew::reset(settings, act, reason).await,
        ProjectionCommand::Replay { from, to, act } => {
            let (chain, name) = (act.wanted.chain.as_deref(), act.projection.as_deref());
            let told = acts.replay(chain, name, (*from, *to)).await?;
            let line = format!(
                "{}: {} jobs; `chronolith run` or `chronolith work` works on them",
                told.name, told.jobs
            );
            tell(&act.wanted, &told, &line)
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
        if let Some(remedy) = &one.remedy {
            println!("             when the cause is gone: `{remedy}`");
        }
    }
}

/// `jobs`.
pub(crate) async fn jobs(settings: &Settings, what: &JobsCommand) -> Result<Exit> {
    let by = ByCommand::new(settings)?;
    let acts = by.acts(settings);
    match what {
        JobsCommand::List(wanted) => {
            let all = acts.jobs(wanted.chain.as_deref()).await?;
            match wanted.json {
                true => print_json(&all),
                false => {
                    print_jobs(&all);
                    Ok(Exit::Done)
                }
            }
        }
        JobsCommand::Retry { id, json } => {
            let told = acts.retry(*id).await?;
            if *json {
                return print_json(&told);
            }
            println!("{} jobs are tried anew", told.retried);
            Ok(Exit::Done)
        }
        JobsCommand::Explain { id, json } => {
            let told = acts.explain(*id).await?;
            if *json {
                return print_json(&told);
            }
            println!("{}", told.explanation);
            Ok(Exit::Done)
        }
        JobsCommand::Audit(wanted) => {
            let gaps = acts.audit(wanted.chain.as_deref()).await?;
            print_gaps(&gaps, wanted)
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

/// A gap is a defect, in whatever form it is told.
fn print_gaps(gaps: &[Gap], wanted: &Wanted) -> Result<Exit> {
    if wanted.json {
        print_json(&gaps)?;
    } else if gaps.is_empty() {
        println!("every block below the cursors is projected or on its way");
    } else {
        for gap in gaps {
            println!(
                "chain {}, {}: nobody has blocks {} to {}; they are jobs now. Please report this",
                gap.chain_id, gap.projection, gap.from_block, gap.to_block
            );
        }
    }
    Ok(match gaps.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// `locks`.
pub(crate) async fn locks(settings: &Settings, what: &LocksCommand) -> Result<Exit> {
    let by = ByCommand::new(settings)?;
    let acts = by.acts(settings);
    match what {
        LocksCommand::List(wanted) => {
            let all = acts.locks(wanted.chain.as_deref()).await?;
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
            let told = acts.release(wanted.chain.as_deref(), kind).await?;
            let (name, kind) = (&told.name, told.kind);
            let line = match told.released {
                true => format!("{name}: the {kind} lock is free"),
                false => format!("{name}: nobody held the {kind} lock"),
            };
            tell(wanted, &told, &line)
        }
    }
}

/// `partitions`.
pub(crate) async fn partitions(settings: &Settings, what: &PartitionsCommand) -> Result<Exit> {
    let by = ByCommand::new(settings)?;
    let acts = by.acts(settings);
    match what {
        PartitionsCommand::Create { month, wanted } => {
            let chain = wanted.chain.as_deref();
            let told = acts.create_partitions(chain, month).await?;
            let line = format!(
                "{} partitions were made for {}",
                told.created.len(),
                told.month
            );
            tell(wanted, &told, &line)
        }
        PartitionsCommand::Prune { dry_run, json } => {
            let told = acts.prune(*dry_run).await?;
            if *json {
                return print_json(&told);
            }
            if told.partitions.is_empty() {
                println!(
                    "no partition is older than {} months",
                    partitions::MONTHS_KEPT
                );
            }
            for one in &told.partitions {
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

pub(super) fn print_json(value: &impl Serialize) -> Result<Exit> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(Exit::Done)
}

/// The answer in the form that was asked for.
pub(super) fn tell(wanted: &Wanted, told: &impl Serialize, line: &str) -> Result<Exit> {
    match wanted.json {
        true => print_json(told),
        false => {
            println!("{line}");
            Ok(Exit::Done)
        }
    }
}

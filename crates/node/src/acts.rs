//! What an operator asks of a chain that is followed. It is done between two rounds: a round writes
//! to the archive, and what it knows above it must not change under it.

use std::sync::Arc;

use anyhow::ensure;
use chronolith_archive::Archive;
use chronolith_archive::AuditEntry;
use chronolith_archive::GcMode;
use chronolith_archive::Health;
use chronolith_follower::clock::now;
use chronolith_follower::control::Closed;
use chronolith_follower::ranges::Ranges;
use chronolith_projection::TakenBack;
use serde_json::{Value, json};

use crate::projecting::take_back;
use crate::running::RunningChain;
use crate::settings::ChainSettings;

/// An act of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ChainAct {
    Resume {
        reason: String,
        undecided: Undecided,
    },
    Prune {
        below: u64,
        reason: String,
    },
    Rewind {
        to: u64,
        reason: String,
    },
    Gc {
        dry_run: bool,
    },
    RetryRange {
        id: u64,
        reason: String,
    },
}

/// What becomes of objects that a rebuild of the state left undecided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Undecided {
    Hold,
    Drop,
}

impl From<bool> for Undecided {
    fn from(drop: bool) -> Self {
        match drop {
            true => Self::Drop,
            false => Self::Hold,
        }
    }
}

type Done = Result<Value, String>;

/// What to do where a chain's task has ended and others keep the program running.
const NOT_FOLLOWED: &str =
    "the chain is not followed any more: stop the node, and run the command again";

/// Performs an act between two rounds of a chain, and waits until it is done.
pub(crate) async fn ask(chain: &Arc<RunningChain>, act: ChainAct) -> Done {
    let job = {
        let chain = chain.clone();
        async move { perform(&chain, act).await }
    };
    let closed = |Closed| Err(NOT_FOLLOWED.to_owned());
    chain.control.run(job).await.unwrap_or_else(closed)
}

async fn perform(chain: &RunningChain, act: ChainAct) -> Done {
    tracing::info!(chain = %chain.settings.name, ?act, "asked by an operator");
    let archive = &chain.archive;
    let before = archive.health().head.map(|head| head.number);
    let chain_id = chain.settings.chain_id;
    let done = match &act {
        ChainAct::Resume { reason, undecided } => {
            resume((archive, &chain.settings.name), reason, *undecided).await?;
            Ok(())
        }
        ChainAct::Prune { below, reason } => {
            let pruned = prune(&chain.settings, archive, *below, reason).await;
            chain.note_moved();
            return pruned.map_err(|error| format!("{error:#}"));
        }
        ChainAct::Rewind { to, reason } => archive.rewind(*to, audit("rewind", reason)).await,
        ChainAct::Gc { dry_run } => {
            let how = match dry_run {
                true => GcMode::DryRun,
                false => GcMode::Remove,
            };
            let report = archive.collect_garbage(how).await;
            let report = report.map_err(|error| error.to_string())?;
            let (orphans, removed) = (report.orphans.len(), report.removed);
            let held = report.held;
            return Ok(
                json!({ "chainId": chain_id, "orphans": orphans, "removed": removed, "held": held }),
            );
        }
        ChainAct::RetryRange { id, reason } => {
            let ranges = Ranges::of(archive, &chain.ran).await;
            if let Some(why) = ranges.not_failed(&chain.settings.name, *id) {
                return Err(why);
            }
            let tried = archive.retry_range(*id, audit("range retry", reason)).await;
            tried.map_err(|error| error.to_string())?;
            // Whoever does maintenance goes on with it.
            chain.note_moved();
            return Ok(json!({ "chainId": chain_id, "id": id }));
        }
    };
    // Also where it failed: the archive may have moved.
    let reset = chain.reset_window();
    done.map_err(|error| error.to_string())?;
    reset.map_err(|error| error.to_string())?;
    let head = archive.health().head.map(|head| head.number);
    let told = json!({ "chainId": chain_id, "head": head, "headBefore": before });
    if let (ChainAct::Rewind { reason, .. }, Some(database)) = (&act, chain.projected_into.get()) {
        let taken = take_back(database, archive, &chain.settings, reason).await;
        let taken = taken.map_err(|error| half_done(&chain.settings.name, &error))?;
        return Ok(with_database(told, &taken));
    }
    Ok(told)
}

/// Ends a halt. What a rebuild left undecided goes away only where an operator says so, and then also
/// where there is no halt any more.
pub(crate) async fn resume(
    (archive, chain): (&Archive, &str),
    reason: &str,
    undecided: Undecided,
) -> Result<(), String> {
    let told = |error: chronolith_archive::Error| error.to_string();
    match check_halted(archive, chain) {
        Err(_) if undecided == Undecided::Drop => {}
        halted => {
            halted?;
            let resumed = archive.resume(audit("resume", reason)).await;
            resumed.map_err(told)?;
        }
    }
    match undecided {
        Undecided::Hold => Ok(()),
        Undecided::Drop => {
            let dropped = archive.drop_undecided(audit("drop undecided", reason));
            dropped.await.map_err(told)
        }
    }
}

/// Lets go of the oldest blocks. Refused while the settings want them: they would be fetched again.
pub(crate) async fn prune(
    settings: &ChainSettings,
    archive: &Archive,
    below: u64,
    reason: &str,
) -> anyhow::Result<Value> {
    let (name, start) = (&settings.name, settings.start_block);
    ensure!(
        start >= below,
        "the settings want {name} from block {start} on, so what is pruned would be fetched again: \
         set startBlock to {below} or more first (a node that runs must be restarted with it)"
    );
    let pruned = archive.prune(below, audit("prune", reason)).await?;
    let covered = archive.health().covered;
    Ok(json!({
        "chainId": settings.chain_id,
        "below": below,
        "segments": pruned,
        "first": covered.map(|covered| covered.start),
    }))
}

/// An answer that tells of the database as well.
pub(crate) fn with_database(mut told: Value, taken: &TakenBack) -> Value {
    if let Some(told) = told.as_object_mut() {
        told.insert("database".to_owned(), json!(taken));
    }
    told
}

/// What to do where the archive was rewound and the database was not.
pub(crate) fn half_done(chain: &str, error: &anyhow::Error) -> String {
    format!(
        "the archive of {chain} was rewound; the database was not taken back ({error:#}), so no row is written until \
         `chronolith projection rewind --chain {chain} --reason …` is run"
    )
}

/// A line of the archive's record.
/// A halt must be there for `resume` to end it.
fn check_halted(archive: &Archive, chain: &str) -> Result<(), String> {
    match archive.health().health {
        Health::Halted(_) => Ok(()),
        _ => Err(format!("{chain} is not halted: there is nothing to resume")),
    }
}

/// A reason as it is recorded, with who gave it. Without a word it is none.
pub(crate) fn signed(reason: &str, by: Option<&str>) -> Result<String, String> {
    let (reason, by) = (reason.trim(), by.map(str::trim));
    if reason.is_empty() {
        return Err("the reason is empty: say why, it is recorded for those who look later".into());
    }
    Ok(match by.filter(|by| !by.is_empty()) {
        Some(by) => format!("{reason} (by {by})"),
        None => reason.to_owned(),
    })
}

/// Who runs this command, as far as the shell says.
pub(crate) fn user() -> Option<String> {
    let names = ["SUDO_USER", "USER", "LOGNAME"].into_iter();
    let mut names = names.filter_map(|name| std::env::var(name).ok());
    names.find(|name| !name.is_empty())
}

pub(crate) fn audit(act: &str, reason: &str) -> AuditEntry {
    AuditEntry {
        at: now(),
        act: format!("{act}: {reason}"),
    }
}

//! Executes operations on a followed chain between two rounds of its loop: a round writes to the archive, and
//! the blocks that it holds above the archive must not change under it.

use std::sync::Arc;

use anyhow::ensure;
use chronolith_archive::{Archive, AuditEntry, GcMode, Health};
use chronolith_follower::clock::now;
use chronolith_follower::control::Closed;
use chronolith_follower::ranges::Ranges;
use chronolith_projection::TakenBack;
use chronolith_serve::ChainId;
use chronolith_serve::admin::operation::{ChainOperation, Gc, Prune, Resume, RetryRange, Rewind};
use serde_json::{Value, json};

use crate::projecting::take_back;
use crate::running::RunningChain;
use crate::settings::ChainSettings;

pub(crate) fn gc_mode(dry_run: bool) -> GcMode {
    if dry_run {
        GcMode::DryRun
    } else {
        GcMode::Remove
    }
}

type Done = Result<Value, String>;

/// What to do where the task of a chain has ended while others keep the program running.
const NOT_FOLLOWED: &str =
    "the chain is not followed any more: stop the node, and run the command again";

/// Performs an operation between two rounds of a chain, and waits until it is done.
pub(crate) async fn submit(chain: &Arc<RunningChain>, operation: ChainOperation) -> Done {
    let job = {
        let chain = chain.clone();
        async move { perform(&chain, operation).await }
    };
    let closed = |Closed| Err(NOT_FOLLOWED.to_owned());
    chain.control.run(job).await.unwrap_or_else(closed)
}

async fn perform(chain: &RunningChain, operation: ChainOperation) -> Done {
    tracing::info!(chain = %chain.settings.name, ?operation, "operator request");
    let (archive, chain_id) = (&chain.archive, ChainId(chain.settings.chain_id));
    let reason = &operation.recorded_reason()?;
    match operation {
        ChainOperation::Resume(operation) => {
            let before = head(archive);
            resume(archive, &chain.settings.name, reason, &operation).await?;
            chain.reset_window().map_err(|error| error.to_string())?;
            Ok(json!({ "chainId": chain_id, "head": head(archive), "headBefore": before }))
        }
        ChainOperation::Prune(Prune { below, .. }) => {
            let pruned = prune(&chain.settings, archive, below, reason).await;
            chain.note_moved();
            pruned.map_err(|error| format!("{error:#}"))
        }
        ChainOperation::Rewind(Rewind { to, .. }) => rewind(chain, to, reason).await,
        ChainOperation::Gc(Gc { dry_run, .. }) => {
            let report = archive.collect_garbage(gc_mode(dry_run)).await;
            let report = report.map_err(|error| error.to_string())?;
            let (orphans, removed, held) = (report.orphans.len(), report.removed, report.held);
            Ok(json!({ "chainId": chain_id, "orphans": orphans, "removed": removed, "held": held }))
        }
        ChainOperation::RetryRange(RetryRange { id, .. }) => {
            let ranges = Ranges::of(archive, &chain.ran).await;
            if let Some(why) = ranges.not_failed(&chain.settings.name, id) {
                return Err(why);
            }
            let tried = archive.retry_range(id, audit("range retry", reason)).await;
            tried.map_err(|error| error.to_string())?;
            // Maintenance continues with it.
            chain.note_moved();
            Ok(json!({ "chainId": chain_id, "id": id }))
        }
    }
}

async fn rewind(chain: &RunningChain, to: u64, reason: &str) -> Done {
    let archive = &chain.archive;
    let before = head(archive);
    let rewound = archive.rewind(to, audit("rewind", reason)).await;
    // Also where it failed: the archive may have moved.
    let reset = chain.reset_window();
    rewound.map_err(|error| error.to_string())?;
    reset.map_err(|error| error.to_string())?;
    let chain_id = ChainId(chain.settings.chain_id);
    let done = json!({ "chainId": chain_id, "head": head(archive), "headBefore": before });
    let Some(database) = chain.projected_into.get() else {
        return Ok(done);
    };
    let taken = take_back(database, archive, &chain.settings, reason).await;
    let taken = taken.map_err(|error| half_done(&chain.settings.name, &error))?;
    Ok(with_database(done, &taken))
}

fn head(archive: &Archive) -> Option<u64> {
    archive.health().head.map(|head| head.number)
}

/// Ends a halt. What a rebuild left undecided is dropped only at an operator's request, which may also come
/// after the halt.
pub(crate) async fn resume(
    archive: &Archive,
    chain: &str,
    reason: &str,
    operation: &Resume,
) -> Result<(), String> {
    let message = |error: chronolith_archive::Error| error.to_string();
    if let Health::Halted(_) = archive.health().health {
        let resumed = archive.resume(audit("resume", reason)).await;
        resumed.map_err(message)?;
    } else if !operation.drop_undecided {
        return Err(format!("{chain} is not halted: there is nothing to resume"));
    }
    if operation.drop_undecided {
        let dropped = archive.drop_undecided(audit("drop undecided", reason));
        dropped.await.map_err(message)?;
    }
    Ok(())
}

/// Removes the oldest blocks. Refused while the settings include them: they would be fetched again.
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
        "chainId": ChainId(settings.chain_id),
        "below": below,
        "segments": pruned,
        "first": covered.map(|covered| covered.start),
    }))
}

/// Adds the result in the database to an answer.
pub(crate) fn with_database(mut answer: Value, taken: &TakenBack) -> Value {
    let fields = answer.as_object_mut();
    let fields = fields.expect("an answer of an operation is an object");
    fields.insert("database".to_owned(), json!(taken));
    answer
}

/// The message for an archive that was rewound while the database was not.
pub(crate) fn half_done(chain: &str, error: &anyhow::Error) -> String {
    format!(
        "the archive of {chain} was rewound; the database was not taken back ({error:#}), so no row is written until \
         `chronolith projection rewind --chain {chain} --reason …` is run"
    )
}

/// Who runs this command, as far as the shell says.
pub(crate) fn user() -> Option<String> {
    let names = ["SUDO_USER", "USER", "LOGNAME"].into_iter();
    let mut names = names.filter_map(|name| std::env::var(name).ok());
    names.find(|name| !name.is_empty())
}

/// A line of the archive's audit trail.
pub(crate) fn audit(act: &str, reason: &str) -> AuditEntry {
    AuditEntry {
        at: now(),
        act: format!("{act}: {reason}"),
    }
}

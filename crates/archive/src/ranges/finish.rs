//! The end of a range's life: verified, or failed until an operator lets it try again.

use chronolith_model::BlockRange;

use super::geometry::{FailedPhase, RangeFailure};
use super::journal::{Entry, Verified};
use super::status::range_statuses;
use crate::error::{Error, Result};
use crate::state::catalog::RunEntry;
use crate::state::record::AuditEntry;
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{Entry as Inspected, entries, open_pack};
use crate::write::edit::Edit;
use crate::write::publish::Applied;
use crate::write::writer::Writer;

impl Writer {
    /// Verifies the run of a range, and that its packs can be opened. With what it adds to the edit, the
    /// range is complete, if everything that was looked at is still there.
    pub(crate) async fn finish_range(
        &self,
        snapshot: &Snapshot,
        blocks: BlockRange,
        run: &RunEntry,
        edit: &mut Edit,
    ) -> Result<()> {
        for entry in entries(snapshot, &blocks) {
            edit.needs.push(entry.place().name.clone());
            if let Inspected::Pack(pack) = entry {
                open_pack(&self.view.objects, &pack).await?;
            }
        }
        let keys = self.verify_range(snapshot, blocks, run).await?;
        let geometry = self.settings.seal.geometry();
        let id = geometry.id_of(blocks.start).ok_or_else(|| {
            Error::Internal(format!("blocks {blocks} are verified and in no range"))
        })?;
        let verified = Verified {
            run: run.object.name.clone(),
            blocks,
            keys: keys.total(),
        };
        tracing::info!(
            chain = self.settings.chain.0,
            range = id,
            keys = verified.keys,
            "every hash of a range was found in its run"
        );
        edit.journal.push(Entry::Verified { id, verified });
        Ok(())
    }

    /// Records why the transition of a range cannot continue. Everything else does. An object that was
    /// named and is replaced by now is no reason.
    pub(crate) async fn fail_range(
        &self,
        id: u64,
        phase: FailedPhase,
        (object, cause, named): (&str, &str, bool),
        now: u64,
    ) -> Result<Applied> {
        let failure = RangeFailure {
            phase,
            object: object.to_owned(),
            cause: cause.to_owned(),
            at: Some(now).filter(|&now| now > 0),
        };
        let edit = Edit {
            needs: named.then(|| object.to_owned()).into_iter().collect(),
            journal: vec![Entry::Failed { id, failure }],
            now,
            ..Edit::default()
        };
        let applied = self.publisher.publish(edit).await?;
        if applied == Applied::Published {
            tracing::error!(
                event = "range_transition_failed",
                chain = self.settings.chain.0,
                range = id,
                phase = phase.name(),
                object,
                cause,
                "range transition failed"
            );
        }
        Ok(applied)
    }

    /// Lets the transition of a range run again. A run that was at fault is replaced in the same
    /// swap, so that lookups never miss it. Ingest continues: its blocks are after those of the range,
    /// and what a fill puts among them has a table of its own as long as nothing is merged.
    pub(crate) async fn retry_range(&self, id: u64, audit: AuditEntry) -> Result<()> {
        let _no_merges = self.maintenance.lock().await;
        let snapshot = self.publisher.settled().await?;
        let seal = &self.settings.seal;
        let statuses = range_statuses(&snapshot.state, &snapshot.catalog, seal.geometry(), seal);
        let failed = statuses.iter().any(|one| one.id == id && one.failed);
        let record = snapshot.catalog.journal.records.get(&id);
        let failure = record.and_then(|record| record.failure.as_ref());
        let Some(failure) = failure.filter(|_| failed) else {
            return Err(Error::Invalid(format!("range {id} did not fail")));
        };
        let mut edit = Edit {
            now: audit.at,
            audit: Some(audit),
            journal: vec![Entry::Retried { id }],
            ..Edit::default()
        };
        let mut runs = snapshot.catalog.runs.iter();
        if let Some(run) = runs.find(|run| run.object.name == failure.object) {
            self.replace_run(&snapshot, run, &mut edit).await?;
        }
        let dropped = "the range changed meanwhile: look at it again";
        self.publisher.publish_or(edit, dropped).await
    }
}

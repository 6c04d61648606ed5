//! Runs: tables from hash to block over many segments, so that a lookup reads few of them.

use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32};

use super::merge::Output;
use super::tables::{Source, merge_tables};
use crate::error::{Error, Result};
use crate::format::container::{ObjectKind, Section};
use crate::state::catalog::{PackContent, RunEntry, SegmentEntry};
use crate::write::pack::encode_summary;
use crate::write::publish::Uploading;
use crate::write::writer::Writer;

impl Writer {
    /// Makes the run of segments that are about to be merged, where they hold tables of their own.
    pub(crate) async fn run_of_segments(
        &self,
        inputs: &[Arc<SegmentEntry>],
        range: BlockRange,
    ) -> Result<Option<(RunEntry, Uploading)>> {
        // A run was made when they left the first tier.
        if inputs.iter().any(|input| input.tier > 1) {
            return Ok(None);
        }
        let objects = &self.view.objects;
        let mut open = Vec::with_capacity(inputs.len());
        for input in inputs {
            open.push(objects.open(&input.object).await?);
        }
        let last = inputs.last().expect("a merge has at least one input");
        let last_hash = last.facts.last_hash;
        let sources = open.into_iter().map(Source::segment);
        let sources = sources.collect::<Result<_>>()?;
        self.merge_tables(sources, (range, last_hash), 1)
            .await
            .map(Some)
    }

    /// Merges neighbouring runs into one of the next tier. They may overlap: of what two of them hold,
    /// one is kept.
    pub(crate) async fn merge_runs(
        &self,
        inputs: &[Arc<RunEntry>],
    ) -> Result<(RunEntry, Uploading)> {
        let objects = &self.view.objects;
        let mut sources = Vec::with_capacity(inputs.len());
        for input in inputs {
            let run = objects.open_run(&input.object).await?;
            sources.push(Source::run(run, input.range.start));
        }
        let first = inputs.iter().map(|input| input.range.start).min();
        let last = inputs.iter().max_by_key(|input| input.range.end);
        let (Some(first), Some(last)) = (first, last) else {
            return Err(Error::Invalid("no runs to merge".to_owned()));
        };
        let range = BlockRange::new(first, last.range.end);
        let tier = inputs.iter().map(|input| input.tier).max();
        let tier = tier.expect("merging nothing is refused above");
        // A range that is repaired again and again makes a run of runs each time.
        let tier = tier.saturating_add(1);
        self.merge_tables(sources, (range, last.last_hash), tier)
            .await
    }

    /// Makes a run of the first blocks of another.
    pub(crate) async fn trim_run(
        &self,
        run: &RunEntry,
        (range, last_hash): (BlockRange, Hash32),
    ) -> Result<(RunEntry, Uploading)> {
        let open = self.view.objects.open_run(&run.object).await?;
        let source = Source::run(open, run.range.start);
        self.merge_tables(vec![source], (range, last_hash), run.tier)
            .await
    }

    /// Merges tables over a range; entries after its end are left out.
    async fn merge_tables(
        &self,
        sources: Vec<Source>,
        (range, last_hash): (BlockRange, Hash32),
        tier: u8,
    ) -> Result<(RunEntry, Uploading)> {
        let objects = &self.view.objects;
        let uploading = self.publisher.name("run", range);
        let mut output = Output::create(objects, &uploading.name, ObjectKind::Run).await?;
        output.container.begin(Section::Hashes);
        let (directory, kept) = merge_tables(objects, sources, range, &mut output).await?;
        let container = &mut output.container;
        container.table(Section::HashDirectory, directory);
        let summary = encode_summary(&range, last_hash, &PackContent::NOTHING);
        container.table(Section::Summary, summary);
        let object = output.finish(&uploading.name).await?;
        objects.open_run(&object).await?;
        Ok((
            RunEntry {
                object,
                tier,
                range,
                last_hash,
                entries: kept,
            },
            uploading,
        ))
    }
}

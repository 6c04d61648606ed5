//! How the archive is, for people and probes.

use std::sync::Arc;

use chronolith_model::{BlockRange, BlockRef};

use crate::error::Result;
use crate::state::catalog::SegmentEntry;
use crate::state::record::{AuditEntry, Halt};
use crate::state::snapshot::Snapshot;

/// What state of health an archive is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    Good,
    /// There is no archive yet.
    Empty,
    /// Ingest waits for garbage to be collected; the reason in words.
    Throttled(String),
    /// Ingest is halted until an operator acts. Serving continues.
    Halted(Halt),
}

/// How the archive is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthReport {
    /// In one word.
    pub health: Health,
    /// The newest block of the live run.
    pub head: Option<BlockRef>,
    pub head_timestamp: Option<u64>,
    /// The covered blocks from the first one on, up to the first gap.
    pub covered: Option<BlockRange>,
    /// The epoch that holds the archive.
    pub writer_epoch: u64,
    /// How often the state was swapped.
    pub state_version: u64,
    /// Segments, and how many of them are unsealed batches.
    pub segments: (usize, usize),
    /// Segments of each tier: batches, sealed ones, merged once, merged twice …
    pub tiers: Vec<usize>,
    pub runs_and_packs: (usize, usize),
    /// Logs in all segments.
    pub logs: u64,
    /// Bytes of all segments, runs and packs that the state names.
    pub stored_bytes: u64,
    pub audit: Vec<AuditEntry>,
}

impl HealthReport {
    pub(crate) fn new(snapshot: Option<&Snapshot>, rails: Option<Result<()>>) -> Self {
        let state = snapshot.map(|snapshot| &snapshot.state);
        let halt = state.and_then(|state| state.halt.clone());
        let health = match (state, halt, rails) {
            (None, _, _) => Health::Empty,
            (Some(_), Some(halt), _) => Health::Halted(halt),
            (Some(_), None, Some(Err(error))) => Health::Throttled(error.to_string()),
            (Some(_), None, _) => Health::Good,
        };
        let live = state.and_then(|state| state.live);
        let segments = snapshot
            .map(|snapshot| snapshot.segments.as_slice())
            .unwrap_or_default();
        let objects = segments.iter().map(|entry| entry.object.len).sum::<u64>();
        let others = snapshot.map_or(0, |snapshot| {
            let runs = snapshot.catalog.runs.iter().map(|run| run.object.len);
            let packs = snapshot.packs().map(|pack| pack.object.len);
            runs.chain(packs).sum()
        });
        Self {
            health,
            head: live.map(|live| live.head),
            head_timestamp: live.map(|live| live.head_timestamp),
            covered: snapshot.and_then(Snapshot::covered_prefix),
            writer_epoch: state.map_or(0, |state| state.epoch),
            state_version: snapshot.map_or(0, |snapshot| snapshot.version.0),
            segments: (segments.len(), state.map_or(0, |state| state.batches.len())),
            tiers: tiers(segments),
            runs_and_packs: snapshot.map_or((0, 0), |snapshot| {
                (snapshot.catalog.runs.len(), snapshot.packs().count())
            }),
            logs: segments.iter().map(|entry| entry.facts.logs).sum(),
            stored_bytes: objects + others,
            audit: state.map(|state| state.audit.clone()).unwrap_or_default(),
        }
    }
}

fn tiers(segments: &[Arc<SegmentEntry>]) -> Vec<usize> {
    let highest = segments.iter().map(|entry| entry.tier).max();
    let count = |tier: u8| segments.iter().filter(|entry| entry.tier == tier).count();
    highest.map_or(Vec::new(), |highest| (0..=highest).map(count).collect())
}

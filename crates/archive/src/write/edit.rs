//! Edits: what a writer wants changed. Remove these, add those.

use std::collections::HashSet;
use std::sync::Arc;

use chronolith_model::BlockRef;

use super::publish::Uploading;
use super::seal::Kept;
use crate::ranges::journal::Entry;
use crate::state::catalog::{Catalog, PackEntry, RunEntry, SegmentEntry};
use crate::state::record::{AuditEntry, Halt, LiveRun, State};

/// A change of state and catalog. It applies whole or not at all.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    /// The head that the edit was made for, where it moves the head.
    pub(crate) expected_head: Option<Option<BlockRef>>,
    /// Objects that go. Each must still be there.
    pub(crate) remove: Vec<String>,
    /// Objects that the edit is about and that stay. Each must still be there.
    pub(crate) needs: Vec<String>,
    pub(crate) batches: Vec<SegmentEntry>,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) runs: Vec<RunEntry>,
    pub(crate) batch_packs: Vec<PackEntry>,
    pub(crate) packs: Vec<PackEntry>,
    pub(crate) live: Option<Option<LiveRun>>,
    pub(crate) kept: Option<Kept>,
    pub(crate) halt: Option<Option<Halt>>,
    pub(crate) audit: Option<AuditEntry>,
    /// What is to be written down of ranges.
    pub(crate) book: Vec<Entry>,
    /// When, in seconds since 1970; 0 where nobody knows.
    pub(crate) now: u64,
    /// The new objects: safe from collection until the edit is published or dropped.
    pub(crate) uploads: Vec<Uploading>,
    /// Who holds the lease from now on.
    pub(crate) instance: Option<String>,
}

impl Edit {
    /// Applies the edit. Says whether the catalog changed, or none where its inputs are gone.
    pub(crate) fn apply(&self, state: &mut State, catalog: &mut Catalog) -> Option<bool> {
        let head = state.live.map(|live| live.head);
        if self.expected_head.is_some_and(|expected| expected != head) {
            return None;
        }
        let wanted: HashSet<&str> = self.remove.iter().map(String::as_str).collect();
        let mut gone = wanted.clone();
        gone.extend(self.needs.iter().map(String::as_str));
        // First see whether all of it is there, then take it away.
        let named = catalog_names(catalog).chain(state_names(state));
        named.for_each(|name| {
            gone.remove(name);
        });
        if !gone.is_empty() {
            return None;
        }
        let in_catalog = catalog_names(catalog).any(|name| wanted.contains(name));
        catalog
            .segments
            .retain(|entry| !wanted.contains(entry.object.name.as_str()));
        catalog
            .runs
            .retain(|entry| !wanted.contains(entry.object.name.as_str()));
        catalog
            .packs
            .retain(|entry| !wanted.contains(entry.object.name.as_str()));
        state
            .batches
            .retain(|entry| !wanted.contains(entry.object.name.as_str()));
        state
            .batch_packs
            .retain(|entry| !wanted.contains(entry.object.name.as_str()));
        self.add(state, catalog);
        let added = !(self.segments.is_empty() && self.runs.is_empty() && self.packs.is_empty());
        for entry in &self.book {
            catalog.book.enter(entry, &mut catalog.segments);
        }
        Some(in_catalog || added || !self.book.is_empty())
    }

    fn add(&self, state: &mut State, catalog: &mut Catalog) {
        catalog
            .segments
            .extend(self.segments.iter().cloned().map(Arc::new));
        catalog.runs.extend(self.runs.iter().cloned().map(Arc::new));
        catalog
            .packs
            .extend(self.packs.iter().cloned().map(Arc::new));
        state
            .batches
            .extend(self.batches.iter().cloned().map(Arc::new));
        state.batches.sort_by_key(|entry| entry.facts.range.start);
        state
            .batch_packs
            .extend(self.batch_packs.iter().cloned().map(Arc::new));
        state.batch_packs.sort_by_key(|entry| entry.range.start);
        if let Some(live) = self.live {
            state.live = live;
        }
        if let Some(kept) = &self.kept {
            (state.datasets, state.scope) = (kept.datasets, kept.scope.clone());
        }
        if let Some(halt) = &self.halt {
            state.halt.clone_from(halt);
        }
        if let Some(instance) = &self.instance {
            state.instance.clone_from(instance);
        }
        if let Some(entry) = &self.audit {
            state.record(entry.clone());
        }
    }
}

/// Names of everything that the catalog holds.
pub(crate) fn catalog_names(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let segments = catalog
        .segments
        .iter()
        .map(|entry| entry.object.name.as_str());
    let runs = catalog.runs.iter().map(|entry| entry.object.name.as_str());
    let packs = catalog.packs.iter().map(|entry| entry.object.name.as_str());
    segments.chain(runs).chain(packs)
}

/// Names of everything that the state holds itself.
pub(crate) fn state_names(state: &State) -> impl Iterator<Item = &str> {
    let batches = state.batches.iter().map(|entry| entry.object.name.as_str());
    let packs = state
        .batch_packs
        .iter()
        .map(|entry| entry.object.name.as_str());
    batches
        .chain(packs)
        .chain(state.catalog.iter().map(|catalog| catalog.name.as_str()))
}

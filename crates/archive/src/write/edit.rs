//! Edits: what a writer wants changed. Remove these, add those.

use std::collections::HashSet;
use std::sync::Arc;

use chronolith_model::BlockRef;

use super::publish::Uploading;
use super::seal::Kept;
use crate::ranges::journal::Entry;
use crate::state::catalog::{Catalog, ObjectRef, PackEntry, RunEntry, SegmentEntry};
use crate::state::record::{AuditEntry, Halt, LiveRun, State};

/// A change of state and catalog. It applies whole or not at all.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    /// Which head the state must have.
    pub(crate) expected_head: ExpectedHead,
    /// Objects that go. Each must still be there.
    pub(crate) remove: Vec<String>,
    /// Objects that the edit is about and that stay. Each must still be there.
    pub(crate) needs: Vec<String>,
    pub(crate) batches: Vec<SegmentEntry>,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) runs: Vec<RunEntry>,
    pub(crate) batch_packs: Vec<PackEntry>,
    pub(crate) packs: Vec<PackEntry>,
    /// The live run from now on, where it changes.
    pub(crate) live: Option<LiveRun>,
    pub(crate) kept: Option<Kept>,
    pub(crate) halt: HaltChange,
    pub(crate) audit: Option<AuditEntry>,
    /// What is to be recorded of ranges.
    pub(crate) journal: Vec<Entry>,
    /// When, in seconds since 1970; 0 where it is unknown.
    pub(crate) now: u64,
    /// The new objects: safe from collection until the edit is published or dropped.
    pub(crate) uploads: Vec<Uploading>,
    /// Who holds the lease from now on.
    pub(crate) instance: Option<String>,
}

/// The head that an edit was made for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum ExpectedHead {
    /// The edit does not depend on the head.
    #[default]
    Any,
    /// The edit moves the head: it applies to this one, or to none yet.
    Exactly(Option<BlockRef>),
}

/// What an edit does to the halt of an archive.
#[derive(Debug, Default)]
pub(crate) enum HaltChange {
    #[default]
    Keep,
    Set(Halt),
    Clear,
}

impl Edit {
    pub(crate) fn remove_all<'a>(&mut self, objects: impl Iterator<Item = &'a ObjectRef>) {
        self.remove
            .extend(objects.map(|object| object.name.clone()));
    }

    pub(crate) fn add_run(&mut self, (run, uploading): (RunEntry, Uploading)) {
        self.runs.push(run);
        self.uploads.push(uploading);
    }

    /// Applies the edit. Returns whether the catalog changed; none where its inputs are gone.
    pub(crate) fn apply(&self, state: &mut State, catalog: &mut Catalog) -> Option<bool> {
        let head = state.live.map(|live| live.head);
        match self.expected_head {
            ExpectedHead::Exactly(expected) if expected != head => return None,
            ExpectedHead::Any | ExpectedHead::Exactly(_) => {}
        }
        let wanted: HashSet<&str> = self.remove.iter().map(String::as_str).collect();
        let mut gone = wanted.clone();
        gone.extend(self.needs.iter().map(String::as_str));
        // First see whether all of it is there, then take it away.
        for name in catalog_names(catalog).chain(state_names(state)) {
            gone.remove(name);
        }
        if !gone.is_empty() {
            return None;
        }
        let in_catalog = catalog_names(catalog).any(|name| wanted.contains(name));
        let stays = |object: &ObjectRef| !wanted.contains(object.name.as_str());
        catalog.segments.retain(|entry| stays(&entry.object));
        catalog.runs.retain(|entry| stays(&entry.object));
        catalog.packs.retain(|entry| stays(&entry.object));
        state.batches.retain(|entry| stays(&entry.object));
        state.batch_packs.retain(|entry| stays(&entry.object));
        self.add(state, catalog);
        let added = !(self.segments.is_empty() && self.runs.is_empty() && self.packs.is_empty());
        for entry in &self.journal {
            catalog.journal.apply(entry, &mut catalog.segments);
        }
        Some(in_catalog || added || !self.journal.is_empty())
    }

    fn add(&self, state: &mut State, catalog: &mut Catalog) {
        extend(&mut catalog.segments, &self.segments);
        extend(&mut catalog.runs, &self.runs);
        extend(&mut catalog.packs, &self.packs);
        extend(&mut state.batches, &self.batches);
        state.batches.sort_by_key(|entry| entry.facts.range.start);
        extend(&mut state.batch_packs, &self.batch_packs);
        state.batch_packs.sort_by_key(|entry| entry.range.start);
        state.live = self.live.or(state.live);
        if let Some(kept) = &self.kept {
            (state.datasets, state.scope) = (kept.datasets, kept.scope.clone());
        }
        match &self.halt {
            HaltChange::Keep => {}
            HaltChange::Set(halt) => state.halt = Some(halt.clone()),
            HaltChange::Clear => state.halt = None,
        }
        if let Some(instance) = &self.instance {
            state.instance.clone_from(instance);
        }
        if let Some(entry) = &self.audit {
            state.record(entry.clone());
        }
    }
}

fn extend<T: Clone>(entries: &mut Vec<Arc<T>>, new: &[T]) {
    entries.extend(new.iter().cloned().map(Arc::new));
}

/// Names of everything that the catalog holds.
pub(crate) fn catalog_names(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let segments = catalog.segments.iter().map(|entry| &entry.object);
    let runs = catalog.runs.iter().map(|entry| &entry.object);
    let packs = catalog.packs.iter().map(|entry| &entry.object);
    let objects = segments.chain(runs).chain(packs);
    objects.map(|object| object.name.as_str())
}

/// Names of everything that the state holds itself.
pub(crate) fn state_names(state: &State) -> impl Iterator<Item = &str> {
    let batches = state.batches.iter().map(|entry| &entry.object);
    let packs = state.batch_packs.iter().map(|entry| &entry.object);
    let catalog = state.catalog.iter().map(|catalog| &catalog.object);
    let objects = batches.chain(packs).chain(catalog);
    objects.map(|object| object.name.as_str())
}

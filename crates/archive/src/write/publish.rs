//! Publishing: edits applied to the newest state, grouped, and made visible with one swap.
//!
//! A swap whose outcome is unknown is settled before anything else: our nonce is there, so it took
//! effect; a higher epoch is there, so we are fenced; the old version is there, so we try again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chronolith_model::BlockRange;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use tokio::sync::oneshot;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::edit::{Edit, HaltChange};
use crate::error::{Error, Result, outcome_name};
use crate::ranges::status::range_statuses;
use crate::settings::SealSettings;
use crate::state::catalog::Catalog;
use crate::state::head::{View, decode_state};
use crate::state::record::{CatalogRef, Halt, State};
use crate::state::snapshot::Snapshot;

/// Swaps and settlings that are tried before the caller gets the error.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// What became of an edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    Published,
    /// What it wanted to replace is gone: it was dropped.
    Dropped,
}

/// Why nothing was published. One failure may answer several edits.
#[derive(Clone, Debug)]
enum Failure {
    Fenced { theirs: u64 },
    Unavailable(String),
}

/// Where the outcome of an edit is awaited.
type Answer = oneshot::Sender<std::result::Result<Applied, Failure>>;

/// The only one who swaps the state.
#[derive(Debug)]
pub(crate) struct Publisher {
    view: Arc<View>,
    epoch: u64,
    seal: SealSettings,
    queue: Mutex<Vec<(Edit, Answer)>>,
    turn: tokio::sync::Mutex<Turn>,
    random: Mutex<StdRng>,
    uploading: Mutex<HashMap<String, u32>>,
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct Turn {
    /// The nonce of a swap whose outcome is not known.
    doubt: Option<u64>,
    fenced: Option<u64>,
}

impl Publisher {
    pub(crate) fn new(view: Arc<View>, epoch: u64, seal: SealSettings) -> Self {
        Self {
            view,
            epoch,
            seal,
            queue: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            random: Mutex::new(StdRng::from_os_rng()),
            uploading: Mutex::default(),
            written: AtomicU64::new(0),
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.random.lock().next_u64()
    }

    /// Grows with every object that is begun, abandoned or named: while it does not change, nothing that
    /// this writer does makes garbage.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn note_written(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// A name for a new object of these blocks. It is safe from collection as long as the guard lives.
    pub(crate) fn name(self: &Arc<Self>, folder: &str, range: BlockRange) -> Uploading {
        self.name_with(folder, range, "")
    }

    /// The same with something more in the name.
    pub(crate) fn name_with(
        self: &Arc<Self>,
        folder: &str,
        BlockRange { start, end }: BlockRange,
        more: &str,
    ) -> Uploading {
        self.note_written();
        let (epoch, nonce) = (self.epoch, self.nonce());
        let name = format!("{folder}/{start:012}-{end}{more}-{epoch:x}-{nonce:016x}");
        let mut uploading = self.uploading.lock();
        uploading.insert(name.clone(), 1);
        Uploading {
            name,
            publisher: self.clone(),
        }
    }

    /// Names of objects that are being uploaded or wait for their edit.
    pub(crate) fn uploading(&self) -> HashSet<String> {
        let uploading = self.uploading.lock();
        uploading.keys().cloned().collect()
    }

    /// The newest snapshot, with every doubt settled.
    pub(crate) async fn settled(&self) -> Result<Arc<Snapshot>> {
        let mut turn = self.turn.lock().await;
        self.settle(&mut turn)
            .await
            .map_err(|failure| self.error(failure))
    }

    /// Publishes an edit, together with those that others have waiting.
    pub(crate) async fn publish(&self, edit: Edit) -> Result<Applied> {
        let (sender, mut receiver) = oneshot::channel();
        self.queue.lock().push((edit, sender));
        let mut turn = self.turn.lock().await;
        if let Ok(answer) = receiver.try_recv() {
            return answer.map_err(|failure| self.error(failure));
        }
        let waiting = std::mem::take(&mut *self.queue.lock());
        // A caller that went away does not want its edit any more.
        let waiting = waiting
            .into_iter()
            .filter(|(_, answer)| !answer.is_closed());
        let (edits, senders): (Vec<_>, Vec<_>) = waiting.unzip();
        let snapshot = self.view.current();
        let span = tracing::debug_span!(
            "archive.publish",
            chain = snapshot.map(|snapshot| snapshot.state.chain.0),
            edits = edits.len(),
            outcome = Empty,
        );
        let publishing = self.publish_all(&mut turn, &edits);
        let outcome = publishing.instrument(span.clone()).await;
        span.record("outcome", outcome_name(&outcome));
        for (place, sender) in senders.into_iter().enumerate() {
            let answer = match &outcome {
                Ok((_, dropped)) if dropped.contains(&place) => Ok(Applied::Dropped),
                Ok(_) => Ok(Applied::Published),
                Err(failure) => Err(failure.clone()),
            };
            // A caller that went away needs no answer.
            let _ = sender.send(answer);
        }
        drop(turn);
        let answer = receiver
            .try_recv()
            .unwrap_or_else(|_| Err(Failure::Unavailable("the edit got no answer".to_owned())));
        answer.map_err(|failure| self.error(failure))
    }

    /// Publishes an edit that must not be dropped: where its inputs changed, the message is the error.
    pub(crate) async fn publish_or(&self, edit: Edit, dropped: impl Into<String>) -> Result<()> {
        match self.publish(edit).await? {
            Applied::Published => Ok(()),
            Applied::Dropped => Err(Error::Invalid(dropped.into())),
        }
    }

    /// Halts the archive.
    pub(crate) async fn halt(&self, halt: Halt) -> Result<()> {
        let edit = Edit {
            halt: HaltChange::Set(halt),
            ..Edit::default()
        };
        self.publish(edit).await.map(|_| ())
    }

    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Fenced { theirs } => Error::Fenced {
                ours: self.epoch,
                theirs,
            },
            Failure::Unavailable(context) => Error::Store {
                context: "publish",
                source: chronolith_store::Error::Unavailable {
                    context,
                    source: None,
                },
            },
        }
    }

    /// The newest state, with every doubt settled. A swap whose answer never came may still be on
    /// its way: before anything is built or collected, one more swap makes sure that it can no
    /// longer win.
    async fn settle(&self, turn: &mut Turn) -> std::result::Result<Arc<Snapshot>, Failure> {
        if let Some(theirs) = turn.fenced {
            return Err(Failure::Fenced { theirs });
        }
        let unavailable = |error: Error| Failure::Unavailable(error.to_string());
        let Some(doubt) = turn.doubt else {
            let known = match self.view.current() {
                Some(known) => known,
                None => {
                    let found = self.view.refresh().await.map_err(unavailable)?;
                    found.ok_or_else(|| Failure::Unavailable("the state is gone".to_owned()))?
                }
            };
            return self.ours(turn, known);
        };
        let newest = self.view.refresh().await.map_err(unavailable)?;
        let newest = newest.ok_or_else(|| Failure::Unavailable("the state is gone".to_owned()))?;
        let newest = self.ours(turn, newest)?;
        if newest.state.nonce == doubt {
            turn.doubt = None;
            return Ok(newest);
        }
        let mut state = newest.state.clone();
        state.sequence += 1;
        state.nonce = self.nonce();
        let version = self.swap(turn, &newest, &state).await?;
        turn.doubt = None;
        let snapshot = Arc::new(Snapshot::new(version, state, newest.catalog.clone()));
        self.view.adopt(snapshot.clone());
        Ok(snapshot)
    }

    /// The snapshot, if it is of our epoch.
    fn ours(
        &self,
        turn: &mut Turn,
        snapshot: Arc<Snapshot>,
    ) -> std::result::Result<Arc<Snapshot>, Failure> {
        let theirs = snapshot.state.epoch;
        if theirs == self.epoch {
            return Ok(snapshot);
        }
        self.view.objects.meters.lease_lost.increment(1);
        turn.fenced = Some(theirs);
        Err(Failure::Fenced { theirs })
    }

    /// Applies what applies and swaps once. Returns the new snapshot and which edits were dropped.
    async fn publish_all(
        &self,
        turn: &mut Turn,
        edits: &[Edit],
    ) -> std::result::Result<(Arc<Snapshot>, HashSet<usize>), Failure> {
        let base = self.settle(turn).await?;
        let mut state = base.state.clone();
        let mut catalog = (*base.catalog).clone();
        let mut dropped = HashSet::new();
        let mut changed = false;
        for (place, edit) in edits.iter().enumerate() {
            match edit.apply(&mut state, &mut catalog) {
                Some(catalog_changed) => changed |= catalog_changed,
                None => {
                    dropped.insert(place);
                }
            }
        }
        if dropped.len() == edits.len() && !edits.is_empty() {
            return Ok((base, dropped));
        }
        state.sequence += 1;
        state.nonce = self.nonce();
        let mut catalog_arc = base.catalog.clone();
        if changed {
            catalog.sort();
        }
        let now = edits.iter().map(|edit| edit.now).max().unwrap_or(0);
        if self.keep_journal(&base, &state, &mut catalog, now) || changed {
            state.catalog = Some(self.put_catalog(&catalog, &state).await?);
            catalog_arc = Arc::new(catalog);
        }
        turn.doubt = Some(state.nonce);
        let version = self.swap(turn, &base, &state).await?;
        turn.doubt = None;
        let snapshot = Arc::new(Snapshot::new(version, state, catalog_arc));
        self.view.adopt(snapshot.clone());
        self.report(&snapshot);
        Ok((snapshot, dropped))
    }

    /// Brings the journal of ranges in line with what is named now; whether it changed.
    fn keep_journal(
        &self,
        base: &Snapshot,
        state: &State,
        catalog: &mut Catalog,
        now: u64,
    ) -> bool {
        let geometry = self.seal.geometry();
        let statuses = range_statuses(state, catalog, geometry, &self.seal);
        let begun = |id: u64| {
            let blocks = geometry.blocks_of(id);
            let mut before = base.segments.iter();
            before.any(|entry| entry.facts.range.intersect(&blocks).is_some())
        };
        let before = catalog.journal.clone();
        catalog.journal.settle(&statuses, geometry, begun, now);
        catalog.journal != before
    }

    fn report(&self, snapshot: &Snapshot) {
        let meters = &self.view.objects.meters;
        let batches = &snapshot.state.batches;
        meters.unsealed_batches.set(batches.len() as f64);
        let weight: u64 = batches.iter().map(|batch| batch.facts.weight()).sum();
        meters.unsealed_weight.set(weight as f64);
        let block_num = snapshot.head().map(|head| head.number);
        if let Some(number) = block_num {
            meters.head_block.set(number as f64);
        }
        let (writer_epoch, state_version) = (self.epoch, snapshot.version.0);
        tracing::debug!(block_num, writer_epoch, state_version, "published");
    }

    async fn put_catalog(
        &self,
        catalog: &Catalog,
        state: &State,
    ) -> std::result::Result<CatalogRef, Failure> {
        let name = format!(
            "cat/{:016x}-{:x}-{:016x}",
            state.sequence, self.epoch, state.nonce
        );
        let (bytes, place) = catalog.to_object(&name);
        self.note_written();
        let put = self.view.objects.blobs().put(&name, bytes).await;
        put.map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(place)
    }

    async fn swap(
        &self,
        turn: &mut Turn,
        base: &Snapshot,
        state: &State,
    ) -> std::result::Result<chronolith_store::Version, Failure> {
        let bytes = Bytes::from(state.encode());
        let mut pause = FIRST_PAUSE;
        let mut reason = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                self.view.objects.meters.swap_retries.increment(1);
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            let error = match self.view.meta.swap(Some(base.version), bytes.clone()).await {
                Ok(version) => return Ok(version),
                Err(error) => error,
            };
            reason = error.to_string();
            let found = match self.view.meta.load().await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) => {
                    reason = error.to_string();
                    continue;
                }
            };
            let Ok(theirs) = decode_state(&found) else {
                continue;
            };
            if (theirs.epoch, theirs.nonce) == (state.epoch, state.nonce) {
                return Ok(found.version);
            }
            if theirs.epoch != self.epoch {
                self.view.objects.meters.lease_lost.increment(1);
                turn.fenced = Some(theirs.epoch);
                return Err(Failure::Fenced {
                    theirs: theirs.epoch,
                });
            }
            if found.version != base.version {
                // A swap of our own whose answer we had abandoned on has arrived.
                return Err(Failure::Unavailable(
                    "an older swap arrived late".to_owned(),
                ));
            }
        }
        Err(Failure::Unavailable(reason))
    }
}

/// The name of an object that nothing names yet.
#[derive(Debug)]
pub(crate) struct Uploading {
    pub(crate) name: String,
    publisher: Arc<Publisher>,
}

impl Drop for Uploading {
    fn drop(&mut self) {
        self.publisher.note_written();
        self.publisher.uploading.lock().remove(&self.name);
    }
}

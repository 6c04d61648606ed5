//! The writer: the one process that holds the epoch of an archive.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_store::{Claim, TakeOver, Version, Versioned, wait_until_quiet};
use parking_lot::Mutex;
use rand::{RngCore, SeedableRng, rngs::StdRng};

use super::append::Appender;
use super::dictionary::Learner;
use super::edit::Edit;
use super::pack::BuiltPack;
use super::publish::{Publisher, Uploading};
use super::seal::Kept;
use crate::error::{Error, Result};
use crate::format::term::TermKey;
use crate::maintenance::gc::Guardrails;
use crate::settings::Settings;
use crate::state::catalog::{ObjectRef, PackEntry};
use crate::state::head::{View, decode_state};
use crate::state::lost::{load, load_state};
use crate::state::record::State;
use crate::state::snapshot::Snapshot;

/// How often taking over is tried again when another writer swaps in between.
const TAKE_OVER_ATTEMPTS: usize = 8;

/// The holder of an archive's epoch.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) view: Arc<View>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) publisher: Arc<Publisher>,
    /// What terms are hashed with.
    pub(crate) term_key: TermKey,
    pub(crate) appender: tokio::sync::Mutex<Appender>,
    pub(crate) maintenance: tokio::sync::Mutex<()>,
    /// The dictionary with which packs are finished.
    pub(crate) finishing: tokio::sync::Mutex<Learner>,
    pub(crate) guardrails: Guardrails,
    /// Objects that maintenance found damaged and passes over.
    pub(crate) damaged: Mutex<HashSet<String>>,
    /// Ranges that are being verified.
    pub(crate) verifying: Mutex<HashSet<u64>>,
}

impl Writer {
    /// Takes the archive over, or creates it. The epoch changes before anything is built on what
    /// was read, so whatever an older writer still does fails.
    pub(crate) async fn open(
        view: Arc<View>,
        settings: Arc<Settings>,
        take_over: TakeOver,
    ) -> Result<Self> {
        settings.seal.check()?;
        let claim = Claim {
            instance: &settings.instance,
            ttl: settings.lease_ttl,
            take_over,
        };
        let holder = |bytes: &[u8]| State::instance_of(bytes).filter(|name| !name.is_empty());
        let found = wait_until_quiet(&*view.meta, &claim, holder).await;
        let found = found.map_err(Error::store("take the archive over"))?;
        // Refused before a new state makes garbage of every object.
        let found = match found {
            Some(found) => Some(found),
            None => load_state(&*view.meta, &**view.objects.blobs()).await?,
        };
        if let Some(found) = &found {
            // Refused before another writer is fenced. What cannot be read now is read again below: it may
            // be what another writer has just replaced.
            if let Ok(snapshot) = view.take(found.clone()).await {
                check_ranges(&snapshot, &settings)?;
            }
        }
        let (version, state) = swap_epoch(&view, &settings, found).await?;
        let (epoch, term_key) = (state.epoch, state.term_key);
        let snapshot = view.take_state(version, state).await?;
        check_ranges(&snapshot, &settings)?;
        tracing::info!(
            chain = settings.chain.0,
            writer_epoch = epoch,
            state_version = version.0,
            head = snapshot.head().map(|head| head.number),
            "archive open for writing"
        );
        Ok(Self {
            publisher: Arc::new(Publisher::new(view.clone(), epoch, settings.seal.clone())),
            guardrails: Guardrails::new(&settings.garbage),
            finishing: tokio::sync::Mutex::new(Learner::new(settings.seal.pack_dictionary_bytes)),
            view,
            settings,
            term_key,
            appender: tokio::sync::Mutex::default(),
            maintenance: tokio::sync::Mutex::default(),
            damaged: Mutex::default(),
            verifying: Mutex::default(),
        })
    }

    /// A learner without a dictionary.
    pub(crate) fn learner(&self) -> Learner {
        Learner::new(self.settings.seal.pack_dictionary_bytes)
    }

    /// What is kept of new blocks.
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            datasets: self.settings.datasets,
            scope: self.settings.scope.clone(),
        }
    }

    /// Swaps the state without changing what it names.
    pub(crate) async fn renew(&self) -> Result<()> {
        self.publisher.publish(Edit::default()).await.map(|_| ())
    }

    /// Swaps the state to one without a holder.
    pub(crate) async fn release(&self) -> Result<()> {
        let edit = Edit {
            instance: Some(String::new()),
            ..Edit::default()
        };
        self.publisher.publish(edit).await.map(|_| ())
    }

    /// Names a built pack and queues its upload.
    pub(crate) fn upload_pack(
        &self,
        pack: BuiltPack,
        uploads: &mut Vec<(Uploading, Bytes)>,
    ) -> PackEntry {
        let uploading = self.publisher.name("pack", pack.range);
        let object = ObjectRef::new(&uploading.name, pack.finished);
        uploads.push((uploading, pack.bytes));
        PackEntry {
            object,
            range: pack.range,
            last_hash: pack.last_hash,
            content: pack.content,
        }
    }
}

/// One swap that changes nothing but the epoch, or creates the state.
async fn swap_epoch(
    view: &View,
    settings: &Settings,
    mut found: Option<Versioned>,
) -> Result<(Version, State)> {
    let mut random = StdRng::from_os_rng();
    let mut failure = None;
    for _ in 0..TAKE_OVER_ATTEMPTS {
        let mut state = match &found {
            Some(found) => checked(decode_state(found)?, settings)?,
            None => State::new(settings, &mut random),
        };
        if state.term_key.is_none() {
            random.fill_bytes(&mut state.term_key.0);
        }
        state.epoch += 1;
        state.sequence += 1;
        state.nonce = random.next_u64();
        state.instance.clone_from(&settings.instance);
        let expected = found.as_ref().map(|found| found.version);
        match view.meta.swap(expected, Bytes::from(state.encode())).await {
            Ok(version) => return Ok((version, state)),
            Err(error) => failure = Some(error),
        }
        found = load(&*view.meta).await?;
        if let Some(found) = &found {
            let theirs = decode_state(found)?;
            if (theirs.epoch, theirs.nonce) == (state.epoch, state.nonce) {
                return Ok((found.version, state));
            }
        }
    }
    let unknown = chronolith_store::Error::Conflict {
        reason: "the state keeps changing".to_owned(),
    };
    Err(Error::Store {
        context: "take the archive over",
        source: failure.unwrap_or(unknown),
    })
}

/// Ranges that were begun are not counted in another way.
fn check_ranges(snapshot: &Snapshot, settings: &Settings) -> Result<()> {
    let wanted = settings.seal.geometry();
    match snapshot.catalog.journal.geometry {
        Some(written) if written != wanted => Err(Error::Invalid(format!(
            "the archive has ranges of {} blocks from block {} on, and the settings want {} from \
             {} on: set them back, or archive into another place",
            written.size, written.first, wanted.size, wanted.first
        ))),
        _ => Ok(()),
    }
}

fn checked(state: State, settings: &Settings) -> Result<State> {
    if state.chain == settings.chain {
        return Ok(state);
    }
    let message = format!(
        "the archive is of another chain (archive={}, settings={})",
        state.chain, settings.chain
    );
    Err(Error::Invalid(message))
}

//! From blocks to rows: which version is in force at each event, what its transaction carries.
//!
//! An upgrade to an implementation without a version, or whose code is another than was named, stops the
//! projection at its block. An event before the first upgrade that is known is of the version that is
//! recorded as the first, or of the only one there is; else it stops the projection too.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use async_trait::async_trait;
use chronolith_chain_view::ChainView;
use chronolith_model::{BlockRange, Dataset, Proof};
use chronolith_projection::{
    BlockLog, Database, LogSelection, Pause, Projected, Projection, ProjectionKind, Result, Rows,
    chain_id,
};
use deadpool_postgres::Transaction;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::codes::{self, Code, Codes};
use crate::kind::AdfsKind;
use crate::rows::{self, Bodies, Event, Input, Place, Version};
use crate::settings::{AdfsSettings, UPGRADED};
use crate::versions::{Timeline, Upgrades, upgraded};
use crate::{latest, registry};

/// An upgrade to an implementation without a version.
pub(crate) const UNKNOWN: &str = "unknownImplementation";
/// An upgrade to an implementation with other code than was named.
const BYTECODE: &str = "bytecode";
/// An event before the first upgrade.
const NONE: &str = "noImplementation";
/// Bytes of rows that are written at once: calldata is large, and a page has many logs.
const ROWS_BYTES_MAX: usize = 16 << 20;

/// The ADFS contract of a chain.
pub struct Adfs {
    place: Place,
    settings: AdfsSettings,
    versions: BTreeMap<u32, Version>,
    selection: LogSelection,
    upgrades: Upgrades,
    database: Database,
    /// Hashes of code, as far as they were needed: they do not change.
    codes: Mutex<Codes>,
}

/// What the database has of versions, read once when it is first needed. Not kept for long: versions that
/// no row was made with may change.
#[derive(Default)]
struct Known {
    /// Implementations that operators named.
    added: OnceCell<BTreeMap<[u8; 20], u32>>,
    /// The version of events before the first upgrade.
    initial: OnceCell<Option<u32>>,
}

/// What is known of the implementation that is in force.
enum InForce<'a> {
    Known(&'a Version),
    /// Its code was not checked yet.
    NoCode,
    Stop(Pause),
}

/// What becomes of a block.
enum Outcome<'a> {
    Events(Vec<Event<'a>>),
    NotYet,
    Stop(Pause),
}

impl Adfs {
    /// The events of the contract that the settings name.
    ///
    /// # Errors
    /// A setting is invalid, or the chain's id is larger than the database can hold.
    pub fn new(chain: u64, settings: AdfsSettings, database: Database) -> Result<Self> {
        settings.check()?;
        let most = settings.calldata_bytes_max;
        let versions = settings.versions.iter().map(|(number, version)| {
            let made = Version {
                number: *number,
                topic0: version.topic0().0,
                profile: version.profile(most),
            };
            (*number, made)
        });
        let versions: BTreeMap<u32, Version> = versions.collect();
        let datasets = [Dataset::Logs, Dataset::Transactions];
        Ok(Self {
            place: Place {
                chain: chain_id(chain)?,
                proxy: Address::from(settings.proxy),
            },
            selection: LogSelection::new(&[settings.proxy], &settings.topics(), &datasets),
            upgrades: Upgrades::new(settings.proxy, settings.start_block),
            versions,
            settings,
            database,
            codes: Mutex::default(),
        })
    }

    /// What is in force after an upgrade to an implementation.
    async fn in_force(
        &self,
        known: &Known,
        (block, implementation): (u64, &[u8; 20]),
    ) -> Result<InForce<'_>> {
        let number = match self.settings.implementations.get(implementation) {
            Some(number) => Some(*number),
            None => {
                let read = || registry::added(&self.database, self.place.chain);
                let added = known.added.get_or_try_init(read).await?;
                added.get(implementation).copied()
            }
        };
        let version = number.and_then(|number| self.versions.get(&number));
        let Some(version) = version else {
            return Ok(InForce::Stop(unknown(block, implementation)));
        };
        let Some(expected) = self.settings.code_hashes.get(implementation) else {
            return Ok(InForce::Known(version));
        };
        Ok(match self.code_of(implementation).await? {
            None => InForce::NoCode,
            Some(Code::Hash(found)) if found != *expected => {
                InForce::Stop(other_code(block, implementation, (&found, expected)))
            }
            Some(Code::NotServed | Code::Hash(_)) => InForce::Known(version),
        })
    }

    /// The code of an implementation; none where it was not checked yet.
    async fn code_of(&self, implementation: &[u8; 20]) -> Result<Option<Code>> {
        let cached = self.codes.lock().get(implementation).copied();
        if cached.is_some() {
            return Ok(cached);
        }
        let read = codes::known(&self.database, self.place.chain).await?;
        let found = read.get(implementation).copied();
        *self.codes.lock() = read;
        Ok(found)
    }

    /// What is in force before the first upgrade that is known.
    async fn in_force_at_first(&self, known: &Known, block: u64) -> Result<InForce<'_>> {
        Ok(match self.initial_version(known).await? {
            Some(version) => InForce::Known(version),
            None => InForce::Stop(no_first(block)),
        })
    }

    async fn initial_version(&self, known: &Known) -> Result<Option<&Version>> {
        let read = || registry::initial(&self.database, self.place.chain);
        let number = *known.initial.get_or_try_init(read).await?;
        Ok(number.and_then(|number| self.versions.get(&number)))
    }

    /// The version in force at each log of a block, or why it is unknown.
    async fn events<'a>(
        &'a self,
        (timeline, head): (&Timeline, Option<u64>),
        known: &Known,
        block: &'a [BlockLog<'a>],
    ) -> Result<Outcome<'a>> {
        let is_final = |block: u64| head.is_some_and(|head| block <= head);
        let mut events = Vec::new();
        for found in block {
            let number = found.block.number;
            // An upgrade brings its own version with it.
            let own = upgraded(found.log);
            let epoch = timeline.at(number, found.log.log_index());
            let implementation = own.or(epoch.map(|epoch| epoch.implementation));
            let in_force = match &implementation {
                Some(implementation) => self.in_force(known, (number, implementation)).await?,
                None => self.in_force_at_first(known, number).await?,
            };
            match in_force {
                InForce::Known(version) => events.push(Event { found, version }),
                InForce::NoCode => return Ok(Outcome::NotYet),
                InForce::Stop(pause) => {
                    // One that is final stops the projection of its block, after everything below it.
                    let is_left = epoch.is_some_and(|epoch| is_final(epoch.block));
                    return Ok(match own.is_none() && is_left && !is_final(number) {
                        true => Outcome::NotYet,
                        false => Outcome::Stop(pause),
                    });
                }
            }
        }
        Ok(Outcome::Events(events))
    }

    /// Adds the rows of a block. False where its transactions are not at hand.
    async fn block(&self, view: &ChainView, rows: &mut Rows, events: &[Event<'_>]) -> Result<bool> {
        let updates = |event: &Event<'_>| event.found.log.topic(0) != Some(UPGRADED.as_slice());
        let bodies = match events.iter().find(|event| updates(event)) {
            Some(event) => match self.bodies(view, event.found).await? {
                Some(bodies) => bodies,
                None => return Ok(false),
            },
            None => Bodies::default(),
        };
        for tx in events.chunk_by(|one, next| one.found.tx_hash == next.found.tx_hash) {
            let mut due = Vec::new();
            for event in tx {
                let (found, version) = (event.found, event.version);
                match upgraded(found.log) {
                    Some(to) => rows::put_upgrade(rows, self.place, event, &to),
                    None if updates(event) => due.push(Event { found, version }),
                    None => {
                        let why = ("malformed", "an upgrade that names no implementation");
                        rows::refuse(rows, self.place, found, why);
                    }
                }
            }
            if let Some(first) = due.first().map(|event| event.found) {
                let input = Input::of(&bodies, first.log.tx_index(), &first.tx_hash);
                rows::put_transaction(rows, self.place, &due, input.as_ref());
            }
        }
        Ok(true)
    }

    /// The transactions that logs of a block name; none where they are not at hand.
    async fn bodies(&self, view: &ChainView, found: &BlockLog<'_>) -> Result<Option<Bodies>> {
        let number = found.block.number;
        match &view.archive {
            Some(archive) if view.is_final(number) => {
                let filter = self.selection.filter(BlockRange::one(number));
                let stored = archive.bodies_of_logs(number, &filter).await?;
                let proof = archive.proof_of(number, self.selection.datasets, &filter);
                let proof = proof.unwrap_or(Proof::CLAIMED);
                Ok(Some(Bodies { stored, proof }))
            }
            _ => {
                let block = view.tail.get(number);
                let block = block.filter(|block| block.clock.hash == found.block.hash);
                // It may have left the tail meanwhile: then the archive has it.
                let proof = view.live.proof(&found.block.hash);
                let stored = block.and_then(|block| block.payload.bodies.clone());
                let both = stored.zip(proof);
                Ok(both.map(|(stored, proof)| Bodies { stored, proof }))
            }
        }
    }
}

fn unknown(block: u64, implementation: &[u8; 20]) -> Pause {
    Pause {
        block,
        reason: UNKNOWN,
        detail: format!(
            "at block {block} the implementation is {}, of which no version is known: name it in \
             implVersionMap, or with `chronolith versions add`",
            Address::from(implementation)
        ),
    }
}

fn other_code(
    block: u64,
    implementation: &[u8; 20],
    (found, expected): (&[u8; 32], &[u8; 32]),
) -> Pause {
    Pause {
        block,
        reason: BYTECODE,
        detail: format!(
            "at block {block} the implementation is {}, whose code has hash {}, and expectedBytecodeHash says \
             {}: find out why before you change it",
            Address::from(implementation),
            const_hex::encode_prefixed(found),
            const_hex::encode_prefixed(expected)
        ),
    }
}

fn no_first(block: u64) -> Pause {
    Pause {
        block,
        reason: NONE,
        detail: format!(
            "block {block} has an update before the first upgrade that is known, and there are several \
             versions: say which one it is of with initialVersion, or let startBlock be the block of \
             deployment"
        ),
    }
}

#[async_trait]
impl Projection for Adfs {
    fn kind(&self) -> &'static dyn ProjectionKind {
        &AdfsKind
    }

    fn start_block(&self) -> u64 {
        self.settings.start_block
    }

    fn settings(&self) -> Value {
        self.settings.to_json()
    }

    fn extends(&self, before: &Value) -> bool {
        self.settings.extends(before)
    }

    fn continues(&self, before: &Value) -> bool {
        self.settings.continues(before)
    }

    fn selection(&self) -> &LogSelection {
        &self.selection
    }

    /// Feeds and rows of the table are many, and of one event.
    fn events(&self, rows: &Rows) -> u64 {
        rows.count_of(&rows::EVENTS) as u64
    }

    async fn registered(&self, tx: &Transaction<'_>) -> Result<()> {
        registry::register(tx, self.place.chain, &self.settings).await
    }

    async fn rows(&self, view: &ChainView, found: &[BlockLog<'_>]) -> Result<Projected> {
        let mut rows = Rows::default();
        let not_yet = Projected {
            not_yet: true,
            ..Projected::default()
        };
        let known = Known::default();
        let head = view.finalized_head().map(|head| head.number);
        let last = found.last().map_or(0, |one| one.block.number);
        let Some(timeline) = self.upgrades.through(view, last).await? else {
            return Ok(not_yet);
        };
        for block in found.chunk_by(|one, next| one.block.number == next.block.number) {
            let number = block.first().map(|one| one.block.number);
            if rows.bytes() > ROWS_BYTES_MAX {
                return Ok(Projected {
                    rows,
                    next: number,
                    ..Projected::default()
                });
            }
            let events = match self.events((&timeline, head), &known, block).await? {
                Outcome::Events(events) => events,
                Outcome::NotYet => return Ok(not_yet),
                Outcome::Stop(pause) => {
                    return Ok(Projected {
                        rows,
                        pause: Some(pause),
                        ..Projected::default()
                    });
                }
            };
            if !self.block(view, &mut rows, &events).await? {
                return Ok(not_yet);
            }
        }
        Ok(Projected {
            rows,
            ..Projected::default()
        })
    }

    async fn confirmed(
        &self,
        tx: &Transaction<'_>,
        blocks: Option<&[(i64, Vec<u8>)]>,
    ) -> Result<()> {
        latest::confirm(tx, self.place.chain, blocks).await
    }

    /// Rows are made in any order, so what the chain names counts beside what is written down.
    async fn made_with(
        &self,
        tx: &Transaction<'_>,
        view: &ChainView,
        settings: Value,
    ) -> Result<Value> {
        let head = view.head().map_or(0, |head| head.number);
        match self.upgrades.through(view, head).await? {
            Some(timeline) => {
                let named = timeline.epochs().map(|epoch| epoch.implementation);
                registry::used(tx, self.place.chain, settings, named.collect()).await
            }
            None => Ok(settings),
        }
    }

    async fn implementations(&self, view: &ChainView) -> Result<Vec<([u8; 20], bool)>> {
        let Some(head) = view.head() else {
            return Ok(Vec::new());
        };
        let is_final = |block| view.is_final(block);
        let timeline = self.upgrades.through(view, head.number).await?;
        let mut all = BTreeMap::new();
        for epoch in timeline.iter().flat_map(Timeline::epochs) {
            *all.entry(epoch.implementation).or_default() |= is_final(epoch.block);
        }
        Ok(all.into_iter().collect())
    }

    async fn note_code(&self, contract: &[u8; 20], hash: Option<[u8; 32]>) -> Result<()> {
        codes::note(&self.database, self.place.chain, contract, hash).await
    }

    /// Paused while an upgrade of the chain as it is now is to an implementation without a version or with
    /// other code, and while the first version is unknown.
    async fn is_still_paused(&self, view: &ChainView, reason: &str) -> Result<bool> {
        let known = Known::default();
        if reason == NONE {
            return Ok(self.initial_version(&known).await?.is_none());
        }
        // The code may have been checked again.
        self.codes.lock().clear();
        let by_upgrade = [UNKNOWN, BYTECODE].contains(&reason);
        let Some(head) = view.head().filter(|_| by_upgrade) else {
            return Ok(true);
        };
        let Some(timeline) = self.upgrades.through(view, head.number).await? else {
            return Ok(true);
        };
        for epoch in timeline.epochs() {
            let at = (epoch.block, &epoch.implementation);
            if !matches!(self.in_force(&known, at).await?, InForce::Known(_)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

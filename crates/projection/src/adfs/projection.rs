//! From blocks to rows: which version is in force at each event, what its transaction carries.
//!
//! An upgrade to an implementation that nobody named stops the projection at its block. An event before
//! the first upgrade is of the only version there is; where there are several, it stops the projection
//! too, since upgrades before the first block that counts are not known.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::Address;
use async_trait::async_trait;
use bytes::Bytes;
use chronolith_model::{Dataset, DatasetSet};
use deadpool_postgres::Transaction;
use serde_json::Value;

use super::latest;
use super::registry;
use super::rows::{self, Event, Input, NAME, PARTITIONED, Place, Version};
use super::settings::{AdfsSettings, UPGRADED};
use super::versions::{Timeline, Upgrades, upgraded};
use crate::database::Database;
use crate::error::Result;
use crate::feed::{Found, Moment, Wanted};
use crate::project::{Pause, Projected, Projection, quarantine_for};
use crate::rows::Rows;

/// An upgrade to an implementation that nobody named.
pub(crate) const UNKNOWN: &str = "unknownImplementation";
/// An event before the first upgrade.
const NONE: &str = "noImplementation";
/// Bytes of rows that are written at once: calldata is large, and a page has many logs.
const ROWS_BYTES_MAX: usize = 16 << 20;

/// The ADFS contract of a chain.
pub(crate) struct Adfs {
    place: Place,
    settings: AdfsSettings,
    versions: BTreeMap<u32, Version>,
    wanted: Wanted,
    upgrades: Upgrades,
    database: Database,
    /// Implementations that operators named.
    added: Mutex<BTreeMap<[u8; 20], u32>>,
}

impl Adfs {
    pub(crate) fn new(chain: u64, settings: AdfsSettings, database: Database) -> Result<Self> {
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
        let topic0 = settings.topics();
        let topic0 = topic0.iter().map(|topic| Bytes::copy_from_slice(topic));
        let topic0: Vec<Bytes> = topic0.collect();
        Ok(Self {
            place: Place {
                chain: crate::chain_id(chain)?,
                proxy: Address::from(settings.proxy),
            },
            wanted: Wanted {
                emitters: vec![Bytes::copy_from_slice(&settings.proxy)],
                topic0,
                datasets: DatasetSet::of(&[Dataset::Logs, Dataset::Transactions]),
            },
            upgrades: Upgrades::new(&settings.proxy, settings.start_block),
            versions,
            settings,
            database,
            added: Mutex::default(),
        })
    }

    /// The version of an implementation, as the settings or an operator say.
    async fn version_of(&self, implementation: &[u8; 20]) -> Result<Option<&Version>> {
        if let Some(number) = self.number_of(implementation) {
            return Ok(self.versions.get(&number));
        }
        let added = registry::added(&self.database, self.place.chain).await?;
        *self.added.lock().unwrap_or_else(PoisonError::into_inner) = added;
        let number = self.number_of(implementation);
        Ok(number.and_then(|number| self.versions.get(&number)))
    }

    fn number_of(&self, implementation: &[u8; 20]) -> Option<u32> {
        let named = self.settings.implementations.get(implementation);
        named.copied().or_else(|| {
            let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
            added.get(implementation).copied()
        })
    }

    /// The version in force at each log of a block, or why nobody knows.
    async fn events<'a>(
        &'a self,
        timeline: &Timeline,
        block: &'a [Found<'a>],
    ) -> Result<std::result::Result<Vec<Event<'a>>, Pause>> {
        let mut events = Vec::new();
        for found in block {
            let number = found.block.number;
            // An upgrade brings its own version with it.
            let implementation = upgraded(found.log).or_else(|| {
                let epoch = timeline.at(number, found.log.log_index());
                epoch.map(|epoch| epoch.implementation)
            });
            let version = match &implementation {
                Some(implementation) => self.version_of(implementation).await?,
                None => self.only_version(),
            };
            let Some(version) = version else {
                return Ok(Err(unknown(number, implementation)));
            };
            events.push(Event { found, version });
        }
        Ok(Ok(events))
    }

    fn only_version(&self) -> Option<&Version> {
        let mut all = self.versions.values();
        all.next().filter(|_| all.next().is_none())
    }

    /// Adds the rows of a block. False where its transactions are not at hand.
    async fn block(&self, moment: &Moment, rows: &mut Rows, events: &[Event<'_>]) -> Result<bool> {
        let updates = |event: &Event<'_>| event.found.log.topic(0) != Some(UPGRADED.as_slice());
        let bodies = match events.iter().find(|event| updates(event)) {
            Some(event) => match bodies(moment, event.found).await? {
                Some(bodies) => bodies,
                None => return Ok(false),
            },
            None => Vec::new(),
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
                        quarantine_for(rows, (self.place.chain, NAME), found, why);
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
}

fn unknown(block: u64, implementation: Option<[u8; 20]>) -> Pause {
    let (reason, detail) = match implementation {
        Some(address) => (
            UNKNOWN,
            format!(
                "at block {block} the implementation is {}, of which no version is known: name it in \
                 implVersionMap, or with `chronolith versions add`",
                Address::from(address)
            ),
        ),
        None => (
            NONE,
            format!(
                "block {block} has an update before the first upgrade, and there are several versions: \
                 startBlock must not be behind the block of deployment"
            ),
        ),
    };
    Pause {
        block,
        reason,
        detail,
    }
}

/// The transactions of a log's block; none where they are not at hand.
async fn bodies(moment: &Moment, found: &Found<'_>) -> Result<Option<Vec<Bytes>>> {
    let number = found.block.number;
    match &moment.archive {
        Some(archive) if moment.head().is_some_and(|head| number <= head.number) => {
            let payload = archive.payload(number, Dataset::Transactions).await?;
            Ok(payload.bodies)
        }
        _ => {
            let block = moment.tail.get(number);
            let block = block.filter(|block| block.clock.hash == found.block.hash);
            Ok(block.and_then(|block| block.payload.bodies.clone()))
        }
    }
}

#[async_trait]
impl Projection for Adfs {
    fn name(&self) -> &'static str {
        NAME
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

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn tables(&self) -> &'static [&'static str] {
        PARTITIONED
    }

    /// Feeds and rows of the table are many, and of one event.
    fn events(&self, rows: &Rows) -> u64 {
        rows.count_of(&rows::EVENTS) as u64
    }

    async fn registered(&self, tx: &Transaction<'_>) -> Result<()> {
        registry::register(tx, self.place.chain, &self.settings).await
    }

    async fn rows(&self, moment: &Moment, found: &[Found<'_>]) -> Result<Projected> {
        let mut rows = Rows::default();
        let not_yet = || Projected {
            not_yet: true,
            ..Projected::default()
        };
        let last = found.last().map_or(0, |one| one.block.number);
        let Some(timeline) = self.upgrades.through(moment, last).await? else {
            return Ok(not_yet());
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
            let events = match self.events(&timeline, block).await? {
                Ok(events) => events,
                Err(pause) => {
                    return Ok(Projected {
                        rows,
                        pause: Some(pause),
                        ..Projected::default()
                    });
                }
            };
            if !self.block(moment, &mut rows, &events).await? {
                return Ok(not_yet());
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

    /// Stands still while an upgrade of the chain as it is now is to an implementation that nobody named.
    async fn stands_still(&self, moment: &Moment, reason: &str) -> Result<bool> {
        let Some(tip) = moment.tip().filter(|_| reason == UNKNOWN) else {
            return Ok(true);
        };
        let Some(timeline) = self.upgrades.through(moment, tip.number).await? else {
            return Ok(true);
        };
        for epoch in timeline.epochs() {
            if self.version_of(&epoch.implementation).await?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//! Events of fee contracts as rows.

mod coverage;
mod event;
mod filter;
mod known;
mod near;
mod pages;
mod query;
mod recorded;
mod totals;

use std::sync::OnceLock;

use async_trait::async_trait;
use chronolith_chain_view::ChainView;
use chronolith_model::Dataset;
use chronolith_projection::{
    BlockLog, ChainState, Error, LogSelection, Projected, Projection, ProjectionKind, Refusal,
    Result, Rows, Table, TableRole, chain_id, newest,
};
use deadpool_postgres::Transaction;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use coverage::FeeCoverage;
pub use filter::{Address, FeeFilter, FeeStatus, event_named, event_names};
pub use known::known_contracts;
pub use pages::{FeePage, page};
pub use query::{FeeList, FeePosition, FeeRequest, FeeRow, list};
pub use recorded::recorded_start;
pub use totals::{FeeTotal, TotalPosition, totals};

const TABLE: Table = Table {
    name: "fee_event_rows",
    columns: &[
        "log_index",
        "position",
        "event",
        "contract",
        "token",
        "integrator",
        "integrator_fee",
        "lifi_fee",
        "recipient",
        "amount",
    ],
    role: TableRole::Events,
};

/// The projection's name.
const NAME: &str = "fees";

/// The newest events. The party is the integrator of collected fees, or the receiver.
const RECENT_FEES: &str = "\
    SELECT jsonb_build_object('blockNumber', block_number, \
        'timestamp', extract(epoch FROM block_timestamp)::bigint, \
        'txHash', '0x' || encode(tx_hash, 'hex'), 'logIndex', log_index, 'position', position, \
        'event', event::text, 'token', '0x' || encode(token, 'hex'), \
        'party', '0x' || encode(coalesce(integrator, recipient), 'hex'), \
        'amount', coalesce(integrator_fee, amount)::text, 'status', status::text) \
    FROM fee_events WHERE chain_id = $1 \
    ORDER BY block_number DESC, log_index DESC, position DESC LIMIT $2";

/// A contract, and the first block whose events count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeeContract {
    /// Its address, 20 bytes in hex.
    #[serde(serialize_with = "as_hex")]
    pub address: [u8; 20],
    /// The first block.
    pub from_block: u64,
}

fn as_hex<S: serde::Serializer>(address: &[u8; 20], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&const_hex::encode_prefixed(address))
}

/// The fee contracts of a chain.
pub struct Fees {
    chain: i64,
    contracts: Vec<FeeContract>,
    /// The same with the first blocks that are recorded, once they are known; none where others are an error.
    recorded: Option<OnceLock<Vec<FeeContract>>>,
    selection: LogSelection,
}

impl Fees {
    /// The events of these contracts.
    ///
    /// # Errors
    /// There are none, or the chain's id is larger than the database can hold.
    pub fn new(chain: u64, mut contracts: Vec<FeeContract>) -> Result<Self> {
        contracts.sort_by_key(|one| (one.address, one.from_block));
        contracts.dedup();
        if contracts.is_empty() {
            let why = format!("no fee contract is known on chain {chain}: name one");
            return Err(Error::Invalid(why));
        }
        let emitters: Vec<[u8; 20]> = contracts.iter().map(|one| one.address).collect();
        Ok(Self {
            chain: chain_id(chain)?,
            contracts,
            recorded: None,
            selection: LogSelection::new(&emitters, &topics(), &[Dataset::Logs]),
        })
    }

    /// The same, with first blocks for the first run only: those that it recorded go before them.
    #[must_use]
    pub fn of_first_run(self) -> Self {
        Self {
            recorded: Some(OnceLock::new()),
            ..self
        }
    }

    fn contracts(&self) -> &[FeeContract] {
        let recorded = self.recorded.as_ref().and_then(OnceLock::get);
        recorded.unwrap_or(&self.contracts)
    }

    /// Whether an event counts: its contract may do so only from a later block on.
    fn counts(&self, found: &BlockLog<'_>) -> bool {
        let mut contracts = self.contracts().iter();
        contracts
            .any(|one| one.address == *found.log.emitter() && found.block.number >= one.from_block)
    }
}

/// First topics of the events of fee contracts.
#[must_use]
pub fn topics() -> Vec<[u8; 32]> {
    let events = event::EVENTS.iter();
    events.map(|(_, topic)| topic.0).collect()
}

/// Projections of fee contracts.
#[derive(Clone, Copy, Debug)]
pub struct FeesKind;

#[async_trait]
impl ProjectionKind for FeesKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tables(&self) -> &'static [&'static Table] {
        &[&TABLE]
    }

    async fn overview(
        &self,
        tx: &Transaction<'_>,
        chain: &ChainState,
    ) -> Result<Map<String, Value>> {
        let fees = newest(tx, chain, NAME, RECENT_FEES).await?;
        let name = "recentFees".to_owned();
        Ok(Map::from_iter([(name, Value::Array(fees))]))
    }
}

#[async_trait]
impl Projection for Fees {
    fn kind(&self) -> &'static dyn ProjectionKind {
        &FeesKind
    }

    fn start_block(&self) -> u64 {
        let starts = self.contracts().iter().map(|one| one.from_block);
        starts.min().unwrap_or(0)
    }

    fn settings(&self) -> Value {
        json!({ "contracts": self.contracts() })
    }

    fn adopts(&self, recorded: &Value) -> bool {
        let Some(known) = &self.recorded else {
            return false;
        };
        let mut contracts = self.contracts.clone();
        for one in &mut contracts {
            let Some(first) = recorded_start(recorded, &one.address) else {
                return false;
            };
            one.from_block = first;
        }
        // Nothing but first blocks may differ, and they do not change any more.
        json!({ "contracts": contracts }) == *recorded
            && *known.get_or_init(|| contracts.clone()) == contracts
    }

    fn extends(&self, before: &Value) -> bool {
        let now = self.settings();
        let list = |settings: &Value| settings["contracts"].as_array().cloned();
        let (Some(now), Some(before)) = (list(&now), list(before)) else {
            return false;
        };
        before.iter().all(|one| now.contains(one))
    }

    fn selection(&self) -> &LogSelection {
        &self.selection
    }

    async fn rows(&self, _view: &ChainView, found: &[BlockLog<'_>]) -> Result<Projected> {
        let mut rows = Rows::default();
        for one in found.iter().filter(|one| self.counts(one)) {
            match event::decode(one.log) {
                Ok(events) => {
                    for (position, event) in events.iter().enumerate() {
                        self.put(&mut rows, one, position as u32, event);
                    }
                }
                Err(detail) => {
                    let refusal = Refusal {
                        projection: NAME,
                        reason: "malformed",
                        detail,
                    };
                    rows.quarantine(self.chain, one, refusal);
                }
            }
        }
        Ok(Projected {
            rows,
            ..Projected::default()
        })
    }
}

impl Fees {
    fn put(&self, rows: &mut Rows, one: &BlockLog<'_>, position: u32, event: &event::FeeEvent) {
        rows.row(&TABLE, self.chain, one)
            .int4(one.log.log_index())
            .int4(position)
            .text(event.name)
            .bytes(one.log.emitter())
            .bytes(&event.token)
            .maybe(event.integrator, |row, value| row.bytes(&value))
            .maybe(event.integrator_fee, |row, value| row.numeric(value))
            .maybe(event.lifi_fee, |row, value| row.numeric(value))
            .maybe(event.recipient, |row, value| row.bytes(&value))
            .maybe(event.amount, |row, value| row.numeric(value))
            .finish();
    }
}

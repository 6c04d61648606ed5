//! Which fee events are requested, and the same as a condition. Every value is bound; the text of a
//! statement is made of our own words alone.

use chronolith_projection::{Result, chain_id};
use tokio_postgres::types::ToSql;

use crate::coverage::FeeCoverage;
use crate::event::EVENTS;

/// Twenty bytes.
pub type Address = [u8; 20];

/// What may become of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeeStatus {
    /// Its block is not final yet.
    Pending,
    Confirmed,
    /// Its block is on no chain any more.
    Dropped,
}

impl FeeStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Confirmed, Self::Dropped];

    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Dropped => "dropped",
        }
    }

    /// From its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The names of all events.
pub fn event_names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|(name, _)| *name)
}

/// The name of an event, where there is such an event.
#[must_use]
pub fn event_named(name: &str) -> Option<&'static str> {
    event_names().find(|known| *known == name)
}

/// Which events are requested. What is none is not looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeeFilter {
    pub chain: Option<u64>,
    pub integrator: Option<Address>,
    /// In one token.
    pub token: Option<Address>,
    /// Of one name, see [`event_named`].
    pub event: Option<&'static str>,
    pub from_block: Option<u64>,
    /// Through this block.
    pub to_block: Option<u64>,
    /// From this second since 1970 on.
    pub from_time: Option<u64>,
    /// Before this second since 1970.
    pub until_time: Option<u64>,
    /// Of one status; where it is none, all but dropped ones.
    pub status: Option<FeeStatus>,
}

type Value = Box<dyn ToSql + Sync + Send>;

/// Conditions, and the values that are bound to them.
pub(crate) struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// What a filter asks of one chain.
    pub(crate) fn of(filter: &FeeFilter, chain: &FeeCoverage) -> Result<Self> {
        let chain_id = chain_id(chain.chain)?;
        let mut all = Self {
            sql: "chain_id = $1".to_owned(),
            values: vec![Box::new(chain_id)],
        };
        if let Some(integrator) = filter.integrator {
            all.and("integrator = ", integrator.to_vec(), "");
        }
        if let Some(token) = filter.token {
            all.and("token = ", token.to_vec(), "");
        }
        if let Some(event) = filter.event {
            all.and("event = ", event, "::text::fee_event");
        }
        if let Some(block) = filter.from_block {
            all.and("block_number >= ", number(block), "");
        }
        if let Some(block) = filter.to_block {
            all.and("block_number <= ", number(block), "");
        }
        if let Some(time) = filter.from_time {
            all.since_time(time);
        }
        if let Some(time) = filter.until_time {
            all.until_time(time);
        }
        all.of_status(filter.status, chain);
        Ok(all)
    }

    /// The status follows from the tables that the view joins, which no index knows. The condition
    /// beside it leads to the same rows by their block.
    fn of_status(&mut self, status: Option<FeeStatus>, chain: &FeeCoverage) {
        let safe = chain.safe_block.map_or(-1, number);
        match status {
            None => self.sql.push_str(" AND status <> 'dropped'"),
            Some(FeeStatus::Pending) => {
                self.and("status = 'pending' AND block_number > ", safe, "");
            }
            Some(FeeStatus::Confirmed) => {
                self.and("status = 'confirmed' AND block_number <= ", safe, "");
            }
            Some(FeeStatus::Dropped) => self.sql.push_str(
                " AND status = 'dropped' AND (block_number, block_hash) IN \
                 (SELECT block_number, block_hash FROM dropped_blocks WHERE chain_id = $1)",
            ),
        }
    }

    pub(crate) fn since_time(&mut self, seconds: u64) {
        let (before, after) = ("block_timestamp >= to_timestamp(", "::bigint)");
        self.and(before, moment(seconds), after);
    }

    pub(crate) fn until_time(&mut self, seconds: u64) {
        let (before, after) = ("block_timestamp < to_timestamp(", "::bigint)");
        self.and(before, moment(seconds), after);
    }

    /// One more condition, with a value in it.
    pub(crate) fn and(
        &mut self,
        before: &str,
        value: impl ToSql + Sync + Send + 'static,
        after: &str,
    ) {
        let place = self.bind(value);
        self.sql.push_str(&format!(" AND {before}{place}{after}"));
    }

    /// Binds a value; returns its place.
    pub(crate) fn bind(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    pub(crate) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        let values = self.values.iter();
        values
            .map(|value| &**value as &(dyn ToSql + Sync))
            .collect()
    }
}

/// A number as the database holds it: nothing there is larger.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A time that the database can hold, far after every block's.
fn moment(seconds: u64) -> i64 {
    const LATEST: i64 = 9_000_000_000_000;
    number(seconds).min(LATEST)
}

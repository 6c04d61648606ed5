//! What is projected of each chain, and the database it goes to.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use chronolith_model::{Dataset, Scope, ScopeEntry};
use chronolith_projection::place_of;
use chronolith_projection_fees::{FeeContract, known_contracts};

use super::adfs::Kept;
use super::process::Token;
use super::raw::{RawDatabase, RawFeeContract, RawFeeContractSettings, RawFees, RawFeesSettings};
use super::reading::{between, typed};
use crate::environment::Overrides;
use crate::hex::parse_array;

/// Connections to the database, of the whole process.
const CONNECTIONS: usize = 10;
/// Jobs that this process works on at the same time, of each chain.
const WORKERS: usize = 2;

/// The shortest lease of a job.
const JOB_TTL_MIN: Duration = Duration::from_secs(1);

/// The database of projections.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseSettings {
    /// Where it is written.
    pub(crate) writer: Option<Token>,
    /// Where it is read, if that is elsewhere.
    pub(crate) reader: Option<Token>,
    pub(crate) connections: usize,
    pub(crate) workers: usize,
}

impl DatabaseSettings {
    pub(super) fn new(raw: &RawDatabase) -> Result<Self> {
        let token = |url: &Option<String>| url.clone().filter(|url| !url.is_empty()).map(Token);
        Ok(Self {
            writer: token(&raw.url),
            reader: token(&raw.readonly_url),
            connections: between("db.connections", raw.connections, CONNECTIONS, 2..=1_000)?,
            workers: between("db.workers", raw.workers, WORKERS, 0..=64)?,
        })
    }

    /// Whether the URLs can be read.
    pub(super) fn check(&self) -> Result<()> {
        let named = [
            ("db.url, PG_URL", &self.writer),
            ("db.readonlyUrl, PG_READONLY_URL", &self.reader),
        ];
        for (name, url) in named {
            if let Some(url) = url {
                place_of(&url.0).with_context(|| name.to_owned())?;
            }
        }
        Ok(())
    }

    pub(super) fn put_over(&mut self, overrides: &Overrides) {
        let token = |url: &Option<String>| url.clone().map(Token);
        self.writer = token(&overrides.pg_url).or(self.writer.take());
        self.reader = token(&overrides.pg_readonly_url).or(self.reader.take());
    }
}

/// The fee contracts of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FeesSettings {
    pub(crate) contracts: Vec<FeeContract>,
    pub(crate) job_blocks: Option<u64>,
    /// How long the lease of a job lasts without renewal.
    pub(crate) job_ttl: Option<Duration>,
    /// Whether first blocks are for the first run only: later ones go on where its rows begin.
    pub(crate) first_run_only: bool,
}

/// The fee contracts that are named; the known ones of the chain where none are.
pub(super) fn fees(
    raw: Option<&RawFees>,
    chain_id: u64,
    start_block: u64,
) -> Result<Option<FeesSettings>> {
    let whole = match raw {
        None | Some(RawFees::Whether(false)) => return Ok(None),
        Some(RawFees::Whether(true)) => RawFeesSettings::default(),
        Some(RawFees::Whole(value)) => {
            ensure!(
                value.is_object(),
                "fees: true, or an object such as {{ \"contracts\": [\"0x…\"] }}"
            );
            typed(value.clone(), "fees")?
        }
    };
    let job_ttl = whole.job_lease_ttl_ms.map(Duration::from_millis);
    ensure!(
        job_ttl.is_none_or(|ttl| ttl >= JOB_TTL_MIN),
        "fees.jobLeaseTtlMs: at least 1000"
    );
    let mut contracts = Vec::new();
    for (at, one) in whole.contracts.iter().enumerate() {
        let name = format!("fees.contracts[{at}]");
        let (address, from_block) = match one {
            RawFeeContract::Address(address) => (address.clone(), None),
            RawFeeContract::Whole(value) => {
                ensure!(
                    value.is_object(),
                    "{name}: a contract is an address, or an object with `address`"
                );
                let whole: RawFeeContractSettings = typed(value.clone(), &name)?;
                (whole.address, whole.from_block)
            }
        };
        contracts.push(FeeContract {
            address: address_of(&address).context(name)?,
            from_block: from_block.unwrap_or(start_block),
        });
    }
    if contracts.is_empty() {
        let known = known_contracts(chain_id).into_iter();
        contracts.extend(known.map(|address| FeeContract {
            address,
            from_block: start_block,
        }));
    }
    ensure!(
        !contracts.is_empty(),
        "fees: no fee contract is known on chain {chain_id}: name one, as in \
         \"fees\": {{ \"contracts\": [\"0x…\"] }}"
    );
    Ok(Some(FeesSettings {
        contracts,
        job_blocks: whole.job_blocks,
        job_ttl,
        first_run_only: false,
    }))
}

pub(super) fn address_of(text: &str) -> Result<[u8; 20]> {
    parse_array(text).with_context(|| format!("`{text}` is not an address: 0x and 40 digits"))
}

/// What is kept of a chain must hold what is projected.
pub(super) fn widen(Kept { datasets, scope }: Kept, fees: Option<&FeesSettings>) -> Result<Scope> {
    let Some(fees) = fees else {
        return Ok(scope);
    };
    ensure!(
        datasets.contains(Dataset::Logs),
        "fees: the events are logs, and datasets does not name `logs`"
    );
    let Scope::Only(mut entries) = scope else {
        return Ok(scope);
    };
    entries.extend(fees.contracts.iter().map(|contract| ScopeEntry {
        emitter: Some(Bytes::copy_from_slice(&contract.address)),
        topic0: None,
    }));
    Ok(Scope::only(entries))
}

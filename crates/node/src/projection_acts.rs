//! What operators do with projections: one function behind a command and the same act over the listener.

use chronolith_follower::clock::now;
use chronolith_projection::jobs::{self, ATTEMPTS_MAX, Gap, JobReport};
use chronolith_projection::leases::{self, LeaseKind, LeaseReport};
use chronolith_projection::{ChainState, Database, Error, JOB_BLOCKS, Month, partitions};
use chronolith_projection_adfs::{KnownVersion, add_version, list_versions, remove_version};
use serde::Serialize;
use serde_json::json;

use crate::hex::{hex, parse_hex};
use crate::settings::{ChainSettings, Settings};

/// Blocks of a job that closes a gap.
const GAP_BLOCKS: u64 = 10_000;

/// Why an act was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActFault {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No such chain, or it has not what it takes.
    #[error("{0}")]
    Chain(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The database refuses or does not answer.
    #[error(transparent)]
    Database(#[from] Error),
}

type Done<T> = Result<T, ActFault>;

/// How far everything is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) schema_version: i32,
    pub(crate) chains: Vec<ChainState>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resumed {
    pub(crate) chain_id: u64,
    #[serde(skip)]
    pub(crate) name: String,
    /// The projections that stood still.
    pub(crate) resumed: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replayed {
    pub(crate) chain_id: u64,
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) jobs: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    #[serde(flatten)]
    pub(crate) job: JobReport,
    /// What is known of it, and what to do.
    pub(crate) explanation: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Retried {
    pub(crate) retried: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    pub(crate) chain_id: u64,
    #[serde(skip)]
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) released: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) month: String,
    pub(crate) created: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrunedAll {
    pub(crate) dry_run: bool,
    pub(crate) partitions: Vec<partitions::Pruned>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Added {
    pub(crate) chain_id: u64,
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) implementation: String,
    pub(crate) version: u32,
    /// False where it was known already.
    pub(crate) new: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Removed {
    pub(crate) chain_id: u64,
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) implementation: String,
    /// False where nobody added it.
    pub(crate) removed: bool,
}

/// Whoever acts, and on what.
pub(crate) struct ProjectionActs<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) database: &'a Database,
    /// Who it is, for those who look later.
    pub(crate) operator: String,
}

/// A chain by name or id; none for the only one, or for all.
type Wanted<'a> = Option<&'a str>;

impl ProjectionActs<'_> {
    fn chain(&self, wanted: Wanted<'_>) -> Done<&ChainSettings> {
        let found = self.settings.chain(wanted);
        found.map_err(|error| ActFault::Chain(error.to_string()))
    }

    fn id_of(&self, wanted: Wanted<'_>) -> Done<Option<u64>> {
        let chain = wanted.map(|name| self.chain(Some(name))).transpose()?;
        Ok(chain.map(|chain| chain.chain_id))
    }

    /// `db status` and `projection state`.
    pub(crate) async fn status(&self, chain: Wanted<'_>) -> Done<Status> {
        let chain = self.id_of(chain)?;
        self.database.check_version().await?;
        Ok(Status {
            schema_version: chronolith_projection::latest_version(),
            chains: chronolith_projection::state(self.database, chain).await?,
        })
    }

    /// The projection that is meant, or all of the chain.
    async fn names(&self, chain: u64, projection: Option<&str>) -> Done<Vec<String>> {
        let states = chronolith_projection::state(self.database, Some(chain)).await?;
        let known = states.into_iter().flat_map(|state| state.projections);
        let known: Vec<String> = known.map(|one| one.projection).collect();
        let Some(name) = projection else {
            return Ok(known);
        };
        match known.iter().any(|one| one == name) {
            true => Ok(vec![name.to_owned()]),
            false => Err(ActFault::NotFound(format!(
                "chain {chain} has no projection {name}; it has: {}",
                known.join(", ")
            ))),
        }
    }

    /// `projection resume`.
    pub(crate) async fn resume(
        &self,
        chain: Wanted<'_>,
        projection: Option<&str>,
    ) -> Done<Resumed> {
        let chain = self.chain(chain)?;
        let (id, mut resumed) = (chain.chain_id, Vec::new());
        for name in self.names(id, projection).await? {
            if chronolith_projection::resume(self.database, id, &name, &self.operator).await? {
                resumed.push(name);
            }
        }
        Ok(Resumed {
            chain_id: id,
            name: chain.name.clone(),
            resumed,
        })
    }

    /// `projection replay`.
    pub(crate) async fn replay(
        &self,
        chain: Wanted<'_>,
        projection: Option<&str>,
        (from, to): (u64, u64),
    ) -> Done<Replayed> {
        let chain = self.chain(chain)?;
        if from > to {
            let why = format!("the last block {to} is below the first, {from}");
            return Err(ActFault::Invalid(why));
        }
        let blocks = chain.fees.as_ref().and_then(|fees| fees.job_blocks);
        let blocks = blocks.unwrap_or(JOB_BLOCKS);
        let (id, mut made) = (chain.chain_id, 0);
        for name in self.names(id, projection).await? {
            let (of, by) = ((id, name.as_str()), &self.operator);
            made += jobs::replay(self.database, of, (from, to), blocks, by).await?;
        }
        Ok(Replayed {
            chain_id: id,
            name: chain.name.clone(),
            jobs: made,
        })
    }

    /// `jobs list`.
    pub(crate) async fn jobs(&self, chain: Wanted<'_>) -> Done<Vec<JobReport>> {
        Ok(jobs::list(self.database, self.id_of(chain)?).await?)
    }

    /// `jobs explain`.
    pub(crate) async fn explain(&self, id: i64) -> Done<Explained> {
        let job = jobs::find(self.database, id).await?;
        let none = || ActFault::NotFound(format!("there is no job {id}: it is done, or never was"));
        let job = job.ok_or_else(none)?;
        Ok(Explained {
            explanation: explain(&job),
            job,
        })
    }

    /// `jobs retry`.
    pub(crate) async fn retry(&self, id: Option<i64>) -> Done<Retried> {
        let retried = jobs::retry(self.database, id, &self.operator).await?;
        Ok(Retried { retried })
    }

    /// `jobs audit`.
    pub(crate) async fn audit(&self, chain: Wanted<'_>) -> Done<Vec<Gap>> {
        let gaps = jobs::audit_gaps(self.database, self.id_of(chain)?).await?;
        for gap in &gaps {
            let of = (gap.chain_id as u64, gap.projection.as_str());
            let range = (gap.from_block as u64, gap.to_block as u64);
            jobs::replay(self.database, of, range, GAP_BLOCKS, &self.operator).await?;
        }
        Ok(gaps)
    }

    /// `locks list`.
    pub(crate) async fn locks(&self, chain: Wanted<'_>) -> Done<Vec<LeaseReport>> {
        Ok(leases::list(self.database, self.id_of(chain)?).await?)
    }

    /// `locks release`.
    pub(crate) async fn release(&self, chain: Wanted<'_>, kind: &str) -> Done<Released> {
        let chain = self.chain(chain)?;
        let kind: LeaseKind = kind.parse()?;
        let id = chain.chain_id;
        Ok(Released {
            chain_id: id,
            name: chain.name.clone(),
            kind: kind.name(),
            released: leases::release(self.database, id, kind, &self.operator).await?,
        })
    }

    /// `partitions create`.
    pub(crate) async fn create_partitions(&self, chain: Wanted<'_>, month: &str) -> Done<Created> {
        let month: Month = month.parse()?;
        let chains: Vec<u64> = match chain {
            Some(_) => vec![self.chain(chain)?.chain_id],
            None => self
                .settings
                .chains
                .iter()
                .map(|one| one.chain_id)
                .collect(),
        };
        let month_named = month.to_string();
        let detail = json!({ "month": month_named, "chains": chains });
        leases::note_act(self.database, "partitions create", &self.operator, &detail).await?;
        let created = partitions::create(self.database, &chains, month).await?;
        Ok(Created {
            month: month_named,
            created,
        })
    }

    /// `partitions prune`.
    pub(crate) async fn prune(&self, dry_run: bool) -> Done<PrunedAll> {
        if !dry_run {
            let detail = json!({ "monthsKept": partitions::MONTHS_KEPT });
            leases::note_act(self.database, "partitions prune", &self.operator, &detail).await?;
        }
        let partitions = partitions::prune(self.database, now(), dry_run).await?;
        Ok(PrunedAll {
            dry_run,
            partitions,
        })
    }

    /// `versions list`.
    pub(crate) async fn versions(&self, chain: Wanted<'_>) -> Done<Vec<KnownVersion>> {
        Ok(list_versions(self.database, self.id_of(chain)?).await?)
    }

    /// `versions add`.
    pub(crate) async fn add_version(
        &self,
        chain: Wanted<'_>,
        implementation: &str,
        version: u32,
    ) -> Done<Added> {
        let chain = self.chain(chain)?;
        let adfs = chain.adfs.as_ref();
        let no_contract =
            || ActFault::Chain(format!("chain {} has no contractAddress", chain.name));
        let adfs = adfs.ok_or_else(no_contract)?;
        let address = address_of(implementation)?;
        let (id, named) = (chain.chain_id, (&address, version));
        Ok(Added {
            chain_id: id,
            name: chain.name.clone(),
            implementation: hex(&address),
            version,
            new: add_version(self.database, id, adfs, named, &self.operator).await?,
        })
    }

    /// `versions remove`.
    pub(crate) async fn remove_version(
        &self,
        chain: Wanted<'_>,
        implementation: &str,
    ) -> Done<Removed> {
        let chain = self.chain(chain)?;
        let address = address_of(implementation)?;
        let id = chain.chain_id;
        Ok(Removed {
            chain_id: id,
            name: chain.name.clone(),
            implementation: hex(&address),
            removed: remove_version(self.database, id, &address, &self.operator).await?,
        })
    }
}

fn address_of(implementation: &str) -> Done<[u8; 20]> {
    let bytes = parse_hex(implementation);
    let address = bytes.and_then(|bytes| <[u8; 20]>::try_from(bytes.as_ref()).ok());
    address.ok_or_else(|| {
        let shown: String = implementation.chars().take(80).collect();
        ActFault::Invalid(format!(
            "implementation: `{shown}` is not an address: 0x and 40 digits"
        ))
    })
}

fn explain(job: &JobReport) -> String {
    let range = format!(
        "job {}: blocks {} to {} of chain {}, {}, done below {}",
        job.id, job.from_block, job.to_block, job.chain_id, job.projection, job.next_block
    );
    let error = job.error.as_deref().unwrap_or("nothing is known");
    let how = match job.status.as_str() {
        "processing" => format!(
            "{} works on it (attempt {}); others may take it in {:.0} s",
            job.locked_by.as_deref().unwrap_or("somebody"),
            job.attempts,
            job.lock_seconds.unwrap_or(0.0).max(0.0)
        ),
        "failed" => format!(
            "attempt {} of {ATTEMPTS_MAX} failed: {error}; it is tried again in {:.0} s",
            job.attempts, job.retry_in_seconds
        ),
        "dead" => format!(
            "it failed {} times and is not tried any more: {error}. When the cause is gone, run \
             `chronolith jobs retry {}`",
            job.attempts, job.id
        ),
        _ => "it waits for a worker: `chronolith run` or `chronolith work`".to_owned(),
    };
    format!("{range}\n{how}")
}

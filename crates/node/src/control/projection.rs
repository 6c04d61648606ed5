//! Operations on projections. The command line and the admin API perform them with one function.

use std::time::Duration;

use chronolith_follower::clock::now;
use chronolith_model::ErrorKind;
use chronolith_projection::jobs::{self, ATTEMPTS_MAX, Gap, JobReport};
use chronolith_projection::leases::{self, LeaseKind, LeaseReport};
use chronolith_projection::{ChainState, Database, Error, JOB_BLOCKS, Month, partitions};
use chronolith_projection_adfs::{KnownVersion, add_version, list_versions, remove_version};
use chronolith_serve::admin::operation::{
    LockOf, OfProjection, PartitionsOf, ProjectionOperation, Replay, VersionOf,
};
use chronolith_serve::{ApiError, ChainId, ErrorCode};
use const_hex::encode_prefixed;
use serde::Serialize;
use serde_json::{Value, json};

use crate::hex::parse_array;
use crate::projecting::who;
use crate::projections::KINDS;
use crate::settings::{ChainSettings, Settings};

/// Blocks of a job that closes a gap.
const GAP_BLOCKS: u64 = 10_000;
/// How long an operation of the admin API may take. The server ends a statement that takes this long.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Connections of the admin API: operators are few, and must not wait for writers.
const CONNECTIONS: usize = 2;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OperationError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// There is no such chain, or a setting that the operation needs is missing.
    #[error("{0}")]
    Chain(String),
    #[error("{0}")]
    NotFound(String),
    /// The database refuses or does not answer.
    #[error(transparent)]
    Database(#[from] Error),
}

impl From<OperationError> for ApiError {
    fn from(error: OperationError) -> Self {
        let message = error.to_string();
        let code = match error {
            OperationError::Invalid(_) => ErrorCode::BadRequest,
            OperationError::Chain(_) => ErrorCode::UnknownChain,
            OperationError::NotFound(_) => ErrorCode::NotFound,
            OperationError::Database(Error::Schema { .. }) => ErrorCode::Schema,
            OperationError::Database(error) => match error.kind() {
                ErrorKind::Invalid => ErrorCode::BadRequest,
                ErrorKind::Unavailable => {
                    let message = format!(
                        "{message}. Check that PostgreSQL runs and that PG_URL or db.url points to it, then \
                         retry: the operation is idempotent, and no restart is needed"
                    );
                    return Self::for_operator(ErrorCode::Unavailable, message);
                }
                _ => ErrorCode::Failed,
            },
        };
        Self::for_operator(code, message)
    }
}

type Result<T> = std::result::Result<T, OperationError>;

/// The result of an operation: its JSON is the answer over HTTP and of `--json`.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum Outcome {
    Status {
        schema_version: i32,
        chains: Vec<ChainState>,
    },
    Resumed {
        chain_id: ChainId,
        #[serde(skip)]
        chain: String,
        /// The projections that were paused.
        resumed: Vec<String>,
    },
    Replayed {
        chain_id: ChainId,
        #[serde(skip)]
        chain: String,
        jobs: u64,
    },
    Jobs(Vec<JobReport>),
    Explained {
        #[serde(flatten)]
        job: JobReport,
        /// What is known of the job, and what to do.
        explanation: String,
    },
    Retried {
        retried: u64,
    },
    Gaps(Vec<Gap>),
    Locks(Vec<LeaseReport>),
    Released {
        chain_id: ChainId,
        #[serde(skip)]
        chain: String,
        #[serde(rename = "type")]
        kind: &'static str,
        /// False where it was free.
        released: bool,
    },
    CreatedPartitions {
        month: String,
        created: Vec<String>,
    },
    PrunedPartitions {
        dry_run: bool,
        partitions: Vec<partitions::Pruned>,
    },
    Versions(Vec<KnownVersion>),
    AddedVersion {
        chain_id: ChainId,
        #[serde(skip)]
        chain: String,
        implementation: String,
        version: u32,
        /// False where it was known already.
        new: bool,
    },
    RemovedVersion {
        chain_id: ChainId,
        #[serde(skip)]
        chain: String,
        implementation: String,
        /// False where it was never added.
        removed: bool,
    },
}

/// Performs operations of one operator.
pub(crate) struct ProjectionOperator<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) database: &'a Database,
    /// Who it is, for the record.
    pub(crate) operator: String,
}

impl ProjectionOperator<'_> {
    pub(crate) async fn perform(&self, operation: ProjectionOperation) -> Result<Outcome> {
        use ProjectionOperation as Operation;
        let (database, operator) = (self.database, self.operator.as_str());
        Ok(match operation {
            Operation::Status(of) => {
                let chain = self.id_of(of.chain)?;
                database.check_version().await?;
                Outcome::Status {
                    schema_version: chronolith_projection::latest_version(),
                    chains: chronolith_projection::state(database, chain).await?,
                }
            }
            Operation::Resume(of) => self.resume(of).await?,
            Operation::Replay(of) => self.replay(of).await?,
            Operation::Jobs(of) => {
                Outcome::Jobs(jobs::list(database, self.id_of(of.chain)?).await?)
            }
            Operation::Explain(of) => {
                let missing = || {
                    OperationError::NotFound(format!(
                        "there is no job {}: it is done, or never was",
                        of.id
                    ))
                };
                let job = jobs::find(database, of.id).await?.ok_or_else(missing)?;
                Outcome::Explained {
                    explanation: explain(&job),
                    job,
                }
            }
            Operation::Retry(of) => Outcome::Retried {
                retried: jobs::retry(database, of.id, operator).await?,
            },
            Operation::Audit(of) => self.audit(self.id_of(of.chain)?).await?,
            Operation::Locks(of) => {
                Outcome::Locks(leases::list(database, self.id_of(of.chain)?).await?)
            }
            Operation::Release(of) => self.release(of).await?,
            Operation::CreatePartitions(of) => self.create_partitions(of).await?,
            Operation::PrunePartitions(of) => self.prune_partitions(of.dry_run).await?,
            Operation::Versions(of) => {
                Outcome::Versions(list_versions(database, self.id_of(of.chain)?).await?)
            }
            Operation::AddVersion(of) => self.add_version(of).await?,
            Operation::RemoveVersion(of) => {
                let chain = self.chain(of.chain)?;
                let address = address_of(&of.implementation)?;
                Outcome::RemovedVersion {
                    chain_id: ChainId(chain.chain_id),
                    chain: chain.name.clone(),
                    implementation: encode_prefixed(address),
                    removed: remove_version(database, chain.chain_id, &address, operator).await?,
                }
            }
        })
    }

    /// A chain by name or id, or the only one.
    fn chain(&self, name: Option<String>) -> Result<&ChainSettings> {
        let found = self.settings.chain(name.as_deref());
        found.map_err(|error| OperationError::Chain(error.to_string()))
    }

    /// The id of a chain that is named; none for all chains.
    fn id_of(&self, name: Option<String>) -> Result<Option<u64>> {
        name.map(|name| Ok(self.chain(Some(name))?.chain_id))
            .transpose()
    }

    /// The projection that is named, or all of the chain.
    async fn names(&self, chain: u64, projection: Option<String>) -> Result<Vec<String>> {
        let states = chronolith_projection::state(self.database, Some(chain)).await?;
        let known = states.into_iter().flat_map(|state| state.projections);
        let known: Vec<String> = known.map(|one| one.projection).collect();
        match projection {
            None => Ok(known),
            Some(name) if known.contains(&name) => Ok(vec![name]),
            Some(name) => Err(OperationError::NotFound(format!(
                "chain {chain} has no projection {name}; it has: {}",
                known.join(", ")
            ))),
        }
    }

    async fn resume(&self, of: OfProjection) -> Result<Outcome> {
        let chain = self.chain(of.chain)?;
        let (chain_id, mut resumed) = (chain.chain_id, Vec::new());
        for name in self.names(chain_id, of.projection).await? {
            let operator = &self.operator;
            if chronolith_projection::resume(self.database, chain_id, &name, operator).await? {
                resumed.push(name);
            }
        }
        Ok(Outcome::Resumed {
            chain_id: ChainId(chain_id),
            chain: chain.name.clone(),
            resumed,
        })
    }

    async fn replay(&self, of: Replay) -> Result<Outcome> {
        let chain = self.chain(of.chain)?;
        if of.from > of.to {
            return Err(OperationError::Invalid(format!(
                "the last block {} is below the first, {}",
                of.to, of.from
            )));
        }
        let blocks = chain.fees.as_ref().and_then(|fees| fees.job_blocks);
        let blocks = blocks.unwrap_or(JOB_BLOCKS);
        let (chain_id, mut made) = (chain.chain_id, 0);
        for name in self.names(chain_id, of.projection).await? {
            let (target, range) = ((chain_id, name.as_str()), (of.from, of.to));
            made += jobs::replay(self.database, target, range, blocks, &self.operator).await?;
        }
        Ok(Outcome::Replayed {
            chain_id: ChainId(chain_id),
            chain: chain.name.clone(),
            jobs: made,
        })
    }

    async fn audit(&self, chain: Option<u64>) -> Result<Outcome> {
        let gaps = jobs::audit_gaps(self.database, chain).await?;
        for gap in &gaps {
            let target = (gap.chain_id as u64, gap.projection.as_str());
            let range = (gap.from_block as u64, gap.to_block as u64);
            jobs::replay(self.database, target, range, GAP_BLOCKS, &self.operator).await?;
        }
        Ok(Outcome::Gaps(gaps))
    }

    async fn release(&self, of: LockOf) -> Result<Outcome> {
        let chain = self.chain(of.chain)?;
        let kind: LeaseKind = of.kind.parse()?;
        Ok(Outcome::Released {
            chain_id: ChainId(chain.chain_id),
            chain: chain.name.clone(),
            kind: kind.name(),
            released: leases::release(self.database, chain.chain_id, kind, &self.operator).await?,
        })
    }

    async fn create_partitions(&self, of: PartitionsOf) -> Result<Outcome> {
        let month: Month = of.month.parse()?;
        let chains: Vec<u64> = match of.chain {
            Some(name) => vec![self.chain(Some(name))?.chain_id],
            None => {
                let all = self.settings.chains.iter();
                all.map(|chain| chain.chain_id).collect()
            }
        };
        let detail = json!({ "month": month.to_string(), "chains": chains });
        leases::note_act(self.database, "partitions create", &self.operator, &detail).await?;
        Ok(Outcome::CreatedPartitions {
            month: month.to_string(),
            created: partitions::create(self.database, &chains, month).await?,
        })
    }

    async fn prune_partitions(&self, dry_run: bool) -> Result<Outcome> {
        if !dry_run {
            let detail = json!({ "monthsKept": partitions::MONTHS_KEPT });
            leases::note_act(self.database, "partitions prune", &self.operator, &detail).await?;
        }
        Ok(Outcome::PrunedPartitions {
            dry_run,
            partitions: partitions::prune(self.database, now(), dry_run).await?,
        })
    }

    async fn add_version(&self, of: VersionOf) -> Result<Outcome> {
        let chain = self.chain(of.chain)?;
        let no_contract =
            || OperationError::Chain(format!("chain {} has no contractAddress", chain.name));
        let adfs = chain.adfs.as_ref().ok_or_else(no_contract)?;
        let address = address_of(&of.implementation)?;
        let (chain_id, version) = (chain.chain_id, (&address, of.version));
        Ok(Outcome::AddedVersion {
            chain_id: ChainId(chain_id),
            chain: chain.name.clone(),
            implementation: encode_prefixed(address),
            version: of.version,
            new: add_version(self.database, chain_id, adfs, version, &self.operator).await?,
        })
    }
}

fn address_of(implementation: &str) -> Result<[u8; 20]> {
    parse_array(implementation).ok_or_else(|| {
        let start: String = implementation.chars().take(80).collect();
        OperationError::Invalid(format!(
            "implementation: `{start}` is not an address: 0x and 40 digits"
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
            job.locked_by.as_deref().unwrap_or("a worker"),
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

/// Performs operations of the admin API.
pub(crate) struct ProjectionControl {
    settings: Settings,
    /// None where the settings name none.
    database: Option<Database>,
}

impl ProjectionControl {
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Self> {
        let url = settings.database.writer.as_ref();
        let database = url.map(|url| Database::writer(&url.0, CONNECTIONS, KINDS));
        Ok(Self {
            settings: settings.clone(),
            database: database.transpose()?,
        })
    }

    pub(crate) async fn execute(
        &self,
        operation: ProjectionOperation,
    ) -> std::result::Result<Value, ApiError> {
        let no_database = || {
            let message =
                "there is no database: set PG_URL, or db.url in the settings file, and restart";
            ApiError::for_operator(ErrorCode::NoDatabase, message)
        };
        let operator = ProjectionOperator {
            settings: &self.settings,
            database: self.database.as_ref().ok_or_else(no_database)?,
            operator: format!("{}, over HTTP", who()),
        };
        let performed = tokio::time::timeout(TIMEOUT, operator.perform(operation)).await;
        let outcome = performed.map_err(|_| {
            let message = format!(
                "the database did not answer within {} s: check whether the operation was done before you repeat it",
                TIMEOUT.as_secs()
            );
            ApiError::for_operator(ErrorCode::Unavailable, message)
        })??;
        serde_json::to_value(outcome)
            .map_err(|error| ApiError::for_operator(ErrorCode::Failed, error.to_string()))
    }
}

//! Acts on projections for whoever asks over the listener: the same as by command.

use std::time::Duration;

use anyhow::Result;
use chronolith_model::ErrorKind;
use chronolith_projection::Database;
use chronolith_serve::admin::operation::ProjectionOperation;
use chronolith_serve::{ApiError, ErrorCode};
use serde::Serialize;
use serde_json::Value;

use crate::projecting::who;
use crate::projection_acts::{ActFault, ProjectionActs};
use crate::projections::KINDS;
use crate::settings::Settings;

/// How long an act may take. The server ends a statement that takes this long.
const ACT_TIMEOUT: Duration = Duration::from_secs(120);

/// Operators are few, and must not wait for those who write.
const CONNECTIONS: usize = 2;

/// Where acts on projections are done.
pub(crate) struct ProjectionDesk {
    settings: Settings,
    /// None where the settings name none.
    database: Option<Database>,
}

impl ProjectionDesk {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let url = settings.database.writer.as_ref();
        let database = url.map(|url| Database::writer(&url.0, CONNECTIONS, KINDS));
        let database = database.transpose()?;
        Ok(Self {
            settings: settings.clone(),
            database,
        })
    }

    pub(crate) async fn execute(&self, operation: ProjectionOperation) -> Result<Value, ApiError> {
        let Some(database) = &self.database else {
            let how =
                "there is no database: set PG_URL, or db.url in the settings file, and start anew";
            return Err(refusal(ErrorCode::NoDatabase, how));
        };
        let acts = ProjectionActs {
            settings: &self.settings,
            database,
            operator: format!("{}, over HTTP", who()),
        };
        match tokio::time::timeout(ACT_TIMEOUT, perform(&acts, operation)).await {
            Ok(done) => done,
            Err(_) => Err(refusal(
                ErrorCode::Unavailable,
                format!(
                    "the database did not answer within {} s: look whether it was done before you ask again",
                    ACT_TIMEOUT.as_secs()
                ),
            )),
        }
    }
}

async fn perform(
    acts: &ProjectionActs<'_>,
    operation: ProjectionOperation,
) -> Result<Value, ApiError> {
    use ProjectionOperation as Act;
    match operation {
        Act::Status(of) => told(acts.status(of.chain.as_deref()).await),
        Act::Resume(of) => {
            let (chain, projection) = (of.chain.as_deref(), of.projection.as_deref());
            told(acts.resume(chain, projection).await)
        }
        Act::Replay(of) => {
            let (chain, projection) = (of.chain.as_deref(), of.projection.as_deref());
            told(acts.replay(chain, projection, (of.from, of.to)).await)
        }
        Act::Jobs(of) => told(acts.jobs(of.chain.as_deref()).await),
        Act::Explain(of) => told(acts.explain(of.id).await),
        Act::Retry(of) => told(acts.retry(of.id).await),
        Act::Audit(of) => told(acts.audit(of.chain.as_deref()).await),
        Act::Locks(of) => told(acts.locks(of.chain.as_deref()).await),
        Act::Release(of) => told(acts.release(of.chain.as_deref(), &of.kind).await),
        Act::CreatePartitions(of) => {
            let chain = of.chain.as_deref();
            told(acts.create_partitions(chain, &of.month).await)
        }
        Act::PrunePartitions(of) => told(acts.prune(of.dry_run).await),
        Act::Versions(of) => told(acts.versions(of.chain.as_deref()).await),
        Act::AddVersion(of) => {
            let (chain, implementation) = (of.chain.as_deref(), of.implementation.as_str());
            told(acts.add_version(chain, implementation, of.version).await)
        }
        Act::RemoveVersion(of) => {
            let (chain, implementation) = (of.chain.as_deref(), of.implementation.as_str());
            told(acts.remove_version(chain, implementation).await)
        }
    }
}

fn told<T: Serialize>(done: Result<T, ActFault>) -> Result<Value, ApiError> {
    let done = done.map_err(refused)?;
    serde_json::to_value(done).map_err(|error| refusal(ErrorCode::Failed, error.to_string()))
}

fn refusal(code: ErrorCode, message: impl Into<String>) -> ApiError {
    ApiError::for_operator(code, message)
}

/// The code of a failure, and what to do about it.
fn refused(fault: ActFault) -> ApiError {
    let said = fault.to_string();
    let error = match fault {
        ActFault::Invalid(_) => return refusal(ErrorCode::BadRequest, said),
        ActFault::Chain(_) => return refusal(ErrorCode::UnknownChain, said),
        ActFault::NotFound(_) => return refusal(ErrorCode::NotFound, said),
        ActFault::Database(error) => error,
    };
    match error.kind() {
        ErrorKind::Unavailable => refusal(
            ErrorCode::Unavailable,
            format!(
                "{said}. See that PostgreSQL runs and that PG_URL or db.url leads to it, then ask again: twice \
                 is as good as once, and nothing has to be started anew"
            ),
        ),
        ErrorKind::Invalid => match error {
            chronolith_projection::Error::Schema { .. } => refusal(ErrorCode::Schema, said),
            _ => refusal(ErrorCode::BadRequest, said),
        },
        _ => refusal(ErrorCode::Failed, said),
    }
}

//! Acts on projections for whoever asks over the listener: the same as by command.

use std::time::Duration;

use anyhow::Result;
use chronolith_model::ErrorKind;
use chronolith_projection::Database;
use chronolith_serve::{ProjectionAct, Refusal};
use serde::Serialize;
use serde_json::Value;

use crate::admin::refusal;
use crate::projecting::who;
use crate::projection_acts::{ActFault, ProjectionActs};
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
        let database = url.map(|url| Database::writer(&url.0, CONNECTIONS));
        let database = database.transpose()?;
        Ok(Self {
            settings: settings.clone(),
            database,
        })
    }

    pub(crate) async fn act(&self, act: ProjectionAct) -> Result<Value, Refusal> {
        let Some(database) = &self.database else {
            let how =
                "there is no database: set PG_URL, or db.url in the settings file, and start anew";
            return Err(refusal("NO_DATABASE", how.to_owned()));
        };
        let acts = ProjectionActs {
            settings: &self.settings,
            database,
            operator: format!("{}, over HTTP", who()),
        };
        match tokio::time::timeout(ACT_TIMEOUT, perform(&acts, act)).await {
            Ok(done) => done,
            Err(_) => Err(refusal(
                "UNAVAILABLE",
                format!(
                    "the database did not answer within {} s: look whether it was done before you ask again",
                    ACT_TIMEOUT.as_secs()
                ),
            )),
        }
    }
}

async fn perform(acts: &ProjectionActs<'_>, act: ProjectionAct) -> Result<Value, Refusal> {
    use ProjectionAct as Act;
    match act {
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
        Act::Prune(of) => told(acts.prune(of.dry_run).await),
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

fn told<T: Serialize>(done: Result<T, ActFault>) -> Result<Value, Refusal> {
    let done = done.map_err(refused)?;
    serde_json::to_value(done).map_err(|error| refusal("FAILED", error.to_string()))
}

/// What went wrong as a word, and what to do about it.
fn refused(fault: ActFault) -> Refusal {
    let said = fault.to_string();
    let error = match fault {
        ActFault::Invalid(_) => return refusal("BAD_REQUEST", said),
        ActFault::Chain(_) => return refusal("UNKNOWN_CHAIN", said),
        ActFault::NotFound(_) => return refusal("NOT_FOUND", said),
        ActFault::Database(error) => error,
    };
    match error.kind() {
        ErrorKind::Unavailable => refusal(
            "UNAVAILABLE",
            format!(
                "{said}. See that PostgreSQL runs and that PG_URL or db.url leads to it, then ask again: twice \
                 is as good as once, and nothing has to be started anew"
            ),
        ),
        ErrorKind::Invalid => match error {
            chronolith_projection::Error::Schema { .. } => refusal("SCHEMA", said),
            _ => refusal("BAD_REQUEST", said),
        },
        _ => refusal("FAILED", said),
    }
}

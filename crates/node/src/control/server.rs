//! The admin API of a running node, and its client for commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronolith_archive::AuditEntry;
use chronolith_follower::backfill::fill::Filler;
use chronolith_follower::backfill::gaps::core_is_busy;
use chronolith_model::BlockRange;
use chronolith_serve::admin::operation::{Backfill, Operation};
use chronolith_serve::admin::{OperationFuture, Operator, Tokens, admin_router};
use chronolith_serve::chain::EndpointHealth;
use chronolith_serve::health::ChainHealth;
use chronolith_serve::http::{ConnectionLimits, Drain, listen};
use chronolith_serve::{ApiError, ChainId, ErrorCode};
use futures::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::commands::{check_numbers, fill_missing};
use crate::control::projection::ProjectionControl;
use crate::control::queue;
use crate::control::token::{OwnToken, TokenFile};
use crate::health_server::{Chains, health_of};
use crate::public_server::{bind, endpoint};
use crate::running::RunningChain;
use crate::settings::Settings;

/// The file in the data directory with the address of the running node.
const ADDRESS_FILE: &str = "admin";
/// How often a command polls its job.
const JOB_LOOK: Duration = Duration::from_millis(200);
/// How long a listener may take to prove that it is the node.
const PROOF_WITHIN: Duration = Duration::from_secs(5);
/// Jobs that are kept in the list.
const JOBS_MAX: usize = 100;
/// Connections: operators and their commands are few, and what these begin may take long.
const ROOM: ConnectionLimits = ConnectionLimits {
    connections: 64,
    per_peer: None,
    place_kept: None,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum JobStatus {
    Running,
    Done,
    Failed,
}

/// A backfill, as the API shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    id: usize,
    chain_id: ChainId,
    from: u64,
    to: u64,
    status: JobStatus,
    filled_blocks: Option<u64>,
    error: Option<String>,
}

/// The answer to the request for a backfill.
#[derive(Serialize, Deserialize)]
struct Started {
    job: Job,
}

/// All jobs that are kept.
#[derive(Serialize, Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

/// A job for the task that runs it.
struct Fill {
    id: usize,
    chain: Arc<RunningChain>,
    range: BlockRange,
}

/// A chain as operators see it.
#[derive(Serialize)]
struct StateOfChain {
    #[serde(flatten)]
    health: ChainHealth,
    /// In the order of the settings, with their hosts and what they answered.
    endpoints: Vec<EndpointHealth>,
}

/// State of the admin API.
struct AdminServer {
    data_dir: PathBuf,
    chains: Chains,
    jobs: Mutex<Vec<Job>>,
    projections: ProjectionControl,
    begin: mpsc::UnboundedSender<Fill>,
}

impl AdminServer {
    fn chain(&self, wanted: &str) -> Result<Arc<RunningChain>, ApiError> {
        let mut chains = self.chains.all.iter();
        let found = chains.find(|chain| chain.settings.is_called(wanted));
        let message = || format!("no chain {wanted} is followed");
        found
            .cloned()
            .ok_or_else(|| refusal(ErrorCode::UnknownChain, message()))
    }

    fn begin(&self, range: &Backfill) -> Result<Value, ApiError> {
        let chain = self.chain(&range.chain)?;
        if range.from > range.to {
            let message = format!("from {} is after to {}", range.from, range.to);
            return Err(refusal(ErrorCode::BadRange, message));
        }
        let possible = check_numbers(&chain.settings, range.from, range.to);
        possible.map_err(|error| refusal(ErrorCode::BadRange, error.to_string()))?;
        let mut jobs = self.jobs.lock();
        let chain_id = ChainId(chain.settings.chain_id);
        let runs = |job: &Job| job.chain_id == chain_id && job.status == JobStatus::Running;
        if jobs.iter().any(runs) {
            let message = "a backfill of this chain is running; see GET /admin/v1/jobs";
            return Err(refusal(ErrorCode::JobRunning, message));
        }
        if chain.is_core_alone() && !chain.is_at_end() {
            let message = core_is_busy(&chain.settings.name, range.from, range.to);
            return Err(refusal(ErrorCode::JobRunning, message));
        }
        let id = jobs.last().map_or(1, |last| last.id + 1);
        let job = Job {
            id,
            chain_id,
            from: range.from,
            to: range.to,
            status: JobStatus::Running,
            filled_blocks: None,
            error: None,
        };
        let answer = json!(Started { job: job.clone() });
        jobs.push(job);
        let over = jobs.len().saturating_sub(JOBS_MAX);
        jobs.drain(..over);
        let range = BlockRange::new(range.from, range.to.saturating_add(1));
        let stopping = |_| refusal(ErrorCode::Stopping, "the node is stopping");
        let fill = Fill { id, chain, range };
        self.begin.send(fill).map_err(stopping)?;
        Ok(answer)
    }

    fn end(&self, id: usize, done: Result<u64>) {
        let mut jobs = self.jobs.lock();
        let Some(job) = jobs.iter_mut().find(|job| job.id == id) else {
            return;
        };
        match done {
            Ok(blocks) => (job.status, job.filled_blocks) = (JobStatus::Done, Some(blocks)),
            Err(error) => (job.status, job.error) = (JobStatus::Failed, Some(format!("{error:#}"))),
        }
    }
}

fn refusal(code: ErrorCode, message: impl Into<String>) -> ApiError {
    ApiError::for_operator(code, message)
}

/// Operations that were performed, the newest last.
pub(crate) fn audit_json(entries: &[AuditEntry]) -> Vec<Value> {
    let entry = |entry: &AuditEntry| json!({ "at": entry.at, "act": entry.act });
    entries.iter().map(entry).collect()
}

impl Operator for AdminServer {
    fn state(&self) -> Value {
        let audit = self.chains.all.iter().map(|chain| {
            let entries = chain.archive.health().audit;
            json!({ "chain": ChainId(chain.settings.chain_id), "entries": audit_json(&entries) })
        });
        let chains = self.chains.all.iter().map(|chain| {
            let endpoints = chain.source.endpoints().into_iter().map(endpoint);
            StateOfChain {
                health: health_of(chain),
                endpoints: endpoints.collect(),
            }
        });
        json!({
            "dataDir": self.data_dir,
            "chains": chains.collect::<Vec<_>>(),
            "audit": audit.collect::<Vec<_>>(),
        })
    }

    fn jobs(&self) -> Value {
        json!({ "jobs": *self.jobs.lock() })
    }

    fn execute(&self, operation: Operation) -> OperationFuture<'_> {
        Box::pin(async move {
            let operation = match operation {
                Operation::Backfill(range) => return self.begin(&range),
                Operation::Projection(operation) => {
                    return self.projections.execute(operation).await;
                }
                Operation::Chain(operation) => operation,
            };
            let reason = operation.recorded_reason();
            reason.map_err(|message| refusal(ErrorCode::NoReason, message))?;
            let chain = self.chain(operation.chain())?;
            let done = queue::submit(&chain, operation).await;
            done.map_err(|message| refusal(ErrorCode::Refused, message))
        })
    }
}

/// Serves the admin API until dropped, and notes its address in the data directory.
pub(crate) async fn serve(settings: &Settings, chains: Vec<Arc<RunningChain>>) -> Result<()> {
    let listener = bind_admin(settings)?;
    let address = listener.local_addr()?;
    tracing::info!(event = "admin_listening", listen = %address, "admin API listening");
    let token = TokenFile::write(&settings.data_dir)?;
    let _note = Note::write(&settings.data_dir, address)?;
    let (begin, mut due) = mpsc::unbounded_channel();
    let server = Arc::new(AdminServer {
        data_dir: std::path::absolute(&settings.data_dir)?,
        chains: Chains::new(chains),
        jobs: Mutex::default(),
        projections: ProjectionControl::new(settings)?,
        begin,
    });
    let tokens = Tokens {
        own: token.token.text().into(),
        set: settings
            .admin_token
            .as_ref()
            .map(|set| set.0.as_str().into()),
    };
    let router = admin_router(server.clone(), tokens);
    let jobs = async {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(Fill { id, chain, range }) = due.recv() => running.push(async move {
                    (id, fill(&chain, range).await)
                }),
                Some((id, done)) = running.next() => server.end(id, done),
                else => return,
            }
        }
    };
    tokio::select! {
        served = listen(listener, router, ROOM, Drain::never()) => served.context("serve the admin API"),
        () = jobs => Ok(()),
    }
}

/// Binds the admin listener. Where no address was chosen and the default one is taken, as by a second node of this
/// machine, any free one will do: commands find it by the file in the data directory.
fn bind_admin(settings: &Settings) -> Result<TcpListener> {
    const NAMES: &str = "adminListen, ADMIN_PORT, --admin-port";
    let address = settings.admin_listen;
    let bound = bind(address, NAMES, &Handle::current());
    let is_taken = |error: &anyhow::Error| {
        let error = error.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
    };
    let any_will_do = !settings.admin_is_asked_for && !settings.origin.is_file();
    match bound {
        Err(error) if any_will_do && is_taken(&error) => {}
        bound => return bound,
    }
    let any = SocketAddr::new(address.ip(), 0);
    tracing::warn!(taken = %address, "the admin port is taken, another one is used: ADMIN_PORT chooses one");
    bind(any, NAMES, &Handle::current())
}

async fn fill(chain: &RunningChain, range: BlockRange) -> Result<u64> {
    let filler = Filler {
        chain: &chain.settings,
        archive: &chain.archive,
        source: &chain.source,
    };
    fill_missing(&filler, range, &|| chain.note_moved()).await
}

/// The file with the address of this node, for commands on the same data directory; removed with it.
struct Note(PathBuf);

impl Note {
    fn write(data_dir: &Path, address: SocketAddr) -> Result<Self> {
        let path = data_dir.join(ADDRESS_FILE);
        let text = address.to_string();
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // A file that stays names an address where no node answers, which its reader finds out.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Sends an operation to the node that runs on this data directory; none where none runs.
pub(crate) async fn send_to_running(
    settings: &Settings,
    name: &str,
    body: &impl Serialize,
) -> Result<Option<Value>> {
    match RunningNode::find(settings).await? {
        Some(node) => node.post(name, body).await.map(Some),
        None => Ok(None),
    }
}

/// A node that runs on the data directory of these settings.
pub(crate) struct RunningNode {
    base: String,
    client: reqwest::Client,
    token: OwnToken,
}

impl RunningNode {
    /// The node that the data directory names, if it answers and is that one. It proves that before it is told
    /// anything.
    pub(crate) async fn find(settings: &Settings) -> Result<Option<Self>> {
        let path = settings.data_dir.join(ADDRESS_FILE);
        let Ok(address) = std::fs::read_to_string(path) else {
            return Ok(None);
        };
        let Some(token) = OwnToken::read(&settings.data_dir)? else {
            return Ok(None);
        };
        let Ok(mut address) = address.trim().parse::<SocketAddr>() else {
            return Ok(None);
        };
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let node = Self {
            base: format!("http://{address}/admin/v1"),
            client: reqwest::Client::builder().no_proxy().build()?,
            token,
        };
        if !node.is_proven().await? {
            return Ok(None);
        }
        let Ok(state) = node.get("state").await else {
            return Ok(None);
        };
        let ours = std::path::absolute(&settings.data_dir)?;
        let theirs = state.get("dataDir").and_then(Value::as_str);
        Ok((theirs.map(Path::new) == Some(&ours)).then_some(node))
    }

    /// Whether the listener has the token of the data directory. Where none answers, no node runs.
    async fn is_proven(&self) -> Result<bool> {
        let challenge = OwnToken::challenge()?;
        let url = format!("{}/proof?challenge={challenge}", self.base);
        let asked = async {
            let answer = self.client.get(url).send().await.ok()?;
            answer.text().await.ok()
        };
        let Ok(Some(text)) = tokio::time::timeout(PROOF_WITHIN, asked).await else {
            return Ok(false);
        };
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let given = answer.get("proof").and_then(Value::as_str);
        let proven = given.is_some_and(|given| self.token.is_proven(&challenge, given));
        if !proven {
            let base = &self.base;
            tracing::warn!(%base, "another program answers at the address of a node that was killed, it is told nothing");
        }
        Ok(proven)
    }

    /// Starts a backfill and waits for its end; returns how many blocks were fetched. A caller that stops
    /// waiting does not stop it.
    pub(crate) async fn backfill(&self, chain_id: u64, range: BlockRange) -> Result<u64> {
        let operation = Backfill {
            chain: chain_id.to_string(),
            from: range.start,
            to: range.end - 1,
        };
        let started: Started = typed(self.post("backfill", &operation).await?)?;
        let id = started.job.id;
        tracing::info!(chain = chain_id, job = id, "the running node fetches it");
        loop {
            let Jobs { jobs } = typed(self.get("jobs").await?)?;
            let job = jobs.into_iter().find(|job| job.id == id);
            let job = job.context("the running node has dropped the job")?;
            match job.status {
                JobStatus::Running => tokio::time::sleep(JOB_LOOK).await,
                JobStatus::Done => return job.filled_blocks.context("no count came back"),
                JobStatus::Failed => {
                    let error = job.error.as_deref().unwrap_or("unknown");
                    anyhow::bail!("the running node failed: {error}")
                }
            }
        }
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Value> {
        let request = self.client.get(format!("{}/{name}", self.base));
        self.send(request).await
    }

    async fn post(&self, name: &str, body: &impl Serialize) -> Result<Value> {
        let request = self.client.post(format!("{}/{name}", self.base));
        let request = request.header("content-type", "application/json");
        self.send(request.body(serde_json::to_string(body)?)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Value> {
        let answer = request
            .bearer_auth(self.token.text())
            .send()
            .await
            .context("request to the running node")?;
        let good = answer.status().is_success();
        let text = answer.text().await.context("answer of the running node")?;
        let value: Value = serde_json::from_str(&text).context("the running node")?;
        if good {
            return Ok(value);
        }
        let message = value.pointer("/error/message").and_then(Value::as_str);
        anyhow::bail!("the running node refused: {}", message.unwrap_or(&text))
    }
}

fn typed<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).context("the running node")
}

//! Our side: the program as it is installed, `chronolith run`, from its start until the last row is there
//! and confirmed.
//!
//! Of the chain it keeps the logs of the one contract, as whoever wants nothing but its fees would. Every
//! block is final at once, since the chain does not grow.

use anyhow::Result;
use chronolith_sim::evm::{FeesSpec, RpcServer};
use serde_json::{Value, json};

use crate::database::{Database, Server, Table};
use crate::home::{Home, fees};
use crate::race::Race;
use crate::table::Measured;
use crate::workload::Chain;

/// Requests at a time.
const IN_FLIGHT: u32 = 32;
const TABLE: Table = Table {
    name: "(SELECT * FROM fee_events WHERE event = 'FeesCollected' AND status = 'confirmed') AS fees",
    is_row: "chain_id = $3::bigint AND block_number = $4::bigint AND log_index = $2 \
        AND tx_hash = decode(substr($1, 3), 'hex')",
    columns: TEXTS,
};
/// What is compared of a row of our table, as text.
pub(crate) const TEXTS: &str = "chain_id, block_number, '0x' || encode(block_hash, 'hex'), \
    extract(epoch FROM block_timestamp)::bigint, '0x' || encode(tx_hash, 'hex'), log_index, \
    '0x' || encode(token, 'hex'), '0x' || encode(integrator, 'hex'), integrator_fee, lifi_fee";

/// What a backfill leaves behind.
pub(crate) struct Ours {
    pub(crate) home: Home,
    pub(crate) database: Database,
}

/// The chain's entry in the settings.
pub(crate) fn entry(chain: &Chain, node: &RpcServer, strategy: &str) -> Value {
    json!({
        "chainId": chain.id(), "name": chain.name,
        "rpcHttp": [{ "url": node.url(), "inFlight": IN_FLIGHT }],
        "datasets": ["logs"], "logs": { "addresses": [const_hex::encode_prefixed(FeesSpec::CONTRACT)] },
        "strategy": strategy, "finality": { "mode": "depth", "confirmations": 0 },
    })
}

/// From the node into an empty database and an empty archive.
pub(crate) async fn backfill(
    chain: &Chain,
    server: &Server,
    strategy: &str,
) -> Result<(Measured, Ours)> {
    let node = chain.serve().await?;
    let home = Home::new(&entry(chain, &node, strategy))?;
    home.change("fees", fees())?;
    let database = server.fresh("ours").await?;
    let ours = Ours { home, database };
    let measured = ours.run(chain, &node, &ours.database).await?;
    Ok((measured, ours))
}

impl Ours {
    /// From the archive of the backfill into an empty database. There is a node, which is asked for its
    /// head and for no history.
    pub(crate) async fn reproject(&self, chain: &Chain, server: &Server) -> Result<Measured> {
        let node = chain.serve().await?;
        self.home
            .change("rpcHttp", json!([{ "url": node.url() }]))?;
        let database = server.fresh("again").await?;
        self.run(chain, &node, &database).await
    }

    async fn run(&self, chain: &Chain, node: &RpcServer, database: &Database) -> Result<Measured> {
        self.home.init(database)?;
        let race = Race {
            chain,
            node: Some(node),
            database,
            table: TABLE,
            log: self.home.path().join("log"),
        };
        race.run(self.home.command(&["run"], Some(database))).await
    }
}

//! The demo's projections: a private PostgreSQL of the system's own programs, where there are any.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronolith_projection::{Database, Passwords, set_up};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use tokio::task::JoinSet;

use crate::projecting;
use crate::projections::KINDS;
use crate::running::RunningChain;

const CONNECTIONS: usize = 6;

/// A database of the demo's own; it goes away with it.
pub(super) struct Rows {
    server: TempPostgres,
    database: Database,
}

impl Rows {
    /// Starts one. None where PostgreSQL is not installed, which is printed.
    pub(super) async fn start() -> Result<Option<Self>> {
        let started =
            tokio::task::spawn_blocking(|| TempPostgres::start(&TempPostgresOptions::default()));
        let server = match started.await.context("start a database")? {
            Ok(server) => server,
            Err(error) => {
                println!("Projections are off: {error}");
                println!();
                return Ok(None);
            }
        };
        set_up(&server.url, &Passwords::default()).await?;
        let database = Database::writer(&server.url, CONNECTIONS, KINDS)?;
        Ok(Some(Self { server, database }))
    }

    /// Where it is.
    pub(super) fn url(&self) -> &str {
        &self.server.url
    }

    /// For the fee API.
    pub(super) fn reader(&self) -> Result<Database> {
        Ok(Database::reader(&self.server.url, CONNECTIONS, KINDS)?)
    }

    /// Projects what there is to project of these chains.
    pub(super) async fn project(
        &self,
        chains: &[Arc<RunningChain>],
        tasks: &mut JoinSet<()>,
    ) -> Result<()> {
        let projectors = projecting::projectors(Some(&self.database), chains).await?;
        for (chain, projector) in chains.iter().zip(projectors) {
            let Some(projector) = projector else {
                continue;
            };
            let (one, other) = (projector.clone(), projector);
            let (chain, same) = (chain.clone(), chain.clone());
            tasks.spawn(async move { projecting::follow(&one, &chain).await });
            tasks.spawn(async move { projecting::work(&other, &same).await });
        }
        Ok(())
    }

    /// How many rows there are, in a line.
    pub(super) async fn sum(&self) -> Result<String> {
        const COUNT: &str = "SELECT count(*) FILTER (WHERE status = 'confirmed'), \
            count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'dropped') \
            FROM fee_events";
        let row = self.database.client().await?.query_one(COUNT, &[]).await?;
        let (confirmed, pending, dropped): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        Ok(format!(
            "fees: {confirmed} rows confirmed, {pending} pending, {dropped} dropped by reorgs"
        ))
    }
}

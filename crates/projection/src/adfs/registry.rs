//! What the database knows of contracts, and of implementations that operators named.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use deadpool_postgres::Transaction;
use serde::Serialize;
use serde_json::json;

use super::projection::UNKNOWN;
use super::rows::NAME;
use super::settings::AdfsSettings;
use crate::chain_id;
use crate::database::Database;
use crate::error::{Error, Result, Tried as _};
use crate::leases::audit;
use crate::state::snapshot;

/// Writes down the contract. What an operator named and what the settings say must be the same.
pub(super) async fn register(
    tx: &Transaction<'_>,
    chain: i64,
    settings: &AdfsSettings,
) -> Result<()> {
    const CONTRACT: &str = "INSERT INTO contracts \
        (chain_id, proxy_address, initial_topic_hash, start_block) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (chain_id) DO UPDATE SET proxy_address = excluded.proxy_address, \
        initial_topic_hash = excluded.initial_topic_hash, start_block = excluded.start_block";
    const ADDED: &str = "SELECT implementation, version FROM versions_added WHERE chain_id = $1";
    let first = settings.versions.values().next();
    let topic = first.map(|version| version.topic0()).unwrap_or_default();
    let (proxy, topic) = (settings.proxy.as_slice(), topic.as_slice());
    let start = settings.start_block as i64;
    let done = tx
        .execute(CONTRACT, &[&chain, &proxy, &topic, &start])
        .await;
    done.tried("write down a contract")?;
    let rows = tx.query(ADDED, &[&chain]).await;
    for row in rows.tried("read versions that were added")? {
        let (implementation, version): (Vec<u8>, i32) = (row.get(0), row.get(1));
        check(chain, settings, (&implementation, version))?;
    }
    Ok(())
}

fn check(
    chain: i64,
    settings: &AdfsSettings,
    (implementation, version): (&[u8], i32),
) -> Result<()> {
    let named = Address::try_from(implementation).unwrap_or_default();
    let configured = settings.implementations.get(named.0.as_slice());
    if configured.is_some_and(|number| i64::from(*number) != i64::from(version)) {
        return Err(Error::Invalid(format!(
            "implVersionMap.{named}: the settings say version {}, and version {version} was added in the \
             database for chain {chain}: rows may be of it. Say the same here",
            configured.copied().unwrap_or_default()
        )));
    }
    let known = u32::try_from(version).is_ok_and(|number| settings.versions.contains_key(&number));
    if !known {
        return Err(Error::Invalid(format!(
            "versions: implementation {named} of chain {chain} was added as version {version}, of which \
             the settings say nothing"
        )));
    }
    Ok(())
}

/// Implementations that operators named.
pub(super) async fn added(database: &Database, chain: i64) -> Result<BTreeMap<[u8; 20], u32>> {
    const ADDED: &str = "SELECT implementation, version FROM versions_added WHERE chain_id = $1";
    let client = database.client().await?;
    let rows = client.query(ADDED, &[&chain]).await;
    let mut all = BTreeMap::new();
    for row in rows.tried("read versions that were added")? {
        let (implementation, version): (Vec<u8>, i32) = (row.get(0), row.get(1));
        let implementation = <[u8; 20]>::try_from(implementation.as_slice());
        if let (Ok(implementation), Ok(version)) = (implementation, u32::try_from(version)) {
            all.insert(implementation, version);
        }
    }
    Ok(all)
}

/// A version of an implementation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownVersion {
    /// The chain.
    pub chain_id: i64,
    /// The implementation.
    pub implementation: String,
    /// Its version.
    pub version: i32,
    /// The block from which on it was in force; none where it was only named.
    pub activated_block: Option<i64>,
    /// Who named it, where that was not in the settings.
    pub operator: Option<String>,
}

/// What was in force on chains, or on one of them, and what operators named.
///
/// # Errors
/// The database does not answer.
pub async fn list_versions(database: &Database, chain: Option<u64>) -> Result<Vec<KnownVersion>> {
    let mut client = database.client().await?;
    let tx = snapshot(&mut client).await?;
    let all = read_versions(&tx, chain.map(chain_id).transpose()?).await?;
    tx.commit().await.tried("read versions")?;
    Ok(all)
}

pub(crate) async fn read_versions(
    tx: &Transaction<'_>,
    chain: Option<i64>,
) -> Result<Vec<KnownVersion>> {
    const LIST: &str = "SELECT coalesce(p.chain_id, a.chain_id), \
        '0x' || encode(coalesce(p.implementation, a.implementation), 'hex'), \
        coalesce(p.version, a.version), p.activated_block, a.operator \
        FROM proxy_versions p FULL JOIN versions_added a \
        ON a.chain_id = p.chain_id AND a.implementation = p.implementation \
        WHERE $1::bigint IS NULL OR coalesce(p.chain_id, a.chain_id) = $1 \
        ORDER BY 1, 4 NULLS LAST, 2";
    let rows = tx.query(LIST, &[&chain]).await;
    let rows = rows.tried("read versions")?;
    let known = rows.iter().map(|row| KnownVersion {
        chain_id: row.get(0),
        implementation: row.get(1),
        version: row.get(2),
        activated_block: row.get(3),
        operator: row.get(4),
    });
    Ok(known.collect())
}

/// Names the version of an implementation, and lets a projection that stood still for want of it go on.
/// Audited. False where it was named so already.
///
/// # Errors
/// The settings have no such version or another one for the implementation, somebody named another one,
/// or the database does not answer.
pub async fn add_version(
    database: &Database,
    chain: u64,
    settings: &AdfsSettings,
    (implementation, version): (&[u8; 20], u32),
    operator: &str,
) -> Result<bool> {
    const ADD: &str = "INSERT INTO versions_added (chain_id, implementation, version, operator) \
        VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    const THERE: &str =
        "SELECT version FROM versions_added WHERE chain_id = $1 AND implementation = $2";
    const RESUME: &str = "UPDATE projections \
        SET paused_at = NULL, paused_reason = NULL, paused_detail = NULL \
        WHERE chain_id = $1 AND projection = $2 AND paused_reason = $3";
    let (chain, address) = (chain_id(chain)?, implementation.as_slice());
    let number = i32::try_from(version).unwrap_or(i32::MAX);
    check(chain, settings, (address, number))?;
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let new = tx
        .execute(ADD, &[&chain, &address, &number, &operator])
        .await;
    let new = new.tried("add a version")? > 0;
    let there = tx.query_one(THERE, &[&chain, &address]).await;
    let there: i32 = there.tried("add a version")?.get(0);
    if there != number {
        return Err(Error::Invalid(format!(
            "implementation {} of chain {chain} is version {there} already",
            Address::from(implementation)
        )));
    }
    let resumed = tx.execute(RESUME, &[&chain, &NAME, &UNKNOWN]).await;
    let resumed = resumed.tried("resume a projection")?;
    let named = Address::from(implementation).to_string();
    let detail = json!({ "implementation": named, "version": version, "resumed": resumed > 0 });
    audit(&tx, Some(chain), "versions add", operator, &detail).await?;
    tx.commit().await.tried("add a version")?;
    Ok(new)
}

//! What the database knows of contracts, and of implementations that operators named.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::Address;
use chronolith_projection::{
    Database, Error, Result, Tried as _, chain_id, leases::audit, leases::fence,
};
use deadpool_postgres::{GenericClient, Transaction};
use serde::Serialize;
use serde_json::{Value, json};

use crate::projection::UNKNOWN;
use crate::rows::NAME;
use crate::settings::AdfsSettings;

/// Writes down the contract. What an operator named and what the settings say must be the same.
pub(crate) async fn register(
    tx: &Transaction<'_>,
    chain: i64,
    settings: &AdfsSettings,
) -> Result<()> {
    // Settings with more versions than before may leave the first one open: what was recorded stays.
    const CONTRACT: &str = "INSERT INTO contracts AS c \
        (chain_id, proxy_address, initial_topic_hash, start_block, initial_version) \
        VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (chain_id) DO UPDATE SET proxy_address = excluded.proxy_address, \
        initial_topic_hash = excluded.initial_topic_hash, start_block = excluded.start_block, \
        initial_version = coalesce(c.initial_version, excluded.initial_version) \
        RETURNING initial_version";
    const ADDED: &str = "SELECT implementation, version FROM versions_added WHERE chain_id = $1";
    const TOPIC: &str = "UPDATE contracts SET initial_topic_hash = $2 WHERE chain_id = $1";
    let proxy = settings.proxy.as_slice();
    let start = settings.start_block as i64;
    let initial = settings.initial().map(|number| number as i32);
    let none: &[u8] = &[0; 32];
    let written = tx
        .query_one(CONTRACT, &[&chain, &proxy, &none, &start, &initial])
        .await;
    let written: Option<i32> = written.tried("write down a contract")?.get(0);
    let first = match written {
        Some(number) => settings.versions.get(&(number as u32)),
        None => settings.versions.values().next(),
    };
    let topic = first.map(|version| version.topic0()).unwrap_or_default();
    let done = tx.execute(TOPIC, &[&chain, &topic.as_slice()]).await;
    done.tried("write down a contract")?;
    if initial.is_some() && written != initial {
        return Err(Error::Invalid(format!(
            "initialVersion: events of chain {chain} before its first upgrade were read as version {}, and \
             the settings say {}: say the same, or have all rows rebuilt with `chronolith projection reset`",
            written.unwrap_or_default(),
            initial.unwrap_or_default()
        )));
    }
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

/// The version of events before the first upgrade, as it was written down.
pub(crate) async fn initial(database: &Database, chain: i64) -> Result<Option<u32>> {
    const INITIAL: &str = "SELECT initial_version FROM contracts WHERE chain_id = $1";
    let client = database.client().await?;
    let row = client.query_opt(INITIAL, &[&chain]).await;
    let row = row.tried("read the first version")?;
    let number = row.and_then(|row| row.get::<_, Option<i32>>(0));
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

/// Settings without implementations that never were in force: no row was made with them, so they may
/// change.
pub(crate) async fn used(
    tx: &Transaction<'_>,
    chain: i64,
    mut settings: Value,
    named: Vec<[u8; 20]>,
) -> Result<Value> {
    const USED: &str = "SELECT DISTINCT '0x' || encode(implementation, 'hex') FROM proxy_version_rows WHERE chain_id = $1";
    let rows = tx.query(USED, &[&chain]).await;
    let rows = rows.tried("read which implementations were in force")?;
    let mut used: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    used.extend(named.iter().map(const_hex::encode_prefixed));
    let named = settings.get_mut("implementations");
    if let Some(named) = named.and_then(Value::as_object_mut) {
        named.retain(|implementation, _| used.contains(implementation));
    }
    Ok(settings)
}

/// Implementations that operators named.
pub(crate) async fn added(database: &Database, chain: i64) -> Result<BTreeMap<[u8; 20], u32>> {
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
    pub chain_id: i64,
    pub implementation: String,
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
    let client = database.client().await?;
    read_versions(&client, chain.map(chain_id).transpose()?).await
}

pub(crate) async fn read_versions(
    client: &impl GenericClient,
    chain: Option<i64>,
) -> Result<Vec<KnownVersion>> {
    const LIST: &str = "SELECT coalesce(p.chain_id, a.chain_id), \
        '0x' || encode(coalesce(p.implementation, a.implementation), 'hex'), \
        coalesce(p.version, a.version), p.activated_block, a.operator \
        FROM proxy_versions p FULL JOIN versions_added a \
        ON a.chain_id = p.chain_id AND a.implementation = p.implementation \
        WHERE $1::bigint IS NULL OR coalesce(p.chain_id, a.chain_id) = $1 \
        ORDER BY 1, 4 NULLS LAST, 2";
    let rows = client.query(LIST, &[&chain]).await;
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

/// Names the version of an implementation, and resumes a projection that is paused until it is known.
/// Audited. False where it was named so already.
///
/// # Errors
/// The settings have no such version or another one for the implementation, an operator named another one,
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
            "implementation {} of chain {chain} is version {there} already: if that is wrong, and it was never in \
             force, take it back with `chronolith versions remove`",
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

/// Takes back what an operator named, where it never was in force. Audited. False where no operator named it.
///
/// # Errors
/// Rows may have been made with it, or the database does not answer.
pub async fn remove_version(
    database: &Database,
    chain: u64,
    implementation: &[u8; 20],
    operator: &str,
) -> Result<bool> {
    const USED: &str = "SELECT min(block_number) FROM proxy_version_rows \
        WHERE chain_id = $1 AND implementation = $2";
    // Rows are made in any order: after what is whole, the upgrade itself may still be missing.
    const EARLY: &str = "SELECT EXISTS (SELECT FROM adfs_event_rows e WHERE e.chain_id = $1 \
        AND e.version = $2 AND e.block_number > (SELECT coalesce(max(c.complete_through), -1) \
            FROM complete_through c WHERE c.chain_id = $1 AND c.projection = 'adfs'))";
    const JOBS: &str = "UPDATE jobs SET token = nextval('job_tokens'), status = 'pending', \
        locked_by = NULL, locked_until = NULL, updated_at = now() \
        WHERE chain_id = $1 AND projection = $2 AND status = 'processing'";
    const REMOVE: &str = "DELETE FROM versions_added WHERE chain_id = $1 AND implementation = $2 \
        RETURNING version";
    let (chain, address) = (chain_id(chain)?, implementation.as_slice());
    let named = Address::from(implementation);
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    // A worker that makes rows with it at this moment is waited for, or writes nothing more.
    fence(&tx, chain).await?;
    let jobs = tx.execute(JOBS, &[&chain, &NAME]).await;
    jobs.tried("remove a version")?;
    let used = tx.query_one(USED, &[&chain, &address]).await;
    let used: Option<i64> = used.tried("remove a version")?.get(0);
    if let Some(block) = used {
        return Err(Error::Invalid(format!(
            "implementation {named} of chain {chain} is in force since block {block}, and rows were made with \
             its version: have them rebuilt with `chronolith projection reset`"
        )));
    }
    let removed = tx.query_opt(REMOVE, &[&chain, &address]).await;
    let Some(row) = removed.tried("remove a version")? else {
        return Ok(false);
    };
    let version: i32 = row.get(0);
    let early = tx.query_one(EARLY, &[&chain, &version]).await;
    if early.tried("remove a version")?.get(0) {
        return Err(Error::Invalid(format!(
            "rows of version {version} were made above blocks of chain {chain} that are still to come, and may be \
             of this implementation: try again when `chronolith projection state` says that all is there"
        )));
    }
    let detail = json!({ "implementation": named.to_string(), "version": version });
    audit(&tx, Some(chain), "versions remove", operator, &detail).await?;
    tx.commit().await.tried("remove a version")?;
    Ok(true)
}

//! What the engine knows of ADFS on any chain.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chronolith_projection::{ChainState, ProjectionKind, Result, Table, Tried as _, newest};
use deadpool_postgres::Transaction;
use serde_json::{Map, Value, json};

use crate::projection::UNKNOWN;
use crate::rows::{NAME, OTHER_NUMBER, TABLES};
use crate::{latest, registry};

/// Versions of a chain that the overview shows, the newest of them.
const VERSIONS_SHOWN: usize = 12;

/// The newest confirmed values. Of a long value the first bytes are listed.
const LATEST_FEEDS: &str = "\
    SELECT jsonb_build_object('feedId', bytea16_to_hex(feed_id), 'stride', stride, \
        'blockNumber', block_number, 'timestamp', extract(epoch FROM block_timestamp)::bigint, \
        'rbIndex', rb_index, 'data', '0x' || encode(substring(data FROM 1 FOR 32), 'hex'), \
        'version', version) \
    FROM feed_latest WHERE chain_id = $1 \
    ORDER BY block_number DESC, log_index DESC, position DESC LIMIT $2";

/// Projections of ADFS contracts.
#[derive(Clone, Copy, Debug)]
pub struct AdfsKind;

#[async_trait]
impl ProjectionKind for AdfsKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tables(&self) -> &'static [&'static Table] {
        TABLES
    }

    fn own_tables(&self) -> &'static [&'static str] {
        &["feed_latest", "contracts", "implementation_codes"]
    }

    fn quarantine_counter(&self, reason: &str) -> Option<&'static str> {
        (reason == OTHER_NUMBER).then_some(latest::OTHER_NUMBER_METRIC)
    }

    fn remedy(&self, chain: i64, reason: &str, detail: &str) -> Option<String> {
        let named = detail.split([' ', ',']).find(|word| is_address(word));
        let named = named.unwrap_or("ADDRESS");
        (reason == UNKNOWN).then(|| {
            format!(
                "chronolith versions add --chain {chain} --implementation {named} --version NUMBER"
            )
        })
    }

    async fn rewind(&self, tx: &Transaction<'_>, chain: i64, to: i64) -> Result<()> {
        latest::take_back(tx, chain, to).await
    }

    async fn versions_in_force(
        &self,
        tx: &Transaction<'_>,
        chain: Option<i64>,
    ) -> Result<BTreeMap<i64, i32>> {
        const IN_FORCE: &str = "SELECT c.chain_id, v.version FROM chains c, \
            LATERAL (SELECT r.version FROM proxy_version_rows r WHERE r.chain_id = c.chain_id \
                AND NOT EXISTS (SELECT FROM dropped_blocks d WHERE d.chain_id = r.chain_id \
                    AND d.block_hash = r.block_hash) \
                ORDER BY r.block_number DESC, r.log_index DESC LIMIT 1) v \
            WHERE $1::bigint IS NULL OR c.chain_id = $1";
        let rows = tx.query(IN_FORCE, &[&chain]).await;
        let rows = rows.tried("read which versions are in force")?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn overview(
        &self,
        tx: &Transaction<'_>,
        chain: &ChainState,
    ) -> Result<Map<String, Value>> {
        let mut versions = registry::read_versions(tx, Some(chain.chain_id)).await?;
        versions.reverse();
        versions.truncate(VERSIONS_SHOWN);
        for version in &mut versions {
            // The name of an operator is not public.
            version.operator = version.operator.take().map(|_| "an operator".to_owned());
        }
        let feeds = newest(tx, chain, NAME, LATEST_FEEDS).await?;
        Ok(Map::from_iter([
            ("versions".to_owned(), json!(versions)),
            ("latestFeeds".to_owned(), Value::Array(feeds)),
        ]))
    }
}

fn is_address(word: &str) -> bool {
    let digits = word.strip_prefix("0x");
    digits.is_some_and(|digits| {
        digits.len() == 40 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

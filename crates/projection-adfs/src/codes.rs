//! What the code of implementations hashes to, as the follower of the chain found it.
//!
//! Nothing here sends a request to a chain. A version says how bytes are read, so code that is another than the one
//! that was named stops the projection before a row is made of it.

use chronolith_projection::{Database, Result, Tried as _};

use std::collections::BTreeMap;

/// The code of an implementation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Code {
    /// The chain does not serve code.
    NotServed,
    Hash([u8; 32]),
}

pub(crate) type Codes = BTreeMap<[u8; 20], Code>;

/// Everything that is known of a chain.
pub(crate) async fn known(database: &Database, chain: i64) -> Result<Codes> {
    const KNOWN: &str =
        "SELECT implementation, code_hash FROM implementation_codes WHERE chain_id = $1";
    let client = database.client().await?;
    let rows = client.query(KNOWN, &[&chain]).await;
    let mut all = Codes::new();
    for row in rows.tried("read hashes of code")? {
        let (implementation, hash): (Vec<u8>, Option<Vec<u8>>) = (row.get(0), row.get(1));
        if let Ok(implementation) = implementation.as_slice().try_into() {
            let hash = hash.and_then(|hash| hash.as_slice().try_into().ok());
            all.insert(implementation, hash.map_or(Code::NotServed, Code::Hash));
        }
    }
    Ok(all)
}

/// Writes down what code hashes to, as it was found last: code does not change, but a node may be wrong
/// about it once.
pub(crate) async fn note(
    database: &Database,
    chain: i64,
    implementation: &[u8; 20],
    hash: Option<[u8; 32]>,
) -> Result<()> {
    const NOTE: &str = "INSERT INTO implementation_codes AS known (chain_id, implementation, code_hash) \
        VALUES ($1, $2, $3) ON CONFLICT (chain_id, implementation) \
        DO UPDATE SET code_hash = coalesce(excluded.code_hash, known.code_hash), seen_at = now()";
    let client = database.client().await?;
    let implementation = implementation.as_slice();
    let hash = hash.as_ref().map(<[u8; 32]>::as_slice);
    let noted = client
        .execute(NOTE, &[&chain, &implementation, &hash])
        .await;
    noted.tried("write down a hash of code").map(|_| ())
}

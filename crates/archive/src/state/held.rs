//! Held objects: what a rebuild of the state could not decide about. The collector leaves them alone
//! until an operator lets them go by name.
//!
//! Each rebuild that leaves something undecided puts one list into the folder `held`:
//!
//! ```text
//! chronolith held 1
//! <name of an object, one a line>
//! xxh3 <checksum of everything above, 16 hex digits>
//! ```
//!
//! A list that cannot be read stops collection: nothing goes away by mistake.

use std::collections::HashSet;

use bytes::Bytes;
use chronolith_store::BlobStore;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::format::Damage;

const FOLDER: &str = "held/";
const FIRST_LINE: &str = "chronolith held 1";
/// One rebuild makes one list: there are few.
const LISTS_MAX: usize = 1000;

/// Holds objects from now on.
pub(crate) async fn hold(blobs: &dyn BlobStore, names: &[String], nonce: u64) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let name = format!("{FOLDER}{nonce:016x}");
    let put = blobs.put(&name, encode(names)).await;
    put.map_err(Error::store("store the list of undecided objects"))
}

/// Names of all held objects.
pub(crate) async fn held(blobs: &dyn BlobStore) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for list in lists(blobs).await? {
        let bytes = blobs.get(&list).await;
        let bytes = bytes.map_err(|error| Error::reading(&list, error))?;
        names.extend(decode(&bytes).map_err(|damage| Error::damaged(&list, damage))?);
    }
    Ok(names)
}

/// Lets all held objects go. The next collection treats them like any other that nothing names.
pub(crate) async fn let_go(blobs: &dyn BlobStore) -> Result<()> {
    for list in lists(blobs).await? {
        let removed = blobs.delete(&list).await;
        removed.map_err(Error::store("remove the list of undecided objects"))?;
    }
    Ok(())
}

async fn lists(blobs: &dyn BlobStore) -> Result<Vec<String>> {
    let listed = blobs.list(FOLDER, None, LISTS_MAX).await;
    let listed = listed.map_err(Error::store("list undecided objects"))?;
    Ok(listed.into_iter().map(|info| info.name).collect())
}

fn encode(names: &[String]) -> Bytes {
    let mut text = format!("{FIRST_LINE}\n");
    for name in names {
        text.push_str(name);
        text.push('\n');
    }
    let checksum = xxh3_64(text.as_bytes());
    Bytes::from(format!("{text}xxh3 {checksum:016x}\n"))
}

fn decode(bytes: &[u8]) -> std::result::Result<Vec<String>, Damage> {
    let text = std::str::from_utf8(bytes).map_err(|_| Damage("not a text"))?;
    let (names, checksum) = text
        .strip_suffix('\n')
        .and_then(|text| text.rsplit_once("\nxxh3 "))
        .ok_or(Damage("list of undecided objects is cut"))?;
    let above = format!("{names}\n");
    if format!("{:016x}", xxh3_64(above.as_bytes())) != checksum {
        return Err(Damage("list of undecided objects fails its checksum"));
    }
    let mut lines = names.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(Damage("not a list of undecided objects"));
    }
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_lists_are_damage() {
        let names = ["seg/a".to_owned(), "run/b-1".to_owned()];
        let bytes = encode(&names);
        assert_eq!(decode(&bytes).unwrap(), names);
        for at in 0..bytes.len() {
            let mut broken = bytes.to_vec();
            broken[at] ^= 1;
            assert!(decode(&broken).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}

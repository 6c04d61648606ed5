//! The chain's first block, kept with its archive: an archive is of one chain forever.
//!
//! A chain id does not identify a chain: private chains share theirs, and a chain that starts again keeps its
//! own. The hash of block 0 does, so it is recorded once and compared at every start: in
//! the file `genesis` of the archive's directory, or in the object `genesis` below the archive's prefix
//! of an object store, so that every machine that shares the archive compares with the same hash.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use chronolith_archive::Archive;
use chronolith_model::Hash32;
use chronolith_source::{Source, known_genesis};
use chronolith_store::{BlobStore as _, replace_file};

use crate::location::ArchiveLocation;
use crate::settings::FollowSettings;

/// The name of the file or object.
const NAME: &str = "genesis";

/// Refuses a source whose first block is not the chain's, or not the archive's. Writes nothing. Returns
/// the source's first block, where it is served.
pub async fn check(
    settings: &FollowSettings,
    place: &ArchiveLocation,
    source: &dyn Source,
) -> Result<Option<Hash32>> {
    let kept = load(place).await?;
    // What this machine noted before the hash was kept with the archive.
    let noted = load_file(&place.notes().join(NAME))?;
    if let Some(kept) = kept.or(noted) {
        source.expect_genesis(kept);
    }
    let identity = source.identity().await;
    let Some(found) = identity.context("cannot fetch block 0")?.genesis else {
        tracing::info!(chain = %settings.name, "block 0 is not served: the genesis is not compared");
        return Ok(None);
    };
    if let Some(known) = known_genesis(settings.chain_id) {
        ensure!(
            found == known,
            "the source is on another chain with the same id: its genesis is {found}, that of chain {} is {known}; give the right endpoint",
            settings.chain_id
        );
    }
    compare(place, kept, found)?;
    compare(place, noted, found)?;
    Ok(Some(found))
}

/// Keeps the source's first block with the archive, which is open for writing, unless one is kept.
pub async fn keep(place: &ArchiveLocation, archive: &Archive, found: Option<Hash32>) -> Result<()> {
    let Some(found) = found else {
        return Ok(());
    };
    // Where block 0 is not archived there is nothing to compare with.
    let archived = match archive.pin() {
        Some(pinned) => pinned.block_by_number(0).await.ok(),
        None => None,
    };
    compare(place, archived.map(|clock| clock.hash), found)?;
    store(place, found).await
}

fn compare(place: &ArchiveLocation, kept: Option<Hash32>, found: Hash32) -> Result<()> {
    match kept {
        Some(kept) if kept != found => bail!(
            "the archive in {place} is of another chain: its genesis is {kept}, the source's is {found}; give the right endpoint, or another data directory (dataDir) or archiveUrl"
        ),
        _ => Ok(()),
    }
}

/// The hash that is kept with an archive, where one is.
pub async fn load(place: &ArchiveLocation) -> Result<Option<Hash32>> {
    let Some(remote) = place.object_place() else {
        return load_file(&place.notes().join(NAME));
    };
    let (_, blobs) = remote.reader();
    match blobs.get(NAME).await {
        Ok(bytes) => parse(&bytes, &format!("{place}/{NAME}")).map(Some),
        Err(chronolith_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {place}/{NAME}")),
    }
}

/// Keeps a hash with an archive. In an object store the first one stays, and another one is refused.
pub async fn store(place: &ArchiveLocation, hash: Hash32) -> Result<()> {
    let text = format!("{hash}\n");
    let Some(remote) = place.object_place() else {
        let path = place.notes().join(NAME);
        if load_file(&path)? == Some(hash) {
            return Ok(());
        }
        return replace_file(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()));
    };
    let there = remote.create_once(NAME, Bytes::from(text)).await;
    let there = there.with_context(|| format!("cannot write {place}/{NAME}"))?;
    let kept = parse(&there, &format!("{place}/{NAME}"))?;
    compare(place, Some(kept), hash)
}

fn load_file(path: &Path) -> Result<Option<Hash32>> {
    match fs::read(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        Ok(bytes) => parse(&bytes, &path.display().to_string()).map(Some),
    }
}

fn parse(bytes: &[u8], place: &str) -> Result<Hash32> {
    let text = std::str::from_utf8(bytes).ok().map(str::trim_end);
    let hash = text.and_then(|text| const_hex::decode_to_array(text).ok());
    let hash = hash.map(Hash32);
    hash.with_context(|| {
        format!(
            "{place} is damaged: put the hash of the chain's block 0 there, or remove it to take the source's"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Remote;

    /// The hash was a file of each machine. A second machine with endpoints of another chain of the same
    /// id noted its own, took over, contradicted the head, and halted the shared archive.
    #[tokio::test]
    async fn machines_that_share_an_archive_compare_with_one_genesis() {
        let remote = Remote::open("memory:///shared").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let machine = |name: &str| ArchiveLocation::Remote {
            remote: remote.clone(),
            part: "7".to_owned(),
            notes: dir.path().join(name),
        };
        let (one, two) = (machine("one"), machine("two"));
        let (ours, theirs) = (Hash32([1; 32]), Hash32([2; 32]));
        assert_eq!(load(&two).await.unwrap(), None);
        store(&one, ours).await.unwrap();
        store(&two, ours).await.unwrap();
        assert_eq!(load(&two).await.unwrap(), Some(ours));
        let refused = store(&two, theirs).await.unwrap_err().to_string();
        for hash in [ours.to_string(), theirs.to_string()] {
            assert!(refused.contains(&hash), "{refused}");
        }
        assert_eq!(load(&one).await.unwrap(), Some(ours));
    }
}

//! Damages a stored object, as a bad disk would.

use chronolith_store::{BlobStore, Error, Result};

/// Flips the lowest bit of one byte of a stored object: the least that can go wrong. Objects are
/// immutable, so the damaged copy takes the place of the object; a reader may find it missing in
/// between.
///
/// # Errors
/// When the store fails, or the object is not longer than `offset`; then nothing was changed.
pub async fn flip_byte(store: &dyn BlobStore, name: &str, offset: u64) -> Result<()> {
    let mut bytes = store.get(name).await?.to_vec();
    let place = usize::try_from(offset).ok();
    let Some(byte) = place.and_then(|place| bytes.get_mut(place)) else {
        return Err(Error::Corrupt {
            reason: format!("no byte to flip (name={name}, offset={offset})"),
        });
    };
    *byte ^= 1;
    store.delete(name).await?;
    store.put(name, bytes.into()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use chronolith_store::MemoryBlobs;

    #[tokio::test]
    async fn one_bit_changes_and_nothing_else() {
        let store = MemoryBlobs::new();
        store.put("a/b", Bytes::from_static(b"abc")).await.unwrap();
        flip_byte(&store, "a/b", 1).await.unwrap();
        assert_eq!(store.get("a/b").await.unwrap(), &b"acc"[..]);
        assert!(flip_byte(&store, "a/b", 3).await.is_err());
        assert!(flip_byte(&store, "a/c", 0).await.is_err());
        assert_eq!(store.get("a/b").await.unwrap(), &b"acc"[..]);
    }
}

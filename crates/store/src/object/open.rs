//! Opening a store by its URL.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions};

use super::{ObjectBlobs, ObjectMeta, failed, key};
use crate::{BlobStore as _, Error, Result};

/// The option by which objects are deleted one by one.
const ONE_BY_ONE: &str = "aws_disable_bulk_delete";

/// A place in an object store.
#[derive(Clone, Debug)]
pub struct ObjectPlace {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl ObjectPlace {
    /// Opens a place by its URL. Nothing is requested from the store yet.
    ///
    /// # Errors
    /// As [`open_object_store`].
    pub fn open(url: &str, options: &[(String, String)]) -> Result<Self> {
        let (store, prefix) = open_object_store(url, options)?;
        Ok(Self { store, prefix })
    }

    /// A place below this one.
    #[must_use]
    pub fn within(&self, part: &str) -> Self {
        Self {
            store: self.store.clone(),
            prefix: self.prefix.clone().join(part),
        }
    }

    /// Record and objects, for a writer. The store is tried first, as by
    /// [`ObjectMeta::open_writer`].
    ///
    /// # Errors
    /// When the store cannot be reached or cannot distinguish two writers.
    pub async fn writer(&self) -> Result<(ObjectMeta, ObjectBlobs)> {
        let meta = ObjectMeta::open_writer(self.store.clone(), &self.prefix).await?;
        Ok((meta, self.blobs()))
    }

    /// Record and objects, for a reader.
    #[must_use]
    pub fn reader(&self) -> (ObjectMeta, ObjectBlobs) {
        let meta = ObjectMeta::open_reader(self.store.clone(), &self.prefix);
        (meta, self.blobs())
    }

    /// Creates a small object that is never replaced. Returns what is there: these bytes, or those of
    /// the process that was first.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn create_once(&self, name: &str, bytes: Bytes) -> Result<Bytes> {
        let key = key(&self.prefix, name)?;
        let options = PutOptions::from(PutMode::Create);
        let body = bytes.clone().into();
        match self.store.put_opts(&key, body, options).await {
            Ok(_) => Ok(bytes),
            Err(object_store::Error::AlreadyExists { .. }) => self.blobs().get(name).await,
            Err(error) => Err(failed("create object", name, error)),
        }
    }

    fn blobs(&self) -> ObjectBlobs {
        ObjectBlobs::new(self.store.clone(), self.prefix.clone())
    }
}

/// Opens `s3://bucket/prefix` (feature `s3`), `gs://…` (`gcs`), `az://…` (`azure`) or
/// `memory:///prefix`, and returns the store and the prefix. Options are those of `object_store`,
/// such as `aws_endpoint`, `aws_access_key_id`, `aws_allow_http`. No option's value is in an error.
pub fn open_object_store(
    url: &str,
    options: &[(String, String)],
) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let refuse = |what: &str| {
        Error::conflict(format!(
            "{what}: expected something like s3://bucket/prefix"
        ))
    };
    let url = url.parse();
    let url = url.map_err(|_| refuse("object store URL cannot be parsed"))?;
    let options = options
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    // One object at a time is deleted here. To a bulk request, Ceph answers "UnknownError" where two
    // delete the same object, and inside an answer that is well, so that nothing tries again.
    let options = [(ONE_BY_ONE, "true")].into_iter().chain(options);
    match object_store::parse_url_opts(&url, options) {
        Ok((store, prefix)) => Ok((store.into(), prefix)),
        // The cause may quote a setting, and a setting may be a secret.
        Err(_) => Err(refuse(
            "object store cannot be opened with this URL and these options, or its feature is off",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_created_once_is_never_replaced() {
        let place = ObjectPlace::open("memory:///a", &[]).unwrap().within("b");
        for bytes in ["first", "second"] {
            let there = place.create_once("note", Bytes::from(bytes)).await;
            assert_eq!(there.unwrap(), "first");
        }
        let (_, blobs) = place.reader();
        assert_eq!(blobs.get("note").await.unwrap(), "first");
    }

    #[test]
    fn urls() {
        let (_, prefix) = open_object_store("memory:///a/b", &[]).unwrap();
        assert_eq!(prefix.as_ref(), "a/b");
        for bad in ["", "bucket", "ftp://x/y", "https://user:secret@h:bad/"] {
            let error = open_object_store(bad, &[]).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

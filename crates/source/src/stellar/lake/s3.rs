//! A lake in S3, or in what speaks its protocol.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt as _};

use super::keys::Layout;
use super::objects::{Failure, Newest, Objects, fits};
use crate::error::{Error, Result};

/// A bucket and a prefix in it.
#[derive(Debug)]
pub(crate) struct S3 {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl S3 {
    /// By its URL, with options of `object_store`. No option's value is in an error.
    pub(crate) fn new(url: &str, options: &[(String, String)]) -> Result<Self> {
        let invalid = || {
            let what = "it cannot be opened: expected something like s3://bucket/prefix, with \
                        endpoint and region where they are needed";
            Error::Invalid(format!("lake: {what}"))
        };
        let url = url.parse().map_err(|_| invalid())?;
        let options = options
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        // The cause may quote a setting, and a setting may be a secret.
        let (store, prefix) = object_store::parse_url_opts(&url, options).map_err(|_| invalid())?;
        let store = store.into();
        Ok(Self { store, prefix })
    }

    fn path(&self, key: &str) -> Result<Path, Failure> {
        let joined = match self.prefix.as_ref() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        };
        Path::parse(joined).map_err(|error| Failure::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl Objects for S3 {
    async fn get(&self, key: &str, most: u64) -> Result<Option<Bytes>, Failure> {
        let Some(found) = present(self.store.get(&self.path(key)?).await)? else {
            return Ok(None);
        };
        fits(found.meta.size, most)?;
        present(found.bytes().await)
    }

    async fn has(&self, key: &str) -> Result<bool, Failure> {
        Ok(present(self.store.head(&self.path(key)?).await)?.is_some())
    }

    /// Lists come in order, and one page of them is enough.
    async fn newest(&self, layout: Layout) -> Result<Newest, Failure> {
        let mut listed = self.store.list(Some(&self.prefix));
        while let Some(found) = present(listed.try_next().await)?.flatten() {
            let Some(parts) = found.location.prefix_match(&self.prefix) else {
                continue;
            };
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            let key = parts.join("/");
            if layout.parse(&key).is_some() {
                return Ok(Newest::Key(key));
            }
        }
        Ok(Newest::Nothing)
    }
}

fn present<T>(found: Result<T, StoreError>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(Failure::Unavailable(told(&error))),
    }
}

/// What went wrong, without the request: its URL may be signed.
fn told(error: &StoreError) -> String {
    let said = match error {
        StoreError::PermissionDenied { .. } => "permission denied",
        StoreError::Unauthenticated { .. } => {
            "not authenticated: are the keys right, or is it anonymous?"
        }
        StoreError::Generic { source, .. } => {
            return source
                .to_string()
                .split("://")
                .next()
                .unwrap_or_default()
                .trim_end_matches(|sign: char| sign.is_alphanumeric() || sign.is_whitespace())
                .to_owned();
        }
        _ => "the store failed",
    };
    said.to_owned()
}

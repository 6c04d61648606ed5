//! [`ObjectBlobs`]: objects as objects.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, coalesce_ranges};

use super::writer::ObjectWriter;
use super::{failed, key};
use crate::name::{check_name, check_range};
use crate::{BlobInfo, BlobStore, BlobWriter, Error, Result};

/// Ranges closer than this are requested as one: about what a request's latency is worth.
const COALESCE_BYTES: u64 = 128 << 10;

/// Objects below a prefix of an object store.
#[derive(Clone, Debug)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl ObjectBlobs {
    /// Objects below `prefix`. The store must list keys in their order, as S3 does.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { store, prefix }
    }

    /// The key of an object, if its name is one.
    fn key(&self, name: &str) -> Result<Path> {
        check_name(name)?;
        key(&self.prefix, name)
    }

    /// A part of an object that is not empty.
    async fn part(&self, name: &str, key: &Path, range: Range<u64>) -> Result<Bytes> {
        let wanted = range.end - range.start;
        match self.store.get_range(key, range.clone()).await {
            Ok(bytes) if bytes.len() as u64 == wanted => Ok(bytes),
            // Stores shorten a range that reaches beyond the end, or refuse one that begins there.
            Ok(_) => Err(self.outside(name, key, &range).await),
            Err(error @ object_store::Error::NotFound { .. }) => Err(failed("read", name, error)),
            Err(error) => match self.outside(name, key, &range).await {
                corrupt @ Error::Corrupt { .. } => Err(corrupt),
                _ => Err(failed("read object", name, error)),
            },
        }
    }

    /// What is wrong with a range.
    async fn outside(&self, name: &str, key: &Path, range: &Range<u64>) -> Error {
        let len = match self.store.head(key).await {
            Ok(meta) => meta.size,
            Err(error) => return failed("look up object", name, error),
        };
        match check_range(name, len, range) {
            Err(corrupt) => corrupt,
            Ok(_) => Error::without_cause(format!("read object: the answer was cut (name={name})")),
        }
    }

    /// Checks the ranges of which a store would answer nothing, or nothing useful.
    async fn check_ranges(&self, name: &str, key: &Path, ranges: &[Range<u64>]) -> Result<()> {
        let is_useful = |range: &Range<u64>| !range.is_empty() && range.end < i64::MAX as u64;
        if ranges.iter().all(is_useful) {
            return Ok(());
        }
        let meta = self.store.head(key).await;
        let meta = meta.map_err(|error| failed("look up object", name, error))?;
        for range in ranges {
            check_range(name, meta.size, range)?;
        }
        Ok(())
    }
}

#[async_trait]
impl BlobStore for ObjectBlobs {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let put = self.store.put(&self.key(name)?, bytes.into()).await;
        put.map(drop)
            .map_err(|error| failed("put object", name, error))
    }

    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        let key = self.key(name)?;
        Ok(Box::new(ObjectWriter::new(self.store.clone(), key, name)))
    }

    async fn get(&self, name: &str) -> Result<Bytes> {
        let fail = |error| failed("get object", name, error);
        let found = self.store.get(&self.key(name)?).await.map_err(fail)?;
        let size = found.meta.size;
        let bytes = found.bytes().await.map_err(fail)?;
        if bytes.len() as u64 != size {
            let context = format!("get object: the answer was cut (name={name})");
            return Err(Error::without_cause(context));
        }
        Ok(bytes)
    }

    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let mut parts = self.ranges(name, &[range]).await?;
        Ok(parts.pop().unwrap_or_default())
    }

    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let key = self.key(name)?;
        self.check_ranges(name, &key, ranges).await?;
        let some = ranges.iter().filter(|range| !range.is_empty());
        let some: Vec<Range<u64>> = some.cloned().collect();
        // The fetch never answers short, which `coalesce_ranges` relies on.
        let fetch = |range| self.part(name, &key, range);
        let parts = coalesce_ranges(&some, fetch, COALESCE_BYTES).await?;
        let mut parts = parts.into_iter();
        let part_of = |range: &Range<u64>| match range.is_empty() {
            true => Some(Bytes::new()),
            false => parts.next(),
        };
        Ok(ranges.iter().filter_map(part_of).collect())
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>> {
        let fail = |error| failed("list objects", prefix, error);
        // The store knows prefixes of whole parts only; the rest is filtered here.
        let directory = prefix.rsplit_once('/').map_or("", |(before, _)| before);
        let base = self.directory(directory)?;
        let mut stream = match start_after(prefix, after) {
            Some(after) => {
                let after = Path::parse(format!("{}{after}", self.root()));
                let after = after.map_err(|error| fail(error.into()))?;
                self.store.list_with_offset(base.as_ref(), &after)
            }
            None => self.store.list(base.as_ref()),
        };
        let mut found: Vec<BlobInfo> = Vec::new();
        while found.len() < limit {
            let Some(meta) = stream.try_next().await.map_err(fail)? else {
                break;
            };
            let Some(name) = meta.location.as_ref().strip_prefix(&self.root()) else {
                continue;
            };
            if after.is_some_and(|after| name <= after) || name < prefix {
                continue;
            }
            if !name.starts_with(prefix) {
                break;
            }
            in_order(found.last(), name)?;
            found.push(BlobInfo {
                name: name.to_owned(),
                len: meta.size,
            });
        }
        Ok(found)
    }

    async fn delete(&self, name: &str) -> Result<()> {
        match self.store.delete(&self.key(name)?).await {
            Err(error) if !matches!(error, object_store::Error::NotFound { .. }) => {
                Err(failed("delete object", name, error))
            }
            _ => Ok(()),
        }
    }
}

impl ObjectBlobs {
    /// What all keys begin with.
    fn root(&self) -> String {
        match self.prefix.as_ref() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        }
    }

    fn directory(&self, directory: &str) -> Result<Option<Path>> {
        match (directory, self.prefix.as_ref()) {
            ("", "") => Ok(None),
            ("", _) => Ok(Some(self.prefix.clone())),
            _ => key(&self.prefix, directory).map(Some),
        }
    }
}

/// Where the store can begin its list, if `after` is of any use. It does not take a name with an
/// empty part, such as one that ends with a slash: then it begins a little earlier.
fn start_after<'a>(prefix: &str, after: Option<&'a str>) -> Option<&'a str> {
    let after = after?.trim_end_matches('/');
    let useful = check_name(after).is_ok() && after > prefix;
    useful.then_some(after)
}

/// Refuses to page through a store whose order is another: objects would be missed.
fn in_order(last: Option<&BlobInfo>, name: &str) -> Result<()> {
    match last {
        Some(last) if last.name.as_str() >= name => Err(Error::conflict(format!(
            "store lists keys out of order (name={name}, after={})",
            last.name
        ))),
        _ => Ok(()),
    }
}

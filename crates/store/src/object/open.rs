//! Opening a store by its URL.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

use crate::{Error, Result};

/// Opens `s3://bucket/prefix` (feature `s3`), `gs://…` (`gcs`), `az://…` (`azure`) or
/// `memory:///prefix`, and returns the store and the prefix. Options are those of `object_store`,
/// such as `aws_endpoint`, `aws_access_key_id`, `aws_allow_http`. No option's value is in an error.
pub fn open_object_store(
    url: &str,
    options: &[(String, String)],
) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let refuse = |what: &str| Error::Conflict {
        reason: format!("{what}: expected something like s3://bucket/prefix"),
    };
    let url = url
        .parse()
        .map_err(|_| refuse("object store URL cannot be parsed"))?;
    let options = options.iter().map(|(key, value)| (key, value));
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

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

/// Characters of an error that are reported: an answer may be a page.
const SHOWN_CHARS_MAX: usize = 500;
/// Objects of another layout that are passed over before the newest: a page of a listing.
const OTHERS_MAX: usize = 1_000;

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
        let mut others: Option<(usize, String)> = None;
        while let Some(found) = present(listed.try_next().await)?.flatten() {
            let Some(parts) = found.location.prefix_match(&self.prefix) else {
                continue;
            };
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            let key = parts.join("/");
            if layout.parse(&key).is_some() {
                return Ok(Newest::Key(key));
            }
            let (count, first) = others.get_or_insert((0, key));
            *count += 1;
            if *count >= OTHERS_MAX {
                return Err(Failure::Unavailable(format!(
                    "none of its first {count} objects is one of this layout ({layout}), the first is {first}"
                )));
            }
        }
        Ok(Newest::Nothing)
    }
}

fn present<T>(found: Result<T, StoreError>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(Failure::Unavailable(reason_of(&error))),
    }
}

/// What went wrong, without the request: its URL may be signed.
fn reason_of(error: &StoreError) -> String {
    match error {
        StoreError::PermissionDenied { .. } => "permission denied".to_owned(),
        StoreError::Unauthenticated { .. } => {
            "not authenticated: are the keys right, or is it anonymous?".to_owned()
        }
        _ => {
            let reason = without_urls(&error.to_string());
            // The reason of a request that failed is only at the end of its causes.
            let mut last: &dyn std::error::Error = error;
            while let Some(cause) = last.source() {
                last = cause;
            }
            let last = without_urls(&last.to_string());
            let reason = if reason.contains(&last) {
                reason
            } else {
                format!("{reason}: {last}")
            };
            reason.chars().take(SHOWN_CHARS_MAX).collect()
        }
    }
}

/// A text on one line, with no word of it that is a URL.
fn without_urls(text: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    for word in &mut words {
        if word.contains("://") {
            *word = "[url]";
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use object_store::PutPayload;
    use object_store::memory::InMemory;

    use super::*;

    /// A request that was refused has a reason, and the reason was lost together with the URL.
    #[tokio::test]
    async fn a_refused_request_says_why_and_not_where() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let body = "<Code>InvalidRegion</Code> see https://docs.example/?sig=OTHER-SECRET";
            let length = body.len();
            let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n";
            write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
        });
        let options = [
            ("aws_endpoint", endpoint.as_str()),
            ("aws_access_key_id", "KEY-ID"),
            ("aws_secret_access_key", "THE-SECRET"),
            ("aws_region", "us-east-1"),
            ("aws_allow_http", "true"),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let lake = S3::new("s3://bucket/lake", &options).unwrap();
        let failure = lake.get(".config.json", 1_000).await.unwrap_err();
        let reason = failure.to_string();
        server.join().unwrap();
        for part in ["performing GET [url]", "400 Bad Request", "InvalidRegion"] {
            assert!(reason.contains(part), "{reason}");
        }
        for part in ["SECRET", "KEY-ID", "127.0.0.1", "docs.example"] {
            assert!(!reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn a_text_has_no_urls() {
        let generic = |text: &str| StoreError::Generic {
            store: "S3",
            source: text.into(),
        };
        for (text, expected) in [
            (
                "Error performing GET https://b.example/x?X-Amz-Signature=SECRET in 3.1s, after 10 \
                 retries, max_retries: 10, retry_timeout: 180s  - HTTP error: operation timed out",
                "Generic S3 error: Error performing GET [url] in 3.1s, after 10 retries, \
                 max_retries: 10, retry_timeout: 180s - HTTP error: operation timed out",
            ),
            (
                "Error performing list request: error sending request for url (http://SECRET@b/)",
                "Generic S3 error: Error performing list request: error sending request for url [url]",
            ),
            ("no\n  answer", "Generic S3 error: no answer"),
        ] {
            assert_eq!(reason_of(&generic(text)), expected);
        }
        let long = reason_of(&generic(&"ä".repeat(10_000)));
        assert_eq!(long.chars().count(), SHOWN_CHARS_MAX);
    }

    async fn bucket(keys: impl Iterator<Item = String>) -> S3 {
        let store = Arc::new(InMemory::new());
        for key in keys {
            let path = Path::from(format!("lake/{key}"));
            store.put(&path, PutPayload::default()).await.unwrap();
        }
        let prefix = Path::from("lake");
        S3 { store, prefix }
    }

    /// A lake of millions of objects was listed to its end, and then reported as empty.
    #[tokio::test]
    async fn a_lake_of_another_layout_is_not_listed_to_its_end() {
        let (layout, other) = (Layout::new(1, 1).unwrap(), Layout::new(1, 64).unwrap());
        let key = |ledger: u32| format!("{}.xdr.zst", layout.stem(ledger));
        let many = 2..OTHERS_MAX as u32 + 10;
        let lake = bucket(many.clone().map(key)).await;
        let newest = many.end - 1;
        assert_eq!(lake.newest(layout).await, Ok(Newest::Key(key(newest))));
        let reason = lake.newest(other).await.unwrap_err().to_string();
        for part in [key(newest), other.to_string(), OTHERS_MAX.to_string()] {
            assert!(reason.contains(&part), "{reason}");
        }
        // Other objects there do not hide the lake.
        let beside = (0..OTHERS_MAX - 2).map(|at| format!(".{at}"));
        let lake = bucket(beside.chain([key(2)])).await;
        assert_eq!(lake.newest(layout).await, Ok(Newest::Key(key(2))));
        assert_eq!(lake.newest(other).await.unwrap(), Newest::Nothing);
    }
}

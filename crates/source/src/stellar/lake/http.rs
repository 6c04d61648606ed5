//! A lake on a plain web server, which lists nothing.

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use reqwest::header::RANGE;
use reqwest::{Client, Method, Response, StatusCode, Url};
use tokio::time::Instant;

use super::keys::Layout;
use super::objects::{Failure, Newest, Objects, fits};
use crate::error::{Error, Result};
use crate::http::{READ_AHEAD_MAX, is_too_slow, reason_of};

/// Between two pieces of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// What follows a request that failed on the way. Of millions of objects one fails now and then, and a
/// round of history must not start again for it.
const PAUSES_MS: [u64; 3] = [200, 1_000, 3_000];

pub(crate) struct Http {
    base: Url,
    client: Client,
}

impl std::fmt::Debug for Http {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Http")
    }
}

/// What a status says of an object.
enum Answer {
    There(Response),
    Absent,
    /// The server does not take the method.
    NoMethod,
}

impl Http {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let invalid = |what: String| Error::Invalid(format!("lake: {what}"));
        let mut base =
            Url::parse(url).map_err(|error| invalid(format!("it is not a valid URL: {error}")))?;
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let client = crate::http::client(READ_TIMEOUT)
            // Objects are packed as they are: what a server says of their encoding is about that.
            .no_gzip()
            .no_zstd()
            .build()
            .map_err(|error| invalid(format!("HTTP client: {error}")))?;
        Ok(Self { base, client })
    }

    async fn send(&self, method: Method, key: &str, head: bool) -> Result<Answer, Failure> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{key}", self.base.path()));
        let mut request = self.client.request(method, url);
        if head {
            request = request.header(RANGE, "bytes=0-0");
        }
        let answer = request.send().await.map_err(failed)?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Answer::Absent),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Ok(Answer::NoMethod),
            status if status.is_success() => Ok(Answer::There(answer)),
            status => Err(Failure::Unavailable(format!("HTTP status {status}"))),
        }
    }

    /// Tries again after failures that may pass.
    async fn tried<T, F>(&self, send: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        for pause_ms in PAUSES_MS {
            match send().await {
                Err(Failure::Unavailable(_)) => {}
                done => return done,
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        send().await
    }

    async fn read(&self, key: &str, most: u64) -> Result<Option<Bytes>, Failure> {
        let mut answer = match self.send(Method::GET, key, false).await? {
            Answer::There(answer) => answer,
            Answer::Absent => return Ok(None),
            Answer::NoMethod => return Err(Failure::Unavailable("it takes no GET".to_owned())),
        };
        let stated = answer.content_length();
        fits(stated.unwrap_or(0), most)?;
        let room = stated.unwrap_or(0).min(READ_AHEAD_MAX);
        let mut body = BytesMut::with_capacity(room as usize);
        let began = Instant::now();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            fits((body.len() + piece.len()) as u64, most)?;
            body.extend_from_slice(&piece);
            // Pauses are short where bytes come one by one, and the whole takes forever.
            if is_too_slow(began.elapsed(), body.len()) {
                return Err(Failure::Unavailable("it came too slowly".to_owned()));
            }
        }
        Ok(Some(body.freeze()))
    }

    async fn look(&self, key: &str) -> Result<bool, Failure> {
        let answer = match self.send(Method::HEAD, key, false).await? {
            Answer::NoMethod => self.send(Method::GET, key, true).await?,
            answer => answer,
        };
        Ok(matches!(answer, Answer::There(_)))
    }
}

#[async_trait]
impl Objects for Http {
    async fn get(&self, key: &str, most: u64) -> Result<Option<Bytes>, Failure> {
        self.tried(|| self.read(key, most)).await
    }

    async fn has(&self, key: &str) -> Result<bool, Failure> {
        self.tried(|| self.look(key)).await
    }

    async fn newest(&self, _layout: Layout) -> Result<Newest, Failure> {
        Ok(Newest::Unlisted)
    }
}

/// Without the URL, which may carry a key.
#[expect(clippy::needless_pass_by_value, reason = "it is passed as a function")]
fn failed(error: reqwest::Error) -> Failure {
    Failure::Unavailable(reason_of(&error).to_owned())
}

//! Compression of answers, at the fastest level and on other threads than those of the connections: a page of
//! ten thousand logs takes as long to compress as thousands of small answers take in all.
//!
//! An answer that pauses, as a download may, is sent as far as it came.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt as _;
use futures::stream::try_unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use zstd::stream::write::Encoder as ZstdEncoder;

use super::body::HeldMemory;
use super::heavy::HeavyWork;

/// Below this, compression costs more than it saves.
const BYTES_MIN: u64 = 1_024;
/// Up to this it takes less time than a change of threads is worth.
const HERE_BYTES_MAX: usize = 16 << 10;
/// Answers that are compressed at the same time: an encoder takes up to 2 MiB. Others are sent as they are.
pub(super) const STREAMS_MAX: usize = 16;
const ZSTD_LEVEL: i32 = 1;
/// For how long an encoder keeps bytes to which no others come: up to 128 KiB, which are many lines.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Compresses answers.
#[derive(Clone)]
pub(crate) struct Compressor {
    heavy: HeavyWork,
    streams: Arc<Semaphore>,
}

/// How an answer is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// The coding that a client prefers; of two that it likes the same, the cheaper one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter();
        let (mut gzip, mut zstd) = (0.0, 0.0);
        for one in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let mut parts = one.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix(b"q="));
            let weight = weight.map_or(Some(1.0), |text| {
                std::str::from_utf8(text).ok()?.parse().ok()
            });
            let weight: f32 = weight.unwrap_or(0.0);
            if name.eq_ignore_ascii_case(b"gzip") {
                gzip = weight;
            } else if name.eq_ignore_ascii_case(b"zstd") {
                zstd = weight;
            }
        }
        match (gzip > 0.0, zstd > 0.0) {
            (_, true) if zstd >= gzip => Some(Self::Zstd),
            (true, _) => Some(Self::Gzip),
            _ => None,
        }
    }

    fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(coding: Coding) -> std::io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Zstd => Self::Zstd(ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    /// Takes bytes in; returns what comes out.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        Ok(match self {
            Self::Gzip(encoder) => {
                encoder.write_all(bytes)?;
                std::mem::take(encoder.get_mut())
            }
            Self::Zstd(encoder) => {
                encoder.write_all(bytes)?;
                std::mem::take(encoder.get_mut())
            }
        })
    }

    /// Returns what comes out of all bytes so far.
    fn flush(&mut self) -> std::io::Result<Vec<u8>> {
        Ok(match self {
            Self::Gzip(encoder) => {
                encoder.flush()?;
                std::mem::take(encoder.get_mut())
            }
            Self::Zstd(encoder) => {
                encoder.flush()?;
                std::mem::take(encoder.get_mut())
            }
        })
    }

    fn finish(self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// A body that is compressed while it is sent.
struct Stream {
    body: axum::body::BodyDataStream,
    encoder: Encoder,
    /// Since when the encoder may have bytes that were not sent.
    keeps: Option<Instant>,
    heavy: HeavyWork,
    held: Option<HeldMemory>,
    _stream: OwnedSemaphorePermit,
}

impl Compressor {
    pub(crate) fn new(heavy: HeavyWork) -> Self {
        Self {
            heavy,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    /// The answer as the client prefers it.
    pub(crate) fn apply(&self, mut response: Response, wanted: Option<Coding>) -> Response {
        if !is_worth_it(&response) {
            return response;
        }
        let vary = HeaderValue::from_static("accept-encoding");
        // Answers that caches may keep have it already.
        response.headers_mut().entry(header::VARY).or_insert(vary);
        let Some(coding) = wanted else {
            return response;
        };
        let Ok(stream) = self.streams.clone().try_acquire_owned() else {
            return response;
        };
        let Ok(encoder) = Encoder::new(coding) else {
            return response;
        };
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        parts
            .headers
            .insert(header::CONTENT_ENCODING, coding.name());
        let stream = Stream {
            body: body.into_data_stream(),
            encoder,
            keeps: None,
            heavy: self.heavy.clone(),
            held: parts.extensions.get().cloned(),
            _stream: stream,
        };
        let chunks = try_unfold(Some(stream), |stream| async {
            match stream {
                Some(stream) => stream.next().await,
                None => Ok(None),
            }
        });
        Response::from_parts(parts, Body::from_stream(chunks))
    }
}

/// Whether compression saves anything.
fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    let is_small = response.body().size_hint().exact();
    response.status() != StatusCode::NO_CONTENT
        && response.status() != StatusCode::NOT_MODIFIED
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::CONTENT_RANGE)
        && is_small.is_none_or(|bytes| bytes >= BYTES_MIN)
}

impl Stream {
    /// The next compressed bytes, and the rest.
    async fn next(mut self) -> Result<Option<(Bytes, Option<Self>)>, axum::Error> {
        loop {
            let next = self.body.next();
            let next = match self.keeps {
                Some(since) => timeout_at(since + FLUSH_AFTER, next).await.ok(),
                None => Some(next.await),
            };
            let out = match next {
                Some(None) => {
                    let (held, encoder) = (self.held, self.encoder);
                    let out = self.heavy.compute(|| encoder.finish()).await;
                    return Ok(Some((hold(held.as_ref(), done(out)?), None)));
                }
                Some(Some(chunk)) => {
                    let out;
                    (out, self) = self.write(chunk?).await?;
                    let since = self.keeps.filter(|_| out.is_empty());
                    self.keeps = since.or_else(|| Some(Instant::now()));
                    out
                }
                None => {
                    let out;
                    (out, self) = self.compute(Encoder::flush).await?;
                    self.keeps = None;
                    out
                }
            };
            if !out.is_empty() {
                return Ok(Some((hold(self.held.as_ref(), out), Some(self))));
            }
        }
    }

    /// Takes bytes in; returns what comes out.
    async fn write(mut self, bytes: Bytes) -> Result<(Vec<u8>, Self), axum::Error> {
        if bytes.len() > HERE_BYTES_MAX {
            return self.compute(move |encoder| encoder.write(&bytes)).await;
        }
        let out = done(Some(self.encoder.write(&bytes)))?;
        Ok((out, self))
    }

    /// Lets the encoder work on the other threads.
    async fn compute(
        mut self,
        work: impl FnOnce(&mut Encoder) -> std::io::Result<Vec<u8>> + Send + 'static,
    ) -> Result<(Vec<u8>, Self), axum::Error> {
        let mut encoder = self.encoder;
        let worked = self.heavy.compute(move || (work(&mut encoder), encoder));
        let Some((out, encoder)) = worked.await else {
            return Err(panicked());
        };
        self.encoder = encoder;
        Ok((done(Some(out))?, self))
    }
}

fn hold(held: Option<&HeldMemory>, bytes: Vec<u8>) -> Bytes {
    match held {
        Some(held) => held.hold(bytes),
        None => bytes.into(),
    }
}

fn done(out: Option<std::io::Result<Vec<u8>>>) -> Result<Vec<u8>, axum::Error> {
    out.ok_or_else(panicked)?.map_err(axum::Error::new)
}

fn panicked() -> axum::Error {
    axum::Error::new("compression failed")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn the_client_chooses_the_coding() {
        let none = None;
        for (accepted, coding) in [
            ("", none),
            ("identity", none),
            ("gzip", Some(Coding::Gzip)),
            ("GZIP;q=0.5, br", Some(Coding::Gzip)),
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("gzip;q=1, zstd;q=0.9", Some(Coding::Gzip)),
            ("gzip;q=0, zstd; q=0", none),
            ("gzip;q=abc", none),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, accepted.parse().unwrap());
            assert_eq!(Coding::of(&headers), coding, "{accepted}");
        }
    }

    async fn bytes_of(response: Response) -> Vec<u8> {
        let whole = axum::body::to_bytes(response.into_body(), usize::MAX).await;
        whole.unwrap().to_vec()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn both_codings_restore_the_answer() {
        let compressor = Compressor::new(HeavyWork::here());
        for bytes in [0, 1_023, 1_024, 100_000, 3_000_000] {
            let text: Vec<u8> = (b'a'..=b'z').cycle().take(bytes).collect();
            let answer = || {
                let chunks: Vec<_> = text.chunks(70_000).map(<[u8]>::to_vec).collect();
                let chunks = chunks.into_iter().map(Ok::<_, std::io::Error>);
                match bytes {
                    0..100_000 => text.clone().into_response(),
                    _ => Body::from_stream(futures::stream::iter(chunks)).into_response(),
                }
            };
            for coding in [Coding::Gzip, Coding::Zstd] {
                let packed = compressor.apply(answer(), Some(coding));
                let is_packed = packed.headers().contains_key(header::CONTENT_ENCODING);
                assert_eq!(is_packed, bytes >= 1_024, "{bytes}");
                let packed = bytes_of(packed).await;
                let mut restored = Vec::new();
                match coding {
                    _ if !is_packed => restored = packed,
                    Coding::Gzip => {
                        let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
                        decoder.read_to_end(&mut restored).unwrap();
                    }
                    Coding::Zstd => restored = zstd::decode_all(&packed[..]).unwrap(),
                }
                assert!(restored == text, "{bytes} {coding:?}");
            }
        }
    }

    /// What bytes restore that are not the end.
    fn restored(coding: Coding, packed: &[u8]) -> Vec<u8> {
        let mut restored = Vec::new();
        // They end before the answer does, which is an error after all that came.
        let _ = match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(packed).read_to_end(&mut restored),
            Coding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(packed).unwrap();
                decoder.read_to_end(&mut restored)
            }
        };
        restored
    }

    /// Rows stayed in the encoder until 128 KiB of them had come: a download of rare logs showed nothing for minutes.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_pauses_is_sent_as_far_as_it_came() {
        let compressor = Compressor::new(HeavyWork::here());
        for coding in [Coding::Gzip, Coding::Zstd] {
            let rows = ["a row\n", "and another\n"].map(Ok::<_, std::io::Error>);
            let rows = futures::stream::iter(rows).chain(futures::stream::pending());
            let answer = Body::from_stream(rows).into_response();
            let packed = compressor.apply(answer, Some(coding));
            let mut body = packed.into_body().into_data_stream();
            let (began, mut bytes) = (Instant::now(), Vec::new());
            let more = Duration::from_secs(60);
            while restored(coding, &bytes) != b"a row\nand another\n" {
                let chunk = tokio::time::timeout(more, body.next()).await;
                let chunk = chunk.expect("the rows stay in the encoder");
                bytes.extend_from_slice(&chunk.unwrap().unwrap());
            }
            let took = began.elapsed();
            assert!(took <= 2 * FLUSH_AFTER, "{coding:?}: {took:?}");
            // Nothing else is sent while nothing comes.
            let idle = tokio::time::timeout(more, body.next()).await;
            assert!(idle.is_err(), "{coding:?}");
        }
    }

    /// Encoders take memory: a crowd of clients gets its answers as they are.
    #[tokio::test]
    async fn streams_are_bounded() {
        let compressor = Compressor::new(HeavyWork::here());
        let answer = || vec![b'a'; 5_000].into_response();
        let packed: Vec<Response> = (0..STREAMS_MAX + 3)
            .map(|_| compressor.apply(answer(), Some(Coding::Gzip)))
            .collect();
        let codings = packed
            .iter()
            .map(|one| one.headers().contains_key(header::CONTENT_ENCODING));
        assert_eq!(codings.filter(|packed| *packed).count(), STREAMS_MAX);
        drop(packed);
        let again = compressor.apply(answer(), Some(Coding::Gzip));
        assert!(again.headers().contains_key(header::CONTENT_ENCODING));
    }
}

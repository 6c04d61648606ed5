//! Response bodies. A small one is one buffer; a large one is encoded in chunks, as fast as the client
//! reads.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use chronolith_archive::LogRecord;
use hyper::body::Frame;

use crate::encode::{LogWriter, base64, base64_len, size_of_log};
use crate::http::answer_memory::MemoryReservation;

/// What is sent at once.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Up to this a body is one buffer.
const WHOLE_BYTES_MAX: usize = 256 << 10;

/// Space for the text before the logs of an answer, which is written in small parts.
const TEXT_BYTES: usize = 64;

/// How a list of logs is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum LogFormat {
    #[default]
    List,
    /// A JSON object on each line.
    Lines,
    /// Values with commas between them, and names in the first row.
    Csv,
}

impl LogFormat {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "json" => Some(Self::List),
            "ndjson" => Some(Self::Lines),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// What is written before the logs.
    pub(crate) fn head(self) -> &'static [u8] {
        match self {
            Self::List => b"[",
            Self::Lines => b"",
            Self::Csv => LogWriter::CSV_NAMES,
        }
    }

    /// What is written after them.
    fn end(self) -> &'static [u8] {
        match self {
            Self::List => b"]",
            Self::Lines | Self::Csv => b"",
        }
    }

    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::List => "application/json",
            Self::Lines => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        })
    }
}

/// Logs, with JSON before and after them.
#[derive(Debug, Default)]
pub(crate) struct LogsAnswer {
    pub(crate) prefix: Vec<u8>,
    pub(crate) logs: Vec<LogRecord>,
    pub(crate) suffix: Vec<u8>,
    pub(crate) format: LogFormat,
    /// Whether a log has a verification level of its own where it is higher than that of the answer.
    pub(crate) own_levels: bool,
    /// Held as long as the logs are.
    pub(crate) held: MemoryReservation,
}

impl LogsAnswer {
    /// About how many bytes it takes as JSON.
    pub(crate) fn size(&self) -> usize {
        let logs: usize = self.logs.iter().map(size_of_log).sum();
        self.prefix.len() + logs + self.suffix.len()
    }
}

/// Text with bytes in it, which are sent as base64.
#[derive(Debug, Default)]
pub(crate) struct BytesAnswer {
    /// Text, and the bytes after it.
    parts: Vec<(Vec<u8>, Bytes)>,
    /// Text after all of them.
    pub(crate) text: Vec<u8>,
    /// Bytes of the parts as they are sent.
    size: usize,
    /// Held as long as the answer is.
    pub(crate) reservation: MemoryReservation,
}

impl BytesAnswer {
    /// Appends bytes, as base64 without quotes.
    pub(crate) fn base64(&mut self, bytes: Bytes) {
        let text = std::mem::take(&mut self.text);
        self.size += text.len() + base64_len(&bytes);
        self.parts.push((text, bytes));
    }

    /// Appends another one. The caller grows the reservation.
    pub(crate) fn append(&mut self, other: Self) {
        for (text, bytes) in other.parts {
            self.text.extend_from_slice(&text);
            self.base64(bytes);
        }
        self.text.extend_from_slice(&other.text);
    }

    /// How many bytes it takes as JSON.
    pub(crate) fn size(&self) -> usize {
        self.size + self.text.len()
    }
}

impl From<Vec<u8>> for BytesAnswer {
    fn from(text: Vec<u8>) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// A response body: text, and what becomes text when it is sent.
#[derive(Default)]
pub(crate) struct ResponseBody {
    parts: VecDeque<Part>,
    bytes: usize,
    held: Vec<MemoryReservation>,
}

enum Part {
    Text(Vec<u8>),
    /// Long text, which is sent without a copy.
    Long(Bytes),
    Logs(Box<Logs>),
    Base64(Bytes),
}

struct Logs {
    rest: std::vec::IntoIter<LogRecord>,
    writer: LogWriter,
    format: LogFormat,
    is_first: bool,
}

impl ResponseBody {
    /// Memory that is held until the body is sent.
    pub(crate) fn hold(&mut self, held: MemoryReservation) {
        self.held.push(held);
    }

    pub(crate) fn text(&mut self, text: &[u8]) {
        self.bytes += text.len();
        match self.parts.back_mut() {
            Some(Part::Text(last)) => last.extend_from_slice(text),
            _ => {
                let mut first = Vec::with_capacity(text.len().max(TEXT_BYTES));
                first.extend_from_slice(text);
                self.parts.push_back(Part::Text(first));
            }
        }
    }

    /// Text that is moved in. A long one is neither copied nor sent at once: it would take its memory twice,
    /// and it is counted once.
    pub(crate) fn own_text(&mut self, text: Vec<u8>) {
        if text.len() < CHUNK_BYTES {
            return self.text(&text);
        }
        self.bytes += text.len();
        self.parts.push_back(Part::Long(text.into()));
    }

    pub(crate) fn logs(&mut self, mut answer: LogsAnswer) {
        let (head, end) = (answer.format.head(), answer.format.end());
        let suffix = std::mem::take(&mut answer.suffix);
        self.text(&std::mem::take(&mut answer.prefix));
        self.text(head);
        self.rows(answer);
        self.text(end);
        self.text(&suffix);
    }

    /// Logs without what is before and after them.
    pub(crate) fn rows(&mut self, answer: LogsAnswer) {
        self.bytes += answer.size();
        let mut writer = LogWriter::default();
        writer.own_levels = answer.own_levels;
        self.parts.push_back(Part::Logs(Box::new(Logs {
            rest: answer.logs.into_iter(),
            writer,
            format: answer.format,
            is_first: true,
        })));
        self.held.push(answer.held);
    }

    pub(crate) fn bytes(&mut self, answer: BytesAnswer) {
        for (text, bytes) in answer.parts {
            self.own_text(text);
            self.bytes += base64_len(&bytes);
            self.parts.push_back(Part::Base64(bytes));
        }
        self.own_text(answer.text);
    }

    /// Whether all of it was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The next bytes to send: at least this many, or the rest; none at the end.
    pub(crate) fn next_chunk(&mut self, least: usize) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.bytes.min(least.saturating_add(least >> 3)));
        while out.len() < least {
            match self.parts.front_mut() {
                None => break,
                Some(Part::Text(text)) => {
                    out.append(text);
                    self.parts.pop_front();
                }
                Some(Part::Long(rest)) => {
                    let bytes = (least - out.len()).min(rest.len());
                    out.extend_from_slice(&rest.split_to(bytes));
                    if rest.is_empty() {
                        self.parts.pop_front();
                    }
                }
                Some(Part::Base64(rest)) => {
                    // Three bytes are four characters: only the end may be cut elsewhere.
                    let bytes = (least - out.len()).div_ceil(4).saturating_mul(3);
                    base64(&mut out, &rest.split_to(bytes.min(rest.len())));
                    if rest.is_empty() {
                        self.parts.pop_front();
                    }
                }
                Some(Part::Logs(logs)) => {
                    if !logs.write(&mut out, least) {
                        self.parts.pop_front();
                    }
                }
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

impl Logs {
    /// Appends logs until there are enough bytes; returns whether logs are left.
    fn write(&mut self, out: &mut Vec<u8>, least: usize) -> bool {
        while out.len() < least {
            let Some(record) = self.rest.next() else {
                return false;
            };
            let is_first = std::mem::take(&mut self.is_first);
            match self.format {
                LogFormat::List => {
                    if !is_first {
                        out.push(b',');
                    }
                    self.writer.write(out, &record);
                }
                LogFormat::Lines => {
                    self.writer.write(out, &record);
                    out.push(b'\n');
                }
                LogFormat::Csv => self.writer.write_csv(out, &record),
            }
        }
        true
    }
}

/// Memory of an answer: counted until the last of its bytes was written to the connection, and not only until
/// the connection took them, which keeps them for a client that does not read.
///
/// An answer with this extension is counted by it, and by nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldMemory {
    _held: Arc<Vec<MemoryReservation>>,
}

impl HeldMemory {
    pub(crate) fn new(held: MemoryReservation) -> Self {
        Self::all(vec![held])
    }

    fn all(held: Vec<MemoryReservation>) -> Self {
        let _held = Arc::new(held);
        Self { _held }
    }

    /// Bytes that keep the memory counted until they are dropped.
    pub(crate) fn hold(&self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(HeldBytes {
            bytes,
            _held: self.clone(),
        })
    }
}

struct HeldBytes<B> {
    bytes: B,
    _held: HeldMemory,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for HeldBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// A large answer on its way. It lets other connections of the thread in after each chunk: the next one is
/// always there, so a fast client would keep the thread to the end.
struct AnswerStream {
    answer: ResponseBody,
    held: HeldMemory,
    is_turn_of_others: bool,
}

impl HttpBody for AnswerStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::take(&mut self.is_turn_of_others) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_turn_of_others = true;
        let chunk = self.answer.next_chunk(CHUNK_BYTES);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(self.held.hold(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.parts.is_empty()
    }
}

impl IntoResponse for ResponseBody {
    fn into_response(mut self) -> Response {
        let is_counted = self.held.iter().any(|held| !held.is_empty());
        let held = HeldMemory::all(std::mem::take(&mut self.held));
        let body = if self.bytes <= WHOLE_BYTES_MAX {
            let whole = self.next_chunk(usize::MAX);
            whole.map_or_else(Body::empty, |whole| Body::from(held.hold(whole)))
        } else {
            Body::new(AnswerStream {
                answer: self,
                held: held.clone(),
                is_turn_of_others: false,
            })
        };
        let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        if is_counted {
            response.extensions_mut().insert(held);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_sent_in_chunks_and_whole() {
        let long = |bytes: usize| -> Vec<u8> { (b'a'..=b'w').cycle().take(bytes).collect() };
        for bytes in [0, 5, CHUNK_BYTES - 1, CHUNK_BYTES, 5 * CHUNK_BYTES + 3] {
            let mut parts = ResponseBody::default();
            parts.text(b"<");
            parts.own_text(long(bytes));
            parts.text(b">");
            assert_eq!(parts.bytes, bytes + 2);
            let chunks: Vec<Vec<u8>> =
                std::iter::from_fn(|| parts.next_chunk(CHUNK_BYTES)).collect();
            let longest = chunks.iter().map(Vec::len).max();
            assert!(longest <= Some(CHUNK_BYTES + 1), "{bytes}: {longest:?}");
            assert!(chunks.concat() == [b"<", &long(bytes)[..], b">"].concat());
        }
    }
}

//! One on-chain record: an EVM log or a Stellar contract event.
//!
//! A log's variable parts (emitter, topics, data, suffix) lie one after the other in a single
//! reference-counted buffer. Many logs can share the buffer of the block or frame they came from,
//! so that handing out a log costs one reference and no copy.

use std::fmt;

use bytes::Bytes;

/// A log has at most this many topics.
pub const TOPICS_MAX: usize = 4;
/// An emitter has at most this many bytes.
pub const EMITTER_BYTES_MAX: usize = 32;

/// The parts of a log, borrowed: what one is made from.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogParts<'a> {
    /// Position of the transaction in its block.
    pub tx_index: u32,
    /// Position of the log in its block, counted before any filtering.
    pub log_index: u32,
    /// What sort of record this is; 0 for EVM logs, the event type on Stellar.
    pub kind: u8,
    /// Who emitted it: 0 to 32 bytes.
    pub emitter: &'a [u8],
    /// 0 to 4 topics of any length.
    pub topics: &'a [&'a [u8]],
    pub data: &'a [u8],
    /// Bytes that belong to the record and that no filter looks at.
    pub suffix: &'a [u8],
}

/// Why parts do not make a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// More than [`TOPICS_MAX`] topics.
    #[error("too many topics in a log (topics={0}, max=4)")]
    TooManyTopics(usize),
    /// An emitter longer than [`EMITTER_BYTES_MAX`].
    #[error("emitter too long (bytes={0}, max=32)")]
    EmitterTooLong(usize),
    /// All parts together exceed 4 GiB, or a boundary lies outside the buffer.
    #[error("log too large (bytes={0})")]
    TooLarge(usize),
}

/// Why each part of a log is in its buffer.
const ENDS: &str = "the ends of a log's parts were checked when it was made";

/// One on-chain record. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    bytes: Bytes,
    /// Ends of emitter, each topic, and data; the suffix runs to the end of `bytes`.
    emitter_end: u8,
    topic_count: u8,
    kind: u8,
    topic_ends: [u32; TOPICS_MAX],
    data_end: u32,
    tx_index: u32,
    log_index: u32,
}

impl Log {
    /// Copies the parts into a log with a buffer of its own.
    ///
    /// # Errors
    /// When there are too many topics, or the emitter or the whole is too long.
    pub fn new(parts: &LogParts<'_>) -> Result<Self, LogError> {
        let topic_bytes: usize = parts.topics.iter().map(|topic| topic.len()).sum();
        let len = parts.emitter.len() + topic_bytes + parts.data.len() + parts.suffix.len();
        let mut buffer = Vec::with_capacity(len);
        buffer.extend_from_slice(parts.emitter);
        parts
            .topics
            .iter()
            .for_each(|topic| buffer.extend_from_slice(topic));
        buffer.extend_from_slice(parts.data);
        buffer.extend_from_slice(parts.suffix);
        let lens = parts.topics.iter().map(|topic| topic.len());
        Self::from_buffer(buffer.into(), parts, lens, parts.data.len())
    }

    /// Makes a log over `bytes`, which holds emitter, topics, data and suffix in this order. The
    /// numbers and the kind are taken from `parts`, its slices are not looked at except for the
    /// emitter's length: any slice of that length will do.
    ///
    /// # Errors
    /// When the lengths do not fit the buffer or a limit.
    pub fn from_buffer(
        bytes: Bytes,
        parts: &LogParts<'_>,
        topic_lens: impl ExactSizeIterator<Item = usize>,
        data_len: usize,
    ) -> Result<Self, LogError> {
        let topic_count = topic_lens.len();
        if topic_count > TOPICS_MAX {
            return Err(LogError::TooManyTopics(topic_count));
        }
        if parts.emitter.len() > EMITTER_BYTES_MAX {
            return Err(LogError::EmitterTooLong(parts.emitter.len()));
        }
        let too_large = LogError::TooLarge(bytes.len());
        let mut end = parts.emitter.len();
        let mut topic_ends = [0; TOPICS_MAX];
        for (slot, len) in topic_ends.iter_mut().zip(topic_lens) {
            end = end.checked_add(len).ok_or(too_large)?;
            *slot = u32::try_from(end).map_err(|_| too_large)?;
        }
        let data_end = end.checked_add(data_len).filter(|&end| end <= bytes.len());
        let data_end = data_end
            .and_then(|end| u32::try_from(end).ok())
            .ok_or(too_large)?;
        u32::try_from(bytes.len()).map_err(|_| too_large)?;
        Ok(Self {
            bytes,
            emitter_end: parts.emitter.len() as u8,
            topic_count: topic_count as u8,
            kind: parts.kind,
            topic_ends,
            data_end,
            tx_index: parts.tx_index,
            log_index: parts.log_index,
        })
    }

    /// Position of the transaction in its block.
    #[must_use]
    pub fn tx_index(&self) -> u32 {
        self.tx_index
    }

    /// Position of the log in its block.
    #[must_use]
    pub fn log_index(&self) -> u32 {
        self.log_index
    }

    /// What sort of record this is.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Who emitted it.
    #[must_use]
    pub fn emitter(&self) -> &[u8] {
        self.slice(0, u32::from(self.emitter_end))
    }

    /// How many topics it has.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        usize::from(self.topic_count)
    }

    /// The topic at a position.
    #[must_use]
    pub fn topic(&self, position: usize) -> Option<&[u8]> {
        if position >= self.topic_count() {
            return None;
        }
        let start = match position.checked_sub(1) {
            None => u32::from(self.emitter_end),
            Some(before) => self.topic_ends.get(before).copied()?,
        };
        Some(self.slice(start, self.topic_ends.get(position).copied()?))
    }

    /// The topics in order.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.topic_count()).map(|position| self.topic(position).expect(ENDS))
    }

    /// The data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.slice(self.data_start(), self.data_end)
    }

    /// Bytes that no filter looks at.
    #[must_use]
    pub fn suffix(&self) -> &[u8] {
        self.bytes.get(self.data_end as usize..).expect(ENDS)
    }

    /// How many bytes emitter, topics, data and suffix take together.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    fn data_start(&self) -> u32 {
        let last = self
            .topic_count()
            .checked_sub(1)
            .and_then(|last| self.topic_ends.get(last));
        last.copied().unwrap_or(u32::from(self.emitter_end))
    }

    fn slice(&self, start: u32, end: u32) -> &[u8] {
        self.bytes.get(start as usize..end as usize).expect(ENDS)
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |log: &Self| (log.tx_index, log.log_index, log.kind, log.data_end);
        numbers(self) == numbers(other)
            && self.emitter_end == other.emitter_end
            && self.topic_count == other.topic_count
            && self.topic_ends == other.topic_ends
            && self.bytes == other.bytes
    }
}

impl Eq for Log {}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        f.debug_struct("Log")
            .field("tx_index", &self.tx_index)
            .field("log_index", &self.log_index)
            .field("kind", &self.kind)
            .field("emitter", &hex(self.emitter()))
            .field("topics", &self.topics().map(hex).collect::<Vec<_>>())
            .field("data", &hex(self.data()))
            .field("suffix", &hex(self.suffix()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_they_went_in() {
        let topics: [&[u8]; 3] = [b"one", b"", b"three"];
        let parts = LogParts {
            tx_index: 7,
            log_index: 9,
            kind: 2,
            emitter: b"emitter",
            topics: &topics,
            data: b"data",
            suffix: b"suffix",
        };
        let log = Log::new(&parts).unwrap();
        assert_eq!((log.tx_index(), log.log_index(), log.kind()), (7, 9, 2));
        assert_eq!(log.emitter(), b"emitter");
        assert_eq!(log.topics().collect::<Vec<_>>(), topics);
        assert_eq!(log.topic(3), None);
        assert_eq!((log.data(), log.suffix()), (&b"data"[..], &b"suffix"[..]));
        assert_eq!(log, Log::new(&parts).unwrap());
        let shifted: [&[u8]; 3] = [b"onet", b"", b"hree"];
        assert_ne!(
            log,
            Log::new(&LogParts {
                topics: &shifted,
                ..parts
            })
            .unwrap()
        );
    }

    #[test]
    fn an_empty_log_is_a_log() {
        let log = Log::new(&LogParts::default()).unwrap();
        assert_eq!(
            (log.emitter(), log.topic_count(), log.data()),
            (&b""[..], 0, &b""[..])
        );
    }

    #[test]
    fn limits_are_errors() {
        let five: [&[u8]; 5] = [b""; 5];
        let parts = LogParts {
            topics: &five,
            ..LogParts::default()
        };
        assert_eq!(Log::new(&parts), Err(LogError::TooManyTopics(5)));
        let parts = LogParts {
            emitter: &[0; 33],
            ..LogParts::default()
        };
        assert_eq!(Log::new(&parts), Err(LogError::EmitterTooLong(33)));
        let short = Log::from_buffer(Bytes::new(), &LogParts::default(), [1].into_iter(), 0);
        assert_eq!(short, Err(LogError::TooLarge(0)));
    }
}

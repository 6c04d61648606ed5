//! Collects the logs of one block in one buffer, so that the block costs one allocation and each
//! log one reference.

use bytes::Bytes;
use chronolith_model::{EMITTER_BYTES_MAX, Log, LogParts, TOPICS_MAX};

/// Stands in for emitters: a log that is made over a buffer looks only at its length.
const PLACEHOLDER: [u8; EMITTER_BYTES_MAX] = [0; EMITTER_BYTES_MAX];

/// A log's place in the buffer, and its numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    start: usize,
    tx_index: u32,
    kind: u8,
    emitter_len: u8,
    topic_count: u8,
    topic_lens: [u8; TOPICS_MAX],
    data_len: usize,
}

/// The logs of one block, being written: for each, [`LogWriter::begin`], then its topics, then
/// its data, then its suffix.
#[derive(Debug, Default)]
pub(super) struct LogWriter {
    buffer: Vec<u8>,
    rows: Vec<Row>,
}

impl LogWriter {
    /// Makes room for this many logs of this many bytes each.
    pub(super) fn reserve(&mut self, logs: usize, log_bytes: usize) {
        self.rows.reserve(logs);
        self.buffer.reserve(logs * log_bytes);
    }

    /// Begins a log. Emitters are at most 32 bytes long.
    #[inline]
    pub(super) fn begin(&mut self, tx_index: u32, kind: u8, emitter: &[u8]) {
        self.rows.push(Row {
            start: self.buffer.len(),
            tx_index,
            kind,
            emitter_len: emitter.len() as u8,
            ..Row::default()
        });
        self.buffer.extend_from_slice(emitter);
    }

    /// Adds a topic of at most 255 bytes to the log begun last; at most four.
    #[inline]
    pub(super) fn topic(&mut self, topic: &[u8]) {
        if let Some(row) = self.rows.last_mut()
            && let Some(len) = row.topic_lens.get_mut(usize::from(row.topic_count))
        {
            *len = topic.len() as u8;
            row.topic_count += 1;
            self.buffer.extend_from_slice(topic);
        }
    }

    /// Adds data to the log begun last.
    #[inline]
    pub(super) fn data(&mut self, data: &[u8]) {
        if let Some(row) = self.rows.last_mut() {
            row.data_len += data.len();
            self.buffer.extend_from_slice(data);
        }
    }

    /// Adds a suffix to the log begun last; nothing may follow it.
    pub(super) fn suffix(&mut self, suffix: &[u8]) {
        self.buffer.extend_from_slice(suffix);
    }

    /// The logs, numbered in the order in which they were begun.
    pub(super) fn finish(self) -> Vec<Log> {
        let bytes = Bytes::from(self.buffer);
        let next_starts = self.rows.iter().skip(1).map(|row| row.start);
        let ends = next_starts.chain([bytes.len()]);
        let rows = self.rows.iter().zip(ends).zip(0..);
        rows.map(|((row, end), log_index)| {
            let parts = LogParts {
                tx_index: row.tx_index,
                log_index,
                kind: row.kind,
                emitter: PLACEHOLDER
                    .get(..usize::from(row.emitter_len))
                    .unwrap_or_default(),
                ..LogParts::default()
            };
            let topics = row.topic_lens.iter().take(usize::from(row.topic_count));
            let topic_lens = topics.map(|&len| usize::from(len));
            Log::from_buffer(
                bytes.slice(row.start..end),
                &parts,
                topic_lens,
                row.data_len,
            )
            .expect("generated logs keep the limits")
        })
        .collect()
    }
}

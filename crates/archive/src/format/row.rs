//! One log as bytes inside a frame: everything but its numbers, which the frame keeps in columns.
//!
//! Words of 32 bytes lose their leading zeros. Most topics and data words are padded addresses and
//! small amounts, so this makes frames smaller after compression and halves the time to unpack.
//!
//! ```text
//! kind u8 | emitter len u8, bytes | topic count u8 | topics | data | suffix len varint, bytes
//! topic:  0..=32: a 32-byte word without its leading zeros; 255: length varint, bytes
//! data:   length varint | one word for each full 32 bytes | the bytes left over
//! ```

use bytes::{Bytes, BytesMut};
use chronolith_model::{EMITTER_BYTES_MAX, Log, LogParts, TOPICS_MAX};

use super::frame::FRAME_BYTES_MAX;
use super::wire::{Put, Reader};
use super::{Damage, Decoded};

const WORD: usize = 32;
const ODD_LENGTH: u8 = 255;

/// Appends a log's body.
pub(crate) fn encode(log: &Log, out: &mut Vec<u8>) {
    out.put_u8(log.kind());
    out.put_u8(log.emitter().len() as u8);
    out.put(log.emitter());
    out.put_u8(log.topic_count() as u8);
    for topic in log.topics() {
        match topic.first_chunk::<WORD>().filter(|_| topic.len() == WORD) {
            Some(word) => put_word(word, out),
            None => {
                out.put_u8(ODD_LENGTH);
                out.put_bytes(topic);
            }
        }
    }
    let data = log.data();
    out.put_varint(data.len() as u64);
    let (words, rest) = data.as_chunks::<WORD>();
    words.iter().for_each(|word| put_word(word, out));
    out.put(rest);
    out.put_bytes(log.suffix());
}

fn put_word(word: &[u8; WORD], out: &mut Vec<u8>) {
    let zeros = leading_zeros(word);
    out.put_u8((WORD - zeros) as u8);
    out.put(word.get(zeros..).unwrap_or_default());
}

/// Eight bytes at a time: most words begin with at least twelve zeros.
fn leading_zeros(word: &[u8; WORD]) -> usize {
    let (parts, _) = word.as_chunks::<8>();
    for (index, part) in parts.iter().enumerate() {
        let part = u64::from_be_bytes(*part);
        if part != 0 {
            return index * 8 + part.leading_zeros() as usize / 8;
        }
    }
    WORD
}

/// The numbers of a log, which its frame keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowNumbers {
    /// The transaction's ordinal among those of the frame's run.
    pub(crate) tx_ordinal: u32,
    pub(crate) log_index: u32,
}

/// One unpacked body: where its parts lie in the buffer it was unpacked to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLayout {
    start: u32,
    end: u32,
    kind: u8,
    emitter_len: u8,
    topic_count: u8,
    topic_lens: [u32; TOPICS_MAX],
    data_len: u32,
}

/// Unpacks one body to the end of `out`.
pub(crate) fn decode(reader: &mut Reader<'_>, out: &mut BytesMut) -> Decoded<RowLayout> {
    let start = position(out)?;
    let kind = reader.u8()?;
    let emitter_len = reader.u8()?;
    if usize::from(emitter_len) > EMITTER_BYTES_MAX {
        return Err(Damage("emitter too long"));
    }
    out.extend_from_slice(reader.take(usize::from(emitter_len))?);
    let topic_count = reader.u8()?;
    if usize::from(topic_count) > TOPICS_MAX {
        return Err(Damage("too many topics"));
    }
    let mut topic_lens = [0; TOPICS_MAX];
    for len in topic_lens.iter_mut().take(usize::from(topic_count)) {
        *len = decode_topic(reader, out)?;
    }
    let data_len = reader.varint_u32()?;
    // A zero word takes one byte here and 32 there.
    if out.len() + data_len as usize > FRAME_BYTES_MAX {
        return Err(Damage("frame too large"));
    }
    // Each full word takes at least one byte here, so a wrong length cannot grow the buffer much.
    for _ in 0..data_len as usize / WORD {
        decode_word(reader, out)?;
    }
    out.extend_from_slice(reader.take(data_len as usize % WORD)?);
    out.extend_from_slice(reader.bytes()?);
    let end = position(out)?;
    Ok(RowLayout {
        start,
        end,
        kind,
        emitter_len,
        topic_count,
        topic_lens,
        data_len,
    })
}

fn position(out: &BytesMut) -> Decoded<u32> {
    u32::try_from(out.len()).map_err(|_| Damage("frame too large"))
}

fn decode_topic(reader: &mut Reader<'_>, out: &mut BytesMut) -> Decoded<u32> {
    if reader.rest().first() != Some(&ODD_LENGTH) {
        decode_word(reader, out)?;
        return Ok(WORD as u32);
    }
    reader.u8()?;
    let topic = reader.bytes()?;
    out.extend_from_slice(topic);
    u32::try_from(topic.len()).map_err(|_| Damage("topic too long"))
}

#[inline]
fn decode_word(reader: &mut Reader<'_>, out: &mut BytesMut) -> Decoded<()> {
    const ZEROS: [u8; WORD] = [0; WORD];
    let significant = usize::from(reader.u8()?);
    let zeros = WORD
        .checked_sub(significant)
        .ok_or(Damage("word too long"))?;
    out.extend_from_slice(ZEROS.get(..zeros).unwrap_or_default());
    out.extend_from_slice(reader.take(significant)?);
    Ok(())
}

impl RowLayout {
    /// The log over the buffer that the body was unpacked to.
    pub(crate) fn log(&self, buffer: &Bytes, tx_index: u32, log_index: u32) -> Decoded<Log> {
        let damage = Damage("row outside its frame");
        let (start, end) = (self.start as usize, self.end as usize);
        let emitter_end = start + usize::from(self.emitter_len);
        let emitter = buffer.get(start..emitter_end).ok_or(damage)?;
        if end > buffer.len() {
            return Err(damage);
        }
        let parts = LogParts {
            tx_index,
            log_index,
            kind: self.kind,
            emitter,
            ..Default::default()
        };
        let lens = self.topic_lens.iter().take(usize::from(self.topic_count));
        let lens = lens.map(|&len| len as usize);
        Log::from_buffer(
            buffer.slice(start..end),
            &parts,
            lens,
            self.data_len as usize,
        )
        .map_err(|_| damage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn topic() -> impl Strategy<Value = Vec<u8>> {
        let padded = (0..=WORD, any::<u8>()).prop_map(|(zeros, byte)| {
            let mut word = vec![0; zeros];
            word.resize(WORD, byte);
            word
        });
        prop_oneof![padded, proptest::collection::vec(any::<u8>(), 0..70)]
    }

    proptest! {
        #[test]
        fn rows_round_trip(
            kind: u8,
            emitter in proptest::collection::vec(any::<u8>(), 0..=EMITTER_BYTES_MAX),
            topics in proptest::collection::vec(topic(), 0..=TOPICS_MAX),
            data in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
            suffix in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
            let parts = LogParts {
                tx_index: 3, log_index: 5, kind, emitter: &emitter, topics: &topics,
                data: &data, suffix: &suffix,
            };
            let log = Log::new(&parts).unwrap();
            let mut packed = Vec::new();
            encode(&log, &mut packed);
            let mut reader = Reader::new(&packed);
            let mut out = BytesMut::from(&b"before"[..]);
            let layout = decode(&mut reader, &mut out)?;
            prop_assert!(reader.is_empty());
            prop_assert_eq!(layout.log(&out.freeze(), 3, 5)?, log);
        }

        #[test]
        fn hostile_bodies_are_damage(bytes: Vec<u8>) {
            let mut out = BytesMut::new();
            if decode(&mut Reader::new(&bytes), &mut out).is_ok() {
                prop_assert!(out.len() <= bytes.len() * WORD);
            }
        }
    }
}

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

use bytes::Bytes;
use chronolith_model::{EMITTER_BYTES_MAX, Log, LogParts, TOPICS_MAX};

use super::frame::FRAME_BYTES_MAX;
use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

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
    let significant = word.get(zeros..);
    out.put(significant.expect("a word has no more zeros than bytes"));
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

/// Passes over one body and returns how many bytes its parts take unpacked.
pub(crate) fn skip(reader: &mut Reader<'_>) -> Decoded<usize> {
    let _kind = reader.u8()?;
    let emitter_len = usize::from(reader.u8()?);
    ensure(emitter_len <= EMITTER_BYTES_MAX, "emitter too long")?;
    reader.take(emitter_len)?;
    let topic_count = usize::from(reader.u8()?);
    ensure(topic_count <= TOPICS_MAX, "too many topics")?;
    let mut len = emitter_len;
    for _ in 0..topic_count {
        match reader.u8()? {
            ODD_LENGTH => len += reader.bytes()?.len(),
            significant => {
                skip_word(reader, significant)?;
                len += WORD;
            }
        }
    }
    let data_len = reader.varint_u32()? as usize;
    for _ in 0..data_len / WORD {
        let significant = reader.u8()?;
        skip_word(reader, significant)?;
    }
    reader.take(data_len % WORD)?;
    len += data_len + reader.bytes()?.len();
    ensure(len <= FRAME_BYTES_MAX, "row too large")?;
    Ok(len)
}

#[inline]
fn skip_word(reader: &mut Reader<'_>, significant: u8) -> Decoded<()> {
    ensure(usize::from(significant) <= WORD, "word too long")?;
    reader.take(usize::from(significant)).map(|_| ())
}

/// Unpacks one body whose parts take `len` bytes.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    len: usize,
    (tx_index, log_index): (u32, u32),
) -> Decoded<Log> {
    let mut out = Vec::with_capacity(len);
    let kind = reader.u8()?;
    let emitter_len = usize::from(reader.u8()?);
    out.put(reader.take(emitter_len)?);
    let topic_count = usize::from(reader.u8()?);
    let mut topic_lens = [0; TOPICS_MAX];
    for topic_len in topic_lens.iter_mut().take(topic_count) {
        let start = out.len();
        match reader.u8()? {
            ODD_LENGTH => out.put(reader.bytes()?),
            significant => decode_word(reader, significant, &mut out)?,
        }
        *topic_len = out.len() - start;
    }
    let data_len = reader.varint_u32()? as usize;
    for _ in 0..data_len / WORD {
        let significant = reader.u8()?;
        decode_word(reader, significant, &mut out)?;
    }
    out.put(reader.take(data_len % WORD)?);
    out.put(reader.bytes()?);
    let fits = out.len() == len && topic_count <= TOPICS_MAX && emitter_len <= EMITTER_BYTES_MAX;
    ensure(fits, "row does not unpack as it was measured")?;
    // The buffer holds the parts; only the emitter's length is looked at.
    const LENGTH_ONLY: [u8; EMITTER_BYTES_MAX] = [0; EMITTER_BYTES_MAX];
    let emitter = LENGTH_ONLY.get(..emitter_len);
    let emitter = emitter.expect("an emitter's length was checked just now");
    let parts = LogParts {
        tx_index,
        log_index,
        kind,
        emitter,
        ..Default::default()
    };
    let lens = topic_lens.iter().take(topic_count).copied();
    Log::from_buffer(Bytes::from(out), &parts, lens, data_len).map_err(|_| Damage("row cut off"))
}

#[inline]
fn decode_word(reader: &mut Reader<'_>, significant: u8, out: &mut Vec<u8>) -> Decoded<()> {
    const ZEROS: [u8; WORD] = [0; WORD];
    let significant = usize::from(significant);
    let zeros = WORD
        .checked_sub(significant)
        .ok_or(Damage("word too long"))?;
    let zeros = ZEROS.get(..zeros);
    out.put(zeros.expect("a word has no more zeros than bytes"));
    out.put(reader.take(significant)?);
    Ok(())
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
            let len = skip(&mut reader)?;
            prop_assert!(reader.is_empty());
            prop_assert_eq!(len, log.byte_len());
            prop_assert_eq!(decode(&mut Reader::new(&packed), len, (3, 5))?, log);
        }

        #[test]
        fn hostile_bodies_are_damage(bytes: Vec<u8>) {
            if let Ok(len) = skip(&mut Reader::new(&bytes)) {
                prop_assert!(len <= bytes.len() * WORD);
                prop_assert!(decode(&mut Reader::new(&bytes), len, (0, 0)).is_ok());
            }
        }
    }
}

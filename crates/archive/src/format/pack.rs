//! Packs as bytes: which part of which block lies in which frame, and with which dictionary a frame
//! is unpacked.
//!
//! ```text
//! index: per block: header length + 1 (0: none), raw length + 1, bodies + 1, length of each + 1
//! frames table: per frame: packed bytes, unpacked bytes, checksum u32
//! dictionaries: how many | per dictionary: bytes, packed | per stretch: frames, dictionary (0: none)
//! ```

use std::ops::Range;

use bytes::Bytes;
use chronolith_model::{BlockRange, Payload};

use super::compress::Unpacker;
use super::container::{Container, ContainerBuilder, ObjectKind, Section};
use super::wire::{Put, Reader};
use super::{Damage, Decoded, checksum, ensure};

/// Unpacked bytes of a dictionary.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;
/// What is ready to unpack with takes about this much more than the dictionary.
const UNPACKER_BYTES: usize = 32 << 10;
/// From one known place of the index to the next there are about this many bytes to read.
const ANCHOR_BYTES: usize = 256;

/// Where a frame lies, packed and unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackFrame {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stream_end: u64,
    unpacked: u32,
    checksum: u32,
}

impl PackFrame {
    pub(crate) fn unpacked(&self) -> u32 {
        self.unpacked
    }

    pub(crate) fn verify(&self, packed: &[u8], number: usize) -> Decoded<()> {
        ensure(
            checksum(packed, number as u64) == self.checksum,
            "frame checksum mismatch",
        )
    }
}

fn encode_frame(packed: &[u8], unpacked: u64, number: u64, table: &mut Vec<u8>) {
    table.put_varint(packed.len() as u64);
    table.put_varint(unpacked);
    table.put_u32(checksum(packed, number));
}

fn decode_frames(bytes: &[u8], section_len: u64) -> Decoded<Vec<PackFrame>> {
    let mut reader = Reader::new(bytes);
    let mut frames = Vec::with_capacity(bytes.len() / 6);
    let (mut start, mut stream_end) = (0_u64, 0_u64);
    while !reader.is_empty() {
        let end = start + u64::from(reader.varint_u32()?);
        let unpacked = reader.varint_u32()?;
        stream_end += u64::from(unpacked);
        frames.push(PackFrame {
            start,
            end,
            stream_end,
            unpacked,
            checksum: reader.u32()?,
        });
        start = end;
    }
    ensure(start == section_len, "frames do not fill their section")?;
    Ok(frames)
}

/// Appends the index entry of a block.
pub(crate) fn encode_parts(payload: &Payload, index: &mut Vec<u8>) {
    let len = |part: Option<&Bytes>| part.map_or(0, |bytes| bytes.len() as u64 + 1);
    index.put_varint(len(payload.header.as_ref()));
    index.put_varint(len(payload.raw.as_ref()));
    let bodies = payload.bodies.as_deref();
    index.put_varint(bodies.map_or(0, |bodies| bodies.len() as u64 + 1));
    for body in bodies.into_iter().flatten() {
        index.put_varint(len(Some(body)));
    }
}

/// The tables of a pack that is being written.
#[derive(Debug, Default)]
pub(crate) struct PackWriter {
    table: Vec<u8>,
    pub(crate) index: Vec<u8>,
    frames: u64,
    pub(crate) dictionaries: Dictionaries,
}

impl PackWriter {
    /// Adds the next frame. The caller writes its bytes.
    pub(crate) fn add_frame(&mut self, packed: &[u8], unpacked: u64) {
        encode_frame(packed, unpacked, self.frames, &mut self.table);
        self.frames += 1;
    }

    /// Adds the tables to the pack.
    pub(crate) fn finish(self, container: &mut ContainerBuilder, summary: Vec<u8>) {
        container.table(Section::FrameTable, self.table);
        container.table(Section::PackIndex, self.index);
        if let Some(dictionaries) = self.dictionaries.encode() {
            container.table(Section::PackDictionaries, dictionaries);
        }
        container.table(Section::Summary, summary);
    }
}

/// The dictionaries of a pack, packed as they are stored, and which frames need which.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Dictionaries {
    pub(crate) packed: Vec<Bytes>,
    /// Frames that follow each other, and their dictionary, counted from one; 0 is none.
    pub(crate) stretches: Vec<(u32, u32)>,
}

impl Dictionaries {
    /// Says that the next frames need a dictionary; an empty one is none.
    pub(crate) fn add(&mut self, packed: &Bytes, frames: u32) {
        let known = self.packed.iter().position(|known| known == packed);
        let number = match known {
            _ if packed.is_empty() => 0,
            Some(at) => at as u32 + 1,
            None => {
                self.packed.push(packed.clone());
                self.packed.len() as u32
            }
        };
        match self.stretches.last_mut() {
            Some((before, same)) if *same == number => *before += frames,
            _ if frames == 0 => {}
            _ => self.stretches.push((frames, number)),
        }
    }

    /// The section's bytes; none where no frame needs a dictionary.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if self.packed.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        out.put_list(&self.packed, |packed, out| out.put_bytes(packed));
        for &(frames, dictionary) in &self.stretches {
            out.put_varint(u64::from(frames));
            out.put_varint(u64::from(dictionary));
        }
        Some(out)
    }

    /// Reads the section of a pack with this many frames. Without one, no frame needs a dictionary.
    fn decode(section: Option<&[u8]>, frames: usize) -> Decoded<Self> {
        let Some(bytes) = section else {
            let mut plain = Self::default();
            let frames = u32::try_from(frames).map_err(|_| Damage("too many frames"))?;
            plain.add(&Bytes::new(), frames);
            return Ok(plain);
        };
        let mut reader = Reader::new(bytes);
        let packed = reader.list(1, |reader| reader.bytes().map(Bytes::copy_from_slice))?;
        let mut stretches = Vec::new();
        let mut total = 0_u64;
        while !reader.is_empty() {
            let (frames, dictionary) = (reader.varint_u32()?, reader.varint_u32()?);
            ensure(dictionary as usize <= packed.len(), "no such dictionary")?;
            total += u64::from(frames);
            stretches.push((frames, dictionary));
        }
        ensure(total == frames as u64, "dictionaries do not fit the frames")?;
        Ok(Self { packed, stretches })
    }

    /// The packed dictionary of each stretch, with the number of its frames.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (u32, Bytes)> {
        self.stretches.iter().map(|&(frames, dictionary)| {
            let packed = match (dictionary as usize).checked_sub(1) {
                None => Bytes::new(),
                Some(at) => {
                    let packed = self.packed.get(at).cloned();
                    packed.expect("dictionaries are numbered as they are added or checked")
                }
            };
            (frames, packed)
        })
    }
}

/// The tables of a pack, as far as copying it needs them.
#[derive(Debug)]
pub(crate) struct PackTables {
    /// Where the frames lie in the object.
    pub(crate) place: (u64, u64),
    pub(crate) frames: Vec<PackFrame>,
    pub(crate) index: Bytes,
    pub(crate) dictionaries: Dictionaries,
}

impl PackTables {
    pub(crate) fn decode(tail: Bytes, tail_offset: u64) -> Decoded<Self> {
        let container = Container::parse(tail, tail_offset, ObjectKind::Pack)?;
        let place = container.data(Section::Frames)?;
        let frames = decode_frames(&container.table(Section::FrameTable)?, place.1)?;
        let dictionaries = container.optional_table(Section::PackDictionaries)?;
        Ok(Self {
            place,
            dictionaries: Dictionaries::decode(dictionaries.as_deref(), frames.len())?,
            frames,
            index: container.table(Section::PackIndex)?,
        })
    }

    /// Where frames without a dictionary are, and how many bytes they hold unpacked.
    pub(crate) fn plain_bytes(&self) -> u64 {
        let mut frames = self.frames.iter();
        let mut plain = 0;
        for &(count, dictionary) in &self.dictionaries.stretches {
            let bytes: u64 = frames
                .by_ref()
                .take(count as usize)
                .map(|frame| u64::from(frame.unpacked))
                .sum();
            plain += if dictionary == 0 { bytes } else { 0 };
        }
        plain
    }

    /// Ready to unpack each frame: by dictionary, the first for those without.
    pub(crate) fn unpackers(&self) -> Decoded<Vec<Unpacker>> {
        let plain = Unpacker::new(&[]);
        let mut unpackers = Vec::with_capacity(self.dictionaries.packed.len() + 1);
        for packed in &self.dictionaries.packed {
            let dictionary = plain.unpack_within(packed, DICTIONARY_BYTES_MAX)?;
            unpackers.push(Unpacker::new(&dictionary));
        }
        unpackers.insert(0, plain);
        Ok(unpackers)
    }
}

/// A place of the index from which reading may begin.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    block: u64,
    at: usize,
    stream: u64,
}

/// Lengths of a block's parts, and where in the stream they begin.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    start: u64,
    header: Option<u64>,
    raw: Option<u64>,
    /// How many bodies, where they are kept, and their lengths as they are stored.
    bodies: Option<u64>,
    lengths: Reader<'a>,
}

/// Parts of one sort that lie side by side in the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pieces {
    pub(crate) start: u64,
    pub(crate) lengths: Vec<u64>,
}

impl Pieces {
    /// Their place in the stream.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.lengths.iter().sum::<u64>()
    }

    /// Takes them out of the bytes of their place.
    pub(crate) fn take_out(&self, stream: &Bytes) -> Decoded<Vec<Bytes>> {
        let mut at = 0_usize;
        let piece = |&len: &u64| {
            let end = at.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
            let bytes = (end <= stream.len()).then(|| stream.slice(at..end));
            at = end;
            bytes.ok_or(Damage("part cut off"))
        };
        self.lengths.iter().map(piece).collect()
    }
}

/// Everything that is kept of a block.
#[derive(Debug)]
pub(crate) struct AllPieces {
    header: bool,
    raw: bool,
    bodies: bool,
    pub(crate) pieces: Pieces,
}

impl AllPieces {
    /// The payload, from the bytes of its place.
    pub(crate) fn payload(&self, stream: &Bytes) -> Decoded<Payload> {
        let mut parts = self.pieces.take_out(stream)?.into_iter();
        let mut one = |kept: bool| {
            let part = kept.then(|| parts.next().ok_or(Damage("a part is missing")));
            part.transpose()
        };
        let (header, raw) = (one(self.header)?, one(self.raw)?);
        Ok(Payload {
            header,
            raw,
            bodies: self.bodies.then(|| parts.collect()),
        })
    }
}

/// An open pack. Its index stays as it is stored, with places from which to read on: one of many
/// bodies takes two bytes for each of them instead of eight.
#[derive(Debug)]
pub(crate) struct OpenPack {
    pub(crate) frames_offset: u64,
    pub(crate) frames: Vec<PackFrame>,
    /// The first frame after each stretch, and its dictionary.
    stretches: Vec<(u64, u32)>,
    unpackers: Vec<Unpacker>,
    unpackers_bytes: usize,
    index: Bytes,
    anchors: Vec<Anchor>,
    range: BlockRange,
}

impl OpenPack {
    pub(crate) fn decode(tail: Bytes, tail_offset: u64, range: BlockRange) -> Decoded<Self> {
        let tables = PackTables::decode(tail, tail_offset)?;
        let unpackers = tables.unpackers()?;
        let (anchors, stream_len) = anchors(&tables.index, range)?;
        let in_frames = tables.frames.last().map_or(0, |frame| frame.stream_end);
        ensure(
            stream_len == in_frames,
            "pack index does not fit its frames",
        )?;
        let mut behind = 0;
        let stretches = tables.dictionaries.stretches.iter();
        let stretches = stretches.map(|&(frames, dictionary)| {
            behind += u64::from(frames);
            (behind, dictionary)
        });
        let unpackers_bytes = unpackers.iter().map(Unpacker::dictionary_bytes).sum();
        Ok(Self {
            stretches: stretches.collect(),
            frames_offset: tables.place.0,
            frames: tables.frames,
            unpackers,
            unpackers_bytes,
            // The tail that was read holds more than the index.
            index: Bytes::copy_from_slice(&tables.index),
            anchors,
            range,
        })
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.frames.len() * size_of::<PackFrame>()
            + self.index.len()
            + self.anchors.len() * size_of::<Anchor>()
            + self.stretches.len() * size_of::<(u64, u32)>()
            + self.unpackers_bytes
            + self.unpackers.len() * UNPACKER_BYTES
    }

    /// The frames that hold a part of the stream.
    pub(crate) fn frames_of(&self, part: &Range<u64>) -> Range<usize> {
        let first = self
            .frames
            .partition_point(|frame| frame.stream_end <= part.start);
        let last = self
            .frames
            .partition_point(|frame| frame.stream_end < part.end);
        first..if part.is_empty() { first } else { last + 1 }
    }

    /// Where in the stream a frame begins.
    pub(crate) fn stream_start(&self, frame: usize) -> u64 {
        let before = frame.checked_sub(1).and_then(|at| self.frames.get(at));
        before.map_or(0, |frame| frame.stream_end)
    }

    /// A frame's bytes, checked and unpacked.
    pub(crate) fn unpack(&self, number: usize, packed: &[u8]) -> Decoded<Vec<u8>> {
        let frame = self.frames.get(number).ok_or(Damage("no such frame"))?;
        frame.verify(packed, number)?;
        let stretch = self
            .stretches
            .partition_point(|(behind, _)| *behind <= number as u64);
        let dictionary = self
            .stretches
            .get(stretch)
            .map(|(_, dictionary)| dictionary);
        let unpacker = dictionary.and_then(|&number| self.unpackers.get(number as usize));
        let unpacker = unpacker.ok_or(Damage("no such dictionary"))?;
        let unpacked = unpacker.unpack_within(packed, frame.unpacked as usize)?;
        ensure(
            unpacked.len() == frame.unpacked as usize,
            "frame of another length",
        )?;
        Ok(unpacked)
    }

    fn parts(&self, number: u64) -> Decoded<Parts<'_>> {
        ensure(self.range.contains(number), "block outside its pack")?;
        let behind = self
            .anchors
            .partition_point(|anchor| anchor.block <= number);
        let anchor = behind.checked_sub(1).and_then(|at| self.anchors.get(at));
        let anchor = anchor.ok_or(Damage("block outside its pack"))?;
        let index = self.index.get(anchor.at..);
        let mut reader = Reader::new(index.ok_or(Damage("pack index too short"))?);
        let mut start = anchor.stream;
        for _ in anchor.block..number {
            decode_parts(&mut reader, &mut start)?;
        }
        decode_parts(&mut reader, &mut start)
    }

    /// Where a block's header is; none where it was not kept.
    pub(crate) fn header(&self, number: u64) -> Decoded<Option<Pieces>> {
        let parts = self.parts(number)?;
        Ok(parts.header.map(|len| Pieces {
            start: parts.start,
            lengths: vec![len],
        }))
    }

    /// Where some of a block's bodies are, as many as there are; none where they were not kept.
    pub(crate) fn bodies(&self, number: u64, wanted: Range<u64>) -> Decoded<Option<Pieces>> {
        let parts = self.parts(number)?;
        let Some(count) = parts.bodies else {
            return Ok(None);
        };
        let mut start = parts.start + parts.header.unwrap_or(0) + parts.raw.unwrap_or(0);
        let mut lengths = Vec::new();
        let mut reader = parts.lengths;
        for at in 0..count.min(wanted.end) {
            let len = reader.varint()?.saturating_sub(1);
            if at < wanted.start {
                start += len;
            } else {
                lengths.push(len);
            }
        }
        Ok(Some(Pieces { start, lengths }))
    }

    /// Where everything is that is kept of a block.
    pub(crate) fn all(&self, number: u64) -> Decoded<AllPieces> {
        let parts = self.parts(number)?;
        let mut lengths: Vec<u64> = parts.header.into_iter().chain(parts.raw).collect();
        let mut reader = parts.lengths;
        for _ in 0..parts.bodies.unwrap_or(0) {
            lengths.push(reader.varint()?.saturating_sub(1));
        }
        Ok(AllPieces {
            header: parts.header.is_some(),
            raw: parts.raw.is_some(),
            bodies: parts.bodies.is_some(),
            pieces: Pieces {
                start: parts.start,
                lengths,
            },
        })
    }
}

/// Reads the whole index once: places from which to read on, and the length of the stream.
fn anchors(index: &[u8], range: BlockRange) -> Decoded<(Vec<Anchor>, u64)> {
    let mut reader = Reader::new(index);
    ensure(range.len() <= index.len() as u64, "pack index too short")?;
    let (mut anchors, mut stream): (Vec<Anchor>, u64) = (Vec::new(), 0);
    for block in range.start..range.end {
        let at = index.len() - reader.rest().len();
        if anchors
            .last()
            .is_none_or(|last| at - last.at >= ANCHOR_BYTES)
        {
            anchors.push(Anchor { block, at, stream });
        }
        decode_parts(&mut reader, &mut stream)?;
    }
    reader.finish()?;
    Ok((anchors, stream))
}

/// Reads a block's parts and moves on past them, in the index and in the stream.
fn decode_parts<'a>(reader: &mut Reader<'a>, stream: &mut u64) -> Decoded<Parts<'a>> {
    let start = *stream;
    let mut part = |reader: &mut Reader<'a>| {
        let len = reader.varint()?.checked_sub(1);
        *stream = stream
            .checked_add(len.unwrap_or(0))
            .ok_or(Damage("part too long"))?;
        Ok(len)
    };
    let header = part(reader)?;
    let raw = part(reader)?;
    let bodies = reader.varint()?.checked_sub(1);
    let fits = bodies.is_none_or(|count| count <= reader.rest().len() as u64);
    ensure(fits, "too many bodies")?;
    let lengths = *reader;
    for _ in 0..bodies.unwrap_or(0) {
        part(reader)?.ok_or(Damage("a body is missing"))?;
    }
    Ok(Parts {
        start,
        header,
        raw,
        bodies,
        lengths,
    })
}

#[cfg(test)]
mod tests;

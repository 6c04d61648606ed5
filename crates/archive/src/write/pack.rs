//! Packs: whole headers, transaction bodies and raw blocks, byte for byte as they came.
//!
//! The parts of all blocks lie end to end in one stream; the stream is cut into frames of 64 KiB
//! and each is compressed on its own. The index says how long each part is, so where it lies.
//!
//! ```text
//! index: per block: header length + 1 (0: none), raw length + 1, bodies + 1, length of each
//! frames table: per frame: packed bytes, unpacked bytes, checksum u32
//! ```

use bytes::Bytes;
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet, Hash32, Payload};

use crate::catalog::{decode_range, encode_range};

use crate::format::compress::{Packer, Unpacker};
use crate::format::container::{Container, ContainerBuilder, Finished, ObjectKind, Section};
use crate::format::wire::{Put, Reader};
use crate::format::{Damage, Decoded, checksum};

/// Unpacked bytes of a frame.
const FRAME_BYTES: usize = 64 << 10;
const LEVEL: i32 = 3;

/// A finished pack.
#[derive(Debug)]
pub(crate) struct BuiltPack {
    pub(crate) bytes: Bytes,
    pub(crate) finished: Finished,
    pub(crate) range: BlockRange,
    pub(crate) last_hash: Hash32,
    pub(crate) datasets: DatasetSet,
}

/// Makes a pack of the blocks' payload, or none where no such dataset is kept.
pub(crate) fn build(blocks: &[Block], datasets: DatasetSet) -> Option<BuiltPack> {
    let payload = [Dataset::Headers, Dataset::Transactions, Dataset::Payload];
    if !payload.iter().any(|&dataset| datasets.contains(dataset)) {
        return None;
    }
    let first = blocks.first()?.clock.number;
    let mut index = Vec::new();
    let mut stream = Vec::new();
    for block in blocks {
        encode_payload(&block.payload, &mut index, &mut stream);
    }
    let mut container = ContainerBuilder::new(ObjectKind::Pack);
    container.begin(Section::Frames);
    let packer = Packer::new(Bytes::new(), LEVEL);
    let mut context = packer.context();
    let mut table = Vec::new();
    for (number, frame) in stream.chunks(FRAME_BYTES).enumerate() {
        let start = container.buffer().len();
        let len = context.pack(frame, container.buffer());
        let packed = container.buffer().get(start..).unwrap_or_default();
        encode_frame(packed, frame.len() as u64, number as u64, &mut table);
        debug_assert_eq!(packed.len(), len);
    }
    container.table(Section::FrameTable, table);
    container.table(Section::PackIndex, index);
    let range = BlockRange::new(first, first + blocks.len() as u64);
    let last_hash = blocks.last()?.clock.hash;
    container.table(
        Section::Summary,
        encode_summary(&range, last_hash, datasets),
    );
    let finished = container.finish();
    Some(BuiltPack {
        bytes: container.drain(),
        finished,
        range,
        last_hash,
        datasets,
    })
}

/// Which blocks a pack or a run is about: what a rebuilt state knows it by.
pub(crate) fn encode_summary(
    range: &BlockRange,
    last_hash: Hash32,
    datasets: DatasetSet,
) -> Vec<u8> {
    let mut out = Vec::new();
    encode_range(range, &mut out);
    out.put(&last_hash.0);
    out.put_u8(datasets.bits());
    out
}

/// Reads a summary back.
pub(crate) fn decode_summary(bytes: &[u8]) -> Decoded<(BlockRange, Hash32, DatasetSet)> {
    let mut reader = Reader::new(bytes);
    let (range, last_hash) = (decode_range(&mut reader)?, Hash32(reader.array()?));
    let datasets = DatasetSet::from_bits(reader.u8()?).ok_or(Damage("unknown dataset"))?;
    reader.finish()?;
    Ok((range, last_hash, datasets))
}

pub(crate) fn encode_frame(packed: &[u8], unpacked: u64, number: u64, table: &mut Vec<u8>) {
    table.put_varint(packed.len() as u64);
    table.put_varint(unpacked);
    table.put_u32(checksum(packed, number));
}

fn encode_payload(payload: &Payload, index: &mut Vec<u8>, stream: &mut Vec<u8>) {
    let mut part = |bytes: Option<&Bytes>, index: &mut Vec<u8>| {
        index.put_varint(bytes.map_or(0, |bytes| bytes.len() as u64 + 1));
        stream.put(bytes.map_or(&[], |bytes| &bytes[..]));
    };
    part(payload.header.as_ref(), index);
    part(payload.raw.as_ref(), index);
    let bodies = payload.bodies.as_deref();
    index.put_varint(bodies.map_or(0, |bodies| bodies.len() as u64 + 1));
    bodies
        .into_iter()
        .flatten()
        .for_each(|body| part(Some(body), index));
}

/// Where a frame lies, packed and unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackFrame {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stream_end: u64,
    checksum: u32,
}

/// Lengths of a block's parts.
#[derive(Clone, Debug)]
struct Parts {
    stream_start: u64,
    header: Option<u64>,
    raw: Option<u64>,
    bodies: Option<Vec<u64>>,
}

/// An open pack.
#[derive(Debug)]
pub(crate) struct OpenPack {
    pub(crate) frames_offset: u64,
    pub(crate) frames: Vec<PackFrame>,
    blocks: Vec<Parts>,
    first: u64,
}

impl OpenPack {
    pub(crate) fn decode(tail: Bytes, tail_offset: u64, range: BlockRange) -> Decoded<Self> {
        let container = Container::parse(tail, tail_offset, ObjectKind::Pack)?;
        let (frames_offset, frames_len) = container.data(Section::Frames)?;
        let frames = decode_frames(&container.table(Section::FrameTable)?, frames_len)?;
        let index = container.table(Section::PackIndex)?;
        let mut reader = Reader::new(&index);
        if range.len() > index.len() as u64 {
            return Err(Damage("pack index too short"));
        }
        let mut blocks = Vec::with_capacity(range.len() as usize);
        let mut at = 0_u64;
        for _ in range.start..range.end {
            blocks.push(decode_parts(&mut reader, &mut at)?);
        }
        reader.finish()?;
        let stream_len = frames.last().map_or(0, |frame| frame.stream_end);
        if at != stream_len {
            return Err(Damage("pack index does not fit its frames"));
        }
        Ok(Self {
            frames_offset,
            frames,
            blocks,
            first: range.start,
        })
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        let bodies = self
            .blocks
            .iter()
            .flat_map(|parts| &parts.bodies)
            .map(Vec::len)
            .sum::<usize>();
        self.frames.len() * size_of::<PackFrame>()
            + self.blocks.len() * size_of::<Parts>()
            + bodies * 8
    }

    /// The frames that hold a block's parts.
    pub(crate) fn frames_of(&self, number: u64) -> Decoded<std::ops::Range<usize>> {
        let parts = self.parts(number)?;
        let end = parts.stream_start + parts.len();
        let first = self
            .frames
            .partition_point(|frame| frame.stream_end <= parts.stream_start);
        let last = self.frames.partition_point(|frame| frame.stream_end < end);
        Ok(first..if parts.len() == 0 { first } else { last + 1 })
    }

    fn parts(&self, number: u64) -> Decoded<&Parts> {
        let at = number
            .checked_sub(self.first)
            .and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.blocks.get(at))
            .ok_or(Damage("block outside its pack"))
    }

    /// A block's payload from its unpacked frames, laid end to end.
    pub(crate) fn payload(
        &self,
        number: u64,
        first_frame: usize,
        stream: &Bytes,
    ) -> Decoded<Payload> {
        let parts = self.parts(number)?;
        let before = first_frame
            .checked_sub(1)
            .and_then(|at| self.frames.get(at));
        let stream_start = before.map_or(0, |frame| frame.stream_end);
        let mut at = parts.stream_start - stream_start;
        let mut take = |len: u64| {
            if len == 0 {
                return Ok(Bytes::new());
            }
            let (start, end) = (at as usize, (at + len) as usize);
            at += len;
            if end <= stream.len() {
                Ok(stream.slice(start..end))
            } else {
                Err(Damage("part cut off"))
            }
        };
        let header = parts.header.map(&mut take).transpose()?;
        let raw = parts.raw.map(&mut take).transpose()?;
        let bodies = parts
            .bodies
            .as_ref()
            .map(|lens| lens.iter().map(|&len| take(len)).collect());
        Ok(Payload {
            header,
            raw,
            bodies: bodies.transpose()?,
        })
    }
}

impl PackFrame {
    pub(crate) fn verify(&self, packed: &[u8], number: usize) -> Decoded<()> {
        if checksum(packed, number as u64) == self.checksum {
            Ok(())
        } else {
            Err(Damage("frame checksum mismatch"))
        }
    }

    pub(crate) fn unpack(&self, packed: &[u8], number: usize) -> Decoded<Vec<u8>> {
        self.verify(packed, number)?;
        Unpacker::new(&[]).unpack(packed)
    }
}

impl Parts {
    fn len(&self) -> u64 {
        let bodies: u64 = self.bodies.iter().flatten().sum();
        self.header.unwrap_or(0) + self.raw.unwrap_or(0) + bodies
    }
}

pub(crate) fn decode_frames(bytes: &[u8], section_len: u64) -> Decoded<Vec<PackFrame>> {
    let mut reader = Reader::new(bytes);
    let mut frames = Vec::with_capacity(bytes.len() / 6);
    let (mut start, mut stream_end) = (0_u64, 0_u64);
    while !reader.is_empty() {
        let end = start + u64::from(reader.varint_u32()?);
        stream_end += u64::from(reader.varint_u32()?);
        frames.push(PackFrame {
            start,
            end,
            stream_end,
            checksum: reader.u32()?,
        });
        start = end;
    }
    if start == section_len {
        Ok(frames)
    } else {
        Err(Damage("frames do not fill their section"))
    }
}

fn decode_parts(reader: &mut Reader<'_>, at: &mut u64) -> Decoded<Parts> {
    let stream_start = *at;
    let mut part = |reader: &mut Reader<'_>| {
        let len = reader.varint()?.checked_sub(1);
        *at = at
            .checked_add(len.unwrap_or(0))
            .ok_or(Damage("part too long"))?;
        Ok(len)
    };
    let header = part(reader)?;
    let raw = part(reader)?;
    let bodies = match reader.varint()?.checked_sub(1) {
        None => None,
        Some(count) if count > reader.rest().len() as u64 => return Err(Damage("too many bodies")),
        Some(count) => Some(
            (0..count)
                .map(|_| part(reader)?.ok_or(Damage("a body is missing")))
                .collect::<Decoded<Vec<u64>>>()?,
        ),
    };
    Ok(Parts {
        stream_start,
        header,
        raw,
        bodies,
    })
}

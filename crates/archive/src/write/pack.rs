//! Packs: whole headers, transaction bodies and raw blocks, byte for byte as they came.
//!
//! The parts of all blocks lie end to end in one stream; the stream is cut into frames of up to
//! 64 KiB where parts end, and each frame is compressed on its own: a reader of one part unpacks
//! one frame. The index says how long each part is, so where it lies.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, BlockMeta, BlockRange, Dataset, Hash32, Payload};
use rayon::prelude::*;

use super::dictionary::{Learner, Learnt};
use crate::error::Result;
use crate::format::Decoded;
use crate::format::compress::Packer;
use crate::format::container::{ContainerBuilder, Finished, ObjectKind, Section};
use crate::format::pack::{PackWriter, encode_parts};
use crate::format::wire::{Put, Reader};
use crate::state::catalog::PackContent;

/// Unpacked bytes of a frame.
const FRAME_BYTES: usize = 64 << 10;
/// Frames that one task compresses: a ledger of some megabyte keeps two cores busy.
const FRAMES_PER_TASK: usize = 8;

/// A finished pack.
#[derive(Debug)]
pub(crate) struct BuiltPack {
    pub(crate) bytes: Bytes,
    pub(crate) finished: Finished,
    pub(crate) range: BlockRange,
    pub(crate) last_hash: Hash32,
    pub(crate) content: PackContent,
}

/// Makes a pack of the blocks' payload, or none where no such dataset is kept.
pub(crate) fn build(
    blocks: &[Arc<Block>],
    content: PackContent,
    learner: &mut Learner,
) -> Result<Option<BuiltPack>> {
    let Some(mut pack) = PackBuilder::new(content) else {
        return Ok(None);
    };
    for block in blocks {
        pack.push(&block.clock, &block.payload);
    }
    pack.finish(learner)
}

/// A pack on its way. Payload waits until there is enough to learn a dictionary from, and is
/// compressed then: what is in memory does not grow with the pack, but for its compressed bytes.
#[derive(Debug)]
pub(crate) struct PackBuilder {
    container: ContainerBuilder,
    content: PackContent,
    first: u64,
    last: Option<BlockMeta>,
    tables: PackWriter,
    waiting: Vec<Bytes>,
    waiting_bytes: u64,
}

impl PackBuilder {
    /// None where no dataset is kept that a pack holds.
    pub(crate) fn new(content: PackContent) -> Option<Self> {
        let payload = [Dataset::Headers, Dataset::Transactions, Dataset::Payload];
        let kept = content.datasets();
        if !payload.iter().any(|&dataset| kept.contains(dataset)) {
            return None;
        }
        let mut container = ContainerBuilder::new(ObjectKind::Pack);
        container.begin(Section::Frames);
        Some(Self {
            container,
            content,
            first: 0,
            last: None,
            tables: PackWriter::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
        })
    }

    /// Takes the next block's payload. [`Self::pack_waiting`] is to be called now and then.
    pub(crate) fn push(&mut self, clock: &BlockMeta, payload: &Payload) {
        if self.last.is_none() {
            self.first = clock.number;
        }
        self.last = Some(*clock);
        encode_parts(payload, &mut self.tables.index);
        let parts = payload.header.iter().chain(&payload.raw);
        for part in parts.chain(payload.bodies.iter().flatten()) {
            self.waiting_bytes += part.len() as u64;
            self.waiting.push(part.clone());
        }
    }

    /// Compresses what waits, once it is worth a dictionary.
    pub(crate) fn pack_waiting(&mut self, learner: &mut Learner) -> Result<()> {
        if self.waiting_bytes >= learner.least_bytes() {
            self.pack(learner)?;
        }
        Ok(())
    }

    /// Bytes so far: those that are packed, and what those that wait will about be.
    pub(crate) fn bytes(&self) -> u64 {
        self.container.len() + self.waiting_bytes / 8
    }

    /// What waits is gone where this fails: the pack is to be abandoned.
    fn pack(&mut self, learner: &mut Learner) -> Result<()> {
        let frames = cut(&std::mem::take(&mut self.waiting));
        if frames.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.waiting_bytes);
        let samples = |at: usize, out: &mut Vec<u8>| {
            let frame = frames.get(at).expect("samples are taken of these frames");
            frame.iter().for_each(|part| out.put(part));
        };
        let begun = !self.tables.dictionaries.packed.is_empty();
        let learnt = learner.learnt((frames.len(), bytes), begun, samples)?;
        for (packed, lens) in pack_frames(&frames, &learnt)? {
            let mut rest = packed.as_slice();
            for (len, unpacked) in lens {
                let split = rest.split_at_checked(len);
                let (frame, after) = split.expect("a task's frames lie end to end");
                self.tables.add_frame(frame, unpacked as u64);
                rest = after;
            }
            self.container.buffer().put(&packed);
        }
        let count = u32::try_from(frames.len());
        let count = count.expect("what waits in memory has fewer than 2^32 frames");
        self.tables.dictionaries.add(&learnt.packed, count);
        Ok(())
    }

    /// The pack; none where it got no block.
    pub(crate) fn finish(mut self, learner: &mut Learner) -> Result<Option<BuiltPack>> {
        let Some(last) = self.last else {
            return Ok(None);
        };
        self.pack(learner)?;
        let range = BlockRange::new(self.first, last.number + 1);
        let mut container = self.container;
        let summary = encode_summary(&range, last.hash, &self.content);
        self.tables.finish(&mut container, summary);
        let finished = container.finish();
        Ok(Some(BuiltPack {
            bytes: container.drain(),
            finished,
            range,
            last_hash: last.hash,
            content: self.content,
        }))
    }
}

/// Cuts parts into frames: a part lies in one frame, unless it is larger than one.
fn cut(parts: &[Bytes]) -> Vec<Vec<Bytes>> {
    let (mut frames, mut frame, mut len) = (Vec::new(), Vec::new(), 0);
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if len > 0 && len + part.len() > FRAME_BYTES {
            frames.push(std::mem::take(&mut frame));
            len = 0;
        }
        let mut rest = part.clone();
        while rest.len() > FRAME_BYTES {
            frames.push(vec![rest.split_to(FRAME_BYTES)]);
        }
        len += rest.len();
        frame.push(rest);
    }
    frames.extend(Some(frame).filter(|frame| !frame.is_empty()));
    frames
}

/// Packed frames of one task: bytes, and packed and unpacked length of each.
type PackedFrames = (Vec<u8>, Vec<(usize, usize)>);

fn pack_frames(frames: &[Vec<Bytes>], learnt: &Learnt) -> Result<Vec<PackedFrames>> {
    let pack_task = |frames: &[Vec<Bytes>]| {
        let mut context = learnt.packer.context();
        let (mut unpacked, mut bytes, mut lens) = (Vec::new(), Vec::new(), Vec::new());
        for frame in frames {
            unpacked.clear();
            frame.iter().for_each(|part| unpacked.put(part));
            let len = context.pack(&unpacked, &mut bytes)?;
            lens.push((len, unpacked.len()));
        }
        Ok((bytes, lens))
    };
    frames.par_chunks(FRAMES_PER_TASK).map(pack_task).collect()
}

/// Packs frames that lie unpacked in memory, one by one.
pub(crate) fn pack_again(frames: &[Vec<u8>], packer: &Packer) -> Result<Vec<Vec<u8>>> {
    let pack_task = |frames: &[Vec<u8>]| {
        let mut context = packer.context();
        let pack = |frame: &Vec<u8>| {
            let mut packed = Vec::new();
            context.pack(frame, &mut packed)?;
            Ok(packed)
        };
        frames.iter().map(pack).collect::<Vec<_>>()
    };
    let tasks = frames.par_chunks(FRAMES_PER_TASK);
    tasks.flat_map_iter(pack_task).collect()
}

/// Which blocks a pack or a run is about: what a rebuilt state knows it by.
pub(crate) fn encode_summary(
    range: &BlockRange,
    last_hash: Hash32,
    content: &PackContent,
) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_range(range);
    out.put(&last_hash.0);
    content.encode(&mut out);
    out
}

/// Reads a summary back.
pub(crate) fn decode_summary(bytes: &[u8]) -> Decoded<(BlockRange, Hash32, PackContent)> {
    let mut reader = Reader::new(bytes);
    let (range, last_hash) = (reader.range()?, reader.hash()?);
    let content = PackContent::decode(&mut reader)?;
    reader.finish()?;
    Ok((range, last_hash, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_in_one_frame_unless_it_is_larger() {
        let sizes = [0, 10, FRAME_BYTES - 10, 1, 3 * FRAME_BYTES - 5, 4, 1, 2];
        let parts: Vec<Bytes> = sizes
            .iter()
            .enumerate()
            .map(|(at, &len)| vec![at as u8; len].into())
            .collect();
        let frames = cut(&parts);
        let lens: Vec<Vec<usize>> = frames
            .iter()
            .map(|frame| frame.iter().map(Bytes::len).collect())
            .collect();
        assert_eq!(
            lens,
            [
                vec![10, FRAME_BYTES - 10],
                vec![1],
                vec![FRAME_BYTES],
                vec![FRAME_BYTES],
                vec![FRAME_BYTES - 5, 4, 1],
                vec![2]
            ]
        );
        assert_eq!(frames.concat().concat(), parts.concat());
        assert!(cut(&[Bytes::new()]).is_empty());
    }
}

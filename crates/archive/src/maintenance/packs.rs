//! Joining packs: their frames are copied as they are, a few at a time, so that a pack of many megabytes
//! never lies in memory whole. What was packed without a dictionary is packed again with one when a
//! pack is finished: blocks that came one by one were too few to learn from.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::BlockRange;

use super::merge::Output;
use crate::blocking;
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::compress::Unpacker;
use crate::format::container::{ObjectKind, Section};
use crate::format::pack::{PackTables, PackWriter};
use crate::format::wire::Put;
use crate::read::objects::Objects;
use crate::read::window::Window;
use crate::state::catalog::{ObjectRef, PackEntry};
use crate::write::dictionary::Learner;
use crate::write::pack::{encode_summary, pack_again};
use crate::write::publish::Uploading;
use crate::write::writer::Writer;

/// Frames that lie unpacked in memory at once: 16 MiB, what a dictionary is learnt from.
const FRAMES_AT_ONCE: usize = 256;

/// Why packs are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    /// They are many; more will be joined to them.
    ForNow,
    /// The pack is large enough.
    ForGood,
}

/// A pack that is made of others.
struct Joined {
    output: Output,
    tables: PackWriter,
}

impl Writer {
    /// Makes one pack of neighbours. A single one that is as it should be is not copied.
    pub(crate) async fn join_packs(
        &self,
        inputs: &[Arc<PackEntry>],
        why: Join,
    ) -> Result<(PackEntry, Option<Uploading>)> {
        let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else {
            return Err(Error::Invalid("no packs to join".to_owned()));
        };
        let objects = &self.view.objects;
        let mut parts = Vec::with_capacity(inputs.len());
        for input in inputs {
            let name = &input.object.name;
            let tail = objects.tail(&input.object).await?;
            let tables = PackTables::decode(tail, input.object.tables_start);
            parts.push((name, tables.map_err(|damage| Error::damaged(name, damage))?));
        }
        let plain: u64 = parts.iter().map(|(_, part)| part.plain_bytes()).sum();
        let again = why == Join::ForGood && plain >= self.settings.seal.pack_dictionary_bytes;
        if inputs.len() == 1 && !again {
            return Ok(((**first).clone(), None));
        }
        let range = BlockRange::new(first.range.start, last.range.end);
        let uploading = self.publisher.name("pack", range);
        let mut joined = Joined::create(objects, &uploading.name).await?;
        let mut learner = self.finishing.lock().await;
        let learner = again.then_some(&mut *learner);
        joined.copy_all(objects, &parts, learner).await?;
        let summary = encode_summary(&range, last.last_hash, &first.content);
        let object = joined.finish(&uploading.name, summary).await?;
        let entry = PackEntry {
            object,
            range,
            last_hash: last.last_hash,
            content: first.content.clone(),
        };
        Ok((entry, Some(uploading)))
    }
}

impl Joined {
    async fn create(objects: &Objects, name: &str) -> Result<Self> {
        let mut output = Output::create(objects, name, ObjectKind::Pack).await?;
        output.container.begin(Section::Frames);
        Ok(Self {
            output,
            tables: PackWriter::default(),
        })
    }

    /// Copies the frames of all parts; those without a dictionary are packed again where a learner
    /// learns one.
    async fn copy_all(
        &mut self,
        objects: &Objects,
        parts: &[(&String, PackTables)],
        mut learner: Option<&mut Learner>,
    ) -> Result<()> {
        let mut plain: Vec<Plain<'_>> = Vec::new();
        for (name, part) in parts {
            let mut window = Window::new(objects, name, part.place);
            let mut at = 0;
            for (count, dictionary) in part.dictionaries.stretches() {
                let again = dictionary.is_empty() && learner.is_some();
                if !again {
                    self.pack_again(&mut plain, &mut learner).await?;
                    self.tables.dictionaries.add(&dictionary, count);
                }
                for number in at..at + count as usize {
                    let frame = read(&mut window, (name, part), number).await?;
                    if again {
                        plain.push(Plain { name, frame });
                    } else {
                        self.put(&frame.0, frame.1).await?;
                    }
                    if plain.len() == FRAMES_AT_ONCE {
                        self.pack_again(&mut plain, &mut learner).await?;
                    }
                }
                at += count as usize;
            }
            self.tables.index.put(&part.index);
        }
        self.pack_again(&mut plain, &mut learner).await
    }

    async fn put(&mut self, frame: &[u8], unpacked: u32) -> Result<()> {
        self.tables.add_frame(frame, u64::from(unpacked));
        self.output.container.buffer().put(frame);
        self.output.flush().await
    }

    /// Packs frames with a dictionary, on other threads. They hold what they held: the index is
    /// right as it is.
    async fn pack_again(
        &mut self,
        plain: &mut Vec<Plain<'_>>,
        learner: &mut Option<&mut Learner>,
    ) -> Result<()> {
        let (Some(learner), false) = (learner, plain.is_empty()) else {
            return Ok(());
        };
        let (names, frames): (Vec<String>, Vec<(Bytes, u32)>) = plain
            .drain(..)
            .map(|one| (one.name.to_owned(), one.frame))
            .unzip();
        let mut own = learner.clone();
        // The last few frames get the dictionary that the pack has already.
        let begun = !self.tables.dictionaries.packed.is_empty();
        let job = move || {
            let unpacked = unpack_all(&frames).map_err(|(at, damage)| {
                let name = names.get(at).map(String::as_str);
                Error::damaged(name.expect("each frame has the name of its pack"), damage)
            })?;
            let bytes: u64 = unpacked.iter().map(|frame| frame.len() as u64).sum();
            let sample = |at: usize, out: &mut Vec<u8>| {
                out.put(unpacked.get(at).expect("samples are taken of these frames"));
            };
            let learnt = own.learnt((unpacked.len(), bytes), begun, sample)?;
            let packed = pack_again(&unpacked, &learnt.packer)?;
            let lens: Vec<u32> = frames.iter().map(|(_, unpacked)| *unpacked).collect();
            Ok((own, learnt, packed, lens))
        };
        let (own, learnt, packed, lens) = blocking::run(job).await?;
        **learner = own;
        self.tables
            .dictionaries
            .add(&learnt.packed, packed.len() as u32);
        for (frame, unpacked) in packed.iter().zip(lens) {
            self.put(frame, unpacked).await?;
        }
        Ok(())
    }

    async fn finish(mut self, name: &str, summary: Vec<u8>) -> Result<ObjectRef> {
        self.tables.finish(&mut self.output.container, summary);
        self.output.finish(name).await
    }
}

/// A frame that was packed without a dictionary, with its unpacked length, and the pack it is from.
struct Plain<'a> {
    name: &'a str,
    frame: (Bytes, u32),
}

/// Unpacks frames that were packed without a dictionary. Damage is that of the frame at a place.
fn unpack_all(frames: &[(Bytes, u32)]) -> std::result::Result<Vec<Vec<u8>>, (usize, Damage)> {
    let unpacker = Unpacker::new(&[]);
    let unpack = |(packed, unpacked): &(Bytes, u32)| {
        let bytes = unpacker.unpack_within(packed, *unpacked as usize)?;
        match bytes.len() == *unpacked as usize {
            true => Ok(bytes),
            false => Err(Damage("frame of another length")),
        }
    };
    let unpacked = frames.iter().enumerate();
    let unpacked = unpacked.map(|(at, frame)| unpack(frame).map_err(|damage| (at, damage)));
    unpacked.collect()
}

/// A frame of a pack, packed and checked, with its unpacked length.
async fn read(
    window: &mut Window<'_>,
    (name, part): (&str, &PackTables),
    number: usize,
) -> Result<(Bytes, u32)> {
    let damaged = |damage| Error::damaged(name, damage);
    let frame = part.frames.get(number);
    let frame = frame.ok_or_else(|| damaged(Damage("no such frame")))?;
    let bytes = window.slice(frame.start, frame.end).await?;
    frame.verify(&bytes, number).map_err(damaged)?;
    Ok((bytes, frame.unpacked()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::compress::Packer;

    /// Frames of several packs wait together: the one that is damaged is named.
    #[test]
    fn the_frame_that_cannot_be_decompressed_is_named() {
        let packer = Packer::new(Bytes::new(), 1);
        let contents = [vec![1; 40], vec![2; 50]];
        let packed = pack_again(&contents, &packer).unwrap();
        let mut frames: Vec<(Bytes, u32)> = packed
            .into_iter()
            .zip(&contents)
            .map(|(frame, plain)| (frame.into(), plain.len() as u32))
            .collect();
        assert_eq!(unpack_all(&frames), Ok(contents.to_vec()));
        frames[1].1 += 1;
        assert!(matches!(unpack_all(&frames), Err((1, _))));
        frames[0].0 = Bytes::from_static(b"no frame");
        assert!(matches!(unpack_all(&frames), Err((0, _))));
    }
}

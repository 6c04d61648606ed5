//! Dictionaries for packs: learnt now and then, from what is about to be packed.

use std::sync::Arc;

use bytes::Bytes;

use crate::format::compress::{self, NotPacked, Packer};

/// Frames that are packed with a dictionary are small and stay for good: they are packed harder
/// than those that wait to be packed again (ADR 0012).
const LEVEL: i32 = 8;
const PLAIN_LEVEL: i32 = 3;
/// How hard a dictionary itself is packed. It is done once in a gigabyte.
const DICTIONARY_LEVEL: i32 = 19;
/// A dictionary is learnt from this many frames, spread over what is packed.
const SAMPLE_FRAMES: usize = 256;
/// Nothing can be learnt from very few samples: fewer frames than this are cut up.
const SAMPLES_MIN: usize = 16;
const SAMPLE_BYTES: usize = 4 << 10;
const DICTIONARY_BYTES_MAX: usize = 110 << 10;
/// A dictionary is this part of what it is learnt from, within its bounds.
const SAMPLES_PER_BYTE: usize = 16;
/// A new one is learnt after this many unpacked bytes.
const BYTES_PER_DICTIONARY: u64 = 2 << 30;

/// A dictionary, ready to pack with, and as packs store it. Empty where there is none.
#[derive(Debug)]
pub(crate) struct Learnt {
    pub(crate) packer: Packer,
    pub(crate) packed: Bytes,
}

impl Learnt {
    fn plain() -> Self {
        Self {
            packer: Packer::new(Bytes::new(), PLAIN_LEVEL),
            packed: Bytes::new(),
        }
    }

    fn new(dictionary: Bytes) -> Result<Self, NotPacked> {
        let mut packed = Vec::new();
        let packer = Packer::new(Bytes::new(), DICTIONARY_LEVEL);
        packer.context().pack(&dictionary, &mut packed)?;
        Ok(Self {
            packer: Packer::new(dictionary, LEVEL),
            packed: packed.into(),
        })
    }
}

/// Learns dictionaries, and keeps the newest for the packs that follow.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    least_bytes: u64,
    newest: Option<Arc<Learnt>>,
    packed_with_it: u64,
}

impl Learner {
    /// Nothing is learnt from less than `least_bytes`, and less than that is packed without a
    /// dictionary: it would be the larger part.
    pub(crate) fn new(least_bytes: u64) -> Self {
        Self {
            least_bytes,
            newest: None,
            packed_with_it: 0,
        }
    }

    pub(crate) fn least_bytes(&self) -> u64 {
        self.least_bytes
    }

    /// What to pack the next frames with, of this many bytes. `begun`: the pack has a
    /// dictionary already, `sample` appends a frame.
    pub(crate) fn learnt(
        &mut self,
        (frames, bytes): (usize, u64),
        begun: bool,
        sample: impl Fn(usize, &mut Vec<u8>),
    ) -> Result<Arc<Learnt>, NotPacked> {
        let enough = bytes >= self.least_bytes;
        let worn = self.packed_with_it >= BYTES_PER_DICTIONARY;
        if enough && (worn || self.newest.is_none()) {
            let dictionary = train(frames, sample);
            if !dictionary.is_empty() {
                self.newest = Some(Arc::new(Learnt::new(dictionary)?));
                self.packed_with_it = 0;
            }
        }
        Ok(match &self.newest {
            Some(newest) if enough || begun => {
                self.packed_with_it += bytes;
                newest.clone()
            }
            _ => Arc::new(Learnt::plain()),
        })
    }
}

fn train(frames: usize, sample: impl Fn(usize, &mut Vec<u8>)) -> Bytes {
    let step = frames.div_ceil(SAMPLE_FRAMES).max(1);
    let (mut samples, mut sizes) = (Vec::new(), Vec::new());
    for at in (0..frames).step_by(step) {
        let start = samples.len();
        sample(at, &mut samples);
        sizes.push(samples.len() - start);
    }
    if sizes.len() < SAMPLES_MIN {
        sizes = samples.chunks(SAMPLE_BYTES).map(<[u8]>::len).collect();
    }
    let size = (samples.len() / SAMPLES_PER_BYTE).min(DICTIONARY_BYTES_MAX);
    compress::train_to(&samples, &sizes, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(at: usize, out: &mut Vec<u8>) {
        for row in 0..400 {
            let text = format!(
                "transfer {} from {} to {};",
                at * row,
                row % 7,
                (at + row) % 11
            );
            out.extend_from_slice(text.as_bytes());
        }
    }

    #[test]
    fn the_same_frames_give_the_same_dictionary_and_it_serves_on() {
        let mut learner = Learner::new(100_000);
        let little = learner.learnt((3, 30_000), false, frame).unwrap();
        assert!(little.packed.is_empty(), "too little to learn from");
        let first = learner.learnt((40, 400_000), false, frame).unwrap();
        assert!(!first.packed.is_empty() && first.packed.len() < first.packer.dictionary().len());
        let again = Learner::new(100_000)
            .learnt((40, 400_000), false, frame)
            .unwrap();
        assert_eq!(first.packed, again.packed);
        let next = learner
            .learnt((40, 400_000), false, |at, out| frame(at + 3, out))
            .unwrap();
        assert_eq!(first.packed, next.packed, "it serves the next pack too");
        let rest = learner.learnt((1, 300), true, frame).unwrap();
        assert_eq!(first.packed, rest.packed, "the end of a pack that has it");
        learner.packed_with_it = BYTES_PER_DICTIONARY;
        let new = learner
            .learnt((40, 400_000), false, |at, out| frame(at + 3, out))
            .unwrap();
        assert_ne!(first.packed, new.packed, "worn");
    }
}

//! Compression of frames with a dictionary that travels inside the segment.

use bytes::Bytes;
use zstd::zstd_safe::{self, CCtx, CDict, CParameter, DCtx, DDict};

use super::frame::FRAME_BYTES_MAX;
use super::{Damage, Decoded, ensure};

/// A dictionary is a quarter of what it is learnt from, within these bounds. The upper one is where
/// frames stop shrinking by more than the dictionary grows (ADR 0003).
const DICTIONARY_BYTES_MIN: usize = 16 << 10;
const DICTIONARY_BYTES_MAX: usize = 96 << 10;
/// A byte of input unpacks to at most this many: keeps a damaged length from allocating.
const RATIO_MAX: usize = 1 << 16;

/// A dictionary, ready to pack with.
pub(crate) struct Packer {
    dictionary: Bytes,
    prepared: Option<CDict<'static>>,
    level: i32,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (level, bytes) = (self.level, self.dictionary.len());
        write!(f, "Packer(level {level}, dictionary of {bytes} bytes)")
    }
}

impl Packer {
    /// An empty dictionary is none.
    pub(crate) fn new(dictionary: Bytes, level: i32) -> Self {
        let prepared = (!dictionary.is_empty()).then(|| CDict::create(&dictionary, level));
        Self {
            dictionary,
            prepared,
            level,
        }
    }

    pub(crate) fn dictionary(&self) -> &Bytes {
        &self.dictionary
    }

    /// A context for one thread.
    pub(crate) fn context(&self) -> PackContext<'_> {
        let mut context = CCtx::create();
        // The stretch names its dictionary, and the frame table has a checksum: four bytes each
        // that a frame need not carry.
        for parameter in [
            CParameter::DictIdFlag(false),
            CParameter::ChecksumFlag(false),
            CParameter::CompressionLevel(self.level),
        ] {
            let set = context.set_parameter(parameter);
            set.expect("a new context takes these parameters: zstd clamps the level itself");
        }
        if let Some(prepared) = &self.prepared {
            let set = context.ref_cdict(prepared);
            set.expect("a new context takes a dictionary: nothing is allocated for it");
        }
        PackContext(context)
    }
}

/// Packs one frame after the other.
pub(crate) struct PackContext<'a>(CCtx<'a>);

impl PackContext<'_> {
    /// Appends the packed bytes and returns their number, which is never zero. On an error `out` is
    /// as it was.
    pub(crate) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, NotPacked> {
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(bytes.len()), 0);
        let target = out.get_mut(start..);
        let target = target.expect("the buffer was made longer than this just now");
        let packed = checked(self.0.compress2(target, bytes));
        out.truncate(start + packed.as_ref().map_or(0, |&written| written));
        packed
    }
}

/// Why zstd did not pack a frame, in its own words. The target is always large enough, so what is
/// left is memory that it could not allocate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotPacked(pub(crate) &'static str);

/// A frame of zero bytes would get a valid checksum, be published, and be lost content.
fn checked(packed: zstd_safe::SafeResult) -> Result<usize, NotPacked> {
    match packed {
        Ok(0) => Err(NotPacked("zstd packed a frame into nothing")),
        Ok(written) => Ok(written),
        Err(code) => Err(NotPacked(zstd_safe::get_error_name(code))),
    }
}

/// Learns a dictionary from samples laid end to end; empty where there is too little to learn from.
pub(crate) fn train(samples: &[u8], sizes: &[usize]) -> Bytes {
    let size = (samples.len() / 4).min(DICTIONARY_BYTES_MAX);
    if size < DICTIONARY_BYTES_MIN {
        return Bytes::new();
    }
    train_to(samples, sizes, size)
}

/// Learns a dictionary of at most this many bytes; empty where that cannot be done: too few or too
/// uniform samples are an error to zstd. Without a dictionary frames are larger, and hold the same.
pub(crate) fn train_to(samples: &[u8], sizes: &[usize], size: usize) -> Bytes {
    // Default: no dictionary.
    zstd::dict::from_continuous(samples, sizes, size)
        .unwrap_or_default()
        .into()
}

/// A dictionary, ready to unpack with.
pub(crate) struct Unpacker {
    prepared: Option<DDict<'static>>,
    dictionary_bytes: usize,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

thread_local! {
    /// Making a context costs more than unpacking a frame.
    static CONTEXT: std::cell::RefCell<DCtx<'static>> = std::cell::RefCell::new(DCtx::create());
}

impl Unpacker {
    /// An empty dictionary is none.
    pub(crate) fn new(dictionary: &[u8]) -> Self {
        Self {
            prepared: (!dictionary.is_empty()).then(|| DDict::create(dictionary)),
            dictionary_bytes: dictionary.len(),
        }
    }

    /// Length of its dictionary.
    pub(crate) fn dictionary_bytes(&self) -> usize {
        self.dictionary_bytes
    }

    /// The unpacked bytes.
    pub(crate) fn unpack(&self, packed: &[u8]) -> Decoded<Vec<u8>> {
        self.unpack_within(packed, FRAME_BYTES_MAX)
    }

    /// The unpacked bytes, where there are no more than this many.
    pub(crate) fn unpack_within(&self, packed: &[u8], most: usize) -> Decoded<Vec<u8>> {
        let len = zstd_safe::get_frame_content_size(packed).ok().flatten();
        let len = len
            .and_then(|len| usize::try_from(len).ok())
            .ok_or(Damage("no frame length"))?;
        ensure(
            len <= most.min(packed.len().saturating_mul(RATIO_MAX)),
            "frame length beyond reason",
        )?;
        let mut out = Vec::with_capacity(len);
        let result = CONTEXT.with_borrow_mut(|context| match &self.prepared {
            Some(dictionary) => context.decompress_using_ddict(&mut out, packed, dictionary),
            None => context.decompress(&mut out, packed),
        });
        match result {
            Ok(written) if written == len => Ok(out),
            _ => Err(Damage("frame does not unpack")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(seed: u8) -> Vec<u8> {
        (0..4000_u32)
            .map(|at| ((at / 7 * u32::from(seed)) >> 3) as u8)
            .collect()
    }

    #[test]
    fn packs_and_unpacks_with_and_without_a_dictionary() {
        let samples: Vec<Vec<u8>> = (1..60).map(sample).collect();
        let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
        let trained = train(&samples.concat(), &sizes);
        assert!(!trained.is_empty());
        assert!(
            train(&samples[0], &sizes[..1]).is_empty(),
            "too little to learn from"
        );
        for dictionary in [Bytes::new(), trained] {
            let packer = Packer::new(dictionary.clone(), 3);
            let mut out = b"before".to_vec();
            let written = packer.context().pack(&sample(9), &mut out).unwrap();
            let packed = &out[6..];
            assert_eq!(packed.len(), written);
            let unpacker = Unpacker::new(&dictionary);
            assert_eq!(unpacker.unpack(packed).as_deref(), Ok(&sample(9)[..]));
            assert!(unpacker.unpack(&packed[..written - 1]).is_err());
        }
    }

    /// What zstd could not pack was taken for a frame of zero bytes: it got a checksum that holds,
    /// was published, and the rows in it were lost for good.
    #[test]
    fn a_frame_that_was_not_packed_is_an_error() {
        assert_eq!(checked(Ok(9)), Ok(9));
        assert!(checked(Ok(0)).is_err());
        // The code of zstd's memory_allocation error, as its functions return it.
        let no_memory = 0_usize.wrapping_sub(64);
        let expected = NotPacked("Allocation error : not enough memory");
        assert_eq!(checked(Err(no_memory)), Err(expected));
        // Even nothing packs to something.
        let mut out = Vec::new();
        let packed = Packer::new(Bytes::new(), 3).context().pack(&[], &mut out);
        assert_eq!(packed, Ok(out.len()));
    }

    proptest! {
        #[test]
        fn hostile_frames_do_not_unpack(bytes: Vec<u8>) {
            if let Ok(out) = Unpacker::new(&[]).unpack(&bytes) {
                prop_assert!(out.len() <= bytes.len() * RATIO_MAX);
            }
        }
    }
}

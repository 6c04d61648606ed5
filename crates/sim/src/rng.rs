//! Seeded pseudo-random numbers: SplitMix64 and a Zipf-like draw made of integers only.
//!
//! No floating point anywhere: `powf` may round differently on another platform, and then the
//! same seed would no longer mean the same chain.

use chronolith_model::Hash32;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of these parts, and of no other list of parts.
    pub(crate) fn of(parts: &[u64]) -> Self {
        Self(key(parts))
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        finalize(self.0)
    }

    /// A number below `bound`; 0 where the bound is 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether something that happens in `percent` of all cases happens now.
    #[inline]
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// One of the values; none where there are none.
    pub(crate) fn pick<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        values.get(self.below(values.len() as u64) as usize)
    }

    /// Pseudo-random bytes.
    #[inline]
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for part in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            part.iter_mut()
                .zip(random)
                .for_each(|(to, from)| *to = from);
        }
        bytes
    }

    /// `len` pseudo-random bytes.
    pub(crate) fn vec(&mut self, len: u64) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len as usize).collect()
    }
}

/// One number that stands for these parts.
pub(crate) fn key(parts: &[u64]) -> u64 {
    let start = parts.len() as u64;
    parts.iter().fold(start, |state, &part| {
        finalize(state.wrapping_add(GOLDEN) ^ part)
    })
}

/// A hash that stands for these parts.
pub(crate) fn hash(parts: &[u64]) -> Hash32 {
    Hash32(Rng::of(parts).bytes())
}

/// The value whose share a number falls into, where shares lie end to end from 0 on; none after the last.
pub(crate) fn by_share<T: Copy>(shares: &[(u64, T)], mut number: u64) -> Option<T> {
    let mut shares = shares.iter();
    shares.find_map(|&(share, value)| match number.checked_sub(share) {
        None => Some(value),
        Some(rest) => {
            number = rest;
            None
        }
    })
}

fn finalize(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Draws ranks whose chance falls about like 1/rank. Ranks lie in octaves (1, 2..4, 4..8, …):
/// first an octave by its weight, then any rank inside it. Equal weights give a Zipf law with
/// exponent one, cut into stairs.
#[derive(Clone, Debug)]
pub(crate) struct Octaves {
    /// As many entries for an octave as its weight.
    slots: Vec<u8>,
}

impl Octaves {
    /// Octaves `first`, `first + 1`, … with these weights; the last must be below 32.
    pub(crate) fn new(first: u8, weights: &[u8]) -> Self {
        let octaves = (first..).zip(weights);
        let slots =
            octaves.flat_map(|(octave, &weight)| std::iter::repeat_n(octave, weight.into()));
        Self {
            slots: slots.collect(),
        }
    }

    /// A rank, at least 1.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        // The upper half chooses the octave, the lower half the rank: independent bits.
        let random = rng.next();
        let slot = ((random >> 32) * self.slots.len() as u64) >> 32;
        let octave = self.slots.get(slot as usize).copied().unwrap_or_default();
        let size = 1_u64 << octave;
        size + (random & (size - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden numbers: a change here changes every chain that any seed ever named.
    #[test]
    fn the_streams_never_change() {
        let mut rng = Rng(0);
        assert_eq!(
            rng.next(),
            0xe220_a839_7b1d_cdaf,
            "SplitMix64's published first output"
        );
        assert_eq!(rng.next(), 0x6e78_9e6a_a1b9_65f4);
        assert_ne!(key(&[1, 2]), key(&[2, 1]));
        assert_ne!(key(&[0]), key(&[0, 0]));
    }

    #[test]
    fn octaves_halve_from_one_to_the_next() {
        let octaves = Octaves::new(0, &[1, 1, 1, 1]);
        let mut rng = Rng::of(&[7]);
        let mut counts = [0_u32; 16];
        for _ in 0..16_000 {
            counts[octaves.draw(&mut rng) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!((3_600..4_400).contains(&counts[1]), "{counts:?}");
        assert!((1_750..2_250).contains(&counts[3]), "{counts:?}");
        assert!((400..600).contains(&counts[15]), "{counts:?}");
    }

    #[test]
    fn bytes_have_the_wanted_length() {
        let mut rng = Rng::of(&[1]);
        assert_eq!(rng.vec(13).len(), 13);
        assert_eq!(rng.vec(0).len(), 0);
        assert_ne!(rng.bytes::<20>(), [0; 20]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.pick::<u8>(&[]), None);
    }
}

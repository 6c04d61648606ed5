//! Keys out of a seed: any of them is made again when it is needed, so none is kept.

use chronolith_model::BlockRange;

/// Blocks of a range.
pub(crate) const BLOCKS: u64 = 10_000_000;
const SAMPLES: u64 = 2_000_000;

/// A number mixed so that every bit depends on every other; no two numbers give the same.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// So many keys, in the order of their blocks.
pub(crate) struct Keys {
    seed: u64,
    count: u64,
}

impl Keys {
    pub(crate) fn new(seed: u64, count: u64) -> Self {
        Self { seed, count }
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// The first 64 bits of a hash.
    pub(crate) fn key(&self, at: u64) -> u64 {
        mix(at.wrapping_add(self.seed << 48))
    }

    /// One that is not among them.
    pub(crate) fn absent(&self, at: u64) -> u64 {
        self.key(self.count + at)
    }

    /// The block of a key.
    pub(crate) fn block(&self, at: u64) -> u64 {
        (u128::from(at) * u128::from(BLOCKS) / u128::from(self.count)) as u64
    }

    /// The keys of some blocks.
    pub(crate) fn of_blocks(&self, blocks: &BlockRange) -> std::ops::Range<u64> {
        let first = |block: u64| {
            let at = u128::from(block) * u128::from(self.count);
            at.div_ceil(u128::from(BLOCKS)) as u64
        };
        first(blocks.start)..first(blocks.end)
    }

    /// Which keys are looked up: some, at random.
    pub(crate) fn sample(&self) -> impl Iterator<Item = u64> {
        (0..SAMPLES).map(|at| mix(at ^ 0x5eed) % self.count)
    }

    pub(crate) fn samples(&self) -> u64 {
        SAMPLES
    }
}

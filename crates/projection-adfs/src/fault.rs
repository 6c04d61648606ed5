//! Why calldata is refused, and at which byte.

/// Calldata that is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{cause} at byte {offset}")]
pub struct Fault {
    /// The byte of the ADFS calldata where it is wrong; for a length that is refused, where it stands.
    pub offset: usize,
    pub cause: Cause,
}

/// Which guard refused it, as metrics name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// More feeds than the limit.
    FeedsLength,
    /// More bytes than the limit.
    CalldataSize,
    /// An index outside of the ring.
    RbIndex,
    Malformed,
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The calldata ends before something does.
    #[error("calldata ends in {what} (need={need}, left={left})")]
    Truncated {
        /// What the bytes were for.
        what: &'static str,
        /// How many bytes it takes; `usize::MAX` for more than can be counted.
        need: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// Not the call that updates feeds.
    #[error("selector is not 0x01, the one that updates feeds (selector={found:#04x})")]
    Selector { found: u8 },
    /// A stride that does not exist.
    #[error("stride is above 31 (stride={found})")]
    Stride { found: u8 },
    /// A length of a number that the contract cannot read.
    #[error("head is longer than the 32 bytes that the contract reads (bytes={bytes})")]
    HeadTooLong {
        /// How long it would be.
        bytes: usize,
    },
    /// A feed outside of the space of its stride, or nothing at index 0.
    #[error("feed is not in the space of its stride (stride={stride})")]
    OutsideStride { stride: u8 },
    /// A row that does not exist.
    #[error("index of a row is not below 2^116")]
    TableIndex,
    /// A lane outside of the ring.
    #[error("lane is above 8191, and the profile refuses that (lane={lane}, value={value})")]
    Lane {
        /// Which of the sixteen.
        lane: usize,
        value: u16,
    },
    /// More feeds than the limit.
    #[error("more feeds than the limit (feeds={found}, limit={limit})")]
    TooManyFeeds {
        /// How many it says there are.
        found: u32,
        /// How many there may be.
        limit: u32,
    },
    /// More feeds than the bytes that are left can hold.
    #[error("more feeds than the bytes that are left can hold (feeds={found}, left={left})")]
    FeedsBeyondEnd {
        /// How many it says there are.
        found: u32,
        /// How many bytes there are.
        left: usize,
    },
    /// More bytes than the limit.
    #[error("calldata is larger than the limit (bytes={found}, limit={limit})")]
    TooLarge {
        found: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl Cause {
    pub(crate) const fn at(self, offset: usize) -> Fault {
        let cause = self;
        Fault { offset, cause }
    }
}

impl Fault {
    /// Which guard refused it.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self.cause {
            Cause::TooManyFeeds { .. } => Reason::FeedsLength,
            Cause::TooLarge { .. } => Reason::CalldataSize,
            Cause::Lane { .. } => Reason::RbIndex,
            _ => Reason::Malformed,
        }
    }
}

impl Reason {
    /// The value of the label `reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FeedsLength => "feedsLength",
            Self::CalldataSize => "calldataSize",
            Self::RbIndex => "rbIndex",
            Self::Malformed => "malformed",
        }
    }
}

//! What can go wrong, and what the caller does about it.

use chronolith_model::{BlockFault, BlockRange, BlockRef, ErrorKind, Hash32};

use crate::format::compress::NotPacked;

/// The archive's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong in the archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request or a setting that is invalid.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The next block to ingest is another one.
    #[error("blocks are missing before the batch (expected={expected}, got={got})")]
    Gap {
        /// The block that ingest waits for.
        expected: u64,
        /// The first block of the batch.
        got: u64,
    },
    /// A block does not name the block before it as its parent.
    #[error(
        "block does not link to its parent (block={number}, names={names}, expected={expected})"
    )]
    BadParent {
        number: u64,
        names: Hash32,
        /// The hash of the block before it.
        expected: Hash32,
    },
    /// A block breaks the rules of its chain.
    #[error("block breaks the chain's rules (block={number}): {fault}")]
    BadBlock {
        number: u64,
        /// What is wrong with it.
        fault: BlockFault,
    },
    /// A finalized block was replaced. The archive is halted until an operator acts.
    #[error("a finalized block was replaced (block={}, archived={}, offered={offered})", archived.number, archived.hash)]
    FinalityViolation {
        /// The block as it is archived.
        archived: BlockRef,
        /// The hash that was offered instead.
        offered: Hash32,
    },
    /// A block is archived with the same hash and other content, and what was offered may not replace it.
    #[error(
        "blocks {} hold other content than was archived with the same hashes (first={block}, object={object}); only \
         blocks that are proven further, or as far as their hashes allow, may replace it",
        inclusive(archived)
    )]
    OtherContent {
        /// The first such block.
        block: u64,
        /// The blocks of the archived object.
        archived: BlockRange,
        object: String,
    },
    /// Ingest is halted. Serving continues.
    #[error("ingest is halted: {reason}; end it with `resume` or `rewind`")]
    Halted { reason: String },
    /// Too much garbage: ingest waits for collection.
    #[error("ingest is throttled: {guardrail} is {value}, limit {limit}; run garbage collection")]
    Throttled {
        guardrail: &'static str,
        value: u64,
        limit: u64,
    },
    /// Another writer took over. This one must stop.
    #[error("fenced by a newer writer (our_epoch={ours}, epoch={theirs})")]
    Fenced {
        /// The epoch this writer holds.
        ours: u64,
        /// The epoch that the state holds.
        theirs: u64,
    },
    /// The archive was opened for reading.
    #[error("the archive is open for reading only")]
    ReadOnly,
    /// Not provably all there: neither an empty nor a shorter answer would be the truth.
    #[error(
        "blocks {} are not covered for this request; covered around there: {}",
        inclusive(missing),
        inclusive(covered)
    )]
    NotCovered {
        /// The first blocks that are missing.
        missing: BlockRange,
        /// What is covered around or before them.
        covered: BlockRange,
    },
    /// A block hash that the archive does not know.
    #[error("unknown block (hash={hash})")]
    UnknownBlock { hash: Hash32 },
    /// The cursor's block is not the archived one.
    #[error("the cursor's block was replaced (block={}, cursor={}, archived={archived})", cursor.number, cursor.hash)]
    CursorConflict {
        /// The block that the cursor names.
        cursor: BlockRef,
        /// The archived hash at that height.
        archived: Hash32,
    },
    /// A budget was used up.
    #[error("query exceeds {budget} ({limit}); {}", suggest(fits.as_ref()))]
    TooLarge {
        budget: Budget,
        limit: u64,
        /// The largest range from the query's beginning that fits, if one does.
        fits: Option<BlockRange>,
    },
    /// Other answers have the memory that the caller allows.
    #[error("too many large answers at once: retry")]
    NoMemory,
    /// A list of alternatives is too long.
    #[error("query too broad (alternatives={actual}, max={max})")]
    TooBroad {
        actual: usize,
        /// How many there may be.
        max: usize,
    },
    /// A stored object is damaged or gone.
    #[error("stored object is damaged (object={object}): {reason}")]
    Corrupt {
        object: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Bytes could not be compressed, most likely for want of memory. Nothing of them was published.
    #[error(
        "could not compress, and published nothing of it: {reason}; see that the machine has free memory, it is tried again"
    )]
    NotPacked {
        /// Why, in the words of the library.
        reason: &'static str,
    },
    /// There are objects and no state that names them. Nothing is collected, nothing is written.
    #[error(
        "the state of this archive is lost: there are objects and no state names them \
         (object={object}); run `chronolith archive rebuild-state`, or move the objects away to begin \
         a new archive"
    )]
    StateLost { object: String },
    /// A bug: work that cannot fail did.
    #[error("internal error, please report it: {0}")]
    Internal(String),
    #[error("store failed to {context}: {source}")]
    Store {
        context: &'static str,
        source: chronolith_store::Error,
    },
}

impl From<NotPacked> for Error {
    fn from(NotPacked(reason): NotPacked) -> Self {
        Self::NotPacked { reason }
    }
}

/// A range as users read it: the last block is in it.
fn inclusive(range: &BlockRange) -> String {
    match range.len() {
        0 => "none".to_owned(),
        1 => format!("{}", range.start),
        _ => format!("{} to {}", range.start, range.end - 1),
    }
}

fn suggest(fits: Option<&BlockRange>) -> String {
    match fits {
        Some(range) => format!("retry with blocks {}-{}", range.start, range.end - 1),
        None => "no smaller range fits, narrow the filter".to_owned(),
    }
}

/// A limit on what one query may cost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Budget {
    /// Logs in an answer.
    Results,
    /// Bytes in an answer.
    Bytes,
    /// Logs looked at.
    Candidates,
    Deadline,
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Results => "max results",
            Self::Bytes => "max bytes",
            Self::Candidates => "max candidates",
            Self::Deadline => "its deadline in ms",
        })
    }
}

impl Error {
    /// What the caller must do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_)
            | Self::OtherContent { .. }
            | Self::Gap { .. }
            | Self::BadParent { .. }
            | Self::BadBlock { .. }
            | Self::ReadOnly
            | Self::TooBroad { .. } => ErrorKind::Invalid,
            Self::NotCovered { .. } | Self::UnknownBlock { .. } => ErrorKind::NotFound,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::FinalityViolation { .. } | Self::Halted { .. } | Self::CursorConflict { .. } => {
                ErrorKind::Disagreement
            }
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::Throttled { .. }
            | Self::NotPacked { .. }
            | Self::Store { .. }
            | Self::NoMemory => ErrorKind::Unavailable,
            Self::Corrupt { .. } | Self::StateLost { .. } => ErrorKind::Corrupt,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Blocks that are there, but not with what the request needs.
    pub(crate) fn not_covered(missing: BlockRange) -> Self {
        let covered = BlockRange::new(missing.start, missing.start);
        Self::NotCovered { missing, covered }
    }

    pub(crate) fn damaged(object: &str, reason: impl Into<String>) -> Self {
        let (object, reason) = (object.to_owned(), reason.into());
        Self::Corrupt { object, reason }
    }

    /// A store's error while reading an object that the state names.
    pub(crate) fn reading(object: &str, source: chronolith_store::Error) -> Self {
        match source {
            chronolith_store::Error::NotFound { .. } => Self::damaged(object, "it is gone"),
            chronolith_store::Error::Corrupt { reason } => Self::damaged(object, reason),
            source => Self::Store {
                context: "read an object",
                source,
            },
        }
    }

    pub(crate) fn store(context: &'static str) -> impl FnOnce(chronolith_store::Error) -> Self {
        move |source| Self::Store { context, source }
    }
}

/// How something ended, for spans: why it failed is in the error, which is traced where it is handled.
pub(crate) fn outcome_name<T, E>(result: &std::result::Result<T, E>) -> &'static str {
    match result {
        Ok(_) => "success",
        Err(_) => "error",
    }
}

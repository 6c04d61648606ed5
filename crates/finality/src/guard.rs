//! A guard against reorgs that are none.
//!
//! An endpoint that fell behind or is syncing serves old blocks, and a pool that switches to it
//! looks like a chain that rolled back hundreds of blocks. Shallow reorgs pass: they are normal, and
//! a mistake is repaired by the next block.

/// What is known of the endpoint that reports a reorg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub head: u64,
    /// Whether it reports that it is syncing.
    pub syncing: bool,
}

/// Why a deep reorg is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("deep reorg from an endpoint that is syncing (depth={depth}, max={max})")]
    Syncing {
        /// How many of our blocks would go.
        depth: u64,
        /// How many may go without a question.
        max: u64,
    },
    /// The endpoint is behind us.
    #[error(
        "deep reorg from an endpoint behind us (depth={depth}, max={max}, ours={ours}, theirs={theirs})"
    )]
    HeadRegressed {
        /// How many of our blocks would go.
        depth: u64,
        /// How many may go without a question.
        max: u64,
        ours: u64,
        theirs: u64,
    },
}

/// Whether a reorg of `depth` blocks below `ours` may be taken from this endpoint.
pub(crate) fn check(
    depth: u64,
    max: u64,
    ours: Option<u64>,
    endpoint: &Endpoint,
) -> Result<(), Refused> {
    if depth <= max {
        return Ok(());
    }
    if endpoint.syncing {
        return Err(Refused::Syncing { depth, max });
    }
    match ours {
        Some(ours) if endpoint.head < ours => Err(Refused::HeadRegressed {
            depth,
            max,
            ours,
            theirs: endpoint.head,
        }),
        _ => Ok(()),
    }
}

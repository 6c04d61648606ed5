//! Why a question has no answer, before it is put into the words of an interface.

use chronolith_archive::Error as ArchiveError;
use chronolith_model::Dataset;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Archive(#[from] ArchiveError),
    /// Something is asked for that this chain does not keep.
    #[error("{} are not kept for this chain: add `{}` to its datasets", what(*.0), .0.name())]
    NotKept(Dataset),
    /// Tail and archive did not fit together for long.
    #[error("the chain is being rearranged: ask again")]
    Unsettled,
    #[error("no block is indexed yet: ask again when the node has caught up")]
    Empty,
    #[error("too many requests at once: ask again")]
    Busy,
}

fn what(dataset: Dataset) -> &'static str {
    match dataset {
        Dataset::Clock => "blocks",
        Dataset::Headers => "whole headers",
        Dataset::Logs => "logs",
        Dataset::TxHashes => "transaction hashes",
        Dataset::Transactions => "whole transactions",
        Dataset::Payload => "raw blocks",
    }
}

//! Why a query fails, independent of the API that reports it.

use chronolith_archive::Error as ArchiveError;
use chronolith_model::Dataset;

/// Why a query fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Archive(#[from] ArchiveError),
    /// The chain does not keep this dataset.
    #[error("{} are not kept for this chain: add `{}` to its datasets", what(*.0), .0.name())]
    NotKept(Dataset),
    /// Tail and archive did not join to one chain within the time for it.
    #[error("the chain is being reorganized: retry")]
    Unsettled,
    #[error("no block is indexed yet: retry when the node has caught up")]
    Empty,
    /// Nothing indexed has the requested hash, and blocks that are not indexed yet may have it.
    #[error("{}", not_yet(*.indexed, *.source_head))]
    NotYet {
        /// The newest indexed block.
        indexed: u64,
        /// The source's newest block, where it is known.
        source_head: Option<u64>,
    },
    #[error("too many requests at once: retry")]
    Busy,
}

/// Whether the same query may succeed a moment later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    No,
    /// With a newer state of the archive.
    NewerState,
    /// When other queries have ended.
    LessBusy,
    /// When tail and archive are one chain again, or the store answers.
    Later,
    /// When the blocks that were just seen are indexed.
    Indexed,
}

/// At most this many blocks are indexed in a moment.
const RETRY_BLOCKS_MAX: u64 = 16;

impl Fault {
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Archive(ArchiveError::Corrupt { .. }) => Retry::NewerState,
            Self::Busy | Self::Archive(ArchiveError::NoMemory) => Retry::LessBusy,
            Self::Unsettled | Self::Archive(ArchiveError::Store { .. }) => Retry::Later,
            Self::NotYet {
                indexed,
                source_head: Some(head),
            } if head.abs_diff(*indexed) <= RETRY_BLOCKS_MAX => Retry::Indexed,
            _ => Retry::No,
        }
    }
}

fn not_yet(indexed: u64, source_head: Option<u64>) -> String {
    let newer = match source_head {
        Some(head) if head > indexed => format!("the source is at {head}: retry"),
        // It has another block at the same height, or did not answer lately.
        Some(_) => "the source may be ahead: retry".to_owned(),
        None => "this node follows no source: request it from one that does".to_owned(),
    };
    format!(
        "nothing through block {indexed} has this hash, newer blocks are not indexed yet: {newer}"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_hash_is_reported_with_the_indexed_height() {
        let message = |source_head| {
            let fault = Fault::NotYet {
                indexed: 40,
                source_head,
            };
            fault.to_string()
        };
        let all = "nothing through block 40 has this hash, newer blocks are not indexed yet: ";
        assert_eq!(
            message(Some(80)),
            format!("{all}the source is at 80: retry")
        );
        for (source_head, text) in [(Some(40), "may be ahead"), (None, "follows no source")] {
            let message = message(source_head);
            assert!(
                message.starts_with(all) && message.contains(text),
                "{message}"
            );
        }
    }
}

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
    /// Nothing has the hash that is asked for, and blocks that are not indexed may have it.
    #[error("{}", not_yet(*.indexed, *.source_head))]
    NotYet {
        /// The newest block that was looked at.
        indexed: u64,
        /// The source's newest block, where it is known.
        source_head: Option<u64>,
    },
    #[error("too many requests at once: ask again")]
    Busy,
}

/// Whether the same question may go well a moment later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    /// It will not.
    No,
    /// With a newer state of the archive.
    NewerState,
    /// When others have their answers.
    LessBusy,
    /// When the blocks that were just seen are indexed.
    Indexed,
}

/// So few blocks are indexed in a moment.
const RETRY_BLOCKS_MAX: u64 = 16;

impl Fault {
    /// Whether it is over in a moment.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Archive(ArchiveError::Corrupt { .. }) => Retry::NewerState,
            Self::Busy => Retry::LessBusy,
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
        Some(head) if head > indexed => format!("the source is at {head}: ask again"),
        // It is at the same height with another block, or was not asked lately.
        Some(_) => "the source may be further: ask again".to_owned(),
        None => "this node follows no source: ask one that does".to_owned(),
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
    fn a_hash_that_may_come_yet_is_told_with_how_far_we_are() {
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
            format!("{all}the source is at 80: ask again")
        );
        for (source_head, word) in [(Some(40), "may be further"), (None, "follows no source")] {
            let message = message(source_head);
            assert!(
                message.starts_with(all) && message.contains(word),
                "{message}"
            );
        }
    }
}

//! Why a round, a fill or maintenance failed.

use chronolith_archive::Error as ArchiveError;
use chronolith_model::ErrorKind;
use chronolith_source::Error as SourceError;

/// Why a round ended early, or a fill did not finish.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("{0}")]
    Source(#[from] SourceError),
    #[error("{0}")]
    Archive(#[from] ArchiveError),
    /// Endpoints are on different forks at the moment: the next round may succeed.
    #[error("{0}")]
    Unsettled(String),
    /// The tail has no room for more: no block is accepted until some of it is final.
    #[error("{0}")]
    TailFull(String),
    /// No retry helps until an operator changes the settings or the source.
    #[error("{0}")]
    Refused(String),
    /// An operation of an operator waits for the end of the round.
    #[error("an operation of an operator goes first")]
    Interrupted,
    /// Maintenance beside the rounds failed.
    #[error("{message}")]
    Maintenance { kind: ErrorKind, message: String },
    #[error("{0}")]
    Other(String),
}

impl FollowError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Source(error) => error.kind(),
            Self::Archive(error) => error.kind(),
            Self::Unsettled(_) | Self::TailFull(_) | Self::Interrupted => ErrorKind::Unavailable,
            Self::Refused(_) => ErrorKind::Invalid,
            Self::Maintenance { kind, .. } => *kind,
            Self::Other(_) => ErrorKind::Internal,
        }
    }
}

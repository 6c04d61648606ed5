//! Why a round, a fill or maintenance failed.

use chronolith_archive::Error as ArchiveError;
use chronolith_model::ErrorKind;
use chronolith_source::{Error as SourceError, FailureClass};

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
    /// Endpoints contradict each other or themselves; the message names them.
    #[error("{0}")]
    Disagreement(String),
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
            Self::Unsettled(_) | Self::Disagreement(_) | Self::TailFull(_) | Self::Interrupted => {
                ErrorKind::Unavailable
            }
            Self::Refused(_) => ErrorKind::Invalid,
            Self::Maintenance { kind, .. } => *kind,
            Self::Other(_) => ErrorKind::Internal,
        }
    }

    /// What everybody may read of it: no words of a provider, no names of machines, no paths.
    #[must_use]
    pub fn public_text(&self) -> String {
        match self {
            Self::Source(error) => of_source(error.class()),
            Self::Archive(error) => of_archive(error),
            Self::Unsettled(text) | Self::TailFull(text) => text.clone(),
            Self::Disagreement(_) => "the endpoints disagree: nothing more is archived".to_owned(),
            Self::Refused(_) => "a setting does not fit the chain".to_owned(),
            Self::Maintenance { message, .. } => of_storage("maintenance failed", message),
            Self::Interrupted | Self::Other(_) => "an internal error".to_owned(),
        }
    }
}

/// What everybody may read of a source that failed.
#[must_use]
pub fn of_source(class: FailureClass) -> String {
    format!("the source failed: {class}")
}

/// What everybody may read of an archive's error. Those of the store may name paths and machines.
#[must_use]
pub fn of_archive(error: &ArchiveError) -> String {
    match error {
        ArchiveError::Store { context, source } => of_storage(
            &format!("the store failed to {context}"),
            &source.to_string(),
        ),
        error => error.to_string(),
    }
}

/// A full disk is visible from outside: it is the most frequent cause, and names nothing.
fn of_storage(what: &str, cause: &str) -> String {
    const FULL: &str = "No space left on device";
    if cause.contains(FULL) {
        format!("{what}: {FULL}")
    } else {
        what.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use chronolith_store::Error as StoreError;

    use super::*;

    #[test]
    fn public_texts_name_no_machine_and_quote_no_provider() {
        let refused = || SourceError::Unavailable {
            endpoint: "10.1.2.3:8545".to_owned(),
            reason: "eth_call: your key 10.1.2.3 (-32000)".to_owned(),
            class: FailureClass::Refused,
            retry_after: None,
        };
        let store = |cause: &str| ArchiveError::Store {
            context: "write the state",
            source: StoreError::Unavailable {
                context: "10.1.2.3".to_owned(),
                source: Some(Box::new(std::io::Error::other(cause.to_owned()))),
            },
        };
        let full = "No space left on device (os error 28)";
        for (error, expected) in [
            (
                FollowError::Source(SourceError::Exhausted(Box::new(refused()))),
                "the source failed: request refused",
            ),
            (
                FollowError::Archive(store("10.1.2.3")),
                "the store failed to write the state",
            ),
            (
                FollowError::Archive(store(full)),
                "the store failed to write the state: No space left on device",
            ),
            (
                FollowError::Disagreement("10.1.2.3 has another".to_owned()),
                "the endpoints disagree: nothing more is archived",
            ),
            (
                FollowError::Refused(refused().to_string()),
                "a setting does not fit the chain",
            ),
            (
                FollowError::Maintenance {
                    kind: ErrorKind::Unavailable,
                    message: format!("write object (path=/10.1.2.3): {full}"),
                },
                "maintenance failed: No space left on device",
            ),
            (
                FollowError::Other("10.1.2.3".to_owned()),
                "an internal error",
            ),
        ] {
            assert!(!error.to_string().is_empty());
            assert_eq!(error.public_text(), expected);
        }
    }
}

//! What can go wrong in a store. Four kinds, no domain words.

use crate::Version;

/// A store's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong in a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such object.
    #[error("object not found (name={name})")]
    NotFound {
        /// Which object.
        name: String,
    },
    /// A precondition did not hold, and nothing was changed.
    #[error("precondition failed: {reason}")]
    Conflict {
        /// What did not hold.
        reason: String,
    },
    /// The store could not be reached or failed. Whether the operation took effect is unknown.
    #[error("store unavailable: {context}")]
    Unavailable {
        /// What was being done.
        context: String,
        /// Why it failed.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Stored bytes are not what was stored.
    #[error("stored bytes are corrupt: {reason}")]
    Corrupt {
        /// What is wrong with them.
        reason: String,
    },
}

impl Error {
    /// An operation that failed with a cause.
    pub fn unavailable(
        context: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable {
            context: context.into(),
            source: Some(source.into()),
        }
    }

    /// There is no object of this name.
    pub(crate) fn not_found(name: &str) -> Self {
        Self::NotFound {
            name: name.to_owned(),
        }
    }

    /// The record is not, or no longer, at the version that a swap expected.
    pub(crate) fn stale(expected: Option<Version>) -> Self {
        let reason = match expected {
            Some(version) => format!("the record is at another version (expected={})", version.0),
            None => "there is a record already".to_owned(),
        };
        Self::Conflict { reason }
    }
}

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
    NotFound { name: String },
    /// A precondition did not hold, and nothing was changed.
    #[error("precondition failed: {reason}")]
    Conflict {
        /// What did not hold.
        reason: String,
    },
    /// The store could not be reached or failed. Whether the operation took effect is unknown.
    #[error("store unavailable: {context}{}", causes(source.as_deref()))]
    Unavailable {
        context: String,
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

/// A cause, and what caused it in turn, as the end of a message: only the text of the operating system
/// distinguishes a full disk from a broken one. A text that is there already is not repeated.
fn causes(source: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> String {
    let mut all = String::new();
    let mut next = source.map(|source| source as &dyn std::error::Error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !all.contains(&text) {
            all = format!("{all}: {text}");
        }
        next = cause.source();
    }
    all
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

    /// An operation that failed without a cause.
    pub(crate) fn without_cause(context: impl Into<String>) -> Self {
        Self::Unavailable {
            context: context.into(),
            source: None,
        }
    }

    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::Conflict {
            reason: reason.into(),
        }
    }

    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        Self::Corrupt {
            reason: reason.into(),
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
        Self::conflict(match expected {
            Some(version) => format!("the record is at another version (expected={})", version.0),
            None => "there is a record already".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk was full, and the log had `write object (path=…)` and nothing of the disk: the cause
    /// was kept beside the message, where no log and no answer of `/health` looks.
    #[test]
    fn the_cause_is_in_the_message() {
        let full = std::io::Error::from_raw_os_error(28);
        let error = Error::unavailable("write object (path=/data/x)", full);
        let text = error.to_string();
        assert_eq!(
            text,
            "store unavailable: write object (path=/data/x): No space left on device (os error 28)"
        );
        let none = Error::Unavailable {
            context: "load record".to_owned(),
            source: None,
        };
        assert_eq!(none.to_string(), "store unavailable: load record");
        // A cause that quotes its own cause is not followed by it again.
        let outer = std::io::Error::other(std::io::Error::from_raw_os_error(28));
        let text = Error::unavailable("sync", outer).to_string();
        assert_eq!(text.matches("No space left").count(), 1, "{text}");
    }
}

//! What can go wrong, and what the caller does about it.

use std::error::Error as StdError;

use chronolith_archive::Error as ArchiveError;
use chronolith_model::ErrorKind;
use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

/// The result of a projection.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong in a projection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be reached, or gave up: a later retry may succeed.
    #[error("the database is unavailable: {context}: {reason}")]
    Unavailable { context: String, reason: String },
    /// The database refuses a statement, and will refuse it again.
    #[error("the database refuses: {context}: {reason}")]
    Refused { context: String, reason: String },
    /// A setting that is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The tables are of another version than this program's.
    #[error(
        "the database has schema version {found}, this program wants {wanted}: {}",
        if *.found < *.wanted { "run `chronolith db init`" } else { "use the program that wrote it, or a newer one" }
    )]
    Schema {
        /// The version of the tables; 0 where there are none.
        found: i32,
        /// The version that is wanted.
        wanted: i32,
    },
    /// Another process holds what was ours.
    #[error("{what} was taken over (our epoch {epoch})")]
    Fenced {
        /// A lease or a job.
        what: String,
        /// The epoch that was ours.
        epoch: i64,
    },
    /// What the database calls final is not what the archive has.
    #[error("{0}")]
    Conflict(String),
    /// The archive does not answer.
    #[error("{0}")]
    Archive(#[from] ArchiveError),
}

impl Error {
    /// What sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Refused { .. } => ErrorKind::Internal,
            Self::Invalid(_) | Self::Schema { .. } => ErrorKind::Invalid,
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::Conflict(_) => ErrorKind::Disagreement,
            Self::Archive(error) => error.kind(),
        }
    }

    pub(crate) fn of_pool(context: &str, error: &PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::of(context, error),
            other => Self::Unavailable {
                context: context.to_owned(),
                reason: other.to_string(),
            },
        }
    }

    /// What a failed statement means. The text of the server is reported, never the values.
    pub(crate) fn of(context: &str, error: &tokio_postgres::Error) -> Self {
        let context = context.to_owned();
        match error.as_db_error() {
            Some(refused) => {
                let reason = format!("{} ({})", refused.message(), refused.code().code());
                // A partition that was removed meanwhile is made again; a row that breaks a rule is not
                // repaired by trying it again.
                let homeless = refused.message().starts_with("no partition of relation");
                match is_passing(refused.code()) || homeless {
                    true => Self::Unavailable { context, reason },
                    false => Self::Refused { context, reason },
                }
            }
            None => {
                let mut reason = reasons(error);
                if let Some(advice) = crate::tls::advice(error) {
                    reason = format!("{reason}: {advice}");
                }
                Self::Unavailable { context, reason }
            }
        }
    }
}

/// An error with those below it, which say what its own words leave out.
fn reasons(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(one) = below {
        text = format!("{text}: {one}");
        below = one.source();
    }
    text
}

/// Whether the same statement may be taken another time: the server was busy, full, restarting, or
/// undid it because of another one.
fn is_passing(code: &SqlState) -> bool {
    // Connections, transactions undone, resources, an operator's or the server's own act, its disk.
    const CLASSES: [&str; 5] = ["08", "40", "53", "57", "58"];
    let code = code.code();
    CLASSES.iter().any(|class| code.starts_with(class))
        // A lock or a statement that waited too long; a partition that came or went meanwhile.
        || ["55P03", "25P03", "25006", "42P01", "42P07"].contains(&code)
}

/// Says what was tried when a statement fails.
pub trait Tried<T> {
    /// # Errors
    /// The statement failed.
    fn tried(self, what: &str) -> Result<T>;
}

impl<T> Tried<T> for std::result::Result<T, tokio_postgres::Error> {
    fn tried(self, what: &str) -> Result<T> {
        self.map_err(|error| Error::of(what, &error))
    }
}

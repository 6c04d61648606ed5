//! What a caller must do about an error.

/// Eight kinds of error; each implies what the caller does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// A bad request or setting: fix it.
    Invalid,
    /// Unknown, pruned or past the head: an answer, not a fault.
    NotFound,
    /// A named limit was hit: continue with what the error carries.
    TooLarge,
    /// Storage, database or endpoint down or slow: retry after a pause.
    Unavailable,
    /// A newer epoch owns this chain: stop writing, never retry.
    Fenced,
    /// Sources contradict each other or published history: an operator decides.
    Disagreement,
    /// Stored bytes fail a check: restore or derive them again.
    Corrupt,
    Internal,
}

//! Errors in the words that clients of nodes know.

use chronolith_archive::{Budget, Error as ArchiveError};
use serde_json::{Value, json};

use crate::fault::{Again, Fault};

/// What a call answers instead of a result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
    /// Whether the same may go well a moment later.
    pub(crate) again: Again,
}

pub(crate) const PARSE: i64 = -32_700;
pub(crate) const INVALID_REQUEST: i64 = -32_600;
pub(crate) const NO_SUCH_METHOD: i64 = -32_601;
pub(crate) const INVALID_PARAMS: i64 = -32_602;
pub(crate) const INTERNAL: i64 = -32_603;
pub(crate) const SERVER: i64 = -32_000;
pub(crate) const LIMIT: i64 = -32_005;
/// History that is not there: what the specification of `eth_getLogs` says of pruned blocks.
pub(crate) const PRUNED: i64 = 4_444;
/// A tag that names no block yet.
pub(crate) const UNKNOWN_TAG: i64 = -39_001;
/// The caller's fork is not ours.
pub(crate) const CONFLICT: i64 = -32_009;

/// Signs of a message at the most.
const MESSAGE_MAX: usize = 400;

/// A message, cut where it is long: what was sent may be in it.
pub(crate) fn brief(message: impl Into<String>) -> String {
    let mut message: String = message.into();
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
        message.truncate(end);
        message.push('…');
    }
    message
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: brief(message),
            data: None,
            again: Again::No,
        }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(crate) fn unknown_block() -> Self {
        Self::new(SERVER, "Block not found.")
    }

    pub(crate) fn as_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (Some(data), Some(fields)) = (&self.data, error.as_object_mut()) {
            fields.insert("data".to_owned(), data.clone());
        }
        error
    }
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        let (again, said) = (fault.again(), fault.to_string());
        let error = match fault {
            Fault::Archive(error) => error.into(),
            Fault::NotKept(_) => Self::new(PRUNED, format!("pruned history unavailable: {said}")),
            Fault::Unsettled | Fault::Empty => Self::new(SERVER, said),
            Fault::NotYet {
                indexed,
                source_head,
            } => Self {
                data: Some(json!({ "indexedUpTo": indexed, "sourceHead": source_head })),
                ..Self::new(SERVER, said)
            },
            Fault::Busy => Self::new(LIMIT, said),
        };
        Self { again, ..error }
    }
}

impl From<ArchiveError> for RpcError {
    fn from(error: ArchiveError) -> Self {
        let said = error.to_string();
        match error {
            ArchiveError::NotCovered { missing, covered } => Self {
                code: PRUNED,
                message: format!("pruned history unavailable: {said}"),
                data: Some(json!({
                    "missing": [missing.start, missing.end.saturating_sub(1)],
                    "covered": (!covered.is_empty()).then(|| [covered.start, covered.end - 1]),
                })),
                again: Again::No,
            },
            ArchiveError::TooLarge {
                budget,
                limit,
                fits,
            } => {
                let what = match budget {
                    Budget::Results => "max results",
                    Budget::Bytes => "max response bytes",
                    Budget::Candidates => "max candidates",
                    Budget::Deadline => "max milliseconds",
                };
                // Two spellings: between them, the clients that split ranges by themselves know both.
                let hint = fits.map_or_else(
                    || "narrow the filter".to_owned(),
                    |fits| {
                        let (from, to) = (fits.start, fits.end.saturating_sub(1));
                        format!(
                            "retry with the range {from}-{to}, this block range should work: [0x{from:x}, 0x{to:x}]"
                        )
                    },
                );
                Self::new(LIMIT, format!("query exceeds {what} {limit}, {hint}"))
            }
            ArchiveError::UnknownBlock { .. } => Self::unknown_block(),
            ArchiveError::Invalid(_) | ArchiveError::TooBroad { .. } => Self::params(said),
            ArchiveError::CursorConflict { cursor, archived } => Self {
                code: CONFLICT,
                message: said,
                data: Some(json!({
                    "number": cursor.number,
                    "expected": cursor.hash.to_string(),
                    "hash": archived.to_string(),
                })),
                again: Again::No,
            },
            error => {
                // Where files lie is nobody's business: it is in the log.
                tracing::error!(%said, "an answer was not possible");
                Self {
                    again: Fault::Archive(error).again(),
                    ..Self::new(
                        INTERNAL,
                        "the archive cannot be read right now: the log says why",
                    )
                }
            }
        }
    }
}

//! The range of ledgers: part of every answer, and of the error for ledgers outside.

use std::io::Write as _;

use super::wire::PageStart;
use crate::error::{ApiError, ErrorCode, brief};
use crate::view::View;

/// The oldest and the newest ledger; none between them is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    pub(super) oldest: u64,
    pub(super) oldest_time: u64,
    pub(super) latest: u64,
    pub(super) latest_time: u64,
}

/// How an answer writes the times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimeFormat {
    /// `latestLedgerCloseTime`, a string.
    Text,
    /// `latestLedgerCloseTime`, a number.
    Number,
    /// `latestLedgerCloseTimestamp`, a number.
    Timestamp,
}

impl Bounds {
    pub(super) async fn of(view: &View<'_>) -> Result<Self, ApiError> {
        let latest = view.known_head()?.number;
        let oldest = oldest(view, latest);
        let lost = || super::unreadable(oldest, "it has no clock");
        let oldest_time = view.clock(oldest).await?.ok_or_else(lost)?.timestamp;
        let latest_time = view.head_timestamp().unwrap_or(oldest_time);
        Ok(Self {
            oldest,
            oldest_time,
            latest,
            latest_time,
        })
    }

    /// The message for ledgers outside.
    pub(super) fn refusal(&self, what: &str) -> String {
        let Self { oldest, latest, .. } = self;
        format!(
            "{what} must be between the oldest ledger: {oldest} and the latest ledger: {latest} for this rpc instance"
        )
    }

    /// The error of Stellar RPC for a page that begins below the oldest ledger. Other errors are unchanged.
    pub(super) fn outside(&self, error: ApiError, first: u64, from: &PageStart) -> ApiError {
        if error.code != ErrorCode::NotCovered || first >= self.oldest {
            return error;
        }
        let (code, what) = match from {
            PageStart::Ledger(start) => {
                (ErrorCode::InvalidRequest, format!("start ledger ({start})"))
            }
            PageStart::Cursor(cursor) => (ErrorCode::InvalidParams, format!("cursor ('{cursor}')")),
        };
        let message = brief(self.refusal(&what));
        ApiError {
            code,
            message,
            ..error
        }
    }

    /// Appends the fields, a comma before the first.
    pub(super) fn write(&self, out: &mut Vec<u8>, times: TimeFormat) {
        let (quote, name) = match times {
            TimeFormat::Text => ("\"", "CloseTime"),
            TimeFormat::Number => ("", "CloseTime"),
            TimeFormat::Timestamp => ("", "CloseTimestamp"),
        };
        let ends = [
            ("latestLedger", self.latest, self.latest_time),
            ("oldestLedger", self.oldest, self.oldest_time),
        ];
        for (ledger, number, time) in ends {
            // Writing to memory does not fail.
            let _ = write!(
                out,
                ",\"{ledger}\":{number},\"{ledger}{name}\":{quote}{time}{quote}"
            );
        }
    }
}

/// The first ledger after which none is missing.
fn oldest(view: &View<'_>, latest: u64) -> u64 {
    let in_tail = view.tail_range().start;
    let archive = view.archive.as_ref();
    let head = archive.and_then(|archive| Some((archive, archive.head()?)));
    let archived = head.and_then(|(archive, head)| archive.covered_around(head.number));
    archived.map_or(in_tail, |range| range.start).min(latest)
}

//! What kind of failure an endpoint had, in words of this program: everybody may read these. The text of an error may
//! hold words of a provider, and is for operators.

use std::fmt;

use reqwest::StatusCode;

/// What kind of failure an endpoint had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FailureClass {
    RateLimited,
    TimedOut,
    /// There is no connection.
    Unreachable,
    /// The connection ended before the answer did.
    CutOff,
    /// A status that is none of the others.
    Http(u16),
    /// The answer cannot be parsed.
    Unreadable,
    /// The endpoint answered with an error.
    Refused,
    WrongChain,
    MissingMethod,
    TooLarge,
    MissingBlock,
    /// It contradicts itself, the others, or the chain's rules.
    WrongAnswer,
    Unproven,
    /// It does not continue before an operator acts.
    Stopped,
    /// The chain or the settings are not those of the other.
    InvalidSettings,
    Other,
}

impl FailureClass {
    /// The class of a status that is not a success.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimited,
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Self::TimedOut,
            status => Self::Http(status.as_u16()),
        }
    }

    pub(crate) fn of_http(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            Self::TimedOut
        } else if error.is_connect() {
            Self::Unreachable
        } else if error.is_body() || error.is_decode() {
            Self::CutOff
        } else {
            Self::Other
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http(status) => return write!(f, "HTTP {status}"),
            Self::RateLimited => "rate limited",
            Self::TimedOut => "timed out",
            Self::Unreachable => "unreachable",
            Self::CutOff => "answer cut off",
            Self::Unreadable => "unreadable answer",
            Self::Refused => "request refused",
            Self::WrongChain => "wrong chain",
            Self::MissingMethod => "missing method",
            Self::TooLarge => "range too large",
            Self::MissingBlock => "missing block",
            Self::WrongAnswer => "wrong answer",
            Self::Unproven => "unproven block",
            Self::Stopped => "stopped",
            Self::InvalidSettings => "settings do not fit",
            Self::Other => "request failed",
        })
    }
}

//! What can go wrong with a source, and what the caller does about it.

use std::time::Duration;

use chronolith_model::{ErrorKind, Hash32};

use crate::evm::Rule;
use crate::failure::FailureClass;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that is invalid.
    #[error("invalid source: {0}")]
    Invalid(String),
    /// The endpoint serves another chain.
    #[error("wrong chain (endpoint={endpoint}, expected={expected}, got={got})")]
    WrongChain {
        endpoint: String,
        /// The chain that was requested.
        expected: u64,
        got: u64,
    },
    /// The endpoint is on another chain with the same id.
    #[error(
        "wrong chain (endpoint={endpoint}): its first block is {got}, that of the chain is {expected}; remove it from rpcHttp"
    )]
    WrongGenesis {
        endpoint: String,
        expected: Hash32,
        got: Hash32,
    },
    /// No answer, or not a valid one: try again, or elsewhere.
    #[error("no answer (endpoint={endpoint}): {reason}")]
    Unavailable {
        endpoint: String,
        reason: String,
        /// What everybody may read of the reason.
        class: FailureClass,
        /// The pause that it requested.
        retry_after: Option<Duration>,
    },
    /// No answer, and none will come before an operator acts. A process that runs for long may try again.
    #[error("no answer (endpoint={endpoint}): {reason}")]
    Stuck { endpoint: String, reason: String },
    /// The endpoint refuses the request by its status, and would refuse it again: its key, or what is requested.
    #[error("request refused (endpoint={endpoint}, status={status}): {reason}")]
    Refused {
        endpoint: String,
        status: u16,
        reason: String,
    },
    /// The endpoint does not have the method.
    #[error("method missing (endpoint={endpoint}, method={method})")]
    NoMethod {
        endpoint: String,
        method: &'static str,
    },
    /// More than the endpoint gives at once.
    #[error("range too large (endpoint={endpoint}): {reason}")]
    TooLarge {
        endpoint: String,
        reason: String,
        /// Blocks that it says would work.
        hint: Option<u64>,
    },
    /// The block is not there: it was replaced, or the head went back.
    #[error("block {number} is not there (endpoint={endpoint})")]
    Missing { endpoint: String, number: u64 },
    /// The answers of the endpoint contradict each other.
    #[error("endpoint contradicts itself (endpoint={endpoint}, block={number}): {what}")]
    Inconsistent {
        endpoint: String,
        number: u64,
        what: String,
    },
    /// A block does not follow a rule that its chain is held to. The endpoint is wrong, or the rule is.
    #[error("block does not follow the chain's rules (endpoint={endpoint}, block={number}, rule={}): {what}", .rule.name())]
    RuleFailed {
        endpoint: String,
        number: u64,
        rule: Rule,
        /// What was computed, and what the block says.
        what: String,
        /// The same without the words: equal where two endpoints show the same.
        computed: Hash32,
    },
    /// The endpoint shows no log of the scope in a block that may hold one, and cannot prove it.
    #[error(
        "block {number} may hold logs of the scope that are not shown (endpoint={endpoint}): it has no eth_getBlockReceipts and no other endpoint confirms it; add an endpoint with eth_getBlockReceipts to rpcHttp, or set verification to linked to take its word"
    )]
    Unproven { endpoint: String, number: u64 },
    #[error("every endpoint failed, last: {0}")]
    Exhausted(Box<Error>),
}

impl Error {
    pub(crate) fn unavailable(endpoint: &str, reason: impl Into<String>) -> Self {
        Self::Unavailable {
            endpoint: endpoint.to_owned(),
            reason: reason.into(),
            class: FailureClass::Other,
            retry_after: None,
        }
    }

    /// The same with another class, where it is one about no answer.
    pub(crate) fn classed(mut self, of: FailureClass) -> Self {
        if let Self::Unavailable { class, .. } = &mut self {
            *class = of;
        }
        self
    }

    /// What everybody may read of it.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Invalid(_) => FailureClass::InvalidSettings,
            Self::WrongChain { .. } | Self::WrongGenesis { .. } => FailureClass::WrongChain,
            Self::Unavailable { class, .. } => *class,
            Self::Stuck { .. } => FailureClass::Stopped,
            Self::Refused { status, .. } => FailureClass::Http(*status),
            Self::NoMethod { .. } => FailureClass::MissingMethod,
            Self::TooLarge { .. } => FailureClass::TooLarge,
            Self::Missing { .. } => FailureClass::MissingBlock,
            Self::Inconsistent { .. } | Self::RuleFailed { .. } => FailureClass::WrongAnswer,
            Self::Unproven { .. } => FailureClass::Unproven,
            Self::Exhausted(last) => last.class(),
        }
    }

    pub(crate) fn inconsistent(endpoint: &str, number: u64, what: impl Into<String>) -> Self {
        Self::Inconsistent {
            endpoint: endpoint.to_owned(),
            number,
            what: what.into(),
        }
    }

    /// The pause that the endpoint requested.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// What the caller must do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_)
            | Self::Refused { .. }
            | Self::WrongChain { .. }
            | Self::WrongGenesis { .. } => ErrorKind::Invalid,
            Self::Unavailable { .. }
            | Self::Stuck { .. }
            | Self::NoMethod { .. }
            | Self::Unproven { .. } => ErrorKind::Unavailable,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Missing { .. } => ErrorKind::NotFound,
            Self::Inconsistent { .. } | Self::RuleFailed { .. } => ErrorKind::Disagreement,
            Self::Exhausted(last) => last.kind(),
        }
    }
}

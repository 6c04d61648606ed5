//! Parameters of Stellar's methods.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

use super::bounds::Bounds;
use crate::error::{ApiError, ErrorCode, brief, excerpt};
use crate::rpc::Object;

/// Parses the parameters of a call: an object, or nothing.
pub(super) fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, ApiError> {
    let text = match params.map_or("{}", RawValue::get).trim() {
        "null" => "{}",
        text => text,
    };
    let Object(params) = serde_json::from_str(text).map_err(invalid)?;
    Ok(params)
}

/// Parameters that cannot be parsed, and why.
pub(super) fn invalid(cause: impl std::fmt::Display) -> ApiError {
    ApiError::params("invalid parameters").with(brief(cause.to_string()).into())
}

/// Methods without parameters accept any object, or nothing.
#[derive(Debug, Deserialize)]
pub(super) struct NoParams {}

/// How XDR is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Base64,
    Json,
}

/// `xdrFormat`, not checked yet.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct FormatParam(Option<String>);

impl FormatParam {
    pub(super) fn known(&self) -> Result<Format, String> {
        match self.0.as_deref() {
            None | Some("" | "base64") => Ok(Format::Base64),
            Some("json") => Ok(Format::Json),
            Some(other) => {
                let other = excerpt(other);
                Err(format!(
                    "got '{other}': expected base64, json for optional 'xdrFormat'"
                ))
            }
        }
    }
}

/// `getLatestLedger`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LatestLedgerParams {
    #[serde(default)]
    pub(super) xdr_format: FormatParam,
}

/// `getTransaction`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TransactionParams {
    #[serde(default)]
    pub(super) hash: String,
    #[serde(default)]
    pub(super) xdr_format: FormatParam,
}

/// `getLedgers` and `getTransactions`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageParams {
    #[serde(default)]
    pub(super) start_ledger: Option<u32>,
    #[serde(default)]
    pub(super) pagination: Option<Pagination>,
    #[serde(default)]
    pub(super) xdr_format: FormatParam,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Pagination {
    #[serde(default)]
    pub(super) cursor: Option<String>,
    #[serde(default)]
    pub(super) limit: Option<u32>,
}

/// Where a page begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PageStart {
    Ledger(u64),
    Cursor(String),
}

/// Items of a page.
const PAGE_ITEMS: u32 = 50;
const PAGE_ITEMS_MAX: u32 = 200;

impl PageParams {
    /// Start, length and format of the page.
    pub(super) fn checked(&self, bounds: &Bounds) -> Result<(PageStart, usize, Format), ApiError> {
        let wrong = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
        let start = self.start_ledger.unwrap_or(0);
        let cursor = self
            .pagination
            .as_ref()
            .and_then(|page| page.cursor.as_deref());
        let from = match cursor.filter(|cursor| !cursor.is_empty()) {
            Some(cursor) if start != 0 => {
                let cursor = excerpt(cursor);
                let message =
                    format!("startLedger ({start}) and cursor ({cursor}) cannot both be set");
                return Err(wrong(message));
            }
            Some(cursor) => PageStart::Cursor(cursor.to_owned()),
            None if start == 0 || u64::from(start) > bounds.latest => {
                return Err(wrong(bounds.refusal(&format!("start ledger ({start})"))));
            }
            None => PageStart::Ledger(start.into()),
        };
        let pagination = self.pagination.as_ref();
        let limit = limit_of(pagination, PAGE_ITEMS, PAGE_ITEMS_MAX).map_err(wrong)?;
        let format = self.xdr_format.known().map_err(wrong)?;
        Ok((from, limit, format))
    }
}

fn limit_of(page: Option<&Pagination>, usual: u32, max: u32) -> Result<usize, String> {
    let params = page.and_then(|page| page.limit).unwrap_or(0);
    match params {
        0 => Ok(usual as usize),
        limit if limit > max => Err(format!("limit must not exceed {max}")),
        limit => Ok(limit as usize),
    }
}

/// `getEvents`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsParams {
    #[serde(default)]
    pub(super) start_ledger: Option<u32>,
    #[serde(default)]
    pub(super) end_ledger: Option<u32>,
    #[serde(default)]
    pub(super) filters: Option<Vec<EventFilterParams>>,
    #[serde(default)]
    pub(super) pagination: Option<Pagination>,
    #[serde(default)]
    pub(super) xdr_format: FormatParam,
}

/// Events of a page.
const EVENTS: u32 = 100;
const EVENTS_MAX: u32 = 10_000;

impl EventsParams {
    pub(super) fn limit(&self) -> Result<usize, String> {
        limit_of(self.pagination.as_ref(), EVENTS, EVENTS_MAX)
    }

    /// The end of the previous page.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.pagination.as_ref()?.cursor.as_deref()
    }
}

/// A filter, not checked yet.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventFilterParams {
    #[serde(default, rename = "type")]
    pub(super) kinds: Option<String>,
    #[serde(default)]
    pub(super) contract_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(super) topics: Option<Vec<Option<Vec<Segment>>>>,
}

/// A wildcard or a value at a position of the topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Segment {
    One,
    Rest,
    Value(Bytes),
}

impl<'de> Deserialize<'de> for Segment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        match &*text {
            "*" => Ok(Self::One),
            "**" => Ok(Self::Rest),
            value => super::xdr::value_from_base64(value)
                .map(Self::Value)
                .map_err(D::Error::custom),
        }
    }
}

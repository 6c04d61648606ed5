//! `/fees` as the fee document has it, where `integrator` is the id of a chain.
//!
//! Numbers are parsed as clients of that document expect: as JavaScript's `Number` does. Only where the old
//! answer was an error it differs: a page or a limit that is not an integer counts as absent.

use axum::Json;
use chrono::{DateTime, SecondsFormat};
use chronolith_projection::Database;
use chronolith_projection_fees as fees;
use schemars::JsonSchema;
use serde::Serialize;

use super::dto::{self, Checksummed, Decimal};
use super::request::{Pairs, one_text};
use super::{FeesError, with_timeout};
use crate::names::Hash;

const CHAIN: u64 = 137;
const LIMIT: u32 = 20;
const LIMIT_MAX: u32 = 100;
/// Above this, JavaScript's numbers are not exact.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// The parameters of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PageRequest {
    /// None where the number cannot be the id of a chain.
    chain: Option<u64>,
    page: u64,
    limit: u32,
}

/// A page of collected fees, newest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeesPage")]
pub(super) struct Page {
    #[schemars(length(max = LIMIT_MAX))]
    data: Vec<Collected>,
    pagination: Pagination,
}

/// Collected fees as the fee document has them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CollectedFee")]
struct Collected {
    chain_id: u64,
    transaction_hash: Hash,
    log_index: u32,
    block_number: u64,
    token: Checksummed,
    event_integrator: Checksummed,
    integrator_fee: Decimal,
    lifi_fee: Decimal,
    /// When the row was written.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

/// Which page it is, of how many.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    #[schemars(range(min = 1))]
    page: u64,
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: u32,
    total: u64,
    total_pages: u64,
}

/// Answers as the document does: any failure after a valid request is a 500.
pub(super) async fn answer(database: &Database, pairs: &Pairs) -> Result<Json<Page>, FeesError> {
    let request = parse(pairs)?;
    let (rows, total) = match request.chain {
        None => (Vec::new(), 0),
        Some(chain) => {
            let page = fees::page(database, chain, request.page, request.limit);
            let page = with_timeout(page)
                .await
                .map_err(|_| FeesError::internal())?;
            (page.rows, page.total)
        }
    };
    Ok(Json(Page {
        data: rows.into_iter().map(collected).collect::<Result<_, _>>()?,
        pagination: Pagination {
            page: request.page,
            limit: request.limit,
            total,
            total_pages: total.div_ceil(u64::from(request.limit)),
        },
    }))
}

/// A row of the event FeesCollected, which has an integrator and both fees.
fn collected(row: fees::FeeRow) -> Result<Collected, FeesError> {
    let created = DateTime::from_timestamp_millis(row.created_ms);
    let (Some(created), Some(integrator), Some(integrator_fee), Some(lifi_fee)) =
        (created, row.integrator, row.integrator_fee, row.lifi_fee)
    else {
        let (block, log_index) = (row.at.block, row.at.log_index);
        tracing::error!(
            chain = row.at.chain,
            block,
            log_index,
            "a fee event is incomplete"
        );
        return Err(FeesError::internal());
    };
    Ok(Collected {
        chain_id: row.at.chain,
        transaction_hash: row.tx_hash.into(),
        log_index: row.at.log_index,
        block_number: row.at.block,
        token: dto::address(row.token),
        event_integrator: dto::address(integrator),
        integrator_fee: Decimal(integrator_fee),
        lifi_fee: Decimal(lifi_fee),
        created_at: created.to_rfc3339_opts(SecondsFormat::Millis, true),
    })
}

fn parse(pairs: &Pairs) -> Result<PageRequest, FeesError> {
    // An absent or empty value, and a list, mean the default.
    let chain = match one_text(pairs, "integrator").filter(|text| !text.is_empty()) {
        None => Some(CHAIN),
        Some(text) => {
            let refused = "Invalid integrator value. Expected numeric chain id.";
            let value = number(text).ok_or_else(|| FeesError::bad(refused))?;
            integer(value).and_then(|id| u64::try_from(id).ok())
        }
    };
    let whole = |name: &str| integer(number(one_text(pairs, name)?)?);
    let page = whole("page").and_then(|page| u64::try_from(page).ok());
    let limit = whole("limit").filter(|limit| *limit != 0);
    let limit = limit.map(|limit| limit.clamp(1, i64::from(LIMIT_MAX)));
    Ok(PageRequest {
        chain,
        page: page.unwrap_or(1).max(1),
        limit: limit
            .and_then(|limit| u32::try_from(limit).ok())
            .unwrap_or(LIMIT),
    })
}

fn integer(value: f64) -> Option<i64> {
    let is_whole = value.fract() == 0.0 && value.abs() <= SAFE_INTEGER_MAX;
    is_whole.then_some(value as i64)
}

/// The value of JavaScript's `Number` for a text; none where that is `NaN`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_matches(|char: char| char.is_whitespace() || char == '\u{feff}');
    if text.is_empty() {
        return Some(0.0);
    }
    for (prefixes, radix) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
        let digits = prefixes.iter().find_map(|one| text.strip_prefix(one));
        if let Some(digits) = digits.filter(|digits| !digits.is_empty()) {
            let mut digits = digits.chars().map(|digit| digit.to_digit(radix));
            return digits.try_fold(0.0, |value, digit| {
                Some(value * f64::from(radix) + f64::from(digit?))
            });
        }
    }
    match text {
        "Infinity" | "+Infinity" => return Some(f64::INFINITY),
        "-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    // Rust parses words for numbers that JavaScript does not.
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fees::request::pairs;

    #[test]
    fn numbers_are_what_javascript_makes_of_them() {
        for (text, expected) in [
            ("137", Some(137.0)),
            (" 137\t", Some(137.0)),
            ("", Some(0.0)),
            (" ", Some(0.0)),
            ("0x89", Some(137.0)),
            ("0XfF", Some(255.0)),
            ("0o17", Some(15.0)),
            ("0b101", Some(5.0)),
            ("1e3", Some(1000.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-1", Some(-1.0)),
            ("+7", Some(7.0)),
            ("Infinity", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x", None),
            ("0xg", None),
            ("-0x1", None),
            (".", None),
            ("1e", None),
            ("--1", None),
            ("++Infinity", None),
            ("1_000", None),
            ("1,5", None),
            ("inf", None),
            ("NaN", None),
            ("nan", None),
            ("infinity", None),
            ("137n", None),
            ("polygon", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn pages_and_limits_are_clamped() {
        let of = |query: &str| {
            let request = parse(&pairs(Some(query))).unwrap();
            (request.page, request.limit)
        };
        for (query, expected) in [
            ("", (1, 20)),
            ("page=3&limit=7", (3, 7)),
            ("page=0", (1, 20)),
            ("page=-4", (1, 20)),
            ("page=x", (1, 20)),
            ("page=", (1, 20)),
            ("page=1.5", (1, 20)),
            ("page=2.0", (2, 20)),
            ("page=Infinity", (1, 20)),
            ("page=1e300", (1, 20)),
            ("page=9007199254740991", (9_007_199_254_740_991, 20)),
            ("page=1&page=2", (1, 20)),
            ("page[]=2", (1, 20)),
            ("limit=0", (1, 20)),
            ("limit=x", (1, 20)),
            ("limit=2.5", (1, 20)),
            ("limit=-1", (1, 1)),
            ("limit=1", (1, 1)),
            ("limit=100", (1, 100)),
            ("limit=101", (1, 100)),
            ("limit=1e9", (1, 100)),
        ] {
            assert_eq!(of(query), expected, "{query}");
        }
    }
}

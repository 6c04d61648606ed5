//! The parameters of lists, strictly: one that is unknown, or that cannot be parsed, is refused and never
//! ignored.

use chronolith_model::Order;
use chronolith_projection_fees::{FeeFilter, FeeRequest, FeeStatus, event_named};

use super::FeesError;
use super::cursor::CursorText;
use crate::error::ErrorCode;
use crate::rest::{order, parameters};
use crate::rpc::Fixed;
use crate::times::parse_time;

/// Items of an answer without the parameter `limit`, and the maximum.
const LIMIT: usize = 100;
pub(crate) const LIMIT_MAX: usize = 1_000;

const PARAMETERS: [&str; 12] = [
    "integrator",
    "limit",
    "chainId",
    "token",
    "event",
    "fromBlock",
    "toBlock",
    "from",
    "to",
    "status",
    "order",
    "cursor",
];
/// Those that the fee document has too. Any other requests a list.
const LEGACY: [&str; 2] = ["integrator", "limit"];
/// A value of 0x and more digits than any chain id is an address.
const ID_DIGITS: usize = 16;

/// Names and values, in order.
pub(super) type Pairs = Vec<(String, String)>;

/// A query string, unchecked.
pub(super) fn pairs(query: Option<&str>) -> Pairs {
    let pairs = form_urlencoded::parse(query.unwrap_or("").as_bytes());
    pairs.into_owned().collect()
}

/// The query string of the same request after a cursor.
pub(super) fn next(query: Option<&str>, cursor: &str) -> String {
    let mut given = pairs(query);
    given.retain(|(name, _)| name != "cursor");
    let mut next = form_urlencoded::Serializer::new(String::new());
    next.extend_pairs(&given).append_pair("cursor", cursor);
    next.finish()
}

/// The value of a parameter that is given once and is not a list, such as `name[]`.
pub(super) fn one_text<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    let mut given = pairs.iter().filter(|(given, _)| stem(given) == name);
    let (first, value) = given.next()?;
    (first == name && given.next().is_none()).then_some(value.as_str())
}

fn stem(name: &str) -> &str {
    name.split_once('[').map_or(name, |(stem, _)| stem)
}

/// Whether the request is for a list, and not for a page of the fee document.
pub(super) fn is_list(pairs: &Pairs) -> bool {
    let is_filter = |name: &str| PARAMETERS.contains(&name) && !LEGACY.contains(&name);
    let is_address = |text: &str| {
        let digits = text.strip_prefix("0x");
        digits.is_some_and(|digits| digits.len() > ID_DIGITS)
    };
    pairs.iter().any(|(name, _)| is_filter(stem(name)))
        || one_text(pairs, "integrator").is_some_and(is_address)
}

/// Parses the parameters of a list.
pub(super) fn parse<Position: CursorText>(
    query: Option<&str>,
) -> Result<FeeRequest<Position>, FeesError> {
    let mut request = FeeRequest {
        filter: FeeFilter::default(),
        order: Order::Descending,
        limit: LIMIT,
        after: None,
    };
    for (name, value) in parameters(query, &PARAMETERS, &[], ErrorCode::InvalidParams)? {
        let refused = |message: String| FeesError::bad(format!("{name}: {message}"));
        match name.as_str() {
            "limit" => request.limit = limit(&value).map_err(refused)?,
            "order" => request.order = order(&value).map_err(refused)?,
            "cursor" => {
                let message = || refused("it is not a cursor of this API".to_owned());
                request.after = Some(Position::parse(&value).ok_or_else(message)?);
            }
            _ => narrow(&mut request.filter, &name, &value).map_err(refused)?,
        }
    }
    let of = (request.filter.chain, request.after.as_ref());
    if let (Some(chain), Some(after)) = of
        && after.chain() != chain
    {
        let message = "cursor: it belongs to another chain than `chainId`";
        return Err(FeesError::bad(message));
    }
    check_order(&request.filter)?;
    Ok(request)
}

/// Ends in the wrong order select nothing, which would look as if there were no events.
fn check_order(filter: &FeeFilter) -> Result<(), FeesError> {
    let is_reversed = |from: Option<u64>, to| from.zip(to).is_some_and(|(from, to)| from > to);
    let message = if is_reversed(filter.from_block, filter.to_block) {
        "toBlock: it is below `fromBlock`"
    } else if is_reversed(filter.from_time, filter.until_time) {
        "to: it is before `from`"
    } else {
        return Ok(());
    };
    Err(FeesError::bad(message))
}

fn narrow(filter: &mut FeeFilter, name: &str, value: &str) -> Result<(), String> {
    match name {
        "integrator" => filter.integrator = Some(integrator(value)?),
        "chainId" => filter.chain = Some(number(value)?),
        "token" => filter.token = Some(Fixed::<20>::parse(value)?.0),
        "event" => {
            let names = "want FeesCollected, FeesWithdrawn, LiFiFeesWithdrawn or FeesForwarded";
            filter.event = Some(event_named(value).ok_or(names)?);
        }
        "fromBlock" => filter.from_block = Some(number(value)?),
        "toBlock" => filter.to_block = Some(number(value)?),
        "from" => filter.from_time = Some(time(value)?),
        "to" => filter.until_time = Some(time(value)?),
        "status" => {
            let names = "want pending, confirmed or dropped";
            filter.status = Some(FeeStatus::parse(value).ok_or(names)?);
        }
        _ => return Err("unknown filter".to_owned()),
    }
    Ok(())
}

/// The fee document calls a chain an integrator: the error names the other parameter.
fn integrator(value: &str) -> Result<[u8; 20], String> {
    let read = Fixed::<20>::parse(value);
    read.map(|address| address.0)
        .map_err(|message| format!("{message}; with other filters a chain is `chainId`"))
}

fn number(value: &str) -> Result<u64, String> {
    let is_plain = value.bytes().all(|sign| sign.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_plain);
    number.ok_or_else(|| "want a decimal number of at most 64 bits".to_owned())
}

/// Blocks have whole seconds: a fraction is rounded up.
fn time(value: &str) -> Result<u64, String> {
    let message = "want seconds, milliseconds or ISO 8601";
    let time = parse_time(value).ok_or(message)?;
    Ok(time.seconds.saturating_add(u64::from(time.nanos > 0)))
}

fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().ok();
    limit
        .filter(|limit| (1..=LIMIT_MAX).contains(limit))
        .ok_or_else(|| format!("want a number from 1 to {LIMIT_MAX}"))
}

#[cfg(test)]
mod tests {
    use chronolith_projection_fees::FeePosition;

    use super::*;

    #[test]
    fn only_parameters_of_the_fee_document_request_a_page() {
        let address = "integrator=0x1111111111111111111111111111111111111111";
        for (query, expected) in [
            ("", false),
            ("integrator", false),
            ("integrator=137&page=2&limit=5", false),
            ("integrator=0x89", false),
            ("integrator=0xffffffffffffffff", false),
            ("integrator=polygon", false),
            ("integrator=1&integrator=2", false),
            ("integrator[]=1", false),
            ("utm_source=mail", false),
            (address, true),
            (&address[..50], true),
            ("chainId=137", true),
            ("chainId[]=137", true),
            ("token=", true),
            ("integrator=137&order=asc", true),
        ] {
            assert_eq!(is_list(&pairs(Some(query))), expected, "{query}");
        }
    }

    #[test]
    fn all_parameters_are_described() {
        let description: serde_json::Value = serde_json::from_str(crate::OPENAPI).unwrap();
        for (path, more) in [("/fees", &["page"][..]), ("/fees/totals", &[])] {
            let described = description["paths"][path]["get"]["parameters"].as_array();
            let resolved = described
                .unwrap()
                .iter()
                .map(|one| match one["$ref"].as_str() {
                    Some(place) => description.pointer(place.trim_start_matches('#')).unwrap(),
                    None => one,
                });
            let mut names = Vec::new();
            for one in resolved {
                names.push(one["name"].as_str().unwrap());
                if one["name"] == "limit" {
                    assert_eq!(one["schema"]["maximum"], LIMIT_MAX, "{path}");
                }
            }
            let mut known = [&PARAMETERS[..], more].concat();
            names.sort_unstable();
            known.sort_unstable();
            assert_eq!(names, known, "{path}");
        }
    }

    #[test]
    fn an_invalid_parameter_is_refused_by_its_name() {
        for (query, message) in [
            ("page=2&chainId=1", "unknown parameter `page`"),
            ("chainid=1", "unknown parameter `chainid`"),
            (
                "chainId=1&chainId=2",
                "the parameter `chainId` is given twice",
            ),
            ("chainId=-1", "chainId: want a decimal number"),
            ("chainId=+1", "chainId: want a decimal number"),
            ("chainId=", "chainId: want a decimal number"),
            (
                "chainId=18446744073709551616",
                "chainId: want a decimal number",
            ),
            (
                "integrator=137&order=asc",
                "with other filters a chain is `chainId`",
            ),
            ("token=0x12", "token: hex string with 2 digits"),
            ("event=Transfer", "event: want FeesCollected"),
            ("fromBlock=latest", "fromBlock: want a decimal number"),
            ("from=yesterday", "from: want seconds"),
            // These used to be answered with an empty list.
            ("fromBlock=10&toBlock=9", "toBlock: it is below `fromBlock`"),
            ("from=2024-01-02&to=2024-01-01", "to: it is before `from`"),
            ("status=final", "status: want pending"),
            ("order=newest", "order: want asc or desc"),
            ("limit=0", "limit: want a number from 1 to 1000"),
            ("limit=1001", "limit: want a number from 1 to 1000"),
            ("cursor=1-2-3", "cursor: it is not a cursor of this API"),
        ] {
            let error = parse::<FeePosition>(Some(query)).unwrap_err();
            assert_eq!(error.status, 400, "{query}");
            assert!(
                error.message.contains(message),
                "{query}: {}",
                error.message
            );
        }
    }
}

//! What is asked for in a query string, strictly: a parameter that is not known, or that cannot be read,
//! is refused and never passed over.

use chronolith_model::Order;
use chronolith_projection_fees::{FeeAsked, FeeFilter, FeeStatus, event_named};

use super::FeesError;
use super::cursor::CursorText;
use crate::error::ErrorCode;
use crate::rest::parameters;
use crate::rpc::Fixed;
use crate::times::parse_time;

/// Items in an answer that asked for no number, and the most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1_000;

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
/// Those that the fee document knows too. All others ask for a list.
const COMPATIBLE: [&str; 2] = ["integrator", "limit"];
/// What begins with 0x and has more digits than any chain's id is meant as an address.
const ID_DIGITS: usize = 16;

/// Names and values, in their order.
pub(super) type Pairs = Vec<(String, String)>;

/// A query string as it is, whatever is in it.
pub(super) fn pairs(query: Option<&str>) -> Pairs {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.into_owned().collect()
}

/// The value of a parameter that is given once, and not as a list: `name[]` and the like are lists.
pub(super) fn one_text<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a str> {
    let mut given = pairs.iter().filter(|(given, _)| stem(given) == name);
    let (first, value) = given.next()?;
    (first == name && given.next().is_none()).then_some(value.as_str())
}

fn stem(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

/// Whether a list is asked for, and not a page of the fee document.
pub(super) fn is_new(pairs: &Pairs) -> bool {
    let asks = |name: &str| PARAMETERS.contains(&name) && !COMPATIBLE.contains(&name);
    let is_address = |text: &str| {
        let digits = text.strip_prefix("0x");
        digits.is_some_and(|digits| digits.len() > ID_DIGITS)
    };
    pairs.iter().any(|(name, _)| asks(stem(name)))
        || one_text(pairs, "integrator").is_some_and(is_address)
}

/// Reads everything that may be asked of a list.
pub(super) fn read<Position: CursorText>(
    query: Option<&str>,
) -> Result<FeeAsked<Position>, FeesError> {
    let mut request = FeeAsked {
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
                let message = || refused("it is not one that was given here".to_owned());
                request.after = Some(Position::read(&value).ok_or_else(message)?);
            }
            _ => narrow(&mut request.filter, &name, &value).map_err(refused)?,
        }
    }
    let of = (request.filter.chain, request.after.as_ref());
    if let (Some(chain), Some(after)) = of
        && after.chain() != chain
    {
        let message = "cursor: it is of another chain than `chainId`";
        return Err(FeesError::bad(message));
    }
    Ok(request)
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
        _ => return Err("there is no such filter".to_owned()),
    }
    Ok(())
}

/// Whoever mixes both meanings of the word is told.
fn integrator(value: &str) -> Result<[u8; 20], String> {
    let read = Fixed::<20>::parse(value);
    read.map(|address| address.0)
        .map_err(|message| format!("{message}; a chain beside other filters is `chainId`"))
}

fn number(value: &str) -> Result<u64, String> {
    let is_plain = value.bytes().all(|sign| sign.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_plain);
    number.ok_or_else(|| "want a decimal number of at most 64 bits".to_owned())
}

/// Blocks have whole seconds: those from a fraction on, and those before it, are the same as at the next.
fn time(value: &str) -> Result<u64, String> {
    let message = "want seconds, milliseconds or ISO 8601";
    let time = parse_time(value).ok_or(message)?;
    Ok(time.seconds.saturating_add(u64::from(time.nanos > 0)))
}

fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().ok();
    let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| format!("want a number from 1 to {LIMIT_MAX}"))
}

fn order(value: &str) -> Result<Order, String> {
    match value {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        _ => Err("want asc or desc".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use chronolith_projection_fees::FeePosition;

    use super::*;

    #[test]
    fn what_the_fee_document_knows_is_answered_as_it_says_and_all_else_is_a_list() {
        let address = "integrator=0x1111111111111111111111111111111111111111";
        for (query, is_list) in [
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
            assert_eq!(is_new(&pairs(Some(query))), is_list, "{query}");
        }
    }

    #[test]
    fn what_may_be_asked_is_described() {
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
    fn what_cannot_be_read_is_refused_by_its_name() {
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
                "a chain beside other filters is `chainId`",
            ),
            ("token=0x12", "token: hex string with 2 digits"),
            ("event=Transfer", "event: want FeesCollected"),
            ("fromBlock=latest", "fromBlock: want a decimal number"),
            ("from=yesterday", "from: want seconds"),
            ("status=final", "status: want pending"),
            ("order=newest", "order: want asc or desc"),
            ("limit=0", "limit: want a number from 1 to 1000"),
            ("limit=1001", "limit: want a number from 1 to 1000"),
            ("cursor=1-2-3", "cursor: it is not one that was given here"),
        ] {
            let error = read::<FeePosition>(Some(query)).unwrap_err();
            assert_eq!(error.status, 400, "{query}");
            assert!(
                error.message.contains(message),
                "{query}: {}",
                error.message
            );
        }
    }
}

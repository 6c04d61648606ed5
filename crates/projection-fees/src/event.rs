//! The events of fee contracts, decoded.

use alloy_primitives::{B256, U256, b256};
use chronolith_model::Log;

const COLLECTED: B256 = b256!("28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea");
const WITHDRAWN: B256 = b256!("5e110f8bc8a20b65dcc87f224bdf1cc039346e267118bae2739847f07321ffa8");
const LIFI_WITHDRAWN: B256 =
    b256!("e0ac2a6b74759312758ae3b784411c8e2f3b8bd81fecff40b906d69030af4bfc");
const FORWARDED: B256 = b256!("3a7029951ba36c1af37954df919ce2f9a95c3f5c2c2e872d5e7fd47c61a6df26");

/// Events by name and first topic.
pub(crate) const EVENTS: &[(&str, B256)] = &[
    ("FeesCollected", COLLECTED),
    ("FeesWithdrawn", WITHDRAWN),
    ("LiFiFeesWithdrawn", LIFI_WITHDRAWN),
    ("FeesForwarded", FORWARDED),
];

const WORD: usize = 32;
/// Receivers that one event may name.
const RECEIVERS_MAX: usize = 1_000;

type Address = [u8; 20];

/// An event, or one receiver of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct FeeEvent {
    pub(crate) name: &'static str,
    pub(crate) token: Address,
    pub(crate) integrator: Option<Address>,
    pub(crate) integrator_fee: Option<U256>,
    pub(crate) lifi_fee: Option<U256>,
    pub(crate) recipient: Option<Address>,
    pub(crate) amount: Option<U256>,
}

/// What a log says, or why it is none of these events.
pub(crate) fn decode(log: &Log) -> Result<Vec<FeeEvent>, &'static str> {
    let topic0 = log.topic(0).unwrap_or_default();
    let known = EVENTS.iter().find(|(_, topic)| *topic == topic0);
    let Some((name, topic0)) = known else {
        return Err("the first topic is of no known event");
    };
    if *topic0 == FORWARDED {
        return forwarded(name, log);
    }
    if log.topic_count() != 3 {
        return Err("the event has another number of topics");
    }
    let (first, second) = (topic(log, 1)?, topic(log, 2)?);
    let base = FeeEvent {
        name,
        token: first,
        ..FeeEvent::default()
    };
    let words = log.data().len() / WORD;
    if !log.data().len().is_multiple_of(WORD) {
        return Err("the data is cut");
    }
    let event = match (*topic0 == COLLECTED, words) {
        (true, 2) => FeeEvent {
            integrator: Some(second),
            integrator_fee: Some(number(log.data(), 0)?),
            lifi_fee: Some(number(log.data(), 1)?),
            ..base
        },
        (false, 1) => FeeEvent {
            recipient: Some(second),
            amount: Some(number(log.data(), 0)?),
            ..base
        },
        _ => return Err("the data has another length"),
    };
    Ok(vec![event])
}

/// A token and its receivers. The token is a topic, or the first word of the data.
fn forwarded(name: &'static str, log: &Log) -> Result<Vec<FeeEvent>, &'static str> {
    let data = log.data();
    let (token, head) = match log.topic_count() {
        2 => (topic(log, 1)?, 0),
        1 => (address(word(data, 0)?)?, 1),
        _ => return Err("the event has another number of topics"),
    };
    let start = small(number(data, head)?)?;
    if !start.is_multiple_of(WORD) {
        return Err("the list is not where a word begins");
    }
    let at = start / WORD;
    let count = small(number(data, at)?)?;
    let left = (data.len() / WORD).saturating_sub(at + 1);
    if count.saturating_mul(2) > left {
        return Err("the list is longer than the data");
    }
    if count > RECEIVERS_MAX {
        return Err("the list has more than 1000 receivers");
    }
    if count == 0 {
        // It happened, without a receiver.
        let without_receiver = FeeEvent {
            name,
            token,
            ..FeeEvent::default()
        };
        return Ok(vec![without_receiver]);
    }
    let receiver = |index: usize| {
        let first = at + 1 + 2 * index;
        Ok(FeeEvent {
            name,
            token,
            recipient: Some(address(word(data, first)?)?),
            amount: Some(number(data, first + 1)?),
            ..FeeEvent::default()
        })
    };
    (0..count).map(receiver).collect()
}

fn word(data: &[u8], index: usize) -> Result<&[u8], &'static str> {
    let start = index.checked_mul(WORD).ok_or("the data is cut")?;
    let end = start.checked_add(WORD).ok_or("the data is cut")?;
    data.get(start..end).ok_or("the data is cut")
}

fn number(data: &[u8], index: usize) -> Result<U256, &'static str> {
    word(data, index).map(U256::from_be_slice)
}

/// A number that counts something in the data.
fn small(value: U256) -> Result<usize, &'static str> {
    let small = u32::try_from(value).map(|value| value as usize);
    small.map_err(|_| "an offset or a length is too large")
}

fn topic(log: &Log, position: usize) -> Result<Address, &'static str> {
    address(log.topic(position).unwrap_or_default())
}

/// An address, with zeros before it.
fn address(word: &[u8]) -> Result<Address, &'static str> {
    let (zeros, address) = word.split_at_checked(12).ok_or("an address is cut")?;
    if zeros.iter().any(|byte| *byte != 0) {
        return Err("an address is longer than twenty bytes");
    }
    address.try_into().map_err(|_| "an address is cut")
}

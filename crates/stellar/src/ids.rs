//! How Stellar RPC names transactions and events: by numbers that sort as they happened.

use std::fmt;
use std::str::FromStr;

const TX_BITS: u32 = 20;
const OPERATION_BITS: u32 = 12;

/// A place in history as one number: ledger, transaction and operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Toid {
    pub ledger: u32,
    /// Which transaction, from 1 on in the order in which they were applied; 20 bits.
    pub tx: u32,
    pub operation: u32,
}

impl Toid {
    pub const TX_MAX: u32 = (1 << TX_BITS) - 1;
    pub const OPERATION_MAX: u32 = (1 << OPERATION_BITS) - 1;

    #[must_use]
    pub fn number(&self) -> u64 {
        let tx = self.tx & Self::TX_MAX;
        let operation = self.operation & Self::OPERATION_MAX;
        u64::from(self.ledger) << 32 | u64::from(tx) << OPERATION_BITS | u64::from(operation)
    }

    /// From that number; none where it is negative for those who sign theirs.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        i64::try_from(number).ok()?;
        Some(Self {
            ledger: (number >> 32) as u32,
            tx: (number >> OPERATION_BITS) as u32 & Self::TX_MAX,
            operation: number as u32 & Self::OPERATION_MAX,
        })
    }
}

/// The id of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId {
    pub place: Toid,
    pub index: u32,
}

impl EventId {
    /// The last id that an event of a ledger can have.
    #[must_use]
    pub fn last_of(ledger: u32) -> Self {
        let place = Toid {
            ledger,
            tx: Toid::TX_MAX,
            operation: Toid::OPERATION_MAX,
        };
        let index = u32::MAX;
        Self { place, index }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}-{:010}", self.place.number(), self.index)
    }
}

/// A text that is not the id of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the id of an event: two numbers with a dash between them are")]
pub struct NoEventId;

impl FromStr for EventId {
    type Err = NoEventId;

    fn from_str(text: &str) -> Result<Self, NoEventId> {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parts = text.split_once('-');
        let (place, index) = parts
            .filter(|(a, b)| digits(a) && digits(b))
            .ok_or(NoEventId)?;
        let place = place.parse().ok().and_then(Toid::from_number);
        Ok(Self {
            place: place.ok_or(NoEventId)?,
            index: index.parse().map_err(|_| NoEventId)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_they_are_read() {
        let place = Toid {
            ledger: 53_312_000,
            tx: 7,
            operation: 2,
        };
        assert_eq!(place.number(), (53_312_000 << 32) + (7 << 12) + 2);
        assert_eq!(Toid::from_number(place.number()), Some(place));
        let id = EventId { place, index: 3 };
        assert_eq!(id.to_string(), "0228973296484380674-0000000003");
        assert_eq!(id.to_string().parse(), Ok(id));
        let last = EventId::last_of(1);
        assert_eq!(last.to_string().parse(), Ok(last));
        assert!(id > last);
        for wrong in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-4294967296",
            "9223372036854775808-0",
            "x-1",
        ] {
            assert_eq!(wrong.parse::<EventId>(), Err(NoEventId), "{wrong}");
        }
    }
}

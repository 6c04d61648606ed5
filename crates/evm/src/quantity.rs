//! Quantities as nodes write them: hexadecimal with `0x`. Some nodes write plain numbers.

use alloy_primitives::U256;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::extra::cut;

/// Reads a quantity that must be there.
///
/// # Errors
/// Where it is null, not a quantity, or larger than 64 bits.
pub fn quantity<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    maybe_quantity(from)?.ok_or_else(|| D::Error::custom("quantity is null"))
}

/// Reads a quantity, or null.
///
/// # Errors
/// Where it is not a quantity, or larger than 64 bits.
pub fn maybe_quantity<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(QuantityVisitor)
}

/// Takes a quantity as it comes, without a copy: there are five in each log.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a quantity such as 0x1f, or null")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let invalid = || E::custom(format!("not a quantity: {}", cut(text)));
        parse_quantity(text).map(Some).ok_or_else(invalid)
    }
}

/// Parses a quantity; none if it is not one, or too large.
#[must_use]
pub fn parse_quantity(text: &str) -> Option<u64> {
    u64::from_str_radix(digits_of(text)?, 16).ok()
}

/// The digits after `0x`. None at all are zero.
fn digits_of(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
    Some(if digits.is_empty() { "0" } else { digits })
}

/// A quantity of up to 256 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide(pub(crate) U256);

impl<'de> Deserialize<'de> for Wide {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WideVisitor)
    }
}

struct WideVisitor;

impl Visitor<'_> for WideVisitor {
    type Value = Wide;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a quantity such as 0x1f")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Wide, E> {
        Ok(Wide(U256::from(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Wide, E> {
        let number = digits_of(text).and_then(|digits| U256::from_str_radix(digits, 16).ok());
        let invalid = || E::custom(format!("not a quantity: {}", cut(text)));
        number.map(Wide).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_all_their_forms() {
        for (text, expected) in [
            ("0x0", Some(0)),
            ("0x", Some(0)),
            ("0x01", Some(1)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("0x10000000000000000", None),
            ("12", None),
            ("0xzz", None),
            ("", None),
        ] {
            assert_eq!(parse_quantity(text), expected, "{text}");
        }
        #[derive(Deserialize)]
        struct One {
            #[serde(deserialize_with = "maybe_quantity")]
            at: Option<u64>,
        }
        let read = |text: &str| serde_json::from_str(text).map(|one: One| one.at);
        assert_eq!(read(r#"{"at":"0x10"}"#).unwrap(), Some(16));
        assert_eq!(read(r#"{"at":16}"#).unwrap(), Some(16));
        assert_eq!(read(r#"{"at":null}"#).unwrap(), None);
        assert!(read(r#"{"at":"16"}"#).is_err());
        assert!(read(r#"{"at":-1}"#).is_err());
        let wide = |text: &str| serde_json::from_str::<Wide>(text).map(|wide| wide.0);
        assert_eq!(wide(r#""0xff""#).unwrap(), U256::from(255));
        assert_eq!(wide("7").unwrap(), U256::from(7));
        assert_eq!(
            wide(&format!("\"0x{}\"", "f".repeat(64))).unwrap(),
            U256::MAX
        );
        assert!(wide(&format!("\"0x1{}\"", "0".repeat(64))).is_err());
    }
}

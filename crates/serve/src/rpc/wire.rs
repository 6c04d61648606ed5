//! Requests on the wire: bounded, borrowed from the body, and as strict as Ethereum's specification.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use chronolith_model::{Clause, Hash32};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::ApiError;

pub(crate) const TOPICS_MAX: usize = 4;

/// A value that must be an object: serde would take the items of a list for fields by their order.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

/// A call.
#[derive(Debug, Deserialize)]
pub(crate) struct Request<'a> {
    /// Kept unparsed: the error for a wrong one has the id.
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    /// None where it is absent; null is an id.
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
}

impl Request<'_> {
    /// Whether it is JSON-RPC 2.0. Nodes refuse other versions.
    pub(crate) fn is_version_2(&self) -> bool {
        self.jsonrpc.is_some_and(|raw| {
            // The string may have escapes.
            raw.get() == r#""2.0""#
                || serde_json::from_str::<String>(raw.get()).is_ok_and(|message| message == "2.0")
        })
    }
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// A block by tag or number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockTag {
    Number(u64),
    Earliest,
    Finalized,
    Safe,
    Latest,
    Pending,
}

impl BlockTag {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "earliest" => Self::Earliest,
            "finalized" => Self::Finalized,
            "safe" => Self::Safe,
            "latest" => Self::Latest,
            "pending" => Self::Pending,
            number => Self::Number(quantity(number)?),
        })
    }
}

impl<'de> Deserialize<'de> for BlockTag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text: Cow<'de, str> = Deserialize::deserialize(from)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

/// A number as `0x` and digits without leading zeros.
pub(crate) fn quantity(text: &str) -> Result<u64, String> {
    let error = |what: &str| {
        let text: String = text.chars().take(80).collect();
        format!("`{text}` is {what}")
    };
    let digits = text
        .strip_prefix("0x")
        .ok_or_else(|| error("neither a tag nor a hex number with 0x prefix"))?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(error("not a hex number without leading zeros"));
    }
    let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, 16).ok().filter(|_| hex);
    number.ok_or_else(|| error("not a hex number of 64 bits"))
}

/// Exactly `N` bytes as hex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fixed<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Fixed<N> {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
        if digits.len() != N * 2 || !text.starts_with("0x") {
            let (has, wants) = (digits.len(), N * 2);
            return Err(format!("hex string with {has} digits, want 0x and {wants}"));
        }
        let mut bytes = [0; N];
        let decoded = const_hex::decode_to_slice(digits, &mut bytes);
        decoded.map_err(|_| "hex string with a character that is not a hex digit".to_owned())?;
        Ok(Self(bytes))
    }
}

impl<'de, const N: usize> Deserialize<'de> for Fixed<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text: Cow<'de, str> = Deserialize::deserialize(from)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

/// The filter of `eth_getLogs`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    pub(crate) from_block: Option<BlockTag>,
    pub(crate) to_block: Option<BlockTag>,
    pub(crate) block_hash: Option<Fixed<32>>,
    #[serde(default)]
    pub(crate) address: Alternatives<20>,
    #[serde(default)]
    pub(crate) topics: Topics,
}

impl Filter {
    /// Refuses more alternatives at one position than allowed, duplicates included.
    pub(crate) fn check_alternatives(&self, max: Option<usize>) -> Result<(), ApiError> {
        let of_topics = self.topics.0.iter().map(|topic| topic.given);
        let given = of_topics.fold(self.address.given, usize::max);
        match max {
            Some(max) if given > max => Err(ApiError::params(format!(
                "invalid argument 0: exceed max addresses or topics per search position ({max})"
            ))),
            _ => Ok(()),
        }
    }
}

/// Nothing, one value, or several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alternatives<const N: usize> {
    pub(crate) clause: Clause,
    /// How many were given, duplicates included.
    given: usize,
}

impl<'de, const N: usize> Deserialize<'de> for Alternatives<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AlternativesVisitor::<N>)
    }
}

struct AlternativesVisitor<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for AlternativesVisitor<N> {
    type Value = Alternatives<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x and {} digits, a list of such, or null", N * 2)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(Alternatives::default())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let value = Fixed::<N>::parse(text).map_err(E::custom)?;
        let clause = Clause::OneOf(vec![Bytes::copy_from_slice(&value.0)]);
        Ok(Alternatives { clause, given: 1 })
    }

    // The limit of the settings is checked later. Here the size of the body bounds them.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        let (mut given, mut any) = (0, false);
        while let Some(value) = list.next_element::<Option<Fixed<N>>>()? {
            given += 1;
            match value {
                Some(value) => values.push(Bytes::copy_from_slice(&value.0)),
                // Among alternatives null means any, as it does alone.
                None => any = true,
            }
        }
        values.sort_unstable();
        values.dedup();
        let clause = if any || values.is_empty() {
            Clause::Any
        } else {
            Clause::OneOf(values)
        };
        Ok(Alternatives { clause, given })
    }
}

/// The alternatives at each position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics(pub(crate) Vec<Alternatives<32>>);

impl<'de> Deserialize<'de> for Topics {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TopicsVisitor).map(Self)
    }
}

struct TopicsVisitor;

impl<'de> Visitor<'de> for TopicsVisitor {
    type Value = Vec<Alternatives<32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of topics")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut topics = Vec::new();
        while topics.len() < TOPICS_MAX {
            match list.next_element()? {
                Some(topic) => topics.push(topic),
                None => return Ok(topics),
            }
        }
        match list.next_element::<IgnoredAny>()? {
            None => Ok(topics),
            Some(_) => Err(A::Error::custom(format!(
                "exceed max topics ({TOPICS_MAX})"
            ))),
        }
    }
}

/// The parameters of a call: a list of bounded length.
pub(crate) struct Params<'a>(Vec<&'a RawValue>);

impl<'a> Params<'a> {
    pub(crate) fn read(raw: Option<&'a RawValue>, max: usize) -> Result<Self, ApiError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
            return Ok(Self(Vec::new()));
        };
        let list: Vec<&RawValue> = serde_json::from_str(raw.get())
            .map_err(|_| ApiError::params("non-array args: params must be a list"))?;
        if list.len() > max {
            return Err(ApiError::params(format!(
                "too many arguments, want at most {max}"
            )));
        }
        Ok(Self(list))
    }

    /// A required argument.
    pub(crate) fn get<T: Deserialize<'a>>(&self, at: usize) -> Result<T, ApiError> {
        let missing = || ApiError::params(format!("missing value for required argument {at}"));
        let raw = self.0.get(at).ok_or_else(missing)?;
        typed(raw, at)
    }

    /// An optional argument.
    pub(crate) fn maybe<T: Deserialize<'a>>(&self, at: usize) -> Result<Option<T>, ApiError> {
        match self.0.get(at) {
            Some(raw) => typed::<Option<T>>(raw, at),
            None => Ok(None),
        }
    }
}

fn typed<'a, T: Deserialize<'a>>(raw: &'a RawValue, at: usize) -> Result<T, ApiError> {
    serde_json::from_str(raw.get())
        .map_err(|error| ApiError::params(format!("invalid argument {at}: {error}")))
}

impl From<Fixed<32>> for Hash32 {
    fn from(fixed: Fixed<32>) -> Self {
        Self(fixed.0)
    }
}

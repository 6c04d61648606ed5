//! Values of the model in answers: as text, and as objects that several answers share.

use std::borrow::Cow;

use chronolith_model::{BlockRange, BlockRef, Dataset, DatasetSet, Hash32, Scope, Verification};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of a chain as JSON: a number, or text where it is larger than 2^53 - 1. A client whose numbers are floating
/// point reads a larger number as another id. Both forms are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainId(pub u64);

/// The largest integer up to which every integer is a floating-point number.
const EXACT_MAX: u64 = (1 << 53) - 1;

impl Serialize for ChainId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0..=EXACT_MAX => to.serialize_u64(self.0),
            large => to.collect_str(&large),
        }
    }
}

impl<'de> Deserialize<'de> for ChainId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(from)? {
            Form::Number(id) => Ok(Self(id)),
            Form::Text(id) => id.parse().map(Self).map_err(D::Error::custom),
        }
    }
}

impl JsonSchema for ChainId {
    fn schema_name() -> Cow<'static, str> {
        "ChainId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The id of a chain: a number, or a string where it is larger than 2^53 - 1, as those of Stellar chains are.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": EXACT_MAX },
                { "type": "string", "pattern": "^[1-9][0-9]{15,19}$" },
            ],
        })
    }
}

/// For fields that hold an id as a number.
pub(crate) fn id_as_json<S: Serializer>(id: &u64, to: S) -> Result<S::Ok, S::Error> {
    ChainId(*id).serialize(to)
}

/// 32 bytes as 0x and 64 digits.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(example = "0xb5079f8d855a24554cb9741f306d310800ed6f88ad672898664db0e9e14d5cc2")]
pub(crate) struct Hash(#[schemars(regex(pattern = "^0x[0-9a-f]{64}$"))] String);

impl From<Hash32> for Hash {
    fn from(hash: Hash32) -> Self {
        Self(hash.to_string())
    }
}

/// How far something was proven. `claimed`: one source's word. `linked`: the header hashes to the block's hash
/// and names its parent. `bloom`: the logs also fit the header's bloom. `receipts`: the logs also give the
/// header's receipts root. `roots`: every transaction hash also follows from the transaction's bytes, under the
/// header's transactions root.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("enum" = Verification::ALL.map(Verification::as_str)))]
pub(crate) struct Level(&'static str);

/// A part of each block that is kept.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Dataset", extend("enum" = Dataset::ALL.map(Dataset::name)))]
pub(crate) struct DatasetName(&'static str);

/// A block by number and hash.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BlockRef")]
pub(crate) struct BlockJson {
    /// Its number.
    number: u64,
    hash: Hash,
}

impl From<BlockRef> for BlockJson {
    fn from(block: BlockRef) -> Self {
        Self {
            number: block.number,
            hash: block.hash.into(),
        }
    }
}

/// For fields that hold a block of the model.
pub(crate) fn as_json<S: Serializer>(block: &BlockRef, to: S) -> Result<S::Ok, S::Error> {
    BlockJson::from(*block).serialize(to)
}

/// For fields that hold blocks of the model.
pub(crate) fn all_as_json<S: Serializer>(blocks: &[BlockRef], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(blocks.iter().copied().map(BlockJson::from))
}

/// Blocks without a gap, with the lowest verification level among them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Interval {
    /// First block.
    from: u64,
    /// Last block.
    to: u64,
    level: Level,
}

impl Interval {
    pub(crate) fn new(range: BlockRange, level: Verification) -> Self {
        Self {
            from: range.start,
            to: range.end - 1,
            level: Level(level.as_str()),
        }
    }
}

/// The names of datasets.
pub(crate) fn dataset_names(datasets: DatasetSet) -> Vec<DatasetName> {
    datasets
        .iter()
        .map(|dataset| DatasetName(dataset.name()))
        .collect()
}

/// Which logs are kept, as text.
pub(crate) fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "all".to_owned(),
        Scope::Only(entries) => match entries.len() {
            1 => "1 pair of address and topic".to_owned(),
            several => format!("{several} pairs of address and topic"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids of Stellar chains used to be numbers that a browser rounds to the id of no chain.
    #[test]
    fn an_id_that_floating_point_would_change_is_text() {
        for (id, json) in [
            (0, "0"),
            (31_337, "31337"),
            (9_007_199_254_740_991, "9007199254740991"),
            (9_007_199_254_740_992, "\"9007199254740992\""),
            (4_668_226_517_559_895_467, "\"4668226517559895467\""),
            (u64::MAX, "\"18446744073709551615\""),
        ] {
            assert_eq!(serde_json::to_string(&ChainId(id)).unwrap(), json);
            assert_eq!(serde_json::from_str::<ChainId>(json).unwrap().0, id);
            let text = format!("\"{id}\"");
            assert_eq!(serde_json::from_str::<ChainId>(&text).unwrap().0, id);
        }
        for wrong in [
            "-1",
            "1.5",
            "\"pubnet\"",
            "null",
            "\"18446744073709551616\"",
        ] {
            assert!(serde_json::from_str::<ChainId>(wrong).is_err(), "{wrong}");
        }
    }
}

//! A transaction as it is archived: its bytes, and beside them what came that is not in them.
//!
//! | first byte | is |
//! |---|---|
//! | `0x00` | four bytes of length, the transaction's bytes, then a JSON object of fields beside them. The highest bit of the length says that the block's time is shown with it |
//! | `{` before a byte below `0x80` | JSON as it came: there is no encoding for it |
//! | other | the transaction's bytes alone |

use alloy_primitives::{Address, B256, keccak256};

use crate::json::{Members, UNPROVEN, escaped};
use crate::tx::{ARBOS, Decoded, Shown, TxFields, arbitrum};

const WITH_OTHERS: u8 = 0;
const SHOWS_TIME: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Hash of its block.
    pub block_hash: [u8; 32],
    pub block_number: u64,
    pub block_time: u64,
    /// Base fee of its block, where the header is at hand and the block's hash covers one.
    pub base_fee: Option<u64>,
    /// Base fee that came and that no hash covers. A price that follows from it is one source's word.
    pub claimed_base_fee: Option<u64>,
    /// Its position in the block.
    pub index: u64,
}

/// Why an archived transaction cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyError(&'static str);

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BodyError {}

const MALFORMED: BodyError = BodyError("an archived transaction is malformed");

#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// As it came: nothing proves it.
    Json(&'a [u8]),
    /// Its bytes, and an object of what came beside them.
    Bytes {
        /// What its hash is computed from.
        bytes: &'a [u8],
        /// Fields that are not in the bytes, as one source served them.
        others: Option<&'a [u8]>,
        /// Whether the block's time is shown with it, as it was when it came.
        shows_time: bool,
    },
}

impl<'a> Body<'a> {
    /// Takes an archived transaction apart.
    ///
    /// # Errors
    /// Where it is cut short.
    pub fn parse(stored: &'a [u8]) -> Result<Self, BodyError> {
        match stored {
            [] => Err(MALFORMED),
            [b'{', second, ..] if *second < 0x80 => Ok(Self::Json(stored)),
            [WITH_OTHERS, a, b, c, d, rest @ ..] => {
                let length = u32::from_be_bytes([*a, *b, *c, *d]);
                let split = rest.split_at_checked((length & !SHOWS_TIME) as usize);
                let (bytes, others) = split.ok_or(MALFORMED)?;
                Ok(Self::Bytes {
                    bytes,
                    others: (!others.is_empty()).then_some(others),
                    shows_time: length & SHOWS_TIME != 0,
                })
            }
            bytes => Ok(Self::Bytes {
                bytes,
                others: None,
                shows_time: false,
            }),
        }
    }

    /// The hash that its bytes have; none where there are none.
    #[must_use]
    pub fn hash(&self) -> Option<B256> {
        match self {
            Self::Json(_) => None,
            Self::Bytes { bytes, .. } => Some(keccak256(bytes)),
        }
    }

    /// What it was sent with and whom it calls, from its bytes. None for JSON, and where they do not hold it:
    /// a retryable of Arbitrum has neither in its bytes.
    ///
    /// # Errors
    /// Where the bytes are not a transaction.
    pub fn call(&self) -> Result<Option<Call<'a>>, BodyError> {
        let Self::Bytes { bytes, .. } = self else {
            return Ok(None);
        };
        let decoded = Decoded::new(bytes).ok_or(MALFORMED)?;
        let input = decoded.field("input").unwrap_or(&[]);
        if decoded.kind == arbitrum::INTERNAL {
            let to = Some(ARBOS);
            return Ok(Some(Call { input, to }));
        }
        let Some(to) = decoded.field("to") else {
            return Ok(None);
        };
        let to = (to.len() == 20).then(|| Address::from_slice(to));
        Ok(Some(Call { input, to }))
    }

    /// Who sent it, from its bytes: none for JSON, and where they do not hold it.
    #[must_use]
    pub fn sender(&self) -> Option<Address> {
        match self {
            Self::Json(_) => None,
            Self::Bytes { bytes, .. } => Decoded::new(bytes)?.sender(),
        }
    }

    /// Writes it as nodes show it.
    ///
    /// # Errors
    /// Where the bytes are not a transaction.
    pub fn write_json(&self, place: &Place, out: &mut Vec<u8>) -> Result<(), BodyError> {
        let (bytes, others, shows_time) = match *self {
            Self::Json(json) => {
                out.extend_from_slice(json);
                return Ok(());
            }
            Self::Bytes {
                bytes,
                others,
                shows_time,
            } => (bytes, others, shows_time),
        };
        let decoded = Decoded::new(bytes).ok_or(MALFORMED)?;
        let shown = Shown {
            hash: &keccak256(bytes).0,
            block_hash: &place.block_hash,
            block_number: place.block_number,
            block_time: shows_time.then_some(place.block_time),
            index: place.index,
            base_fee: place.base_fee,
        };
        let others = match others {
            Some(others) => serde_json::from_slice(others).map_err(|_| MALFORMED)?,
            None => Members(Vec::new()),
        };
        // What follows from the bytes is shown from them alone.
        let is_other = |name: &str| name != UNPROVEN && !decoded.derives(name, place.base_fee);
        let others = others.0.iter().filter(|(name, _)| is_other(name));
        let others = others.map(|(name, value)| (name.as_str(), value.get()));
        let mut others: Vec<(&str, &str)> = others.collect();
        let price = decoded.claimed_price(place.base_fee, place.claimed_base_fee);
        let price = price.filter(|_| others.iter().all(|(name, _)| *name != "gasPrice"));
        others.extend(price.as_deref().map(|price| ("gasPrice", price)));
        let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
        let mut object = decoded.write(&shown, &names, out);
        for (name, value) in others {
            object.raw(&escaped(name), value);
        }
        object.unproven(&names);
        object.end();
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// What it was sent with.
    pub input: &'a [u8],
    /// Whom it calls; none where it creates a contract.
    pub to: Option<Address>,
}

/// The archived form of a transaction whose bytes are known. What does not follow from the bytes is
/// kept beside them, and named in `unprovenFields`, which readers see. In a block without a
/// base fee that its hash covers, the price that was paid is such a field.
#[must_use]
pub fn store_body(tx: &TxFields<'_>, bytes: &[u8], base_fee: Option<u64>) -> Vec<u8> {
    let decoded = Decoded::new(bytes).expect("a type that can be encoded can be decoded");
    let others = tx.beside(&decoded, base_fee);
    if others.is_empty() && !tx.has_block_time {
        return bytes.to_vec();
    }
    let mut out = vec![WITH_OTHERS];
    let time = if tx.has_block_time { SHOWS_TIME } else { 0 };
    out.extend_from_slice(&(bytes.len() as u32 | time).to_be_bytes());
    out.extend_from_slice(bytes);
    if others.is_empty() {
        return out;
    }
    let mut object = crate::json::Object::begin(&mut out);
    for (name, value) in &others {
        object.key(&escaped(name)).extend_from_slice(value);
    }
    let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    object.unproven(&names);
    object.end();
    out
}

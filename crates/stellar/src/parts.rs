//! One transaction out of its body: envelope, result, meta and events.

use bytes::Bytes;
use chronolith_model::Hash32;

use crate::events::EventSpans;
use crate::fault::Fault;
use crate::ledger::{Version, tx_spans};
use crate::reader::{Reader, Span};
use crate::schema::WIRE;
use crate::skeleton::{FORM_V1, FORM_V2};

/// A fee bump's result: the inner transaction succeeded, or failed.
pub(crate) const INNER_SUCCESS: i32 = 1;
const INNER_FAILED: i32 = -13;
/// The sort of envelope that a fee bump has.
const FEE_BUMP: u32 = 5;

/// The parts of a transaction. All share the bytes of its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxParts {
    pub hash: Hash32,
    /// The hash of the transaction inside a fee bump.
    pub inner_hash: Option<Hash32>,
    pub successful: bool,
    /// Whether it is a fee bump.
    pub fee_bump: bool,
    pub envelope: Bytes,
    pub result: Bytes,
    pub meta: Bytes,
}

/// The events of a transaction as XDR.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TxEvents {
    pub transaction: Vec<Bytes>,
    /// Those of each operation: ContractEvent each.
    pub operations: Vec<Vec<Bytes>>,
    pub diagnostic: Vec<Bytes>,
}

impl TxParts {
    /// Reads a body.
    ///
    /// # Errors
    /// `Parts` or `Malformed` where it is none.
    pub fn read(body: &Bytes) -> Result<Self, Fault> {
        let (schema, types) = &*WIRE;
        let version = match body.first() {
            Some(&FORM_V1) => Version::V1,
            Some(&FORM_V2) => Version::V2,
            _ => return Err(Fault::Parts("not the body of a transaction")),
        };
        let content = body.slice(1..);
        let mut reader = Reader::new(&content)?;
        let envelope = schema.span(types.envelope, &mut reader)?;
        let spans = tx_spans(&mut reader, version)?;
        reader.finish()?;
        let slice = |span: Span| content.slice(span.range());
        let pair = slice(spans.pair);
        let hash = pair.first_chunk::<32>().copied();
        let hash = hash.expect("a result begins with a hash, by the schema it was read with");
        let sort = content.first_chunk::<4>().copied();
        let sort = sort.expect("an envelope begins with its sort, by the schema it was read with");
        Ok(Self {
            hash: Hash32(hash),
            inner_hash: inner_hash(&pair),
            successful: is_successful(&pair),
            fee_bump: u32::from_be_bytes(sort) == FEE_BUMP,
            envelope: slice(envelope),
            result: pair.slice(32..),
            meta: slice(spans.meta),
        })
    }

    /// Its events.
    ///
    /// # Errors
    /// `Malformed` where its meta is of an unknown version.
    pub fn events(&self) -> Result<TxEvents, Fault> {
        let found = EventSpans::find(&self.meta)?;
        let slice = |span: &Span| self.meta.slice(span.range());
        let slices = |spans: &Vec<Span>| spans.iter().map(slice).collect();
        Ok(TxEvents {
            transaction: found.transaction.iter().map(|own| slice(&own.1)).collect(),
            operations: found.operations.iter().map(slices).collect(),
            diagnostic: slices(&found.diagnostic),
        })
    }

    /// Whether it is a Soroban transaction whose meta is V3: it has one operation, also where the meta says
    /// nothing of it.
    #[must_use]
    pub fn is_soroban_v3(&self) -> bool {
        self.meta.starts_with(&3_u32.to_be_bytes()) && is_soroban(&self.envelope).unwrap_or(false)
    }
}

/// Whether the transaction in an envelope has an extension for Soroban.
fn is_soroban(envelope: &[u8]) -> Result<bool, Fault> {
    let (schema, types) = &*WIRE;
    let mut reader = Reader::new(envelope)?;
    match reader.u32()? {
        2 => {}
        FEE_BUMP => {
            // Who pays and how much, and the sort of the transaction inside.
            schema.skip(types.muxed_account, &mut reader)?;
            reader.take(8 + 4)?;
        }
        _ => return Ok(false),
    }
    schema.skip(types.muxed_account, &mut reader)?;
    // Fee and sequence number.
    reader.take(4 + 8)?;
    schema.skip(types.preconditions, &mut reader)?;
    schema.skip(types.memo, &mut reader)?;
    schema.skip_many(types.operation, &mut reader)?;
    Ok(reader.u32()? == 1)
}

/// The code of a result, after its hash and fee, and what follows it.
fn code(pair: &[u8]) -> (i32, &[u8]) {
    let after = pair.get(40..).and_then(<[u8]>::split_first_chunk::<4>);
    let (code, rest) =
        after.expect("a result has a fee and a code, by the schema it was read with");
    (i32::from_be_bytes(*code), rest)
}

/// Whether a transaction succeeded, by its hash and result.
pub(crate) fn is_successful(pair: &[u8]) -> bool {
    matches!(code(pair).0, 0 | INNER_SUCCESS)
}

/// The hash of the transaction inside a fee bump, by hash and result.
pub(crate) fn inner_hash(pair: &[u8]) -> Option<Hash32> {
    let (code, rest) = code(pair);
    matches!(code, INNER_SUCCESS | INNER_FAILED).then(|| {
        let inner = rest.first_chunk::<32>();
        Hash32(*inner.expect("such a result names the inner transaction, by its schema"))
    })
}

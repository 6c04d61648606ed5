//! Blocks and transactions as nodes return them.
//!
//! A header is stored as the chain encodes it. That lacks the lists of uncles and withdrawals and the size,
//! which are left out where the header's roots do not determine them. A header with other fields than
//! Ethereum's is stored as JSON and returned with all of them; those that the block's hash does not cover are
//! named. A transaction is written from its bytes.

use alloy_consensus::Header;
use alloy_primitives::{B256, b256};
use alloy_rlp::Decodable as _;
use bytes::Bytes;
use chronolith_archive::Error as ArchiveError;
use chronolith_chain_view::Location;
use chronolith_evm::{BlockFields, Body, HeaderFields, Place as TxPlace};
use chronolith_model::{Block, BlockMeta, Dataset, DatasetSet, Hash32, Tx};
use serde::de::IgnoredAny;

use super::reply::Answer;
use super::tags::resolve;
use super::wire::{BlockTag, Fixed, Params};
use crate::encode::{data, quantity};
use crate::error::ApiError;
use crate::fault::Fault;
use crate::http::body::BytesAnswer;
use crate::http::context::{Context, QuerySlot};
use crate::view::View;

/// The hash of an empty list of uncles.
const NO_UNCLES: B256 = b256!("0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");
/// The root of an empty trie.
const EMPTY_ROOT: B256 =
    b256!("0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");
/// About what a header takes as JSON.
const HEADER_BYTES: usize = 2_048;
/// About what a transaction takes as JSON, beside its bytes as hex: names, its place and its hash.
const TRANSACTION_BYTES: usize = 600;

/// What a block has of its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transactions {
    Hashes,
    Whole,
}

pub(super) async fn by_number(
    context: &Context,
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let number = resolve(view, params.get::<BlockTag>(0)?)?;
    let transactions = transactions_of(params)?;
    answer(context, view, view.clock(number).await?, transactions).await
}

pub(super) async fn by_hash(
    context: &Context,
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let hash = params.get::<Fixed<32>>(0)?.into();
    let transactions = transactions_of(params)?;
    answer(context, view, find_block(view, &hash).await?, transactions).await
}

fn transactions_of(params: &Params<'_>) -> Result<Transactions, ApiError> {
    Ok(match params.maybe::<bool>(1)? {
        Some(true) => Transactions::Whole,
        Some(false) | None => Transactions::Hashes,
    })
}

async fn answer(
    context: &Context,
    view: &View<'_>,
    found: Option<BlockMeta>,
    transactions: Transactions,
) -> Result<Answer, ApiError> {
    match found {
        Some(clock) => block_json(context, view, clock, transactions)
            .await
            .map(Answer::Bytes),
        None => Ok(Answer::null()),
    }
}

/// The block with a hash; none where no block can have it.
pub(crate) async fn find_block(
    view: &View<'_>,
    hash: &Hash32,
) -> Result<Option<BlockMeta>, ApiError> {
    match view.find_block(hash).await? {
        None => no_such_hash(view),
        found => Ok(found),
    }
}

/// None, where no block can have the hash.
fn no_such_hash<T>(view: &View<'_>) -> Result<Option<T>, ApiError> {
    view.known_newest()?;
    Ok(None)
}

pub(super) async fn count_by_number(
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let number = resolve(view, params.get::<BlockTag>(0)?)?;
    match view.clock(number).await? {
        Some(clock) => count(view, clock).await,
        None => Ok(Answer::null()),
    }
}

pub(super) async fn count_by_hash(
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let hash = params.get::<Fixed<32>>(0)?.into();
    match find_block(view, &hash).await? {
        Some(clock) => count(view, clock).await,
        None => Ok(Answer::null()),
    }
}

async fn count(view: &View<'_>, clock: BlockMeta) -> Result<Answer, ApiError> {
    Ok(Answer::quantity(txs(view, &clock).await?.len() as u64))
}

pub(super) async fn transaction(view: &View<'_>, params: &Params<'_>) -> Result<Answer, ApiError> {
    let hash: Hash32 = params.get::<Fixed<32>>(0)?.into();
    match find_transaction(view, &hash).await? {
        Some((clock, index)) => transaction_json(view, clock, index).await.map(Answer::Json),
        None => Ok(Answer::null()),
    }
}

/// The block of the transaction with a hash, and its position there; none where no transaction can have the hash.
pub(crate) async fn find_transaction(
    view: &View<'_>,
    hash: &Hash32,
) -> Result<Option<(BlockMeta, u32)>, ApiError> {
    require_dataset(view, Dataset::Transactions)?;
    let Some((clock, index)) = view.find_transaction(hash).await? else {
        view.known_whole(DatasetSet::of(&[Dataset::TxHashes]))?;
        return no_such_hash(view);
    };
    // Logs may name the hash of their block: no transaction has it.
    Ok((clock.hash != *hash).then_some((clock, index)))
}

/// The transaction at a position of a block, as JSON.
pub(crate) async fn transaction_json(
    view: &View<'_>,
    clock: BlockMeta,
    index: u32,
) -> Result<Vec<u8>, ApiError> {
    let number = clock.number;
    let lost =
        || ArchiveError::Internal(format!("transaction {index} of block {number} has no body"));
    let body = match view.location(number)? {
        Some(Location::Tail(block)) => body_in(block, index).ok_or_else(lost)?,
        Some(Location::Archive(archive)) => archive.body_at(number, index).await?,
        None => return Err(ApiError::unknown_block()),
    };
    let base_fee = if view.chain.datasets.contains(Dataset::Headers) {
        header(view, number).await?.base_fee()
    } else {
        BaseFee::default()
    };
    let mut out = Vec::with_capacity(1_024);
    write_transaction(&mut out, &body, &tx_place(&clock, base_fee, index.into()))?;
    Ok(out)
}

fn tx_place(clock: &BlockMeta, base_fee: BaseFee, index: u64) -> TxPlace {
    TxPlace {
        block_hash: clock.hash.0,
        block_number: clock.number,
        block_time: clock.timestamp,
        base_fee: base_fee.proven,
        claimed_base_fee: base_fee.claimed,
        index,
    }
}

fn write_transaction(out: &mut Vec<u8>, stored: &[u8], place: &TxPlace) -> Result<(), ApiError> {
    let written = Body::parse(stored).and_then(|body| body.write_json(place, out));
    written.map_err(|error| {
        let (number, index) = (place.block_number, place.index);
        let what = format!("transaction {index} of block {number}: {error}");
        ArchiveError::Internal(what).into()
    })
}

fn require_dataset(view: &View<'_>, dataset: Dataset) -> Result<(), Fault> {
    if view.chain.datasets.contains(dataset) {
        return Ok(());
    }
    Err(Fault::NotKept(dataset))
}

/// The body of a transaction of a block in the tail.
fn body_in(block: &Block, index: u32) -> Option<Bytes> {
    let mut own = block.txs.iter().filter(|tx| !tx.is_alias());
    let at = own.position(|tx| tx.index == index)?;
    block.payload.bodies.as_ref()?.get(at).cloned()
}

/// All transactions of a block, in order, without aliases and without the block itself.
async fn txs(view: &View<'_>, clock: &BlockMeta) -> Result<Vec<Tx>, ApiError> {
    require_dataset(view, Dataset::TxHashes)?;
    let mut txs = match view.location(clock.number)? {
        Some(Location::Tail(block)) => block.txs.clone(),
        Some(Location::Archive(archive)) => archive.transactions(clock.number).await?,
        None => return Err(ApiError::unknown_block()),
    };
    txs.retain(|tx| !tx.is_alias() && !tx.is_block(clock));
    Ok(txs)
}

/// The bodies of all transactions of a block, in order.
async fn bodies(view: &View<'_>, number: u64) -> Result<Vec<Bytes>, ApiError> {
    require_dataset(view, Dataset::Transactions)?;
    // Without hashes of all transactions, only those that logs name have bodies.
    require_dataset(view, Dataset::TxHashes)?;
    let found = match view.location(number)? {
        Some(Location::Tail(block)) => block.payload.bodies.clone(),
        Some(Location::Archive(archive)) => {
            archive.payload(number, Dataset::Transactions).await?.bodies
        }
        None => None,
    };
    found.ok_or_else(|| Fault::NotKept(Dataset::Transactions).into())
}

/// The base fee of a block: covered by its hash, or claimed by an endpoint.
#[derive(Clone, Copy, Default)]
struct BaseFee {
    proven: Option<u64>,
    claimed: Option<u64>,
}

/// A stored header.
enum StoredHeader {
    /// Ethereum's encoding.
    Plain(Box<Header>),
    /// JSON, with other fields.
    Json(Box<HeaderFields>),
}

impl StoredHeader {
    fn base_fee(&self) -> BaseFee {
        let (proven, came) = match self {
            Self::Plain(header) => (header.base_fee_per_gas, header.base_fee_per_gas),
            Self::Json(fields) => {
                // The encoding that is hashed with the transactions covers no base fee.
                let form = fields.hashed(&[]).map(|(form, _)| form);
                let proven = form.and_then(|form| form.base_fee(&fields.header));
                (proven, fields.header.base_fee_per_gas)
            }
        };
        BaseFee {
            proven,
            claimed: came.filter(|_| proven.is_none()),
        }
    }
}

async fn header(view: &View<'_>, number: u64) -> Result<StoredHeader, ApiError> {
    require_dataset(view, Dataset::Headers)?;
    let found = match view.location(number)? {
        Some(Location::Tail(block)) => block.payload.header.clone(),
        Some(Location::Archive(archive)) => archive.payload(number, Dataset::Headers).await?.header,
        None => None,
    };
    let found = found.ok_or(Fault::NotKept(Dataset::Headers))?;
    let unreadable = |error: String| {
        let what = format!("the header of block {number} does not decode: {error}");
        ArchiveError::Internal(what)
    };
    if found.first() == Some(&b'{') {
        let fields: BlockFields<IgnoredAny> =
            serde_json::from_slice(&found).map_err(|error| unreadable(error.to_string()))?;
        return Ok(StoredHeader::Json(Box::new(fields.header)));
    }
    let header = Header::decode(&mut &found[..]).map_err(|error| unreadable(error.to_string()))?;
    Ok(StoredHeader::Plain(Box::new(header)))
}

/// Hashes of all transactions of a block; empty where they are not kept. One family of chains hashes them
/// with the header.
async fn tx_hashes(view: &View<'_>, clock: &BlockMeta) -> Result<Vec<B256>, ApiError> {
    if require_dataset(view, Dataset::TxHashes).is_err() {
        return Ok(Vec::new());
    }
    let txs = txs(view, clock).await?;
    Ok(txs.iter().map(|tx| B256::new(tx.hash.0)).collect())
}

/// A block as JSON. One with whole transactions may have megabytes: it is made in a slot, and memory is held before.
pub(crate) async fn block_json(
    context: &Context,
    view: &View<'_>,
    clock: BlockMeta,
    transactions: Transactions,
) -> Result<BytesAnswer, ApiError> {
    let header = header(view, clock.number).await?;
    let mut answer = BytesAnswer::from(Vec::with_capacity(HEADER_BYTES));
    let whole = match transactions {
        Transactions::Whole => Some(bodies_in_memory(context, view, &clock, &mut answer).await?),
        Transactions::Hashes => None,
    };
    let out = &mut answer.text;
    match &header {
        StoredHeader::Plain(header) => write_header(out, header, &clock),
        StoredHeader::Json(fields) => {
            let json = fields.shown_json(&tx_hashes(view, &clock).await?);
            let fields = json
                .strip_suffix(b"}")
                .expect("an object ends with a brace");
            out.extend_from_slice(fields);
        }
    }
    out.extend_from_slice(b",\"transactions\":[");
    if let Some((_slot, bodies)) = whole {
        let base_fee = header.base_fee();
        out.reserve(size_of_transactions(&bodies));
        for (at, body) in bodies.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            write_transaction(out, body, &tx_place(&clock, base_fee, at as u64))?;
        }
    } else {
        for (at, tx) in txs(view, &clock).await?.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            data(out, tx.hash.as_bytes());
        }
    }
    out.extend_from_slice(b"]}");
    Ok(answer)
}

/// The transactions of a block, with a slot and memory for their JSON. What waits for memory waits without a slot, as
/// queries for logs do.
async fn bodies_in_memory(
    context: &Context,
    view: &View<'_>,
    clock: &BlockMeta,
    answer: &mut BytesAnswer,
) -> Result<(QuerySlot, Vec<Bytes>), ApiError> {
    let mut has_waited = false;
    loop {
        let slot = context.query_slot().await?;
        let bodies = bodies(view, clock.number).await?;
        let size = HEADER_BYTES + size_of_transactions(&bodies);
        if has_waited || context.try_grow(&mut answer.reservation, size) {
            return Ok((slot, bodies));
        }
        drop((slot, bodies));
        context.grow(&mut answer.reservation, size).await?;
        has_waited = true;
    }
}

/// About what transactions take as JSON.
fn size_of_transactions(bodies: &[Bytes]) -> usize {
    let sizes = bodies.iter().map(|body| TRANSACTION_BYTES + body.len() * 2);
    sizes.sum()
}

fn write_header(out: &mut Vec<u8>, header: &Header, clock: &BlockMeta) {
    out.extend_from_slice(b"{\"number\":");
    quantity(out, clock.number);
    let mut hash = |name: &str, bytes: &[u8]| {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        data(out, bytes);
    };
    hash("hash", clock.hash.as_bytes());
    hash("parentHash", header.parent_hash.as_slice());
    hash("sha3Uncles", header.ommers_hash.as_slice());
    hash("miner", header.beneficiary.as_slice());
    hash("stateRoot", header.state_root.as_slice());
    hash("transactionsRoot", header.transactions_root.as_slice());
    hash("receiptsRoot", header.receipts_root.as_slice());
    hash("logsBloom", header.logs_bloom.as_slice());
    hash("extraData", &header.extra_data);
    hash("mixHash", header.mix_hash.as_slice());
    hash("nonce", header.nonce.as_slice());
    let roots = [
        ("withdrawalsRoot", header.withdrawals_root),
        ("parentBeaconBlockRoot", header.parent_beacon_block_root),
        ("requestsHash", header.requests_hash),
        ("blockAccessListHash", header.block_access_list_hash),
    ];
    for (name, root) in roots {
        if let Some(root) = root {
            hash(name, root.as_slice());
        }
    }
    let mut number = |name: &str, value: u64| {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        quantity(out, value);
    };
    number("gasLimit", header.gas_limit);
    number("gasUsed", header.gas_used);
    number("timestamp", header.timestamp);
    let maybe = [
        ("baseFeePerGas", header.base_fee_per_gas),
        ("blobGasUsed", header.blob_gas_used),
        ("excessBlobGas", header.excess_blob_gas),
        ("slotNumber", header.slot_number),
    ];
    for (name, value) in maybe {
        if let Some(value) = value {
            number(name, value);
        }
    }
    out.extend_from_slice(format!(",\"difficulty\":\"0x{:x}\"", header.difficulty).as_bytes());
    if header.ommers_hash == NO_UNCLES {
        out.extend_from_slice(b",\"uncles\":[]");
    }
    if header.withdrawals_root == Some(EMPTY_ROOT) {
        out.extend_from_slice(b",\"withdrawals\":[]");
    }
}

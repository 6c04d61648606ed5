//! Transactions: `getTransaction` by either hash of a fee bump, and `getTransactions` in pages.

use std::io::Write as _;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use chronolith_archive::TxLocation;
use chronolith_chain_view::Location;
use chronolith_model::{BlockMeta, Dataset, DatasetSet, Hash32, Tx};
use chronolith_stellar::{Toid, TxParts};
use stellar_xdr::{
    ContractEvent, DiagnosticEvent, TransactionEnvelope, TransactionEvent, TransactionMeta,
    TransactionResult,
};

use super::bounds::{Bounds, TimeFormat};
use super::wire::{Format, PageParams, PageStart, TransactionParams};
use super::{END_BYTES, unreadable, xdr};
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::http::body::BytesAnswer;
use crate::http::context::{Context, QuerySlot};
use crate::rpc::Answer;
use crate::view::View;

/// Bodies that are read at a time.
const BODIES_AT_ONCE: u32 = 64;

pub(super) async fn one(
    context: &Context,
    view: &View<'_>,
    params: TransactionParams,
) -> Result<Answer, ApiError> {
    let format = params.xdr_format.known().map_err(ApiError::params)?;
    let hash = read_hash(&params.hash)?;
    let bounds = Bounds::of(view).await?;
    let Some((clock, position)) = find(view, &hash).await? else {
        view.known_whole(DatasetSet::of(&[Dataset::TxHashes]))?;
        return Ok(not_found(&params.hash, &bounds));
    };
    let body = body(view, clock.number, position).await?;
    let mut out = BytesAnswer::default();
    context.grow(&mut out.reservation, size_of(&body)).await?;
    let place = TxEntry {
        clock,
        position,
        // As it was asked for: in capitals, or that of the transaction inside a fee bump.
        hash: Some(params.hash),
    };
    out.text = match format {
        // One of them does not wait for pages.
        Format::Base64 => render(None, place, (body, format)).await?,
        Format::Json => render(Some(&context.query_slot().await?), place, (body, format)).await?,
    };
    let _ = write!(out.text, ",\"createdAt\":\"{}\"", clock.timestamp);
    bounds.write(&mut out.text, TimeFormat::Text);
    out.text.push(b'}');
    Ok(Answer::Bytes(out))
}

/// About what a transaction takes in an answer: everything is there twice at the most, for events stand in
/// the meta too.
fn size_of(body: &Bytes) -> usize {
    body.len() / 3 * 8 + END_BYTES
}

/// Which transaction is shown, and under which hash where not under its own.
struct TxEntry {
    clock: BlockMeta,
    position: u32,
    hash: Option<String>,
}

/// A transaction as it is asked for, open at its end. To take one apart keeps a thread busy: where there is a
/// turn for that, it is done aside.
async fn render(
    query_slot: Option<&QuerySlot>,
    entry: TxEntry,
    (body, format): (Bytes, Format),
) -> Result<Vec<u8>, ApiError> {
    let number = entry.clock.number;
    let write = move || {
        let parts = TxParts::read(&body).map_err(|fault| fault.to_string())?;
        let mut out = Vec::with_capacity(size_of(&body));
        out.push(b'{');
        write_parts(&mut out, &entry, &parts, format).map(|()| out)
    };
    let render = match query_slot {
        Some(query_slot) => query_slot.run_blocking(write).await?,
        None => write(),
    };
    render.map_err(|why| unreadable(number, why))
}

fn read_hash(text: &str) -> Result<Hash32, ApiError> {
    let mut hash = [0; 32];
    if text.len() != 64 {
        let message = format!("unexpected hash length ({})", text.len());
        return Err(ApiError::params(message));
    }
    match const_hex::decode_to_slice(text.as_bytes(), &mut hash) {
        Ok(()) => Ok(Hash32(hash)),
        Err(_) => Err(ApiError::params("incorrect hash: not hex")),
    }
}

/// As Stellar RPC answers: what there would be of a transaction is zero.
fn not_found(hash: &str, bounds: &Bounds) -> Answer {
    let mut out = Vec::with_capacity(512);
    let _ = write!(
        out,
        "{{\"status\":\"NOT_FOUND\",\"txHash\":\"{hash}\",\"applicationOrder\":0,\"feeBump\":false,\"events\":{{}},\"ledger\":0,\"createdAt\":\"0\"",
    );
    bounds.write(&mut out, TimeFormat::Text);
    out.push(b'}');
    Answer::Json(out)
}

/// The ledger of a transaction and its position there, by any of its hashes.
async fn find(view: &View<'_>, hash: &Hash32) -> Result<Option<(BlockMeta, u32)>, ApiError> {
    let in_tail = view.tail.find_tx(hash);
    let in_tail = in_tail.filter(|(block, _)| block.clock.number >= view.tail_start());
    let found = match (in_tail, &view.archive) {
        (Some((block, index)), _) => Some((block.clock, index)),
        (None, Some(archive)) => {
            let found = archive.transaction_by_hash(hash).await;
            found?.map(|TxLocation { block, index }| (block, index))
        }
        (None, None) => None,
    };
    Ok(found)
}

/// The body of one transaction.
async fn body(view: &View<'_>, number: u64, position: u32) -> Result<Bytes, ApiError> {
    let found = bodies(view, number, position..position.saturating_add(1)).await?;
    let lost = || unreadable(number, format!("transaction {position} has no body"));
    found.into_iter().next().ok_or_else(lost)
}

/// Bodies of a ledger's transactions, by their positions.
async fn bodies(
    view: &View<'_>,
    number: u64,
    positions: Range<u32>,
) -> Result<Vec<Bytes>, ApiError> {
    match view.location(number)? {
        Some(Location::Archive(archive)) => Ok(archive.bodies(number, positions).await?),
        Some(Location::Tail(block)) => {
            let all = block.payload.bodies.as_deref();
            let all = all.ok_or(Fault::NotKept(Dataset::Transactions))?.iter();
            let some = all.skip(positions.start as usize).take(positions.len());
            Ok(some.cloned().collect())
        }
        None => Ok(Vec::new()),
    }
}

/// How many transactions a ledger has, each counted once; none above the newest ledger.
async fn count(view: &View<'_>, number: u64) -> Result<Option<u32>, ApiError> {
    // Positions have 31 bits.
    let own = |txs: &[Tx]| txs.iter().filter(|tx| !tx.is_alias()).count() as u32;
    match view.location(number)? {
        Some(Location::Tail(block)) => Ok(Some(own(&block.txs))),
        Some(Location::Archive(archive)) => Ok(Some(own(&archive.transactions(number).await?))),
        None => Ok(None),
    }
}

/// Appends what both methods say of a transaction, without what stands around it.
fn write_parts(
    out: &mut Vec<u8>,
    entry: &TxEntry,
    parts: &TxParts,
    format: Format,
) -> Result<(), String> {
    let own = || const_hex::encode(parts.hash.0);
    let hash = entry.hash.clone().unwrap_or_else(own);
    let status = if parts.successful {
        "SUCCESS"
    } else {
        "FAILED"
    };
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "\"status\":\"{status}\",\"txHash\":\"{hash}\",\"applicationOrder\":{},\"feeBump\":{}",
        u64::from(entry.position) + 1,
        parts.fee_bump,
    );
    xdr::name(out, "envelope", format);
    xdr::value::<TransactionEnvelope>(out, &parts.envelope, format)?;
    xdr::name(out, "result", format);
    xdr::value::<TransactionResult>(out, &parts.result, format)?;
    xdr::name(out, "resultMeta", format);
    xdr::value::<TransactionMeta>(out, &parts.meta, format)?;
    let mut events = parts.events().map_err(|fault| fault.to_string())?;
    // A contract call that failed may say nothing of its events: Stellar RPC lists none, of one operation.
    if events.operations.is_empty() && parts.is_soroban_v3() {
        events.operations.push(Vec::new());
    }
    if !events.diagnostic.is_empty() {
        xdr::name(out, "diagnosticEvents", format);
        xdr::list::<DiagnosticEvent>(out, &events.diagnostic, format)?;
    }
    let mut inside = Vec::new();
    if !events.transaction.is_empty() {
        xdr::name(&mut inside, "transactionEvents", format);
        xdr::list::<TransactionEvent>(&mut inside, &events.transaction, format)?;
    }
    if !events.operations.is_empty() {
        xdr::name(&mut inside, "contractEvents", format);
        inside.push(b'[');
        for (at, operation) in events.operations.iter().enumerate() {
            if at > 0 {
                inside.push(b',');
            }
            xdr::list::<ContractEvent>(&mut inside, operation, format)?;
        }
        inside.push(b']');
    }
    out.extend_from_slice(b",\"events\":{");
    // The first name has no comma before it.
    out.extend_from_slice(inside.get(1..).unwrap_or_default());
    let _ = write!(out, "}},\"ledger\":{}", entry.clock.number);
    Ok(())
}

/// A page on its way.
struct Page<'a> {
    context: &'a Context,
    view: &'a View<'a>,
    query_slot: QuerySlot,
    out: BytesAnswer,
    left: u32,
    /// The last transaction that was looked at: position 0 stands before the first.
    last: (u64, u32),
    format: Format,
}

/// A page ends early where it grows too large or there is no memory for more right now, where too many ledgers
/// were looked at or half of the time has passed, and before ledgers that are lacking. Its cursor says how far
/// it is whole.
pub(super) async fn page(
    context: &Context,
    view: &View<'_>,
    params: PageParams,
) -> Result<Answer, ApiError> {
    let bounds = Bounds::of(view).await?;
    let (from, limit, format) = params.checked(&bounds)?;
    // A cursor behind the newest ledger is an empty page, and the same cursor again.
    let (first, is_cursor) = match &from {
        PageStart::Ledger(start) => ((*start, 0), false),
        PageStart::Cursor(cursor) => (read_cursor(cursor)?, true),
    };
    let mut page = Page {
        context,
        view,
        query_slot: context.query_slot().await?,
        out: BytesAnswer::default(),
        left: u32::try_from(limit).unwrap_or(u32::MAX),
        last: first,
        format,
    };
    page.out.text.extend_from_slice(b"{\"transactions\":[");
    let (started, patience) = (Instant::now(), context.limits.timeout / 2);
    let start = first.0;
    let end = start.saturating_add(context.limits.page_ledgers);
    for number in start..end.min(bounds.latest + 1) {
        // Whoever asks goes on from where this page ends: that must not be where it began.
        let has_moved = page.last != first;
        if has_moved && started.elapsed() > patience {
            break;
        }
        match page.take_ledger(number).await {
            Ok(true) => {}
            Ok(false) => break,
            // The next page begins before what is lacking, gets no further, and says so.
            Err(error)
                if error.code == ErrorCode::NotCovered
                    && number > start
                    && (has_moved || !is_cursor) =>
            {
                break;
            }
            Err(error) if error.code == ErrorCode::NotCovered && is_cursor => {
                return Err(ApiError {
                    code: ErrorCode::InvalidParams,
                    message: format!("database does not contain metadata for ledger: {number}"),
                    ..error
                });
            }
            Err(error) => return Err(bounds.outside(error, start, &from)),
        }
    }
    let (ledger, tx) = page.last;
    let cursor = Toid {
        ledger: u32::try_from(ledger).unwrap_or(u32::MAX),
        tx,
        operation: 1,
    };
    let mut out = page.out;
    out.text.push(b']');
    bounds.write(&mut out.text, TimeFormat::Timestamp);
    let _ = write!(out.text, ",\"cursor\":\"{}\"}}", cursor.number());
    Ok(Answer::Bytes(out))
}

/// The ledger and the transaction that a cursor names.
fn read_cursor(cursor: &str) -> Result<(u64, u32), ApiError> {
    let is_number = !cursor.is_empty() && cursor.bytes().all(|byte| byte.is_ascii_digit());
    let number = cursor.parse().ok().filter(|_| is_number);
    let place = number.and_then(Toid::from_number);
    let place = place.filter(|place| place.ledger > 0);
    let place = place.ok_or_else(|| {
        let entry: String = cursor.chars().take(40).collect();
        ApiError::params(format!("cursor ('{entry}') names no transaction"))
    })?;
    Ok((place.ledger.into(), place.tx))
}

impl Page<'_> {
    /// Takes the transactions of a ledger behind the last; returns whether the next ledger may follow.
    async fn take_ledger(&mut self, number: u64) -> Result<bool, ApiError> {
        if self.left == 0 {
            return Ok(false);
        }
        let Some(count) = count(self.view, number).await? else {
            return Ok(false);
        };
        let after = match self.last {
            (ledger, tx) if ledger == number => tx,
            _ => 0,
        };
        let clock = self.view.clock(number).await?;
        let clock = clock.ok_or_else(|| unreadable(number, "it has no clock"))?;
        self.last = (number, after);
        let mut at = after;
        while at < count {
            let end = count.min(at.saturating_add(self.left.min(BODIES_AT_ONCE)));
            let found = bodies(self.view, number, at..end).await?;
            if found.len() != (end - at) as usize {
                return Err(unreadable(number, "transactions without a body"));
            }
            for body in found {
                if !self.take_body(clock, at, body).await? {
                    return Ok(false);
                }
                at += 1;
                self.last = (number, at);
            }
            if self.left == 0 {
                return Ok(false);
            }
            // To encode takes a while, and others wait for this thread.
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Appends a transaction; returns false where there is no room for it.
    async fn take_body(
        &mut self,
        clock: BlockMeta,
        at: u32,
        body: Bytes,
    ) -> Result<bool, ApiError> {
        let (context, out) = (self.context, &mut self.out);
        let query_slot = (self.format == Format::Json).then_some(&self.query_slot);
        let entry = TxEntry {
            clock,
            position: at,
            hash: None,
        };
        let tx = render(query_slot, entry, (body, self.format)).await?;
        let size = out.size() + tx.len() + END_BYTES;
        if out.text.last() == Some(&b'[') {
            context.grow(&mut out.reservation, size).await?;
        } else if size > context.limits.answer_bytes
            || !context.try_grow(&mut out.reservation, size)
        {
            return Ok(false);
        } else {
            out.text.push(b',');
        }
        out.text.extend_from_slice(&tx);
        let _ = write!(out.text, ",\"createdAt\":{}}}", clock.timestamp);
        self.left -= 1;
        Ok(true)
    }
}

//! Transactions: `getTransaction` by either hash of a fee bump, and `getTransactions` in pages.

use std::io::Write as _;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use chronolith_chain_view::Location;
use chronolith_model::{BlockMeta, Dataset, DatasetSet, Hash32, Tx};
use chronolith_stellar::{Toid, TxParts};
use stellar_xdr::{
    ContractEvent, DiagnosticEvent, TransactionEnvelope, TransactionEvent, TransactionMeta,
    TransactionResult,
};

use super::bounds::{Bounds, TimeFormat};
use super::wire::{Format, PageParams, PageStart, TransactionParams};
use super::{END_BYTES, begin_item, unreadable, xdr};
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::fault::Fault;
use crate::http::body::BytesAnswer;
use crate::http::context::{Context, QuerySlot};
use crate::rpc::Answer;
use crate::view::View;

/// Bodies that are read at once.
const BODIES_AT_ONCE: u32 = 64;

pub(super) async fn one(
    context: &Context,
    view: &View<'_>,
    params: TransactionParams,
) -> Result<Answer, ApiError> {
    let format = params.xdr_format.known().map_err(ApiError::params)?;
    let hash = read_hash(&params.hash)?;
    let bounds = Bounds::of(view).await?;
    let Some((clock, position)) = view.find_transaction(&hash).await? else {
        view.known_whole(DatasetSet::of(&[Dataset::TxHashes]))?;
        return Ok(not_found(&params.hash, &bounds));
    };
    let body = body(view, clock.number, position).await?;
    let mut out = BytesAnswer::default();
    context.grow(&mut out.reservation, size_of(&body)).await?;
    let entry = TxEntry {
        clock,
        position,
        // As requested: in capitals, or the hash of the transaction inside a fee bump.
        hash: Some(params.hash),
        body,
        format,
    };
    out.text = match format {
        // One transaction does not wait for pages.
        Format::Base64 => render(None, entry).await?,
        Format::Json => render(Some(&context.query_slot().await?), entry).await?,
    };
    let _ = write!(out.text, ",\"createdAt\":\"{}\"", clock.timestamp);
    bounds.write(&mut out.text, TimeFormat::Text);
    out.text.push(b'}');
    Ok(Answer::Bytes(out))
}

/// About what a transaction takes in an answer: events are part of the meta too, so everything is there at
/// most twice.
fn size_of(body: &Bytes) -> usize {
    body.len() / 3 * 8 + END_BYTES
}

/// A transaction of an answer, and the hash to return instead of its own.
struct TxEntry {
    clock: BlockMeta,
    position: u32,
    hash: Option<String>,
    body: Bytes,
    format: Format,
}

/// A transaction in the requested format, without the closing brace. Decoding keeps a thread busy: with a
/// slot it runs on a thread for blocking work.
async fn render(slot: Option<&QuerySlot>, entry: TxEntry) -> Result<Vec<u8>, ApiError> {
    let number = entry.clock.number;
    let write = move || {
        let parts = TxParts::read(&entry.body).map_err(|fault| fault.to_string())?;
        let mut out = Vec::with_capacity(size_of(&entry.body));
        out.push(b'{');
        write_parts(&mut out, &entry, &parts).map(|()| out)
    };
    let written = match slot {
        Some(slot) => slot.run_blocking(write).await?,
        None => write(),
    };
    written.map_err(|why| unreadable(number, why))
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

/// As Stellar RPC answers: the fields of a transaction are zero.
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

/// Appends the fields that both methods return.
fn write_parts(out: &mut Vec<u8>, entry: &TxEntry, parts: &TxParts) -> Result<(), String> {
    let format = entry.format;
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
    // A contract call that failed may have no list of events: Stellar RPC returns one empty list.
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
    // The first field has no comma before it.
    if let [_comma, fields @ ..] = inside.as_slice() {
        out.extend_from_slice(fields);
    }
    let _ = write!(out, "}},\"ledger\":{}", entry.clock.number);
    Ok(())
}

/// A page while it is built.
struct Page<'a> {
    context: &'a Context,
    view: &'a View<'a>,
    slot: QuerySlot,
    out: BytesAnswer,
    left: u32,
    /// The last ledger and transaction that were read: position 0 is before the first transaction.
    last: (u64, u32),
    format: Format,
}

/// A page ends early where it becomes too large or memory is short, after too many ledgers or half of the time,
/// and before missing ledgers. Its cursor tells how far it is complete.
pub(super) async fn page(
    context: &Context,
    view: &View<'_>,
    params: PageParams,
) -> Result<Answer, ApiError> {
    let bounds = Bounds::of(view).await?;
    let (from, limit, format) = params.checked(&bounds)?;
    // A cursor after the newest ledger gives an empty page with the same cursor.
    let (first, is_cursor) = match &from {
        PageStart::Ledger(start) => ((*start, 0), false),
        PageStart::Cursor(cursor) => (read_cursor(cursor)?, true),
    };
    let mut page = Page {
        context,
        view,
        slot: context.query_slot().await?,
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
        // The client continues from the end of this page, which must not be its start.
        let has_moved = page.last != first;
        if has_moved && started.elapsed() > patience {
            break;
        }
        match page.take_ledger(number).await {
            Ok(true) => {}
            Ok(false) => break,
            // The next page begins with the missing ledger, and is an error.
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
    let toid = number
        .and_then(Toid::from_number)
        .filter(|toid| toid.ledger > 0);
    let invalid = || {
        let message = format!("cursor ('{}') names no transaction", excerpt(cursor));
        ApiError::params(message)
    };
    let toid = toid.ok_or_else(invalid)?;
    Ok((toid.ledger.into(), toid.tx))
}

impl Page<'_> {
    /// Adds the transactions of a ledger after the last; returns whether the next ledger may follow.
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
            // Encoding does not await, and other tasks need this thread.
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Adds a transaction; returns false where the page is full.
    async fn take_body(
        &mut self,
        clock: BlockMeta,
        at: u32,
        body: Bytes,
    ) -> Result<bool, ApiError> {
        let slot = (self.format == Format::Json).then_some(&self.slot);
        let entry = TxEntry {
            clock,
            position: at,
            hash: None,
            body,
            format: self.format,
        };
        let tx = render(slot, entry).await?;
        let out = &mut self.out;
        let is_first = out.text.last() == Some(&b'[');
        if !begin_item(self.context, out, tx.len(), is_first).await? {
            return Ok(false);
        }
        out.text.extend_from_slice(&tx);
        let _ = write!(out.text, ",\"createdAt\":{}}}", clock.timestamp);
        self.left -= 1;
        Ok(true)
    }
}

//! Whole ledgers: `getLatestLedger` and `getLedgers`.

use std::io::Write as _;

use bytes::Bytes;
use chronolith_archive::Pinned;
use chronolith_chain_view::Location;
use chronolith_model::{BlockMeta, Dataset, Payload};
use chronolith_stellar::{join, skeleton_header};
use stellar_xdr::{LedgerCloseMeta, LedgerHeader, LedgerHeaderHistoryEntry};

use super::bounds::{Bounds, TimeFormat};
use super::wire::{Format, LatestLedgerParams, PageParams, PageStart};
use super::{begin_item, unreadable, xdr};
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::fault::Fault;
use crate::http::body::BytesAnswer;
use crate::http::context::{Context, QuerySlot};
use crate::rpc::Answer;
use crate::view::View;

/// A ledger as it is stored.
pub(super) struct StoredLedger {
    clock: BlockMeta,
    header: Bytes,
    raw: Bytes,
}

impl StoredLedger {
    async fn read(view: &View<'_>, number: u64) -> Result<Option<Self>, ApiError> {
        let Some(clock) = view.clock(number).await? else {
            return Ok(None);
        };
        let payload = payload(view, number).await?;
        let skeleton = payload.header.ok_or(Fault::NotKept(Dataset::Headers))?;
        let bodies = payload
            .bodies
            .ok_or(Fault::NotKept(Dataset::Transactions))?;
        let wrong = |fault| unreadable(number, fault);
        Ok(Some(Self {
            clock,
            header: skeleton_header(&skeleton).map_err(wrong)?,
            raw: join(&skeleton, &bodies).map_err(wrong)?,
        }))
    }
}

async fn payload(view: &View<'_>, number: u64) -> Result<Payload, Fault> {
    match view.location(number)? {
        Some(Location::Tail(block)) => Ok(block.payload.clone()),
        Some(Location::Archive(archive)) => both(archive, number).await,
        None => Ok(Payload::default()),
    }
}

async fn both(archive: &Pinned, number: u64) -> Result<Payload, Fault> {
    let mut payload = archive.payload(number, Dataset::Transactions).await?;
    if payload.header.is_none() {
        payload.header = Some(archive.header(number).await?);
    }
    Ok(payload)
}

/// The header of the newest ledger, as XDR of a LedgerHeaderHistoryEntry.
async fn newest_header(view: &View<'_>) -> Result<Bytes, ApiError> {
    let number = view.known_head()?.number;
    let skeleton = match view.location(number)? {
        Some(Location::Tail(block)) => block.payload.header.clone(),
        Some(Location::Archive(archive)) => Some(archive.header(number).await?),
        None => None,
    };
    let skeleton = skeleton.ok_or(Fault::NotKept(Dataset::Headers))?;
    skeleton_header(&skeleton).map_err(|fault| unreadable(number, fault))
}

/// The version of the protocol at the newest ledger.
pub(super) async fn protocol(view: &View<'_>) -> Result<u32, ApiError> {
    let number = view.known_head()?.number;
    protocol_in(&newest_header(view).await?).map_err(|why| unreadable(number, why))
}

/// The header follows its hash, and begins with the version.
fn protocol_in(header: &[u8]) -> Result<u32, String> {
    let version = header.get(32..).and_then(<[u8]>::first_chunk::<4>);
    let version = version.ok_or("its header is too short")?;
    Ok(u32::from_be_bytes(*version))
}

/// The LedgerHeader without the hash before it and the empty extension after it.
fn bare(header: &Bytes) -> Bytes {
    let end = header.len().saturating_sub(4);
    header.slice(32.min(end)..end)
}

pub(super) async fn latest(
    context: &Context,
    view: &View<'_>,
    params: LatestLedgerParams,
) -> Result<Answer, ApiError> {
    let format = params.xdr_format.known().map_err(ApiError::params)?;
    let slot = context.query_slot().await?;
    let number = view.known_head()?.number;
    let stored = StoredLedger::read(view, number).await?;
    let stored = stored.ok_or_else(|| unreadable(number, "the newest ledger is missing"))?;
    let out = render(&slot, stored, format, write_latest).await?;
    Ok(Answer::Bytes(out))
}

/// Writes a ledger to an answer.
type Writer = fn(&mut BytesAnswer, StoredLedger, Format) -> Result<(), String>;

/// A ledger in the requested format. Decoding keeps a thread busy, and runs on a thread for blocking work.
async fn render(
    slot: &QuerySlot,
    stored: StoredLedger,
    format: Format,
    writer: Writer,
) -> Result<BytesAnswer, ApiError> {
    let number = stored.clock.number;
    let write = move || {
        let mut out = BytesAnswer::default();
        writer(&mut out, stored, format).map(|()| out)
    };
    let written = match format {
        Format::Base64 => write(),
        Format::Json => slot.run_blocking(write).await?,
    };
    written.map_err(|why| unreadable(number, why))
}

fn write_latest(out: &mut BytesAnswer, stored: StoredLedger, format: Format) -> Result<(), String> {
    let StoredLedger { clock, header, raw } = stored;
    // Writing to memory does not fail.
    let _ = write!(
        out.text,
        "{{\"id\":\"{}\",\"protocolVersion\":{},\"sequence\":{},\"closeTime\":\"{}\"",
        const_hex::encode(clock.hash.0),
        protocol_in(&header)?,
        clock.number,
        clock.timestamp,
    );
    xdr::name(&mut out.text, "header", format);
    xdr::value::<LedgerHeader>(&mut out.text, &bare(&header), format)?;
    write_meta(out, raw, format)?;
    out.text.push(b'}');
    Ok(())
}

fn write_meta(out: &mut BytesAnswer, raw: Bytes, format: Format) -> Result<(), String> {
    xdr::name(&mut out.text, "metadata", format);
    match format {
        Format::Json => xdr::json::<LedgerCloseMeta>(&mut out.text, &raw),
        Format::Base64 => {
            out.text.push(b'"');
            out.base64(raw);
            out.text.push(b'"');
            Ok(())
        }
    }
}

fn write_ledger(out: &mut BytesAnswer, stored: StoredLedger, format: Format) -> Result<(), String> {
    let StoredLedger { clock, header, raw } = stored;
    // Writing to memory does not fail.
    let _ = write!(
        out.text,
        "{{\"hash\":\"{}\",\"sequence\":{},\"ledgerCloseTime\":\"{}\"",
        const_hex::encode(clock.hash.0),
        clock.number,
        clock.timestamp,
    );
    if format == Format::Json {
        // Clients in Go expect both names.
        out.text
            .extend_from_slice(b",\"headerXdr\":\"\",\"metadataXdr\":\"\"");
    }
    xdr::name(&mut out.text, "header", format);
    xdr::value::<LedgerHeaderHistoryEntry>(&mut out.text, &header, format)?;
    write_meta(out, raw, format)?;
    out.text.push(b'}');
    Ok(())
}

/// A page ends early where the next ledger would make it too large or memory is short; it has at least one
/// ledger.
pub(super) async fn page(
    context: &Context,
    view: &View<'_>,
    params: PageParams,
) -> Result<Answer, ApiError> {
    let bounds = Bounds::of(view).await?;
    let (from, limit, format) = params.checked(&bounds)?;
    let start = match &from {
        PageStart::Ledger(start) => *start,
        PageStart::Cursor(cursor) => after_cursor(cursor, &bounds)?,
    };
    let slot = context.query_slot().await?;
    let mut out = BytesAnswer::default();
    out.text.extend_from_slice(b"{\"ledgers\":[");
    let mut last = start - 1;
    for number in start..start.saturating_add(limit as u64).min(bounds.latest + 1) {
        let stored = match StoredLedger::read(view, number).await {
            Ok(Some(stored)) => stored,
            Ok(None) => break,
            // The next page begins with the missing ledger, and is an error.
            Err(error) if error.code == ErrorCode::NotCovered && last >= start => break,
            Err(error) => return Err(bounds.outside(error, start, &from)),
        };
        let ledger = render(&slot, stored, format, write_ledger).await?;
        if !begin_item(context, &mut out, ledger.size(), last < start).await? {
            break;
        }
        out.append(ledger);
        last = number;
        // Reads from memory do not await, and other tasks need this thread.
        tokio::task::yield_now().await;
    }
    out.text.push(b']');
    bounds.write(&mut out.text, TimeFormat::Number);
    let _ = write!(out.text, ",\"cursor\":\"{last}\"}}");
    Ok(Answer::Bytes(out))
}

/// The ledger after a cursor.
fn after_cursor(cursor: &str, bounds: &Bounds) -> Result<u64, ApiError> {
    let last: Option<u32> = cursor.parse().ok();
    let next = last.map(|last| u64::from(last) + 1);
    let refusal = || bounds.refusal(&format!("cursor ('{}')", excerpt(cursor)));
    // After the newest ledger the page is empty, which is not an error.
    let known = next.filter(|&next| next > 1 && next <= bounds.latest + 1);
    known.ok_or_else(|| ApiError::params(refusal()))
}

//! `getEvents`: pages in the order of event ids.

use std::io::Write as _;
use std::time::Instant;

use chronolith_model::BlockRange;
use chronolith_stellar::EventId;
use stellar_strkey::Contract;
use stellar_xdr::ScVal;

use super::bounds::{Bounds, TimeFormat};
use super::filter::{Filters, kind_name};
use super::scan::{Event, Next, Scan, ScanParams, after_fault};
use super::wire::{EventsParams, Format, invalid};
use super::{begin_item, unreadable, xdr};
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::http::answer_memory::MemoryReservation;
use crate::http::body::BytesAnswer;
use crate::http::context::Context;
use crate::rpc::Answer;
use crate::times::utc;
use crate::view::View;

/// Logs of one query: a few more than needed, as the last ledger of a page is rarely complete, and bounded.
const PAGE_MORE: usize = 32;
const PAGE_MAX: usize = 4_096;
/// Events that are written before other tasks run.
const YIELD_AFTER: usize = 32;

/// The events of a page.
struct EventPage {
    events: Vec<Event>,
    /// Below this ledger there are no others.
    through: u64,
    _held: MemoryReservation,
}

/// A valid call.
struct EventsQuery {
    filters: Filters,
    limit: usize,
    format: Format,
    range: BlockRange,
    after: Option<EventId>,
}

impl EventsQuery {
    fn read(params: &EventsParams, bounds: &Bounds, ledgers_max: u64) -> Result<Self, ApiError> {
        let format = params.xdr_format.known().map_err(ApiError::params)?;
        let (from, to) = (
            params.start_ledger.unwrap_or(0),
            params.end_ledger.unwrap_or(0),
        );
        let after = match params.cursor() {
            Some(_) if from != 0 || to != 0 => {
                let message = "ledger ranges and cursor cannot both be set";
                return Err(ApiError::params(message));
            }
            Some(cursor) => Some(cursor.parse::<EventId>().map_err(|error| {
                let cursor = excerpt(cursor);
                invalid(format!("invalid event id {cursor}: {error}"))
            })?),
            None if from == 0 => return Err(ApiError::params("startLedger must be positive")),
            None => None,
        };
        let limit = params.limit().map_err(ApiError::params)?;
        let filters = params.filters.as_deref().unwrap_or(&[]);
        let filters = Filters::read(filters).map_err(ApiError::params)?;
        let start = after.map_or(u64::from(from), |after| after.place.ledger.into());
        if start == 0 || start > bounds.latest {
            return Err(ApiError::new(ErrorCode::InvalidRequest, outside(bounds)));
        }
        // After all events of a ledger the page begins with the next one: where that is missing, it is an error.
        let is_whole = after.is_some_and(|after| after >= EventId::last_of(after.place.ledger));
        let start = start + u64::from(is_whole);
        let mut end = start.saturating_add(ledgers_max).min(bounds.latest + 1);
        if to != 0 {
            end = end.min(to.into());
        }
        Ok(Self {
            filters,
            limit,
            format,
            // An end before the start is an empty page that ends there.
            range: BlockRange::new(start.min(end), end),
            after,
        })
    }

    /// The events of the page. It ends before missing ledgers, and is an error where it begins with them.
    async fn find(&self, context: &Context, view: &View<'_>) -> Result<EventPage, ApiError> {
        let (started, patience) = (Instant::now(), context.limits.timeout / 2);
        let page_size = (self.limit * 2 + PAGE_MORE).min(PAGE_MAX);
        let mut range = self.range;
        let begin = |range| {
            let params = ScanParams {
                filters: &self.filters,
                range,
                after: self.after,
                page_size,
            };
            Scan::new(context, view, params)
        };
        let (mut scan, mut events) = (begin(range), Vec::new());
        // Below this ledger the events are complete, also where the next step fails.
        let mut through = range.start;
        while through < range.end && events.len() < self.limit {
            // The client continues from the end of this page.
            if through > range.start && started.elapsed() > patience {
                break;
            }
            match scan.step().await {
                Ok(found) => {
                    events.extend(found);
                    through = scan.through();
                }
                Err(fault) => match after_fault(&fault, range, through) {
                    Next::End => break,
                    Next::Retry(less) => {
                        range = less;
                        through = range.start;
                        (scan, events) = (begin(range), Vec::new());
                    }
                    Next::Fail => return Err(fault.into()),
                },
            }
        }
        Ok(EventPage {
            events,
            through,
            _held: scan.into_held(),
        })
    }
}

/// The message for ledgers outside.
fn outside(Bounds { oldest, latest, .. }: &Bounds) -> String {
    format!("startLedger must be within the ledger range: {oldest} - {latest}")
}

pub(super) async fn page(
    context: &Context,
    view: &View<'_>,
    params: EventsParams,
) -> Result<Answer, ApiError> {
    let bounds = Bounds::of(view).await?;
    let query = EventsQuery::read(&params, &bounds, context.limits.page_ledgers)?;
    let found = match query.find(context, view).await {
        Err(error) if error.code == ErrorCode::NotCovered && query.range.start < bounds.oldest => {
            return Err(ApiError {
                code: ErrorCode::InvalidRequest,
                message: outside(&bounds),
                ..error
            });
        }
        found => found?,
    };
    let mut is_full = found.events.len() >= query.limit;
    let mut out = BytesAnswer::default();
    out.text.extend_from_slice(b"{\"events\":[");
    let (mut last, mut one) = (None, Vec::new());
    for (at, event) in found.events.iter().take(query.limit).enumerate() {
        let number = event.record.block.number;
        one.clear();
        write_event(&mut one, event, query.format).map_err(|why| unreadable(number, why))?;
        if !begin_item(context, &mut out, one.len(), last.is_none()).await? {
            is_full = true;
            break;
        }
        out.text.extend_from_slice(&one);
        last = Some(event.id);
        if at % YIELD_AFTER == YIELD_AFTER - 1 {
            tokio::task::yield_now().await;
        }
    }
    let end = u32::try_from(found.through.saturating_sub(1)).unwrap_or(u32::MAX);
    let end = Some(EventId::last_of(end)).max(query.after);
    let cursor = last.filter(|_| is_full).or(end);
    let cursor = cursor.map_or(String::new(), |id| id.to_string());
    let _ = write!(out.text, "],\"cursor\":\"{cursor}\"");
    bounds.write(&mut out.text, TimeFormat::Text);
    out.text.push(b'}');
    Ok(Answer::Bytes(out))
}

fn write_event(out: &mut Vec<u8>, event: &Event, format: Format) -> Result<(), String> {
    let (record, log) = (&event.record, &event.record.log);
    // A system event may have no contract.
    let contract = match <[u8; 32]>::try_from(log.emitter()) {
        Ok(id) => Contract(id).to_string().as_str().to_owned(),
        Err(_) => String::new(),
    };
    let closed = utc(record.timestamp).ok_or("its time is out of range")?;
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "{{\"type\":\"{}\",\"ledger\":{},\"ledgerClosedAt\":\"{closed}\",\"contractId\":\"{contract}\",\"id\":\"{}\"",
        kind_name(log.kind()),
        record.block.number,
        event.id,
    );
    let _ = write!(
        out,
        ",\"operationIndex\":{},\"transactionIndex\":{},\"txHash\":\"{}\",\"inSuccessfulContractCall\":{}",
        event.id.place.operation,
        event.id.place.tx,
        const_hex::encode(record.tx_hash.0),
        event.place.successful,
    );
    let more = event.place.more_topics.iter().map(|topic| &**topic);
    let topics = log.topics().chain(more);
    let (topic, value) = match format {
        Format::Base64 => ("topic", "value"),
        Format::Json => ("topicJson", "valueJson"),
    };
    if log.topic_count() > 0 {
        let _ = write!(out, ",\"{topic}\":");
        xdr::list::<ScVal>(out, topics, format)?;
    }
    let _ = write!(out, ",\"{value}\":");
    xdr::value::<ScVal>(out, log.data(), format)?;
    out.push(b'}');
    Ok(())
}

//! The parameters of requests for logs: what is wanted, and of which blocks, by number, tag or time.

use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, LogFilter};

use super::times::{self, TimeLookup};
use super::{LINK_BYTES_MAX, order, parameters};
use crate::cursor;
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::http::body::LogFormat;
use crate::http::context::Context;
use crate::rpc::{BlockTag, Fixed, PageScope, range_between};
use crate::times::{Direction, Timestamp, parse_time};
use crate::view::View;

/// Logs in an answer, or of each chain in it, without the parameter `limit`.
const LIMIT: usize = 100;
/// Parameters that may be given more than once.
const LISTS: [&str; 6] = ["address", "topic0", "topic1", "topic2", "topic3", "chains"];
/// Those that a link to the next page replaces.
const PLACES: [&str; 6] = ["fromBlock", "toBlock", "from", "to", "cursor", "chains"];

/// The parameters of a request, parsed before any chain is read.
#[derive(Debug)]
pub(super) struct LogQuery {
    from: Option<End>,
    to: Option<End>,
    /// Its range is not set.
    pub(super) filter: LogFilter,
    pub(super) format: LogFormat,
    /// Whether lines and tables end with a line that says so.
    pub(super) trailer: bool,
    /// The chains of a request for several.
    pub(super) chains: Vec<String>,
    /// The block and the index of the last log that a client has.
    pub(super) after: Option<(u64, u32)>,
    /// All parameters as they were given.
    given: Vec<(String, String)>,
}

/// An end of the range.
#[derive(Clone, Copy, Debug)]
enum End {
    Block(BlockTag),
    Time(Timestamp),
}

/// Parameters as they are collected.
#[derive(Default)]
struct Values {
    addresses: Vec<Bytes>,
    topics: [Vec<Bytes>; 4],
}

impl LogQuery {
    pub(super) fn parse(
        context: &Context,
        query: Option<&str>,
        known: &[&str],
    ) -> Result<Self, ApiError> {
        let given = parameters(query, known, &LISTS, ErrorCode::InvalidParams)?;
        let mut request = Self {
            from: None,
            to: None,
            filter: LogFilter::over(BlockRange::new(0, 0)),
            format: LogFormat::List,
            trailer: true,
            chains: Vec::new(),
            after: None,
            given: Vec::new(),
        };
        request.filter.limit = Some(LIMIT);
        let mut values = Values::default();
        for (name, value) in &given {
            let read = request.read(context, &mut values, (name, value));
            read.map_err(|message| ApiError::params(format!("{name}: {message}")))?;
        }
        request.filter.emitters = clause(values.addresses);
        let last = values.topics.iter().rposition(|of| !of.is_empty());
        let topics = values.topics.into_iter();
        let topics = topics.take(last.map_or(0, |last| last + 1));
        request.filter.topics = topics.map(clause).collect();
        request.given = given;
        request.check_times()?;
        Ok(request)
    }

    /// Reads one parameter.
    fn read(
        &mut self,
        context: &Context,
        values: &mut Values,
        (name, value): (&str, &str),
    ) -> Result<(), String> {
        let max = context.limits.alternatives;
        match name {
            "fromBlock" => set(&mut self.from, End::Block(tag(value)?))?,
            "toBlock" => set(&mut self.to, End::Block(tag(value)?))?,
            "from" => set(&mut self.from, End::Time(time(value)?))?,
            "to" => set(&mut self.to, End::Time(time(value)?))?,
            "address" => add::<20>(value, max, &mut values.addresses)?,
            "limit" => {
                let max = context.limits.answers.results;
                let limit = value.parse().ok().filter(|limit| (1..=max).contains(limit));
                let limit = limit.ok_or_else(|| format!("want a number from 1 to {max}"))?;
                self.filter.limit = Some(limit);
            }
            "order" => self.filter.order = order(value)?,
            "cursor" => {
                let cursor = cursor::parse(value).ok_or("it is not a cursor of this API")?;
                self.filter.cursor = Some(cursor);
            }
            "format" => {
                self.format = LogFormat::parse(value).ok_or("want json, ndjson or csv")?;
            }
            "trailer" => self.trailer = boolean(value)?,
            "after" => self.after = Some(place(value)?),
            "chains" => self.chains.extend(value.split(',').map(str::to_owned)),
            topic => {
                let digit = topic.bytes().last().unwrap_or_default();
                let place = values.topics.get_mut(usize::from(digit.wrapping_sub(b'0')));
                if let Some(of) = place {
                    add::<32>(value, max, of)?;
                }
            }
        }
        Ok(())
    }

    /// The first and the last block, where both are named by number.
    pub(super) fn numbers(&self) -> Option<(u64, u64)> {
        match (self.from, self.to) {
            (Some(End::Block(BlockTag::Number(from))), Some(End::Block(BlockTag::Number(to))))
                if from <= to =>
            {
                Some((from, to))
            }
            _ => None,
        }
    }

    /// The time before which the blocks are; none where the last one is named.
    pub(super) fn until(&self) -> Option<Timestamp> {
        match self.to {
            Some(End::Time(time)) => Some(time),
            Some(End::Block(_)) | None => None,
        }
    }

    /// Whether a parameter was given.
    pub(super) fn has(&self, parameter: &str) -> bool {
        self.given.iter().any(|(name, _)| name == parameter)
    }

    /// A parameter as it was given, for errors.
    fn written(&self, parameter: &str) -> String {
        let mut given = self.given.iter();
        let given = given.find(|(name, _)| name == parameter);
        given.map_or_else(String::new, |(_, value)| excerpt(value))
    }

    /// With the defaults of a download: all final blocks, as lines.
    pub(super) fn for_download(mut self) -> Result<Self, ApiError> {
        self.from.get_or_insert(End::Block(BlockTag::Earliest));
        self.to.get_or_insert(End::Block(BlockTag::Finalized));
        if !self.has("format") {
            self.format = LogFormat::Lines;
        }
        if self.format == LogFormat::List {
            return Err(ApiError::params("format: want ndjson or csv"));
        }
        if self.after.is_some() && self.filter.cursor.is_some() {
            let message = "after: the cursor says where the download continues, give one of them";
            return Err(ApiError::params(message));
        }
        Ok(self)
    }

    /// Whether the answer continues another one.
    pub(super) fn continues(&self) -> bool {
        self.after.is_some() || self.filter.cursor.is_some()
    }

    /// All parameters, as a query string.
    pub(super) fn text(&self) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(&self.given).finish()
    }

    fn check_times(&self) -> Result<(), ApiError> {
        match (self.from, self.to) {
            (Some(End::Time(from)), Some(End::Time(to))) if from >= to => {
                let message =
                    "to: it is not later than `from`, and blocks of that time are not included";
                Err(ApiError::params(message))
            }
            _ => Ok(()),
        }
    }

    /// The blocks of the request, in a view.
    pub(super) async fn scope(
        &self,
        context: &Context,
        view: &View<'_>,
    ) -> Result<PageScope, ApiError> {
        let mut settled = None;
        let from = match self.from {
            None => None,
            Some(End::Block(tag)) => Some(tag),
            Some(End::Time(time)) => {
                settled = Some(true);
                let lookup = TimeLookup {
                    direction: Direction::After,
                    time,
                    written: self.written("from"),
                    inclusive: true,
                };
                let found = times::at(view, &lookup).await?;
                Some(BlockTag::Number(found.clock.number))
            }
        };
        let to = match self.to {
            None => None,
            Some(End::Block(tag)) => Some(tag),
            Some(End::Time(time)) => {
                let lookup = TimeLookup {
                    direction: Direction::Before,
                    time,
                    written: self.written("to"),
                    inclusive: false,
                };
                let found = times::at(view, &lookup).await?;
                settled = Some(found.settled);
                Some(BlockTag::Number(found.clock.number))
            }
        };
        let by_time = matches!(
            (self.from, self.to),
            (Some(End::Time(_)), Some(End::Time(_)))
        );
        if let (true, Some(BlockTag::Number(from)), Some(BlockTag::Number(to))) =
            (by_time, from, to)
            && from > to
        {
            // Both blocks are known, and nothing is between them.
            return Ok(PageScope {
                range: None,
                settled,
            });
        }
        let range = range_between(context, view, from, to)?;
        Ok(PageScope {
            range: Some(range),
            settled,
        })
    }

    /// The query string of the next page of these blocks. None where it would be long: the cursor is elsewhere
    /// too.
    pub(super) fn next(&self, range: BlockRange, cursor: &str) -> Option<String> {
        let mut next = form_urlencoded::Serializer::new(String::new());
        next.append_pair("fromBlock", &range.start.to_string());
        next.append_pair("toBlock", &range.end.saturating_sub(1).to_string());
        for (name, value) in &self.given {
            if !PLACES.contains(&name.as_str()) {
                next.append_pair(name, value);
            }
        }
        next.append_pair("cursor", cursor);
        Some(next.finish()).filter(|next| next.len() <= LINK_BYTES_MAX)
    }
}

/// A block and a time cannot both be the same end.
fn set(end: &mut Option<End>, given: End) -> Result<(), String> {
    match end.replace(given) {
        None => Ok(()),
        Some(_) => Err("this end of the range is given as a block and as a time".to_owned()),
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    parse_time(text).ok_or_else(|| "want seconds, milliseconds or an ISO 8601 date".to_owned())
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("want true or false".to_owned()),
    }
}

/// A log as `block:index`, each in decimal or as 0x hex: as lines or tables have them.
fn place(text: &str) -> Result<(u64, u32), String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    let place = text.split_once(':').and_then(|(block, index)| {
        let index = u32::try_from(number(index)?).ok()?;
        Some((number(block)?, index))
    });
    place.ok_or_else(|| "want the block and the index of a log, as in 5:0 or 0x5:0x0".to_owned())
}

fn clause(values: Vec<Bytes>) -> Clause {
    if values.is_empty() {
        Clause::Any
    } else {
        Clause::OneOf(values)
    }
}

/// A tag, a hex number, or a decimal one.
pub(super) fn tag(text: &str) -> Result<BlockTag, String> {
    match text.parse() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(BlockTag::Number(number))
        }
        _ => BlockTag::parse(text),
    }
}

/// One value, or several with commas between them.
fn add<const N: usize>(
    text: &str,
    max: Option<usize>,
    values: &mut Vec<Bytes>,
) -> Result<(), String> {
    for one in text.split(',') {
        let value = Fixed::<N>::parse(one.trim())?;
        values.push(Bytes::copy_from_slice(&value.0));
    }
    match max {
        Some(max) if values.len() > max => Err(format!("more than {max} values")),
        _ => Ok(()),
    }
}

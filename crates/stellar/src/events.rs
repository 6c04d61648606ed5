//! Events of a transaction, and how one becomes a log and comes back.
//!
//! A log keeps its transaction's order: first what happened before all transactions, then its operations',
//! then what happened after it, then after all. Ids of events order a ledger otherwise. The suffix of a
//! log holds what the id needs:
//!
//! ```text
//! flags u8 | operation varint, of an operation's event | number varint | further topics: length varint, bytes
//! flags: bits 0 and 1 the stage, bit 2 whether the transaction succeeded, bit 3 whether a hash of the chain
//!        covers the event (never set by versions that did not check it)
//! ```

use bytes::Bytes;
use chronolith_model::{Log, TOPICS_MAX};

use crate::fault::Fault;
use crate::ids::{EventId, Toid};
use crate::reader::{Reader, Span, put_varint, take_varint};
use crate::schema::WIRE;

const SUCCESSFUL: u8 = 4;
const PROVEN: u8 = 8;

/// No contract leaves more than four topics, and no event of the network itself many more. A hostile
/// ledger may claim millions, each of which takes twenty times as much here as in the ledger.
const EVENT_TOPICS_MAX: u32 = 1_024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Before any transaction was applied: the fee.
    BeforeAll,
    /// In an operation.
    Operation(u32),
    AfterTx,
    /// After all transactions: a refund.
    AfterAll,
}

/// Where the events of one transaction lie in its meta.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSpans {
    /// Those of the transaction itself with their stage, whole (XDR of a TransactionEvent).
    pub(crate) transaction: Vec<(u32, Span)>,
    /// Those of each operation (XDR of a ContractEvent).
    pub(crate) operations: Vec<Vec<Span>>,
    /// XDR of a DiagnosticEvent each.
    pub(crate) diagnostic: Vec<Span>,
    /// What a contract call returned (XDR of an SCVal).
    pub(crate) return_value: Option<Span>,
    /// The version of the meta.
    pub(crate) meta_version: u32,
}

impl EventSpans {
    /// Finds the events in a transaction's meta.
    pub(crate) fn find(meta: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(meta)?;
        let mut found = Self {
            meta_version: reader.u32()?,
            ..Self::default()
        };
        match found.meta_version {
            0..=2 => return Ok(found),
            3 => found.of_v3(&mut reader)?,
            4 => found.of_v4(&mut reader)?,
            _ => return Err(reader.fault("an unknown version of transaction meta")),
        }
        Ok(found)
    }

    fn of_v3(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let (schema, types) = &*WIRE;
        schema.skip(types.extension, reader)?;
        schema.skip_many(types.change, reader)?;
        schema.skip_many(types.operation_meta, reader)?;
        schema.skip_many(types.change, reader)?;
        if reader.present()? {
            schema.skip(types.soroban_meta_ext, reader)?;
            // There is one operation where there is a contract.
            self.operations.push(schema.spans(types.event, reader)?);
            self.return_value = Some(schema.span(types.value, reader)?);
            self.diagnostic = schema.spans(types.diagnostic, reader)?;
        }
        reader.finish()
    }

    fn of_v4(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let (schema, types) = &*WIRE;
        schema.skip(types.extension, reader)?;
        schema.skip_many(types.change, reader)?;
        for _ in 0..reader.count()? {
            schema.skip(types.extension, reader)?;
            schema.skip_many(types.change, reader)?;
            self.operations.push(schema.spans(types.event, reader)?);
        }
        schema.skip_many(types.change, reader)?;
        if reader.present()? {
            schema.skip(types.soroban_meta_ext, reader)?;
            if reader.present()? {
                self.return_value = Some(schema.span(types.value, reader)?);
            }
        }
        for _ in 0..reader.count()? {
            let mut stage = 0;
            let span = reader.span(|reader| {
                stage = reader.u32()?;
                schema.skip(types.event, reader)
            })?;
            self.transaction.push((stage, span));
        }
        self.diagnostic = schema.spans(types.diagnostic, reader)?;
        reader.finish()
    }
}

/// The parts of one event (XDR of a ContractEvent), borrowed.
#[derive(Clone, Debug)]
pub(crate) struct EventParts<'a> {
    pub(crate) contract: &'a [u8],
    pub(crate) kind: u8,
    pub(crate) topics: Vec<&'a [u8]>,
    pub(crate) data: &'a [u8],
}

impl<'a> EventParts<'a> {
    pub(crate) fn read(event: &'a [u8]) -> Result<Self, Fault> {
        let (schema, types) = &*WIRE;
        let mut reader = Reader::new(event)?;
        schema.skip(types.extension, &mut reader)?;
        let contract = if reader.present()? {
            reader.take(32)?
        } else {
            &[]
        };
        let kind = reader.u32()?;
        let kind = u8::try_from(kind).map_err(|_| reader.fault("an unknown sort of event"))?;
        if reader.u32()? != 0 {
            return Err(reader.fault("an unknown version of events"));
        }
        let value = |reader: &mut Reader<'a>| -> Result<&'a [u8], Fault> {
            let span = schema.span(types.value, reader)?;
            Ok(span.of(event))
        };
        let count = reader.count()?;
        if count > EVENT_TOPICS_MAX {
            return Err(reader.fault("an event with more topics than any can have"));
        }
        let mut topics = Vec::new();
        for _ in 0..count {
            topics.push(value(&mut reader)?);
        }
        let data = value(&mut reader)?;
        reader.finish()?;
        Ok(Self {
            contract,
            kind,
            topics,
            data,
        })
    }
}

/// What of an event stands neither in its contract nor in its topics and value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventPlace {
    pub stage: Stage,
    /// Its number there: of its operation, of its transaction, or of the whole ledger.
    pub index: u32,
    pub successful: bool,
    /// Whether the chain has a hash of it that was checked: it is of a successful contract call.
    pub proven: bool,
    /// The position of its transaction, from 0 on.
    pub tx_index: u32,
    /// Topics after the first four.
    pub more_topics: Vec<Bytes>,
}

impl EventPlace {
    /// Appends the suffix of a log.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (stage, operation) = match self.stage {
            Stage::BeforeAll => (0, None),
            Stage::Operation(operation) => (1, Some(operation)),
            Stage::AfterTx => (2, None),
            Stage::AfterAll => (3, None),
        };
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(stage | flag(self.successful, SUCCESSFUL) | flag(self.proven, PROVEN));
        if let Some(operation) = operation {
            put_varint(operation.into(), out);
        }
        put_varint(self.index.into(), out);
        for topic in &self.more_topics {
            put_varint(topic.len() as u64, out);
            out.extend_from_slice(topic);
        }
    }

    /// Whether a log is an event that a hash of the chain covers, without reading more of it.
    #[must_use]
    pub fn is_proven(log: &Log) -> bool {
        log.suffix()
            .first()
            .is_some_and(|flags| flags & PROVEN != 0)
    }

    /// Reads the suffix of a log.
    ///
    /// # Errors
    /// `Parts` where it is none of ours.
    pub fn read(log: &Log) -> Result<Self, Fault> {
        let wrong = || Fault::Parts("a log that is not an event");
        let (&flags, mut rest) = log.suffix().split_first().ok_or_else(wrong)?;
        let number = |rest: &mut &[u8]| {
            let number = take_varint(rest).and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(wrong)
        };
        let stage = match flags & 3 {
            0 => Stage::BeforeAll,
            1 => Stage::Operation(number(&mut rest)?),
            2 => Stage::AfterTx,
            _ => Stage::AfterAll,
        };
        let index = number(&mut rest)?;
        let mut more_topics = Vec::new();
        while !rest.is_empty() {
            let len = number(&mut rest)? as usize;
            let (topic, after) = rest.split_at_checked(len).ok_or_else(wrong)?;
            more_topics.push(Bytes::copy_from_slice(topic));
            rest = after;
        }
        Ok(Self {
            stage,
            index,
            successful: flags & SUCCESSFUL != 0,
            proven: flags & PROVEN != 0,
            tx_index: log.tx_index(),
            more_topics,
        })
    }

    #[must_use]
    pub fn id(&self, ledger: u32) -> EventId {
        let own = self.tx_index.saturating_add(1);
        let (tx, operation) = match self.stage {
            Stage::BeforeAll => (0, 0),
            Stage::Operation(operation) => (own, operation),
            Stage::AfterTx => (own, Toid::OPERATION_MAX),
            Stage::AfterAll => (Toid::TX_MAX, 0),
        };
        let place = Toid {
            ledger,
            tx,
            operation,
        };
        let index = self.index;
        EventId { place, index }
    }
}

/// The suffix of a log without the mark that a hash covers it.
pub(crate) fn unproven(log: &Log) -> Result<Vec<u8>, Fault> {
    let mut suffix = log.suffix().to_vec();
    let flags = suffix.first_mut();
    *flags.ok_or(Fault::Parts("a log that is not an event"))? &= !PROVEN;
    Ok(suffix)
}

/// The topics of an event that a log has room for, and those after them.
pub(crate) fn split_topics<'a, 'b>(topics: &'b [&'a [u8]]) -> (&'b [&'a [u8]], Vec<Bytes>) {
    let (seen, more) = topics.split_at(topics.len().min(TOPICS_MAX));
    let more = more.iter().map(|topic| Bytes::copy_from_slice(topic));
    (seen, more.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XDR of an event without a contract whose topics and value are all void.
    fn event(topics: u32) -> Vec<u8> {
        const VOID: u32 = 1;
        let head = [0, 0, 1, 0, topics].into_iter();
        let values = (0..=topics).map(|_| VOID);
        head.chain(values).flat_map(u32::to_be_bytes).collect()
    }

    /// One object of a lake could claim enough topics to fill the memory.
    #[test]
    fn an_event_has_no_more_topics_than_any_can_have() {
        for topics in [0, 4, 5, EVENT_TOPICS_MAX] {
            let event = event(topics);
            let parts = EventParts::read(&event).unwrap();
            assert_eq!(parts.topics.len(), topics as usize);
        }
        for topics in [EVENT_TOPICS_MAX + 1, 1_000_000] {
            let fault = EventParts::read(&event(topics)).unwrap_err();
            assert!(fault.to_string().contains("more topics"), "{fault}");
        }
    }
}

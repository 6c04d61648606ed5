//! A ledger as it closed: one pass over its bytes says where everything in it lies.

use bytes::Bytes;
use chronolith_model::Hash32;

use crate::fault::Fault;
use crate::reader::{Reader, Span};
use crate::schema::{Schema, Types, WIRE};

/// A ledger's bytes, and where its parts lie in them. Nothing is copied and nothing is proven yet.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) raw: Bytes,
    pub(crate) version: Version,
    pub(crate) header: Header,
    pub(crate) set: Span,
    /// Envelopes in the order of the set.
    pub(crate) envelopes: Vec<Span>,
    /// Transactions in the order in which they were applied.
    pub(crate) txs: Vec<TxSpans>,
}

/// How a ledger's parts are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    /// A plain set of transactions.
    V0,
    V1,
    /// Fees are settled after all transactions too.
    V2,
}

/// What a ledger's header says.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// The header with its hash, as it lies in the ledger.
    pub(crate) entry: Span,
    /// The header alone: what its hash is made of.
    pub(crate) content: Span,
    pub(crate) hash: Hash32,
    pub(crate) protocol: u32,
    pub(crate) previous: Hash32,
    pub(crate) set_hash: Hash32,
    pub(crate) close_time: u64,
    pub(crate) result_hash: Hash32,
    pub(crate) sequence: u32,
}

/// Where the parts of an applied transaction lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxSpans {
    /// Everything that was recorded of it.
    pub(crate) processing: Span,
    pub(crate) pair: Span,
    pub(crate) meta: Span,
}

impl Ledger {
    /// Walks the bytes of one LedgerCloseMeta.
    ///
    /// # Errors
    /// `Malformed` where they are not exactly that.
    pub fn walk(raw: Bytes) -> Result<Self, Fault> {
        let mut reader = Reader::new(&raw)?;
        let walked = Walk::new(&mut reader).ledger()?;
        reader.finish()?;
        Ok(Self { raw, ..walked })
    }

    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.header.sequence
    }

    /// The hash that it gives itself; [`prove`](crate::prove) says whether that is so.
    #[must_use]
    pub fn hash(&self) -> Hash32 {
        self.header.hash
    }

    /// The hash of the ledger before.
    #[must_use]
    pub fn previous_hash(&self) -> Hash32 {
        self.header.previous
    }

    /// When it closed, in seconds since 1970.
    #[must_use]
    pub fn close_time(&self) -> u64 {
        self.header.close_time
    }

    /// The version of the protocol.
    #[must_use]
    pub fn protocol(&self) -> u32 {
        self.header.protocol
    }

    /// The header with its hash: XDR of a LedgerHeaderHistoryEntry.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        self.header.entry.of(&self.raw)
    }

    /// How many transactions it has.
    #[must_use]
    pub fn tx_count(&self) -> usize {
        self.txs.len()
    }

    /// Hashes of its transactions in the order in which they were applied, without those inside of fee bumps.
    pub fn tx_hashes(&self) -> impl Iterator<Item = Hash32> {
        self.txs.iter().map(|tx| self.tx_hash(tx))
    }

    /// The parts that the ledger's own hashes vouch for: header, set, and the results of transactions. Results
    /// vouch for the events of contract calls in turn. No hash covers what else was
    /// recorded of a transaction.
    pub fn hashed(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let header = &self.header;
        // The hash in front of the header and what comes after it are not hashed themselves, but the
        // hash must fit.
        let entry = Span {
            start: header.entry.start,
            end: header.content.end,
        };
        let results = self.txs.iter().map(|tx| tx.pair);
        let spans = [entry, self.set].into_iter().chain(results);
        spans.map(|span| span.range())
    }

    /// The hash of an applied transaction.
    pub(crate) fn tx_hash(&self, tx: &TxSpans) -> Hash32 {
        let hash = tx.pair.of(&self.raw).first_chunk::<32>();
        Hash32(*hash.expect("a result begins with a hash, by the schema it was read with"))
    }
}

/// The ledgers of a LedgerCloseMetaBatch, and the first and last that it says it holds.
///
/// # Errors
/// `Malformed` where the bytes are not exactly a batch.
pub fn walk_batch(raw: &Bytes) -> Result<(u32, u32, Vec<Bytes>), Fault> {
    let (schema, types) = &*WIRE;
    let mut reader = Reader::new(raw)?;
    let (start, end) = (reader.u32()?, reader.u32()?);
    let spans = schema.spans(types.batch_ledger, &mut reader)?;
    reader.finish()?;
    let ledgers = spans.iter().map(|span| raw.slice(span.range()));
    Ok((start, end, ledgers.collect()))
}

struct Walk<'a, 'b> {
    schema: &'static Schema,
    types: &'static Types,
    reader: &'b mut Reader<'a>,
    envelopes: Vec<Span>,
}

impl<'a, 'b> Walk<'a, 'b> {
    fn new(reader: &'b mut Reader<'a>) -> Self {
        let (schema, types) = &*WIRE;
        let envelopes = Vec::new();
        Self {
            schema,
            types,
            reader,
            envelopes,
        }
    }

    fn ledger(mut self) -> Result<Ledger, Fault> {
        let version = match self.reader.u32()? {
            0 => Version::V0,
            1 => Version::V1,
            2 => Version::V2,
            _ => return Err(self.reader.fault("an unknown version of ledgers")),
        };
        if version != Version::V0 {
            self.schema.skip(self.types.close_ext, self.reader)?;
        }
        let header = self.header()?;
        let start = self.reader.at();
        match version {
            Version::V0 => self.plain_set()?,
            Version::V1 | Version::V2 => self.phased_set()?,
        }
        let end = self.reader.at();
        let txs = self.processing(version)?;
        self.rest(version)?;
        Ok(Ledger {
            raw: Bytes::new(),
            version,
            header,
            set: Span { start, end },
            envelopes: self.envelopes,
            txs,
        })
    }

    fn header(&mut self) -> Result<Header, Fault> {
        let start = self.reader.at();
        let hash = Hash32(self.reader.array()?);
        let mut inside = self.reader.clone();
        let content = self.schema.span(self.types.header, self.reader)?;
        self.schema.skip(self.types.header_entry_ext, self.reader)?;
        let protocol = inside.u32()?;
        let previous = Hash32(inside.array()?);
        let set_hash = Hash32(inside.array()?);
        let close_time = inside.u64()?;
        // Upgrades and the value's extension are of any length: the rest is found from the end of them.
        for _ in 0..inside.count()? {
            inside.skip_bytes()?;
        }
        self.schema.skip(self.types.value_ext, &mut inside)?;
        let result_hash = Hash32(inside.array()?);
        inside.take(32)?;
        let sequence = inside.u32()?;
        let end = self.reader.at();
        Ok(Header {
            entry: Span { start, end },
            content,
            hash,
            protocol,
            previous,
            set_hash,
            close_time,
            result_hash,
            sequence,
        })
    }

    fn plain_set(&mut self) -> Result<(), Fault> {
        self.reader.take(32)?;
        self.envelopes()
    }

    /// Version, hash of the ledger before, phases; each of components, or of stages of clusters.
    fn phased_set(&mut self) -> Result<(), Fault> {
        if self.reader.u32()? != 1 {
            return Err(self.reader.fault("an unknown version of transaction sets"));
        }
        self.reader.take(32)?;
        for _ in 0..self.reader.count()? {
            match self.reader.u32()? {
                0 => self.components()?,
                1 => self.stages()?,
                _ => return Err(self.reader.fault("an unknown phase")),
            }
        }
        Ok(())
    }

    fn components(&mut self) -> Result<(), Fault> {
        for _ in 0..self.reader.count()? {
            if self.reader.u32()? != 0 {
                return Err(self.reader.fault("an unknown component of a phase"));
            }
            self.base_fee()?;
            self.envelopes()?;
        }
        Ok(())
    }

    fn stages(&mut self) -> Result<(), Fault> {
        self.base_fee()?;
        for _ in 0..self.reader.count()? {
            for _ in 0..self.reader.count()? {
                self.envelopes()?;
            }
        }
        Ok(())
    }

    fn base_fee(&mut self) -> Result<(), Fault> {
        if self.reader.present()? {
            self.reader.take(8)?;
        }
        Ok(())
    }

    fn envelopes(&mut self) -> Result<(), Fault> {
        let envelopes = self.schema.spans(self.types.envelope, self.reader)?;
        self.envelopes.extend(envelopes);
        Ok(())
    }

    fn processing(&mut self, version: Version) -> Result<Vec<TxSpans>, Fault> {
        let count = self.reader.count()?;
        let mut txs = Vec::with_capacity(self.envelopes.len().min(count as usize));
        for _ in 0..count {
            txs.push(tx_spans(self.reader, version)?);
        }
        Ok(txs)
    }

    fn rest(&mut self, version: Version) -> Result<(), Fault> {
        let (schema, types) = (self.schema, self.types);
        schema.skip_many(types.upgrade, self.reader)?;
        schema.skip_many(types.scp, self.reader)?;
        if version == Version::V0 {
            return Ok(());
        }
        self.reader.take(8)?;
        schema.skip_many(types.key, self.reader)?;
        if version == Version::V1 {
            schema.skip_many(types.entry, self.reader)?;
        }
        Ok(())
    }
}

/// Passes over what was recorded of one transaction.
pub(crate) fn tx_spans(reader: &mut Reader<'_>, version: Version) -> Result<TxSpans, Fault> {
    let (schema, types) = &*WIRE;
    let start = reader.at();
    if version == Version::V2 {
        schema.skip(types.extension, reader)?;
    }
    let pair = reader.span(|reader| {
        reader.take(32)?;
        schema.skip(types.result, reader)
    })?;
    schema.skip_many(types.change, reader)?;
    let meta = schema.span(types.meta, reader)?;
    if version == Version::V2 {
        schema.skip_many(types.change, reader)?;
    }
    let end = reader.at();
    let processing = Span { start, end };
    Ok(TxSpans {
        processing,
        pair,
        meta,
    })
}

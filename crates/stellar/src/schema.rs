//! The wire format as data, and a walk over it that copies nothing.
//!
//! `schema.txt` says how each type lies on the wire. It is read once into a small table; passing over a
//! value is a loop over that table. Generated code for each type would not be faster: most of the time
//! goes into following lengths.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::fault::Fault;
use crate::reader::{Reader, Span};

const TEXT: &str = include_str!("schema.txt");

/// Values may be nested this deep. The network allows less by far.
const DEPTH_MAX: u32 = 1_000;

/// What a value looks like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    Fixed(u32),
    Bytes,
    /// The shapes at these places, one after the other.
    Sequence(u32, u32),
    /// One of the shapes at these places, chosen by a number; the first is for `lowest`.
    Union {
        lowest: i32,
        first: u32,
        end: u32,
    },
    /// A count, and that many of the shape at this place.
    Array(u32),
    /// A count, and that many pieces of this many bytes.
    Pieces(u32),
    /// The shape at this place, or nothing.
    Optional(u32),
    /// No union has this number.
    Never,
    /// Another type, while the table is made.
    Named(u32),
}

#[derive(Debug)]
pub(crate) struct Schema {
    places: Vec<Shape>,
    names: HashMap<&'static str, Shape>,
}

/// The types that are passed over by name.
macro_rules! types {
    ($($field:ident = $name:literal),* $(,)?) => {
        /// Types that are requested by name.
        #[derive(Debug)]
        pub(crate) struct Types { $(pub(crate) $field: Shape),* }
        impl Types {
            fn of(schema: &Schema) -> Self {
                Self { $($field: schema.named($name)),* }
            }
        }
    };
}

types! {
    batch_ledger = "LedgerCloseMeta",
    close_ext = "LedgerCloseMetaExt",
    header = "LedgerHeader",
    value_ext = "StellarValueExt",
    header_entry_ext = "LedgerHeaderHistoryEntryExt",
    envelope = "TransactionEnvelope",
    transaction_v0 = "TransactionV0",
    transaction = "Transaction",
    fee_bump = "FeeBumpTransaction",
    muxed_account = "MuxedAccount",
    preconditions = "Preconditions",
    memo = "Memo",
    operation = "Operation",
    result = "TransactionResult",
    operation_result = "OperationResult",
    change = "LedgerEntryChange",
    meta = "TransactionMeta",
    upgrade = "UpgradeEntryMeta",
    scp = "SCPHistoryEntry",
    key = "LedgerKey",
    entry = "LedgerEntry",
    extension = "ExtensionPoint",
    operation_meta = "OperationMeta",
    soroban_meta_ext = "SorobanTransactionMetaExt",
    event = "ContractEvent",
    diagnostic = "DiagnosticEvent",
    value = "SCVal",
}

/// The table, and the types in it that are requested.
pub(crate) static WIRE: LazyLock<(Schema, Types)> = LazyLock::new(|| {
    let schema = Schema::read(TEXT);
    let types = Types::of(&schema);
    (schema, types)
});

impl Schema {
    fn named(&self, name: &str) -> Shape {
        let shape = self.names.get(name).copied();
        shape.expect("schema.txt describes every type that is read by name")
    }

    /// Reads the text. It is part of the program: what is wrong with it, a test finds.
    fn read(text: &'static str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        let lines: Vec<_> = lines.filter(|(name, _)| !name.starts_with('#')).collect();
        let numbers: HashMap<&str, u32> = lines
            .iter()
            .zip(0..)
            .map(|((name, _), at)| (*name, at))
            .collect();
        let mut maker = Maker {
            places: Vec::new(),
            numbers,
        };
        let types: Vec<Shape> = lines
            .iter()
            .map(|(_, layout)| maker.layout(layout))
            .collect();
        let mut places = maker.places;
        for place in &mut places {
            *place = resolve(*place, &types);
        }
        let names = lines.iter().zip(&types);
        let names = names.map(|((name, _), shape)| (*name, resolve(*shape, &types)));
        Self {
            names: names.collect(),
            places,
        }
    }

    fn at(&self, place: u32) -> Shape {
        let shape = self.places.get(place as usize).copied();
        shape.expect("a shape points into the table that it was made with")
    }

    pub(crate) fn skip(&self, shape: Shape, reader: &mut Reader<'_>) -> Result<(), Fault> {
        self.pass(shape, reader, DEPTH_MAX)
    }

    /// A count, and that many values.
    pub(crate) fn skip_many(&self, shape: Shape, reader: &mut Reader<'_>) -> Result<(), Fault> {
        for _ in 0..reader.count()? {
            self.skip(shape, reader)?;
        }
        Ok(())
    }

    /// Where a value lies.
    pub(crate) fn span(&self, shape: Shape, reader: &mut Reader<'_>) -> Result<Span, Fault> {
        reader.span(|reader| self.skip(shape, reader))
    }

    /// A count, and where each of that many values lies.
    pub(crate) fn spans(&self, shape: Shape, reader: &mut Reader<'_>) -> Result<Vec<Span>, Fault> {
        let mut spans = Vec::new();
        for _ in 0..reader.count()? {
            spans.push(self.span(shape, reader)?);
        }
        Ok(spans)
    }

    fn pass(&self, mut shape: Shape, reader: &mut Reader<'_>, depth: u32) -> Result<(), Fault> {
        let Some(below) = depth.checked_sub(1) else {
            return Err(reader.fault("nested too deep"));
        };
        loop {
            match shape {
                Shape::Fixed(len) => return reader.take(len as usize).map(|_| ()),
                Shape::Bytes => return reader.skip_bytes(),
                Shape::Sequence(first, end) => {
                    let places = self.places.get(first as usize..end as usize);
                    let places =
                        places.expect("a shape points into the table that it was made with");
                    let Some((last, before)) = places.split_last() else {
                        return Ok(());
                    };
                    for &item in before {
                        match item {
                            Shape::Fixed(len) => reader.take(len as usize).map(|_| ())?,
                            Shape::Bytes => reader.skip_bytes()?,
                            item => self.pass(item, reader, below)?,
                        }
                    }
                    shape = *last;
                }
                Shape::Union { lowest, first, end } => {
                    let chosen = reader.u32()? as i32;
                    let arm = i64::from(chosen) - i64::from(lowest) + i64::from(first);
                    let arm = u32::try_from(arm).ok().filter(|&arm| arm < end);
                    shape = arm.map_or(Shape::Never, |arm| self.at(arm));
                }
                Shape::Array(element) => {
                    let element = self.at(element);
                    for _ in 0..reader.count()? {
                        self.pass(element, reader, below)?;
                    }
                    return Ok(());
                }
                Shape::Pieces(len) => {
                    let len = u64::from(reader.u32()?) * u64::from(len);
                    let len = usize::try_from(len).unwrap_or(usize::MAX);
                    return reader.take(len).map(|_| ());
                }
                Shape::Optional(inner) => {
                    if reader.present()? {
                        shape = self.at(inner)
                    } else {
                        return Ok(());
                    }
                }
                Shape::Never | Shape::Named(_) => return Err(reader.fault("an unknown variant")),
            }
        }
    }
}

fn resolve(shape: Shape, types: &[Shape]) -> Shape {
    match shape {
        // A type that is only another name for one leads on; none leads to itself.
        Shape::Named(number) => match types.get(number as usize) {
            Some(&named) if named != shape => resolve(named, types),
            _ => Shape::Never,
        },
        other => other,
    }
}

struct Maker {
    places: Vec<Shape>,
    numbers: HashMap<&'static str, u32>,
}

impl Maker {
    fn layout(&mut self, text: &str) -> Shape {
        match text.strip_prefix("| ") {
            Some(arms) => self.union(arms),
            None => {
                let items: Vec<Shape> = text.split(' ').map(|item| self.item(item)).collect();
                match items.as_slice() {
                    [only] => *only,
                    _ => self.keep(&items),
                }
            }
        }
    }

    fn keep(&mut self, items: &[Shape]) -> Shape {
        let first = self.places.len() as u32;
        self.places.extend(items);
        Shape::Sequence(first, self.places.len() as u32)
    }

    fn union(&mut self, arms: &str) -> Shape {
        let mut known: Vec<(i32, Shape)> = Vec::new();
        for arm in arms.split(" | ") {
            let (numbers, item) = arm.split_once(": ").unwrap_or(("", arm));
            let shape = self.item(item);
            let (low, high) = numbers.split_once("..").unwrap_or((numbers, numbers));
            // An arm without a number is that of none, and a value of it an error.
            let (low, high) = (low.parse().unwrap_or(0), high.parse().unwrap_or(-1));
            known.extend((low..=high).map(|number| (number, shape)));
        }
        let lowest = known.iter().map(|arm| arm.0).min().unwrap_or(0);
        let highest = known.iter().map(|arm| arm.0).max().unwrap_or(0);
        let first = self.places.len() as u32;
        for number in lowest..=highest {
            let arm = known.iter().find(|arm| arm.0 == number);
            self.places.push(arm.map_or(Shape::Never, |arm| arm.1));
        }
        let end = self.places.len() as u32;
        Shape::Union { lowest, first, end }
    }

    fn item(&mut self, text: &str) -> Shape {
        if let Some(inner) = text.strip_suffix("[]") {
            return match self.item(inner) {
                Shape::Fixed(len) => Shape::Pieces(len),
                inner => Shape::Array(self.place(inner)),
            };
        }
        if let Some(inner) = text.strip_suffix('?') {
            let inner = self.item(inner);
            return Shape::Optional(self.place(inner));
        }
        match (text, text.parse()) {
            (_, Ok(len)) => Shape::Fixed(len),
            ("-", _) => Shape::Fixed(0),
            ("bytes", _) => Shape::Bytes,
            (name, _) => self
                .numbers
                .get(name)
                .map_or(Shape::Never, |&number| Shape::Named(number)),
        }
    }

    fn place(&mut self, shape: Shape) -> u32 {
        self.places.push(shape);
        self.places.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_text_is_a_type() {
        let (schema, _) = &*WIRE;
        assert!(schema.names.len() > 200);
        for (name, shape) in &schema.names {
            assert!(!matches!(shape, Shape::Never | Shape::Named(_)), "{name}");
        }
        for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, layout)) = line.split_once(" = ") else {
                assert!(line.is_empty(), "{line}");
                continue;
            };
            let words = layout
                .split([' ', '|'])
                .map(|word| word.trim_end_matches(['?', '[', ']']));
            for word in words.filter(|word| word.starts_with(char::is_uppercase)) {
                assert!(schema.names.contains_key(word), "{name} names {word}");
            }
        }
    }

    #[test]
    fn nothing_is_nested_without_end() {
        let (schema, types) = &*WIRE;
        // A vector in a vector in a vector …: variant 16, present, one element.
        let nested = [0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1].repeat(100_000);
        let mut reader = Reader::new(&nested).unwrap();
        let fault = schema.skip(types.value, &mut reader).unwrap_err();
        assert!(fault.to_string().contains("nested too deep"), "{fault}");
    }
}

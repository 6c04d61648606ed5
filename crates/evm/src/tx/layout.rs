//! The fields of each type of transaction, in the order of its bytes.

use std::sync::LazyLock;

use super::{ADDRESSES, DATA, FLAGS, HASHES, NUMBERS};

/// How a field is encoded and shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    Number,
    /// Bytes of any length, or a hash.
    Data,
    /// Empty is null.
    Address,
    Flag,
    AccessList,
    Hashes,
    Authorizations,
}

impl As {
    /// A name has one form in all types.
    fn of(name: &str) -> Self {
        match name {
            "input" | "retryData" | "sourceHash" | "requestId" | "ticketId" => Self::Data,
            "from" | "to" | "feeCurrency" | "gatewayFeeRecipient" => Self::Address,
            "refundTo" | "retryTo" | "beneficiary" => Self::Address,
            "isSystemTx" => Self::Flag,
            "accessList" => Self::AccessList,
            "blobVersionedHashes" => Self::Hashes,
            "authorizationList" => Self::Authorizations,
            _ => Self::Number,
        }
    }
}

/// Fields of the types that have several forms. The number of fields distinguishes the forms.
pub(super) const LEGACY_FIELDS: usize = 9;
pub(super) const CELO_LEGACY_FIELDS: usize = 12;
pub(super) const OP_DEPOSIT_FIELDS: usize = 8;
pub(super) const SCROLL_MESSAGE_FIELDS: usize = 6;
pub(super) const BERACHAIN_REWARD_FIELDS: usize = 7;

/// A field in the bytes of a transaction.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) form: As,
    /// Its place in the list of its form.
    pub(super) at: usize,
}

impl Field {
    fn new(name: &'static str) -> Self {
        let lists: [&[&str]; 5] = [&NUMBERS, &ADDRESSES, &HASHES, &DATA, &FLAGS];
        let place = |list: &&[&str]| list.iter().position(|one| *one == name);
        Self {
            name,
            form: As::of(name),
            at: lists.iter().find_map(place).unwrap_or(0),
        }
    }
}

/// The fields of one type, in the order of its bytes.
struct Layout {
    kind: u8,
    /// How many fields the form has, if the type has several forms.
    count: Option<usize>,
    fields: Vec<Field>,
}

impl Layout {
    fn parse(line: &'static str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        let (count, names) = rest.split_once(' ')?;
        Some(Self {
            kind: u8::from_str_radix(kind.strip_prefix("0x")?, 16).ok()?,
            count: count.parse().ok(),
            fields: names.split(' ').map(Field::new).collect(),
        })
    }
}

/// Fields are looked up once: by name for each transaction, encoding took 2.7 times as long.
static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let lines = include_str!("layouts.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let layout = |line| Layout::parse(line).expect("each line has a type, a count and names");
    lines.map(layout).collect()
});

/// The fields of a type, and of the form with this many of them if it has several.
pub(super) fn layout(kind: u8, fields: usize) -> Option<&'static [Field]> {
    let fits = |one: &&Layout| one.kind == kind && one.count.is_none_or(|count| count == fields);
    LAYOUTS.iter().find(fits).map(|one| one.fields.as_slice())
}

//! The ADFS calldata inside of a transaction.
//!
//! The oracle calls its proxy directly, or through a Safe, and a Safe may make many calls at once. The bytes
//! are looked at in place: nothing is copied, pieces of one depth do not overlap, and depth is bounded, so
//! the work is linear in the input. Calls that only a call trace shows are not found, and that is reported.

use std::fmt;

use alloy_primitives::{Address, U256};

use crate::calldata::UPDATE;

/// How many wrappers are taken off.
pub const WRAPPERS_MAX: usize = 4;
/// How much of what was seen is reported.
const SEEN_MAX: usize = 16;
const WORD: usize = 32;
const SELECTOR: usize = 4;
/// Bytes of a call in `multiSend` before its data: operation, address, value, length.
const PACKED_HEAD: usize = 1 + 20 + WORD + WORD;

/// A call that makes other calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrapper {
    /// `execTransaction` of a Safe.
    Safe,
    /// `execTransactionFromModule` of a Safe.
    Module,
    /// `multiSend`.
    MultiSend,
}

/// The wrappers around a call, the outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wrappers([Option<Wrapper>; WRAPPERS_MAX]);

/// An update of feeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// What it was inside of.
    pub wrappers: Wrappers,
    /// Where in the input of the transaction it begins.
    pub offset: usize,
    /// The ADFS calldata.
    pub calldata: &'a [u8],
}

/// No update of feeds in the input of a transaction: only a call trace can show whether there was one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFound {
    /// What there was instead: the first of it.
    pub seen: Vec<Seen>,
    /// How much more there was.
    pub more: usize,
}

/// Something that is no update of feeds, and where in the input it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Seen {
    /// A call of something else.
    #[error("a call of another contract (offset={offset}, to={}, bytes={bytes})", name(*to))]
    Elsewhere {
        /// Where its calldata begins.
        offset: usize,
        /// Who was called; `None` where a contract was made, or it is unknown.
        to: Option<Address>,
        /// How long its calldata is.
        bytes: usize,
    },
    /// A call of the proxy that does not update feeds.
    #[error("a call of the proxy that updates no feeds (offset={offset}, bytes={bytes})")]
    NoUpdate {
        /// Where its calldata begins.
        offset: usize,
        /// How long its calldata is.
        bytes: usize,
    },
    /// The proxy's code run in the name of another contract, which changes nothing in the proxy.
    #[error("a delegate call of the proxy (offset={offset})")]
    Delegated {
        /// Where its calldata begins.
        offset: usize,
    },
    /// A wrapper whose lengths and offsets do not fit its bytes.
    #[error("a broken {wrapper} (offset={offset})")]
    Broken {
        wrapper: Wrapper,
        /// Where it cannot be read on.
        offset: usize,
    },
    #[error("more wrappers than {WRAPPERS_MAX} (offset={offset})")]
    TooDeep {
        /// Where it begins.
        offset: usize,
    },
}

/// Finds the updates of feeds that a transaction makes by calling `proxy`, in the order of execution.
///
/// # Errors
///
/// [`NotFound`] where there is none.
pub fn find(to: Option<Address>, input: &[u8], proxy: Address) -> Result<Vec<Call<'_>>, NotFound> {
    let mut search = Search {
        proxy,
        calls: Vec::new(),
        none: NotFound {
            seen: Vec::new(),
            more: 0,
        },
    };
    let piece = Piece {
        offset: 0,
        bytes: input,
    };
    let first = Inner {
        to,
        delegated: false,
        piece,
    };
    search.visit(first, Wrappers::default());
    if search.calls.is_empty() {
        return Err(search.none);
    }
    Ok(search.calls)
}

struct Search<'a> {
    proxy: Address,
    calls: Vec<Call<'a>>,
    none: NotFound,
}

/// A call, as far as it is known.
struct Inner<'a> {
    to: Option<Address>,
    delegated: bool,
    piece: Piece<'a>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, call: Inner<'a>, wrappers: Wrappers) {
        let Inner {
            to,
            delegated,
            piece,
        } = call;
        let offset = piece.offset;
        if to == Some(self.proxy) {
            return self.call_of_proxy(piece, delegated, wrappers);
        }
        let Some(wrapper) = Wrapper::of(piece.bytes) else {
            let bytes = piece.bytes.len();
            return self.saw(Seen::Elsewhere { offset, to, bytes });
        };
        let Some(wrappers) = wrappers.with(wrapper) else {
            return self.saw(Seen::TooDeep { offset });
        };
        let arguments = piece.from(SELECTOR);
        let read = match wrapper {
            Wrapper::Safe | Wrapper::Module => self.one(arguments, wrappers),
            Wrapper::MultiSend => self.many(arguments, wrappers),
        };
        if let Err(offset) = read {
            self.saw(Seen::Broken { wrapper, offset });
        }
    }

    fn call_of_proxy(&mut self, piece: Piece<'a>, delegated: bool, wrappers: Wrappers) {
        let offset = piece.offset;
        if delegated {
            return self.saw(Seen::Delegated { offset });
        }
        if piece.bytes.first() != Some(&UPDATE) {
            let bytes = piece.bytes.len();
            return self.saw(Seen::NoUpdate { offset, bytes });
        }
        self.calls.push(Call {
            wrappers,
            offset,
            calldata: piece.bytes,
        });
    }

    /// Address, value, data and operation, as both calls of a Safe begin. An error is where it broke.
    fn one(&mut self, arguments: Piece<'a>, wrappers: Wrappers) -> Result<(), usize> {
        let to = arguments.word(0).ok_or(arguments.offset)?;
        let piece = arguments.dynamic(2).ok_or(arguments.offset)?;
        let operation = arguments.word(3).ok_or(arguments.offset)?;
        let delegated = delegated(operation).ok_or(arguments.offset)?;
        let to = Some(Address::from_word((*to).into()));
        let inner = Inner {
            to,
            delegated,
            piece,
        };
        self.visit(inner, wrappers);
        Ok(())
    }

    /// Calls without padding, one after the other. An error is where it broke.
    fn many(&mut self, arguments: Piece<'a>, wrappers: Wrappers) -> Result<(), usize> {
        let mut rest = arguments.dynamic(0).ok_or(arguments.offset)?;
        while !rest.bytes.is_empty() {
            let (inner, after) = packed(rest).ok_or(rest.offset)?;
            self.visit(inner, wrappers);
            rest = after;
        }
        Ok(())
    }

    fn saw(&mut self, seen: Seen) {
        if self.none.seen.len() < SEEN_MAX {
            self.none.seen.push(seen);
        } else {
            self.none.more += 1;
        }
    }
}

/// The first call of a `multiSend`, and what comes after it.
fn packed(piece: Piece<'_>) -> Option<(Inner<'_>, Piece<'_>)> {
    let (operation, rest) = piece.bytes.split_first_chunk::<1>()?;
    let (to, rest) = rest.split_first_chunk::<20>()?;
    let (_value, rest) = rest.split_first_chunk::<WORD>()?;
    let (length, rest) = rest.split_first_chunk::<WORD>()?;
    let length = usize::try_from(U256::from_be_bytes(*length)).ok()?;
    let data = rest.get(..length)?;
    let inner = Inner {
        to: Some(Address::from(*to)),
        delegated: delegated(operation)?,
        piece: Piece {
            offset: piece.offset + PACKED_HEAD,
            bytes: data,
        },
    };
    Some((inner, piece.from(PACKED_HEAD + length)))
}

/// Whether an operation is a delegate call; `None` where it is neither that nor a call.
fn delegated(operation: &[u8]) -> Option<bool> {
    let (last, high) = operation.split_last()?;
    match last {
        0 | 1 if high.iter().all(|byte| *byte == 0) => Some(*last == 1),
        _ => None,
    }
}

/// A part of the input, and where it begins.
#[derive(Clone, Copy)]
struct Piece<'a> {
    offset: usize,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    fn from(self, start: usize) -> Self {
        Self {
            offset: self.offset + start,
            bytes: self.bytes.get(start..).unwrap_or_default(),
        }
    }

    fn word(self, at: usize) -> Option<&'a [u8; WORD]> {
        self.bytes.get(at.checked_mul(WORD)?..)?.first_chunk()
    }

    /// The bytes that the word at this place points to.
    fn dynamic(self, at: usize) -> Option<Self> {
        let start = usize::try_from(U256::from_be_bytes(*self.word(at)?)).ok()?;
        let (length, rest) = self.bytes.get(start..)?.split_first_chunk::<WORD>()?;
        let length = usize::try_from(U256::from_be_bytes(*length)).ok()?;
        Some(Self {
            offset: self.offset + start + WORD,
            bytes: rest.get(..length)?,
        })
    }
}

impl Wrapper {
    fn of(calldata: &[u8]) -> Option<Self> {
        match calldata.first_chunk::<SELECTOR>()? {
            [0x6a, 0x76, 0x12, 0x02] => Some(Self::Safe),
            [0x46, 0x87, 0x21, 0xa7] => Some(Self::Module),
            [0x8d, 0x80, 0xff, 0x0a] => Some(Self::MultiSend),
            _ => None,
        }
    }
}

impl Wrappers {
    /// One more inside of these; `None` where there are too many.
    fn with(mut self, wrapper: Wrapper) -> Option<Self> {
        let free = self.0.iter_mut().find(|slot| slot.is_none())?;
        *free = Some(wrapper);
        Some(self)
    }

    /// The outermost first.
    pub fn iter(&self) -> impl Iterator<Item = Wrapper> {
        self.0.into_iter().flatten()
    }
}

fn name(to: Option<Address>) -> String {
    to.map_or_else(|| "unknown".to_owned(), |to| to.to_string())
}

impl fmt::Display for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safe => "execTransaction",
            Self::Module => "execTransactionFromModule",
            Self::MultiSend => "multiSend",
        })
    }
}

impl fmt::Display for Wrappers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|wrapper| wrapper.to_string()).collect();
        if names.is_empty() {
            return f.write_str("direct");
        }
        f.write_str(&names.join(" > "))
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no call of the proxy that updates feeds; there is ")?;
        for (at, seen) in self.seen.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{seen}")?;
        }
        if self.more > 0 {
            write!(f, ", and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for NotFound {}

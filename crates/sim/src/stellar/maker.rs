//! Values of XDR types out of a stream of random numbers.
//!
//! A reader of ledgers must cope with every type that a ledger can hold, and there are hundreds of
//! them. So a type only lists its parts (`fields!`, `variants!`, `codes!`), and the parts are made by
//! their own types. Nesting is bounded: deep inside, lists are empty and options are absent.
//!
//! Ledgers are of protocol 23 at most, so types have no variant of a later protocol: a client of protocol 23
//! reads everything that is made here.

use stellar_xdr::{
    AccountId, AssetCode4, AssetCode12, BytesM, ConfigSettingId, ContractCostParams,
    ContractDataDurability, ContractId, DataValue, Duration, Hash, LedgerEntryChanges, NodeId,
    PoolId, PublicKey, ReadXdr, ScBytes, ScErrorCode, ScMap, ScString, ScSymbol, ScVec,
    SequenceNumber, Signature, SignatureHint, SponsorshipDescriptor, String32, String64, StringM,
    Thresholds, TimePoint, Uint256, Value, VecM, WriteXdr,
};

use super::{decoded, xdr};
use crate::rng::{self, Octaves, Rng};

/// Lists and options that stand this deep in others are empty.
const DEPTH_MAX: u32 = 5;
/// How long lists are, by equal chances.
const LENGTHS: [usize; 8] = [0, 0, 1, 1, 1, 2, 2, 3];
/// Domains of the pools: what is made for one is not made for another.
const ACCOUNTS: u64 = 0x5354_0001;
const CONTRACTS: u64 = 0x5354_0002;
/// Contracts of a chain; the first are used far more often.
const CONTRACT_OCTAVES: [u8; 6] = [3, 3, 2, 2, 1, 1];
/// Accounts of a chain that occur again and again.
const ACCOUNT_COUNT: u64 = 64;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const SYMBOLS: &[u8] = b"abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// A type whose values can be made.
pub(super) trait Make: Sized {
    /// A value of it.
    fn make(maker: &mut Maker) -> Self;
}

/// Makes values of the types of one chain.
pub(super) struct Maker {
    pub(super) rng: Rng,
    seed: u64,
    depth: u32,
    contracts: Octaves,
}

impl Maker {
    /// A maker for the part of a chain that these numbers name.
    pub(super) fn of(seed: u64, parts: [u64; 3]) -> Self {
        let [domain, sequence, index] = parts;
        Self {
            rng: Rng::of(&[seed, domain, sequence, index]),
            seed,
            depth: 0,
            contracts: Octaves::new(0, &CONTRACT_OCTAVES),
        }
    }

    /// A value of any type that can be made.
    pub(super) fn make<T: Make>(&mut self) -> T {
        T::make(self)
    }

    /// So many values.
    pub(super) fn list<T: Make, const MAX: u32>(&mut self, len: usize) -> VecM<T, MAX> {
        self.depth += 1;
        let values: Vec<T> = (0..len).map(|_| self.make()).collect();
        self.depth -= 1;
        bounded(values)
    }

    /// One of the values.
    pub(super) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        *self.rng.pick(values).expect("there is at least one way")
    }

    /// Text of these characters.
    fn text(&mut self, len: usize, characters: &[u8]) -> Vec<u8> {
        (0..len).map(|_| self.one_of(characters)).collect()
    }

    /// A length from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> usize {
        (low + self.rng.below(high - low + 1)) as usize
    }

    /// One of the contracts that occur again and again.
    pub(super) fn contract(&mut self) -> ContractId {
        let rank = self.contracts.draw(&mut self.rng);
        self.contract_of(rank)
    }

    /// The contract of the network's own coin.
    pub(super) fn native(&self) -> ContractId {
        self.contract_of(0)
    }

    fn contract_of(&self, rank: u64) -> ContractId {
        ContractId(Hash(rng::hash(&[self.seed, CONTRACTS, rank]).0))
    }

    /// One of the accounts that occur again and again.
    pub(super) fn account(&mut self) -> Uint256 {
        Uint256(self.pooled(ACCOUNTS, ACCOUNT_COUNT))
    }

    /// One of so many values of a domain.
    pub(super) fn pooled(&mut self, domain: u64, count: u64) -> [u8; 32] {
        let rank = self.rng.below(count);
        rng::hash(&[self.seed, domain, rank]).0
    }
}

/// A list whose length was bounded when it was made.
pub(super) fn bounded<T, const MAX: u32>(values: Vec<T>) -> VecM<T, MAX> {
    VecM::try_from(values).expect("no more values than the type takes")
}

/// The value of a type that has the same XDR as this value of another type.
pub(super) fn same_xdr<T: ReadXdr>(value: &impl WriteXdr) -> T {
    decoded(&xdr(value))
}

/// The types that are made of fields.
macro_rules! fields {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Make for stellar_xdr::$name {
            fn make(maker: &mut Maker) -> Self {
                Self { $($field: maker.make()),* }
            }
        }
    )*};
}

/// The types that are one of several: first the ways that hold nothing, then those that hold a value.
macro_rules! variants {
    ($($name:ident [$($plain:ident)*] [$($full:ident)*])*) => {$(
        impl Make for stellar_xdr::$name {
            fn make(maker: &mut Maker) -> Self {
                let ways: &[fn(&mut Maker) -> Self] = &[
                    $(|_| Self::$plain,)*
                    $(|maker| Self::$full(maker.make()),)*
                ];
                maker.one_of(ways)(maker)
            }
        }
    )*};
}

/// The types that are one of several codes and hold nothing else.
macro_rules! codes {
    ($($name:ident)*) => {$(
        impl Make for stellar_xdr::$name {
            fn make(maker: &mut Maker) -> Self {
                same_xdr(&maker.one_of(&Self::VARIANTS))
            }
        }
    )*};
}

/// The types that are a name for another type.
macro_rules! wraps {
    ($($name:ident)*) => {$(
        impl Make for $name {
            fn make(maker: &mut Maker) -> Self {
                Self(maker.make())
            }
        }
    )*};
}

/// The types that are one of several numbers.
macro_rules! numbers {
    ($($name:ident)*) => {$(
        impl Make for $name {
            fn make(maker: &mut Maker) -> Self {
                maker.one_of(&Self::VARIANTS)
            }
        }
    )*};
}

pub(super) use {codes, fields, variants};

wraps! {
    ContractCostParams DataValue Duration Hash LedgerEntryChanges NodeId PoolId
    ScBytes ScMap ScString ScVec SequenceNumber SignatureHint SponsorshipDescriptor String32
    String64 Thresholds TimePoint Value
}

numbers! { ContractDataDurability ScErrorCode }

impl Make for ConfigSettingId {
    /// One of the settings of protocol 23: a reader of that protocol knows no others.
    fn make(maker: &mut Maker) -> Self {
        let mut known = Self::VARIANTS.to_vec();
        known.retain(|setting| *setting <= Self::ScpTiming);
        maker.one_of(&known)
    }
}

impl Make for bool {
    fn make(maker: &mut Maker) -> Self {
        maker.rng.percent(50)
    }
}

impl Make for u64 {
    fn make(maker: &mut Maker) -> Self {
        let bits = maker.one_of(&[1, 8, 20, 34, 63, 64]);
        maker.rng.next() >> (64 - bits)
    }
}

impl Make for u32 {
    fn make(maker: &mut Maker) -> Self {
        (maker.make::<u64>() & u64::from(Self::MAX)) as Self
    }
}

impl Make for i64 {
    fn make(maker: &mut Maker) -> Self {
        // Amounts are positive; a few are not, because the type takes them.
        let amount = (maker.make::<u64>() >> 1).cast_signed();
        if maker.rng.percent(5) {
            !amount
        } else {
            amount
        }
    }
}

impl Make for i32 {
    fn make(maker: &mut Maker) -> Self {
        maker.make::<u32>().cast_signed()
    }
}

impl<const N: usize> Make for [u8; N] {
    fn make(maker: &mut Maker) -> Self {
        maker.rng.bytes()
    }
}

impl<T: Make> Make for Option<T> {
    fn make(maker: &mut Maker) -> Self {
        if maker.depth >= DEPTH_MAX || maker.rng.percent(40) {
            return None;
        }
        maker.depth += 1;
        let value = maker.make();
        maker.depth -= 1;
        Some(value)
    }
}

impl<T: Make> Make for Box<T> {
    fn make(maker: &mut Maker) -> Self {
        Self::new(maker.make())
    }
}

impl<T: Make, const MAX: u32> Make for VecM<T, MAX> {
    fn make(maker: &mut Maker) -> Self {
        if maker.depth >= DEPTH_MAX {
            return Self::default();
        }
        let len = maker.one_of(&LENGTHS).min(MAX as usize);
        maker.list(len)
    }
}

impl<const MAX: u32> Make for BytesM<MAX> {
    fn make(maker: &mut Maker) -> Self {
        // Short and of every length, so that padding is; now and then as long as code is.
        let most = if maker.rng.percent(3) { 2_000 } else { 40 };
        let len = maker.rng.below(most + 1).min(MAX.into());
        let bytes = maker.rng.vec(len);
        Self::try_from(bytes).expect("no longer than the type takes")
    }
}

impl<const MAX: u32> Make for StringM<MAX> {
    fn make(maker: &mut Maker) -> Self {
        let len = maker.between(0, MAX.min(24).into());
        // A string may be any bytes, not only text.
        let bytes = if maker.rng.percent(6) {
            maker.rng.vec(len as u64)
        } else {
            maker.text(len, SYMBOLS)
        };
        Self::try_from(bytes).expect("no longer than the type takes")
    }
}

impl Make for ScSymbol {
    fn make(maker: &mut Maker) -> Self {
        let len = maker.between(1, 32);
        let text = maker.text(len, SYMBOLS);
        Self(text.try_into().expect("no longer than a symbol may be"))
    }
}

impl Make for Signature {
    fn make(maker: &mut Maker) -> Self {
        let len = if maker.rng.percent(95) { 64 } else { 21 };
        let bytes = maker.rng.vec(len);
        Self(bytes.try_into().expect("no longer than a signature"))
    }
}

impl Make for Uint256 {
    fn make(maker: &mut Maker) -> Self {
        if maker.rng.percent(70) {
            return maker.account();
        }
        Self(maker.make())
    }
}

impl Make for AccountId {
    fn make(maker: &mut Maker) -> Self {
        Self(PublicKey::PublicKeyTypeEd25519(maker.make()))
    }
}

impl Make for ContractId {
    fn make(maker: &mut Maker) -> Self {
        maker.contract()
    }
}

impl Make for AssetCode4 {
    fn make(maker: &mut Maker) -> Self {
        Self(asset_code(maker, 1))
    }
}

impl Make for AssetCode12 {
    fn make(maker: &mut Maker) -> Self {
        Self(asset_code(maker, 5))
    }
}

/// At least so many letters, and zeros after them.
fn asset_code<const N: usize>(maker: &mut Maker, least: u64) -> [u8; N] {
    let len = maker.between(least, N as u64);
    let mut code = maker.text(len, LETTERS);
    code.resize(N, 0);
    code.try_into().expect("as long as it was made")
}

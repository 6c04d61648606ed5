//! Contract events: what they say, and the ids that Stellar RPC gives them.

use std::fmt;

use bytes::Bytes;
use stellar_xdr::{
    ContractEvent, ContractEventBody, ContractEventType, ContractEventV0, ExtensionPoint,
    Int128Parts, ScAddress, ScString, ScSymbol, ScVal, TransactionEvent, TransactionEventStage,
    TransactionMeta,
};

use super::maker::{Maker, bounded};
use super::xdr;

/// The most frequent names of events.
const NAMES: [&str; 6] = [
    "transfer",
    "mint",
    "burn",
    "clawback",
    "set_authorized",
    "swap",
];
/// The position of an operation that events after a transaction have, and the transaction that
/// events after all of them have: the highest that their fields take.
const AFTER_TX: u32 = 0xfff;
const AFTER_ALL: u32 = 0xf_ffff;

/// Where an event stands in a ledger, in the order of Stellar RPC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventId {
    pub ledger: u32,
    /// The transaction, counted from 1; 0 before all of them, the highest number after all of them.
    pub tx: u32,
    /// The operation, counted from 0; the highest number after a transaction.
    pub operation: u32,
    /// The place among events that have the rest in common.
    pub event: u32,
}

impl EventId {
    /// Ledger, transaction and operation as one number.
    #[must_use]
    pub fn toid(self) -> u64 {
        u64::from(self.ledger) << 32 | u64::from(self.tx) << 12 | u64::from(self.operation)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}-{:010}", self.toid(), self.event)
    }
}

/// An event that a server must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadeEvent {
    pub id: EventId,
    /// The transaction that it belongs to: its place in the order of applying, counted from 0.
    pub tx_position: u32,
    pub success: bool,
    pub event: ContractEvent,
}

impl MadeEvent {
    /// The contract that emitted it, where there is one.
    #[must_use]
    pub fn contract_id(&self) -> Option<[u8; 32]> {
        self.event.contract_id.as_ref().map(|contract| contract.0.0)
    }

    /// The XDR of the whole event.
    #[must_use]
    pub fn to_xdr(&self) -> Bytes {
        xdr(&self.event).into()
    }

    /// The XDR of each topic.
    #[must_use]
    pub fn topics(&self) -> Vec<Bytes> {
        let ContractEventBody::V0(body) = &self.event.body;
        body.topics.iter().map(|topic| xdr(topic).into()).collect()
    }

    /// The XDR of its value.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let ContractEventBody::V0(body) = &self.event.body;
        xdr(&body.data).into()
    }
}

/// Gives events their ids, one transaction after another.
pub(super) struct Numbering {
    ledger: u32,
    before_all: u32,
    after_all: u32,
}

impl Numbering {
    pub(super) fn new(ledger: u32) -> Self {
        Self {
            ledger,
            before_all: 0,
            after_all: 0,
        }
    }

    /// The events of the transaction at this position. Events before and after all transactions are
    /// counted through the ledger, the others again in each operation or transaction.
    pub(super) fn events(
        &mut self,
        tx_position: u32,
        success: bool,
        meta: &TransactionMeta,
    ) -> Vec<MadeEvent> {
        let tx = tx_position + 1;
        let mut after_tx = 0;
        let mut events = Vec::new();
        let mut push = |tx, operation, event, body: &ContractEvent| {
            let id = EventId {
                ledger: self.ledger,
                tx,
                operation,
                event,
            };
            events.push(MadeEvent {
                id,
                tx_position,
                success,
                event: body.clone(),
            });
        };
        let (own, of_operations) = parts(meta);
        for (operation, bodies) in (0..).zip(of_operations) {
            for (event, body) in (0..).zip(bodies) {
                push(tx, operation, event, body);
            }
        }
        for own in own {
            let (tx, operation, count) = match own.stage {
                TransactionEventStage::BeforeAllTxs => (0, 0, &mut self.before_all),
                TransactionEventStage::AfterTx => (tx, AFTER_TX, &mut after_tx),
                TransactionEventStage::AfterAllTxs => (AFTER_ALL, 0, &mut self.after_all),
            };
            push(tx, operation, *count, &own.event);
            *count += 1;
        }
        events
    }
}

/// The events of a transaction itself, and those of each of its operations.
fn parts(meta: &TransactionMeta) -> (&[TransactionEvent], Vec<&[ContractEvent]>) {
    match meta {
        // A Soroban transaction has one operation, and its events are that one's.
        TransactionMeta::V3(meta) => {
            let soroban = meta.soroban_meta.iter();
            (&[], soroban.map(|soroban| &soroban.events[..]).collect())
        }
        TransactionMeta::V4(meta) => {
            let of_operations = meta.operations.iter();
            let of_operations = of_operations.map(|operation| &operation.events[..]);
            (&meta.events, of_operations.collect())
        }
        TransactionMeta::V0(_) | TransactionMeta::V1(_) | TransactionMeta::V2(_) => {
            (&[], Vec::new())
        }
    }
}

/// Any event that a contract, or the network, may emit.
pub(super) fn event(maker: &mut Maker) -> ContractEvent {
    let type_ = match maker.rng.below(8) {
        0 => ContractEventType::System,
        _ => ContractEventType::Contract,
    };
    let contract_id = maker.rng.percent(90).then(|| maker.contract());
    let topics = maker.between(0, 5);
    let topics = (0..topics).map(|place| topic(maker, place)).collect();
    let data = match maker.rng.below(3) {
        0 => maker.make(),
        _ => amount(maker),
    };
    build(type_, contract_id, (topics, data))
}

/// What a transaction pays, or gets back.
pub(super) fn fee(maker: &mut Maker, stage: TransactionEventStage) -> TransactionEvent {
    let payer = ScVal::Address(ScAddress::Account(maker.make()));
    let amount = amount(maker);
    fee_of(maker, stage, payer, amount)
}

/// The same, of this account and this amount.
pub(super) fn fee_of(
    maker: &Maker,
    stage: TransactionEventStage,
    payer: ScVal,
    amount: ScVal,
) -> TransactionEvent {
    let content = (vec![symbol("fee"), payer], amount);
    let event = build(ContractEventType::Contract, Some(maker.native()), content);
    TransactionEvent { stage, event }
}

/// Coins that went from one to the other.
pub(super) fn transfer(maker: &Maker, (from, to): (ScVal, ScVal), amount: ScVal) -> ContractEvent {
    let asset = ScString(
        "native"
            .try_into()
            .expect("a name is shorter than a string may be"),
    );
    let topics = vec![symbol("transfer"), from, to, ScVal::String(asset)];
    let contract = Some(maker.native());
    build(ContractEventType::Contract, contract, (topics, amount))
}

/// An event that is only of use for debugging.
pub(super) fn diagnostic(maker: &mut Maker) -> ContractEvent {
    let mut event = event(maker);
    event.type_ = maker.one_of(&ContractEventType::VARIANTS);
    event
}

/// The first topic is a name that many have, later ones are addresses that some have, or anything.
fn topic(maker: &mut Maker, place: usize) -> ScVal {
    match (place, maker.rng.below(10)) {
        (_, 0 | 1) => maker.make(),
        (0, _) => symbol(maker.one_of(&NAMES)),
        (_, 2..=4) => ScVal::Address(ScAddress::Contract(maker.contract())),
        (_, 5..=8) => ScVal::Address(ScAddress::Account(maker.make())),
        _ => ScVal::String(maker.make()),
    }
}

fn amount(maker: &mut Maker) -> ScVal {
    ScVal::I128(Int128Parts {
        hi: 0,
        lo: maker.make(),
    })
}

fn symbol(text: &str) -> ScVal {
    ScVal::Symbol(name(text))
}

/// A name as a symbol.
pub(super) fn name(text: &str) -> ScSymbol {
    ScSymbol(
        text.try_into()
            .expect("names are shorter than a symbol may be"),
    )
}

fn build(
    type_: ContractEventType,
    contract_id: Option<stellar_xdr::ContractId>,
    (topics, data): (Vec<ScVal>, ScVal),
) -> ContractEvent {
    ContractEvent {
        ext: ExtensionPoint::V0,
        contract_id,
        type_,
        body: ContractEventBody::V0(ContractEventV0 {
            topics: bounded(topics),
            data,
        }),
    }
}

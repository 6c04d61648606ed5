//! The oracle's contracts on a real node: deployed, called in every way, and mined into blocks that can
//! be taken back and mined again, byte for byte.

use std::cell::Cell;

use alloy_primitives::hex;
use serde_json::{Value as Json, json};

use super::support::real_node::RealNode;
use chronolith_sim::evm::adfs::encode::{Row, Value, accumulated, calldata, numbered};

/// Who deploys and updates, and who upgrades: an upgrade has the same nonce on every fork, and so is the
/// same transaction wherever it is mined.
const UPDATER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const UPGRADER: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
/// The node makes another fee of each block that it mines again; with one for all, a block that is mined
/// again is the same block.
const BASE_FEE: &str = "0x3b9aca00";
const GAS_PRICE: &str = "0x77359400";
/// What the smallest transaction may take, and what the node lets the largest one take.
const GAS_MIN: usize = 5_000_000;
const GAS_MAX: usize = 16_000_000;
/// Enough to reach the implementation, and not enough to store anything.
const STARVED_GAS: usize = 20_000;
const GENESIS_TIME: u64 = 1_700_000_000;

const CODE: [(&str, &str); 7] = [
    ("Proxy", include_str!("../contracts/Proxy.hex")),
    ("First", include_str!("../contracts/First.hex")),
    ("Second", include_str!("../contracts/Second.hex")),
    ("Second", include_str!("../contracts/Second.hex")),
    ("Safe", include_str!("../contracts/Safe.hex")),
    ("Safe", include_str!("../contracts/Safe.hex")),
    ("MultiSend", include_str!("../contracts/MultiSend.hex")),
];

pub const UPDATED: [&str; 2] = [
    "e64378c8d8a289137204264780c7669f3860a703795c6f0574d925d473a4a2a7",
    "18c59a580901679ceb4ee20344521bd114ce1554efea9c4a9d3cabfb0431c0cc",
];
const UPGRADED: &str = "bc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b";

/// A call of the proxy.
#[derive(Clone, Debug)]
pub enum Act {
    Update(Update),
    /// An update that the implementation refuses: it leaves no event.
    Refused(Update),
    /// An update that runs out of gas, and leaves no event either.
    Starved(Update),
    /// An update that a guard refuses, and which.
    Guarded(Update, &'static str),
    /// An upgrade to an implementation.
    Upgrade(u32),
}

#[derive(Clone, Debug)]
pub struct Update {
    pub version: u32,
    pub number: u64,
    pub feeds: Vec<Value>,
    pub rows: Vec<Row>,
}

impl Update {
    /// What stands before the count of feeds.
    pub fn header(&self) -> Vec<u8> {
        match (self.version, self.number as u8) {
            (1, _) => numbered(self.number),
            // No accumulator: the second implementation takes no such update.
            (_, 0) => accumulated(0, 0),
            (_, number) => accumulated(number, number.wrapping_add(1)),
        }
    }

    pub fn calldata(&self) -> Vec<u8> {
        calldata(self.header(), &self.feeds, &self.rows)
    }
}

/// How the calls of a transaction reach the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Direct,
    /// A Safe calls.
    Safe,
    /// Anybody calls `multiSend`, which calls.
    Many,
    /// A Safe runs `multiSend` as its own; calls that fail go through another Safe, which takes no other
    /// call with it.
    SafeMany,
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub way: Way,
    pub acts: Vec<Act>,
}

pub fn sent(way: Way, acts: Vec<Act>) -> Sent {
    Sent { way, acts }
}

/// A block, as the node tells it, and what was sent in it.
#[derive(Clone, Debug)]
pub struct Mined {
    pub number: u64,
    pub hash: String,
    pub timestamp: u64,
    pub txs: Vec<MinedTx>,
}

#[derive(Clone, Debug)]
pub struct MinedTx {
    pub hash: String,
    pub input: Vec<u8>,
    pub sent: Sent,
    /// Acts that left an event, with the index of its log and where the calldata is in the input.
    pub events: Vec<(Act, u64, usize)>,
}

/// A call inside of a transaction, and the place of the proxy's calldata in what makes it.
struct Inner {
    to: String,
    bytes: Vec<u8>,
    offset: usize,
}

/// A node with the contracts.
pub struct Ground {
    pub node: RealNode,
    pub proxy: String,
    implementations: [String; 3],
    /// Hashes of their code, by the node's own account.
    code_hashes: Vec<String>,
    safes: [String; 2],
    many: String,
    nonces: [Cell<u64>; 2],
}

impl Ground {
    /// None where there is no node, and that is said.
    pub async fn new() -> Option<Self> {
        let node = RealNode::anvil().await?;
        let mut deployed = Vec::new();
        for (_, code) in CODE {
            let code = format!("0x{}", code.trim());
            let deploy = json!([{ "from": UPDATER, "data": code, "gas": "0x1e8480",
                "gasPrice": GAS_PRICE }]);
            deployed.push(node.call("eth_sendTransaction", deploy).await);
        }
        mine(&node, 1).await;
        let mut addresses = Vec::new();
        for hash in deployed {
            let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
            assert_eq!(receipt["status"], "0x1", "{receipt}");
            addresses.push(receipt["contractAddress"].as_str().unwrap().to_owned());
        }
        let [proxy, first, second, third, safe, other, many] = addresses.try_into().unwrap();
        let implementations = [first, second, third];
        let mut code_hashes = Vec::new();
        for implementation in &implementations {
            let code = json!([implementation, "latest"]);
            let code = node.call("eth_getCode", code).await;
            let hash = node.call("web3_sha3", json!([code])).await;
            code_hashes.push(hash.as_str().unwrap().to_owned());
        }
        let nonces = [Cell::new(CODE.len() as u64), Cell::new(0)];
        Some(Self {
            node,
            proxy,
            implementations,
            code_hashes,
            safes: [safe, other],
            many,
            nonces,
        })
    }

    /// The first, the second, or one with the code of the second that no settings name.
    pub fn implementation(&self, which: u32) -> &str {
        &self.implementations[which as usize - 1]
    }

    pub fn code_hash(&self, which: u32) -> &str {
        &self.code_hashes[which as usize - 1]
    }

    /// Mines a block with these transactions in this order.
    pub async fn mine(&self, all: &[Sent]) -> Mined {
        let mut hashes = Vec::new();
        for one in all {
            let (to, input, _) = self.input_of(one);
            let gas = (GAS_MIN + 300 * input.len()).min(GAS_MAX);
            let upgrades = matches!(one.acts.as_slice(), [Act::Upgrade(_)]);
            let nonce = &self.nonces[usize::from(upgrades)];
            let tx = json!([{ "from": if upgrades { UPGRADER } else { UPDATER }, "to": to,
                "data": hex::encode_prefixed(input), "gas": format!("0x{gas:x}"), "gasPrice": GAS_PRICE,
                "nonce": format!("0x{:x}", nonce.replace(nonce.get() + 1)) }]);
            hashes.push(self.node.call("eth_sendTransaction", tx).await);
        }
        let number = self.node.head().await + 1;
        mine(&self.node, number).await;
        let tag = json!([format!("0x{number:x}"), false]);
        let block = self.node.call("eth_getBlockByNumber", tag).await;
        assert_eq!(block["transactions"], json!(hashes), "other transactions");
        let mut txs = Vec::new();
        for (hash, one) in hashes.iter().zip(all) {
            txs.push(self.mined_tx(hash, one).await);
        }
        Mined {
            number,
            hash: block["hash"].as_str().unwrap().to_owned(),
            timestamp: GENESIS_TIME + 12 * number,
            txs,
        }
    }

    /// What a transaction did, by its receipt.
    async fn mined_tx(&self, hash: &Json, one: &Sent) -> MinedTx {
        let receipt = self.node.call("eth_getTransactionReceipt", json!([hash]));
        let receipt = receipt.await;
        let fails = one.way == Way::Direct && matches!(one.acts[0], Act::Refused(_));
        assert_eq!(
            receipt["status"],
            if fails { "0x0" } else { "0x1" },
            "{one:?}"
        );
        let (_, input, offsets) = self.input_of(one);
        let logs = receipt["logs"].as_array().unwrap().iter();
        let mut logs = logs.filter(|log| log["address"] == self.proxy.as_str());
        let mut events = Vec::new();
        for (act, offset) in one.acts.iter().zip(offsets) {
            let topic = match act {
                Act::Update(update) | Act::Guarded(update, _) => {
                    UPDATED[update.version as usize - 1]
                }
                Act::Upgrade(_) => UPGRADED,
                Act::Refused(_) | Act::Starved(_) => continue,
            };
            let log = logs.next().expect("an event is missing");
            assert_eq!(log["topics"][0], format!("0x{topic}"), "{act:?}");
            events.push((act.clone(), number(&log["logIndex"]), offset));
        }
        assert!(logs.next().is_none(), "an event too many: {one:?}");
        MinedTx {
            hash: hash.as_str().unwrap().to_owned(),
            input,
            sent: one.clone(),
            events,
        }
    }

    /// Takes the newest blocks back. Transactions that are sent from then on have the numbers that they
    /// would have had before these.
    pub async fn take_back(&self, blocks: &[Mined]) {
        let depth = json!([blocks.len()]);
        self.node.call("anvil_rollback", depth).await;
        for (sender, nonce) in [UPDATER, UPGRADER].iter().zip(&self.nonces) {
            let count = json!([sender, "latest"]);
            let count = self.node.call("eth_getTransactionCount", count).await;
            nonce.set(number(&count));
        }
    }

    /// Who is called with what, and where in it the calldata of each act is.
    fn input_of(&self, one: &Sent) -> (String, Vec<u8>, Vec<usize>) {
        let mut calls: Vec<Inner> = one.acts.iter().map(|act| self.call_of(act)).collect();
        if one.way == Way::SafeMany {
            for (call, act) in calls.iter_mut().zip(&one.acts) {
                match act {
                    Act::Refused(_) => *call = through_safe(&self.safes[1], (call, 0), None),
                    Act::Starved(_) => {
                        *call = through_safe(&self.safes[1], (call, 0), Some(STARVED_GAS));
                    }
                    _ => {}
                }
            }
        }
        match one.way {
            Way::Direct => {
                let call = calls.remove(0);
                (call.to, call.bytes, vec![call.offset])
            }
            Way::Safe => {
                let call = through_safe(&self.safes[0], (&calls[0], 0), None);
                (call.to, call.bytes, vec![call.offset])
            }
            Way::Many => {
                let (call, offsets) = self.packed(&calls);
                (call.to, call.bytes, offsets)
            }
            Way::SafeMany => {
                let (packed, offsets) = self.packed(&calls);
                let call = through_safe(&self.safes[0], (&packed, 1), None);
                let offsets = offsets.iter().map(|offset| offset + call.offset);
                (call.to, call.bytes, offsets.collect())
            }
        }
    }

    fn call_of(&self, act: &Act) -> Inner {
        let bytes = match act {
            Act::Update(update)
            | Act::Refused(update)
            | Act::Starved(update)
            | Act::Guarded(update, _) => update.calldata(),
            Act::Upgrade(which) => {
                let to = hex::decode(self.implementation(*which)).unwrap();
                [&[0, 0, 0, 1], to.as_slice()].concat()
            }
        };
        Inner {
            to: self.proxy.clone(),
            bytes,
            offset: 0,
        }
    }

    /// `multiSend(bytes)`
    fn packed(&self, calls: &[Inner]) -> (Inner, Vec<usize>) {
        let (mut packed, mut offsets) = (Vec::new(), Vec::new());
        for call in calls {
            packed.push(0);
            packed.extend(hex::decode(&call.to).unwrap());
            packed.extend(word(0));
            packed.extend(word(call.bytes.len()));
            offsets.push(4 + 64 + packed.len() + call.offset);
            packed.extend(&call.bytes);
        }
        let mut bytes = hex::decode("8d80ff0a").unwrap();
        bytes.extend(word(32));
        bytes.extend(padded(&packed));
        let inner = Inner {
            to: self.many.clone(),
            bytes,
            offset: 0,
        };
        (inner, offsets)
    }

    /// A slot of the proxy's storage behind a block.
    pub async fn storage(&self, slot: &str, block: u64) -> String {
        let requested = json!([self.proxy, slot, format!("0x{block:x}")]);
        let found = self.node.call("eth_getStorageAt", requested).await;
        found.as_str().unwrap().to_owned()
    }
}

/// `execTransaction` of a Safe: a call, or with operation 1 a delegate call; with all gas or so much.
fn through_safe(safe: &str, (call, operation): (&Inner, usize), gas: Option<usize>) -> Inner {
    let mut bytes = hex::decode("6a761202").unwrap();
    bytes.extend([0; 12]);
    bytes.extend(hex::decode(&call.to).unwrap());
    let (most, price) = gas.map_or((0, 0), |gas| (gas, 1));
    for value in [0, 320, operation, most, 0, price, 0, 0] {
        bytes.extend(word(value));
    }
    let data = padded(&call.bytes);
    bytes.extend(word(320 + data.len()));
    let offset = bytes.len() + 32 + call.offset;
    bytes.extend(data);
    bytes.extend(padded(b"nobody's signature"));
    Inner {
        to: safe.to_owned(),
        bytes,
        offset,
    }
}

async fn mine(node: &RealNode, number: u64) {
    node.call("anvil_setNextBlockBaseFeePerGas", json!([BASE_FEE]))
        .await;
    let at = json!([{ "timestamp": GENESIS_TIME + 12 * number }]);
    node.call("evm_mine", at).await;
}

fn number(value: &Json) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn word(value: usize) -> [u8; 32] {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&(value as u64).to_be_bytes());
    word
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut all = word(bytes.len()).to_vec();
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(32), 0);
    all
}

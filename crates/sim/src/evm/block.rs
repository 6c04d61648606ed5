//! One EVM block with its receipts: what a header's bloom and receipts root are computed from.

use std::ops::Range;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bloom};
use alloy_rlp::Encodable as _;
use alloy_trie::root::ordered_trie_root_with_encoder;
use chronolith_model::{Block, BlockMeta, BlockRef, Hash32, Log, Payload, Tx};

use super::bloom::bloom_of;

/// How a transaction and its receipt are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TxType {
    /// Without a type byte.
    #[default]
    Legacy,
    /// EIP-1559.
    DynamicFee,
}

impl TxType {
    /// The number of the type.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Legacy => 0,
            Self::DynamicFee => 2,
        }
    }
}

/// A transaction and its receipt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EvmTx {
    /// Position in the block.
    pub index: u32,
    /// Keccak of its bytes.
    pub hash: Hash32,
    pub tx_type: TxType,
    pub from: Address,
    /// The contract that it calls; none where it creates one.
    pub to: Option<Address>,
    /// Whether it succeeded.
    pub succeeded: bool,
    pub gas_used: u64,
    /// Gas that it and those before it used.
    pub cumulative_gas_used: u64,
    /// Price of a unit of gas.
    pub gas_price: u64,
    /// Gas that it may use at most.
    pub gas_limit: u64,
    /// How many its sender sent before, which here keeps transactions apart.
    pub nonce: u64,
    /// Which logs of the block are its own.
    pub logs: Range<usize>,
    /// What it was sent with.
    pub input: Vec<u8>,
}

impl EvmTx {
    /// Its bytes. Nothing is signed: the signature is zero.
    #[must_use]
    pub fn encoded(&self, chain_id: u64) -> Vec<u8> {
        let mut fields = Vec::with_capacity(self.input.len() + 120);
        let put_call = |fields: &mut Vec<u8>| {
            self.gas_limit.encode(fields);
            match &self.to {
                Some(to) => to.encode(fields),
                None => fields.push(alloy_rlp::EMPTY_STRING_CODE),
            }
            0_u64.encode(fields);
            self.input.as_slice().encode(fields);
        };
        let mut out = Vec::with_capacity(self.input.len() + 130);
        match self.tx_type {
            TxType::Legacy => {
                self.nonce.encode(&mut fields);
                self.gas_price.encode(&mut fields);
                put_call(&mut fields);
                LEGACY_V.encode(&mut fields);
            }
            TxType::DynamicFee => {
                out.push(self.tx_type.number());
                chain_id.encode(&mut fields);
                self.nonce.encode(&mut fields);
                self.gas_price.encode(&mut fields);
                self.gas_price.encode(&mut fields);
                put_call(&mut fields);
                fields.push(alloy_rlp::EMPTY_LIST_CODE);
                0_u64.encode(&mut fields);
            }
        }
        fields.extend_from_slice(&[alloy_rlp::EMPTY_STRING_CODE; 2]);
        put_list(&fields, &mut out);
        out
    }
}

/// The parity of an old signature that is for no chain.
pub(super) const LEGACY_V: u64 = 27;

/// A block with everything that its header commits to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EvmBlock {
    pub header: Header,
    /// Keccak of the header's RLP.
    pub hash: Hash32,
    /// Transactions with their receipts, in order.
    pub txs: Vec<EvmTx>,
    /// Logs of all transactions, in order.
    pub logs: Vec<Log>,
}

impl EvmBlock {
    /// Number and hash.
    #[must_use]
    pub fn block_ref(&self) -> BlockRef {
        BlockRef {
            number: self.header.number,
            hash: self.hash,
        }
    }

    /// The logs of one of its transactions.
    #[must_use]
    pub fn logs_of(&self, tx: &EvmTx) -> &[Log] {
        self.logs.get(tx.logs.clone()).unwrap_or_default()
    }

    /// The receipt of the block itself, where it has logs of no transaction: named by the block's hash, as
    /// on Celo's old chain.
    #[must_use]
    pub fn own_receipt(&self) -> Option<EvmTx> {
        own_receipt(&self.txs, &self.logs, self.hash)
    }

    /// The block as it is ingested: all transactions, all logs, no payload.
    #[must_use]
    pub fn to_model(&self) -> Block {
        let tx = |tx: &EvmTx| Tx {
            index: tx.index,
            hash: tx.hash,
        };
        let own = self.own_receipt();
        Block {
            clock: BlockMeta {
                number: self.header.number,
                hash: self.hash,
                parent_hash: Hash32(self.header.parent_hash.0),
                timestamp: self.header.timestamp,
            },
            txs: self.txs.iter().chain(&own).map(tx).collect(),
            logs: self.logs.clone(),
            payload: Payload::default(),
        }
    }

    /// The header as it is hashed.
    #[must_use]
    pub fn encoded_header(&self) -> bytes::Bytes {
        alloy_rlp::encode(&self.header).into()
    }
}

/// The transactions and logs of a block, before it has a header.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) txs: Vec<EvmTx>,
    pub(super) logs: Vec<Log>,
}

impl Content {
    /// Logs of no transaction: those after the logs of the last one.
    pub(super) fn own_logs(&self) -> usize {
        let own = own_receipt(&self.txs, &self.logs, Hash32::ZERO);
        own.map_or(0, |own| own.logs.len())
    }
}

/// The receipt of a block for its logs after those of the last transaction; none where there are none. It
/// used no gas, and its transaction hash is that of the block.
fn own_receipt(txs: &[EvmTx], logs: &[Log], hash: Hash32) -> Option<EvmTx> {
    let start = txs.last().map_or(0, |tx| tx.logs.end);
    (start < logs.len()).then(|| EvmTx {
        index: txs.len() as u32,
        hash,
        to: Some(Address::ZERO),
        succeeded: true,
        logs: start..logs.len(),
        ..EvmTx::default()
    })
}

/// What a header says about its content. All that a node must remember, because content can be
/// made again at any time.
#[derive(Clone, Debug)]
pub(super) struct Seal {
    pub(super) receipts_root: B256,
    pub(super) transactions_root: B256,
    /// None where no bit is set, as in most blocks of a sparse chain.
    pub(super) bloom: Option<Box<Bloom>>,
    pub(super) gas_used: u64,
    pub(super) tx_count: u32,
}

impl Seal {
    pub(super) fn of(content: &Content, chain_id: u64) -> Self {
        let mut bloom = Bloom::ZERO;
        let mut encoded = Vec::with_capacity(content.txs.len());
        // The block has no hash yet, and none is in a receipt as it is hashed.
        let own = own_receipt(&content.txs, &content.logs, Hash32::ZERO);
        for tx in content.txs.iter().chain(&own) {
            let logs = content.logs.get(tx.logs.clone()).unwrap_or_default();
            let tx_bloom = bloom_of(logs);
            bloom |= tx_bloom;
            encoded.push(encode_receipt(tx, logs, &tx_bloom));
        }
        let txs = content.txs.iter().map(|tx| tx.encoded(chain_id));
        let txs: Vec<Vec<u8>> = txs.collect();
        let root = |items: &[Vec<u8>]| {
            ordered_trie_root_with_encoder(items, |item, out| out.extend_from_slice(item))
        };
        Self {
            transactions_root: root(&txs),
            receipts_root: root(&encoded),
            bloom: (!bloom.is_zero()).then(|| Box::new(bloom)),
            gas_used: content.txs.last().map_or(0, |tx| tx.cumulative_gas_used),
            tx_count: content.txs.len() as u32,
        }
    }
}

/// A receipt as EIP-2718 puts it into the trie.
fn encode_receipt(tx: &EvmTx, logs: &[Log], bloom: &Bloom) -> Vec<u8> {
    let mut encoded_logs = Vec::new();
    logs.iter()
        .for_each(|log| encode_log(log, &mut encoded_logs));
    let mut fields = Vec::with_capacity(encoded_logs.len() + 300);
    tx.succeeded.encode(&mut fields);
    tx.cumulative_gas_used.encode(&mut fields);
    bloom.as_slice().encode(&mut fields);
    put_list(&encoded_logs, &mut fields);
    let mut receipt = Vec::with_capacity(fields.len() + 8);
    if tx.tx_type != TxType::Legacy {
        receipt.push(tx.tx_type.number());
    }
    put_list(&fields, &mut receipt);
    receipt
}

fn encode_log(log: &Log, out: &mut Vec<u8>) {
    let mut topics = Vec::with_capacity(4 * 33);
    log.topics().for_each(|topic| topic.encode(&mut topics));
    let mut fields = Vec::with_capacity(log.byte_len() + 16);
    log.emitter().encode(&mut fields);
    put_list(&topics, &mut fields);
    log.data().encode(&mut fields);
    put_list(&fields, out);
}

fn put_list(items: &[u8], out: &mut Vec<u8>) {
    let header = alloy_rlp::Header {
        list: true,
        payload_length: items.len(),
    };
    header.encode(out);
    out.extend_from_slice(items);
}

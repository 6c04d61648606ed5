//! Real ledgers: proven, archived, and every answer decoded and compared with what the ledger says.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chronolith_serve::http::Limits;
use chronolith_stellar::{Network, walk_batch};
use serde_json::{Value, json};
use stellar_support::{Rpc, block_of, fixture, framed};
use stellar_xdr::{
    ContractEvent, ContractEventBody, LedgerCloseMeta, LedgerHeaderHistoryEntry,
    Limits as XdrLimits, ReadXdr, ScVal, TransactionEnvelope, TransactionEventStage,
    TransactionMeta, TransactionResult, TransactionResultPair, TransactionResultResult,
};

fn decoded<T: ReadXdr>(value: &Value) -> T {
    let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
    T::from_xdr(bytes, XdrLimits::none()).unwrap()
}

/// What `stellar-xdr` reads of a ledger.
struct Read {
    raw: Bytes,
    header: LedgerHeaderHistoryEntry,
    txs: Vec<(TransactionResultPair, TransactionMeta)>,
}

impl Read {
    fn new(raw: &Bytes) -> Self {
        let (header, txs) = match LedgerCloseMeta::from_xdr(raw, XdrLimits::none()).unwrap() {
            LedgerCloseMeta::V0(meta) => {
                let txs = meta.tx_processing.into_vec().into_iter();
                let txs = txs.map(|tx| (tx.result, tx.tx_apply_processing));
                (meta.ledger_header, txs.collect())
            }
            LedgerCloseMeta::V1(meta) => {
                let txs = meta.tx_processing.into_vec().into_iter();
                let txs = txs.map(|tx| (tx.result, tx.tx_apply_processing));
                (meta.ledger_header, txs.collect())
            }
            LedgerCloseMeta::V2(meta) => {
                let txs = meta.tx_processing.into_vec().into_iter();
                let txs = txs.map(|tx| (tx.result, tx.tx_apply_processing));
                (meta.ledger_header, txs.collect())
            }
        };
        let raw = raw.clone();
        Self { raw, header, txs }
    }

    /// Its events by what their ids are made of: transaction, operation, number.
    fn events(&self) -> Vec<((u32, u32, u32), ContractEvent)> {
        let (mut before, mut after) = (0, 0);
        let mut events = Vec::new();
        for ((_, meta), tx) in self.txs.iter().zip(1..) {
            let mut after_tx = 0;
            match meta {
                TransactionMeta::V3(meta) => {
                    let own = meta.soroban_meta.iter().flat_map(|meta| meta.events.iter());
                    events.extend(own.zip(0..).map(|(event, at)| ((tx, 0, at), event.clone())));
                }
                TransactionMeta::V4(meta) => {
                    for (operation, number) in meta.operations.iter().zip(0..) {
                        let own = operation.events.iter().zip(0..);
                        events.extend(own.map(|(event, at)| ((tx, number, at), event.clone())));
                    }
                    for own in meta.events.iter() {
                        let (tx, operation, count) = match own.stage {
                            TransactionEventStage::BeforeAllTxs => (0, 0, &mut before),
                            TransactionEventStage::AfterTx => (tx, 0xfff, &mut after_tx),
                            TransactionEventStage::AfterAllTxs => (0xf_ffff, 0, &mut after),
                        };
                        events.push(((tx, operation, *count), own.event.clone()));
                        *count += 1;
                    }
                }
                _ => {}
            }
        }
        events.sort_by_key(|(place, _)| *place);
        events
    }
}

async fn check(network: &Network, raws: &[Bytes], expected: (usize, usize)) {
    let blocks: Vec<_> = raws.iter().map(|raw| block_of(raw, network)).collect();
    let read: Vec<Read> = raws.iter().map(Read::new).collect();
    let first = read[0].header.header.ledger_seq;
    let rpc = Rpc::new(network, blocks, 1, Limits::default()).await;
    let page = rpc
        .result("getLedgers", json!({ "startLedger": first }))
        .await;
    let ledgers = page["ledgers"].as_array().unwrap();
    assert_eq!(ledgers.len(), read.len());
    for (ledger, read) in ledgers.iter().zip(&read) {
        assert_eq!(
            STANDARD
                .decode(ledger["metadataXdr"].as_str().unwrap())
                .unwrap(),
            read.raw
        );
        assert_eq!(
            decoded::<LedgerHeaderHistoryEntry>(&ledger["headerXdr"]),
            read.header
        );
    }
    let mut found = (0, 0);
    for read in &read {
        for (position, (result, meta)) in read.txs.iter().enumerate() {
            check_tx(&rpc, network, (result, meta), position).await;
            found.0 += 1;
        }
        let sequence = read.header.header.ledger_seq;
        let requested = json!({
            "startLedger": sequence, "endLedger": sequence + 1, "pagination": { "limit": 10_000 },
        });
        let page = rpc.result("getEvents", requested).await;
        let (events, reported) = (read.events(), page["events"].as_array().unwrap());
        assert_eq!(reported.len(), events.len());
        for (reported, ((tx, operation, at), event)) in reported.iter().zip(&events) {
            let ContractEventBody::V0(body) = &event.body;
            let place = u64::from(sequence) << 32 | u64::from(*tx) << 12 | u64::from(*operation);
            assert_eq!(reported["id"], format!("{place:019}-{at:010}"));
            assert_eq!(decoded::<ScVal>(&reported["value"]), body.data);
            let topics: Vec<ScVal> = reported["topic"]
                .as_array()
                .unwrap()
                .iter()
                .map(decoded)
                .collect();
            assert_eq!(topics, body.topics.to_vec());
            found.1 += 1;
        }
    }
    assert_eq!(found, expected);
}

async fn check_tx(
    rpc: &Rpc,
    network: &Network,
    (result, meta): (&TransactionResultPair, &TransactionMeta),
    position: usize,
) {
    let hash = const_hex::encode(result.transaction_hash.0);
    let reported = rpc.result("getTransaction", json!({ "hash": hash })).await;
    assert_eq!(reported["txHash"], hash);
    assert_eq!(reported["applicationOrder"], position + 1);
    assert_eq!(
        decoded::<TransactionResult>(&reported["resultXdr"]),
        result.result
    );
    assert_eq!(
        decoded::<TransactionMeta>(&reported["resultMetaXdr"]),
        *meta
    );
    let envelope: TransactionEnvelope = decoded(&reported["envelopeXdr"]);
    assert_eq!(
        envelope.hash(*network.id()).unwrap(),
        result.transaction_hash.0
    );
    let inner = match &result.result.result {
        TransactionResultResult::TxFeeBumpInnerSuccess(inner)
        | TransactionResultResult::TxFeeBumpInnerFailed(inner) => Some(inner),
        _ => None,
    };
    assert_eq!(reported["feeBump"], inner.is_some());
    if let Some(inner) = inner {
        let inner = const_hex::encode(inner.transaction_hash.0);
        let again = rpc.result("getTransaction", json!({ "hash": inner })).await;
        let mut expected = reported.clone();
        expected["txHash"] = json!(inner);
        assert_eq!(again, expected);
    }
}

#[tokio::test]
async fn answers_about_real_ledgers_say_what_the_ledgers_say() {
    let testnet = ["FFFFFC1A--997", "FFFFFC19--998", "FFFFFC18--999"];
    let lake: Vec<Bytes> = testnet
        .iter()
        .filter_map(|name| fixture(&format!("lake/{name}.xdr.zst")))
        .flat_map(|raw| walk_batch(&raw).unwrap().2)
        .collect();
    if !lake.is_empty() {
        check(&Network::new(Network::TESTNET), &lake, (17, 0)).await;
    }
    if let Some(raw) = fixture("FCD285FF--53312000.xdr.zst") {
        let ledgers = walk_batch(&raw).unwrap().2;
        check(&Network::new(Network::PUBNET), &ledgers, (163, 0)).await;
    }
    if let Some(raw) = fixture("load-test-ledgers-v26.xdr.zst") {
        let ledgers = framed(&raw, 3);
        check(&Network::new("load test network"), &ledgers, (774, 3_720)).await;
    }
}

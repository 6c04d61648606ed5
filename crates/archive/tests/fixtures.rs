//! Real data goes through the archive unchanged: EVM logs of Base and Ethereum, and contract
//! events of Stellar ledgers. Format version 1 carries both families.
//!
//! The fixtures are not part of the project. Where they are absent, a test says so and passes,
//! unless `CHRONOLITH_REQUIRE_FIXTURES=1`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fixture;
mod support;

use chronolith_archive::Settings;
use chronolith_model::{
    Block, BlockMeta, ChainId, ChainProfile, Dataset, DatasetSet, Hash32, Payload, TOPICS_MAX,
    TopicArity, Tx,
};
use fixture::evm::{evm_rows, one_block_a_transaction, real_blocks};
use fixture::stellar::{lake_ledgers, stellar_log, stream_ledgers};
use fixture::{archived, every_log_is_found_by_each_term, small};
use stellar_xdr::{
    ContractEvent, ContractEventBody, ContractEventType, ContractEventV0, ContractId,
    ExtensionPoint, Hash, Int128Parts, Limited, Limits, ReadXdr, ScVal,
};

#[tokio::test]
async fn real_evm_logs_go_through_unchanged() {
    for (name, logs) in [
        ("evm/base-logs.ndjson", 1_546),
        ("evm/ethereum-logs.ndjson", 719),
    ] {
        let Some(rows) = evm_rows(name) else { return };
        let mut settings = small(Settings::evm(ChainId(1)));
        // Not all transactions of the blocks are in the files.
        settings.datasets = DatasetSet::of(&[Dataset::Logs]);
        for blocks in [real_blocks(&rows), one_block_a_transaction(&rows)] {
            assert_eq!(
                blocks.iter().map(|block| block.logs.len()).sum::<usize>(),
                logs
            );
            let archive = archived(&settings, &blocks).await;
            every_log_is_found_by_each_term(&archive, &blocks, TopicArity::AtLeast).await;
            for tx in blocks.iter().flat_map(|block| &block.txs).step_by(9) {
                let place = archive.transaction_by_hash(&tx.hash).await.unwrap();
                assert_eq!(place.map(|place| place.index), Some(tx.index));
            }
        }
    }
}

#[tokio::test]
async fn real_stellar_ledgers_go_through_unchanged() {
    let mut settings = small(Settings::evm(ChainId(2)));
    settings.profile = ChainProfile::STELLAR;
    settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes, Dataset::Payload]);
    let lake = [997, 998, 999].map(|n| format!("stellar/lake/FFFF{:04X}--{n}.xdr.zst", !n as u16));
    let lake: Option<Vec<Vec<Block>>> = lake.iter().map(|name| lake_ledgers(name)).collect();
    // Ledger 53,312,000 has transactions and no contract events; the load test's have both.
    let runs = [
        (lake_ledgers("stellar/FCD285FF--53312000.xdr.zst"), (163, 0)),
        (lake.map(|ledgers| ledgers.concat()), (17, 0)),
        (
            stream_ledgers("stellar/load-test-ledgers-v26.xdr.zst", 3),
            (774, 3_720),
        ),
    ];
    for (blocks, expected) in runs {
        let Some(blocks) = blocks else { continue };
        let txs = blocks.iter().map(|block| block.txs.len()).sum::<usize>();
        let logs = blocks.iter().map(|block| block.logs.len()).sum::<usize>();
        assert_eq!(
            (txs, logs),
            expected,
            "from ledger {}",
            blocks[0].clock.number
        );
        let archive = archived(&settings, &blocks).await;
        every_log_is_found_by_each_term(&archive, &blocks, TopicArity::Exact).await;
        let mut raw_bytes = 0;
        for block in &blocks {
            let number = block.clock.number;
            let payload = archive.payload(number, Dataset::Payload).await.unwrap();
            assert!(
                payload == block.payload,
                "payload of {number} came back changed"
            );
            raw_bytes += payload.raw.map_or(0, |raw| raw.len());
            assert_eq!(
                archive.block_by_hash(&block.clock.hash).await.unwrap(),
                Some(block.clock)
            );
            for tx in block.txs.iter().step_by(17) {
                let place = archive
                    .transaction_by_hash(&tx.hash)
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!((place.block, place.index), (block.clock, tx.index));
            }
        }
        println!(
            "{} ledgers: {txs} transactions, {logs} events, {raw_bytes} bytes",
            blocks.len()
        );
    }
}

/// Events with up to six topics, none of them in the fixtures: filters see the first four, and the
/// event can be put together again from its log.
#[tokio::test]
async fn events_with_many_topics_lose_nothing() {
    let symbol = |at: usize| ScVal::Symbol(format!("topic{at}").try_into().unwrap());
    let event = |topics: usize| ContractEvent {
        ext: ExtensionPoint::V0,
        contract_id: topics
            .is_multiple_of(2)
            .then_some(ContractId(Hash([topics as u8; 32]))),
        type_: ContractEventType::Contract,
        body: ContractEventBody::V0(ContractEventV0 {
            topics: (0..topics)
                .map(symbol)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
            data: ScVal::I128(Int128Parts {
                hi: -1,
                lo: topics as u64,
            }),
        }),
    };
    let events: Vec<ContractEvent> = (0..=6).map(event).collect();
    let logs = events
        .iter()
        .zip(0..)
        .map(|(event, at)| stellar_log(event, (0, at), at));
    let clock = BlockMeta {
        number: 5,
        hash: Hash32([1; 32]),
        parent_hash: Hash32([2; 32]),
        timestamp: 9,
    };
    let block = Block {
        clock,
        txs: vec![Tx {
            index: 0,
            hash: Hash32([3; 32]),
        }],
        logs: logs.collect(),
        payload: Payload::default(),
    };
    let mut settings = small(Settings::evm(ChainId(2)));
    settings.profile = ChainProfile::STELLAR;
    let archive = archived(&settings, std::slice::from_ref(&block)).await;
    every_log_is_found_by_each_term(&archive, &[block], TopicArity::Exact).await;
    for (log, event) in archive.block(5).await.unwrap().logs.iter().zip(&events) {
        let decode = |bytes: &[u8]| ScVal::from_xdr(bytes, Limits::none()).unwrap();
        let mut topics: Vec<ScVal> = log.topics().map(decode).collect();
        let mut rest = Limited::new(&log.suffix()[4..], Limits::none());
        while !rest.inner.is_empty() {
            topics.push(ScVal::read_xdr(&mut rest).unwrap());
        }
        let ContractEventBody::V0(body) = &event.body;
        assert_eq!(
            (&topics[..], decode(log.data())),
            (&body.topics[..], body.data.clone())
        );
        assert_eq!(log.topic_count(), topics.len().min(TOPICS_MAX));
        assert_eq!(log.emitter().is_empty(), event.contract_id.is_none());
    }
}

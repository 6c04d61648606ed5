//! Every fault of the simulated node is really injected, and a raw client can see it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod wire;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, FaultSizes, Faults, RpcFault, RpcOptions, RpcServer};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message};
use wire::{call, hex, number, post, request, result};

const BLOCKS: u64 = 50;
const SIZES: FaultSizes = FaultSizes {
    huge_body_bytes: 3_000_000,
    slow_answer: Duration::from_millis(50),
    regression_blocks: 3,
    retry_after_seconds: 7,
};

/// Every so many-th block has logs of its own.
const OWN_LOGS: u64 = 7;

/// A node, its server, its faults, and what is true.
struct Bench {
    node: EvmNode,
    server: RpcServer,
    faults: Faults,
    url: String,
    /// A block with at least two logs, and none of its own.
    busy: u64,
}

impl Bench {
    async fn new() -> Self {
        let spec = EvmSpec {
            own_logs_every: OWN_LOGS,
            ..EvmSpec::tiny(11)
        };
        let node = EvmNode::new(spec, BLOCKS);
        let faults = Faults::new(1);
        faults.set_sizes(SIZES);
        let options = RpcOptions {
            faults: faults.clone(),
            ..RpcOptions::default()
        };
        let server = RpcServer::start(node.clone(), options).await.unwrap();
        let has_logs =
            |at: &u64| !at.is_multiple_of(OWN_LOGS) && node.block(*at).unwrap().logs.len() > 1;
        let busy = (1..=BLOCKS).find(has_logs);
        Self {
            url: server.url(),
            busy: busy.unwrap(),
            node,
            server,
            faults,
        }
    }

    /// The result without any fault, then with this one every time.
    async fn both(&self, fault: RpcFault, method: &str, params: Value) -> (Value, Value) {
        self.faults.clear();
        let truth = result(&self.url, method, params.clone()).await;
        self.faults.always(fault);
        let reported = result(&self.url, method, params).await;
        (truth, reported)
    }

    async fn both_logs(&self, fault: RpcFault) -> (Vec<Value>, Vec<Value>) {
        let at = hex(self.busy);
        let params = json!([{ "fromBlock": at, "toBlock": at }]);
        let (truth, reported) = self.both(fault, "eth_getLogs", params).await;
        let list = |logs: Value| logs.as_array().unwrap().clone();
        (list(truth), list(reported))
    }

    async fn both_blocks(&self, fault: RpcFault) -> (Value, Value) {
        let params = json!([hex(self.busy), false]);
        self.both(fault, "eth_getBlockByNumber", params).await
    }

    /// All logs of the receipts of the busy block, without and with the fault.
    async fn both_receipts(&self, fault: RpcFault) -> (Vec<Value>, Vec<Value>) {
        let params = json!([hex(self.busy)]);
        let (truth, reported) = self.both(fault, "eth_getBlockReceipts", params).await;
        let logs = |receipts: Value| {
            let receipts = receipts.as_array().unwrap().clone();
            let logs = receipts
                .iter()
                .flat_map(|one| one["logs"].as_array().unwrap().clone());
            logs.collect()
        };
        (logs(truth), logs(reported))
    }

    async fn ask(&self) -> wire::Reply {
        post(&self.url, &request("eth_blockNumber", &json!([]))).await
    }

    /// Panics unless the fault can be seen. No wildcard: a new fault needs a row here.
    async fn see(&self, fault: RpcFault) {
        self.faults.clear();
        self.faults.always(fault);
        match fault {
            RpcFault::Http500
            | RpcFault::Http429RetryAfter
            | RpcFault::Http429Bare
            | RpcFault::TruncatedBody
            | RpcFault::HugeBody
            | RpcFault::SlowAnswer => self.see_http(fault).await,
            RpcFault::WsDrop | RpcFault::DuplicateHeads => self.see_socket(fault).await,
            RpcFault::EmptyLogs
            | RpcFault::LogsBehind
            | RpcFault::WrongBlockHashInLogs
            | RpcFault::MissingLog
            | RpcFault::MissingBlockTimestamp
            | RpcFault::RangeError => self.see_logs(fault).await,
            RpcFault::RpcError
            | RpcFault::NullBlock
            | RpcFault::NullReceipts
            | RpcFault::HeadRegression
            | RpcFault::HashChange
            | RpcFault::BatchOutOfOrder
            | RpcFault::WrongChainId
            | RpcFault::Syncing
            | RpcFault::BloomZero => self.see_call(fault).await,
            RpcFault::NoReceipts
            | RpcFault::ForeignTxHashes
            | RpcFault::ChangedBodies
            | RpcFault::ChangedData
            | RpcFault::MovedLog => self.see_lie(fault).await,
            RpcFault::NoBlockReceipt => {
                let params = json!([hex(OWN_LOGS)]);
                let (truth, reported) = self.both(fault, "eth_getBlockReceipts", params).await;
                let (truth, reported) = (truth.as_array().unwrap(), reported.as_array().unwrap());
                assert_eq!(truth.len(), reported.len() + 1);
                let own = truth.last().unwrap();
                assert_eq!(own["transactionHash"], own["blockHash"]);
            }
        }
    }

    /// Lies that fit themselves: only a root tells.
    async fn see_lie(&self, fault: RpcFault) {
        match fault {
            RpcFault::NoReceipts => {
                let answer = call(&self.url, "eth_getBlockReceipts", json!([hex(self.busy)])).await;
                assert_eq!(answer["error"]["code"], -32601);
            }
            RpcFault::ForeignTxHashes => {
                let (truth, reported) = self.both_blocks(fault).await;
                let (truth, reported) = (&truth["transactions"], &reported["transactions"]);
                assert_eq!(
                    truth.as_array().unwrap().len(),
                    reported.as_array().unwrap().len()
                );
                assert_ne!(truth[0], reported[0]);
                let (_, logs) = self.both_logs(fault).await;
                let named = |log: &Value| {
                    reported
                        .as_array()
                        .unwrap()
                        .contains(&log["transactionHash"])
                };
                assert!(logs.iter().all(named), "logs name the same hashes");
            }
            RpcFault::ChangedBodies => {
                let params = json!([hex(self.busy), true]);
                let (truth, reported) = self.both(fault, "eth_getBlockByNumber", params).await;
                let (truth, reported) = (&truth["transactions"][0], &reported["transactions"][0]);
                assert_eq!(truth["hash"], reported["hash"]);
                assert_ne!(truth, reported);
            }
            _ => {
                let field = match fault {
                    RpcFault::ChangedData => "data",
                    _ => "address",
                };
                let (truth, reported) = self.both_receipts(fault).await;
                assert_eq!(truth.len(), reported.len());
                assert_ne!(
                    truth.last().unwrap()[field],
                    reported.last().unwrap()[field]
                );
            }
        }
    }

    async fn see_http(&self, fault: RpcFault) {
        let began = Instant::now();
        let reply = self.ask().await;
        match fault {
            RpcFault::Http500 => assert_eq!(reply.status, 500),
            RpcFault::Http429RetryAfter => {
                assert_eq!(
                    (reply.status, reply.header("retry-after")),
                    (429, Some("7"))
                );
            }
            RpcFault::Http429Bare => {
                assert_eq!((reply.status, reply.header("retry-after")), (429, None));
            }
            RpcFault::TruncatedBody => {
                assert!(reply.status == 200 && !reply.is_whole && !reply.body.is_empty());
            }
            RpcFault::HugeBody => {
                assert_eq!(reply.body.len() as u64, SIZES.huge_body_bytes);
                assert_eq!(reply.json()["result"], hex(self.node.head().number));
            }
            _ => assert!(began.elapsed() >= SIZES.slow_answer),
        }
    }

    async fn see_call(&self, fault: RpcFault) {
        match fault {
            RpcFault::RpcError => {
                let answer = call(&self.url, "eth_chainId", json!([])).await;
                assert_eq!(answer["error"]["code"], -32000);
            }
            RpcFault::NullBlock => {
                let (truth, reported) = self.both_blocks(fault).await;
                assert!(truth.is_object() && reported.is_null());
            }
            RpcFault::NullReceipts => {
                let params = json!([hex(self.busy)]);
                let (truth, reported) = self.both(fault, "eth_getBlockReceipts", params).await;
                assert!(truth.is_array() && reported.is_null());
                let params = json!([truth[0]["transactionHash"]]);
                let (truth, reported) = self.both(fault, "eth_getTransactionReceipt", params).await;
                assert!(truth.is_object() && reported.is_null());
            }
            RpcFault::HeadRegression => {
                let (truth, reported) = self.both(fault, "eth_blockNumber", json!([])).await;
                assert_eq!(number(&reported) + SIZES.regression_blocks, number(&truth));
                let params = json!(["latest", false]);
                let (_, reported) = self.both(fault, "eth_getBlockByNumber", params).await;
                assert_eq!(
                    number(&reported["number"]) + SIZES.regression_blocks,
                    number(&truth)
                );
            }
            RpcFault::HashChange => {
                let (truth, reported) = self.both_blocks(fault).await;
                assert_eq!(truth["parentHash"], reported["parentHash"]);
                assert_ne!(truth["hash"], reported["hash"]);
            }
            RpcFault::BatchOutOfOrder => {
                let one = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_chainId" });
                let batch = json!([one(1), one(2), one(3)]).to_string();
                let answer = post(&self.url, &batch).await.json();
                let ids = [&answer[0]["id"], &answer[1]["id"], &answer[2]["id"]];
                assert_eq!(ids, [3, 2, 1]);
            }
            RpcFault::WrongChainId => {
                let (truth, reported) = self.both(fault, "eth_chainId", json!([])).await;
                assert_ne!(truth, reported);
            }
            RpcFault::Syncing => {
                let (truth, reported) = self.both(fault, "eth_syncing", json!([])).await;
                assert_eq!(truth, false);
                assert!(number(&reported["currentBlock"]) < number(&reported["highestBlock"]));
            }
            _ => {
                let (truth, reported) = self.both_blocks(fault).await;
                assert_eq!(reported["logsBloom"], format!("0x{}", "0".repeat(512)));
                assert_ne!(truth["logsBloom"], reported["logsBloom"]);
                assert_eq!(truth["hash"], reported["hash"]);
            }
        }
    }

    async fn see_logs(&self, fault: RpcFault) {
        if fault == RpcFault::RangeError {
            return self.see_spellings().await;
        }
        let (truth, reported) = self.both_logs(fault).await;
        if fault == RpcFault::EmptyLogs {
            assert!(!truth.is_empty() && reported.is_empty());
            return;
        }
        if fault == RpcFault::LogsBehind {
            assert!(!truth.is_empty() && reported.is_empty());
            let params = json!([{ "blockHash": truth[0]["blockHash"] }]);
            let answer = call(&self.url, "eth_getLogs", params.clone()).await;
            assert_eq!(answer["error"]["message"], "unknown block");
            self.faults.clear();
            let logs = result(&self.url, "eth_getLogs", params).await;
            assert_eq!(logs, Value::from(truth));
            return;
        }
        let receipts = self.both_receipts(fault).await;
        for (truth, reported) in [(truth, reported), receipts] {
            match fault {
                RpcFault::WrongBlockHashInLogs => {
                    assert!(truth.len() == reported.len() && !reported.is_empty());
                    let pairs = truth.iter().zip(&reported);
                    assert!(
                        pairs
                            .into_iter()
                            .all(|(a, b)| a["blockHash"] != b["blockHash"])
                    );
                }
                RpcFault::MissingLog => {
                    assert_eq!(reported.len() + 1, truth.len());
                    assert!(reported.iter().all(|log| truth.contains(log)));
                }
                _ => {
                    assert!(truth.iter().all(|log| log["blockTimestamp"].is_string()));
                    assert!(
                        reported
                            .iter()
                            .all(|log| log.get("blockTimestamp").is_none())
                    );
                }
            }
        }
    }

    async fn see_spellings(&self) {
        let several = json!([{ "fromBlock": "0x0", "toBlock": "latest" }]);
        let mut spellings = BTreeSet::new();
        for _ in 0..30 {
            let answer = call(&self.url, "eth_getLogs", several.clone()).await;
            let output = answer["error"]["message"].as_str().unwrap();
            spellings.insert(output.to_owned());
        }
        assert!(spellings.len() >= 10, "{spellings:?}");
        assert!(
            spellings
                .iter()
                .any(|output| output.contains("should work: [0x0, 0x"))
        );
        // A single block is never refused.
        let one = json!([{ "fromBlock": "0x1", "toBlock": "0x1" }]);
        result(&self.url, "eth_getLogs", one).await;
    }

    async fn see_socket(&self, fault: RpcFault) {
        self.faults.clear();
        let (mut socket, _) = tokio_tungstenite::connect_async(self.server.ws_url())
            .await
            .unwrap();
        let subscribe = request("eth_subscribe", &json!(["newHeads"]));
        socket.send(Message::text(subscribe)).await.unwrap();
        socket.next().await.unwrap().unwrap();
        self.faults.always(fault);
        let head = self.node.mine(1);
        if fault == RpcFault::WsDrop {
            // The library tells a close frame apart from a connection that just ends.
            let end = socket.next().await.unwrap();
            assert!(
                matches!(end, Err(Error::Protocol(_) | Error::Io(_))),
                "{end:?}"
            );
            return;
        }
        for _ in 0..2 {
            let message = socket.next().await.unwrap().unwrap();
            let reported: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            let hash = &reported["params"]["result"]["hash"];
            assert_eq!(hash, &json!(head.hash.to_string()));
        }
    }
}

#[tokio::test]
async fn every_fault_is_injected_and_seen() {
    let bench = Bench::new().await;
    for (fault, _) in RpcFault::NAMED {
        let before = bench.faults.injected()[fault.name()];
        bench.see(fault).await;
        let after = bench.faults.injected()[fault.name()];
        assert!(after > before, "{} was never injected", fault.name());
    }
    let never: Vec<_> = bench
        .faults
        .injected()
        .into_iter()
        .filter(|(_, count)| *count == 0)
        .collect();
    assert!(never.is_empty(), "{never:?}");
}

#[tokio::test]
async fn faults_end_when_they_are_cleared() {
    let bench = Bench::new().await;
    let truth = result(&bench.url, "eth_blockNumber", json!([])).await;
    bench.faults.load_json(r#"{"http_500": 0.5}"#).unwrap();
    let mut statuses = BTreeSet::new();
    for _ in 0..50 {
        statuses.insert(bench.ask().await.status);
    }
    assert_eq!(statuses, BTreeSet::from([200, 500]));
    bench.faults.clear();
    for _ in 0..20 {
        assert_eq!(
            result(&bench.url, "eth_blockNumber", json!([])).await,
            truth
        );
    }
}

#[tokio::test]
async fn a_fault_is_not_drawn_where_no_request_could_meet_it() {
    let bench = Bench::new().await;
    let quiet = (1..=BLOCKS).find(|&at| bench.node.block(at).unwrap().logs.is_empty());
    let at = hex(quiet.unwrap());
    for fault in [
        RpcFault::EmptyLogs,
        RpcFault::MissingLog,
        RpcFault::WrongBlockHashInLogs,
        RpcFault::MissingBlockTimestamp,
        RpcFault::BloomZero,
        RpcFault::BatchOutOfOrder,
    ] {
        bench.faults.always(fault);
    }
    result(
        &bench.url,
        "eth_getLogs",
        json!([{ "fromBlock": at, "toBlock": at }]),
    )
    .await;
    result(&bench.url, "eth_getBlockReceipts", json!([at])).await;
    result(&bench.url, "eth_getBlockByNumber", json!([at, false])).await;
    assert_eq!(bench.faults.injected().values().sum::<u64>(), 0);
}

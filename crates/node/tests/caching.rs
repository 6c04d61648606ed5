//! What caches may keep: answers about final blocks for ever, all others only to confirm them, errors not at all.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use reqwest::header::{HeaderMap, IF_NONE_MATCH};
use serde_json::{Value, json};
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, Running, serve};

const BLOCKS: u64 = 120;
const FOR_EVER: &str = "public, max-age=31536000, immutable";

struct Serving {
    bench: Bench,
    rpc: Rpc,
    client: reqwest::Client,
    running: Running,
    _server: RpcServer,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }
}

impl Serving {
    async fn start(seed: u64) -> Self {
        let node = EvmNode::new(EvmSpec::tiny(seed), BLOCKS);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], DEPTH_5);
        let running = bench.start();
        let rpc = Rpc::new(bench.public());
        rpc.until_head(BLOCKS).await;
        let newest = json!([{ "fromBlock": "latest" }]);
        let is_final = |page: &Value| page["finalizedHead"]["number"] == BLOCKS - 5;
        rpc.until("chronolith_getLogs", newest, is_final).await;
        Self {
            bench,
            rpc,
            client: reqwest::Client::builder()
                .no_gzip()
                .no_zstd()
                .build()
                .unwrap(),
            running,
            _server: server,
        }
    }

    async fn fetch(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.client.get(format!("{}{path}", self.rpc.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await.unwrap().to_vec();
        Answer {
            status,
            headers,
            body,
        }
    }

    /// How many queries the archive has answered.
    async fn queries(&self) -> u64 {
        let (_, metrics) = self.bench.operations("/metrics").await;
        let counts = metrics
            .lines()
            .filter(|line| line.starts_with("chronolith_archive_query_seconds_count"));
        let counts = counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counts.sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_answers_that_cannot_change_are_kept() {
    let serving = Serving::start(601).await;
    let logs = "/v1/chains/31337/logs";
    let last = BLOCKS - 5;
    for (path, status, control) in [
        (format!("{logs}?fromBlock=1&toBlock=50"), 200, FOR_EVER),
        (
            format!("{logs}?fromBlock=0x1&toBlock=0x32&format=csv"),
            200,
            FOR_EVER,
        ),
        (format!("{logs}?fromBlock=1&toBlock={last}"), 200, FOR_EVER),
        // One block of it is not final.
        (
            format!("{logs}?fromBlock=1&toBlock={}", last + 1),
            200,
            "no-cache",
        ),
        // What these name moves.
        (
            format!("{logs}?fromBlock=1&toBlock=finalized"),
            200,
            "no-cache",
        ),
        (
            format!("{logs}?fromBlock=earliest&toBlock=50"),
            200,
            "no-cache",
        ),
        (format!("{logs}?fromBlock=1"), 200, "no-cache"),
        (logs.to_owned(), 200, "no-cache"),
        // Its `indexedUpTo` does.
        (
            "/v1/chains/31337/block/before/1600000500".to_owned(),
            200,
            "no-cache",
        ),
        ("/v1/chains".to_owned(), 200, "no-cache"),
        ("/".to_owned(), 200, "no-cache"),
        ("/app.js".to_owned(), 200, "no-cache"),
        ("/openapi.json".to_owned(), 200, "no-cache"),
        ("/health".to_owned(), 200, "no-store"),
        // A range that is missing today may be archived tomorrow.
        (format!("{logs}?fromBlock=1&toBlock=5000"), 400, "no-store"),
        (format!("{logs}?fromBlock=9&toBlock=3"), 400, "no-store"),
        ("/v1/chains/5/logs".to_owned(), 404, "no-store"),
        ("/nothing".to_owned(), 404, "no-store"),
    ] {
        let answer = serving.fetch(&path, &[]).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("cache-control"), control, "{path}");
        let has_tag = !answer.header("etag").is_empty();
        assert_eq!(has_tag, control != "no-store", "{path}");
        if has_tag {
            assert_eq!(answer.header("vary"), "accept-encoding", "{path}");
            let known = [("if-none-match", answer.header("etag"))];
            let again = serving.fetch(&path, &known).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
            assert_eq!(again.header("etag"), answer.header("etag"), "{path}");
            assert_eq!(again.header("cache-control"), control, "{path}");
            assert_eq!(again.header("vary"), "accept-encoding", "{path}");
            assert!(!again.headers.contains_key("content-length"), "{path}");
        }
    }
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" }).to_string();
    let posted = serving.client.post(format!("{}/31337", serving.rpc.base));
    let posted = posted
        .body(call)
        .header(IF_NONE_MATCH, "*")
        .send()
        .await
        .unwrap();
    assert_eq!(posted.status().as_u16(), 200);
    assert_eq!(posted.headers()["cache-control"], "no-store");
    serving.running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_of_the_request_and_costs_no_query() {
    let serving = Serving::start(602).await;
    let path = "/v1/chains/31337/logs?fromBlock=1&toBlock=100&limit=1000";
    let answer = serving.fetch(path, &[]).await;
    let tag = answer.header("etag").to_owned();
    for other in [
        path.replace("limit=1000", "limit=999"),
        path.replace("toBlock=100", "toBlock=99"),
        format!("{path}&format=csv"),
        format!("{path}&order=desc"),
    ] {
        let answer = serving.fetch(&other, &[("if-none-match", &tag)]).await;
        assert_eq!(answer.status, 200, "{other}");
        assert_ne!(answer.header("etag"), tag, "{other}");
    }
    // A coding changes the bytes and not what they say.
    for coding in ["gzip", "zstd"] {
        let packed = serving.fetch(path, &[("accept-encoding", coding)]).await;
        assert_eq!(packed.header("content-encoding"), coding);
        assert_eq!(packed.header("etag"), tag);
        assert!(packed.body.len() < answer.body.len());
        let console = serving
            .fetch("/openapi.json", &[("accept-encoding", coding)])
            .await;
        assert!(
            console.header("etag").starts_with("W/"),
            "{}",
            console.header("etag")
        );
    }
    let before = serving.queries().await;
    for _ in 0..5 {
        let known = [("if-none-match", &*tag), ("accept-encoding", "gzip")];
        assert_eq!(serving.fetch(path, &known).await.status, 304);
    }
    assert_eq!(serving.queries().await, before, "logs were read for a 304");
    assert_eq!(serving.fetch(path, &[]).await.status, 200);
    assert!(
        serving.queries().await > before,
        "the queries are not counted"
    );
    serving.running.stop();
}

/// A rewind is the one way in which published blocks change: what was kept before it is not confirmed.
#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_ends_all_tags() {
    let serving = Serving::start(603).await;
    let path = "/v1/chains/31337/logs?fromBlock=1&toBlock=30";
    let tag = serving.fetch(path, &[]).await.header("etag").to_owned();
    let bench = &serving.bench;
    bench.say(&["rewind", "--to", "20", "--reason", "a test"]);
    bench.wait("the same blocks", || bench.head() == Some(BLOCKS - 5));
    let answer = serving.fetch(path, &[("if-none-match", &tag)]).await;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.header("etag"), tag);
    serving.running.stop();
}

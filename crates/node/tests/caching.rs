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
        Self::start_with(seed, "").await
    }

    /// With more settings of the chain.
    async fn start_with(seed: u64, more: &str) -> Self {
        let node = EvmNode::new(EvmSpec::tiny(seed), BLOCKS);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], &format!("{DEPTH_5}{more}"));
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

    /// Fetches a path, and confirms the answer where it has a tag.
    async fn check(&self, (path, status, control): (&str, u16, &str)) {
        let answer = self.fetch(path, &[]).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("cache-control"), control, "{path}");
        let tag = answer.header("etag");
        assert_eq!(!tag.is_empty(), control != "no-store", "{path}");
        if tag.is_empty() {
            return;
        }
        assert_eq!(answer.header("vary"), "accept-encoding", "{path}");
        for known in [tag, "*"] {
            let again = self.fetch(path, &[("if-none-match", known)]).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
            assert_eq!(again.header("etag"), tag, "{path}");
            assert_eq!(again.header("cache-control"), control, "{path}");
            assert_eq!(again.header("vary"), "accept-encoding", "{path}");
            assert!(!again.headers.contains_key("content-length"), "{path}");
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

/// Logs of blocks up to the last final one, and of more.
fn answers_about_logs(last: u64) -> Vec<(String, u16, &'static str)> {
    let (next, logs) = (last + 1, "/v1/chains/31337/logs");
    let several = "/v1/logs?chains=31337";
    let mut rows = Vec::new();
    for (path, status, control) in [
        ("fromBlock=1&toBlock=50", 200, FOR_EVER),
        ("fromBlock=0x1&toBlock=0x32&format=csv", 200, FOR_EVER),
        (&format!("fromBlock=1&toBlock={last}"), 200, FOR_EVER),
        // One block of it is not final.
        (&format!("fromBlock=1&toBlock={next}"), 200, "no-cache"),
        // What these name moves.
        ("fromBlock=1&toBlock=finalized", 200, "no-cache"),
        ("fromBlock=earliest&toBlock=50", 200, "no-cache"),
        ("fromBlock=1", 200, "no-cache"),
        ("", 200, "no-cache"),
        // A range that is missing today may be archived tomorrow.
        ("fromBlock=1&toBlock=5000", 400, "no-store"),
        ("fromBlock=9&toBlock=3", 400, "no-store"),
    ] {
        rows.push((format!("{logs}?{path}"), status, control));
    }
    for (path, control) in [
        ("&fromBlock=1&toBlock=50", FOR_EVER),
        (&format!("&fromBlock=1&toBlock={last}&limit=7"), FOR_EVER),
        (&format!("&fromBlock=1&toBlock={next}"), "no-cache"),
        ("&fromBlock=1&toBlock=finalized", "no-cache"),
        ("&from=1600000012&to=1600000500", "no-cache"),
        // A chain that is not there today may be there tomorrow, and a range too.
        (",5&fromBlock=1&toBlock=50", "no-cache"),
        ("&fromBlock=1&toBlock=5000", "no-cache"),
    ] {
        rows.push((format!("{several}{path}"), 200, control));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn only_answers_that_cannot_change_are_kept() {
    let serving = Serving::start(601).await;
    let last = BLOCKS - 5;
    for (path, status, control) in answers_about_logs(last) {
        serving.check((&path, status, control)).await;
    }
    let shown = json!(["0x32", false]);
    let shown = serving.rpc.call("eth_getBlockByNumber", shown).await;
    let hash = shown["hash"].as_str().unwrap();
    let block = "/v1/chains/31337/blocks";
    for (path, status, control) in [
        (&*format!("{block}/50"), 200, FOR_EVER),
        (&format!("{block}/0x32"), 200, FOR_EVER),
        (&format!("{block}/{hash}"), 200, FOR_EVER),
        (&format!("{block}/{last}"), 200, FOR_EVER),
        (&format!("{block}/{}", last + 1), 200, "no-cache"),
        (&format!("{block}/latest"), 200, "no-cache"),
        (&format!("{block}/finalized"), 200, "no-cache"),
        (&format!("{block}/earliest"), 200, "no-cache"),
        // They are not kept today.
        (&format!("{block}/50?transactions=full"), 409, "no-store"),
        // Its `indexedUpTo` moves.
        ("/v1/chains/31337/block/before/1600000500", 200, "no-cache"),
        ("/v1/chains", 200, "no-cache"),
        ("/", 200, "no-cache"),
        ("/app.js", 200, "no-cache"),
        ("/openapi.json", 200, "no-cache"),
        ("/health", 200, "no-store"),
        ("/v1/chains/5/logs", 404, "no-store"),
        ("/nothing", 404, "no-store"),
    ] {
        serving.check((path, status, control)).await;
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

/// A backfill for more datasets fetches blocks again: then another form of them may be read.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_transactions_are_kept_where_no_other_form_can_appear() {
    let kept = |names: &str| format!(r#", "datasets": [{names}]"#);
    let whole = kept(r#""headers", "logs", "tx_hashes", "transactions""#);
    let without_headers = kept(r#""logs", "tx_hashes", "transactions""#);
    let unproven = r#", "verification": "receipts""#.to_owned();
    let (for_ever, confirmed, refused) = ((200, FOR_EVER), (200, "no-cache"), (409, "no-store"));
    for (seed, more, expected) in [
        (604, whole, [for_ever, for_ever, for_ever]),
        // With headers a transaction has the price that it paid.
        (605, without_headers, [refused, refused, confirmed]),
        // No root proves that a block has these transactions.
        (606, unproven, [confirmed, refused, refused]),
    ] {
        let serving = Serving::start_with(seed, &more).await;
        let first = json!([{ "fromBlock": "0x1", "toBlock": "0x32", "limit": 1 }]);
        let page = serving.rpc.call("chronolith_getLogs", first).await;
        let text = |name: &str| page["logs"][0][name].as_str().unwrap().to_owned();
        let block = format!("/v1/chains/31337/blocks/{}", text("blockNumber"));
        let transaction = format!("/v1/chains/31337/transactions/{}", text("transactionHash"));
        let paths = [
            block.clone(),
            format!("{block}?transactions=full"),
            transaction,
        ];
        for (path, (status, control)) in paths.iter().zip(expected) {
            serving.check((path, status, control)).await;
        }
        serving.running.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_several_chains_costs_no_query() {
    let serving = Serving::start(607).await;
    let path = "/v1/logs?chains=31337&fromBlock=1&toBlock=100&limit=1000";
    let tag = serving.fetch(path, &[]).await.header("etag").to_owned();
    for other in [
        path.replace("limit=1000", "limit=999"),
        path.replace("/v1/logs?chains=31337&", "/v1/chains/31337/logs?"),
    ] {
        let answer = serving.fetch(&other, &[("if-none-match", &tag)]).await;
        assert_eq!(answer.status, 200, "{other}");
    }
    let before = serving.queries().await;
    let answer = serving.fetch(path, &[("if-none-match", &tag)]).await;
    assert_eq!(answer.status, 304);
    assert_eq!(serving.queries().await, before, "logs were read for a 304");
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
    let paths = [
        "/v1/chains/31337/logs?fromBlock=1&toBlock=30",
        "/v1/logs?chains=31337&fromBlock=1&toBlock=30",
        "/v1/chains/31337/blocks/30",
    ];
    let mut tags = Vec::new();
    for path in paths {
        tags.push(serving.fetch(path, &[]).await.header("etag").to_owned());
    }
    let bench = &serving.bench;
    bench.say(&["rewind", "--to", "20", "--reason", "a test"]);
    bench.wait("the same blocks", || bench.head() == Some(BLOCKS - 5));
    for (path, tag) in paths.iter().zip(&tags) {
        let answer = serving.fetch(path, &[("if-none-match", tag)]).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("cache-control"), FOR_EVER, "{path}");
        assert_ne!(answer.header("etag"), tag, "{path}");
    }
    serving.running.stop();
}

//! Many logs: downloads, whole, in parts of a page, and continued where they were cut; and pages by their links.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use chronolith_sim::ChainSpec;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use reqwest::header::HeaderMap;
use serde_json::Value;
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, Running, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

const BLOCKS: u64 = 600;
const FINAL: u64 = BLOCKS - 5;
/// Several times what one answer may have (`answerMib`).
const LONG: usize = 4 << 20;

struct Serving {
    bench: Bench,
    rpc: Rpc,
    running: Running,
    _server: RpcServer,
}

impl Serving {
    /// A page has 97 logs at most: a download has many.
    async fn start() -> Self {
        Self::start_with(EvmSpec::tiny(611), r#""results": 97"#).await
    }

    async fn start_with(spec: EvmSpec, limits: &str) -> Self {
        let node = EvmNode::new(spec, BLOCKS);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], DEPTH_5);
        let limits = format!(r#""metricsPort": 0, "limits": {{ {limits} }}"#);
        bench.change(r#""metricsPort": 0"#, &limits);
        let running = bench.start();
        let rpc = Rpc::new(bench.public());
        rpc.until_head(BLOCKS).await;
        bench.wait("the archive", || bench.head() == Some(FINAL));
        Self {
            bench,
            rpc,
            running,
            _server: server,
        }
    }

    async fn get(&self, path: &str) -> (u16, HeaderMap, String) {
        let url = format!("{}/v1/chains/31337/{path}", self.rpc.base);
        let answer = reqwest::get(url).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        (status, headers, answer.text().await.unwrap())
    }

    async fn download(&self, query: &str) -> String {
        let (status, _, text) = self.get(&format!("logs/download?{query}")).await;
        assert_eq!(status, 200, "{query}: {text}");
        text
    }

    /// Reads a download a little at a time, and has a small request answered after each time. Leaves after so many
    /// bytes. Returns what was sent of the file, and whether that was all of it.
    async fn read_slowly(&self, query: &str, most: usize) -> (String, bool) {
        let socket = TcpSocket::new_v4().unwrap();
        // What waits to be read is held by the server, and not by the system.
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let server = self.rpc.base.replace("http://", "").parse().unwrap();
        let mut stream = socket.connect(server).await.unwrap();
        let head = format!(
            "GET /v1/chains/31337/logs/download?{query} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut answer, mut part) = (Vec::new(), vec![0; 64 << 10]);
        while answer.len() < most {
            let length = stream.read(&mut part).await.unwrap();
            if length == 0 {
                break;
            }
            answer.extend_from_slice(&part[..length]);
            let small = "/v1/chains/31337/logs?fromBlock=1&toBlock=3&limit=5";
            let (status, page) = self.rpc.get(small).await;
            assert_eq!(status, 200, "after {} bytes: {page}", answer.len());
        }
        let (head, body) = answer.split_at(end_of_head(&answer));
        let head = String::from_utf8_lossy(head);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(
            head.contains("\r\ntransfer-encoding: chunked\r\n"),
            "{head}"
        );
        let file = String::from_utf8(without_chunks(body)).unwrap();
        (file, body.ends_with(b"\r\n0\r\n\r\n"))
    }

    /// The same logs, page by page.
    async fn pages(&self, query: &str) -> Vec<Value> {
        let (mut logs, mut cursor) = (Vec::new(), String::new());
        loop {
            let (status, _, text) = self.get(&format!("logs?limit=97&{query}{cursor}")).await;
            assert_eq!(status, 200, "{text}");
            let page: Value = serde_json::from_str(&text).unwrap();
            logs.extend(page["logs"].as_array().unwrap().clone());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return logs,
            }
        }
    }
}

impl Serving {
    /// The logs of each page, from one to the next by its link alone.
    async fn linked_pages(&self, query: &str) -> Vec<Vec<Value>> {
        let (mut pages, mut query) = (Vec::new(), query.to_owned());
        loop {
            let (status, headers, text) = self.get(&format!("logs?{query}")).await;
            assert_eq!(status, 200, "{query}: {text}");
            let page: Value = serde_json::from_str(&text).unwrap();
            pages.push(page["logs"].as_array().unwrap().clone());
            let Some(link) = headers.get("link") else {
                assert_eq!(page["nextCursor"], Value::Null, "{query}");
                return pages;
            };
            let link = link.to_str().unwrap().strip_prefix("<?");
            let next = link.and_then(|link| link.strip_suffix(">; rel=\"next\""));
            query = next.unwrap().to_owned();
        }
    }

    /// The time of a block.
    async fn time(&self, block: u64) -> u64 {
        let (status, _, text) = self.get(&format!("blocks/{block}/clock")).await;
        assert_eq!(status, 200, "{text}");
        let clock: Value = serde_json::from_str(&text).unwrap();
        clock["timestamp"].as_u64().unwrap()
    }
}

fn end_of_head(answer: &[u8]) -> usize {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    end.unwrap() + 4
}

/// The bytes in the chunks of a body, as far as it came.
fn without_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let length = std::str::from_utf8(&body[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        body = &body[end + 2..];
        bytes.extend_from_slice(&body[..length.min(body.len())]);
        body = body.get(length + 2..).unwrap_or_default();
    }
    bytes
}

/// The logs of a file, which is complete.
fn logs_of(text: &str) -> Vec<Value> {
    assert!(text.ends_with('\n'));
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let last = lines.pop().unwrap();
    assert_eq!(last["complete"], true, "{last}");
    assert_eq!(last["count"], lines.len(), "{last}");
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_has_every_final_log_once() {
    let serving = Serving::start().await;
    let all = format!("fromBlock=0&toBlock={FINAL}");
    let expected = serving.pages(&all).await;
    assert!(
        expected.len() > 20 * 97,
        "{}: too few pages",
        expected.len()
    );
    assert_eq!(logs_of(&serving.download("").await), expected);
    let address = expected[0]["address"].as_str().unwrap();
    let topic = expected[0]["topics"][0].as_str().unwrap();
    for query in [
        format!("{all}&order=desc"),
        format!("fromBlock=100&toBlock=400&address={address}"),
        format!("fromBlock=7&toBlock=7&topic0={topic}"),
        format!("fromBlock=3&toBlock=590&order=desc&topic0={topic}"),
        format!("fromBlock=3&toBlock=590&address=0x{}", "00".repeat(20)),
    ] {
        let pages = serving.pages(&query).await;
        assert_eq!(logs_of(&serving.download(&query).await), pages, "{query}");
    }

    // A table has the names once, and a row for each log.
    let (_, headers, table) = serving.get("logs/download?format=csv").await;
    let name = format!("attachment; filename=\"chronolith-31337-logs-0-{FINAL}.csv\"");
    assert_eq!(headers["content-disposition"], name.as_str());
    assert_eq!(headers["content-type"], "text/csv; charset=utf-8");
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), expected.len() + 2);
    let named = rows.iter().filter(|row| row.starts_with("blockNumber"));
    assert_eq!(named.count(), 1);
    let last = format!("#complete,count={},nextCursor=", expected.len());
    assert_eq!(rows.last(), Some(&last.as_str()));

    // A page of a table has the same name, and what browsers show has none.
    for (format, expected) in [
        ("csv", Some(name.as_str())),
        ("ndjson", None),
        ("json", None),
    ] {
        let path = format!("logs?{all}&limit=97&format={format}");
        let (_, headers, _) = serving.get(&path).await;
        let given = headers.get("content-disposition");
        let given = given.map(|value| value.to_str().unwrap());
        assert_eq!(given, expected, "{format}");
    }

    // A cache could not hold it.
    let (_, headers, _) = serving.get(&format!("logs/download?{all}")).await;
    assert_eq!(headers["cache-control"], "no-store");
    serving.running.stop();
}

/// A link names blocks where the request named times, and keeps all other parameters, also those that are given twice.
#[tokio::test(flavor = "multi_thread")]
async fn links_lead_through_all_pages_of_times_from_the_newest_on() {
    let serving = Serving::start_with(EvmSpec::tiny(614), r#""results": 10000"#).await;
    // The last of these blocks are not archived.
    let (from, to) = (serving.time(300).await, serving.time(FINAL + 4).await);
    let times = format!("from={from}&to={to}&order=desc");
    let all = serving.linked_pages(&format!("{times}&limit=10000")).await;
    let mut counts = BTreeMap::new();
    for log in all.iter().flatten() {
        let emitter = log["address"].as_str().unwrap();
        *counts.entry(emitter).or_insert(0) += 1;
    }
    let mut emitters: Vec<_> = counts.into_iter().collect();
    emitters.sort_by_key(|(_, count)| *count);
    assert!(
        emitters.len() > 2,
        "{emitters:?}: the filter narrows nothing"
    );
    let addresses: Vec<String> = emitters
        .iter()
        .rev()
        .take(2)
        .map(|(address, _)| format!("address={address}"))
        .collect();
    for filter in [times.clone(), format!("{}&{times}", addresses.join("&"))] {
        let whole = serving.linked_pages(&format!("{filter}&limit=10000")).await;
        assert_eq!(whole.len(), 1, "{filter}: more than a page may have");
        let pages = serving.linked_pages(&format!("limit=13&{filter}")).await;
        assert!(pages.len() > 5, "{filter}: {} pages", pages.len());
        assert!(pages.iter().all(|page| (1..=13).contains(&page.len())));
        assert_eq!(pages.concat(), whole[0], "{filter}");
    }
    serving.running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_continues_after_any_log() {
    let serving = Serving::start().await;
    let table = serving.download("format=csv").await;
    let rows: Vec<&str> = table.lines().collect();
    let place = |row: &str| {
        let values: Vec<&str> = row.split(',').collect();
        format!("{}:{}", values[0], values[5])
    };
    for at in [1, 96, 97, 98, rows.len() / 2, rows.len() - 2] {
        let query = format!("format=csv&after={}", place(rows[at]));
        let rest = serving.download(&query).await;
        let rest: Vec<&str> = rest.lines().collect();
        let (end, rest) = rest.split_last().unwrap();
        assert_eq!(rest, &rows[at + 1..rows.len() - 1], "after row {at}");
        assert!(end.starts_with(&format!("#complete,count={},", rest.len())));
    }
    let lines = serving.download("order=desc").await;
    let lines: Vec<&str> = lines.lines().collect();
    let log: Value = serde_json::from_str(lines[300]).unwrap();
    let hex = |name: &str| log[name].as_str().unwrap().to_owned();
    let query = format!(
        "order=desc&after={}:{}",
        hex("blockNumber"),
        hex("logIndex")
    );
    let rest = serving.download(&query).await;
    let rest: Vec<&str> = rest.lines().collect();
    assert_eq!(rest[..rest.len() - 1], lines[301..lines.len() - 1]);
    serving.running.stop();
}

/// A file that is larger than any answer may be, for a client that takes it at its own pace: it is whole, and others are
/// answered meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_download_is_whole_and_delays_nobody() {
    let content = ChainSpec {
        logs_per_block: 40,
        ..ChainSpec::tiny(613)
    };
    let spec = EvmSpec {
        content,
        ..EvmSpec::tiny(613)
    };
    let serving = Serving::start_with(spec, r#""answerMib": 1"#).await;
    let whole = serving.download("").await;
    assert!(whole.len() > LONG, "{} bytes are too few", whole.len());
    let expected = logs_of(&whole);
    let (file, ended) = serving.read_slowly("", usize::MAX).await;
    assert!(ended, "cut at {} of {}", file.len(), whole.len());
    assert!(file == whole, "{} of {} bytes", file.len(), whole.len());

    // One that leaves continues after the last log that arrived.
    let (part, ended) = serving.read_slowly("", LONG / 2).await;
    assert!(!ended && whole.starts_with(&part));
    let (lines, _) = part.rsplit_once('\n').unwrap();
    let arrived = lines.lines().count();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let text = |name: &str| last[name].as_str().unwrap().to_owned();
    let after = format!("after={}:{}", text("blockNumber"), text("logIndex"));
    let (rest, ended) = serving.read_slowly(&after, usize::MAX).await;
    assert!(ended, "{after}");
    let rest = logs_of(&rest);
    assert!(arrived > 0 && !rest.is_empty());
    assert!(rest == expected[arrived..], "{after}: {} logs", rest.len());
    serving.running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_downloaded_is_refused_before_the_first_byte() {
    let serving = Serving::start().await;
    let newest = format!("toBlock={}", FINAL + 1);
    for (query, status, words) in [
        (newest.as_str(), 400, "the newest final block is 595"),
        ("toBlock=latest", 400, "the newest final block is 595"),
        ("format=json", 400, "want ndjson or csv"),
        ("after=7", 400, "want the block and the index of a log"),
        ("after=7:0&fromBlock=8", 400, "block 7, after whose log"),
        ("limit=5", 400, "limit"),
        ("after=7:0&cursor=7-0-00", 400, "cursor"),
        ("fromBlock=9&toBlock=8", 400, "invalid block range"),
    ] {
        let (got, headers, text) = serving.get(&format!("logs/download?{query}")).await;
        assert_eq!(got, status, "{query}: {text}");
        assert_eq!(headers["content-type"], "application/problem+json");
        assert!(text.contains(words), "{query}: {text}");
    }
    serving.running.stop();
}

/// Passes requests on, and cuts each answer after so many bytes more than the one before.
fn cutting_proxy(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cuts = Arc::new(AtomicUsize::new(0));
    let counted = cuts.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let cut = counted.load(Ordering::SeqCst);
            let most = 700 + cut * 40_000;
            if pass_on(client.unwrap(), to, most) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (address, cuts)
}

/// Whether the answer was cut.
fn pass_on(mut client: TcpStream, to: SocketAddr, most: usize) -> bool {
    let mut server = TcpStream::connect(to).unwrap();
    let mut request = [0; 4_096];
    let length = client.read(&mut request).unwrap();
    // The end of the connection is that of the answer. A client that ends its side may be cut by the server.
    let request = String::from_utf8_lossy(&request[..length]);
    let request = request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    server.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    let sent = answer.len().min(most);
    client.write_all(&answer[..sent]).unwrap();
    sent < answer.len()
}

/// The script of the documentation, word for word, behind a proxy that cuts every answer but the last.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_script_continues_until_the_file_is_complete() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: there is no curl");
        return;
    }
    let serving = Serving::start().await;
    let docs = include_str!("../../../docs/api.md");
    let start = docs.find("url='localhost:8080").unwrap();
    let length = docs[start..].find("```").unwrap();
    let public = serving.rpc.base.replace("http://", "");
    let (proxy, cuts) = cutting_proxy(public.parse().unwrap());
    let script = docs[start..start + length].replace("localhost:8080", &proxy.to_string());
    let dir = serving.bench.dir.path().join("download");
    std::fs::create_dir(&dir).unwrap();
    let at = dir.clone();
    let run = move || {
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(at).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(cuts.load(Ordering::SeqCst) > 2, "nothing was cut");
    let whole = serving.download("format=csv").await;
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|row| !row.starts_with("#complete"));
        rows.map(str::to_owned).collect()
    };
    let file = std::fs::read_to_string(dir.join("logs.csv")).unwrap();
    assert_eq!(rows(&file), rows(&whole));
    serving.running.stop();
}

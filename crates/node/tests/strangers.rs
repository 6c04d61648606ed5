//! Clients that take and give nothing back: connections without requests, bodies that never come, answers that
//! are not read, old protocols. Others are answered meanwhile, and no answer is cut that looks whole.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use support::rpc::Rpc;
use support::{Bench, PATIENCE, Running, serve};

/// Blocks of the chain: they have more than ten thousand logs.
const BLOCKS: u64 = 1_200;
/// What a client may wait while others misbehave. Those used to take ten seconds and more.
const SOON: Duration = Duration::from_secs(5);
/// What Kubernetes gives a probe where nothing else is set.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A node with a chain, and the program that serves it.
struct Serving {
    bench: Bench,
    rpc: Rpc,
    running: Running,
    _server: RpcServer,
}

impl Serving {
    async fn start(more: &str) -> Self {
        let node = EvmNode::new(EvmSpec::tiny(97), BLOCKS);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], support::DEPTH_5);
        bench.change(
            r#""metricsPort": 0"#,
            &format!(r#""metricsPort": 0 {more}"#),
        );
        let running = bench.start();
        let first = Rpc::without_keep_alive(bench.public());
        first.until_head(BLOCKS).await;
        let rpc = Rpc::new(bench.public());
        Self {
            bench,
            rpc,
            running,
            _server: server,
        }
    }

    fn connect(&self) -> TcpStream {
        connect(&self.rpc.base.replace("http://", ""))
    }

    /// The longest of some short calls, each on a new connection.
    async fn slowest_call(&self) -> Duration {
        let mut slowest = Duration::ZERO;
        for _ in 0..10 {
            let began = Instant::now();
            let rpc = Rpc::new(self.rpc.base.clone());
            assert_eq!(rpc.call("eth_chainId", json!([])).await, "0x7a69");
            slowest = slowest.max(began.elapsed());
        }
        slowest
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The head of a response, and a reader of its body.
fn head_of(stream: TcpStream) -> (String, BufReader<TcpStream>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "cut: {head}");
    }
    (head.to_lowercase(), reader)
}

/// The body of a chunked response, to its last chunk.
fn chunked(reader: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no last chunk");
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let at = whole.len();
        whole.resize(at + length, 0);
        reader.read_exact(&mut whole[at..]).unwrap();
        reader.read_exact(&mut [0; 2]).unwrap();
        if length == 0 {
            return whole;
        }
    }
}

/// More than the buffers of a connection hold.
fn batch_of_pages() -> String {
    let page = |id| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "chronolith_getLogs",
            "params": [{ "fromBlock": "0x0", "toBlock": "latest", "limit": 10_000 }],
        })
    };
    json!((0..6).map(page).collect::<Vec<_>>()).to_string()
}

/// A body used to count by what it announced: 32 clients that announced 2 MiB and sent one byte stalled every
/// call until they timed out.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_come_hold_up_no_call() {
    let serving = Serving::start("").await;
    let stalled: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = serving.connect();
            let head = "POST /31337 HTTP/1.1\r\nhost: x\r\ncontent-length: 2097152\r\n\r\n[";
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let slowest = serving.slowest_call().await;
    assert!(slowest < SOON, "{slowest:?}");
    drop(stalled);
    serving.running.stop();
}

/// As many idle connections as there is room for used to shut the listener for a minute, and 64 of them that of
/// liveness probes.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_make_room_for_others() {
    let serving = Serving::start(r#", "limits": { "connections": 64 }"#).await;
    let idle: Vec<TcpStream> = (0..64).map(|_| serving.connect()).collect();
    let slowest = serving.slowest_call().await;
    assert!(slowest < SOON, "{slowest:?}");
    let metrics = serving.bench.metrics();
    let half_open: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = connect(&metrics);
            stream.write_all(b"GET /health/li").unwrap();
            stream
        })
        .collect();
    let began = Instant::now();
    let (status, _) = serving.bench.operations("/health/live").await;
    assert_eq!(status, 200);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop((idle, half_open));
    serving.running.stop();
}

/// As many connections as there is room for that requested the metrics again and again and read nothing used to
/// keep probes out for half a minute. Limits by address would not help: here the probe has that of the others.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_no_metrics_keep_no_probe_out() {
    let serving = Serving::start("").await;
    let metrics = serving.bench.metrics();
    // More answers than the buffers of a connection hold.
    let requests = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2_000);
    let attack = |_| {
        let mut stream = connect(&metrics);
        stream.write_all(requests.as_bytes()).unwrap();
        stream
    };
    let mut unread: Vec<TcpStream> = (0..64).map(attack).collect();
    for stream in &unread {
        // It has its place.
        assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    }
    for round in 0..10 {
        // Those that are cut are replaced at once.
        unread.extend((0..8).map(attack));
        let began = Instant::now();
        let mut probe = connect(&metrics);
        let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        probe.write_all(request).unwrap();
        let (head, _) = head_of(probe);
        assert!(head.contains(" 200 ok"), "{head}");
        let waited = began.elapsed();
        assert!(waited < PROBE_TIMEOUT, "round {round}: {waited:?}");
    }
    drop(unread);
    serving.running.stop();
}

/// A connection that waited for its place was dropped where another one ended at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn each_connection_that_waits_for_a_place_gets_it() {
    let serving = Serving::start(r#", "limits": { "connections": 1 }"#).await;
    let mut open = Vec::new();
    for number in 0..30 {
        let mut stream = serving.connect();
        stream
            .write_all(b"GET /v1/chains HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap();
        let (head, reader) = head_of(stream);
        assert!(head.contains(" 200 ok"), "connection {number}: {head}");
        open.push(reader);
    }
    drop(open);
    serving.running.stop();
}

/// A head has ten seconds, however slowly it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_cut() {
    let serving = Serving::start("").await;
    let mut stream = serving.connect();
    stream.write_all(b"GET /v1/chains HTTP/1.1\r\n").unwrap();
    let began = Instant::now();
    let mut answer = Vec::new();
    // It ends, with an error or without an answer.
    let _ = stream.read_to_end(&mut answer);
    let waited = began.elapsed().as_secs();
    assert!((9..30).contains(&waited), "after {waited} s");
    serving.running.stop();
}

/// A proxy and a server that take another one of two hosts can be made to disagree.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_today_names_one_host() {
    let serving = Serving::start("").await;
    for connect in [&|| serving.connect(), &|| connect(&serving.bench.metrics())]
        as [&dyn Fn() -> TcpStream; 2]
    {
        for (head, is_refused) in [
            ("1.1\r\nhost: a", false),
            ("1.1\r\nhost: ", false),
            ("1.0", false),
            ("1.0\r\nhost: a", false),
            ("1.1", true),
            ("1.1\r\nhost: a\r\nhost: a", true),
            ("1.1\r\nhost: a\r\nHost: b", true),
            ("1.0\r\nhost: a\r\nhost: b", true),
        ] {
            let mut stream = connect();
            let request = format!("GET /health HTTP/{head}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let (answer, _) = head_of(stream);
            assert_eq!(answer.contains(" 400 "), is_refused, "{head}: {answer}");
            let nosniff = "x-content-type-options: nosniff";
            assert_eq!(answer.matches(nosniff).count(), 1, "{head}: {answer}");
            let closes = answer.contains("connection: close");
            assert!(closes || !is_refused, "{head}: {answer}");
        }
    }
    serving.running.stop();
}

/// For an HTTP/1.0 client the end of the connection is the end of an answer without a length: one that was cut
/// looked whole, for a stock nginx too.
#[tokio::test(flavor = "multi_thread")]
async fn old_clients_get_a_length() {
    let serving = Serving::start("").await;
    for format in ["json", "ndjson", "csv"] {
        let path = format!("/v1/chains/31337/logs?fromBlock=0&limit=10000&format={format}");
        let mut stream = serving.connect();
        let request = format!("GET {path} HTTP/1.0\r\naccept-encoding: gzip\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (head, mut reader) = head_of(stream);
        assert!(head.contains(" 200 ok"), "{head}");
        let length = head.split("content-length: ").nth(1).expect(&head);
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        let mut body = Vec::new();
        reader.read_to_end(&mut body).unwrap();
        assert_eq!(body.len(), length);
        assert!(length > 1 << 20, "a small answer always had a length");
        assert!(is_whole(format, &body));
        assert!(!is_whole(format, &body[..length - 1]));
    }
    serving.running.stop();
}

/// Whether a program can tell from the bytes alone that nothing is missing at their end.
fn is_whole(format: &str, body: &[u8]) -> bool {
    match format {
        "json" => serde_json::from_slice::<Value>(body).is_ok(),
        _ => {
            let text = std::str::from_utf8(body).unwrap();
            let start = match format {
                "csv" => "#complete,count=",
                _ => "{\"complete\":true,\"count\":",
            };
            let last = text.lines().next_back().unwrap();
            last.starts_with(start) && text.ends_with('\n')
        }
    }
}

/// A connection that ends in the middle of an answer leaves neither the last chunk nor the last line. Lines
/// used to look whole to whoever saved them.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_does_not_look_whole() {
    // Longer than what the system buffers for a client that does not read.
    let serving = Serving::start(r#", "limits": { "results": 50000 }"#).await;
    let begin = |format: &str| {
        let path = format!("/v1/chains/31337/logs?fromBlock=0&limit=50000&format={format}");
        let mut stream = serving.connect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (head, reader) = head_of(stream);
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        reader
    };
    let formats = ["json", "ndjson", "csv"];
    let whole = formats.map(|format| chunked(&mut begin(format)));
    let unread = formats.map(begin);
    serving.running.signal("-KILL");
    for ((format, whole), mut reader) in formats.into_iter().zip(whole).zip(unread) {
        assert!(is_whole(format, &whole), "{format}");
        let mut came = Vec::new();
        // The connection ends, or is reset.
        let _ = reader.read_to_end(&mut came);
        assert!(came.len() < whole.len(), "{format}: nothing was cut");
        assert!(!came.ends_with(b"0\r\n\r\n"), "{format}");
        assert!(!came.windows(8).any(|part| part == b"complete"), "{format}");
    }
}

/// Every answer used to be cut when the process was told to end.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_finished_before_the_process_ends() {
    let serving = Serving::start("").await;
    let body = batch_of_pages();
    let mut slow = serving.connect();
    let request = format!(
        "POST /31337 HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    slow.write_all(request.as_bytes()).unwrap();
    let (head, mut reader) = head_of(slow);
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let mut idle = serving.connect();
    let call = "GET /v1/chains HTTP/1.1\r\nhost: x\r\n\r\n";
    idle.write_all(call.as_bytes()).unwrap();
    let (_, kept) = head_of(idle.try_clone().unwrap());

    let metrics = serving.bench.metrics();
    serving.running.signal("-TERM");
    let bench = &serving.bench;
    bench.wait("the beginning of the end", || bench.has("draining"));
    // An idle connection gets one more answer, which tells the client not to send another.
    idle.write_all(call.as_bytes()).unwrap();
    drop(kept);
    let (head, _) = head_of(idle);
    assert!(head.contains("connection: close"), "{head}");
    let mut probe = connect(&metrics);
    probe
        .write_all(b"GET /health/ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains(r#""status":"stopping""#), "{answer}");
    let address = serving.rpc.base.replace("http://", "");
    // The listener takes those that the system has accepted for it, and ends.
    bench.wait("the end of the listener", || {
        TcpStream::connect(&address).is_err()
    });

    let answers: Value = serde_json::from_slice(&chunked(&mut reader)).unwrap();
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["result"]["logs"].as_array().unwrap().len(), 10_000);
    }
    drop(reader);
    let status = serving.running.wait();
    assert!(status.success(), "{status}");
}

/// The default would wait for ten seconds, and a client has thirty to read.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_cut_when_the_drain_is_over() {
    let serving = Serving::start(r#", "drainSeconds": 1"#).await;
    let body = batch_of_pages();
    let mut unread = serving.connect();
    let request = format!(
        "POST /31337 HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    unread.write_all(request.as_bytes()).unwrap();
    let (head, reader) = head_of(unread);
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert!(!serving.bench.has("connections_cut"));
    serving.running.signal("-TERM");
    let began = Instant::now();
    let status = serving.running.wait();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(status.code(), Some(0), "{status}");
    let cut = serving.bench.events("connections_cut");
    assert_eq!(cut.len(), 1, "{cut:?}");
    assert_eq!(
        (&cut[0]["open"], &cut[0]["seconds"]),
        (&json!(1), &json!(1))
    );
    drop(reader);
}

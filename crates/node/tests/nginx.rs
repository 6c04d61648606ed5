//! A real nginx in front of readers, with the settings that docs/deployment.md shows, and with none of its own: what
//! it may keep is kept, nothing is cut without an error, and a rolling restart is not noticed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chronolith_sim::ChainSpec;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use support::{Bench, DEPTH_5, Running, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const BLOCKS: u64 = 400;
const FINAL: u64 = BLOCKS - 5;
/// More than is sent without a length.
const LIMIT: usize = 5_000;
/// How often nginx is started, if another program took its port.
const STARTS_MAX: usize = 10;
/// Where a long answer is interrupted.
const MIDDLE: usize = 256 << 10;
/// More than the system holds of an answer that its program has sent.
const LONG: usize = 6 << 20;
/// Clients that make the same request at the same time, and how often each does.
const EQUAL: usize = 16;
const ROUNDS: usize = 20;
/// Less than nginx waits for an equal request before it passes on its own: 5 s.
const PATIENCE: Duration = Duration::from_secs(4);

fn has_nginx() -> bool {
    let has = Command::new("nginx").arg("-v").output().is_ok();
    if !has {
        println!("skipped: there is no nginx; `scripts/need nginx` installs it");
    }
    has
}

/// An archive that is complete, and the readers that serve it.
struct Readers {
    bench: Bench,
    _server: RpcServer,
}

impl Readers {
    async fn new(seed: u64) -> Self {
        Self::of(EvmSpec::tiny(seed)).await
    }

    async fn of(spec: EvmSpec) -> Self {
        let node = EvmNode::new(spec, BLOCKS);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], DEPTH_5);
        let writer = bench.start();
        bench.wait("the archive", || bench.head() == Some(FINAL));
        writer.stop();
        Self {
            bench,
            _server: server,
        }
    }

    /// Starts one, at a port or at any.
    fn start(&self, port: u16) -> (Running, String) {
        let before = self.bench.count("public_listening");
        let port = port.to_string();
        let running = self.bench.start_with(&["serve", "--port", &port], &[]);
        self.bench.wait("its listener", || {
            self.bench.count("public_listening") > before
        });
        (running, self.bench.public().replace("http://", ""))
    }
}

struct Nginx {
    process: Child,
    base: String,
    dir: PathBuf,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &pid]).status();
        let _ = self.process.wait();
        if std::thread::panicking() {
            println!("nginx: {}", errors(&self.dir));
        }
    }
}

impl Nginx {
    /// With this text inside of `http`, where PORT stands for its port.
    fn start(dir: &Path, text: &str) -> Self {
        for _ in 0..STARTS_MAX {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            if let Some(nginx) = Self::start_at(dir, text, port) {
                return nginx;
            }
        }
        panic!("nginx did not start: {}", errors(dir));
    }

    fn start_at(dir: &Path, text: &str, port: u16) -> Option<Self> {
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|name| format!("{name}_temp_path {name};"));
        // The directory of a test belongs to its user alone.
        let user = match std::env::var("USER").as_deref() {
            Ok("root") | Err(_) => "user root;",
            Ok(_) => "",
        };
        let text = text.replace("PORT", &port.to_string());
        let config = format!(
            "{user} daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; {} {text} }}\n",
            paths.concat()
        );
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("nginx.conf"), config).unwrap();
        let mut process = Command::new("nginx")
            .arg("-p")
            .arg(dir)
            .args(["-c", "nginx.conf", "-e", "error.log"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                let base = format!("http://127.0.0.1:{port}");
                let dir = dir.to_owned();
                return Some(Self { process, base, dir });
            }
            if process.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn errors(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("error.log")).unwrap_or_default()
}

/// The settings that the documentation shows, for these readers.
fn documented(dir: &Path, readers: [&str; 2]) -> String {
    let docs = include_str!("../../../docs/deployment.md");
    let start = docs.find("```nginx\n").expect("it shows settings") + 9;
    let length = docs[start..].find("```").unwrap();
    let text = &docs[start..start + length];
    let changed = text
        .replace("127.0.0.1:8080", readers[0])
        .replace("127.0.0.1:8081", readers[1])
        .replace(
            "/var/cache/nginx/chronolith",
            dir.join("kept").to_str().unwrap(),
        )
        .replace("listen 80;", "listen 127.0.0.1:PORT;");
    for name in readers.iter().chain(&["PORT", "/kept"]) {
        assert!(changed.contains(name), "{name} is not in {text}");
    }
    changed
}

/// An nginx without settings of its own, in front of this address.
fn stock(readers: &Readers, to: &str) -> Nginx {
    let dir = readers.bench.dir.path().join("nginx");
    let text =
        format!("server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://{to}; }} }}");
    Nginx::start(&dir, &text)
}

/// What is fetched through nginx, and what its cache did.
async fn fetch(client: &reqwest::Client, url: &str) -> (u16, String, Vec<u8>) {
    let answer = client.get(url).send().await.unwrap();
    let status = answer.status().as_u16();
    let kept = answer.headers().get("x-cache");
    let kept = kept.map(|value| value.to_str().unwrap().to_owned());
    let body = answer.bytes().await.unwrap().to_vec();
    (status, kept.unwrap_or_default(), body)
}

async fn post(client: &reqwest::Client, url: &str, call: &Value) -> (u16, Vec<u8>) {
    let request = client.post(url).body(call.to_string());
    let request = request.header("content-type", "application/json");
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.bytes().await.unwrap().to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_keeps_what_never_changes_and_nothing_else() {
    if !has_nginx() {
        return;
    }
    let readers = Readers::new(621).await;
    let (first, one) = readers.start(0);
    let dir = readers.bench.dir.path().join("nginx");
    let nginx = Nginx::start(&dir, &documented(&dir, [&one, &one]));
    let client = reqwest::Client::builder().no_gzip().build().unwrap();
    let logs = "/v1/chains/31337/logs";
    for (path, status, is_kept) in [
        (format!("{logs}?fromBlock=1&toBlock=50&limit=50"), 200, true),
        (
            format!("{logs}?fromBlock=0&toBlock={FINAL}&limit={LIMIT}&format=csv"),
            200,
            true,
        ),
        (
            format!("{logs}/download?fromBlock=0&toBlock={FINAL}"),
            200,
            false,
        ),
        (format!("{logs}?fromBlock=1&toBlock=finalized"), 200, false),
        (
            "/v1/logs?chains=31337&fromBlock=1&toBlock=50".to_owned(),
            200,
            true,
        ),
        ("/v1/chains/31337/blocks/50".to_owned(), 200, true),
        ("/v1/chains/31337/blocks/finalized".to_owned(), 200, false),
        ("/v1/chains".to_owned(), 200, false),
        ("/health".to_owned(), 200, false),
        (format!("{logs}?fromBlock=1&toBlock=9999999"), 400, false),
        ("/v1/chains/7".to_owned(), 404, false),
    ] {
        let url = format!("{}{path}", nginx.base);
        let (_, _, expected) = fetch(&client, &format!("http://{one}{path}")).await;
        for round in 0..3 {
            let (got, kept, body) = fetch(&client, &url).await;
            assert_eq!(got, status, "{path}");
            let is_hit = kept == "HIT";
            assert_eq!(is_hit, is_kept && round > 0, "{path} {round}: {kept}");
            // Health has a time, and an error the id of its request.
            if status == 200 && path != "/health" {
                assert_eq!(body, expected, "{path} {round}");
            }
        }
    }
    // A compressed answer is another one.
    let path = format!("{logs}?fromBlock=1&toBlock=50&limit=50");
    let packed = client
        .get(format!("{}{path}", nginx.base))
        .header("accept-encoding", "gzip");
    let packed = packed.send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let (_, kept, plain) = fetch(&client, &format!("{}{path}", nginx.base)).await;
    assert!(plain.starts_with(b"{"), "{kept}");
    // What is kept is served without the reader.
    first.stop();
    let kept = format!("{}{path}", nginx.base);
    assert_eq!(fetch(&client, &kept).await.0, 200);
}

/// The ids of an answer: in its header, and in its body if it is an error.
async fn ids(client: &reqwest::Client, url: &str, given: Option<&str>) -> (String, Value) {
    let mut request = client.get(url);
    if let Some(given) = given {
        request = request.header("x-request-id", given);
    }
    let answer = request.send().await.unwrap();
    let ids: Vec<_> = answer.headers().get_all("x-request-id").iter().collect();
    assert_eq!(ids.len(), 1, "{url}: {ids:?}");
    let id = ids[0].to_str().unwrap().to_owned();
    let body = answer.bytes().await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (id, body["requestId"].clone())
}

/// An answer was kept with the id of the request that filled the cache: each client got that one, for a year.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_from_the_cache_has_the_id_of_its_own_request() {
    if !has_nginx() {
        return;
    }
    let readers = Readers::new(626).await;
    let (reader, one) = readers.start(0);
    let dir = readers.bench.dir.path().join("nginx");
    let nginx = Nginx::start(&dir, &documented(&dir, [&one, &one]));
    let client = reqwest::Client::builder().no_gzip().build().unwrap();
    let kept = format!("{}/v1/chains/31337/logs?fromBlock=1&toBlock=50", nginx.base);
    let mut made = BTreeSet::new();
    for round in 0..3 {
        let (id, _) = ids(&client, &kept, None).await;
        assert!(made.insert(id), "{round}: {made:?}");
    }
    assert_eq!(fetch(&client, &kept).await.1, "HIT");
    let (id, _) = ids(&client, &kept, Some("mine-1")).await;
    assert_eq!(id, "mine-1");
    // The reader answers with the id that nginx gave to the request.
    let missing = format!("{}/v1/chains/7/logs", nginx.base);
    for (given, is_used) in [
        (None, false),
        (Some("Root=1-67891233-abcdef"), true),
        (Some("two words"), false),
        (Some(&*"a".repeat(129)), false),
    ] {
        let (id, in_body) = ids(&client, &missing, given).await;
        assert_eq!(in_body, json!(id), "{given:?}");
        assert_eq!(given == Some(id.as_str()), is_used, "{given:?}: {id}");
    }
    reader.stop();
}

/// A server that answers a request only when it has as many of them as there are clients.
async fn answers_all_at_once() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let all = Arc::new(Barrier::new(EQUAL));
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let all = all.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while let Ok(1..) = connection.read_buf(&mut head).await {
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        all.wait().await;
                        let answer = "HTTP/1.1 200 OK\r\ncache-control: no-cache\r\n\
                            content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                        connection.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

/// Each console requests `/v1/overview` once per second, and no cache may keep it. With `proxy_cache_lock` nginx passed
/// one of these requests on, and the others looked every 500 ms whether it was their turn, for 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_do_not_wait_for_each_other() {
    if !has_nginx() {
        return;
    }
    let server = answers_all_at_once().await.to_string();
    let dir = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(dir.path(), &documented(dir.path(), [&server, &server]));
    let url = format!("{}/v1/overview", nginx.base);
    let clients = (0..EQUAL).map(|_| {
        let url = url.clone();
        tokio::spawn(async move {
            let client = reqwest::Client::new();
            for round in 0..ROUNDS {
                let answer = timeout(PATIENCE, fetch(&client, &url)).await;
                let (status, kept, _) = answer
                    .unwrap_or_else(|_| panic!("a request of round {round} waited for another"));
                assert_eq!((status, kept.as_str()), (200, "MISS"), "{round}");
            }
        })
    });
    let clients: Vec<JoinHandle<()>> = clients.collect();
    for client in clients {
        client.await.unwrap();
    }
}

/// Without settings of its own, nginx speaks HTTP/1.0 to its upstreams.
#[tokio::test(flavor = "multi_thread")]
async fn a_stock_nginx_passes_whole_answers_on() {
    if !has_nginx() {
        return;
    }
    let readers = Readers::new(622).await;
    let (running, one) = readers.start(0);
    let nginx = stock(&readers, &one);
    let client = reqwest::Client::builder().no_gzip().build().unwrap();
    for format in ["json", "ndjson", "csv"] {
        let path = format!(
            "/v1/chains/31337/logs?fromBlock=0&toBlock={FINAL}&limit={LIMIT}&format={format}"
        );
        let (_, _, expected) = fetch(&client, &format!("http://{one}{path}")).await;
        assert!(expected.len() > 1 << 20, "{format}: {}", expected.len());
        let (status, _, body) = fetch(&client, &format!("{}{path}", nginx.base)).await;
        assert_eq!(status, 200, "{format}");
        assert!(body == expected, "{format}: {} bytes", body.len());
    }
    running.stop();
}

/// Passes one answer on, and waits in the middle of it.
struct Relay {
    address: SocketAddr,
    in_middle: oneshot::Receiver<()>,
    go_on: oneshot::Sender<()>,
    /// How many bytes came in all.
    passed: JoinHandle<usize>,
}

impl Relay {
    async fn start(to: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (reached, in_middle) = oneshot::channel();
        let (go_on, may_go_on) = oneshot::channel();
        let passed = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let socket = TcpSocket::new_v4().unwrap();
            // What a program has sent arrives also after its end: little of it may be on its way.
            socket.set_recv_buffer_size(4_096).unwrap();
            let mut server = socket.connect(to).await.unwrap();
            let mut part = vec![0; 8_192];
            let length = client.read(&mut part).await.unwrap();
            server.write_all(&part[..length]).await.unwrap();
            let mut passed = 0;
            while passed < MIDDLE {
                let length = server.read(&mut part).await.unwrap();
                assert!(length > 0, "the answer ended at {passed}");
                client.write_all(&part[..length]).await.unwrap();
                passed += length;
            }
            reached.send(()).unwrap();
            may_go_on.await.unwrap();
            // The rest ends like the connection of a program that was killed: with an error or without.
            while let Ok(length @ 1..) = server.read(&mut part).await {
                client.write_all(&part[..length]).await.unwrap();
                passed += length;
            }
            passed
        });
        Self {
            address,
            in_middle,
            go_on,
            passed,
        }
    }
}

/// nginx has sent the head of the answer by then, with status 200. A length is all that tells its client that the rest
/// is missing.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_reader_that_is_killed_does_not_look_whole() {
    if !has_nginx() {
        return;
    }
    let content = ChainSpec {
        logs_per_block: 100,
        ..ChainSpec::tiny(624)
    };
    let readers = Readers::of(EvmSpec {
        content,
        ..EvmSpec::tiny(624)
    });
    let readers = readers.await;
    let (reader, one) = readers.start(0);
    let path = format!("/v1/chains/31337/logs/download?fromBlock=0&toBlock={FINAL}");
    let client = reqwest::Client::builder().no_gzip().build().unwrap();
    let (status, _, whole) = fetch(&client, &format!("http://{one}{path}")).await;
    assert_eq!(status, 200);
    assert!(whole.len() > LONG, "{} bytes are too few", whole.len());
    assert!(is_complete(&whole), "it has no last line");
    let relay = Relay::start(one.parse().unwrap()).await;
    let nginx = stock(&readers, &relay.address.to_string());
    let url = format!("{}{path}", nginx.base);
    let mut answer = client.get(url).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(answer.content_length(), Some(whole.len() as u64));
    relay.in_middle.await.unwrap();
    tokio::task::block_in_place(|| reader.kill());
    relay.go_on.send(()).unwrap();
    let mut got = Vec::new();
    let end = loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => got.extend_from_slice(&chunk),
            end => break end,
        }
    };
    let passed = relay.passed.await.unwrap();
    assert!(passed < whole.len(), "the answer was sent before the kill");
    assert!(end.is_err(), "{} bytes passed for an answer", got.len());
    assert!(whole.starts_with(&got), "other bytes were sent");
    assert!(!is_complete(&got));
}

/// Whether lines end with the one that says that nothing is missing.
fn is_complete(lines: &[u8]) -> bool {
    let lines = String::from_utf8_lossy(lines);
    let last = lines.lines().last().unwrap_or_default();
    lines.ends_with('\n') && last.starts_with(r#"{"complete":true,"#)
}

/// What a client of HTTP/1.0 gets: the head, and all bytes until the connection ends.
async fn fetch_as_1_0(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.unwrap() + 4);
    (String::from_utf8(answer).unwrap().to_lowercase(), body)
}

/// The end of its connection is the end of an answer without a length, so an answer that is too long to be held must not
/// begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_http_1_0_gets_an_error_instead_of_a_part() {
    let readers = Readers::new(625).await;
    let limits = r#""metricsPort": 0, "limits": { "answerMib": 1 }"#;
    readers.bench.change(r#""metricsPort": 0"#, limits);
    let (running, one) = readers.start(0);
    let nginx = has_nginx().then(|| stock(&readers, &one));
    let logs = "/v1/chains/31337/logs";
    let client = reqwest::Client::builder().no_gzip().build().unwrap();
    for path in [
        format!("{logs}/download?fromBlock=0&toBlock={FINAL}"),
        format!("{logs}?fromBlock=0&toBlock={FINAL}&limit={LIMIT}"),
        format!("{logs}?fromBlock=0&toBlock={FINAL}&limit={LIMIT}&format=csv&order=desc"),
    ] {
        let (status, _, whole) = fetch(&client, &format!("http://{one}{path}")).await;
        assert_eq!(status, 200, "{path}");
        assert!(whole.len() > 1 << 20, "{path}: {} bytes", whole.len());
        let (head, body) = fetch_as_1_0(&one, &path).await;
        assert!(
            head.starts_with("http/1.1 422 ") || head.starts_with("http/1.0 422 "),
            "{head}"
        );
        assert!(head.contains("\r\ncache-control: no-store\r\n"), "{head}");
        let length = format!("\r\ncontent-length: {}\r\n", body.len());
        assert!(head.contains(&length), "{head}");
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(error["code"], "TOO_LARGE", "{path}: {error}");
        assert_eq!(
            (&error["budget"], &error["limit"]),
            (&json!("responseBytes"), &json!(1 << 20))
        );
        if let Some(nginx) = &nginx {
            let (status, _, body) = fetch(&client, &format!("{}{path}", nginx.base)).await;
            let error: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(
                (status, &error["code"]),
                (422, &json!("TOO_LARGE")),
                "{path}"
            );
        }
    }
    let (head, body) =
        fetch_as_1_0(&one, &format!("{logs}?fromBlock=0&toBlock={FINAL}&limit=5")).await;
    assert!(head.contains(" 200 ok\r\n"), "{head}");
    assert!(
        head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())),
        "{head}"
    );
    running.stop();
}

/// Clients that never stop asking, and compare each answer.
struct Load {
    end: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    async fn start(base: &str) -> Self {
        let page =
            format!("{base}/v1/chains/31337/logs?fromBlock=0&toBlock=finalized&limit={LIMIT}");
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs",
            "params": [{ "fromBlock": "0x0", "toBlock": "0x40" }] });
        let client = reqwest::Client::builder().no_gzip().build().unwrap();
        let (_, _, expected) = fetch(&client, &page).await;
        let rpc = format!("{base}/31337");
        let (_, logs) = post(&client, &rpc, &call).await;
        let (end, answers) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let mut clients = Vec::new();
        for number in 0..6 {
            let (end, answers, client) = (end.clone(), answers.clone(), client.clone());
            let (page, rpc, call) = (page.clone(), rpc.clone(), call.clone());
            let (expected, logs) = (expected.clone(), logs.clone());
            clients.push(tokio::spawn(async move {
                while !end.load(Ordering::SeqCst) {
                    if number % 2 == 0 {
                        let (status, _, body) = fetch(&client, &page).await;
                        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
                        assert!(body == expected, "an answer was cut at {}", body.len());
                    } else {
                        let (status, body) = post(&client, &rpc, &call).await;
                        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
                        assert!(body == logs, "an answer was cut at {}", body.len());
                    }
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        Self {
            end,
            answers,
            clients,
        }
    }

    /// Waits for this many more answers.
    async fn answers(&self, more: usize) {
        let until = self.answers.load(Ordering::SeqCst) + more;
        while self.answers.load(Ordering::SeqCst) < until {
            assert!(self.clients.iter().all(|client| !client.is_finished()));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) {
        self.end.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_is_not_noticed_by_clients() {
    if !has_nginx() {
        return;
    }
    let readers = Readers::new(623).await;
    let ((first, one), (second, other)) = (readers.start(0), readers.start(0));
    let dir = readers.bench.dir.path().join("nginx");
    let nginx = Nginx::start(&dir, &documented(&dir, [&one, &other]));
    let load = Load::start(&nginx.base).await;
    let port = |address: &str| address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    load.answers(40).await;
    let mut running = vec![(first, &one), (second, &other)];
    for _ in 0..6 {
        let (stopped, address) = running.remove(0);
        tokio::task::block_in_place(|| stopped.stop());
        // The program that comes after it takes its address again.
        let (started, again) = tokio::task::block_in_place(|| readers.start(port(address)));
        assert_eq!(&again, address);
        running.push((started, address));
        load.answers(40).await;
    }
    load.end().await;
    let cut = readers.bench.events("connections_cut");
    assert!(cut.is_empty(), "{cut:?}");
    running.into_iter().for_each(|(reader, _)| reader.stop());
    let url = format!("{}/v1/chains", nginx.base);
    let (status, ..) = fetch(&reqwest::Client::new(), &url).await;
    assert_eq!(status, 502, "nginx has no reader left");
}

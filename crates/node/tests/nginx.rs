//! A real nginx in front of readers, with the settings that docs/deployment.md shows, and with none of its own: what
//! it may keep is kept, nothing is cut, and a rolling restart is not noticed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use support::{Bench, DEPTH_5, Running, serve};

const BLOCKS: u64 = 400;
const FINAL: u64 = BLOCKS - 5;
/// More than is sent without a length.
const LIMIT: usize = 5_000;
/// How often nginx is started, if another program took its port.
const STARTS_MAX: usize = 10;

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
        let node = EvmNode::new(EvmSpec::tiny(seed), BLOCKS);
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

/// Without settings of its own, nginx speaks HTTP/1.0 to its upstreams.
#[tokio::test(flavor = "multi_thread")]
async fn a_stock_nginx_passes_whole_answers_on() {
    if !has_nginx() {
        return;
    }
    let readers = Readers::new(622).await;
    let (running, one) = readers.start(0);
    let dir = readers.bench.dir.path().join("nginx");
    let text =
        format!("server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://{one}; }} }}");
    let nginx = Nginx::start(&dir, &text);
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

/// Clients that never stop asking, and compare each answer.
struct Load {
    end: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    clients: Vec<tokio::task::JoinHandle<()>>,
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

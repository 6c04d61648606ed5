//! A client that only sends and counts: requests are made before, answers are not parsed.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const WARM_UP: Duration = Duration::from_millis(500);
const LASTING: Duration = Duration::from_secs(3);

pub(crate) const TABLE: &str = "what                                   who         at once   p50 us    p99 us  first byte us  requests/s    MB/s";

/// What asking came to.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Measured {
    pub(crate) p50_us: f64,
    p99_us: f64,
    first_us: f64,
    pub(crate) per_second: f64,
    megabytes: f64,
    /// Logs in an answer, over all requests.
    pub(crate) logs: f64,
}

impl Measured {
    fn print(&self) {
        let Self {
            p50_us,
            p99_us,
            first_us,
            per_second,
            megabytes,
            logs,
        } = self;
        println!("{p50_us} {p99_us} {first_us} {per_second} {megabytes} {logs}");
    }

    pub(crate) fn read(text: &str) -> Result<Self> {
        let numbers: Vec<f64> = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [p50_us, p99_us, first_us, per_second, megabytes, logs] = numbers.as_slice() else {
            bail!("six numbers were expected: {text}");
        };
        Ok(Self {
            p50_us: *p50_us,
            p99_us: *p99_us,
            first_us: *first_us,
            per_second: *per_second,
            megabytes: *megabytes,
            logs: *logs,
        })
    }

    pub(crate) fn row(&self, name: &str, who: &str, connections: usize) -> String {
        format!(
            "{name:<38} {who:<11} {connections:>7}  {:>7.0}  {:>8.0}  {:>13.0}  {:>10.0}  {:>6.0}",
            self.p50_us, self.p99_us, self.first_us, self.per_second, self.megabytes
        )
    }
}

/// One answer: to which request, how long until it began and ended, how long it is, and how many logs
/// are in it.
struct Answer {
    at: usize,
    first: Duration,
    whole: Duration,
    bytes: usize,
    logs: usize,
}

/// Whose turn it is: requests that were sent, and those of them that count.
#[derive(Default)]
struct Turns {
    next: AtomicUsize,
    counted: AtomicUsize,
}

/// Each connection is an open file, and the usual limit is about as many.
fn raise_files() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    // Where it cannot be raised, connecting fails and says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

pub(crate) fn run(target: &str, requests: &Path, connections: usize) -> Result<ExitCode> {
    let (host, path) = target.split_once('/').unwrap_or((target, ""));
    let text = std::fs::read_to_string(requests)?;
    let requests: Vec<Vec<u8>> = text.lines().map(|line| http(host, path, line)).collect();
    ensure!(!requests.is_empty(), "there is nothing to ask");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    raise_files();
    let turns = Turns::default();
    let (answers, lasted) = runtime.block_on(async {
        let began = Instant::now();
        let asking = (0..connections).map(|_| ask(host, &requests, &turns));
        let answers = futures::future::try_join_all(asking).await?;
        Ok::<_, anyhow::Error>((answers, began.elapsed().saturating_sub(WARM_UP)))
    })?;
    let seconds = lasted.as_secs_f64();
    let mut answers: Vec<Answer> = answers.into_iter().flatten().collect();
    ensure!(answers.len() > 10, "only {} answers", answers.len());
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
    answers.sort_by_key(|answer| answer.whole);
    let at = |part: f64| answers.get((answers.len() as f64 * part) as usize);
    let bytes: usize = answers.iter().map(|answer| answer.bytes).sum();
    // Each request once, however often it was sent: both who are compared must have found the same.
    let logs: HashMap<usize, usize> = answers.iter().map(|one| (one.at, one.logs)).collect();
    ensure!(logs.len() == requests.len(), "not everything was asked");
    let all: usize = logs.values().sum();
    Measured {
        p50_us: at(0.5).map_or(0.0, |answer| micros(answer.whole)),
        p99_us: at(0.99).map_or(0.0, |answer| micros(answer.whole)),
        first_us: at(0.5).map_or(0.0, |answer| micros(answer.first)),
        per_second: answers.len() as f64 / seconds,
        megabytes: bytes as f64 / seconds / 1e6,
        logs: all as f64 / requests.len() as f64,
    }
    .print();
    Ok(ExitCode::SUCCESS)
}

fn http(host: &str, path: &str, line: &str) -> Vec<u8> {
    match line.strip_prefix("GET ") {
        Some(path) => format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"),
        None => format!(
            "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{line}",
            line.len()
        ),
    }
    .into_bytes()
}

async fn ask(host: &str, requests: &[Vec<u8>], turns: &Turns) -> Result<Vec<Answer>> {
    let mut stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let (mut answers, mut buffer) = (Vec::new(), Vec::new());
    let began = Instant::now();
    loop {
        let since = began.elapsed();
        // Whoever is slow is asked for longer: all that is asked must have been answered.
        let all_asked = turns.counted.load(Ordering::Relaxed) >= requests.len();
        if since > WARM_UP + LASTING && all_asked {
            return Ok(answers);
        }
        let at = turns.next.fetch_add(1, Ordering::Relaxed) % requests.len();
        let request = requests.get(at).context("no such request")?;
        if since > WARM_UP {
            turns.counted.fetch_add(1, Ordering::Relaxed);
        }
        let sent = Instant::now();
        stream.write_all(request).await?;
        let first = read_answer(&mut stream, &mut buffer, sent).await?;
        let whole = sent.elapsed();
        ensure!(
            buffer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer)
        );
        let error = memchr::memmem::find(&buffer, b"\"error\":");
        ensure!(error.is_none(), "{}", String::from_utf8_lossy(&buffer));
        if since > WARM_UP {
            let logs = memchr::memmem::find_iter(&buffer, b"\"logIndex\"").count();
            let bytes = buffer.len();
            answers.push(Answer {
                at,
                first,
                whole,
                bytes,
                logs,
            });
        }
    }
}

/// Reads a whole answer; returns when its first bytes came.
async fn read_answer(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    sent: Instant,
) -> Result<Duration> {
    buffer.clear();
    let mut first = None;
    let mut end: Option<usize> = None;
    loop {
        let read = stream.read_buf(buffer).await?;
        ensure!(read > 0, "the server closed the connection");
        first.get_or_insert_with(|| sent.elapsed());
        if end.is_none()
            && let Some(head) = memchr::memmem::find(buffer, b"\r\n\r\n")
        {
            let text = String::from_utf8_lossy(buffer.get(..head).unwrap_or_default())
                .to_ascii_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            end = Some(match length {
                Some(length) => head + 4 + length.trim().parse::<usize>()?,
                None => usize::MAX,
            });
        }
        let is_whole = match end {
            Some(usize::MAX) => buffer.ends_with(b"\r\n0\r\n\r\n"),
            Some(end) => buffer.len() >= end,
            None => false,
        };
        if is_whole {
            return first.context("no bytes came");
        }
    }
}

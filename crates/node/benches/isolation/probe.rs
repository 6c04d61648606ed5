//! Short requests at a steady pace: how long they take while others load the program.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

/// Between two requests of a probe.
const PAUSE: Duration = Duration::from_millis(10);
/// No answer may take longer: the request has failed then.
const PATIENCE: Duration = Duration::from_secs(60);
/// A probe with fewer answers says nothing.
const ANSWERS_MIN: usize = 10;
/// What every error over JSON-RPC has, whose status is 200.
const RPC_ERROR: &[u8] = br#""error":{"#;

pub(crate) const TABLE: &str = "load                                     request                     requests    p50 ms    p99 ms    max ms  target p99";

/// A thread that sends one request again and again over one connection, and over another one after a failure.
pub(crate) struct Probe {
    name: &'static str,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Answers>,
}

/// What came of the requests of a probe.
#[derive(Default)]
struct Answers {
    waited: Vec<Duration>,
    failures: usize,
    failure: Option<String>,
}

/// What a probe waited, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    pub(crate) name: &'static str,
    /// Those that were answered.
    pub(crate) requests: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// Those that were refused or cut, and why the last one was.
    pub(crate) failures: usize,
    pub(crate) failure: Option<String>,
}

impl Probe {
    /// Sends this request to an address until it is stopped. The first line of the answer must have the status 200,
    /// and no error of JSON-RPC may follow.
    pub(crate) fn start(name: &'static str, address: &str, request: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, address) = (stop.clone(), address.to_owned());
        let thread = std::thread::spawn(move || probe(&address, &request, &ends));
        Self { name, stop, thread }
    }

    pub(crate) fn stop(self) -> Result<Waited> {
        self.stop.store(true, Ordering::Relaxed);
        let name = self.name;
        let ended = self.thread.join();
        let answers = ended.map_err(|_| anyhow!("the probe {name} panicked"))?;
        let Answers {
            mut waited,
            mut failures,
            mut failure,
        } = answers;
        if waited.len() < ANSWERS_MIN {
            failures += 1;
            failure.get_or_insert_with(|| format!("only {} answers", waited.len()));
        }
        waited.sort_unstable();
        let at = |part: f64| {
            let found = waited.get((waited.len() as f64 * part) as usize);
            found.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        Ok(Waited {
            name,
            requests: waited.len(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0 - f64::EPSILON),
            failures,
            failure,
        })
    }
}

/// A request for a path.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n")
}

/// A request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn probe(address: &str, request: &str, stop: &AtomicBool) -> Answers {
    let (mut answers, mut open) = (Answers::default(), None);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        match ask(&mut open, address, request) {
            Ok(()) => answers.waited.push(began.elapsed()),
            Err(error) => {
                open = None;
                answers.failures += 1;
                answers.failure = Some(format!("{error:#}"));
            }
        }
        std::thread::sleep(PAUSE);
    }
    answers
}

/// Sends the request over the open connection, or over a new one.
fn ask(open: &mut Option<TcpStream>, address: &str, request: &str) -> Result<()> {
    let stream = match open {
        Some(stream) => stream,
        None => open.insert(connect(address)?),
    };
    stream.write_all(request.as_bytes())?;
    read_answer(stream)
}

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads an answer with a length to its end. Its status must be 200, and it must be no error.
fn read_answer(stream: &mut TcpStream) -> Result<()> {
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the connection ended");
        answer.extend_from_slice(buffer.get(..read).context("an answer")?);
        let Some(head) = memchr::memmem::find(&answer, b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(answer.get(..head).context("a head")?);
        ensure!(text.starts_with("HTTP/1.1 200"), "{text}");
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.context("an answer without a length")?.parse()?;
        if answer.len() < head + 4 + length {
            continue;
        }
        let body = answer.get(head + 4..).context("a body")?;
        if memchr::memmem::find(body, RPC_ERROR).is_some() {
            bail!("{}", String::from_utf8_lossy(body));
        }
        return Ok(());
    }
}

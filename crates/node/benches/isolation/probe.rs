//! Short requests at a steady pace: how long they take while others load the program.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Between two requests of a probe.
const PAUSE: Duration = Duration::from_millis(10);
/// No answer may take longer: the probe fails then.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const TABLE: &str = "load                                     request                     requests    p50 ms    p99 ms    max ms  target p99";

/// A thread that sends one request again and again over one connection.
pub(crate) struct Probe {
    name: &'static str,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Duration>>>,
}

/// What a probe waited, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) name: &'static str,
    pub(crate) requests: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Probe {
    /// Sends this request to an address until it is stopped. The first line of the answer must have the status 200.
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
        let Ok(waited) = ended else {
            bail!("the probe {name} panicked");
        };
        let mut waited = waited.with_context(|| format!("the probe {name}"))?;
        ensure!(waited.len() > 10, "only {} answers to {name}", waited.len());
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
        })
    }
}

impl Waited {
    pub(crate) fn print(&self, load: &str, target_ms: Option<f64>) {
        let target = target_ms.map_or_else(
            || "–".to_owned(),
            |target| {
                let met = if self.p99_ms <= target {
                    "met"
                } else {
                    "MISSED"
                };
                format!("{target:.0} {met}")
            },
        );
        println!(
            "{load:<40} {:<26} {:>9} {:>9.1} {:>9.1} {:>9.1}  {target}",
            self.name, self.requests, self.p50_ms, self.p99_ms, self.max_ms
        );
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

fn probe(address: &str, request: &str, stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut waited = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        stream.write_all(request.as_bytes())?;
        read_answer(&mut stream)?;
        waited.push(began.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(waited)
}

/// Reads an answer with a length to its end. Its status must be 200.
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
        if answer.len() >= head + 4 + length {
            return Ok(());
        }
    }
}

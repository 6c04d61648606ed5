//! The access log: a line of JSON for each answer, written at its end.
//!
//! Lines wait in a bounded queue for a thread of their own. Where it is full they are dropped and counted: no answer
//! waits for a disk. No line has a key, a body or a query.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use chrono::{DateTime, SecondsFormat};
use metrics::{Counter, counter};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::visit::Seen;

/// Lines that wait to be written.
const QUEUE_LINES: usize = 8_192;

/// Reads the wall clock, in milliseconds since 1970: the process passes it in.
pub type MillisClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Takes the requests that are logged.
#[derive(Clone)]
pub struct AccessLog {
    lines: SyncSender<Value>,
    clock: MillisClock,
    dropped: Counter,
}

/// The lines that wait to be written.
pub struct LogLines {
    lines: Receiver<Value>,
    dropped: Counter,
}

impl AccessLog {
    /// A log, and its lines: they are to be written on a thread of their own.
    #[must_use]
    pub fn new(clock: MillisClock) -> (Self, LogLines) {
        let (sender, receiver) = sync_channel(QUEUE_LINES);
        let dropped = counter!("chronolith_access_log_dropped_total");
        dropped.increment(0);
        let log = Self {
            lines: sender,
            clock,
            dropped: dropped.clone(),
        };
        let lines = LogLines {
            lines: receiver,
            dropped,
        };
        (log, lines)
    }

    pub(super) fn note(&self, seen: Seen, bytes: u64, is_complete: bool) {
        let line = self.line(seen, bytes, is_complete);
        if self.lines.try_send(line).is_err() {
            self.dropped.increment(1);
        }
    }

    fn line(&self, seen: Seen, bytes: u64, is_complete: bool) -> Value {
        let now = Instant::now();
        let took = now.saturating_duration_since(seen.started);
        let millis = i64::try_from((self.clock)()).ok();
        let time = millis.and_then(DateTime::from_timestamp_millis);
        let time = time.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
        let calls = seen.calls();
        let mut line = json!({
            "time": time,
            "requestId": seen.id,
            "peer": seen.peer,
            "method": seen.method.as_str(),
            "route": seen.route,
            "path": seen.path,
            "status": seen.status.as_u16(),
            "bytes": bytes,
            "complete": is_complete,
            "durationMs": (took.as_secs_f64() * 1_000_000.0).round() / 1_000.0,
        });
        let chain = seen.chain.map(|chain| chain.to_string());
        let key = seen.caller.as_ref().map(|caller| caller.name.to_string());
        let is_rpc = calls.count > 0;
        let more = [
            ("key", key.map(Value::from)),
            ("chain", chain.map(Value::from)),
            ("forwardedFor", seen.forwarded_for.map(Value::from)),
            ("calls", is_rpc.then(|| calls.count.into())),
            ("rpcMethods", is_rpc.then(|| calls.methods.into())),
        ];
        if let Some(fields) = line.as_object_mut() {
            let more = more.into_iter();
            fields.extend(more.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        line
    }
}

impl LogLines {
    /// Writes lines until every [`AccessLog`] is gone. A line that cannot be written is counted as dropped.
    pub fn write_to(self, mut out: impl Write) {
        let mut is_broken = false;
        while let Ok(first) = self.lines.recv() {
            let mut written = write_line(&mut out, &first);
            let mut count = 1;
            // Together as long as there are more: one write for each line would be slower than the requests.
            while written.is_ok()
                && let Ok(next) = self.lines.try_recv()
            {
                written = write_line(&mut out, &next);
                count += 1;
            }
            match written.and_then(|()| out.flush()) {
                Ok(()) => is_broken = false,
                Err(error) => {
                    self.dropped.increment(count);
                    if !std::mem::replace(&mut is_broken, true) {
                        tracing::warn!(%error, "the access log cannot be written, its lines are dropped");
                    }
                }
            }
        }
    }
}

fn write_line(out: &mut impl Write, line: &Value) -> io::Result<()> {
    let mut text = line.to_string();
    text.push('\n');
    out.write_all(text.as_bytes())
}

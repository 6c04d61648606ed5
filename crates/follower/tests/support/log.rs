//! The log of the chains of one test.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use serde_json::Value;
use tracing::subscriber::NoSubscriber;

thread_local! {
    /// What this thread has logged, while that is collected.
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Collects what this thread logs while it lives. The runtime of a test must have one thread.
#[derive(Debug)]
pub struct Log(());

/// Writes to the lines of the thread.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One subscriber for all threads: a log line that is first written on a thread without a subscriber would stay
/// disabled on every other.
fn subscribe() {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_writer(|| Lines)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        // Another one makes every line that was disabled meanwhile look again.
        drop(tracing::Dispatch::new(NoSubscriber::default()));
    });
}

impl Log {
    pub fn capture() -> Self {
        subscribe();
        LINES.set(Some(Vec::new()));
        Self(())
    }

    pub fn text(&self) -> String {
        let lines = LINES.with_borrow(Option::clone);
        String::from_utf8(lines.unwrap()).unwrap()
    }

    /// The fields of every line of this event, in order.
    pub fn events(&self, event: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines();
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let fields = lines.map(|mut line| line["fields"].take());
        fields.filter(|fields| fields["event"] == event).collect()
    }

    pub fn count(&self, event: &str) -> usize {
        self.events(event).len()
    }

    pub fn has(&self, event: &str) -> bool {
        self.count(event) > 0
    }

    /// Whether a line of this event has this text in this field.
    pub fn has_with(&self, event: &str, field: &str, text: &str) -> bool {
        let has = |line: &Value| {
            let value = line[field].as_str();
            value.is_some_and(|value| value.contains(text))
        };
        self.events(event).iter().any(has)
    }

    /// Whether one line contains all of these texts.
    pub fn has_line(&self, texts: &[&str]) -> bool {
        let text = self.text();
        let mut lines = text.lines();
        lines.any(|line| texts.iter().all(|one| line.contains(one)))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

//! The fields that traces carry, read from what a subscriber prints.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, LogFilter};
use support::{Stores, ingest, tiny_chain, tiny_settings};
use tracing_subscriber::fmt::MakeWriter;

/// Collects what is printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Printed {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn publishing_and_asking_leave_their_fields_in_traces() {
    let printed = Printed::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(printed.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let stores = Stores::memory();
    let writer = stores.writer(&tiny_settings()).await;
    ingest(&writer, &tiny_chain(3), BlockRange::new(0, 30), &[10]).await;
    let mut filter = LogFilter::over(BlockRange::new(0, 30));
    let term = Bytes::from_static(b"a term that no log carries");
    filter.emitters = Clause::OneOf(vec![term.clone(); 20]);
    writer.query_finalized(&filter).await.unwrap();
    filter = LogFilter::over(BlockRange::new(0, 31));
    writer.query_finalized(&filter).await.unwrap_err();

    let printed = String::from_utf8(printed.0.lock().unwrap().clone()).unwrap();
    let line = |words: &[&str]| {
        let found = printed
            .lines()
            .find(|line| words.iter().all(|word| line.contains(word)));
        assert!(found.is_some(), "no line has {words:?}:\n{printed}");
    };
    line(&[
        "archive open for writing",
        "writer_epoch=1",
        "state_version=",
    ]);
    line(&[
        "published",
        "block_num=29",
        "writer_epoch=1",
        "state_version=",
    ]);
    // Lines within a span carry it: what was appended, and the publishing as a part of it.
    line(&[
        "archive.append{chain=7 blocks=10",
        "archive.publish{chain=7 edits=1",
        "published",
    ]);
    line(&["query", "query_id=0", "candidates=0", "stream_id="]);
    line(&["query refused", "query_id=1", "not covered"]);
    let queried = printed.lines().find(|line| line.contains("stream_id="));
    assert!(queried.unwrap().len() < 400, "a long filter is shortened");
}

//! What a connection is doing, so that one can be chosen and closed when there is no room for another.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long the body of a request may be waited for before its connection makes room for another one.
const BODY_KEPT: Duration = Duration::from_secs(1);
const NOT_WAITING: u64 = u64::MAX;

/// What a connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    opened: Instant,
    /// When bytes were last read or written, in milliseconds after it was opened.
    moved_ms: AtomicU64,
    /// Requests that began.
    started: AtomicUsize,
    /// Requests whose answer is not sent yet.
    answering: AtomicUsize,
    /// Whether bytes wait for the client to read.
    writing: AtomicBool,
    /// Since when the body of a request is waited for, in milliseconds after it was opened; [`NOT_WAITING`] where none is.
    waiting_ms: AtomicU64,
    close: Notify,
    /// Whether it was idle when it was chosen to be closed.
    was_idle: AtomicBool,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            moved_ms: AtomicU64::new(0),
            started: AtomicUsize::new(0),
            answering: AtomicUsize::new(0),
            writing: AtomicBool::new(false),
            waiting_ms: AtomicU64::new(NOT_WAITING),
            close: Notify::new(),
            was_idle: AtomicBool::new(false),
        }
    }

    /// Bytes were read or written.
    pub(super) fn moved(&self) {
        self.moved_ms.store(self.age_ms(), Ordering::Relaxed);
    }

    /// Milliseconds since it was opened.
    fn age_ms(&self) -> u64 {
        let ms = self.opened.elapsed().as_millis();
        u64::try_from(ms).unwrap_or(NOT_WAITING)
    }

    fn set_waiting_for_body(&self, waiting: bool) {
        let ms = if waiting { self.age_ms() } else { NOT_WAITING };
        self.waiting_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether the body of a request is late: announcing one costs a client nothing.
    fn is_body_late(&self) -> bool {
        let since = self.waiting_ms.load(Ordering::Relaxed);
        since != NOT_WAITING && self.age_ms().saturating_sub(since) >= BODY_KEPT.as_millis() as u64
    }

    pub(super) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
    }

    /// How many requests began.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// A request begins: the connection is not idle until its answer was handed over.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.answering.fetch_add(1, Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Whether an answer is being made or handed over.
    pub(super) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }

    /// Whether bytes wait for the client to read.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }

    /// Ends the connection, whatever it is doing.
    pub(super) fn cut(&self) {
        self.was_idle.store(false, Ordering::Relaxed);
        self.close.notify_one();
    }

    /// Whether nothing is being answered or sent. Only its own connection changes that.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_answering() && !self.writing.load(Ordering::Relaxed)
    }

    /// Whether nothing was being answered or sent when it was chosen to be closed.
    pub(super) fn was_idle(&self) -> bool {
        self.was_idle.load(Ordering::Relaxed)
    }

    fn last_moved(&self) -> Instant {
        let ms = self.moved_ms.load(Ordering::Relaxed);
        self.opened + Duration::from_millis(ms)
    }

    /// Waits until the connection is to be closed.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer, until all of it was handed over to the connection.
pub(super) struct TrackedBody {
    pub(super) body: Body,
    pub(super) _answering: Answering,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request, until all of it has come.
pub(super) struct ReceivedBody<B> {
    body: B,
    activity: Arc<Activity>,
    is_waiting: bool,
}

impl<B> ReceivedBody<B> {
    pub(super) fn new(body: B, activity: Arc<Activity>) -> Self {
        Self {
            body,
            activity,
            is_waiting: false,
        }
    }

    /// It counts from when it is first waited for: a body that is sent in small parts is late too.
    fn set_waiting(&mut self, waiting: bool) {
        if waiting != self.is_waiting {
            self.is_waiting = waiting;
            self.activity.set_waiting_for_body(waiting);
        }
    }
}

impl<B> Drop for ReceivedBody<B> {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for ReceivedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => self.set_waiting(true),
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => self.set_waiting(false),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// All open connections of a listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    open: HashMap<u64, Arc<Activity>>,
}

/// A connection in the list, until it is dropped.
pub(super) struct Registered {
    pub(super) activity: Arc<Activity>,
    id: u64,
    connections: Connections,
}

impl Connections {
    pub(super) fn register(&self) -> Registered {
        let activity = Arc::new(Activity::new());
        let mut listed = self.0.lock();
        let id = listed.next;
        listed.next += 1;
        listed.open.insert(id, activity.clone());
        Registered {
            activity,
            id,
            connections: self.clone(),
        }
    }

    /// Closes the connection that has been idle for longest, or one whose request has a late body, if there is one.
    pub(super) fn close_longest_idle(&self) -> bool {
        self.close_first(|one| one.is_idle() || one.is_body_late())
    }

    /// Closes a connection that has been open for this long, if one has: an idle one if there is one.
    pub(super) fn close_opened_before(&self, kept: Duration) -> bool {
        self.close_first(|one| one.opened.elapsed() >= kept)
    }

    /// Of these, idle ones come first, then the one that has moved no bytes for longest.
    fn close_first(&self, may_close: impl Fn(&Activity) -> bool) -> bool {
        let mut listed = self.0.lock();
        let these = listed.open.iter().filter(|(_, one)| may_close(one));
        let first = these.min_by_key(|(_, one)| (!one.is_idle(), one.last_moved()));
        let Some(id) = first.map(|(id, _)| *id) else {
            return false;
        };
        // It is closed once: until its task ends, another one is chosen.
        let closed = listed.open.remove(&id);
        closed.is_some_and(|closed| {
            closed.was_idle.store(closed.is_idle(), Ordering::Relaxed);
            closed.close.notify_one();
            true
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.connections.0.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed_and_no_busy_one() {
        let connections = Connections::default();
        let all: Vec<Registered> = (0..4).map(|_| connections.register()).collect();
        let [answering, writing, old, new] = all.as_slice() else {
            unreachable!()
        };
        let request = answering.activity.begin();
        writing.activity.set_writing(true);
        tokio::time::advance(Duration::from_secs(1)).await;
        new.activity.moved();
        let is_closed = |one: &Registered| one.activity.closed().now_or_never().is_some();
        assert!(connections.close_longest_idle());
        let closed: Vec<bool> = all.iter().map(is_closed).collect();
        assert_eq!(closed, [false, false, true, false]);
        assert!(connections.close_longest_idle() && is_closed(new));
        assert!(!connections.close_longest_idle());
        drop(request);
        assert!(connections.close_longest_idle() && is_closed(answering));
        assert_eq!(old.activity.started(), 0);
        drop(all);
        assert!(connections.0.lock().open.is_empty());
    }

    /// A request whose body never came kept its place like one that is being answered: announcing a body cost nothing.
    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_body_is_late_makes_room() {
        let connections = Connections::default();
        let all: Vec<Registered> = (0..3).map(|_| connections.register()).collect();
        let requests: Vec<Answering> = all.iter().map(|one| one.activity.begin()).collect();
        let body = |text: &'static str| {
            let parts = futures::stream::iter([Ok::<_, axum::Error>(Bytes::from(text))]);
            Body::from_stream(parts.chain(futures::stream::pending()))
        };
        let mut bodies: Vec<ReceivedBody<Body>> = [body("late"), Body::from("whole"), body("late")]
            .into_iter()
            .zip(&all)
            .map(|(body, one)| ReceivedBody::new(body, one.activity.clone()))
            .collect();
        for body in &mut bodies {
            let mut next = || {
                std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context))
                    .now_or_never()
            };
            while let Some(Some(part)) = next() {
                part.unwrap();
            }
        }
        assert!(!connections.close_longest_idle(), "they may still come");
        tokio::time::advance(BODY_KEPT).await;
        // Its answer is being made.
        bodies.pop();
        let is_closed = |one: &Registered| one.activity.closed().now_or_never().is_some();
        assert!(connections.close_longest_idle());
        assert_eq!(
            all.iter().map(is_closed).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert!(!connections.close_longest_idle());
        drop(requests);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_makes_room_once_it_had_its_time() {
        const KEPT: Duration = Duration::from_secs(1);
        let connections = Connections::default();
        let old: Vec<Registered> = (0..3).map(|_| connections.register()).collect();
        let [reading, stalled, idle] = old.as_slice() else {
            unreachable!()
        };
        let requests = [reading.activity.begin(), stalled.activity.begin()];
        tokio::time::advance(KEPT / 2).await;
        // It has not sent its request yet, and must be able to.
        let new = connections.register();
        assert!(!connections.close_opened_before(KEPT));
        tokio::time::advance(KEPT / 2).await;
        reading.activity.moved();
        idle.activity.moved();
        let is_closed = |one: &Registered| one.activity.closed().now_or_never().is_some();
        for (place, one) in [idle, stalled, reading].into_iter().enumerate() {
            assert!(
                connections.close_opened_before(KEPT) && is_closed(one),
                "{place}"
            );
        }
        assert!(!connections.close_opened_before(KEPT) && !is_closed(&new));
        drop(requests);
    }
}

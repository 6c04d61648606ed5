//! What a connection is doing, so that one can be chosen and closed when there is no room for another.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
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
/// A connection that has been idle for less is between two requests.
const IDLE_KEPT: Duration = Duration::from_secs(1);
/// A client is slow that reads less than this while bytes of an answer wait for it, for this long or longer: less than
/// others wait for its memory.
const READ_BYTES_A_SECOND: u64 = 1 << 20;
const READ_WITHIN: Duration = Duration::from_millis(500);

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
    /// Since when bytes of an answer wait for the client, and how many were written since; [`NOT_WAITING`] where none do.
    reading_ms: AtomicU64,
    read: AtomicU64,
    close: Notify,
    /// Why it was chosen to be closed.
    chosen: AtomicU8,
}

/// Which connections make room first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    Idle,
    LateBody,
    /// The next request of a client may just be on its way.
    BetweenRequests,
    Busy,
}

/// Why a connection was chosen to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chosen {
    /// It was idle.
    Idle,
    /// The body of its request was late.
    LateBody,
    /// Its client read slowly.
    SlowReader,
    /// It had its time.
    Any,
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
            reading_ms: AtomicU64::new(NOT_WAITING),
            read: AtomicU64::new(0),
            close: Notify::new(),
            chosen: AtomicU8::new(Chosen::Any as u8),
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

    /// A body is waited for, and was for this long before; or it is not.
    fn set_waiting_for_body(&self, waited: Option<Duration>) {
        let ms = waited.map_or(NOT_WAITING, |waited| {
            let waited = u64::try_from(waited.as_millis()).unwrap_or(NOT_WAITING);
            self.age_ms().saturating_sub(waited)
        });
        self.waiting_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether the body of a request is late: announcing one costs a client nothing.
    fn is_body_late(&self) -> bool {
        let since = self.waiting_ms.load(Ordering::Relaxed);
        since != NOT_WAITING && self.age_ms().saturating_sub(since) >= BODY_KEPT.as_millis() as u64
    }

    pub(super) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
        if writing && self.reading_ms.load(Ordering::Relaxed) == NOT_WAITING {
            self.read.store(0, Ordering::Relaxed);
            self.reading_ms.store(self.age_ms(), Ordering::Relaxed);
        }
    }

    /// The client took this much.
    pub(super) fn has_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the client has read too little for a while, since bytes of the answer first waited for it.
    pub(super) fn is_slow_reader(&self) -> bool {
        let since = self.reading_ms.load(Ordering::Relaxed);
        if since == NOT_WAITING || !self.writing.load(Ordering::Relaxed) {
            return false;
        }
        let waited_ms = self.age_ms().saturating_sub(since);
        let read = self.read.load(Ordering::Relaxed);
        let waited = Duration::from_millis(waited_ms);
        waited >= READ_WITHIN && read < waited_ms.saturating_mul(READ_BYTES_A_SECOND) / 1_000
    }

    /// How many requests began.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// A request begins: the connection is not idle until its answer was handed over.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.answering.fetch_add(1, Ordering::Relaxed);
        self.reading_ms.store(NOT_WAITING, Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Whether an answer is being made or handed over.
    pub(super) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }

    /// Ends the connection because its client reads slowly.
    pub(super) fn cut(&self) {
        self.choose(Chosen::SlowReader);
    }

    fn choose(&self, why: Chosen) {
        self.chosen.store(why as u8, Ordering::Relaxed);
        self.close.notify_one();
    }

    /// Whether it was chosen because its client read slowly, and does no more. Its client knows of no end.
    pub(super) fn may_go_on(&self) -> bool {
        self.chosen.load(Ordering::Relaxed) == Chosen::SlowReader as u8 && !self.is_slow_reader()
    }

    /// Whether it can be closed at once. It was chosen, but its task may have gone on meanwhile: a request that came since
    /// is answered, as the last one.
    pub(super) fn may_end(&self) -> bool {
        let chosen = self.chosen.load(Ordering::Relaxed);
        let is = |why: Chosen| chosen == why as u8;
        self.is_idle()
            || is(Chosen::Any)
            || (is(Chosen::LateBody) && self.is_body_late())
            || (is(Chosen::SlowReader) && self.is_slow_reader())
    }

    /// Whether nothing is being answered or sent. Only its own connection changes that.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_answering() && !self.writing.load(Ordering::Relaxed)
    }

    fn rank(&self) -> Rank {
        match self.is_idle() {
            true if self.last_moved().elapsed() >= IDLE_KEPT => Rank::Idle,
            _ if self.is_body_late() => Rank::LateBody,
            true => Rank::BetweenRequests,
            false => Rank::Busy,
        }
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
    /// Since when the next part is waited for.
    since: Option<Instant>,
    /// How long other parts were waited for: a body that is sent in small parts is late too.
    waited: Duration,
}

impl<B> ReceivedBody<B> {
    pub(super) fn new(body: B, activity: Arc<Activity>) -> Self {
        Self {
            body,
            activity,
            since: None,
            waited: Duration::ZERO,
        }
    }

    fn begin_to_wait(&mut self) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
            self.activity.set_waiting_for_body(Some(self.waited));
        }
    }

    /// Something came. While the server does not read on, the client is not late.
    fn end_to_wait(&mut self) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
            self.activity.set_waiting_for_body(None);
        }
    }
}

impl<B> Drop for ReceivedBody<B> {
    fn drop(&mut self) {
        self.end_to_wait();
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
            Poll::Pending => self.begin_to_wait(),
            Poll::Ready(_) => self.end_to_wait(),
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

    /// Closes the connection that has been idle for longest, or one whose request has a late body, if there is one. None
    /// that is between two requests: where strangers connect as fast as they can, it would be the oldest.
    pub(super) fn close_longest_idle(&self) -> bool {
        self.close_first(|one| matches!(one.rank(), Rank::Idle | Rank::LateBody))
    }

    /// Closes a connection that has been open for this long, if one has: an idle one if there is one.
    pub(super) fn close_opened_before(&self, kept: Duration) -> bool {
        self.close_first(|one| one.opened.elapsed() >= kept)
    }

    /// Of these, the first in the order of [`Rank`], and there the one that has moved no bytes for longest.
    fn close_first(&self, may_close: impl Fn(&Activity) -> bool) -> bool {
        let mut listed = self.0.lock();
        let these = listed.open.iter().filter(|(_, one)| may_close(one));
        let first = these.min_by_key(|(_, one)| (one.rank(), one.last_moved()));
        let Some(id) = first.map(|(id, _)| *id) else {
            return false;
        };
        // It is closed once: until its task ends, another one is chosen.
        let closed = listed.open.remove(&id);
        closed.is_some_and(|closed| {
            let why = match (closed.is_idle(), closed.is_body_late()) {
                (true, _) => Chosen::Idle,
                (false, true) => Chosen::LateBody,
                (false, false) => Chosen::Any,
            };
            closed.choose(why);
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
        assert!(
            !connections.close_longest_idle(),
            "a request may be on its way"
        );
        tokio::time::advance(IDLE_KEPT).await;
        assert!(connections.close_longest_idle() && is_closed(new));
        assert!(!connections.close_longest_idle());
        drop(request);
        assert!(connections.close_longest_idle() && is_closed(answering));
        assert_eq!(old.activity.started(), 0);
        drop(all);
        assert!(connections.0.lock().open.is_empty());
    }

    /// Fast clients must not be cut where memory is short, however long their answer is.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_fast_is_not_slow() {
        for (kib_a_second, is_slow) in [(0, true), (35, true), (900, true), (1_100, false)] {
            let connections = Connections::default();
            let activity = connections.register().activity.clone();
            let _request = activity.begin();
            // Time until something is sent does not count.
            tokio::time::advance(READ_WITHIN * 5).await;
            activity.set_writing(true);
            assert!(!activity.is_slow_reader());
            for _ in 0..30 {
                tokio::time::advance(Duration::from_millis(100)).await;
                activity.set_writing(false);
                activity.has_read(kib_a_second * 1_024 / 10);
                assert!(!activity.is_slow_reader(), "nothing waits for it");
                activity.set_writing(true);
            }
            assert_eq!(activity.is_slow_reader(), is_slow, "{kib_a_second} KiB/s");
            activity.cut();
            assert_eq!(activity.may_end(), is_slow, "{kib_a_second} KiB/s");
            let _next = activity.begin();
            assert!(!activity.is_slow_reader() && !activity.may_end());
        }
    }

    /// A request whose body never came kept its place like one that is being answered: announcing a body cost nothing.
    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_body_is_late_makes_room() {
        let connections = Connections::default();
        let all: Vec<Registered> = (0..3).map(|_| connections.register()).collect();
        let requests: Vec<Answering> = all.iter().map(|one| one.activity.begin()).collect();
        // Those that are in use stay for longest.
        let in_use = connections.register();
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
        tokio::time::advance(BODY_KEPT).await;
        in_use.activity.moved();
        // Its answer is being made.
        bodies.pop();
        let is_closed = |one: &Registered| one.activity.closed().now_or_never().is_some();
        assert!(connections.close_longest_idle());
        assert_eq!(
            all.iter().map(is_closed).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert!(!connections.close_longest_idle() && !is_closed(&in_use));
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

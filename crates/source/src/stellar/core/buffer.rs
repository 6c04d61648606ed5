//! Proven ledgers between core's pipe and the fetches that take them: no more than a few wait, and core waits for
//! room. Those that were taken last can be requested again.

use std::collections::VecDeque;
use std::time::Duration;

use chronolith_model::{BlockRange, BlockRef};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::source::Fetched;

/// Ledgers that may wait, and their bytes; one always may.
const LEDGERS_MAX: usize = 20;
const BYTES_MAX: u64 = 10 << 20;
/// Ledgers that were taken and are kept for a while, and their bytes.
const TAKEN_MAX: usize = 64;
const TAKEN_BYTES_MAX: u64 = 32 << 20;
/// How many times longer the first ledger may take: core fetches the state of the network before.
const BEGIN_FACTOR: u32 = 6;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// All that was requested came.
    Done,
    /// Core ended, or what it wrote was refused.
    Failed(String),
    /// What it wrote is wrong.
    Wrong {
        ledger: u32,
        what: String,
    },
    Network(String),
}

impl End {
    pub(super) fn stopped() -> Self {
        Self::Failed("it was stopped".to_owned())
    }
}

#[derive(Debug)]
pub(crate) struct Buffer {
    inner: Mutex<Inner>,
    /// Wakes the reader of the pipe when there is room.
    room: Condvar,
    /// Wakes fetches when something came.
    came: Notify,
    /// Counts ledgers, as a hint that there are new ones.
    hints: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    /// Ledgers without a gap: those that were taken, and after them those that wait.
    ledgers: VecDeque<(Fetched, u64)>,
    taken: usize,
    taken_bytes: u64,
    waiting_bytes: u64,
    /// The ledger that comes next.
    next: u64,
    end: Option<End>,
    /// Whether no more are wanted.
    stopped: bool,
    has_begun: bool,
    /// Whether one had to wait for room, since it was last checked.
    held_back: bool,
    /// When something last came, or made room for more.
    came_at: Instant,
}

impl Buffer {
    pub(crate) fn new(from: u64, hints: watch::Sender<u64>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                ledgers: VecDeque::new(),
                taken: 0,
                taken_bytes: 0,
                waiting_bytes: 0,
                next: from,
                end: None,
                stopped: false,
                has_begun: false,
                held_back: false,
                came_at: Instant::now(),
            }),
            room: Condvar::new(),
            came: Notify::new(),
            hints,
        }
    }

    /// Adds the next ledger once there is room. False where no more are wanted.
    pub(crate) fn push(&self, fetched: Fetched, bytes: u64) -> bool {
        let mut inner = self.inner.lock();
        while inner.is_full() && !inner.stopped {
            inner.held_back = true;
            self.room.wait(&mut inner);
        }
        if inner.stopped {
            return false;
        }
        inner.next = fetched.block.clock.number + 1;
        inner.waiting_bytes += bytes;
        inner.ledgers.push_back((fetched, bytes));
        inner.has_begun = true;
        inner.came_at = Instant::now();
        drop(inner);
        self.came.notify_waiters();
        self.hints.send_modify(|count| *count += 1);
        true
    }

    pub(crate) fn end(&self, end: End) {
        self.inner.lock().end.get_or_insert(end);
        self.came.notify_waiters();
        self.hints.send_modify(|count| *count += 1);
    }

    pub(crate) fn stop(&self) {
        self.inner.lock().stopped = true;
        self.room.notify_all();
        self.came.notify_waiters();
    }

    /// Waits this long, or until no more are wanted; returns whether that is so.
    pub(crate) fn pause(&self, for_long: Duration) -> bool {
        let mut inner = self.inner.lock();
        self.room
            .wait_while_for(&mut inner, |inner| !inner.stopped, for_long);
        inner.stopped
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.lock().stopped
    }

    /// The newest ledger that came.
    pub(crate) fn newest(&self) -> Option<BlockRef> {
        let inner = self.inner.lock();
        let last = inner.ledgers.back();
        last.map(|(one, _)| one.block.clock.block_ref())
    }

    /// Whether there is no room, or was none since the last call: core has more than is taken.
    pub(crate) fn was_full(&self) -> bool {
        let mut inner = self.inner.lock();
        std::mem::take(&mut inner.held_back) || inner.is_full()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.inner.lock().end.is_some()
    }

    /// A ledger that is here.
    pub(crate) fn get(&self, number: u64) -> Option<Fetched> {
        let inner = self.inner.lock();
        let at = inner.place_of(number)?;
        inner.ledgers.get(at).map(|(one, _)| one.clone())
    }

    /// How it ended, where nothing of it is left to take.
    pub(crate) fn ended(&self) -> Option<End> {
        let inner = self.inner.lock();
        let all_taken = inner.ledgers.len() == inner.taken;
        inner.end.clone().filter(|_| all_taken)
    }

    /// Whether a ledger is here or will come without asking for anything else: no more than so many
    /// before it are passed over.
    pub(crate) fn reaches(&self, number: u64, pass_over: u64) -> bool {
        let inner = self.inner.lock();
        let lies_ahead = number >= inner.next && number - inner.next <= pass_over;
        inner.place_of(number).is_some() || (lies_ahead && inner.end.is_none())
    }

    /// The ledgers of a range that are here, at least its first; those before it are passed over. The end
    /// where none comes any more, nothing where none came for this long.
    pub(crate) async fn take(
        &self,
        range: BlockRange,
        patience: Duration,
    ) -> Option<Result<Vec<Fetched>, End>> {
        loop {
            let came = self.came.notified();
            let deadline = match self.try_take(range) {
                Ok(taken) => return Some(taken),
                Err(()) => self.inner.lock().deadline(patience),
            };
            let in_time = tokio::time::timeout_at(deadline, came).await;
            if in_time.is_err() && self.inner.lock().deadline(patience) <= Instant::now() {
                return None;
            }
        }
    }

    /// How long the next ledger may take, where another one may take so long.
    pub(crate) fn wait_max(&self, patience: Duration) -> Duration {
        self.inner.lock().wait_max(patience)
    }

    /// Whether all that came was taken, and nothing came for this long since.
    pub(crate) fn is_silent(&self, patience: Duration) -> bool {
        let inner = self.inner.lock();
        let waits = inner.ledgers.len() == inner.taken && inner.end.is_none();
        waits && inner.deadline(patience) <= Instant::now()
    }

    /// What is there now, where something is.
    fn try_take(&self, range: BlockRange) -> Result<Result<Vec<Fetched>, End>, ()> {
        let mut inner = self.inner.lock();
        // A fetch of a ledger does not want those before it; that makes room.
        inner.pass_before(range.start);
        let Some(from) = inner.place_of(range.start) else {
            self.room.notify_all();
            return match (&inner.end, inner.stopped) {
                (Some(end), _) => Ok(Err(end.clone())),
                (None, true) => Ok(Err(End::stopped())),
                (None, false) => Err(()),
            };
        };
        let wanted = (range.len() as usize).min(inner.ledgers.len() - from);
        let found = inner.ledgers.range(from..from + wanted);
        let found: Vec<Fetched> = found.map(|(one, _)| one.clone()).collect();
        inner.pass_before(range.start + found.len() as u64);
        self.room.notify_all();
        Ok(Ok(found))
    }
}

impl Inner {
    fn is_full(&self) -> bool {
        let waiting = self.ledgers.len() - self.taken;
        waiting >= LEDGERS_MAX || (waiting > 0 && self.waiting_bytes >= BYTES_MAX)
    }

    fn wait_max(&self, patience: Duration) -> Duration {
        if self.has_begun {
            patience
        } else {
            patience.saturating_mul(BEGIN_FACTOR)
        }
    }

    /// When the next ledger must have come.
    fn deadline(&self, patience: Duration) -> Instant {
        self.came_at + self.wait_max(patience)
    }

    fn first(&self) -> u64 {
        self.next - self.ledgers.len() as u64
    }

    fn first_waiting(&self) -> u64 {
        self.first() + self.taken as u64
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        let at = number.checked_sub(self.first())? as usize;
        (at < self.ledgers.len()).then_some(at)
    }

    /// Counts those that wait and come before this one as taken.
    fn pass_before(&mut self, number: u64) {
        while self.first_waiting() < number
            && let Some(&(_, bytes)) = self.ledgers.get(self.taken)
        {
            self.taken += 1;
            self.taken_bytes += bytes;
            // A core that waited for room is not one that is silent.
            self.came_at = Instant::now();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            self.forget_oldest();
        }
    }

    /// Forgets the oldest that were taken, as many as are too many.
    fn forget_oldest(&mut self) {
        while self.taken > TAKEN_MAX || (self.taken > 1 && self.taken_bytes > TAKEN_BYTES_MAX) {
            let Some((_, bytes)) = self.ledgers.pop_front() else {
                break;
            };
            self.taken -= 1;
            self.taken_bytes = self.taken_bytes.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chronolith_model::{Block, BlockMeta, Hash32, Payload, Proof};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn ledger(number: u64) -> Fetched {
        let hash = Hash32([number as u8; 32]);
        Fetched {
            block: Block {
                clock: BlockMeta {
                    number,
                    hash,
                    parent_hash: Hash32([number.wrapping_sub(1) as u8; 32]),
                    timestamp: number,
                },
                txs: Vec::new(),
                logs: Vec::new(),
                payload: Payload::default(),
            },
            proof: Proof::LINKED.with_transactions(),
            endpoint: "core".into(),
        }
    }

    fn numbers(taken: Option<Result<Vec<Fetched>, End>>) -> Vec<u64> {
        let taken = taken.unwrap().unwrap();
        taken.iter().map(|one| one.block.clock.number).collect()
    }

    fn buffer(from: u64) -> Arc<Buffer> {
        Arc::new(Buffer::new(from, watch::Sender::new(0)))
    }

    #[tokio::test]
    async fn few_wait_and_all_come_once_and_in_order() {
        let buffer = buffer(10);
        let pushing = buffer.clone();
        let thread = std::thread::spawn(move || {
            let all = (10..500).all(|number| pushing.push(ledger(number), 1_000));
            pushing.end(End::Done);
            all
        });
        let mut next = 10;
        while next < 500 {
            let taken = numbers(buffer.take(BlockRange::new(next, 1_000), PATIENCE).await);
            assert_eq!(taken, (next..next + taken.len() as u64).collect::<Vec<_>>());
            assert!(taken.len() <= LEDGERS_MAX, "{} waited", taken.len());
            next += taken.len() as u64;
        }
        assert!(thread.join().unwrap());
        assert_eq!(buffer.ended(), Some(End::Done));
        assert_eq!(buffer.newest().unwrap().number, 499);
        // What was taken of late can be had again, older ones cannot.
        assert_eq!(
            numbers(buffer.take(BlockRange::new(498, 500), PATIENCE).await),
            [498, 499]
        );
        assert_eq!(buffer.get(440).unwrap().block.clock.number, 440);
        assert!(buffer.get(400).is_none() && !buffer.reaches(400, 10));
        let after = buffer.take(BlockRange::new(500, 501), PATIENCE).await;
        assert_eq!(after.unwrap().unwrap_err(), End::Done);
    }

    #[tokio::test]
    async fn large_ledgers_wait_alone_and_others_are_passed_over() {
        let buffer = buffer(2);
        let pushing = buffer.clone();
        let thread = std::thread::spawn(move || {
            (2..40)
                .take_while(|number| pushing.push(ledger(*number), BYTES_MAX))
                .count()
        });
        // Whoever wants the twentieth does not wait for the others to be taken.
        assert!(buffer.reaches(20, 100) && !buffer.reaches(200, 100));
        assert_eq!(
            numbers(buffer.take(BlockRange::new(20, 30), PATIENCE).await),
            [20]
        );
        assert!(
            buffer.get(19).is_some() && buffer.get(10).is_none(),
            "bytes are counted"
        );
        buffer.stop();
        assert!(thread.join().unwrap() < 38, "it was not stopped");
        assert!(buffer.pause(PATIENCE));
    }

    #[tokio::test]
    async fn readers_learn_that_core_had_more_than_was_taken() {
        let buffer = buffer(2);
        for number in 2..21 {
            assert!(buffer.push(ledger(number), 1));
        }
        assert!(!buffer.was_full(), "one more has room");
        assert!(buffer.push(ledger(21), 1));
        assert!(buffer.was_full(), "there is no room");
        let pushing = buffer.clone();
        let thread = std::thread::spawn(move || pushing.push(ledger(22), 1));
        while !buffer.inner.lock().held_back {
            std::thread::yield_now();
        }
        buffer.take(BlockRange::new(2, 22), PATIENCE).await;
        assert!(thread.join().unwrap());
        assert!(buffer.was_full(), "there was none");
        assert!(!buffer.was_full(), "it was reported");
        assert!(!buffer.is_over());
        buffer.end(End::Done);
        assert!(buffer.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_counted_from_the_last_that_came() {
        let buffer = buffer(5);
        let began = Instant::now();
        let none = buffer.take(BlockRange::new(5, 6), PATIENCE).await;
        assert!(none.is_none() && buffer.is_silent(PATIENCE));
        assert_eq!(began.elapsed().as_secs(), 6 * PATIENCE.as_secs());
        assert!(buffer.push(ledger(5), 1));
        // Core waits as long as this one is not taken.
        tokio::time::advance(PATIENCE * 2).await;
        assert!(!buffer.is_silent(PATIENCE));
        assert_eq!(
            numbers(buffer.take(BlockRange::new(5, 6), PATIENCE).await),
            [5]
        );
        assert!(!buffer.is_silent(PATIENCE), "there was no room until now");
        tokio::time::advance(PATIENCE).await;
        assert!(buffer.is_silent(PATIENCE));
        buffer.end(End::Failed("gone".to_owned()));
        let end = buffer.take(BlockRange::new(6, 7), PATIENCE).await;
        assert_eq!(end.unwrap().unwrap_err(), End::Failed("gone".to_owned()));
    }
}

//! Memory for answers of sources while they are received and parsed, for all sources of the process together. An
//! endpoint that compresses its answers can make each of them as long as it may be, at no cost.
//!
//! Answers share a part. One at a time may take more than is free there: so every answer that is allowed can be
//! received, and no two wait for each other.

use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part that answers share. Beside it, one answer may have the length that an answer may have.
const SHARED_BYTES: usize = 128 << 20;
/// The beginning of an answer is not counted: most answers are not longer.
const FREE_BYTES: usize = 64 << 10;
/// Memory is counted in these.
const UNIT: usize = 64 << 10;

/// The memory of the process.
static OF_PROCESS: LazyLock<AnswerMemory> = LazyLock::new(|| AnswerMemory::of_bytes(SHARED_BYTES));

/// The memory that answers may take.
#[derive(Clone, Debug)]
pub(crate) struct AnswerMemory {
    shared: Arc<Semaphore>,
    alone: Arc<Semaphore>,
}

/// The memory of one answer.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    memory: AnswerMemory,
    shared: Option<OwnedSemaphorePermit>,
    alone: Option<OwnedSemaphorePermit>,
}

impl AnswerMemory {
    pub(crate) fn of_process() -> Self {
        OF_PROCESS.clone()
    }

    fn of_bytes(bytes: usize) -> Self {
        Self {
            shared: Arc::new(Semaphore::new(bytes / UNIT)),
            alone: Arc::new(Semaphore::new(1)),
        }
    }

    pub(crate) fn begin(&self) -> HeldAnswer {
        HeldAnswer {
            memory: self.clone(),
            shared: None,
            alone: None,
        }
    }
}

impl HeldAnswer {
    /// Holds memory for this many bytes in total. Waits while another answer has what is beyond the shared part.
    pub(crate) async fn grow(&mut self, bytes: usize) {
        if bytes <= FREE_BYTES || self.alone.is_some() {
            return;
        }
        let held = self.shared.as_ref();
        let held = held.map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT).saturating_sub(held);
        let Ok(missing @ 1..) = u32::try_from(missing) else {
            return;
        };
        let AnswerMemory { shared, alone } = &self.memory;
        tokio::select! {
            biased;
            more = shared.clone().acquire_many_owned(missing) => match (&mut self.shared, more.ok()) {
                (Some(held), Some(more)) => held.merge(more),
                (held, more) => *held = held.take().or(more),
            },
            more = alone.clone().acquire_owned() => self.alone = more.ok(),
        }
    }

    /// Holds memory for this many bytes, which may be fewer than before.
    pub(crate) async fn change(&mut self, bytes: usize) {
        if bytes <= FREE_BYTES {
            (self.shared, self.alone) = (None, None);
        }
        self.grow(bytes).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const MIB: usize = 1 << 20;

    #[track_caller]
    fn waits(held: &mut HeldAnswer, bytes: usize) -> bool {
        held.grow(bytes).now_or_never().is_none()
    }

    /// Eight bombs used to take eight times the longest answer.
    #[test]
    fn one_answer_at_a_time_takes_more_than_what_is_shared() {
        let memory = AnswerMemory::of_bytes(4 * MIB);
        let mut answers: Vec<_> = (0..5).map(|_| memory.begin()).collect();
        for answer in answers.iter_mut().take(4) {
            assert!(!waits(answer, MIB), "it is free");
        }
        let [one, other, .., small] = answers.as_mut_slice() else {
            panic!("five answers");
        };
        assert!(!waits(one, 200 * MIB), "the first may be long");
        assert!(!waits(one, 256 * MIB));
        assert!(waits(other, 2 * MIB), "the second waits for it");
        assert!(!waits(other, MIB), "and keeps what it has");
        assert!(!waits(small, FREE_BYTES), "a short one never waits");
        answers.remove(0);
        assert!(!waits(&mut answers[0], 2 * MIB), "one MiB came back");
        assert!(!waits(&mut answers[1], 2 * MIB), "it is the long one now");
        assert!(waits(&mut answers[2], 2 * MIB));
        for answer in &mut answers {
            assert!(answer.change(FREE_BYTES).now_or_never().is_some());
        }
        assert_eq!(memory.shared.available_permits(), 4 * MIB / UNIT);
        assert_eq!(memory.alone.available_permits(), 1);
    }
}

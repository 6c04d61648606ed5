//! Memory for answers, from when they are made until clients have read them.
//!
//! Large answers have a part of their own: slow readers of large pages must not keep others from small answers. Where
//! one part is taken by slow readers, some of them are cut ([`super::holders`]).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::holders::{Counted, Holders, Part};
use crate::fault::Fault;

/// Memory is counted in these.
const UNIT: usize = 1 << 10;
/// Answers up to this are small, where that is not more than a sixteenth of all memory.
pub(super) const SMALL_BYTES_MAX: usize = 256 << 10;
/// How long a query may wait for memory that slow readers hold. The request that waits may hold some already.
pub(crate) const HOLD_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it waits before slow readers are cut.
const CUT_PAUSE: Duration = Duration::from_millis(250);
/// How many answers may wait that are there already.
const WAITING_MAX: usize = 64;

/// The memory that answers may take.
#[derive(Clone, Debug)]
pub(crate) struct AnswerMemory {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    small_units: usize,
    large_units: usize,
    holders: Holders,
    /// For answers that wait although they are there already.
    waiting: Arc<Semaphore>,
}

/// Memory of an answer: it grows while the answer is made, and is held until the client has read it.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation {
    held: Option<OwnedSemaphorePermit>,
    is_large: bool,
    counted: Counted,
}

impl AnswerMemory {
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let small = bytes / 4;
        let large_units = (bytes - small) / UNIT;
        Self {
            small: Arc::new(Semaphore::new(small / UNIT)),
            large: Arc::new(Semaphore::new(large_units)),
            small_units: SMALL_BYTES_MAX.min(bytes / 16) / UNIT,
            large_units,
            holders: Holders::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// The most that a small answer takes.
    pub(crate) fn small_bytes(&self) -> usize {
        self.small_units * UNIT
    }

    /// Grows a reservation to this many bytes in total, or to all memory where it is less. Where there is none for a
    /// while, the connections of slow readers are cut.
    pub(crate) async fn grow(
        &self,
        reservation: &mut MemoryReservation,
        bytes: usize,
    ) -> Result<(), Fault> {
        let units = bytes.div_ceil(UNIT).min(self.large_units);
        if self.try_grow(reservation, units * UNIT) {
            return Ok(());
        }
        let Some((part, more)) = self.needed(reservation, units) else {
            return Ok(());
        };
        let mut held = pin!(self.part(part).clone().acquire_many_owned(more));
        let deadline = Instant::now() + HOLD_TIMEOUT;
        loop {
            let until = deadline.min(Instant::now() + CUT_PAUSE);
            match timeout_at(until, held.as_mut()).await {
                Ok(Ok(held)) => {
                    self.add(reservation, held, units);
                    return Ok(());
                }
                Ok(Err(_)) => return Err(Fault::Busy),
                Err(_) if Instant::now() >= deadline => return Err(Fault::Busy),
                // A large answer needs a part of what it waits for: the rest is free, or comes free meanwhile.
                Err(_) => self
                    .holders
                    .cut(part, (more as usize).min(self.large_units / 4)),
            }
        }
    }

    /// As [`Self::grow`], for an answer that is there already: only a few of them may wait, because they take their
    /// memory while they do.
    pub(crate) async fn grow_for(
        &self,
        reservation: &mut MemoryReservation,
        bytes: usize,
    ) -> Result<(), Fault> {
        if self.try_grow(reservation, bytes) {
            return Ok(());
        }
        let waiting = self.waiting.clone().try_acquire_owned();
        let _waiting = waiting.map_err(|_| Fault::Busy)?;
        self.grow(reservation, bytes).await
    }

    /// Grows a reservation to this many bytes in total, or to all memory where it is less, where that is free right now.
    pub(crate) fn try_grow_to_all(
        &self,
        reservation: &mut MemoryReservation,
        bytes: usize,
    ) -> bool {
        self.try_grow(reservation, bytes.min(self.large_units * UNIT))
    }

    /// Grows a reservation to this many bytes in total where that much is free right now.
    pub(crate) fn try_grow(&self, reservation: &mut MemoryReservation, bytes: usize) -> bool {
        let units = bytes.div_ceil(UNIT);
        let Some((part, more)) = self.needed(reservation, units) else {
            return true;
        };
        let held = self.part(part).clone().try_acquire_many_owned(more);
        held.is_ok_and(|held| {
            self.add(reservation, held, units);
            true
        })
    }

    fn part(&self, part: Part) -> &Arc<Semaphore> {
        match part {
            Part::Small => &self.small,
            Part::Large => &self.large,
        }
    }

    /// Which part a reservation needs for this many units, and how much more of it.
    fn needed(&self, reservation: &MemoryReservation, units: usize) -> Option<(Part, u32)> {
        let held = reservation.units();
        if units <= held {
            return None;
        }
        let (part, more) = match (reservation.is_large, units > self.small_units) {
            (false, false) => (Part::Small, units - held),
            // It moves: an answer that became large holds no memory of small ones.
            (false, true) => (Part::Large, units),
            (true, _) => (Part::Large, units - held),
        };
        Some((part, u32::try_from(more).unwrap_or(u32::MAX)))
    }

    fn add(&self, reservation: &mut MemoryReservation, more: OwnedSemaphorePermit, units: usize) {
        let becomes_large = !reservation.is_large && units > self.small_units;
        match &mut reservation.held {
            Some(held) if !becomes_large => held.merge(more),
            held => *held = Some(more),
        }
        reservation.is_large |= becomes_large;
        let part = match reservation.is_large {
            true => Part::Large,
            false => Part::Small,
        };
        let units = reservation.units();
        reservation.counted.set(&self.holders, part, units);
    }
}

impl MemoryReservation {
    /// Gives back what is above this many bytes.
    pub(crate) fn trim(&mut self, bytes: usize) {
        let above = self.units().saturating_sub(bytes.div_ceil(UNIT));
        if let Some(held) = &mut self.held {
            drop(held.split(above));
        }
        self.counted.trim(self.units());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units() == 0
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.units() * UNIT
    }

    fn units(&self) -> usize {
        let held = self.held.as_ref();
        held.map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer takes free memory and no more; the first part of one that is too large alone is made.
    #[tokio::test(start_paused = true)]
    async fn answers_grow_while_memory_is_free() {
        let memory = AnswerMemory::of_bytes(132 << 10);
        assert_eq!((memory.small_units, memory.large_units), (8, 99));
        let (mut one, mut other) = (MemoryReservation::default(), MemoryReservation::default());
        memory.grow(&mut one, 60 << 10).await.unwrap();
        assert!(memory.try_grow(&mut one, 69 << 10));
        assert!(memory.try_grow(&mut one, 10 << 10), "it has more");
        assert!(memory.try_grow(&mut other, 30 << 10));
        assert!(!memory.try_grow(&mut other, 31 << 10));
        assert_eq!((one.units(), other.units()), (69, 30));
        assert!(memory.grow(&mut other, 40 << 10).await.is_err());
        drop(one);
        memory.grow(&mut other, 500 << 10).await.unwrap();
        assert_eq!(other.units(), 99);
        assert!(!memory.try_grow(&mut other, 501 << 10));
    }

    /// Slow readers of large answers used to cause refusals of small ones.
    #[tokio::test(start_paused = true)]
    async fn large_answers_leave_memory_for_small_ones() {
        let memory = AnswerMemory::of_bytes(132 << 10);
        let mut large = MemoryReservation::default();
        memory.grow(&mut large, 8 << 10).await.unwrap();
        memory.grow(&mut large, 500 << 10).await.unwrap();
        assert_eq!(memory.small.available_permits(), 33, "it has moved");
        let mut small = MemoryReservation::default();
        memory.grow(&mut small, 8 << 10).await.unwrap();
        assert_eq!(memory.small.available_permits(), 25);
        assert!(!memory.try_grow(&mut small, 9 << 10));
        drop(large);
        assert!(memory.try_grow(&mut small, 9 << 10));
        drop(small);
        assert_eq!(memory.small.available_permits(), 33);
        assert_eq!(memory.large.available_permits(), 99);
    }
}

//! When a new writer may try to take over from another.
//!
//! Only liveness is decided here: two writers that both try are still safe, because each swap names
//! the version it replaces. Waiting keeps them from throwing each other out again and again. A
//! writer that lives changes the record at least once a time to live, so a record that stood still
//! that long has no writer. No wall clock is read.

use std::time::Duration;

use crate::{Error, MetaStore, Result, Versioned};

/// What to do if another instance seems to be writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeOver {
    /// Wait until its record stands still.
    Wait,
    /// Fail at once, naming it.
    NoWait,
}

/// Who wants to write, and how patiently.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// This instance. One that restarts under the same name does not wait for itself.
    pub instance: &'a str,
    /// How long a record must stand still until its holder counts as gone.
    pub ttl: Duration,
    /// Whether to wait that long.
    pub take_over: TakeOver,
}

/// Returns the newest record when no other writer seems to be active: at once if the handle is
/// exclusive, there is no record, it has no holder (`holder_of` says who), or the holder is this
/// instance; otherwise when it stood still for one time to live. Safe to drop.
pub async fn wait_until_quiet(
    meta: &dyn MetaStore,
    claim: &Claim<'_>,
    holder_of: impl Fn(&[u8]) -> Option<String>,
) -> Result<Option<Versioned>> {
    let Some(mut record) = meta.load().await? else {
        return Ok(None);
    };
    let mut logged = None;
    loop {
        let holder = holder_of(&record.bytes).filter(|holder| holder != claim.instance);
        let Some(holder) = holder.filter(|_| !meta.is_exclusive()) else {
            return Ok(Some(record));
        };
        if claim.take_over == TakeOver::NoWait {
            let reason = format!("another instance holds the record (holder={holder})");
            return Err(Error::Conflict { reason });
        }
        if logged.as_ref() != Some(&holder) {
            let ttl_ms = claim.ttl.as_millis() as u64;
            tracing::info!(
                event = "lease_held_elsewhere",
                holder,
                ttl_ms,
                "lease is held elsewhere, waiting until its record stops changing"
            );
            logged = Some(holder);
        }
        match tokio::time::timeout(claim.ttl, meta.watch(Some(record.version))).await {
            Ok(changed) => record = changed?,
            Err(_still) => return Ok(Some(record)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{FileMeta, MemoryMeta};

    const TTL: Duration = Duration::from_secs(30);

    fn claim(take_over: TakeOver) -> Claim<'static> {
        Claim {
            instance: "me",
            ttl: TTL,
            take_over,
        }
    }

    /// The holder is what stands before the first space.
    fn holder_of(bytes: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(bytes).unwrap();
        text.split(' ')
            .next()
            .filter(|holder| !holder.is_empty())
            .map(str::to_owned)
    }

    async fn waited(meta: &dyn MetaStore, take_over: TakeOver) -> (Result<Option<Versioned>>, u64) {
        let start = Instant::now();
        let outcome = wait_until_quiet(meta, &claim(take_over), holder_of).await;
        (outcome, start.elapsed().as_secs())
    }

    async fn record(bytes: &'static str) -> MemoryMeta {
        let meta = MemoryMeta::new();
        meta.swap(None, Bytes::from_static(bytes.as_bytes()))
            .await
            .unwrap();
        meta
    }

    #[tokio::test(start_paused = true)]
    async fn no_holder_and_oneself_are_not_waited_for() {
        for take_over in [TakeOver::Wait, TakeOver::NoWait] {
            let (outcome, seconds) = waited(&MemoryMeta::new(), take_over).await;
            assert_eq!((outcome.unwrap(), seconds), (None, 0));
            for bytes in ["me 1", "", " released"] {
                let (outcome, seconds) = waited(&record(bytes).await, take_over).await;
                assert_eq!(
                    (outcome.unwrap().unwrap().bytes, seconds),
                    (bytes.into(), 0)
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_holder_is_waited_for_once() {
        let (outcome, seconds) = waited(&record("other 1").await, TakeOver::Wait).await;
        assert_eq!(
            (&outcome.unwrap().unwrap().bytes[..], seconds),
            (&b"other 1"[..], 30)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_waiting_the_holder_is_named() {
        let (outcome, seconds) = waited(&record("other 1").await, TakeOver::NoWait).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }));
        assert!(error.to_string().contains("holder=other"), "{error}");
        assert_eq!(seconds, 0);
    }

    /// The holder writes at seconds 20, 40, 60 and then dies: the wait ends at 90.
    #[tokio::test(start_paused = true)]
    async fn each_change_starts_the_wait_again() {
        let meta = record("other 0").await;
        let writing = async {
            for round in 1..=3_u64 {
                sleep(Duration::from_secs(20)).await;
                let bytes = Bytes::from(format!("other {round}"));
                meta.swap(Some(crate::Version(round)), bytes).await.unwrap();
            }
        };
        let ((outcome, seconds), ()) = tokio::join!(waited(&meta, TakeOver::Wait), writing);
        assert_eq!(
            (&outcome.unwrap().unwrap().bytes[..], seconds),
            (&b"other 3"[..], 90)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_lets_go_ends_the_wait() {
        let meta = record("other 0").await;
        let letting_go = async {
            sleep(Duration::from_secs(7)).await;
            meta.swap(Some(crate::Version(1)), Bytes::new())
                .await
                .unwrap();
        };
        let ((outcome, seconds), ()) = tokio::join!(waited(&meta, TakeOver::Wait), letting_go);
        assert_eq!(
            (&outcome.unwrap().unwrap().bytes[..], seconds),
            (&b""[..], 7)
        );
    }

    #[tokio::test]
    async fn an_exclusive_handle_waits_for_no_lease() {
        let root = tempfile::tempdir().unwrap();
        let meta = FileMeta::open_writer(root.path()).unwrap();
        meta.swap(None, Bytes::from_static(b"other 1"))
            .await
            .unwrap();
        for take_over in [TakeOver::Wait, TakeOver::NoWait] {
            let (outcome, _) = waited(&meta, take_over).await;
            assert_eq!(outcome.unwrap().unwrap().bytes, "other 1");
        }
    }
}

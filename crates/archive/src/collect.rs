//! Garbage: what nothing names any more, and how much of it there may be.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::settings::GarbageSettings;

/// How much garbage there is, as the last collection saw it.
#[derive(Debug)]
pub(crate) struct Guardrails {
    settings: GarbageSettings,
    pub(crate) orphan_segment_bytes: AtomicU64,
    pub(crate) orphan_state_records: AtomicU64,
    pub(crate) stale_batch_keys: AtomicU64,
}

impl Guardrails {
    pub(crate) fn new(settings: GarbageSettings) -> Self {
        Self {
            settings,
            orphan_segment_bytes: AtomicU64::new(0),
            orphan_state_records: AtomicU64::new(0),
            stale_batch_keys: AtomicU64::new(0),
        }
    }

    /// Whether ingest may go on.
    pub(crate) fn check(&self) -> Result<()> {
        let rails = [
            (
                "orphan_segment_bytes",
                &self.orphan_segment_bytes,
                self.settings.orphan_segment_bytes_max,
            ),
            (
                "orphan_state_records",
                &self.orphan_state_records,
                self.settings.orphan_state_records_max,
            ),
            (
                "stale_batch_keys",
                &self.stale_batch_keys,
                self.settings.stale_batch_keys_max,
            ),
        ];
        for (guardrail, value, limit) in rails {
            let value = value.load(Ordering::Relaxed);
            if value > limit {
                return Err(Error::Throttled {
                    guardrail,
                    value,
                    limit,
                });
            }
        }
        Ok(())
    }
}

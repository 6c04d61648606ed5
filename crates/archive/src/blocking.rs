//! Work that only computes, on threads of its own, so that it does not hold up reads and writes.

use crate::error::{Error, Result};

/// Runs a job beside everything else.
///
/// # Errors
/// What the job returns, and `Internal` where it panicked.
pub(crate) async fn run<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(job).await;
    done.map_err(|error| Error::Internal(error.to_string()))?
}

//! Reading parts of open files.
//!
//! Pages that are in memory are read at once on the calling thread, with a flag that makes the
//! kernel refuse to wait for the disk: 1.6 µs for a KiB, where a hop to a blocking thread alone
//! takes 28 µs (measured on 2 cores). Only what is not in memory goes to a blocking thread, all of
//! it in one hop, and the kernel gets a hint about every range before the first is read, so that it
//! reads them in parallel.

use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use super::disk::blocking;
use super::handles::OpenBlob;
use crate::name::check_range;
use crate::{Error, Result};

/// Copying more than this takes long enough to hold up the calling thread.
const INLINE_BYTES_MAX: usize = 256 << 10;

/// Reads all ranges of one object.
pub(super) async fn read_ranges(
    name: &str,
    blob: Arc<OpenBlob>,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    let mut total = 0_usize;
    for range in ranges {
        total = total.saturating_add(check_range(name, blob.len, range)?);
    }
    let mut done = Vec::with_capacity(ranges.len());
    if total <= INLINE_BYTES_MAX {
        read_warm(&blob, ranges, total, &mut done);
    }
    let Some(cold) = ranges.get(done.len()..).filter(|cold| !cold.is_empty()) else {
        return Ok(done);
    };
    let (name, cold) = (name.to_owned(), cold.to_vec());
    let rest = blocking(move || {
        advise(&blob, &cold);
        cold.iter()
            .map(|range| read_cold(&name, &blob, range))
            .collect::<Result<Vec<_>>>()
    });
    done.extend(rest.await?);
    Ok(done)
}

/// Reads ranges into one buffer, up to the first that is not all in memory.
fn read_warm(blob: &OpenBlob, ranges: &[Range<u64>], total: usize, done: &mut Vec<Bytes>) {
    let mut buffer = vec![0; total];
    let mut rest = buffer.as_mut_slice();
    let mut warm = 0;
    for range in ranges {
        let len = (range.end - range.start) as usize;
        let Some((part, after)) = rest.split_at_mut_checked(len) else {
            break;
        };
        let mut target = [IoSliceMut::new(part)];
        // Any error, also "not supported here", is left to the blocking read, which reports it.
        let read = match len {
            0 => Ok(0),
            _ => preadv2(&blob.file, &mut target, range.start, ReadWriteFlags::NOWAIT),
        };
        if read != Ok(len) {
            break;
        }
        rest = after;
        warm += 1;
    }
    let mut bytes = Bytes::from(buffer);
    for range in ranges.iter().take(warm) {
        done.push(bytes.split_to((range.end - range.start) as usize));
    }
}

/// Asks the kernel to start reading. Only a hint, so its failure does not matter.
fn advise(blob: &OpenBlob, ranges: &[Range<u64>]) {
    if ranges.len() < 2 {
        return;
    }
    for range in ranges {
        if let Some(len) = NonZeroU64::new(range.end - range.start) {
            let _ = fadvise(&blob.file, range.start, Some(len), Advice::WillNeed);
        }
    }
}

fn read_cold(name: &str, blob: &OpenBlob, range: &Range<u64>) -> Result<Bytes> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    match blob.file.read_exact_at(&mut bytes, range.start) {
        Ok(()) => Ok(bytes.into()),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(Error::corrupt(
            format!("object was cut while it was open (name={name})"),
        )),
        Err(error) => Err(Error::unavailable(
            format!("read object (name={name})"),
            error,
        )),
    }
}

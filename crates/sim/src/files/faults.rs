//! What goes wrong with which file, and how often.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFault {
    /// The file is not there yet.
    NotFound,
    /// The answer is this status and nothing else.
    Status(u16),
    /// The whole length is promised, half of it comes, and the connection breaks.
    CutShort,
    /// Half of the file is answered as if it were all of it.
    Half,
    /// One byte in the middle is another.
    WrongByte,
    /// The answer begins only after this long.
    Slow(Duration),
}

/// A plan of faults. A clone is another handle to the same plan; it may change while files are
/// served.
#[derive(Clone, Debug, Default)]
pub struct FileFaults {
    plan: Arc<Mutex<Vec<Planned>>>,
}

#[derive(Clone, Debug)]
struct Planned {
    fault: FileFault,
    name: String,
    left: u32,
    hits: u32,
}

impl FileFaults {
    /// Lets this go wrong with the next this many requests for a file whose path contains `name`; an
    /// empty name is every file. The oldest that fits is taken first.
    pub fn plan(&self, fault: FileFault, name: &str, times: u32) {
        self.planned().push(Planned {
            fault,
            name: name.to_owned(),
            left: times,
            hits: 0,
        });
    }

    /// Nothing goes wrong any more.
    pub fn clear(&self) {
        self.planned()
            .iter_mut()
            .for_each(|planned| planned.left = 0);
    }

    /// How often this fault has struck.
    #[must_use]
    pub fn hits(&self, fault: FileFault) -> u32 {
        let planned = self.planned();
        let hits = planned.iter().filter(|planned| planned.fault == fault);
        hits.map(|planned| planned.hits).sum()
    }

    /// What goes wrong with this request.
    pub(super) fn draw(&self, path: &str) -> Option<FileFault> {
        let mut planned = self.planned();
        let mut fits = planned.iter_mut();
        let found = fits.find(|planned| planned.left > 0 && path.contains(&planned.name))?;
        found.left -= 1;
        found.hits += 1;
        Some(found.fault)
    }

    fn planned(&self) -> MutexGuard<'_, Vec<Planned>> {
        self.plan.lock()
    }
}

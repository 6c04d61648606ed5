//! The pipe that core writes ledgers into. It has a name, which is passed to core.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};

/// How long to wait for bytes before a check whether core still writes.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Asked without waiting.
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// What is in flight between core and the reader of ledgers, for code that does not read the pipe.
#[derive(Default, Debug)]
pub(crate) struct Flow {
    file: Mutex<Option<File>>,
    /// Whether bytes were read that are not handed on as a ledger yet.
    busy: AtomicBool,
}

impl Flow {
    /// Whether nothing is: no bytes in the pipe, and none of a ledger that is still being proven.
    pub(crate) fn is_dry(&self) -> bool {
        // In this order: the reader is busy before the bytes are gone.
        !self.holds_bytes() && !self.busy.load(Ordering::SeqCst)
    }

    fn holds_bytes(&self) -> bool {
        let held = self.file.lock();
        let Some(file) = held.as_ref() else {
            return false;
        };
        let mut polled_fds = [PollFd::new(file, PollFlags::IN)];
        // The reader reports what is wrong with the pipe.
        let polled = poll(&mut polled_fds, Some(&NOW));
        let [answered] = polled_fds;
        polled.is_ok() && answered.revents().contains(PollFlags::IN)
    }
}

/// The end that is read.
pub(crate) struct Pipe<'a> {
    file: File,
    flow: &'a Flow,
    /// Whether core does not write any more, or no ledger is wanted.
    is_over: &'a dyn Fn() -> bool,
}

impl<'a> Pipe<'a> {
    /// Creates the pipe again and opens it; core may open its end at any time.
    pub(crate) fn make(
        path: &Path,
        flow: &'a Flow,
        is_over: &'a dyn Fn() -> bool,
    ) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
        // Otherwise it would wait until core opens its end, also where core never does.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        let watched = file.try_clone()?;
        *flow.file.lock() = Some(watched);
        Ok(Self {
            file,
            flow,
            is_over,
        })
    }

    /// Tells that everything that was read is handed on.
    pub(crate) fn note_handed_on(&self) {
        self.flow.busy.store(false, Ordering::SeqCst);
    }
}

impl Drop for Pipe<'_> {
    /// Nothing reads any more: core must not wait for room in it while it ends.
    fn drop(&mut self) {
        let mut watched = self.flow.file.lock();
        *watched = None;
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut polled_fds = [PollFd::new(&self.file, PollFlags::IN)];
            // Asked before the wait: what was written before the end is still there then.
            let over = (self.is_over)();
            match poll(&mut polled_fds, Some(&TICK)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            };
            let [answered] = polled_fds;
            let found = answered.revents();
            if found.contains(PollFlags::IN) {
                self.flow.busy.store(true, Ordering::SeqCst);
                match self.file.read(into) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    read => return read,
                }
            }
            if over || found.contains(PollFlags::HUP) {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn all_that_was_written_is_read_in_any_order_of_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        // Nobody ever writes.
        let over = || true;
        let flow = Flow::default();
        let mut pipe = Pipe::make(&path, &flow, &over).unwrap();
        assert_eq!(pipe.read(&mut [0; 8]).unwrap(), 0);
        drop(pipe);
        // A pipe of before is in the way.
        let writing = || false;
        let flow = Flow::default();
        let mut pipe = Pipe::make(&path, &flow, &writing).unwrap();
        let content: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = File::options().write(true).open(&path).unwrap();
                file.write_all(&content).unwrap();
            });
            let mut read = Vec::new();
            pipe.read_to_end(&mut read).unwrap();
            assert_eq!(read, content);
        });
    }

    #[test]
    fn what_is_on_its_way_is_seen_until_it_is_handed_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let (flow, writing) = (Flow::default(), || false);
        assert!(flow.is_dry(), "there is no pipe yet");
        let mut pipe = Pipe::make(&path, &flow, &writing).unwrap();
        assert!(flow.is_dry(), "nothing was written");
        let mut core = File::options().write(true).open(&path).unwrap();
        core.write_all(&[1, 2]).unwrap();
        assert!(!flow.is_dry(), "it was not read");
        assert_eq!(pipe.read(&mut [0; 8]).unwrap(), 2);
        assert!(!flow.is_dry(), "it is not handed on");
        pipe.note_handed_on();
        assert!(flow.is_dry());
        core.write_all(&[3]).unwrap();
        drop(core);
        assert!(!flow.is_dry(), "what was written before the end counts");
        assert_eq!(pipe.read(&mut [0; 8]).unwrap(), 1);
        pipe.note_handed_on();
        assert!(flow.is_dry(), "an end is nothing on its way");
    }
}

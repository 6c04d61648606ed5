//! The pipe that core writes ledgers into. It has a name, so that core can be told of it.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};

/// How long is waited for bytes before it is looked whether anybody still writes.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The end that is read.
pub(crate) struct Pipe<'a> {
    file: File,
    /// Whether nobody writes any more, or nobody wants to read.
    is_over: &'a dyn Fn() -> bool,
}

impl<'a> Pipe<'a> {
    /// Makes the pipe anew and opens it; core may open its end at any time.
    pub(crate) fn make(path: &Path, is_over: &'a dyn Fn() -> bool) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
        // Otherwise it would wait until core opens its end, also where core never does.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        Ok(Self { file, is_over })
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut asked = [PollFd::new(&self.file, PollFlags::IN)];
            // Asked before the wait: what was written before the end is still there then.
            let over = (self.is_over)();
            match poll(&mut asked, Some(&TICK)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            };
            let [answered] = asked;
            let found = answered.revents();
            if found.contains(PollFlags::IN) {
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
    fn all_that_was_written_is_read_whoever_ends_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        // Nobody ever writes.
        let over = || true;
        let mut pipe = Pipe::make(&path, &over).unwrap();
        assert_eq!(pipe.read(&mut [0; 8]).unwrap(), 0);
        drop(pipe);
        // A pipe of before is in the way.
        let writing = || false;
        let mut pipe = Pipe::make(&path, &writing).unwrap();
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
}

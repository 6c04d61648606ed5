//! Exit codes.

use std::process::ExitCode;

/// How a command ended. `--help` and `docs/cli.md` list the same codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It failed; what to do is on standard error.
    Failed = 1,
    /// Wrong use. The parser of the command line gives this one by itself, too.
    Usage = 2,
    /// It was done, and something is not whole.
    NotWhole = 3,
}

/// What `--help` says of them.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed: standard error says why
  2  wrong use of the command line
  3  something is not whole (verify, repair, archive rebuild-state)";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

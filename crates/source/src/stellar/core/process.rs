//! Core as a process: started, listened to, and ended with the program that started it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::quiet::Quiet;

/// Bytes of an answer on standard output that are read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a line of the log that are read.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// How core logs a change of its state, and the state in which it is in sync.
const STATE_CHANGE: &str = "Changing state ";
const STATE_SYNCED: &str = "LM_SYNCED_STATE";

/// How long core may take to end by itself after the signal: it closes its database in that time.
const END_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) binary: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) work_dir: PathBuf,
    pub(crate) quiet: Quiet,
}

/// The process that runs now, if one does. One at a time.
#[derive(Default, Debug)]
pub(crate) struct Process {
    inner: Mutex<Inner>,
}

#[derive(Default, Debug)]
struct Inner {
    child: Option<Child>,
    /// Whether none is to be started any more.
    closed: bool,
    /// Of this process alone: one of before may still be heard.
    output: Arc<Mutex<CoreOutput>>,
}

#[derive(Default, Debug)]
struct CoreOutput {
    last: String,
    /// Whether it reported that it is behind the network.
    catching_up: bool,
}

/// What is done with standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    Log,
    Answer,
}

impl Process {
    /// Starts it. What it says on standard output is handed back where it is an answer.
    pub(crate) fn start(
        &self,
        call: &Call,
        args: &[String],
        output: Output,
    ) -> Result<Option<JoinHandle<String>>, String> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err("it was stopped".to_owned());
        }
        let mut command = Command::new(&call.binary);
        command
            .arg("--conf")
            .arg(&call.config)
            .arg("--console")
            .args(args)
            .current_dir(&call.work_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Whatever it starts goes with it.
            .process_group(0);
        let binary = call.binary.display();
        let mut child = command
            .spawn()
            .map_err(|error| format!("{binary} cannot be started: {error}"))?;
        tracing::info!(pid = child.id(), command = args.join(" "), "core started");
        let pid_file = call.work_dir.join(PID_FILE);
        if let Err(error) = fs::write(pid_file, child.id().to_string()) {
            tracing::warn!(%error, "the pid of core cannot be written");
        }
        inner.output = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            log(stderr, call.quiet.clone(), inner.output.clone());
        }
        let stdout = child.stdout.take();
        let answer = match (stdout, output) {
            (Some(stdout), Output::Log) => {
                log(stdout, call.quiet.clone(), inner.output.clone());
                None
            }
            (Some(stdout), Output::Answer) => Some(std::thread::spawn(move || answer_of(stdout))),
            (None, _) => None,
        };
        inner.child = Some(child);
        Ok(answer)
    }

    /// How it ended, where it has.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        let mut inner = self.inner.lock();
        let child = inner.child.as_mut()?;
        // It is reaped under the lock, so that no signal reaches another process with its number.
        child.try_wait().ok().flatten()
    }

    /// Ends it: by a signal, and by killing it with all that it started where it does not end in time. Waits
    /// until it is gone.
    pub(crate) fn end(&self) {
        self.end_within(END_PATIENCE);
    }

    fn end_within(&self, patience: Duration) {
        // Nothing else signals it from here on: its number is its own until it is reaped below.
        let child = self.inner.lock().child.take();
        let Some(mut child) = child else {
            return;
        };
        if !child.try_wait().is_ok_and(|ended| ended.is_none()) {
            return;
        }
        signal_group(child.id(), Signal::INT);
        if !ends_within(child.id(), patience) {
            tracing::warn!(
                pid = child.id(),
                "core does not end by itself: it is killed"
            );
            signal_group(child.id(), Signal::KILL);
        }
        // It is gone, or cannot refuse: this does not take long.
        let _ended = child.wait();
    }

    /// Asks it to end, and lets none be started any more. Does not wait: the thread that runs it does.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        if let Some(child) = inner.child.as_mut()
            && child.try_wait().is_ok_and(|ended| ended.is_none())
        {
            signal_group(child.id(), Signal::INT);
        }
    }

    /// What went wrong, with what it printed last.
    pub(crate) fn with_last_lines(&self, what: &str) -> String {
        let output = self.inner.lock().output.clone();
        match output.lock().last.as_str() {
            "" => what.to_owned(),
            last => format!("{what}; it said: {last}"),
        }
    }

    /// Whether it reports that it is behind the network; false where it reports nothing.
    pub(crate) fn is_catching_up(&self) -> bool {
        let output = self.inner.lock().output.clone();
        output.lock().catching_up
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Passes what it prints on to the log, line by line, on a thread of its own.
fn log(from: impl Read + Send + 'static, quiet: Quiet, output: Arc<Mutex<CoreOutput>>) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line);
            if !read.is_ok_and(|bytes| bytes > 0) {
                return;
            }
            let text = quiet.hide(&String::from_utf8_lossy(&line));
            if text.is_empty() {
                continue;
            }
            tracing::debug!(core = %text, "core says");
            let mut output = output.lock();
            output.catching_up = is_catching_up(&text).unwrap_or(output.catching_up);
            output.last = text;
        }
    });
}

/// Whether a line reports that core is behind the network now; none where it is about something else.
fn is_catching_up(line: &str) -> Option<bool> {
    let (_, states) = line.split_once(STATE_CHANGE)?;
    let (_, now) = states.split_once(" -> ")?;
    Some(now.trim() != STATE_SYNCED)
}

fn answer_of(from: impl Read) -> String {
    let mut answer = Vec::new();
    // What was read until it broke is all there is.
    let _read = from.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

fn signal_group(id: u32, signal: Signal) {
    if let Some(id) = pid(id)
        && let Err(error) = kill_process_group(id, signal)
    {
        tracing::debug!(%error, "core was gone already");
    }
}

/// Whether a process ends in time. One that cannot be watched does not.
fn ends_within(id: u32, patience: Duration) -> bool {
    let watched = pid(id).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
    let patience = Timespec {
        tv_sec: patience.as_secs().cast_signed(),
        tv_nsec: patience.subsec_nanos().into(),
    };
    watched.is_some_and(|watched| {
        let mut requested = [PollFd::new(&watched, PollFlags::IN)];
        poll(&mut requested, Some(&patience)).is_ok_and(|ready| ready > 0)
    })
}

/// The file with the pid of core.
const PID_FILE: &str = "core.pid";

/// A core that outlived the program that started it, by its pid file: it still holds the database.
pub(crate) fn stale(call: &Call) -> Option<u32> {
    let noted = fs::read_to_string(call.work_dir.join(PID_FILE)).ok()?;
    let id: u32 = noted.trim().parse().ok()?;
    is_ours(id, &call.config).then_some(id)
}

/// Ends it, and waits until it is gone or killed.
pub(crate) fn end_stale(id: u32) {
    tracing::warn!(pid = id, "a core of before still runs: it is ended");
    signal_group(id, Signal::INT);
    if !ends_within(id, END_PATIENCE) {
        signal_group(id, Signal::KILL);
    }
}

/// Whether a process is a core with these settings: numbers of processes are given again.
fn is_ours(id: u32, config: &Path) -> bool {
    let args = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let config = config.as_os_str().as_encoded_bytes();
    args.split(|byte| *byte == 0).any(|word| word == config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_reports_its_position() {
        let at = "2026-01-01T00:00:00.000 GABCD [Ledger INFO]";
        for (line, expected) in [
            (
                "Changing state LM_BOOTING_STATE -> LM_CATCHING_UP_STATE",
                Some(true),
            ),
            (
                "Changing state LM_SYNCED_STATE -> LM_CATCHING_UP_STATE",
                Some(true),
            ),
            (
                "Changing state LM_CATCHING_UP_STATE -> LM_SYNCED_STATE",
                Some(false),
            ),
            (
                "Changing state LM_BOOTING_STATE -> LM_SYNCED_STATE\n",
                Some(false),
            ),
            ("Changing state", None),
            ("Got consensus: LM_SYNCED_STATE", None),
        ] {
            assert_eq!(is_catching_up(&format!("{at} {line}")), expected, "{line}");
        }
    }

    /// A shell script in place of core. A shell cannot trap a signal that it was started to ignore, as by `nohup`.
    fn script(dir: &Path, text: &str) -> Call {
        use std::os::unix::fs::PermissionsExt as _;
        let binary = dir.join("core.sh");
        fs::write(
            &binary,
            format!("#!/usr/bin/env -S --default-signal=INT sh\n{text}\n"),
        )
        .unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        Call {
            binary,
            config: dir.join("core.cfg"),
            work_dir: dir.to_owned(),
            quiet: Quiet::default(),
        }
    }

    /// Core was killed while it wrote its database. It gets a signal first, and has time; one that does not listen
    /// is killed after that.
    #[test]
    fn core_is_requested_to_end_before_it_is_killed() {
        for (trap, patience, is_requested) in [
            ("trap 'echo asked > asked; exit 0' INT", END_PATIENCE, true),
            ("trap '' INT", Duration::from_millis(50), false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let call = script(
                dir.path(),
                &format!("{trap}\necho ready > ready\nwhile :; do sleep 0.01; done"),
            );
            let process = Process::default();
            process.start(&call, &[], Output::Log).unwrap();
            while !dir.path().join("ready").exists() {
                std::thread::yield_now();
            }
            process.end_within(patience);
            assert_eq!(dir.path().join("asked").exists(), is_requested, "{trap}");
            assert!(process.ended().is_none());
        }
    }
}

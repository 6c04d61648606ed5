//! A throwaway PostgreSQL server on a free loopback port, for tests and benchmarks.
//!
//! Runs as any user; as root it becomes `postgres`, because the server refuses root. Stopped and
//! removed when dropped. Blocks while it starts, about a second.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::nonce::Nonces;
use crate::{Error, Result};

/// Starts again on another port if another process took this one first.
const START_TRIES: usize = 5;

/// How a [`TempPostgres`] is set up.
#[derive(Clone, Default, Debug)]
pub struct TempPostgresOptions {
    /// Whether commits reach the disk, as in production. Off is what tests want.
    pub durable: bool,
    /// Further settings, each as `name=value`.
    pub settings: Vec<String>,
}

/// A running server.
#[derive(Debug)]
pub struct TempPostgres {
    /// Where it is.
    pub url: String,
    directory: PathBuf,
    programs: PathBuf,
    settings: Vec<String>,
}

impl TempPostgres {
    /// Makes and starts a server.
    pub fn start(options: &TempPostgresOptions) -> Result<Self> {
        let programs = find_programs()?;
        let directory = new_directory()?;
        let mut settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
        ];
        if !options.durable {
            settings.extend(["fsync=off", "full_page_writes=off"].map(str::to_owned));
        }
        settings.extend(options.settings.iter().cloned());
        // From here on, dropping it removes the directory.
        let mut server = Self {
            url: String::new(),
            directory,
            programs,
            settings,
        };
        let data = server.directory.join("data");
        let mut initdb = server.command("initdb");
        initdb.args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        run(initdb.arg("-D").arg(data))?;
        server.start_on_a_free_port()?;
        Ok(server)
    }

    /// Kills the server as a crash would. [`Self::restart`] brings it back.
    pub fn kill(&self) -> Result<()> {
        run(self.control().args(["-m", "immediate", "stop"]))
    }

    /// Starts a killed server on its port again.
    pub fn restart(&self) -> Result<()> {
        let port = self
            .url
            .rsplit(':')
            .next()
            .and_then(|rest| rest.split('/').next());
        self.start_on(port.unwrap_or_default())
    }

    /// What the server wrote down so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn start_on_a_free_port(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for _ in 0..START_TRIES {
            let port = free_port().map_err(|error| Error::unavailable("find a port", error))?;
            outcome = self.start_on(&port.to_string());
            if outcome.is_ok() {
                self.url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
                break;
            }
        }
        outcome
    }

    fn start_on(&self, port: &str) -> Result<()> {
        let mut arguments = format!("-c port={port}");
        for setting in &self.settings {
            arguments.push_str(&format!(" -c '{setting}'"));
        }
        let log = self.directory.join("log");
        let mut start = self.control();
        run(start
            .args(["-w", "-t", "60", "-o", &arguments, "-l"])
            .arg(log)
            .arg("start"))
    }

    fn control(&self) -> Command {
        let mut control = self.command("pg_ctl");
        control.arg("-s").arg("-D").arg(self.directory.join("data"));
        control
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--init-groups",
                "--",
            ]);
            command.arg(program);
        } else {
            command = Command::new(program);
        }
        // The current directory may be one that the user postgres cannot enter.
        command.current_dir("/");
        command
    }
}

impl Drop for TempPostgres {
    fn drop(&mut self) {
        // It may be down already; the directory is what must not stay.
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The programs of the newest installed version.
fn find_programs() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(|path| number(path));
    newest
        .map(|path| path.join("bin"))
        .ok_or_else(|| Error::Unavailable {
            context: "PostgreSQL is missing: apt-get install -y postgresql".to_owned(),
            source: None,
        })
}

fn new_directory() -> Result<PathBuf> {
    let name = format!("chronolith-postgres-{:x}", Nonces::new().next() >> 64);
    let directory = std::env::temp_dir().join(name);
    fs::create_dir(&directory)
        .map_err(|error| Error::unavailable("create directory of the server", error))?;
    if is_root() {
        run(Command::new("chown").arg("postgres:").arg(&directory))?;
    }
    Ok(directory)
}

fn run(command: &mut Command) -> Result<()> {
    // Not a pipe: the server inherits it and would keep it open.
    let status = command.stdout(std::process::Stdio::null()).status();
    let failed = |why: String| Error::unavailable(format!("run {command:?}"), why);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

//! The program that is loaded, and what it takes.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::program::{chronolith, memory_of};

/// How long the program may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that ends with its owner.
pub(crate) struct Server {
    child: Child,
    /// The address of the public listener, and of health and metrics.
    pub(crate) public: String,
    pub(crate) health: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a command on these chains, and waits until it listens.
    pub(crate) fn start(dir: &Path, chains: &Value, command: &str) -> Result<Self> {
        let log = dir.join("log");
        let mut program = chronolith(dir, chains, &[command])?;
        program
            .env("RUST_LOG", "info")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?);
        let child = program.spawn().context("start chronolith")?;
        let mut server = Self {
            child,
            public: String::new(),
            health: String::new(),
        };
        server.health = server.listener(&log, "health_listening")?;
        server.public = server.listener(&log, "public_listening")?;
        Ok(server)
    }

    fn listener(&mut self, log: &Path, event: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(log)?;
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let found = lines.into_iter().find_map(|line: Value| {
                let fields = line.get("fields")?;
                let is_it = fields.get("event")?.as_str()? == event;
                let listen = fields.get("listen")?.as_str()?;
                is_it.then(|| listen.replace("0.0.0.0", "127.0.0.1"))
            });
            if let Some(found) = found {
                return Ok(found);
            }
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none(), "the program ended: {text}");
            ensure!(began.elapsed() < PATIENCE, "it does not listen: {text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Resident memory now, in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        memory_of(self.child.id(), "VmRSS:").unwrap_or(f64::NAN)
    }

    /// The most since the start, or since [`Server::forget_peak`].
    pub(crate) fn peak_mib(&self) -> f64 {
        memory_of(self.child.id(), "VmHWM:").unwrap_or(f64::NAN)
    }

    /// Open sockets: connections that it has accepted, and a few of its own.
    pub(crate) fn sockets(&self) -> Result<usize> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?;
        // A file may be closed meanwhile.
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        let is_socket = |link: &PathBuf| link.to_string_lossy().starts_with("socket:");
        Ok(links.filter(is_socket).count())
    }

    pub(crate) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(path, "5").context("reset the peak of memory")
    }
}

//! The guard of the public listener: API keys, and the access log with the thread that writes it.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use chronolith_follower::clock::precise_now;
use chronolith_serve::chain::ServedChains;
use chronolith_serve::http::{Access, AccessLog, MillisClock};

use crate::settings::{AccessLogTarget, Settings};

/// The guard that the settings ask for; none where they ask for nothing.
///
/// # Errors
/// The file of the log cannot be opened.
pub(crate) fn start(settings: &Settings, served: &ServedChains) -> Result<Option<Access>> {
    let log = access_log(&settings.access_log)?;
    Ok(Access::new(settings.api_keys.as_ref(), log, served))
}

fn access_log(target: &AccessLogTarget) -> Result<Option<AccessLog>> {
    let out: Box<dyn Write + Send> = match target {
        AccessLogTarget::Off => return Ok(None),
        AccessLogTarget::Stderr => Box::new(std::io::stderr()),
        AccessLogTarget::File(path) => {
            // Each write goes to the end, so that logrotate may truncate the file.
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file =
                file.with_context(|| format!("accessLog: {} cannot be opened", path.display()))?;
            Box::new(file)
        }
    };
    let clock: MillisClock = Arc::new(|| (precise_now() * 1_000.0) as u64);
    let (log, lines) = AccessLog::new(clock);
    thread::Builder::new()
        .name("access-log".to_owned())
        .spawn(move || lines.write_to(BufWriter::new(out)))
        .context("start the thread of the access log")?;
    Ok(Some(log))
}

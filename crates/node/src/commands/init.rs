//! `chronolith init`: four questions, and a settings file with the answers.
//!
//! Answers come from flags, else from standard input. A file that is there is never replaced without `--force`.

use std::fs::OpenOptions;
use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use chronolith_source::evm::Prober;
use clap::ValueEnum as _;

use super::init_plan::{Blocks, Place, Plan};
use crate::cli::{Cli, InitAnswers, Keep};
use crate::environment::DATA_DIR;
use crate::exit::Exit;
use crate::settings::{DEFAULT_FILE, PUBLIC_PORT, check_text, find_file};

/// How often a question is put again at a terminal.
const TRIES: usize = 5;

/// Flags that other commands have too, and that answer the last question.
#[derive(Debug)]
pub(crate) struct InitFlags {
    config: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    port: Option<u16>,
    portal_url: Option<String>,
}

impl InitFlags {
    pub(crate) fn new(cli: &Cli) -> Self {
        Self {
            config: cli.config.clone(),
            data_dir: cli.data_dir.clone(),
            port: cli.port,
            portal_url: cli.portal_url.clone(),
        }
    }
}

pub(crate) async fn init(flags: &InitFlags, answers: &InitAnswers) -> Result<Exit> {
    let path = target(flags.config.as_deref(), answers.force)?;
    let mut asking = Asking::new(answers);
    let blocks = blocks(&mut asking, answers).await?;
    let keep = match answers.keep {
        Some(keep) => keep,
        None => asking.ask(
            "What to keep? clock: number, hash and time; logs: also logs; everything: also headers and transactions",
            if blocks.urls.is_empty() { "clock" } else { "logs" },
            |answer| Keep::from_str(answer, true).map_err(|_| anyhow!("want clock, logs or everything")),
        )?,
    };
    let place = match (&flags.data_dir, flags.port) {
        (None, None) => asking.ask(
            "Where? The data directory and the port of the public API",
            &format!("{DATA_DIR} {PUBLIC_PORT}"),
            Place::parse,
        )?,
        (dir, port) => Place {
            data_dir: dir.clone().unwrap_or_else(|| DATA_DIR.into()),
            port: port.unwrap_or(PUBLIC_PORT),
        },
    };
    let plan = Plan {
        blocks,
        keep,
        place,
        portal_url: flags.portal_url.clone(),
    };
    let text = format!("{}\n", serde_json::to_string_pretty(&plan.settings()?)?);
    check_text(&text).context("these answers make no settings")?;
    write(&path, &text, answers.force)?;
    for note in plan.notes() {
        println!("Note: {note}.");
    }
    let config = match &flags.config {
        Some(path) => format!(" --config {}", path.display()),
        None => String::new(),
    };
    println!("Wrote {}: {}.", path.display(), plan.summary());
    println!("Next: chronolith run{config}");
    Ok(Exit::Done)
}

/// The file to write.
///
/// # Errors
/// It is there, or it is not JSON by its name.
fn target(named: Option<&Path>, force: bool) -> Result<PathBuf> {
    let found = find_file(named)?;
    let path = named.map(Path::to_owned).or_else(|| found.clone());
    let path = path.unwrap_or_else(|| DEFAULT_FILE.into());
    ensure!(
        path.extension().is_none_or(|name| name != "toml"),
        "{}: init writes JSON, so name a file that does not end in .toml",
        path.display()
    );
    let is_there = path.try_exists();
    let is_there = is_there.with_context(|| format!("cannot look at {}", path.display()))?;
    ensure!(
        force || !is_there,
        "{} is there: --force replaces it, --config FILE names another one",
        path.display()
    );
    Ok(path)
}

/// Which chains, and where their blocks come from: the first two questions.
async fn blocks(asking: &mut Asking, answers: &InitAnswers) -> Result<Blocks> {
    let chains = match &answers.chains {
        Some(chains) => Blocks::parse_chains(chains).context("--chains")?,
        None => asking.ask(
            "Which chains? Names such as ethereum,base (`chronolith config chains`), all, or the URL of a node",
            "all",
            Blocks::parse_chains,
        )?,
    };
    let default = if chains.urls.is_empty() {
        "portal"
    } else {
        "rpc"
    };
    let sources = |text: &str| chains.clone().with_sources(text);
    let mut blocks = match &answers.from {
        Some(from) => sources(from).context("--from")?,
        None => asking.ask(
            "Blocks from where? portal: SQD Portal; URLs of nodes, which prove them; or both: portal,URL",
            default,
            sources,
        )?,
    };
    for node in &mut blocks.urls {
        if node.chain_id.is_none() {
            node.chain_id = Some(chain_id_of(&node.url).await?);
        }
    }
    blocks.check()?;
    Ok(blocks)
}

/// Asks a node for its chain.
async fn chain_id_of(url: &str) -> Result<u64> {
    let asked = async { Prober::new(url)?.newest().await };
    let (chain_id, _) = asked.await.context(
        "a node does not say which chain it has: give CHAIN=URL, such as 31337=http://127.0.0.1:8545",
    )?;
    Ok(chain_id)
}

/// Writes the file, which only its owner may read: URLs carry keys. One that is there is replaced whole or not at all.
fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let written = if force {
        let mut part = path.as_os_str().to_owned();
        part.push(".new");
        // It was left by a run that ended early.
        let _ = std::fs::remove_file(&part);
        write_new(part.as_ref(), text).and_then(|()| std::fs::rename(&part, path))
    } else {
        write_new(path, text)
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Reads answers.
struct Asking {
    is_terminal: bool,
}

impl Asking {
    fn new(answers: &InitAnswers) -> Self {
        let is_terminal = std::io::stdin().is_terminal();
        let all_given =
            answers.chains.is_some() && answers.from.is_some() && answers.keep.is_some();
        if !is_terminal && !all_given {
            eprintln!(
                "standard input is no terminal: answers are read from it, one a line; an empty or missing line takes the default"
            );
        }
        Self { is_terminal }
    }

    /// Puts a question until the answer can be used, at a terminal; else once.
    fn ask<T>(
        &mut self,
        question: &str,
        default: &str,
        parse: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            print!("{question} [{default}]: ");
            std::io::stdout().flush().context("write the question")?;
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            match read {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    bail!("the answer is not UTF-8")
                }
                Err(error) => return Err(error).context("read the answer"),
            }
            if !self.is_terminal {
                println!();
            }
            let answer = match line.trim() {
                "" => default,
                answer => answer,
            };
            match parse(answer) {
                Err(error) if self.is_terminal => println!("{error:#}"),
                parsed => return parsed,
            }
        }
        bail!("no answer after {TRIES} tries: `chronolith init --help` lists the flags")
    }
}

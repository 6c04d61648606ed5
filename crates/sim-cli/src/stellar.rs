//! `chronolith-sim stellar-lake` and `chronolith-sim stellar-core`: a simulated Stellar network as files and as a
//! stand-in for stellar-core.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use chronolith_sim::stellar::core::{
    self, CoreConf, CoreFrames, CoreState, CoreStep, GENESIS_LEDGER, catchup_ledgers, checkpoint,
};
use chronolith_sim::stellar::{Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings};
use clap::Parser as _;
use serde_json::json;

use crate::cli::{Core, CoreCommand, CoreStream, NewestAt, StellarCore, StellarLake, Suffix};

/// Frames are handed on whole; this only saves small writes.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes a lake.
pub(crate) fn stellar_lake(options: &StellarLake) -> Result<()> {
    let settings = match &options.conf {
        Some(path) => load(path)?.chain,
        None => {
            let default = StellarSettings::new(options.seed);
            StellarSettings {
                passphrase: options.passphrase.clone().unwrap_or(default.passphrase),
                transactions: options.transactions.unwrap_or(default.transactions),
                target_bytes: options.target_bytes.unwrap_or(default.target_bytes),
                ..default
            }
        }
    };
    let layout = LakeLayout {
        ledgers_per_file: options.ledgers_per_file,
        files_per_partition: options.files_per_partition,
        suffix: match options.suffix {
            Suffix::Zst => LakeSuffix::Zst,
            Suffix::Zstd => LakeSuffix::Zstd,
        },
    };
    let chain = StellarChain::new(placed_in_time(settings, options, layout)?);
    let lake = Lake::new(&options.out, layout);
    let cannot = || format!("--out: cannot write to {}", options.out.display());
    let begun = Instant::now();
    if !options.no_manifest {
        lake.write_manifest(&chain).with_context(cannot)?;
    }
    let written = lake.write(&chain, options.ledgers.clone());
    let written = written.with_context(cannot)?;
    println!("lake      {}", options.out.display());
    println!("network   {}", chain.settings().passphrase);
    println!("ledgers   {}..{}", written.start, written.end);
    println!("genesis   {}", chain.settings().genesis_time);
    println!("newest    {}", layout.key(written.end - 1));
    println!("seconds   {:.1}", begun.elapsed().as_secs_f64());
    Ok(())
}

/// The same chain, moved in time so that its newest ledger closed when it should. The steps from ledger to ledger
/// stay.
fn placed_in_time(
    mut settings: StellarSettings,
    options: &StellarLake,
    layout: LakeLayout,
) -> Result<StellarSettings> {
    let wanted = match options.newest_at {
        None => return Ok(settings),
        Some(NewestAt::Now) => UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        Some(NewestAt::Time(time)) => time,
    };
    let (_, newest) = layout.file(options.ledgers.end.saturating_sub(1));
    let chain = StellarChain::new(settings.clone());
    let took = chain.ledger(newest.max(settings.first_ledger)).close_time - settings.genesis_time;
    let genesis = wanted.checked_sub(took);
    settings.genesis_time = genesis
        .with_context(|| format!("--newest-at: the ledgers take {took} seconds, which is more"))?;
    Ok(settings)
}

/// Does what stellar-core would do with these arguments.
pub(crate) async fn stellar_core(options: &StellarCore) -> Result<()> {
    let name = ["stellar-core".to_owned()];
    // Like core, and like the rest of this program, it exits on wrong arguments.
    let options = Core::parse_from(name.iter().chain(&options.arguments));
    if matches!(options.what, CoreCommand::Version) {
        let version = env!("CARGO_PKG_VERSION");
        println!("stellar-core simulated by chronolith {version}");
        println!("ledger protocol version: {}", StellarChain::protocol());
        return Ok(());
    }
    let process = Process {
        conf: load(&options.conf)?,
        directory: std::env::current_dir().context("find the working directory")?,
    };
    let stream = match &options.what {
        CoreCommand::Catchup { stream, .. } | CoreCommand::Run { stream } => Some(stream),
        _ => None,
    };
    if process.conf.has_stream && stream.is_some_and(|it| it.metadata_output_stream.is_some()) {
        bail!("METADATA_OUTPUT_STREAM is set in the file, and --metadata-output-stream is given");
    }
    match options.what {
        CoreCommand::Version => {}
        CoreCommand::NewDb => CoreState::reset(&process.directory)?.save(&process.directory)?,
        CoreCommand::OfflineInfo => process.print_info()?,
        CoreCommand::Catchup { ledgers, stream } => process.catchup(ledgers, &stream).await?,
        CoreCommand::Run { stream } => process.run(&stream).await?,
    }
    Ok(())
}

fn load(path: &Path) -> Result<CoreConf> {
    let read = || format!("--conf: cannot read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(read)?;
    CoreConf::parse(&text).with_context(|| format!("in {}", path.display()))
}

/// One run of the stand-in.
struct Process {
    conf: CoreConf,
    directory: PathBuf,
}

impl Process {
    fn state(&self) -> Result<CoreState> {
        let state = CoreState::load(&self.directory).context("read the state")?;
        state.context("no database here: run new-db first")
    }

    /// What `offline-info` says.
    fn print_info(&self) -> Result<()> {
        let state = self.state()?;
        let chain = StellarChain::new(self.conf.chain.clone());
        let (hash, close_time) = if state.lcl >= self.conf.chain.first_ledger {
            let made = chain.ledger(state.lcl);
            (made.hash, made.close_time)
        } else {
            (chain.genesis_hash(), 0)
        };
        let info = json!({ "info": {
            "build": "stellar-core simulated",
            "ledger": { "num": state.lcl, "hash": const_hex::encode(hash.0), "closeTime": close_time },
            "network": chain.settings().passphrase,
            "protocol_version": StellarChain::protocol(),
        }});
        println!("{info:#}");
        Ok(())
    }

    /// Remembers a state; without a database on disk, none but the faults that struck.
    fn save(&self, state: &CoreState) -> Result<()> {
        let mut state = state.clone();
        if !self.conf.keeps_ledgers {
            state.lcl = GENESIS_LEDGER;
        }
        state.save(&self.directory).context("write the state")
    }

    /// That the ledger to catch up with is in history: up to the newest checkpoint that is published, where it is
    /// known how far the network is.
    fn check_published(&self, to: u32, reached: u32) -> Result<()> {
        let newest = checkpoint(self.conf.head.max(reached));
        if let Some(newest) = newest.filter(|newest| to > *newest) {
            bail!("the checkpoint with ledger {to} is not published yet: the newest is {newest}");
        }
        Ok(())
    }

    fn writing(
        &self,
        command: core::CoreCommand,
        (chain, state): (StellarChain, CoreState),
        stream: &CoreStream,
    ) -> Result<Writing<'_>> {
        let faults = self.conf.faults_left(command, &state.struck);
        Ok(Writing {
            process: self,
            state,
            frames: CoreFrames::new(chain, open(stream)?, faults),
        })
    }

    /// Writes the requested ledgers; then the last of it is the last closed ledger.
    async fn catchup(&self, requested: (u32, u32), stream: &CoreStream) -> Result<()> {
        let state = self.state()?;
        if requested.1 == 0 {
            self.check_published(requested.0, state.reached)?;
        }
        let chain = StellarChain::new(self.conf.chain.clone());
        let ledgers = catchup_ledgers(&chain, requested, self.conf.from_checkpoint);
        let mut writing = self.writing(core::CoreCommand::Catchup, (chain, state), stream)?;
        for sequence in ledgers {
            writing.write(sequence).await?;
        }
        writing.state.lcl = requested.0;
        self.save(&writing.state)
    }

    /// Writes ledgers forever: those up to the head at once, the others as they are closed.
    async fn run(&self, stream: &CoreStream) -> Result<()> {
        let state = self.state()?;
        let chain = StellarChain::new(self.conf.chain.clone());
        // One that remembers nothing begins with the newest checkpoint.
        let newest = checkpoint(self.conf.head).filter(|_| !self.conf.keeps_ledgers);
        let closed = state.lcl.max(newest.unwrap_or_default());
        let next = closed.saturating_add(1).max(chain.settings().first_ledger);
        let mut writing = self.writing(core::CoreCommand::Run, (chain, state), stream)?;
        let mut state = "LM_BOOTING_STATE";
        for sequence in next.. {
            let is_synced = sequence > self.conf.head;
            let now = match is_synced {
                true => "LM_SYNCED_STATE",
                false => "LM_CATCHING_UP_STATE",
            };
            if now != state {
                println!("[Ledger INFO] Changing state {state} -> {now}");
                state = now;
            }
            if is_synced {
                tokio::time::sleep(Duration::from_millis(self.conf.ledger_ms)).await;
            }
            writing.write(sequence).await?;
        }
        Ok(())
    }
}

/// A stream under way.
struct Writing<'a> {
    process: &'a Process,
    state: CoreState,
    frames: CoreFrames<BufWriter<File>>,
}

impl Writing<'_> {
    /// Writes one ledger, and records it: a process that is killed in between writes it again.
    async fn write(&mut self, sequence: u32) -> Result<()> {
        if let Some((place, _)) = self.frames.due() {
            self.state.strike(place);
            self.process.save(&self.state)?;
        }
        match self.frames.write(sequence).context("write a ledger")? {
            CoreStep::Next => {}
            CoreStep::Stall => std::future::pending().await,
            CoreStep::Die => bail!("injected fault before ledger {sequence}"),
        }
        self.state.lcl = sequence;
        self.state.reached = self.state.reached.max(sequence);
        self.process.save(&self.state)
    }
}

/// Opens where ledgers go. A pipe by its path waits for its reader.
fn open(stream: &CoreStream) -> Result<Option<BufWriter<File>>> {
    let Some(name) = &stream.metadata_output_stream else {
        return Ok(None);
    };
    let path = match name.strip_prefix("fd:") {
        Some(number) => Path::new("/dev/fd").join(number),
        None => PathBuf::from(name),
    };
    let file = OpenOptions::new().write(true).open(&path);
    let file = file.with_context(|| format!("--metadata-output-stream: cannot open {name}"))?;
    Ok(Some(BufWriter::with_capacity(BUFFER_BYTES, file)))
}

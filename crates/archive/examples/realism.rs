//! Compares simulated logs with real ones where it matters to the archive: how well they compress
//! and how many new words they bring.
//!
//! Arguments: files of real logs, one JSON object a line; without any, the fixtures of Ethereum.
//! For each file, as many simulated logs as it has go the same way, several times over.

use std::collections::HashSet;
use std::fmt;

use anyhow::{Context as _, Result};
use chronolith_model::{BlockRange, Log, LogParts};
use chronolith_sim::{ChainSpec, SimChain};
use serde_json::Value;

/// Rows of a frame, compression level and dictionary size of sealed segments.
const FRAME_ROWS: usize = 32;
const LEVEL: i32 = 3;
const DICTIONARY_BYTES: usize = 16 << 10;
/// Stretches of the simulated chain that are looked at.
const STRETCHES: u64 = 20;

fn main() -> Result<()> {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/evm");
        paths.push(format!("{fixtures}/ethereum-logs.ndjson"));
    }
    let chain = SimChain::new(ChainSpec::mainnet(1));
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let real = text.lines().map(real_log).collect::<Result<Vec<Log>>>()?;
        let stretch = |at: u64| {
            let blocks = chain.blocks(BlockRange::new(at * 1_000, u64::MAX));
            let logs = blocks.flat_map(|block| block.logs).take(real.len());
            Portrait::of(&logs.collect::<Vec<_>>())
        };
        let simulated: Vec<Portrait> = (0..STRETCHES).map(stretch).collect::<Result<_>>()?;
        println!("{path}: {} logs", real.len());
        println!("  real       {}", Portrait::of(&real)?);
        println!("  simulated  {}", Portrait::mean(&simulated));
    }
    Ok(())
}

/// Bytes a log, in several ways.
#[derive(Clone, Copy, Debug, Default)]
struct Portrait {
    /// As it is, and with the leading zeros of words left out.
    raw: f64,
    stripped: f64,
    /// In frames without a dictionary, and with one learnt from the same frames, not counted.
    frames: f64,
    frames_with_dictionary: f64,
    /// All in one, as small as it gets.
    whole: f64,
    /// Words that no log before had: of emitters, topics and data; their bytes.
    new_emitters: f64,
    new_topics: f64,
    new_data: f64,
}

impl fmt::Display for Portrait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "raw {:.1}, stripped {:.1}, frames {:.1}, with dictionary {:.1}, whole {:.1}; \
             new words: emitters {:.2}, topics {:.2}, data {:.2} B a log",
            self.raw,
            self.stripped,
            self.frames,
            self.frames_with_dictionary,
            self.whole,
            self.new_emitters,
            self.new_topics,
            self.new_data
        )
    }
}

impl Portrait {
    fn of(logs: &[Log]) -> Result<Self> {
        let rows: Vec<Vec<u8>> = logs.iter().map(stripped).collect();
        let frames: Vec<Vec<u8>> = rows.chunks(FRAME_ROWS).map(<[Vec<u8>]>::concat).collect();
        let dictionary = zstd::dict::from_samples(&frames, DICTIONARY_BYTES)?;
        let mut plain = zstd::bulk::Compressor::new(LEVEL)?;
        let mut taught = zstd::bulk::Compressor::with_dictionary(LEVEL, &dictionary)?;
        let (mut without, mut with) = (0, 0);
        for frame in &frames {
            without += plain.compress(frame)?.len();
            with += taught.compress(frame)?.len();
        }
        let whole = zstd::bulk::compress(&frames.concat(), 22)?.len();
        let (mut emitters, mut topics, mut data) = (HashSet::new(), HashSet::new(), HashSet::new());
        for log in logs {
            emitters.insert(log.emitter());
            topics.extend(log.topics());
            data.extend(log.data().chunks(32));
        }
        let new_data: Vec<&&[u8]> = data.difference(&topics).collect();
        let significant = |word: &[u8]| word.len() - zeros(word);
        let each = |bytes: usize| bytes as f64 / logs.len() as f64;
        Ok(Self {
            raw: each(logs.iter().map(Log::byte_len).sum()),
            stripped: each(rows.iter().map(Vec::len).sum()),
            frames: each(without),
            frames_with_dictionary: each(with),
            whole: each(whole),
            new_emitters: each(emitters.len() * 20),
            new_topics: each(topics.iter().map(|word| significant(word)).sum()),
            new_data: each(new_data.iter().map(|word| significant(word)).sum()),
        })
    }

    fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        Self {
            raw: mean(|p| p.raw),
            stripped: mean(|p| p.stripped),
            frames: mean(|p| p.frames),
            frames_with_dictionary: mean(|p| p.frames_with_dictionary),
            whole: mean(|p| p.whole),
            new_emitters: mean(|p| p.new_emitters),
            new_topics: mean(|p| p.new_topics),
            new_data: mean(|p| p.new_data),
        }
    }
}

fn zeros(word: &[u8]) -> usize {
    word.iter().take_while(|byte| **byte == 0).count()
}

/// A log as frames hold it: words without their leading zeros.
fn stripped(log: &Log) -> Vec<u8> {
    let mut out = vec![0, 20];
    out.extend_from_slice(log.emitter());
    out.push(log.topic_count() as u8);
    let mut word = |word: &[u8]| {
        let significant = word.get(zeros(word)..).unwrap_or_default();
        out.push(significant.len() as u8);
        out.extend_from_slice(significant);
    };
    log.topics().for_each(&mut word);
    log.data().chunks(32).for_each(&mut word);
    out.push((log.data().len() / 32) as u8);
    out
}

fn real_log(line: &str) -> Result<Log> {
    let row: Value = serde_json::from_str(line)?;
    let bytes = |value: Option<&Value>| -> Result<Vec<u8>> {
        let text = value.and_then(Value::as_str).context("a hex string")?;
        let digits = text.strip_prefix("0x").context("0x")?.as_bytes();
        let pairs = digits.chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair)?;
            Ok(u8::from_str_radix(pair, 16)?)
        });
        pairs.collect()
    };
    let topics = row.get("topics").and_then(Value::as_array);
    let topics = topics.context("topics")?.iter();
    let topics = topics
        .map(|topic| bytes(Some(topic)))
        .collect::<Result<Vec<_>>>()?;
    let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
    Ok(Log::new(&LogParts {
        emitter: &bytes(row.get("address"))?,
        topics: &topics,
        data: &bytes(row.get("data"))?,
        ..LogParts::default()
    })?)
}

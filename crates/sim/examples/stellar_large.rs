//! How fast large Stellar ledgers are made, and how they compress beside real ones.
//!
//! `cargo run --release -p chronolith-sim --features stellar --example stellar_large -- [LEDGERS] [FIXTURE]`,
//! where the fixture is a compressed stream of framed ledgers.

use std::error::Error;
use std::time::Instant;

use chronolith_sim::stellar::{StellarChain, StellarSettings};

/// Compression of whole ledgers, as lakes have it.
const LEVEL: i32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u32 = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let chain = StellarChain::new(StellarSettings::large(1));
    let begun = Instant::now();
    let mut bytes = 0;
    for sequence in 2..2 + count {
        bytes += chain.ledger(sequence).raw.len();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rate = f64::from(count) / seconds;
    println!(
        "made      {count} ledgers of {} bytes",
        bytes / count as usize
    );
    println!(
        "speed     {rate:.0} ledgers/s, {:.0} MB/s",
        bytes as f64 / seconds / 1e6
    );
    let ledgers = (2..2 + count.min(20)).map(|sequence| chain.ledger(sequence).raw.to_vec());
    show("simulated", ledgers.collect())?;
    if let Some(path) = arguments.next() {
        let stream = zstd::stream::decode_all(std::fs::File::open(path)?)?;
        show("fixture", frames(&stream))?;
    }
    Ok(())
}

/// The ledgers of a stream.
fn frames(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut ledgers = Vec::new();
    while let Some((mark, rest)) = stream.split_first_chunk::<4>() {
        let len = (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
        let Some((ledger, rest)) = rest.split_at_checked(len) else {
            break;
        };
        ledgers.push(ledger.to_vec());
        stream = rest;
    }
    ledgers
}

fn show(what: &str, ledgers: Vec<Vec<u8>>) -> Result<(), Box<dyn Error>> {
    let mut small = 0;
    for ledger in &ledgers {
        small += zstd::bulk::compress(ledger, LEVEL)?.len();
    }
    let large: usize = ledgers.iter().map(Vec::len).sum();
    let count = ledgers.len().max(1);
    println!(
        "{what:<9} {count} ledgers of {} bytes, {} compressed, ratio {:.2}",
        large / count,
        small / count,
        large as f64 / small.max(1) as f64,
    );
    Ok(())
}

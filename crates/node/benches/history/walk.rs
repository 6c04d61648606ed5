//! How fast a ledger is walked, beside a full decode.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use chronolith_stellar::{Ledger, Network, prove};
use stellar_xdr::{LedgerCloseMeta, Limits, ReadXdr as _};

use crate::Verdict;
use crate::lake::Lake;

const LEDGERS: u32 = 30;

pub(crate) fn run(lake: &Lake, verdict: &mut Verdict) -> Result<()> {
    let last = lake.last.min(lake.first + LEDGERS - 1);
    let ledgers = (lake.first..=last).map(|sequence| lake.ledger(sequence));
    let ledgers = ledgers.collect::<Result<Vec<Bytes>>>()?;
    let bytes: usize = ledgers.iter().map(Bytes::len).sum();
    let network = Network::new(&*lake.passphrase);
    let walk = best(20, &ledgers, |raw| {
        Ledger::walk(raw.clone())?;
        Ok(())
    })?;
    let block = best(5, &ledgers, |raw| {
        prove(Ledger::walk(raw.clone())?, &network)?.block()?;
        Ok(())
    })?;
    let full = best(3, &ledgers, |raw| {
        LedgerCloseMeta::from_xdr(raw, Limits::none())?;
        Ok(())
    })?;
    let speed = |seconds: f64| bytes as f64 / seconds / 1e9;
    verdict.at_least("walk of a ledger, one core", speed(walk), 1.0, "GB/s");
    verdict.at_least("beside a full decode", full / walk, 5.0, "x");
    println!(
        "    full decode {:.2} GB/s; walk, proof and finished block {:.2} GB/s",
        speed(full),
        speed(block)
    );
    Ok(())
}

/// The shortest of several rounds over all ledgers, in seconds.
fn best(rounds: usize, ledgers: &[Bytes], work: impl Fn(&Bytes) -> Result<()>) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let began = Instant::now();
        ledgers.iter().try_for_each(&work)?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(best)
}

//! How fast real ledgers are walked and proven, beside a full decode: `cargo run --release -p
//! chronolith-stellar --example walk_speed -- FILE`, where FILE is zstd of a framed stream of ledgers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench may panic"
)]

use std::time::Instant;

use bytes::Bytes;
use chronolith_stellar::{Ledger, Network, prove};
use stellar_xdr::{LedgerCloseMeta, Limits, ReadXdr as _};

fn main() {
    let path = std::env::args().nth(1);
    let path = path
        .unwrap_or_else(|| "../shared/fixtures/stellar/load-test-ledgers-v26.xdr.zst".to_owned());
    let raw: Bytes = zstd::stream::decode_all(&std::fs::read(path).unwrap()[..])
        .unwrap()
        .into();
    let mut ledgers = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let mark = u32::from_be_bytes(raw[at..at + 4].try_into().unwrap());
        let end = at + 4 + (mark & 0x7fff_ffff) as usize;
        ledgers.push(raw.slice(at + 4..end));
        at = end;
    }
    let network = Network::new("load test network");
    let bytes: usize = ledgers.iter().map(Bytes::len).sum();
    let time = |what: &str, rounds: usize, work: &dyn Fn(&Bytes)| {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let began = Instant::now();
            ledgers.iter().for_each(work);
            best = best.min(began.elapsed().as_secs_f64());
        }
        let speed = bytes as f64 / best / 1e6;
        println!("{what:<28} {speed:>8.0} MB/s");
        best
    };
    println!(
        "{} ledgers, {} bytes each",
        ledgers.len(),
        bytes / ledgers.len()
    );
    let walk = time("walk", 20, &|raw| drop(Ledger::walk(raw.clone()).unwrap()));
    time("walk, prove", 5, &|raw| {
        drop(prove(Ledger::walk(raw.clone()).unwrap(), &network).unwrap())
    });
    time("walk, prove, make a block", 5, &|raw| {
        drop(
            prove(Ledger::walk(raw.clone()).unwrap(), &network)
                .unwrap()
                .block()
                .unwrap(),
        )
    });
    let full = time("full decode", 3, &|raw| {
        drop(LedgerCloseMeta::from_xdr(raw, Limits::none()).unwrap())
    });
    println!("the walk is {:.1} x a full decode", full / walk);
}

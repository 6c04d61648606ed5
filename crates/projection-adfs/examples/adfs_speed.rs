//! How fast ADFS calldata is decoded: the largest update, and one of the usual size, again and again.
//!
//! `cargo run --release -p chronolith-projection-adfs --example adfs_speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use chronolith_projection_adfs::{HeaderForm, Profile, decode};

const LASTS: Duration = Duration::from_secs(2);

/// Numeric values of 32 bytes, and a row for each sixteen feeds.
fn update(feeds: u32) -> Vec<u8> {
    let mut bytes = vec![0x01];
    bytes.extend(7_u64.to_be_bytes());
    bytes.extend(feeds.to_be_bytes());
    for feed in 0..feeds {
        bytes.extend([0, 4]);
        bytes.extend((feed << 13 | 5).to_be_bytes());
        bytes.extend([1, 32]);
        bytes.extend([feed as u8; 32]);
    }
    for row in 0..feeds.div_ceil(16) {
        bytes.push(4);
        bytes.extend(row.to_be_bytes());
        bytes.extend([0, 5].repeat(16));
    }
    bytes
}

fn main() {
    let profile = Profile::new(HeaderForm::BlockNumber);
    for feeds in [10, 929, 3_096] {
        let calldata = update(feeds);
        let began = Instant::now();
        let mut rounds = 0_u32;
        while began.elapsed() < LASTS {
            let decoded = decode(black_box(&calldata), &profile);
            let whole = decoded.as_ref().is_ok_and(|it| it.disagreements.is_empty());
            assert!(whole, "the update is refused or disagrees with itself");
            black_box(decoded.ok());
            rounds += 1;
        }
        let seconds = began.elapsed().as_secs_f64() / f64::from(rounds);
        println!(
            "{feeds:>5} feeds, {:>6} bytes: {:>8.1} µs, {:.0} MB/s",
            calldata.len(),
            seconds * 1e6,
            calldata.len() as f64 / seconds / 1e6
        );
    }
}

//! `getTransaction` over HTTP beside the plain way: a ledger as one zstd frame, unpacked and decoded whole.
//!
//! `cargo bench -p chronolith-serve --bench stellar`. Real ledgers where they are at hand, else made-up ones.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark may panic, and has a clock and tasks of its own"
)]

#[path = "../tests/stellar_support/mod.rs"]
mod stellar_support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chronolith_serve::http::{ConnectionLimits, Drain, Limits, listen};
use chronolith_sim::stellar::StellarSettings;
use chronolith_stellar::{Ledger, Network};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use stellar_support::{Rpc, World, block_of, fixture, framed, hex};
use stellar_xdr::{LedgerCloseMeta, Limits as XdrLimits, ReadXdr as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const LEDGERS: u32 = 26;
const CALLS: usize = 5_000;
const BASELINE_CALLS: usize = 100;

/// Ledgers of about 1.3 MB.
fn ledgers() -> (Network, Vec<Bytes>) {
    let Some(raw) = fixture("load-test-ledgers-v26.xdr.zst") else {
        let settings = StellarSettings {
            v1_from: 2,
            v2_from: 2,
            target_bytes: 1_300_000,
            ..StellarSettings::new(1)
        };
        let world = World::new(settings, LEDGERS);
        let raws = world.made.iter().map(|made| made.raw.clone()).collect();
        return (world.network, raws);
    };
    let raws = framed(&raw, usize::MAX);
    (Network::new("load test network"), raws)
}

/// One call over a connection that stays open; returns the bytes of the answer's body.
async fn call(stream: &mut TcpStream, buffer: &mut Vec<u8>, hash: &str) -> usize {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"getTransaction\",\"params\":{{\"hash\":\"{hash}\"}}}}"
    );
    let head = "POST /stellar/simulated HTTP/1.1\r\nhost: x\r\ncontent-length:";
    let request = format!("{head} {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    buffer.clear();
    loop {
        assert!(stream.read_buf(buffer).await.unwrap() > 0, "it hung up");
        let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = std::str::from_utf8(&buffer[..end]).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().parse().unwrap();
        while buffer.len() < end + 4 + length {
            assert!(stream.read_buf(buffer).await.unwrap() > 0, "it hung up");
        }
        let answer = &buffer[end + 4..];
        let status = b"\"result\":{\"status\":\"";
        assert!(answer.windows(status.len()).any(|part| part == status));
        return length;
    }
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

async fn ours(rpc: &Rpc, hashes: &[String], rng: &mut StdRng) -> (Vec<Duration>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let room = ConnectionLimits {
        connections: 16,
        per_peer: None,
        place_kept: None,
    };
    let serving = tokio::spawn(listen(listener, rpc.router.clone(), room, Drain::never()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut buffer, mut bytes) = (Vec::new(), 0);
    for hash in hashes {
        call(&mut stream, &mut buffer, hash).await;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let hash = hashes.choose(rng).unwrap();
        let began = Instant::now();
        bytes += call(&mut stream, &mut buffer, hash).await;
        times.push(began.elapsed());
    }
    serving.abort();
    (times, bytes / CALLS)
}

/// Unpacks a whole ledger, and decodes all of it.
fn plain(frames: &[Vec<u8>], rng: &mut StdRng) -> Vec<Duration> {
    let one = |_| {
        let frame = &frames[rng.random_range(0..frames.len())];
        let began = Instant::now();
        let raw = zstd::stream::decode_all(&frame[..]).unwrap();
        black_box(LedgerCloseMeta::from_xdr(&raw, XdrLimits::none()).unwrap());
        began.elapsed()
    };
    (0..BASELINE_CALLS).map(one).collect()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (network, raws) = ledgers();
    let blocks: Vec<_> = raws.iter().map(|raw| block_of(raw, &network)).collect();
    let txs = blocks.iter().flat_map(|block| &block.txs);
    let hashes: Vec<String> = txs.map(|tx| hex(&tx.hash)).collect();
    let first = Ledger::walk(raws[0].clone()).unwrap().sequence();
    let rpc = Rpc::new(&network, blocks, 0, Limits::default()).await;
    let mut rng = StdRng::seed_from_u64(1);
    let (mut times, bytes) = ours(&rpc, &hashes, &mut rng).await;
    let frames: Vec<Vec<u8>> = raws
        .iter()
        .map(|raw| zstd::bulk::compress(raw, 3).unwrap())
        .collect();
    let mut baseline = plain(&frames, &mut rng);
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    let plain = percentile(&mut baseline, 50);
    let size = raws.iter().map(Bytes::len).sum::<usize>() / raws.len();
    println!(
        "{} ledgers from {first}, {size} bytes each, {} hashes, {bytes} bytes an answer",
        raws.len(),
        hashes.len()
    );
    println!("getTransaction over HTTP, hit, warm: p50 {p50:?} (target 300µs), p99 {p99:?}");
    println!("whole ledger unpacked and decoded:   p50 {plain:?}");
    let ratio = plain.as_secs_f64() / p50.as_secs_f64();
    println!("ratio {ratio:.1} (target 10)");
}

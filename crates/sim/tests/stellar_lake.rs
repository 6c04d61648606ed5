//! Lakes: names against real ones, files that decode to the chain, and a server that shows them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::path::PathBuf;
use std::time::Duration;

use chronolith_sim::files::{FileFault, FileFaults, FileServer};
use chronolith_sim::stellar::{Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings};
use stellar_xdr::{LedgerCloseMeta, LedgerCloseMetaBatch, Limits, ReadXdr as _, WriteXdr as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const FIXTURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/fixtures/stellar"
);

fn layout(ledgers_per_file: u32, files_per_partition: u32) -> LakeLayout {
    LakeLayout {
        ledgers_per_file,
        files_per_partition,
        suffix: LakeSuffix::Zst,
    }
}

fn sequence(ledger: &LedgerCloseMeta) -> u32 {
    match ledger {
        LedgerCloseMeta::V0(meta) => meta.ledger_header.header.ledger_seq,
        LedgerCloseMeta::V1(meta) => meta.ledger_header.header.ledger_seq,
        LedgerCloseMeta::V2(meta) => meta.ledger_header.header.ledger_seq,
    }
}

fn batch(file: &[u8]) -> LedgerCloseMetaBatch {
    let bytes = zstd::stream::decode_all(file).unwrap();
    let batch = LedgerCloseMetaBatch::from_xdr(&bytes, Limits::none()).unwrap();
    assert_eq!(batch.to_xdr(Limits::none()).unwrap(), bytes);
    batch
}

#[test]
fn keys_are_those_of_real_lakes() {
    let check = |layout: LakeLayout, sequence, expected: &str| {
        assert_eq!(layout.key(sequence), expected);
    };
    check(layout(1, 1), 53_312_000, "FCD285FF--53312000.xdr.zst");
    check(
        LakeLayout::default(),
        53_312_000,
        "FCD285FF--53312000-53375999/FCD285FF--53312000.xdr.zst",
    );
    check(layout(1, 1), 2, "FFFFFFFD--2.xdr.zst");
    check(layout(64, 1), 2, "FFFFFFFF--0-63.xdr.zst");
    check(layout(64, 1), 64, "FFFFFFBF--64-127.xdr.zst");
    check(
        layout(64, 10),
        700,
        "FFFFFD7F--640-1279/FFFFFD7F--640-703.xdr.zst",
    );
    check(layout(1, 1), u32::MAX, "00000000--4294967295.xdr.zst");
    let old = LakeLayout {
        suffix: LakeSuffix::Zstd,
        ..layout(1, 1)
    };
    check(old, 1_000, "FFFFFC17--1000.xdr.zstd");
}

/// The fixtures lie without their folder, so it is the rest of the name that is compared.
#[test]
fn the_fixture_lake_is_named_alike() {
    let lake = PathBuf::from(FIXTURES).join("lake");
    if !lake.exists() {
        let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some();
        assert!(!required, "no fixtures in {FIXTURES}");
        println!("skipped: no fixtures in {FIXTURES}");
        return;
    }
    let manifest = std::fs::read_to_string(lake.join(".config.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let number = |name: &str| u32::try_from(manifest[name].as_u64().unwrap()).unwrap();
    let layout = layout(number("ledgersPerBatch"), number("batchesPerPartition"));
    let passphrase = manifest["networkPassphrase"].as_str().unwrap();
    let ours: serde_json::Value = serde_json::from_str(&layout.manifest(passphrase)).unwrap();
    assert_eq!(ours, manifest);
    for wanted in 997..=999 {
        let key = layout.key(wanted);
        let (folder, name) = key.split_once('/').unwrap();
        assert_eq!(folder, "FFFFFFFF--0-63999");
        let batch = batch(&std::fs::read(lake.join(name)).unwrap());
        let ledgers: Vec<u32> = batch.ledger_close_metas.iter().map(sequence).collect();
        assert_eq!(ledgers, [wanted]);
    }
    let single = PathBuf::from(FIXTURES).join("FCD285FF--53312000.xdr.zst");
    let single = batch(&std::fs::read(single).unwrap());
    assert_eq!(single.start_sequence, 53_312_000);
}

#[test]
fn files_hold_the_ledgers_of_the_chain() {
    let chain = StellarChain::new(StellarSettings::new(9));
    for (layout, expected) in [
        (layout(1, 1), 2..21),
        (layout(1, 8), 2..21),
        (layout(8, 2), 2..24),
        (layout(64, 1), 2..64),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let lake = Lake::new(directory.path(), layout);
        lake.write_manifest(&chain).unwrap();
        assert_eq!(lake.write(&chain, 0..21).unwrap(), expected);
        let mut next = expected.start;
        while next < expected.end {
            let batch = batch(&std::fs::read(lake.path(next)).unwrap());
            let (_, end) = layout.file(next);
            assert_eq!((batch.start_sequence, batch.end_sequence), (next, end));
            assert_eq!(batch.ledger_close_metas.len() as u32, end - next + 1);
            for (ledger, sequence) in batch.ledger_close_metas.iter().zip(next..) {
                let raw = ledger.to_xdr(Limits::none()).unwrap();
                assert_eq!(raw, chain.ledger(sequence).raw);
            }
            next = end + 1;
        }
        assert!(!lake.path(expected.end).exists());
        assert_eq!(lake.write(&chain, 30..30).unwrap().len(), 0);
    }
}

/// One request, and everything that comes back until the connection ends.
async fn ask(server: &FileServer, method: &str, path: &str, extra: &str) -> (String, Vec<u8>) {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let request =
        format!("{method} /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{extra}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that breaks has said what it said.
    let _ = socket.read_to_end(&mut answer).await;
    let end = answer
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .unwrap()
        + 4;
    let head = String::from_utf8(answer[..end].to_vec())
        .unwrap()
        .to_lowercase();
    (head, answer[end..].to_vec())
}

#[tokio::test]
async fn a_lake_is_served_with_ranges_and_faults() {
    let chain = StellarChain::new(StellarSettings::new(9));
    let directory = tempfile::tempdir().unwrap();
    let lake = Lake::new(directory.path(), layout(1, 8));
    lake.write(&chain, 2..10).unwrap();
    let key = lake.layout().key(9);
    let file = std::fs::read(lake.path(9)).unwrap();
    let faults = FileFaults::default();
    let server = FileServer::start(directory.path(), faults.clone())
        .await
        .unwrap();
    let ok = |head: &str| head.starts_with("http/1.1 200");
    let (head, body) = ask(&server, "GET", &key, "").await;
    assert!(ok(&head) && body == file, "{head}");
    let length = format!("content-length: {}\r\n", file.len());
    let (head, body) = ask(&server, "HEAD", &key, "").await;
    assert!(
        ok(&head) && head.contains(&length) && body.is_empty(),
        "{head}"
    );
    let (head, body) = ask(&server, "GET", &key, "range: bytes=4-13\r\n").await;
    assert!(head.starts_with("http/1.1 206"), "{head}");
    let range = format!("content-range: bytes 4-13/{}\r\n", file.len());
    assert!(head.contains(&range) && body == file[4..14], "{head}");
    for (path, expected) in [
        (lake.layout().key(10), "404"),
        ("../Cargo.toml".to_owned(), "404"),
        (String::new(), "404"),
    ] {
        let (head, _) = ask(&server, "GET", &path, "").await;
        assert!(head.contains(expected), "{path}: {head}");
    }
    let (head, _) = ask(&server, "POST", &key, "content-length: 0\r\n").await;
    assert!(head.starts_with("http/1.1 405"), "{head}");

    // A file that is not there yet is there as soon as somebody wrote it.
    lake.write(&chain, 10..11).unwrap();
    let (head, _) = ask(&server, "GET", &lake.layout().key(10), "").await;
    assert!(ok(&head), "{head}");

    faults.plan(FileFault::NotFound, "--9.xdr", 2);
    faults.plan(FileFault::Status(500), "--9.xdr", 1);
    faults.plan(FileFault::CutShort, "", 1);
    faults.plan(FileFault::Half, "", 1);
    faults.plan(FileFault::WrongByte, "", 1);
    let slow = FileFault::Slow(Duration::from_millis(30));
    faults.plan(slow, "", 1);
    for expected in ["404", "404", "500"] {
        let (head, _) = ask(&server, "GET", &key, "").await;
        assert!(head.starts_with(&format!("http/1.1 {expected}")), "{head}");
    }
    let half = &file[..file.len() / 2];
    let (head, body) = ask(&server, "GET", &key, "").await;
    assert!(head.contains(&length) && body == half, "cut short: {head}");
    let (head, body) = ask(&server, "GET", &key, "").await;
    assert!(!head.contains(&length) && body == half, "half: {head}");
    let (_, body) = ask(&server, "GET", &key, "").await;
    let differs = body.iter().zip(&file).filter(|(one, other)| one != other);
    assert_eq!((differs.count(), body.len()), (1, file.len()));
    let begun = std::time::Instant::now();
    let (_, body) = ask(&server, "GET", &key, "").await;
    assert!(body == file && begun.elapsed() >= Duration::from_millis(30));
    assert_eq!(faults.hits(FileFault::NotFound), 2);
    assert_eq!(faults.hits(slow), 1);
    let (head, _) = ask(&server, "GET", &key, "").await;
    assert!(ok(&head), "the plan is over: {head}");
    assert_eq!(server.stats().requests[&format!("/{key}")], 12);
    server.shutdown().await.unwrap();
}

//! One transaction out of a pack: only its frame is read, with whatever dictionary it was packed, and
//! under whichever hash it was found.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, AuditEntry, Cache, Error, Provenance, Settings};
use chronolith_model::{Block, BlockMeta, BlockRange, Dataset, DatasetSet, Hash32, Payload, Tx};
use chronolith_sim::{CountingBlobs, Operation};
use support::{Stores, tiny_settings};

const PACK_DICTIONARIES: u16 = 19;
const TXS: u32 = 40;

fn hash(of: u64) -> Hash32 {
    let mut bytes = [0; 32];
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = (of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ ((at as u64) << 40));
        chunk.copy_from_slice(&word.rotate_left(23).to_be_bytes());
    }
    Hash32(bytes)
}

/// What a transaction did: much of it is what others did too.
fn body(block: u64, tx: u32) -> Bytes {
    let words = (0..10 + u64::from(tx) * 7 % 150).map(|at| {
        let account = block.wrapping_mul(31) + u64::from(tx) * 17 + at;
        let noise = hash(account * 7 + at).prefix64();
        format!("account {account} pays {} to {noise:x}; ", at * 5 % 13)
    });
    words.collect::<String>().into()
}

/// A block in which every fifth transaction has a second hash.
fn block(number: u64) -> Block {
    let tx = |at: u32| Tx {
        index: at,
        hash: hash(number * 1_000 + u64::from(at)),
    };
    let alias = |at: u32| Tx {
        index: at | Tx::ALIAS,
        hash: hash(500_000_000 + number * 1_000 + u64::from(at)),
    };
    let aliases = (0..TXS).step_by(5).map(alias);
    Block {
        clock: BlockMeta {
            number,
            hash: hash(900_000_000 + number),
            parent_hash: hash(899_999_999 + number),
            timestamp: 1_000 + number,
        },
        txs: (0..TXS).map(tx).chain(aliases).collect(),
        logs: Vec::new(),
        payload: Payload {
            header: Some(format!("header of {number}").into()),
            bodies: Some((0..TXS).map(|at| body(number, at)).collect()),
            raw: None,
        },
    }
}

fn settings(dictionary_bytes: u64) -> Settings {
    let mut settings = tiny_settings();
    settings.datasets = DatasetSet::of(&[
        Dataset::Logs,
        Dataset::TxHashes,
        Dataset::Headers,
        Dataset::Transactions,
    ]);
    settings.seal.pack_bytes = 300_000;
    settings.seal.pack_dictionary_bytes = dictionary_bytes;
    settings.cache = Cache::of_bytes(16 << 20);
    settings
}

async fn ingest(archive: &Archive, range: BlockRange, size: u64) {
    let mut start = range.start;
    while start < range.end {
        let end = (start + size).min(range.end);
        let blocks = (start..end).map(block).collect();
        archive
            .ingest_finalized_blocks(blocks, &Provenance::default())
            .await
            .unwrap();
        while archive.maintain().await.unwrap() {}
        start = end;
    }
}

/// Everything of every block, one part after the other and many at once.
async fn all_there(archive: &Archive, range: BlockRange) {
    let pinned = archive.pin().unwrap();
    for number in range.start..range.end {
        let expected = block(number).payload;
        assert_eq!(
            archive.header(number).await.unwrap(),
            expected.header.clone().unwrap()
        );
        let bodies = expected.bodies.clone().unwrap();
        for ordinal in [0, 1, TXS / 2, TXS - 1] {
            let body = archive.body(number, ordinal).await.unwrap();
            assert_eq!(body, bodies[ordinal as usize], "{number} {ordinal}");
        }
        let page = pinned.bodies(number, 10..TXS + 10).await.unwrap();
        assert_eq!(page, bodies[10..]);
        let payload = archive.payload(number, Dataset::Headers).await.unwrap();
        assert_eq!(payload, expected);
    }
}

/// How many packs have dictionaries, and how many have none.
async fn packs(stores: &Stores) -> (usize, usize) {
    let mut found = (0, 0);
    for info in stores.blobs.list("pack/", None, 10_000).await.unwrap() {
        let bytes = stores.blobs.get(&info.name).await.unwrap();
        match sections::find(&bytes, PACK_DICTIONARIES).is_empty() {
            true => found.1 += 1,
            false => found.0 += 1,
        }
    }
    found
}

#[tokio::test]
async fn one_body_is_one_read_of_one_frame() {
    let (stores, settings) = (Stores::memory(), settings(100_000));
    let range = BlockRange::new(5, 25);
    let writer = stores.writer(&settings).await;
    ingest(&writer, range, 10).await;
    let counting = Arc::new(CountingBlobs::new(stores.blobs.clone()));
    let blobs = counting.clone();
    let counted = Stores { blobs, ..stores };
    let reader = counted.reader(&settings).await;
    // Opens the pack and reads the frame of the header.
    reader.header(7).await.unwrap();
    counting.take();
    assert_eq!(reader.body(14, 39).await.unwrap(), body(14, 39));
    let reads: Vec<_> = counting.take().into_iter().collect();
    assert_eq!(reads.len(), 1, "{reads:?}");
    let ((operation, name), io) = &reads[0];
    assert_eq!(*operation, Operation::BlobRanges);
    assert!(
        name.starts_with("pack/") && (io.calls, io.ranges) == (1, 1),
        "{reads:?}"
    );
    let pack = counted.blobs.get(name).await.unwrap();
    let whole = sections::find(&pack, sections::FRAMES).len() as u64;
    assert!(io.bytes * 4 < whole, "{} of {whole} bytes", io.bytes);
    // What is in memory is not read again.
    counting.take();
    reader.body(14, 39).await.unwrap();
    assert!(counting.take().is_empty());
    let missing = reader.body(14, TXS).await;
    assert!(matches!(missing, Err(Error::Invalid(_))), "{missing:?}");
    let missing = reader.body(25, 0).await;
    assert!(
        matches!(missing, Err(Error::NotCovered { .. })),
        "{missing:?}"
    );
}

/// One by one, many at once, and filled: the same comes out, and finished packs have dictionaries.
#[tokio::test]
async fn packs_get_dictionaries_however_blocks_come() {
    let settings = settings(200_000);
    let range = BlockRange::new(0, 36);
    for size in [1, 3, 20] {
        let stores = Stores::memory();
        let writer = stores.writer(&settings).await;
        ingest(&writer, range, size).await;
        all_there(&writer, range).await;
        let with = packs(&stores).await.0;
        assert!(with > 0, "batches of {size}: no dictionary");
        let audit = AuditEntry {
            at: 1,
            act: "rewind".to_owned(),
        };
        writer.rewind(21, audit).await.unwrap();
        all_there(&writer, BlockRange::new(20, 22)).await;
        ingest(&writer, BlockRange::new(22, 36), 7).await;
        all_there(&stores.reader(&settings).await, range).await;
        let damaged = writer.inspect(range, &mut |_| {}).await.unwrap();
        assert!(damaged.is_empty(), "{damaged:?}");
    }
}

#[tokio::test]
async fn fills_of_small_pushes_are_packed_with_a_dictionary() {
    let settings = settings(200_000);
    let stores = Stores::memory();
    let writer = stores.writer(&settings).await;
    let range = BlockRange::new(0, 40);
    let mut fill = writer.fill(range).unwrap();
    for number in range.start..range.end {
        fill.push(vec![block(number)], &Provenance::default())
            .await
            .unwrap();
    }
    fill.finish().await.unwrap();
    all_there(&writer, range).await;
    let (with, without) = packs(&stores).await;
    assert!(with > 1 && without == 0, "{with} with, {without} without");
}

/// The dictionary is in the pack once, whatever was joined, and equal blocks give equal packs.
#[tokio::test]
async fn equal_blocks_give_equal_packs() {
    let settings = settings(100_000);
    let mut written: Vec<Vec<Bytes>> = Vec::new();
    for _ in 0..2 {
        let stores = Stores::memory();
        let writer = stores.writer(&settings).await;
        ingest(&writer, BlockRange::new(0, 40), 4).await;
        let mut packs = Vec::new();
        for info in stores.blobs.list("pack/", None, 10_000).await.unwrap() {
            packs.push(stores.blobs.get(&info.name).await.unwrap());
        }
        packs.sort();
        written.push(packs);
    }
    assert!(!written[0].is_empty());
    assert_eq!(written[0], written[1]);
}

#[tokio::test]
async fn a_transaction_is_found_by_both_of_its_hashes() {
    let settings = settings(1 << 40);
    let stores = Stores::memory();
    let writer = stores.writer(&settings).await;
    let range = BlockRange::new(0, 30);
    ingest(&writer, range, 4).await;
    let reader = stores.reader(&settings).await;
    for number in [0, 13, 29] {
        let expected = block(number);
        for tx in &expected.txs {
            let place = reader.transaction_by_hash(&tx.hash).await.unwrap().unwrap();
            assert_eq!((place.block, place.index), (expected.clock, tx.position()));
            let found = reader.body(number, place.index).await.unwrap();
            assert_eq!(found, body(number, tx.position()));
        }
        let listed = reader.pin().unwrap().transactions(number).await.unwrap();
        assert_eq!(listed, expected.txs);
    }
    let unknown = reader.transaction_by_hash(&hash(77_777_777)).await.unwrap();
    assert_eq!(unknown, None);
}

/// An alias of nothing, a body for an alias: neither is archived.
#[tokio::test]
async fn aliases_that_make_no_sense_are_refused() {
    let writer = Stores::memory().writer(&settings(1 << 40)).await;
    let mut stray = block(0);
    stray.txs.push(Tx {
        index: TXS | Tx::ALIAS,
        hash: hash(1),
    });
    let mut bodies = block(0);
    let all = bodies.txs.len();
    bodies.payload.bodies = Some(vec![Bytes::from_static(b"body"); all]);
    for wrong in [stray, bodies] {
        let refused = writer
            .ingest_finalized_block(wrong, &Provenance::default())
            .await;
        assert!(
            matches!(refused, Err(Error::BadBlock { .. })),
            "{refused:?}"
        );
    }
}

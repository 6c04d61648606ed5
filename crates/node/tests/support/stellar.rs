//! A Stellar chain in a settings file, and its archive.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Settings};
use chronolith_model::{ChainId, ChainProfile, Dataset};
use chronolith_stellar::{Network, join};
use chronolith_store::{FileBlobs, FileMeta};

use super::Bench;

/// A settings file with one Stellar chain; `more` are further fields of it.
pub fn bench(network: &str, more: &str) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("chronolith.json");
    let data = dir.path().join("data");
    let text = format!(
        r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "feesListen": "127.0.0.1:0", "chains": [ {{ "pollMs": 20, "stellar": {network} {more} }} ] }}"#
    );
    std::fs::write(&config, text).unwrap();
    Bench { dir, config }
}

/// A lake in a directory, without a manifest: one ledger in an object.
pub fn plain_lake(dir: &Path) -> String {
    format!(r#""lake": {{ "dir": {dir:?}, "ledgersPerBatch": 1, "batchesPerPartition": 1 }}"#)
}

/// The archive of the bench's only chain, for what no command shows.
pub async fn archive(bench: &Bench, network: &Network) -> Archive {
    let chain = network.chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}"));
    let (meta, blobs) = (FileMeta::open_reader(&dir), FileBlobs::open_reader(&dir));
    let mut settings = Settings::evm(ChainId(chain));
    settings.profile = ChainProfile::STELLAR;
    let opened = Archive::open_reader(Arc::new(meta), Arc::new(blobs), settings).await;
    opened.unwrap()
}

/// The bytes of an archived ledger, as they came.
pub async fn ledger_bytes(archive: &Archive, number: u64) -> Bytes {
    let header = archive.payload(number, Dataset::Headers).await.unwrap();
    let bodies = archive
        .payload(number, Dataset::Transactions)
        .await
        .unwrap();
    join(&header.header.unwrap(), &bodies.bodies.unwrap()).unwrap()
}

/// The ledgers of an object, as they are in it.
pub fn ledgers_in(object: &Path) -> Vec<Bytes> {
    let packed = std::fs::read(object).unwrap();
    let batch = Bytes::from(zstd::decode_all(&*packed).unwrap());
    let (_, _, ledgers) = chronolith_stellar::walk_batch(&batch).unwrap();
    ledgers
}

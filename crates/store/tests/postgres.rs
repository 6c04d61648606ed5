//! The contract suite on a real PostgreSQL, and what happens when it goes away.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_store::contract::{MetaHandles, check_meta};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use chronolith_store::{Error, MetaStore, PostgresMeta, Version};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contract() {
    let server = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    check_meta(async |case| {
        let open = || Arc::new(PostgresMeta::new(&server.url, case).unwrap());
        MetaHandles::writers(vec![open(), open(), open()])
    })
    .await;
}

/// The stricter isolation reports a lost race by an error of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contract_when_transactions_are_serializable() {
    let server = TempPostgres::start(&TempPostgresOptions {
        settings: vec!["default_transaction_isolation=serializable".to_owned()],
        ..TempPostgresOptions::default()
    });
    let server = server.unwrap();
    check_meta(async |case| {
        let open = || Arc::new(PostgresMeta::new(&server.url, case).unwrap());
        MetaHandles::writers(vec![open(), open(), open()])
    })
    .await;
}

/// What was swapped survives a crash even where the server's default would lose it, and a handle
/// reconnects by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_loses_nothing_and_is_survived() {
    let server = TempPostgres::start(&TempPostgresOptions {
        durable: true,
        // Without our own setting, a commit would be lost for up to three times this long.
        settings: vec![
            "synchronous_commit=off".to_owned(),
            "wal_writer_delay=10s".to_owned(),
        ],
    });
    let server = server.unwrap();
    let meta = PostgresMeta::new(&server.url, "chain-1").unwrap();
    let mut version = meta.swap(None, Bytes::from_static(b"0")).await.unwrap();
    for round in 1..4_u64 {
        let bytes = Bytes::from(round.to_string());
        version = meta.swap(Some(version), bytes.clone()).await.unwrap();
        server.kill().unwrap();
        let away = meta.load().await;
        assert!(matches!(away, Err(Error::Unavailable { .. })), "{away:?}");
        let away = meta.swap(Some(version), Bytes::new()).await;
        assert!(matches!(away, Err(Error::Unavailable { .. })), "{away:?}");
        server.restart().unwrap();
        let record = meta.load().await.unwrap().unwrap();
        assert_eq!((record.version, record.bytes), (version, bytes));
    }
    assert_eq!(version, Version(4));
}

/// A server that takes no writes may be a standby that does not know the newest record.
#[tokio::test]
async fn a_read_only_server_is_refused() {
    let server = TempPostgres::start(&TempPostgresOptions {
        settings: vec!["default_transaction_read_only=on".to_owned()],
        ..TempPostgresOptions::default()
    });
    let meta = PostgresMeta::new(&server.as_ref().unwrap().url, "chain-1").unwrap();
    assert!(matches!(meta.load().await, Err(Error::Unavailable { .. })));
}

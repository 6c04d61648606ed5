//! A lost state is rebuilt from what the objects say of themselves.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;

use chronolith_archive::{AuditEntry, Collect, Error, Settings, rebuild_state};
use chronolith_model::{BlockRange, Dataset, DatasetSet, LogFilter};
use chronolith_store::MemoryMeta;
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

fn audit() -> AuditEntry {
    AuditEntry {
        at: 5,
        act: "rebuild".to_owned(),
    }
}

#[tokio::test]
async fn a_lost_state_is_rebuilt_by_hash_links_from_an_anchor() {
    let chain = tiny_chain(41);
    let range = BlockRange::new(0, 230);
    let settings = Settings {
        datasets: DatasetSet::of(&Dataset::ALL),
        ..tiny_settings()
    };
    let stores = Stores::memory();
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, range, &[7, 3]).await;
    let root = archive.content_root(range).await.unwrap();
    drop(archive);

    let lost = Stores {
        meta: Arc::new(MemoryMeta::new()),
        ..stores.clone()
    };
    let wrong = chain.fork(200, 1).block_ref(229);
    let (meta, blobs) = (lost.meta.clone(), lost.blobs.clone());
    let refused = rebuild_state(meta, blobs, &settings, wrong, audit()).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let (meta, blobs) = (lost.meta.clone(), lost.blobs.clone());
    let report = rebuild_state(meta, blobs, &settings, chain.block_ref(229), audit())
        .await
        .unwrap();
    assert_eq!((report.covered, report.without_hashes), (range, None));
    assert!(
        report.damaged.is_empty() && !report.undecided.is_empty(),
        "{report:?}"
    );
    assert!(
        report.runs_and_packs.0 > 0 && report.runs_and_packs.1 > 0,
        "{report:?}"
    );

    let archive = lost.writer(&settings).await;
    assert_eq!(archive.content_root(range).await.unwrap(), root);
    let halted = archive.collect_garbage(Collect::Remove).await;
    assert!(
        matches!(halted, Err(Error::Halted { .. })),
        "nothing goes before an operator looked"
    );
    archive.resume(audit()).await.unwrap();
    ingest(&archive, &chain, BlockRange::new(230, 400), &[11]).await;
    archive.collect_garbage(Collect::Remove).await.unwrap();
    let whole = BlockRange::new(0, 400);
    let oracle = oracle_of(&chain, whole);
    let mut filter = LogFilter::over(whole);
    filter.limit = Some(100_000);
    let page = archive.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle, &filter);
    for block in oracle.blocks() {
        assert_eq!(
            archive.block_by_hash(&block.clock.hash).await.unwrap(),
            Some(block.clock)
        );
        let number = block.clock.number;
        let payload = archive.payload(number, Dataset::Headers).await.unwrap();
        assert_eq!(payload, block.payload);
    }
    let again = rebuild_state(
        lost.meta,
        lost.blobs,
        &settings,
        chain.block_ref(229),
        audit(),
    )
    .await;
    assert!(
        matches!(again, Err(Error::Invalid(_))),
        "a state is never overwritten"
    );
}

#[tokio::test]
async fn hashes_that_are_gone_are_not_covered_rather_than_not_found() {
    let chain = tiny_chain(42);
    let range = BlockRange::new(0, 200);
    let stores = Stores::memory();
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &chain, range, &[9]).await;
    let runs = stores.blobs.list("run/", None, 1000).await.unwrap();
    assert!(!runs.is_empty());
    for run in runs {
        stores.blobs.delete(&run.name).await.unwrap();
    }
    let lost = Stores {
        meta: Arc::new(MemoryMeta::new()),
        ..stores
    };
    let (meta, blobs) = (lost.meta.clone(), lost.blobs.clone());
    let report = rebuild_state(meta, blobs, &tiny_settings(), chain.block_ref(199), audit())
        .await
        .unwrap();
    assert!(report.without_hashes.is_some());
    let archive = lost.writer(&tiny_settings()).await;
    let hash = chain.block_hash(3);
    let answer = archive.block_by_hash(&hash).await;
    assert!(
        matches!(answer, Err(Error::NotCovered { .. })),
        "{answer:?}"
    );
}

//! A lake with a core beside it: what the caller reports must reach the lake.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar;

use std::time::Duration;

use chronolith_model::ErrorKind;
use chronolith_source::Source as _;
use chronolith_source::stellar::{CoreSettings, CoreSource, LakeAndCore};
use stellar::{Pond, SMALL, network};

/// A core that is never started.
fn core(pond: &Pond) -> CoreSource {
    let config = pond.dir.path().join("core.toml");
    let passphrase = &pond.chain.settings().passphrase;
    let text = format!("DATABASE=\"sqlite3://stellar.db\"\nNETWORK_PASSPHRASE=\"{passphrase}\"\n");
    std::fs::write(&config, text).unwrap();
    CoreSource::new(CoreSettings {
        binary: "stellar-core".into(),
        config,
        work_dir: pond.dir.path().join("core"),
        network: network(&pond.chain),
        last_ledger: None,
        patience: Duration::from_secs(60),
    })
    .unwrap()
}

/// Behind a damaged newest object the ledgers before it were offered forever, also when all of them were
/// archived: the hybrid did not tell the lake how far the archive reaches, so nobody heard of the damage.
#[tokio::test]
async fn the_lake_learns_what_is_archived() {
    let pond = Pond::new(7, SMALL, 20);
    let (_, newest) = pond.object(19);
    std::fs::write(newest, b"damaged").unwrap();
    let source = LakeAndCore::new(pond.open().await, core(&pond));
    assert_eq!(source.heads().await.unwrap().head.number, 18);
    source.note_archived(17);
    assert_eq!(source.heads().await.unwrap().head.number, 18);
    source.note_archived(18);
    let error = source.heads().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disagreement, "{error}");
    assert!(error.to_string().contains("block=19"), "{error}");
}

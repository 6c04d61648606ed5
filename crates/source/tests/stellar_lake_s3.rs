//! A data lake in a real S3-compatible store.
//!
//! `make test-s3` starts one and runs this. Without `CHRONOLITH_S3_ENDPOINT` there is nothing to test
//! against, and the test says so.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar;

use chronolith_model::BlockRange;
use chronolith_sim::stellar::{LakeLayout, LakeSuffix};
use chronolith_source::Source;
use chronolith_source::stellar::{LakePlace, LakeSource};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use stellar::{Pond, SMALL, all, message};

/// How the store is reached.
fn options() -> Option<(String, Vec<(String, String)>)> {
    let env = |name: &str| std::env::var(format!("CHRONOLITH_S3_{name}"));
    let endpoint = env("ENDPOINT").ok()?;
    let options = [
        ("aws_endpoint", endpoint),
        ("aws_access_key_id", env("KEY").unwrap()),
        ("aws_secret_access_key", env("SECRET").unwrap()),
        ("aws_region", "us-east-1".to_owned()),
        ("aws_allow_http", "true".to_owned()),
    ];
    let options = options.map(|(name, value)| (name.to_owned(), value));
    Some((env("BUCKET").unwrap(), options.to_vec()))
}

/// Copies what is in a directory.
async fn upload(store: &dyn ObjectStore, prefix: &Path, dir: &std::path::Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let at = prefix.clone().join(name.as_str());
        if path.is_dir() {
            Box::pin(upload(store, &at, &path)).await
        } else {
            let bytes = std::fs::read(&path).unwrap();
            store.put(&at, PutPayload::from(bytes)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_in_a_bucket_comes_whole() {
    let Some((bucket, options)) = options() else {
        println!("skipped: CHRONOLITH_S3_ENDPOINT is not set; `make test-s3` starts a store");
        return;
    };
    let batches = LakeLayout {
        ledgers_per_file: 8,
        files_per_partition: 1,
        suffix: LakeSuffix::Zstd,
    };
    for (name, layout) in [("small", SMALL), ("batches", batches)] {
        let pond = Pond::new(21, layout, 40);
        let url = format!("s3://{bucket}/lake-{}-{name}", std::process::id());
        let pairs = options.iter().map(|(name, value)| (name, value));
        let (store, prefix) = object_store::parse_url_opts(&url.parse().unwrap(), pairs).unwrap();
        upload(&*store, &prefix, pond.lake.directory()).await;
        let place = LakePlace::S3 {
            url: url.clone(),
            options: options.clone(),
        };
        let lake = LakeSource::open(pond.settings(place.clone()))
            .await
            .unwrap();
        assert_eq!(lake.heads().await.unwrap().head.number, 39);
        let range = BlockRange::new(2, 40);
        pond.assert_is(&lake.fetch(range, &all(), None).await.unwrap(), range);
        assert!(message(&lake, 40).await.contains("is not there"));

        pond.grow(41);
        upload(&*store, &prefix, pond.lake.directory()).await;
        assert!(lake.heads().await.unwrap().head.number >= 40);

        let (key, _) = pond.object(20);
        let gone = Path::from(format!("{prefix}/{key}"));
        store.delete(&gone).await.unwrap();
        let fresh = LakeSource::open(pond.settings(place)).await.unwrap();
        let reported = message(&fresh, 20).await;
        assert!(
            reported.contains(&key) && reported.contains("is missing"),
            "{reported}"
        );

        let mut wrong = options.clone();
        wrong[2].1 = "WRONG-SECRET".to_owned();
        let refused = pond.settings(LakePlace::S3 {
            url,
            options: wrong,
        });
        let error = LakeSource::open(refused).await.unwrap_err().to_string();
        assert!(
            !error.contains("WRONG-SECRET") && !error.contains("AWS4"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_lake_is_read_without_keys() {
    let (Some((_, options)), Ok(bucket)) = (options(), std::env::var("CHRONOLITH_S3_OPEN_BUCKET"))
    else {
        println!("skipped: CHRONOLITH_S3_OPEN_BUCKET is not set; `make test-s3` starts a store");
        return;
    };
    let pond = Pond::new(22, SMALL, 30);
    let url = format!("s3://{bucket}/lake-{}", std::process::id());
    let pairs = options.iter().map(|(name, value)| (name, value));
    let (store, prefix) = object_store::parse_url_opts(&url.parse().unwrap(), pairs).unwrap();
    upload(&*store, &prefix, pond.lake.directory()).await;
    let is_key = |name: &str| name.contains("access_key");
    let mut keyless: Vec<_> = options
        .into_iter()
        .filter(|(name, _)| !is_key(name))
        .collect();
    keyless.push(("aws_skip_signature".to_owned(), "true".to_owned()));
    let settings = pond.settings(LakePlace::S3 {
        url,
        options: keyless,
    });
    let lake = LakeSource::open(settings).await.unwrap();
    assert_eq!(lake.heads().await.unwrap().head.number, 29);
    let range = BlockRange::new(2, 30);
    pond.assert_is(&lake.fetch(range, &all(), None).await.unwrap(), range);
}

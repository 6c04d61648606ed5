//! With a cursor too, the range that a budget error names holds the cursor and can be answered.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_archive::Error;
use chronolith_model::{BlockRange, LogFilter, Order, Select};
use support::{Stores, ingest, tiny_chain, tiny_settings};

/// The named range once began or ended so that the cursor lay outside of it.
#[tokio::test]
async fn the_range_that_fits_holds_the_cursor() {
    let chain = tiny_chain(62);
    let whole = BlockRange::new(0, 60);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let mut settings = tiny_settings();
    settings.limits.bytes_max = 300;
    let reader = stores.reader(&settings).await;
    let patient = stores.reader(&tiny_settings()).await;
    let (mut tried, mut wrong) = (0, Vec::new());
    for order in [Order::Ascending, Order::Descending] {
        let mut paging = LogFilter::over(whole);
        (paging.order, paging.limit) = (order, Some(3));
        while let Some(next) = patient.query_finalized(&paging).await.unwrap().next {
            paging.cursor = Some(next);
            let mut rest = paging.clone();
            rest.limit = None;
            let Err(Error::TooLarge {
                fits: Some(fits), ..
            }) = reader.query_finalized(&rest).await
            else {
                continue;
            };
            rest.select = Select::Range(fits);
            tried += 1;
            if let Err(error) = reader.query_finalized(&rest).await {
                wrong.push(format!(
                    "{order:?} behind {:?}: {fits}: {error}",
                    next.block.number
                ));
            }
        }
    }
    assert!(tried > 50, "only {tried} ranges were named");
    assert!(wrong.is_empty(), "{:?}", &wrong[..wrong.len().min(5)]);
}

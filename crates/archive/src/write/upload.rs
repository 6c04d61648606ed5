//! Built segments on their way to the store, and batches that stay there as they are.

use bytes::Bytes;

use super::edit::Edit;
use super::publish::Uploading;
use super::seal::Built;
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::ranges::report::count_segment;
use crate::state::catalog::{ObjectRef, SegmentEntry};

impl Writer {
    /// Makes a batch a sealed segment as it is: the format is the same. One that another process made
    /// is counted now; where it cannot be read, maintenance finds out.
    pub(crate) async fn seal_batch(&self, batch: &SegmentEntry, edit: &mut Edit) {
        let mut sealed = SegmentEntry {
            tier: 1,
            ..batch.clone()
        };
        if sealed.keys.is_none() {
            let objects = &self.view.objects;
            let counted = async {
                let segment = objects.open(&batch.object).await?;
                count_segment(objects, &segment).await
            };
            sealed.keys = counted.await.ok();
        }
        edit.remove.push(batch.object.name.clone());
        edit.segments.push(sealed);
    }

    /// Names a built segment and queues its upload.
    pub(crate) fn upload(
        &self,
        built: Built,
        tier: u8,
        uploads: &mut Vec<(Uploading, Bytes)>,
    ) -> SegmentEntry {
        let range = built.facts.range;
        let [a, b, c, d, ..] = built.facts.root.0;
        let root = format!("-{a:02x}{b:02x}{c:02x}{d:02x}");
        let folder = if tier == 0 { "bat" } else { "seg" };
        let uploading = self.publisher.name_with(folder, range, &root);
        let object = ObjectRef::new(&uploading.name, built.finished);
        let meters = &self.view.objects.meters;
        if tier > 0 {
            meters.seals.increment(1);
            meters.segment_bytes.record(built.finished.len as f64);
        }
        uploads.push((uploading, built.bytes));
        SegmentEntry {
            object,
            tier,
            facts: built.facts,
            keys: Some(built.keys),
        }
    }

    /// Stores objects, all at once. They are safe from collection as long as the names live.
    pub(crate) async fn put_all(&self, uploads: Vec<(Uploading, Bytes)>) -> Result<Vec<Uploading>> {
        let blobs = self.view.objects.blobs();
        let put = |(uploading, bytes): (Uploading, Bytes)| async move {
            let stored = blobs.put(&uploading.name, bytes).await;
            stored
                .map_err(Error::store("store an object"))
                .map(|()| uploading)
        };
        futures::future::try_join_all(uploads.into_iter().map(put)).await
    }
}

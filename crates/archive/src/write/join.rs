//! Joining packs: their frames are copied as they are, a few at a time, so that a pack of many megabytes
//! never lies in memory whole.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::BlockRange;

use super::merge::Output;
use super::pack::{PackFrame, decode_frames, encode_frame, encode_summary};
use super::publish::Uploading;
use super::writer::Writer;
use crate::catalog::PackEntry;
use crate::error::{Error, Result};
use crate::format::Decoded;
use crate::format::container::{Container, ObjectKind, Section};
use crate::format::wire::Put;
use crate::read::window::Window;

impl Writer {
    /// Makes one pack of neighbours. A single one that is large enough already is not copied.
    pub(crate) async fn join_packs(
        &self,
        inputs: &[Arc<PackEntry>],
    ) -> Result<(PackEntry, Option<Uploading>)> {
        let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else {
            return Err(Error::Invalid("no packs to join".to_owned()));
        };
        if inputs.len() == 1 {
            return Ok(((**first).clone(), None));
        }
        let range = BlockRange::new(first.range.start, last.range.end);
        let about = format!("{:012}-{}", range.start, range.end);
        let uploading = self.publisher.name("pack", &about);
        let objects = &self.view.objects;
        let mut output = Output::create(objects, &uploading.name, ObjectKind::Pack).await?;
        output.container.begin(Section::Frames);
        let (mut table, mut index, mut number) = (Vec::new(), Vec::new(), 0);
        for input in inputs {
            let name = &input.object.name;
            let damaged = |damage| Error::damaged(name, damage);
            let tail = objects.tail(&input.object).await?;
            let part = Tables::decode(tail, input.object.tables_start).map_err(damaged)?;
            let mut window = Window::new(objects, name, part.place);
            let mut stream_start = 0;
            for (at, frame) in part.frames.iter().enumerate() {
                let bytes = window.slice(frame.start, frame.end).await?;
                frame.verify(&bytes, at).map_err(damaged)?;
                let unpacked = frame.stream_end - stream_start;
                encode_frame(&bytes, unpacked, number, &mut table);
                output.container.buffer().put(&bytes);
                output.flush().await?;
                (stream_start, number) = (frame.stream_end, number + 1);
            }
            index.put(&part.index);
        }
        let container = &mut output.container;
        container.table(Section::FrameTable, table);
        container.table(Section::PackIndex, index);
        let summary = encode_summary(&range, last.last_hash, first.datasets);
        container.table(Section::Summary, summary);
        let object = output.finish(&uploading.name).await?;
        let entry = PackEntry {
            object,
            range,
            last_hash: last.last_hash,
            datasets: first.datasets,
        };
        Ok((entry, Some(uploading)))
    }
}

/// What joining needs of a pack's tables.
struct Tables {
    /// Where the frames lie in the object.
    place: (u64, u64),
    frames: Vec<PackFrame>,
    index: Bytes,
}

impl Tables {
    fn decode(tail: Bytes, tables_start: u64) -> Decoded<Self> {
        let container = Container::parse(tail, tables_start, ObjectKind::Pack)?;
        let place = container.data(Section::Frames)?;
        Ok(Self {
            place,
            frames: decode_frames(&container.table(Section::FrameTable)?, place.1)?,
            index: container.table(Section::PackIndex)?,
        })
    }
}

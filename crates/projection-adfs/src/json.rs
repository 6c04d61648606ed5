//! Decoded calldata as JSON: what the API serves, and what is stored beside raw calldata.
//!
//! Numbers that may pass 2^53 are decimal strings, indexes and bytes are hexadecimal.

use serde_json::{Map, Value, json};

use crate::address::to_bytes16;
use crate::calldata::HeaderForm;
use crate::decoded::{Decoded, Feed, Header, RingRow};

impl Header {
    /// The fields that a version has beside feeds and rows: `HeaderForm::extra_fields`, with values.
    #[must_use]
    pub fn extra(&self) -> Map<String, Value> {
        let values = match self {
            Self::BlockNumber(_) => [None, None],
            Self::Accumulators {
                source,
                destination,
            } => [Some(source), Some(destination)],
        };
        let names = self.form().extra_fields().iter();
        let fields = names.zip(values.into_iter().flatten());
        let fields = fields.map(|(name, value)| ((*name).to_owned(), hex(value)));
        fields.collect()
    }
}

impl Decoded {
    /// The whole as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut whole = self.header.extra();
        let numbered = self.header.form() == HeaderForm::BlockNumber;
        whole.insert("hasBlockNumber".to_owned(), json!(numbered));
        if let Header::BlockNumber(number) = self.header {
            whole.insert("blockNumber".to_owned(), json!(number.to_string()));
        }
        let feeds: Vec<Value> = self.feeds.iter().map(Feed::to_json).collect();
        let rows: Vec<Value> = self.rows.iter().map(RingRow::to_json).collect();
        let high = self.high_lanes.iter();
        let high = high.map(|it| json!({ "row": it.row, "lane": it.lane, "value": it.value }));
        let apart = self.disagreements.iter();
        let apart = apart
            .map(|it| json!({ "feed": it.feed, "index": it.rb_index, "tableLane": it.table_lane }));
        whole.insert("feedsLength".to_owned(), json!(feeds.len()));
        whole.insert("feeds".to_owned(), Value::Array(feeds));
        whole.insert("ringBufferTable".to_owned(), Value::Array(rows));
        whole.insert("highLanes".to_owned(), high.collect());
        whole.insert("disagreements".to_owned(), apart.collect());
        Value::Object(whole)
    }
}

impl Feed {
    fn to_json(&self) -> Value {
        json!({
            "position": self.position,
            "offset": self.offset,
            "stride": self.stride,
            "feedIndex": format!("{:#x}", self.feed_index),
            "feedId": self.feed_id.to_string(),
            "index": self.rb_index,
            "slotOffset": self.slot_offset,
            "tableLane": self.table_lane,
            "spill": self.spill,
            "dataLen": self.data.len(),
            "data": hex(&self.data),
        })
    }
}

impl RingRow {
    fn to_json(&self) -> Value {
        json!({
            "position": self.position,
            "offset": self.offset,
            "tableIndex": hex(&to_bytes16(self.table_index)),
            "stride": self.stride(),
            "feedIdBase": self.feed_id_base().to_string(),
            "lanes": self.lanes,
            "data": hex(&self.data),
        })
    }
}

fn hex(bytes: &[u8]) -> Value {
    Value::String(const_hex::encode_prefixed(bytes))
}

//! Values of the model as text and JSON.

use chronolith_model::{BlockRange, BlockRef, DatasetSet, Scope, Verification};
use serde_json::{Value, json};

/// A block as JSON.
pub(crate) fn block_json(block: BlockRef) -> Value {
    json!({ "number": block.number, "hash": block.hash.to_string() })
}

/// An interval of blocks with its verification level, as JSON.
pub(crate) fn interval_json(range: BlockRange, level: Verification) -> Value {
    json!({ "from": range.start, "to": range.end - 1, "level": level.as_str() })
}

/// The names of datasets.
pub(crate) fn dataset_names(datasets: DatasetSet) -> Vec<&'static str> {
    datasets.iter().map(|dataset| dataset.name()).collect()
}

/// Which logs are kept, as text.
pub(crate) fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "all".to_owned(),
        Scope::Only(entries) => match entries.len() {
            1 => "1 pair of address and topic".to_owned(),
            several => format!("{several} pairs of address and topic"),
        },
    }
}

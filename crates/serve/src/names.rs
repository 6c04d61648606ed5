//! Words for what the model only numbers.

use chronolith_model::{BlockRef, DatasetSet, Scope};
use serde_json::{Value, json};

/// A block as JSON.
pub(crate) fn block_json(block: BlockRef) -> Value {
    json!({ "number": block.number, "hash": block.hash.to_string() })
}

/// The names of datasets.
pub(crate) fn dataset_names(datasets: DatasetSet) -> Vec<&'static str> {
    datasets.iter().map(|dataset| dataset.name()).collect()
}

/// Which logs are kept, in words.
pub(crate) fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "all".to_owned(),
        Scope::Only(entries) => match entries.len() {
            1 => "1 pair of address and topic".to_owned(),
            several => format!("{several} pairs of address and topic"),
        },
    }
}

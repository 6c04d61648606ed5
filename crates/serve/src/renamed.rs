//! Fields of answers that were renamed. An answer has the old name too, for one release.

use serde_json::Value;

/// New and old names.
const RENAMED: [(&str, &str); 3] = [
    ("error", "trouble"),
    ("errorSince", "troubleSince"),
    ("lastSuccessSeconds", "lastGoodRoundSeconds"),
];

/// Adds the old names to the health of a chain and of its projections.
pub(crate) fn with_old_names(mut chain: Value) -> Value {
    if let Some(projections) = chain.get_mut("projections") {
        add_old_names(projections);
    }
    add_old_names(&mut chain);
    chain
}

fn add_old_names(object: &mut Value) {
    let Value::Object(fields) = object else {
        return;
    };
    for (new, old) in RENAMED {
        if let Some(value) = fields.get(new).cloned() {
            fields.insert(old.to_owned(), value);
        }
    }
}

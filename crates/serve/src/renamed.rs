//! Fields of answers that were renamed. An answer has the old name too, for one release.

use schemars::Schema;
use serde_json::Value;

use crate::openapi::add_field;

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

/// Describes the old names in the schema of such an object.
pub(crate) fn describe_old_names(schema: &mut Schema) {
    for (new, old) in RENAMED {
        let fields = schema.get("properties");
        let field = fields.and_then(|fields| fields.get(new)?.as_object().cloned());
        if let Some(mut field) = field {
            let description = format!("The old name of `{new}`; removed in the next release.");
            field.insert("description".to_owned(), description.into());
            field.insert("deprecated".to_owned(), true.into());
            add_field(schema, old, field.into());
        }
    }
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

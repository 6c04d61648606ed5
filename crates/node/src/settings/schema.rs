//! A JSON Schema of the settings file, made from the types that read it.

use schemars::schema_for;
use serde_json::{Map, Value};

use super::raw::RawSettings;

/// Fields with another name beside the one in snake_case.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("contractAddress", &["proxyAddress", "proxy_address"]),
    ("confirmations", &["l1Confirmations", "l1_confirmations"]),
];

/// The schema, with every spelling that is taken.
pub(crate) fn schema() -> Value {
    let mut schema = schema_for!(RawSettings).to_value();
    add_spellings(&mut schema);
    schema
}

fn add_spellings(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(add_spellings),
        Value::Object(all) => {
            if let Some(Value::Object(properties)) = all.get_mut("properties") {
                let spelled: Vec<_> = properties
                    .iter()
                    .flat_map(|(name, field)| spellings(name, field))
                    .collect();
                properties.extend(spelled);
            }
            all.values_mut().for_each(add_spellings);
        }
        _ => {}
    }
}

/// The same field by its other names.
fn spellings(name: &str, field: &Value) -> Map<String, Value> {
    let others = OTHER_NAMES.iter().filter(|(first, _)| *first == name);
    let others = others.flat_map(|(_, others)| others.iter().map(|other| (*other).to_owned()));
    let names = others
        .chain([snake_case(name)])
        .filter(|other| other != name);
    names.map(|other| (other, field.clone())).collect()
}

fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::EXAMPLE;

    /// Fields of a value that its schema does not know, by their paths.
    fn unknown(value: &Value, schema: &Value, root: &Value, path: &str) -> Vec<String> {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.trim_start_matches("#/$defs/");
            return unknown(value, &root["$defs"][name], root, path);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let of_each = any.iter().filter(|one| takes(one, value));
            let mut of_each = of_each.map(|one| unknown(value, one, root, path));
            return of_each
                .next()
                .unwrap_or_else(|| vec![format!("{path}: no form fits")]);
        }
        match value {
            Value::Array(all) => {
                let each = all.iter().enumerate();
                each.flat_map(|(at, one)| {
                    unknown(one, &schema["items"], root, &format!("{path}[{at}]"))
                })
                .collect()
            }
            Value::Object(all) => {
                let each = all.iter();
                each.flat_map(|(name, one)| {
                    let path = format!("{path}.{name}");
                    let known = schema["properties"].get(name);
                    match known.or(schema.get("additionalProperties")) {
                        Some(Value::Bool(false)) => vec![path],
                        Some(known) => unknown(one, known, root, &path),
                        None => Vec::new(),
                    }
                })
                .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a form of several is of the value's type.
    fn takes(form: &Value, value: &Value) -> bool {
        let object = form["$ref"].is_string() || form["type"] == "object";
        match value {
            Value::Object(_) => object,
            Value::String(_) => form["type"] == "string",
            Value::Null => form["type"] == "null",
            _ => !object,
        }
    }

    fn check(text: &str, expected: &[&str]) {
        let (schema, value) = (schema(), serde_json::from_str::<Value>(text).unwrap());
        let mut found = unknown(&value, &schema, &schema, "");
        found.sort();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn examples_use_known_fields_and_others_are_found_out() {
        check(EXAMPLE, &[]);
        check(super::super::tests::ORACLE_EXAMPLE, &[]);
        let both = r#"{ "data_dir": "x", "chains": [ "base", { "chain_id": 1, "rpcHttp":
            ["http://a", { "url": "http://b", "in_flight": 2 }], "proxy_address": "0x",
            "finality": { "l1_confirmations": 3 }, "logs": { "topic0": [] } } ] }"#;
        check(both, &[]);
        let wrong = r#"{ "colour": 1, "chains": [ { "startBlok": 5, "finality": { "depth": 1 },
            "rpcHttp": [{ "url": "http://a", "speed": 1 }] } ], "versions": { "1":
            { "hasBlockNumber": true, "odd": 1 } } }"#;
        let expected = [
            ".chains[0].finality.depth",
            ".chains[0].rpcHttp[0].speed",
            ".chains[0].startBlok",
            ".colour",
            ".versions.1.odd",
        ];
        check(wrong, &expected);
    }

    /// Examples of the documents, in fences of their own.
    #[test]
    fn documented_examples_use_known_fields() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut found = 0;
        for name in [
            "README.md",
            "docs/cli.md",
            "docs/guide.md",
            "docs/settings.md",
        ] {
            let text = std::fs::read_to_string(format!("{root}/{name}")).unwrap();
            for fenced in text.split("```json\n").skip(1) {
                let (example, _) = fenced.split_once("```").unwrap();
                if example.contains("\"chains\"") {
                    check(example, &[]);
                    crate::settings::Settings::parse(example, false).unwrap();
                    found += 1;
                }
            }
        }
        assert!(found > 0, "no document has an example");
    }

    /// The first file of users of ADFS: what is in it is enough, and an update of its contract finds its version.
    #[test]
    fn the_example_for_adfs_is_whole_and_that_of_the_guide() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |name: &str| std::fs::read_to_string(format!("{root}/{name}")).unwrap();
        let example = read("examples/adfs.json");
        check(&example, &[]);
        let settings = crate::settings::Settings::parse(&example, false).unwrap();
        let adfs = settings.chains[0].adfs.as_ref().unwrap();
        assert_eq!(adfs.start_block, settings.chains[0].start_block);
        let versions: Vec<&u32> = adfs.versions.keys().collect();
        let implemented: Vec<&u32> = adfs.implementations.values().collect();
        assert_eq!(versions, [&1]);
        assert_eq!(implemented, versions);
        let fenced = format!("```json\n{example}```\n");
        assert!(read("docs/guide.md").contains(&fenced));
        // The query of the guide is one that the page of the tables has.
        let guide = read("docs/guide.md");
        let query = guide
            .split("```sql\n")
            .find(|part| part.contains("feed_latest"));
        let (query, _) = query.unwrap().split_once("```").unwrap();
        assert!(read("docs/schema.md").contains(query), "{query}");
    }

    /// Fields that the example leaves out: one that needs a store, and other spellings of others.
    const LEFT_OUT: [&str; 6] = [
        "RawMetrics.port",
        "RawQueue.maxItems",
        "RawService.metricsPort",
        "RawSettings.archiveUrl",
        "RawSettings.metrics",
        "RawSettings.queue",
    ];

    /// Every field by the part of the file it belongs to.
    fn fields(root: &Value) -> BTreeSet<String> {
        let parts = root["$defs"].as_object().unwrap().iter();
        let parts = parts.map(|(name, part)| (name.as_str(), part));
        let of_each = parts
            .chain([("RawSettings", root)])
            .flat_map(|(name, part)| {
                let names = part["properties"].as_object().into_iter().flatten();
                names.map(move |(field, _)| format!("{name}.{field}"))
            });
        of_each.collect()
    }

    /// Takes the fields that a value uses out of those that there are.
    fn use_up(
        value: &Value,
        (name, schema): (&str, &Value),
        root: &Value,
        left: &mut BTreeSet<String>,
    ) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.trim_start_matches("#/$defs/");
            return use_up(value, (name, &root["$defs"][name]), root, left);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let form = any.iter().find(|form| takes(form, value)).unwrap();
            return use_up(value, (name, form), root, left);
        }
        let items = value.as_array().into_iter().flatten();
        items.for_each(|one| use_up(one, ("", &schema["items"]), root, left));
        for (field, one) in value.as_object().into_iter().flatten() {
            left.remove(&format!("{name}.{field}"));
            let known = schema["properties"].get(field);
            let known = known.unwrap_or(&schema["additionalProperties"]);
            use_up(one, ("", known), root, left);
        }
    }

    /// The annotated example shows every field that there is, and loads; its plain twin is the same.
    #[test]
    fn the_annotated_example_has_every_field_and_a_plain_twin() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let read = |name: &str| std::fs::read_to_string(format!("{root}/{name}")).unwrap();
        let (annotated, plain) = (read("chronolith.toml"), read("chronolith.json"));
        let twin: Value = serde_json::from_str(&plain).unwrap();
        assert_eq!(toml::from_str::<Value>(&annotated).unwrap(), twin);
        for (text, is_toml) in [(&annotated, true), (&plain, false)] {
            let settings = crate::settings::Settings::parse(text, is_toml).unwrap();
            assert_eq!(settings.chains.len(), 7);
        }
        check(&plain, &[]);
        // Without other spellings: each field once.
        let schema = schema_for!(RawSettings).to_value();
        let mut left = fields(&schema);
        assert!(left.len() > 80, "{left:?}");
        use_up(&twin, ("RawSettings", &schema), &schema, &mut left);
        assert_eq!(left.into_iter().collect::<Vec<_>>(), LEFT_OUT);
    }

    /// Every field of the annotated example is read by its name in snake_case too.
    #[test]
    fn every_field_has_a_name_in_snake_case() {
        fn renamed(value: &Value) -> Value {
            match value {
                Value::Array(all) => all.iter().map(renamed).collect(),
                Value::Object(all) => {
                    let all = all.iter();
                    all.map(|(name, one)| (snake_case(name), renamed(one)))
                        .collect()
                }
                other => other.clone(),
            }
        }
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/chronolith.json"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let snake = renamed(&serde_json::from_str(&text).unwrap()).to_string();
        assert!(snake.contains("\"start_block\"") && !snake.contains("\"startBlock\""));
        let parse = |text: &str| crate::settings::Settings::parse(text, false).unwrap();
        assert_eq!(
            format!("{:?}", parse(&snake)),
            format!("{:?}", parse(&text))
        );
    }

    /// Every name that the reader takes is in the schema, and every field is described.
    #[test]
    fn every_spelling_is_there_and_described() {
        let text = schema().to_string();
        let source = include_str!("raw.rs");
        let aliases = source.split("alias = \"").skip(1);
        let aliases = aliases.filter_map(|rest| rest.split('"').next());
        let fields = fields(&schema_for!(RawSettings).to_value());
        let fields = fields.iter().filter_map(|field| field.split('.').nth(1));
        let names = aliases.chain(fields);
        let names: BTreeSet<String> = names
            .flat_map(|name| [name.to_owned(), snake_case(name)])
            .collect();
        assert!(names.len() > 100, "{names:?}");
        for name in names {
            assert!(text.contains(&format!("\"{name}\":")), "no {name}");
        }
        fn undescribed(value: &Value, found: &mut Vec<String>) {
            if let Some(properties) = value["properties"].as_object() {
                let bare = properties
                    .iter()
                    .filter(|(_, field)| field.get("description").is_none());
                found.extend(bare.map(|(name, _)| name.clone()));
            }
            let below: Vec<&Value> = match value {
                Value::Object(all) => all.values().collect(),
                Value::Array(all) => all.iter().collect(),
                _ => Vec::new(),
            };
            below.into_iter().for_each(|one| undescribed(one, found));
        }
        let mut found = Vec::new();
        undescribed(&schema(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

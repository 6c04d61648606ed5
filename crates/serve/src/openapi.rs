//! The API description: OpenAPI 3.1, at `/openapi.json`, from `chronolith openapi`, and as a page at `/docs`.
//!
//! The schemas of REST answers are derived from the types that are serialized. Paths, parameters, error responses
//! and the schemas of answers that are written without a type are data: `openapi.json`. The JSON-RPC methods are
//! the rows of `openapi/methods.json`, the tables of errors and limits those of `openapi/errors.json` and
//! `openapi/limits.json`.

mod methods;
mod tables;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::methods::{Families, RequestBody};
use self::tables::{ErrorRow, LimitRow};
use crate::error::{ApiError, ErrorBody, ErrorCode};
use crate::fees;
use crate::http::Health;
use crate::problem::problem;
use crate::rest::blocks::BlockClock;
use crate::rest::chains::{Chain, IndexingStatus};
use crate::rest::history::History;
use crate::rest::overview::Overview;
use crate::rest::projections::Projections;
use crate::rest::ranges::Ranges;
use crate::rest::times::{FoundBlock, Many, TimeResults};

/// The public API as OpenAPI 3.1.
pub static OPENAPI: &LazyLock<String> = &TEXT;

static TEXT: LazyLock<String> =
    LazyLock::new(|| describe().expect("tests parse the data and print the description"));

/// Raw parts keep the order of the file, which the page shows.
#[derive(Deserialize, Serialize)]
struct Document<'a> {
    openapi: &'a str,
    #[serde(borrow)]
    info: &'a RawValue,
    /// Where it is served: at the place of the description itself.
    #[serde(borrow)]
    servers: &'a RawValue,
    #[serde(borrow)]
    tags: &'a RawValue,
    #[serde(borrow)]
    paths: &'a RawValue,
    #[serde(borrow)]
    security: &'a RawValue,
    #[serde(borrow)]
    components: Components<'a>,
    /// The table of errors.
    #[serde(rename = "x-errors", skip_deserializing)]
    errors: Vec<ErrorRow>,
    /// The table of limits.
    #[serde(rename = "x-limits", skip_deserializing)]
    limits: Vec<LimitRow>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Components<'a> {
    #[serde(borrow)]
    security_schemes: &'a RawValue,
    #[serde(borrow)]
    parameters: &'a RawValue,
    #[serde(skip_deserializing)]
    request_bodies: BTreeMap<String, RequestBody>,
    responses: BTreeMap<String, Value>,
    schemas: BTreeMap<String, Value>,
}

fn describe() -> serde_json::Result<String> {
    let mut document: Document<'_> = serde_json::from_str(include_str!("openapi.json"))?;
    let families: Families = serde_json::from_str(include_str!("openapi/methods.json"))?;
    let parts = &mut document.components;
    for (prefix, family) in [("", families.evm), ("Stellar", families.stellar)] {
        family.describe(prefix, &mut parts.request_bodies, &mut parts.schemas);
    }
    let problems: Vec<_> = parts.responses.iter().filter_map(as_problem).collect();
    parts.responses.extend(problems);
    parts.responses.retain(|name, _| {
        let named = format!("\"#/components/responses/{name}\"");
        document.paths.get().contains(&named)
    });
    parts.responses.values_mut().for_each(expand);
    extend(&mut parts.schemas);
    for (name, schema) in derived() {
        // The data has schemas that a type cannot say.
        parts.schemas.entry(name).or_insert(schema);
    }
    document.errors = tables::errors()?;
    document.limits = tables::limits()?;
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Adds the fields of the schema that `x-extends` names. With `allOf` the page could show no table of them.
fn extend(schemas: &mut BTreeMap<String, Value>) {
    let originals = schemas.clone();
    for schema in schemas.values_mut() {
        let fields = schema.as_object_mut();
        let base = fields.and_then(|fields| fields.remove("x-extends"));
        let base = base.and_then(|name| originals.get(name.as_str()?));
        for part in ["properties", "required"] {
            let base = base.and_then(|base| base.get(part));
            match (schema.get_mut(part), base) {
                (Some(Value::Object(own)), Some(Value::Object(all))) => {
                    for (name, field) in all {
                        own.entry(name).or_insert_with(|| field.clone());
                    }
                }
                (Some(Value::Array(own)), Some(Value::Array(all))) => own.extend(all.clone()),
                _ => {}
            }
        }
    }
}

/// An error of REST as problem details, by its name with `Problem` after it. The data has its old form.
fn as_problem((name, response): (&String, &Value)) -> Option<(String, Value)> {
    let old = response
        .pointer("/example/error")
        .filter(|_| response["schema"] == "Error")?;
    let mut details = old.as_object()?.clone();
    let message = details.remove("message")?;
    let word = details.remove("code")?;
    let mut codes = ErrorCode::ALL.iter().filter(|code| code.rest().1 == word);
    // Two statuses have one word.
    let status = response.get("status").and_then(Value::as_u64);
    let is_status =
        |code: &&ErrorCode| status.is_none_or(|status| u64::from(code.rest().0.as_u16()) == status);
    let code = codes.find(is_status)?;
    let error = ApiError::new(*code, message.as_str()?).with(details.into());
    let mut response = response.clone();
    let fields = response.as_object_mut()?;
    fields.insert("schema".to_owned(), "Problem".into());
    let example = Value::Object(problem(&error, "6c1f0d4a9b27e358"));
    fields.insert("example".to_owned(), example);
    Some((format!("{name}Problem"), response))
}

/// An error response as OpenAPI has it, from the name of its schema and an example.
fn expand(response: &mut Value) {
    if let Some(fields) = response.as_object_mut()
        && let Some(Value::String(schema)) = fields.remove("schema")
    {
        fields.remove("status");
        let kind = match schema.as_str() {
            "Problem" => "application/problem+json",
            _ => "application/json",
        };
        let example = fields.remove("example");
        let content = json!({ "schema": reference(&schema), "example": example });
        fields.insert("content".to_owned(), json!({ kind: content }));
    }
}

/// Adds a field that is always there.
pub(crate) fn add_field(to: &mut Schema, name: &str, field: Value) {
    if let Some(Value::Object(fields)) = to.get_mut("properties") {
        fields.insert(name.to_owned(), field);
    }
    if let Some(Value::Array(required)) = to.get_mut("required") {
        required.push(name.into());
    }
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// The schemas of answers and bodies that have a type.
fn derived() -> impl Iterator<Item = (String, Value)> {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .with_transform(RecursiveTransform(tidy));
    let mut bodies = settings.clone().for_deserialize().into_generator();
    bodies.subschema_for::<Many>();
    let mut answers = settings.for_serialize().into_generator();
    answers.subschema_for::<Chain>();
    answers.subschema_for::<Ranges>();
    answers.subschema_for::<History>();
    answers.subschema_for::<FoundBlock>();
    answers.subschema_for::<BlockClock>();
    answers.subschema_for::<TimeResults>();
    answers.subschema_for::<IndexingStatus>();
    answers.subschema_for::<Overview>();
    answers.subschema_for::<Projections>();
    answers.subschema_for::<Health>();
    answers.subschema_for::<ErrorBody>();
    fees::describe(&mut answers);
    let answers = answers.take_definitions(true).into_iter();
    answers.chain(bodies.take_definitions(true))
}

/// What holds for every type: an object has no other fields, an integer is not negative, and a text is one line.
fn tidy(schema: &mut Schema) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if fields.contains_key("properties") {
        let others = fields.entry("additionalProperties");
        others.or_insert(false.into());
    }
    // One type, or a list with null.
    let kind = fields.get("type").map(Value::to_string).unwrap_or_default();
    if kind.contains("integer") {
        fields.entry("minimum").or_insert(0.into());
    }
    // The size of a number in Rust is no part of the API.
    if kind.contains("integer") || kind.contains("number") {
        fields.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rpc;

    /// Fields whose form another document fixes.
    const FIXED: [(&str, &str); 2] = [
        ("CollectedFee", "createdAt"),
        ("IndexingStatus", "updatedAt"),
    ];
    /// What has the form of nodes: every number in it is hex, and none around it.
    const OF_NODES: [&str; 3] = ["Block", "Log", "Transaction"];
    /// The text of the old form of a time, which the next release removes.
    const OLD: [(&str, &str); 4] = [
        ("Range", "completedAt"),
        ("Range", "createdAt"),
        ("Range", "transitionStartedAt"),
        ("RangeFailure", "at"),
    ];

    /// A field of an answer, with the name of the schema that has it.
    struct Field<'a> {
        owner: &'a str,
        name: &'a str,
        schema: &'a Value,
    }

    /// The fields of all answers over REST.
    fn fields(document: &Value) -> Vec<Field<'_>> {
        let paths = document["paths"].as_object().unwrap();
        let rest = paths.iter().filter(|(path, _)| !rpc::is_path(path));
        let mut parts: Vec<(&str, &Value)> = Vec::new();
        for (path, item) in rest {
            let operations = item.as_object().unwrap().values();
            parts.extend(operations.map(|operation| (path.as_str(), &operation["responses"])));
        }
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some((owner, part)) = parts.pop() {
            if let Value::Array(items) = part {
                parts.extend(items.iter().map(|item| (owner, item)));
            }
            for (key, value) in part.as_object().into_iter().flatten() {
                match (key.as_str(), value) {
                    ("example" | "examples", _) => {}
                    ("$ref", Value::String(place)) => {
                        let name = place.rsplit('/').next().unwrap();
                        let named = document.pointer(place.strip_prefix('#').unwrap());
                        if seen.insert(place) {
                            parts.push((name, named.unwrap()));
                        }
                    }
                    ("properties", Value::Object(fields)) => {
                        for (name, schema) in fields {
                            found.push(Field {
                                owner,
                                name,
                                schema,
                            });
                            parts.push((owner, schema));
                        }
                    }
                    (_, value) => parts.push((owner, value)),
                }
            }
        }
        found
    }

    fn is_time(name: &str) -> bool {
        let ends = ["At", "Timestamp", "Since"];
        let names = ["at", "asOf", "now", "since", "time", "timestamp"];
        names.contains(&name) || ends.iter().any(|end| name.ends_with(end))
    }

    /// The rule of docs/api.md, "Numbers and times": a client needs one parser for each kind of answer.
    #[test]
    fn a_time_is_a_number_of_seconds_and_has_the_name_of_one() {
        let document: Value = serde_json::from_str(&TEXT).unwrap();
        let (mut times, mut hex, mut texts) = (0, 0, BTreeSet::new());
        for Field {
            owner,
            name,
            schema,
        } in fields(&document)
        {
            let what = format!("{owner}.{name}: {schema}");
            let description = schema["description"].as_str().unwrap_or_default();
            let says_seconds = description.to_lowercase().contains("seconds since 1970");
            assert!(is_time(name) || !says_seconds, "{what}");
            if schema["format"] == "date-time" {
                let is_old = OLD.contains(&(owner, name));
                assert_eq!(schema["deprecated"] == true, is_old, "{what}");
                texts.insert((owner, name));
                continue;
            }
            let is_hex = schema["$ref"] == "#/components/schemas/Quantity";
            let is_of_nodes = OF_NODES.contains(&owner);
            assert!(!is_hex || is_of_nodes, "{what}");
            let is_number = ["\"integer\"", "\"number\""]
                .iter()
                .any(|number| schema["type"].to_string().contains(number));
            assert!(!is_number || !is_of_nodes, "{what}");
            hex += usize::from(is_hex);
            if is_time(name) && !is_hex {
                assert!(schema["type"].to_string().contains("\"integer\""), "{what}");
                times += 1;
            }
        }
        assert!(times > 15, "{times} times: too few were looked at");
        assert!(hex > 15, "{hex} hex numbers: too few were looked at");
        let expected: BTreeSet<_> = FIXED.iter().chain(&OLD).copied().collect();
        assert_eq!(texts, expected, "times as text");
    }
}

//! Schemas and examples of the JSON-RPC methods, from a row for each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::reference;

#[derive(Deserialize)]
pub(super) struct Families {
    pub(super) evm: Family,
    pub(super) stellar: Family,
}

/// The methods of a family of chains.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Family {
    /// The schema of the parameters where a method has none, and what its example sends.
    no_params: Value,
    no_example: Option<Value>,
    methods: Vec<Method>,
    batch: Batch,
}

#[derive(Deserialize)]
struct Method {
    name: String,
    summary: String,
    /// The summary where it is absent.
    description: Option<String>,
    /// A schema, or a list with one for each parameter, of which only the first is required.
    params: Option<Value>,
    /// Example parameters.
    example: Option<Value>,
    /// The schema of the result.
    result: Value,
    /// The result of the example; long texts are cut, and end with `…`.
    answer: Value,
}

#[derive(Deserialize)]
struct Batch {
    summary: String,
    calls: Vec<Value>,
}

#[derive(Serialize)]
pub(super) struct RequestBody {
    required: bool,
    description: &'static str,
    content: BTreeMap<&'static str, Content>,
}

#[derive(Serialize)]
struct Content {
    schema: Value,
    /// In the order of the methods: the page shows the first.
    #[serde(serialize_with = "in_order")]
    examples: Vec<(String, Value)>,
}

fn in_order<S: Serializer>(pairs: &[(String, Value)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

impl Family {
    /// Adds the body of a request, and the schemas of calls and replies.
    pub(super) fn describe(
        &self,
        prefix: &str,
        bodies: &mut BTreeMap<String, RequestBody>,
        schemas: &mut BTreeMap<String, Value>,
    ) {
        let name = |word: &str| format!("{prefix}{word}");
        let methods = self.methods.iter();
        let example = |method: &Method| {
            let example = json!({ "summary": method.summary, "value": method.call(self) });
            (method.name.clone(), example)
        };
        let batch = json!({ "summary": self.batch.summary, "value": self.batch.calls });
        let examples = methods.clone().map(example);
        let content = Content {
            schema: reference(&name("Calls")),
            examples: examples.chain([("batch".to_owned(), batch)]).collect(),
        };
        let body = RequestBody {
            required: true,
            description: "The content type is not looked at.",
            content: [("application/json", content)].into(),
        };
        bodies.insert(name("Calls"), body);

        let calls: Vec<Value> = methods
            .clone()
            .map(|method| reference(&method.name))
            .collect();
        let mut results = Vec::new();
        for method in methods {
            schemas.insert(method.name.clone(), method.schema(self));
            if !results.contains(&&method.result) {
                results.push(&method.result);
            }
        }
        let (call, reply) = (reference(&name("Call")), reference(&name("Reply")));
        schemas.extend([
            (name("Call"), json!({
                "description": "One call. Fields that are not known are not looked at.",
                "oneOf": calls,
            })),
            (name("Calls"), json!({
                "description": "A call, or a batch of at most 100.",
                "anyOf": [call, { "type": "array", "items": call, "minItems": 1, "maxItems": 100 }],
            })),
            (name("Reply"), json!({
                "description": "The answer to a call: a result or an error. What the result of a method looks like is the `x-result` of its schema.",
                "oneOf": [
                    outcome("result", &json!({ "anyOf": results })),
                    outcome("error", &reference("RpcFailure")),
                ],
            })),
            (name("Replies"), json!({
                "description": "One answer, or one for each call of a batch that has an id.",
                "anyOf": [reply, { "type": "array", "items": reply, "minItems": 1 }],
            })),
        ]);
    }
}

impl Method {
    fn call(&self, family: &Family) -> Value {
        let mut call = json!({ "jsonrpc": "2.0", "id": 1, "method": self.name });
        let example = self.example.as_ref().or(family.no_example.as_ref());
        if let (Some(example), Some(fields)) = (example, call.as_object_mut()) {
            fields.insert("params".to_owned(), example.clone());
        }
        call
    }

    fn schema(&self, family: &Family) -> Value {
        let params = match &self.params {
            Some(Value::Array(all)) => json!({
                "type": "array",
                "prefixItems": all,
                "minItems": 1,
                "maxItems": all.len(),
            }),
            other => other.as_ref().unwrap_or(&family.no_params).clone(),
        };
        let mut required = vec!["jsonrpc", "method"];
        // Those that may be null may be absent.
        if params.get("type").is_some_and(Value::is_string) {
            required.push("params");
        }
        let summary = || format!("{}.", self.summary);
        json!({
            "type": "object",
            "description": self.description.clone().unwrap_or_else(summary),
            "required": required,
            "properties": {
                "jsonrpc": { "const": "2.0" },
                "id": reference("Id"),
                "method": { "const": self.name },
                "params": params,
            },
            "examples": [self.call(family)],
            "x-result": self.result,
            "x-result-example": self.answer,
        })
    }
}

/// A reply with a result or an error.
fn outcome(name: &str, schema: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["jsonrpc", "id", name],
        "additionalProperties": false,
        "properties": { "jsonrpc": { "const": "2.0" }, "id": reference("Id"), name: schema },
    })
}

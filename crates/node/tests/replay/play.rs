//! One scenario: what is asked, what must come back, and asking it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::chains::{Chain, World};
use super::expect::{check, cut, same_logs, show};
use super::fill::{fill, fill_text};
use super::naive;
use super::walks::{Pages, Walk};

/// A scenario as it stands in a file. Exactly one of `rpc`, `request`, `walk` and `pages` is asked, and at
/// least one of the expectations is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// The rules that it shows.
    pub(crate) rules: Vec<String>,
    /// Which chain is asked, `whole` unless told.
    #[serde(default = "whole")]
    chain: String,
    #[serde(default)]
    rpc: Option<Call>,
    #[serde(default)]
    request: Option<Request>,
    /// Ranges read as clients do that follow the ranges they are told.
    #[serde(default)]
    walk: Option<Walk>,
    /// A query read page by page.
    #[serde(default)]
    pages: Option<Pages>,
    #[serde(default)]
    status: Option<u16>,
    /// The result of a call.
    #[serde(default, deserialize_with = "given")]
    result: Option<Value>,
    /// The error of a call: these fields of it.
    #[serde(default)]
    error: Option<Value>,
    /// The whole body as JSON.
    #[serde(default, deserialize_with = "given")]
    answer: Option<Value>,
    /// The error of a REST request, with its status.
    #[serde(default)]
    refused: Option<Refused>,
    /// The body as lines of logs, or as a table of them: what the naive scan finds.
    #[serde(default)]
    ndjson: Option<Value>,
    #[serde(default)]
    csv: Option<Value>,
    /// No body at all.
    #[serde(default)]
    empty: bool,
    /// Headers of the answer.
    #[serde(default)]
    headers: Map<String, Value>,
    /// The result is what the simulated node answers.
    #[serde(default)]
    as_node: Option<AsNode>,
    /// Why it is known to fail. It is told, and once it holds this must go.
    #[serde(default)]
    pub(crate) known: Option<String>,
}

fn whole() -> String {
    "whole".to_owned()
}

/// A field that is there, also where it is null.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A JSON-RPC call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    method: String,
    #[serde(default, deserialize_with = "given")]
    params: Option<Value>,
}

/// An HTTP request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    method: String,
    path: String,
    #[serde(default)]
    headers: Map<String, Value>,
    /// A body of JSON.
    #[serde(default)]
    body: Option<Value>,
    /// A body that may be no JSON.
    #[serde(default)]
    text: Option<String>,
    /// A body that is too long to write down.
    #[serde(default)]
    repeat: Option<Repeat>,
    /// So many brackets, in the middle of what is repeated.
    #[serde(default)]
    nested: usize,
    /// A body that may be no text, in hex.
    #[serde(default)]
    bytes: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    #[serde(default)]
    before: String,
    text: String,
    times: usize,
    #[serde(default)]
    behind: String,
}

/// A refusal over REST. Beside code and message the error has these fields and no others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    status: u16,
    code: String,
    message: Value,
    #[serde(default)]
    more: Map<String, Value>,
}

/// What a simulated node answers to the same call, or another one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AsNode {
    #[serde(default)]
    call: Option<Call>,
    /// Where in its answer.
    #[serde(default)]
    at: String,
    /// Fields that it has and nobody can know.
    #[serde(default)]
    without: Vec<String>,
}

/// What came back.
pub(crate) struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: String,
}

impl Answer {
    fn next_cursor(&self) -> Option<&str> {
        self.headers.get("x-next-cursor")?.to_str().ok()
    }

    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.body).map_err(|error| {
            format!(
                "no JSON ({error}), status {}: {}",
                self.status,
                cut(&self.body)
            )
        })
    }
}

impl World {
    /// Plays a scenario; an error says what was asked and what is wrong with the answer.
    pub(crate) async fn play(&self, scenario: &Scenario) -> Result<(), String> {
        let chain = self.chain(&scenario.chain);
        if let Some(walk) = &scenario.walk {
            return walk.run(self, chain).await;
        }
        if let Some(pages) = &scenario.pages {
            return pages.run(self, chain).await;
        }
        let (answer, requested) = match (&scenario.rpc, &scenario.request) {
            (Some(call), None) => {
                let body = call.body(chain);
                (self.post(chain, &body).await?, show(&body))
            }
            (None, Some(request)) => {
                let requested = format!("{} {}", request.method, fill_text(&request.path, chain));
                (request.send(self, chain).await?, requested)
            }
            _ => return Err("ask exactly one thing".to_owned()),
        };
        let checked = scenario.check(self, chain, &answer).await;
        checked.map_err(|output| format!("{requested}\n    {output}"))
    }

    pub(crate) async fn post(&self, chain: &Chain, body: &Value) -> Result<Answer, String> {
        let url = format!("{}/{}", self.base, chain.id);
        receive(self.client.post(url).body(body.to_string())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, String> {
        receive(self.client.get(format!("{}{path}", self.base))).await
    }

    /// Whether it still answers.
    pub(crate) async fn is_alive(&self) -> Result<(), String> {
        let chain = self.chain("whole");
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
        let answer = self.post(chain, &call).await?.json()?;
        match answer["result"] == format!("{:#x}", chain.id) {
            true => Ok(()),
            false => Err(format!("it does not answer any more: {answer}")),
        }
    }
}

async fn receive(request: reqwest::RequestBuilder) -> Result<Answer, String> {
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let body = answer.text().await.map_err(|error| format!("{error:?}"))?;
    Ok(Answer {
        status,
        headers,
        body,
    })
}

impl Call {
    fn body(&self, chain: &Chain) -> Value {
        let mut body = json!({ "jsonrpc": "2.0", "id": 1, "method": self.method });
        if let Some(params) = &self.params {
            body["params"] = fill(params, chain);
        }
        body
    }
}

impl Request {
    async fn send(&self, world: &World, chain: &Chain) -> Result<Answer, String> {
        let url = format!("{}{}", world.base, fill_text(&self.path, chain));
        let method = self.method.parse().map_err(|_| "no such method")?;
        let mut request = world.client.request(method, url);
        for (name, value) in &self.headers {
            request = request.header(name, value.as_str().unwrap());
        }
        receive(request.body(self.body(chain))).await
    }

    fn body(&self, chain: &Chain) -> Vec<u8> {
        if let Some(body) = &self.body {
            return fill(body, chain).to_string().into_bytes();
        }
        let nested = "[".repeat(self.nested) + &"]".repeat(self.nested);
        if let Some(Repeat {
            before,
            text,
            times,
            behind,
        }) = &self.repeat
        {
            return format!("{before}{}{nested}{behind}", text.repeat(*times)).into_bytes();
        }
        if let Some(bytes) = &self.bytes {
            let pairs = bytes.as_bytes().chunks(2);
            let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            return pairs.map(byte).collect();
        }
        self.text.clone().unwrap_or(nested).into_bytes()
    }
}

impl Request {
    /// Whether the route is one whose errors are an object with a code and a message.
    fn has_fixed_errors(&self) -> bool {
        let path = self.path.split('?').next().unwrap();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let is_known = matches!(
            parts[..],
            ["v1", "chains" | "indexing-status"]
                | ["v1", "chains", _]
                | ["v1", "chains", _, "block", _, _]
        );
        is_known && !path.ends_with('/')
    }
}

impl Refused {
    fn body(&self, is_fixed: bool) -> Value {
        let old = json!({ "code": self.code, "message": self.message });
        let mut body = self.more.clone();
        if is_fixed {
            body.extend(old.as_object().unwrap().clone());
            return json!({ "error": body });
        }
        body.insert("code".to_owned(), json!(self.code));
        body.insert("detail".to_owned(), self.message.clone());
        body.insert("status".to_owned(), json!(self.status));
        body.insert("type".to_owned(), json!(format!("/docs#{}", self.code)));
        body.insert("title".to_owned(), json!({ "$is": "text" }));
        body.insert("requestId".to_owned(), json!({ "$is": "text" }));
        // The form of the release before.
        body.insert("error".to_owned(), json!({ "$part": old }));
        json!({ "$part": body })
    }
}

impl Scenario {
    /// Whether lines or a table end with a line that says so.
    fn has_last_line(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| !request.path.contains("trailer=false"))
    }

    async fn check(&self, world: &World, chain: &Chain, answer: &Answer) -> Result<(), String> {
        let status = match &self.refused {
            Some(refused) => refused.status,
            None => self.status.unwrap_or(200),
        };
        if answer.status != status {
            let (is, body) = (answer.status, cut(&answer.body));
            return Err(format!("status {is}, not {status}: {body}"));
        }
        for (name, expected) in &self.headers {
            let value = answer
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            check(&fill(expected, chain), &json!(value), chain, name)?;
        }
        if self.empty {
            return match answer.body.is_empty() {
                true => Ok(()),
                false => Err(format!("a body: {}", cut(&answer.body))),
            };
        }
        if let Some(filter) = &self.csv {
            let logs = naive::logs(chain, &fill(filter, chain));
            let mut wanted = naive::csv(&logs);
            if self.has_last_line() {
                let cursor = answer.next_cursor().unwrap_or_default();
                wanted += &format!("#complete,count={},nextCursor={cursor}\n", logs.len());
            }
            return match answer.body == wanted {
                true => Ok(()),
                false => Err(format!(
                    "the table is\n{}\nnot\n{}",
                    cut(&answer.body),
                    cut(&wanted)
                )),
            };
        }
        if let Some(filter) = &self.ndjson {
            let lines = answer.body.lines().map(serde_json::from_str);
            let lines: Result<Vec<Value>, _> = lines.collect();
            let mut list = lines.map_err(|error| format!("{error}: {}", cut(&answer.body)))?;
            if self.has_last_line() {
                let last = list.pop().unwrap_or_default();
                let wanted = json!({
                    "complete": true, "count": list.len(), "nextCursor": answer.next_cursor(),
                });
                check(&wanted, &last, chain, "last line")?;
            }
            return same_logs(
                &naive::logs(chain, &fill(filter, chain)),
                &list.into(),
                "lines",
            );
        }
        let body = answer.json()?;
        if let Some(node) = &self.as_node {
            let expected = self.of_node(chain, world, node).await?;
            return match self.request {
                Some(_) => check(&expected, &body, chain, "answer"),
                None => check(&expected, &body["result"], chain, "result"),
            };
        }
        let expected = fill(&self.expected(answer)?, chain);
        check(&expected, &body, chain, "answer")
    }

    /// The whole body that is expected.
    fn expected(&self, answer: &Answer) -> Result<Value, String> {
        let envelope =
            |name: &str, value: &Value| json!({ "jsonrpc": "2.0", "id": 1, name: value });
        if let Some(result) = &self.result {
            return Ok(envelope("result", result));
        }
        if let Some(error) = &self.error {
            let output = error.get("code").and(error.get("message"));
            output.ok_or("an error is expected with its code and its message")?;
            return Ok(envelope("error", &json!({ "$part": error })));
        }
        if let Some(refused) = &self.refused {
            let is_fixed = self.request.as_ref().is_some_and(Request::has_fixed_errors);
            let wanted = match is_fixed {
                true => "application/json",
                false => "application/problem+json",
            };
            let sort = answer.headers.get("content-type");
            if sort.is_none_or(|sort| sort != wanted) {
                return Err(format!("an error as {sort:?}"));
            }
            return Ok(refused.body(is_fixed));
        }
        let whole = self.answer.clone();
        whole.ok_or_else(|| "nothing is expected".to_owned())
    }

    /// What the simulated node answers.
    async fn of_node(&self, chain: &Chain, world: &World, node: &AsNode) -> Result<Value, String> {
        let call = node.call.as_ref().or(self.rpc.as_ref());
        let call = call.ok_or("only a call can be compared with the node")?;
        let request = world.client.post(chain.node.url());
        let answer = receive(request.body(call.body(chain).to_string())).await?;
        let mut body = answer.json()?;
        let result = body["result"].pointer_mut(&node.at).map(Value::take);
        let Some(Value::Object(mut fields)) = result else {
            return Err(format!("the node has no such thing: {}", cut(&answer.body)));
        };
        for name in &node.without {
            fields
                .remove(name)
                .ok_or_else(|| format!("the node has no {name}"))?;
        }
        Ok(fields.into())
    }
}

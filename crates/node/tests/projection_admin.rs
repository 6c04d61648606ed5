//! Every act on projections over the listener for operators: the same as by command, written down, and
//! refused in the same words.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use serde_json::{Value, json};
use support::projected::{Setup, named};

/// Whoever asks the listener of a program that runs.
struct Desk {
    base: String,
    client: reqwest::Client,
    token: Option<String>,
}

impl Desk {
    fn of(setup: &Setup) -> Self {
        let (address, token) = setup.bench.admin();
        let address = address.replace("0.0.0.0", "127.0.0.1");
        Self {
            base: format!("http://{address}/admin/v1"),
            client: reqwest::Client::new(),
            token: Some(token),
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let code = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (code, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let request = self.client.get(format!("{}/{path}", self.base));
        self.send(request).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}/{path}", self.base));
        let request = request.header("content-type", "application/json");
        self.send(request.body(body.to_string())).await
    }

    /// What an act says; it must be done.
    #[track_caller]
    fn done((code, output): (u16, Value)) -> Value {
        assert_eq!(code, 200, "{output}");
        output
    }
}

/// Without what is another at every look.
fn lasting(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.ends_with("Seconds"));
            for field in fields.values_mut() {
                *field = lasting(field.take());
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| *one = lasting(one.take())),
        _ => {}
    }
    value
}

/// What can be asked for twice with the same answer: path, body or query, command.
const TWINS: &str = r#"
    GET db/status | db status
    GET projection/state?chain=sim | projection state
    GET jobs/list | jobs list
    GET locks/list | locks list
    GET versions/list | versions list
    POST jobs/retry {} | jobs retry
    POST jobs/audit {} | jobs audit
    POST partitions/create {"month": "2031-05"} | partitions create --month 2031-05
    POST partitions/prune {"dryRun": true} | partitions prune --dry-run
    POST projection/resume {"projection": "fees"} | projection resume --projection fees
"#;

/// Rows of a table, without the empty ones.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| line.split(" | ").map(str::trim).collect())
}

impl Desk {
    /// A request as it stands in a table.
    async fn ask(&self, request: &str) -> (u16, Value) {
        let words: Vec<&str> = request.splitn(3, ' ').collect();
        match words.as_slice() {
            ["GET", path] => self.get(path).await,
            ["POST", path, body] => self.post(path, &serde_json::from_str(body).unwrap()).await,
            other => panic!("what is {other:?}?"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commands_do_can_be_requested_over_http() {
    let setup = Setup::new(71, 100).await;
    let running = setup.start();
    let state = setup.until_paused().await;
    let adfs = named(&state, "adfs");
    let remedy = adfs["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("chronolith versions add --chain 31337 --implementation 0x"));
    assert_eq!(state["version"], 1);
    assert!(adfs["pausedAt"].is_i64());
    let desk = Desk::of(&setup);
    // A paused projection's jobs wait, so there is something to look at.
    let replay = json!({ "chain": "sim", "projection": "adfs", "from": 0, "to": 20 });
    let replayed = Desk::done(desk.post("projection/replay", &replay).await);
    assert_eq!(replayed, json!({ "chainId": 31_337, "jobs": 1 }));
    let jobs = Desk::done(desk.get("jobs/list?chain=31337").await);
    let id = jobs[0]["id"].as_i64().unwrap();
    let explained = Desk::done(desk.get(&format!("jobs/explain?id={id}")).await);
    let output = explained["explanation"].as_str().unwrap();
    assert!(output.contains("waits for a worker"), "{output}");
    let by_command = setup.json(&["jobs", "explain", &id.to_string(), "--json"]);
    assert_eq!(lasting(explained), lasting(by_command));
    let month = json!({ "month": "2031-05", "chain": "sim" });
    let made = Desk::done(desk.post("partitions/create", &month).await);
    let made = made["created"].as_array().unwrap().clone();
    assert!(
        made.contains(&json!("fee_events_c31337_2031_05")),
        "{made:?}"
    );
    for row in rows(TWINS) {
        let by_http = Desk::done(desk.ask(row[0]).await);
        let words: Vec<&str> = row[1].split(' ').chain(["--json"]).collect();
        let by_command = setup.json(&words);
        assert_eq!(lasting(by_http), lasting(by_command), "{row:?}");
    }
    acts_are_done_and_written_down(&setup, &desk).await;
    running.stop();
}

async fn acts_are_done_and_written_down(setup: &Setup, desk: &Desk) {
    let pruned = Desk::done(desk.post("partitions/prune", &json!({})).await);
    assert_eq!(pruned["dryRun"], false);
    let lock = json!({ "chain": 31_337, "type": "finality" });
    let released = Desk::done(desk.post("locks/release", &lock).await);
    let expected = json!({ "chainId": 31_337, "type": "finality", "released": true });
    assert_eq!(released, expected);
    let stranger = setup.stranger();
    let version = json!({ "chain": "sim", "implementation": stranger, "version": 2 });
    // Said wrongly at first: it is taken back before it is in force.
    let wrong =
        json!({ "chain": "sim", "implementation": format!("0x{}", "77".repeat(20)), "version": 2 });
    assert_eq!(
        Desk::done(desk.post("versions/add", &wrong).await)["new"],
        true
    );
    let back = json!({ "chain": "sim", "implementation": wrong["implementation"] });
    let removed = Desk::done(desk.post("versions/remove", &back).await);
    assert_eq!(removed["removed"], true, "{removed}");
    let added = Desk::done(desk.post("versions/add", &version).await);
    let expected =
        json!({ "chainId": 31_337, "implementation": stranger, "version": 2, "new": true });
    assert_eq!(added, expected);
    let acts =
        "SELECT DISTINCT act FROM operator_acts WHERE operator LIKE '%, over HTTP' ORDER BY 1";
    let expected = [
        "jobs retry",
        "locks release",
        "partitions create",
        "partitions prune",
        "projection replay",
        "versions add",
        "versions remove",
    ];
    assert_eq!(setup.column(acts).await, expected);
}

/// What is refused: request, status, code, and words of the message.
const REFUSED: &str = r#"
    POST locks/release {"type": "all"} | 400 | BAD_REQUEST | neither finality nor writer
    POST locks/release {} | 400 | BAD_REQUEST | missing field
    POST locks/release {"type": "writer", "x": 1} | 400 | BAD_REQUEST | unknown field
    POST partitions/create {"month": "May"} | 400 | BAD_REQUEST | YYYY-MM
    POST versions/add {"implementation": "0x12", "version": 1} | 400 | BAD_REQUEST | is not an address
    POST versions/add {"implementation": "STRANGER", "version": 9} | 400 | BAD_REQUEST | say nothing
    POST projection/replay {"from": 9, "to": 3} | 400 | BAD_REQUEST | is below
    POST projection/replay {"from": -1, "to": 3} | 400 | BAD_REQUEST | invalid value
    POST projection/resume {"projection": "x"} | 404 | NOT_FOUND | it has: adfs, fees
    POST projection/resume {"chain": "other"} | 409 | UNKNOWN_CHAIN | no chain other
    POST locks/list {} | 405 | METHOD_NOT_ALLOWED | with GET
    POST locks/smash {} | 404 | NOT_FOUND | there are
    GET jobs/explain?id=4711 | 404 | NOT_FOUND | there is no job 4711
    GET jobs/explain?id=x | 400 | BAD_REQUEST | number of a job
    GET jobs/explain?id=1&id=2 | 400 | BAD_REQUEST | given twice
    GET jobs/list?chain=other | 409 | UNKNOWN_CHAIN | no chain other
    GET jobs/retry | 405 | METHOD_NOT_ALLOWED | with POST
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_with_what_to_do() {
    let setup = Setup::new(72, 60).await;
    let running = setup.start();
    setup.until_paused().await;
    let desk = Desk::of(&setup);
    for row in rows(&REFUSED.replace("STRANGER", &setup.stranger())) {
        let (code, answer) = desk.ask(row[0]).await;
        let error = &answer["error"];
        let message = error["message"].as_str().unwrap_or_default();
        let reported = code.to_string() == row[1] && error["code"] == row[2];
        assert!(
            reported && message.contains(row[3]),
            "{row:?}: {code} {answer}"
        );
    }
    // A web page may send plain text anywhere, but no JSON.
    let plain = desk.client.post(format!("{}/locks/release", desk.base));
    let (code, _) = desk.send(plain.body(r#"{"type":"writer"}"#)).await;
    assert_eq!(code, 415);
    let acts = "SELECT act FROM operator_acts";
    assert_eq!(setup.column(acts).await, Vec::<String>::new());

    // The database is down: the answer says what to do, and the node recovers by itself.
    setup.database.kill().unwrap();
    let (code, answer) = desk.post("jobs/retry", &json!({})).await;
    let error = &answer["error"];
    assert_eq!((code, &error["code"]), (503, &json!("UNAVAILABLE")));
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("Check that PostgreSQL runs"), "{message}");
    setup.database.restart().unwrap();
    let back = |_: u16, health: &Value| health["chains"][0]["projections"]["database"] == "ok";
    setup.bench.until_health("the database", back).await;
    Desk::done(desk.post("jobs/retry", &json!({})).await);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_guards_projections_too() {
    let setup = Setup::new(73, 30).await;
    setup.bench.change(
        r#""adminListen": "127.0.0.1:0""#,
        r#""adminListen": "0.0.0.0:0", "adminToken": "SECRET""#,
    );
    let running = setup.start();
    setup
        .until_state("the chain", |chain| chain["lastSafeBlock"] == 25)
        .await;
    let mut desk = Desk::of(&setup);
    for (token, code) in [(None, 401), (Some("WRONG"), 401), (Some("SECRET"), 200)] {
        desk.token = token.map(str::to_owned);
        assert_eq!(desk.get("locks/list").await.0, code, "{token:?}");
        assert_eq!(
            desk.post("jobs/retry", &json!({})).await.0,
            code,
            "{token:?}"
        );
    }
    // Whoever was not let in has done nothing.
    let acts = "SELECT act FROM operator_acts";
    assert_eq!(setup.column(acts).await, ["jobs retry"]);
    running.stop();
}

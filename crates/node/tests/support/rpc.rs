//! A client of the public listener.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::PATIENCE;

/// Asks the program over HTTP.
#[derive(Clone)]
pub struct Rpc {
    pub base: String,
    client: reqwest::Client,
}

impl Rpc {
    pub fn new(base: String) -> Self {
        let client = reqwest::Client::new();
        Self { base, client }
    }

    /// With a connection for each call: a server with few places closes one that is idle, also at the moment when
    /// the next call is sent on it.
    pub fn without_keep_alive(base: String) -> Self {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0);
        let client = client.build().unwrap();
        Self { base, client }
    }

    /// A call, errors included.
    pub async fn answer(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.client.post(format!("{}/31337", self.base));
        let request = request.header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    /// The result of a call that must succeed.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The newest block that is served.
    pub async fn head(&self) -> Option<u64> {
        let answer = self.answer("eth_blockNumber", json!([])).await;
        let text = answer["result"].as_str()?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    /// A REST answer with its status.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        answered(self.client.get(format!("{}{path}", self.base))).await
    }

    /// The same of an answer that is no JSON, or more than one.
    pub async fn get_text(&self, path: &str) -> (u16, String) {
        let request = self.client.get(format!("{}{path}", self.base));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The same of a question with a body.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.base));
        answered(request.body(body.to_string())).await
    }

    /// Waits until the served head is this one.
    pub async fn until_head(&self, wanted: u64) {
        let began = Instant::now();
        while self.head().await != Some(wanted) {
            let head = self.head().await;
            assert!(began.elapsed() < PATIENCE, "head {head:?}, wanted {wanted}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a call that must succeed has such a result.
    pub async fn until(&self, method: &str, params: Value, reached: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let result = self.call(method, params.clone()).await;
            if reached(&result) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{method}: {result}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn answered(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (
        status,
        serde_json::from_str(&answer.text().await.unwrap()).unwrap(),
    )
}

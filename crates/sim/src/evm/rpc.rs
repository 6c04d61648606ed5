//! JSON-RPC 2.0: requests and batches in, answers out, over any transport.

use std::collections::BTreeSet;

use serde_json::Value;

use super::faults::RpcFault;
use super::methods;
use super::refusals::RpcError;
use super::server::Context;
use crate::json_writer;

/// Most calls of a batch, unless the options say another number.
const BATCH_MAX: usize = 1_000;

/// What a client sent.
pub(super) enum Request {
    One(Value),
    Batch(Vec<Value>),
    Garbage,
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    next: u64,
    heads: BTreeSet<u64>,
}

impl Session {
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = u64> {
        self.heads.iter().copied()
    }

    fn subscribe(&mut self, params: &[Value]) -> Result<Vec<u8>, RpcError> {
        let wanted = params.first().and_then(Value::as_str).unwrap_or_default();
        if wanted != "newHeads" {
            let message = format!("no \"{wanted}\" subscription in eth namespace");
            return Err(RpcError::new(-32601, message));
        }
        self.next += 1;
        self.heads.insert(self.next);
        Ok(json_writer::quantity(self.next))
    }

    fn unsubscribe(&mut self, params: &[Value]) -> Result<Vec<u8>, RpcError> {
        let id = params.first().and_then(Value::as_str).unwrap_or_default();
        let id = super::filter::parse_quantity(id)?;
        if self.heads.remove(&id) {
            return Ok(b"true".to_vec());
        }
        Err(RpcError::new(-32000, "subscription not found"))
    }
}

/// Reads a request.
pub(super) fn parse(body: &[u8]) -> Request {
    match serde_json::from_slice(body) {
        Ok(Value::Array(calls)) => Request::Batch(calls),
        Ok(call) => Request::One(call),
        Err(_) => Request::Garbage,
    }
}

/// How many calls it makes.
pub(super) fn call_count(request: &Request) -> u64 {
    match request {
        Request::One(_) | Request::Garbage => 1,
        Request::Batch(calls) => calls.len() as u64,
    }
}

/// Answers it. Without a session there are no subscriptions.
pub(super) fn answer(
    context: &Context,
    request: &Request,
    mut session: Option<&mut Session>,
) -> Vec<u8> {
    let refused = |code, message| envelope(&Value::Null, Err(RpcError::new(code, message)));
    match request {
        Request::Garbage => refused(-32700, "parse error"),
        Request::Batch(calls) if calls.is_empty() => refused(-32600, "empty batch"),
        Request::Batch(calls) if calls.len() > context.options.max_batch.unwrap_or(BATCH_MAX) => {
            refused(-32600, "batch too large")
        }
        Request::Batch(_) if context.options.no_batches => {
            refused(-32600, "batch requests are not supported")
        }
        Request::One(one) => call(context, one, session),
        Request::Batch(calls) => {
            let answer = |one| call(context, one, session.as_deref_mut());
            let mut answers: Vec<Vec<u8>> = calls.iter().map(answer).collect();
            if answers.len() > 1 && context.faults().hits(RpcFault::BatchOutOfOrder) {
                answers.reverse();
            }
            let mut body = Vec::with_capacity(answers.iter().map(Vec::len).sum::<usize>() + 64);
            json_writer::put_list(&mut body, answers, |body, answer| body.extend(answer));
            body
        }
    }
}

fn call(context: &Context, one: &Value, session: Option<&mut Session>) -> Vec<u8> {
    let id = one.get("id").unwrap_or(&Value::Null);
    let Some(name) = one.get("method").and_then(Value::as_str) else {
        return envelope(id, Err(RpcError::new(-32600, "invalid request")));
    };
    let params = match one.get("params") {
        Some(Value::Array(params)) => params.as_slice(),
        _ => &[],
    };
    envelope(id, dispatch(context, name, params, session))
}

fn dispatch(
    context: &Context,
    name: &str,
    params: &[Value],
    session: Option<&mut Session>,
) -> Result<Vec<u8>, RpcError> {
    let unknown = |code| {
        let message = format!("the method {name} does not exist/is not available");
        Err(RpcError::new(code, message))
    };
    let known = methods::known(name);
    let counted = known.unwrap_or("other");
    context.count(|stats| *stats.calls.entry(counted).or_default() += 1);
    let Some(method) = known else {
        return unknown(-32601);
    };
    let missing = &context.options.missing_methods;
    if let Some(missing) = missing.iter().find(|missing| missing.name == name) {
        return unknown(missing.code);
    }
    if context.faults().hits(RpcFault::RpcError) {
        return Err(RpcError::new(-32000, "internal error"));
    }
    match (method, session) {
        ("eth_subscribe", Some(session)) => session.subscribe(params),
        ("eth_unsubscribe", Some(session)) => session.unsubscribe(params),
        ("eth_subscribe" | "eth_unsubscribe", None) => {
            Err(RpcError::new(-32601, "notifications not supported"))
        }
        _ => methods::call(context, method, params),
    }
}

fn envelope(id: &Value, result: Result<Vec<u8>, RpcError>) -> Vec<u8> {
    let room = result.as_ref().map_or(0, Vec::len);
    let mut text = Vec::with_capacity(room + 128);
    text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    text.extend_from_slice(id.to_string().as_bytes());
    match result {
        Ok(result) => {
            text.extend_from_slice(br#","result":"#);
            text.extend(result);
        }
        Err(error) => {
            let message = Value::from(error.message);
            let error = format!(r#","error":{{"code":{},"message":{message}}}"#, error.code);
            text.extend_from_slice(error.as_bytes());
        }
    }
    text.push(b'}');
    text
}

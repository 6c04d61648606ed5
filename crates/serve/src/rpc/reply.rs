//! Replies to calls.

use serde_json::value::RawValue;

use crate::encode;
use crate::error::ApiError;
use crate::fault::Fault;
use crate::http::answer_memory::MemoryReservation;
use crate::http::body::{BytesAnswer, LogsAnswer, ResponseBody};
use crate::http::context::Context;

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Json(Vec<u8>),
    Logs(LogsAnswer),
    Bytes(BytesAnswer),
}

impl Answer {
    pub(crate) fn null() -> Self {
        Self::Json(b"null".to_vec())
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Json(format!("\"{text}\"").into_bytes())
    }

    pub(crate) fn quantity(number: u64) -> Self {
        let mut out = Vec::new();
        encode::quantity(&mut out, number);
        Self::Json(out)
    }

    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::Json(value.to_string().into_bytes())
    }

    /// About how many bytes it takes.
    fn size(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Logs(answer) => answer.size(),
            Self::Bytes(answer) => answer.size(),
        }
    }
}

/// What is around an answer, but the id.
const FRAME_BYTES: usize = 64;

/// The reply to a call.
pub(crate) struct Reply {
    id: Box<str>,
    /// An error is JSON already.
    outcome: Result<Answer, Vec<u8>>,
    /// Held as long as the answer is.
    held: MemoryReservation,
}

impl Reply {
    pub(crate) fn new(id: &RawValue, outcome: Result<Answer, ApiError>) -> Self {
        Self {
            id: id.get().into(),
            outcome: outcome.map_err(|error| json(&error)),
            held: MemoryReservation::default(),
        }
    }

    /// Reserves memory for the reply until the client has read it. Logs are counted by their query, pages
    /// while they grow.
    pub(crate) async fn held_by(mut self, context: &Context) -> Self {
        let bytes = self.size();
        match &mut self.outcome {
            Ok(Answer::Bytes(answer)) => self.held = std::mem::take(&mut answer.reservation),
            Ok(Answer::Logs(_)) => return self,
            Ok(Answer::Json(_)) => {}
            // A batch may have thousands of them, and each may list dozens of blocks. None is waited for: the calls before
            // it have their answers.
            Err(_) => {
                if !context.try_grow(&mut self.held, bytes) {
                    self.outcome = Err(json(&Fault::Busy.into()));
                }
                return self;
            }
        }
        if let Err(fault) = context.grow(&mut self.held, bytes).await {
            self.outcome = Err(json(&fault.into()));
        }
        self
    }

    /// The reply to a request without a valid id.
    pub(crate) fn refused(error: ApiError) -> Self {
        Self {
            id: "null".into(),
            outcome: Err(json(&error)),
            held: MemoryReservation::default(),
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        let outcome = self.outcome.as_ref();
        outcome.map_or_else(Vec::len, Answer::size) + self.id.len() + FRAME_BYTES
    }

    fn write(self, out: &mut ResponseBody) {
        out.hold(self.held);
        out.text(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.text(self.id.as_bytes());
        match self.outcome {
            Ok(answer) => {
                out.text(b",\"result\":");
                match answer {
                    Answer::Json(json) => out.own_text(json),
                    Answer::Logs(logs) => out.logs(logs),
                    Answer::Bytes(bytes) => out.bytes(bytes),
                }
            }
            Err(error) => {
                out.text(b",\"error\":");
                out.text(&error);
            }
        }
        out.text(b"}");
    }
}

fn json(error: &ApiError) -> Vec<u8> {
    error.rpc_json().to_string().into_bytes()
}

pub(crate) fn one(reply: Reply) -> ResponseBody {
    let mut out = ResponseBody::default();
    reply.write(&mut out);
    out
}

pub(crate) fn many(replies: Vec<Reply>) -> ResponseBody {
    let mut out = ResponseBody::default();
    for (at, reply) in replies.into_iter().enumerate() {
        out.text(if at == 0 { b"[" } else { b"," });
        reply.write(&mut out);
    }
    out.text(b"]");
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::chain::ServedChains;
    use crate::error::ErrorCode;
    use crate::http::HeavyWork;
    use crate::http::limits::Limits;

    /// An error may list dozens of blocks, and a batch has hundreds of them: they used to be counted nowhere.
    #[tokio::test(start_paused = true)]
    async fn errors_are_counted_too() {
        let limits = Limits {
            unread_bytes: 1 << 20,
            ..Limits::default()
        };
        let served = ServedChains::new(Vec::new());
        let context = Context::new(served, limits, Arc::new(|| 0), HeavyWork::here());
        let id = serde_json::value::to_raw_value(&1).unwrap();
        let mut replies = Vec::new();
        let text = "x".repeat(6_000);
        let is_refused = loop {
            let error = ApiError::new(ErrorCode::BadRequest, "no").with(json!({ "text": text }));
            let reply = Reply::new(&id, Err(error)).held_by(&context).await;
            assert!(replies.len() < 100, "all of them were taken");
            if reply.held.is_empty() {
                break reply.size() < text.len();
            }
            assert!(reply.held.bytes() >= text.len());
            replies.push(reply);
        };
        assert!(is_refused, "what there is no memory for is not kept");
        assert!(replies.len() > 30, "{}", replies.len());
    }
}

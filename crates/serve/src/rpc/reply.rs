//! Replies to calls.

use serde_json::value::RawValue;

use crate::encode;
use crate::error::ApiError;
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

/// The reply to a call.
pub(crate) struct Reply {
    id: Box<str>,
    outcome: Result<Answer, ApiError>,
    /// Held as long as the answer is.
    held: MemoryReservation,
}

impl Reply {
    pub(crate) fn new(id: &RawValue, outcome: Result<Answer, ApiError>) -> Self {
        Self {
            id: id.get().into(),
            outcome,
            held: MemoryReservation::default(),
        }
    }

    /// Reserves memory for the answer until the client has read it. Logs are counted by their query, pages
    /// while they grow.
    pub(crate) async fn held_by(mut self, context: &Context) -> Self {
        let bytes = self.size();
        match &mut self.outcome {
            Ok(Answer::Json(_)) => {}
            Ok(Answer::Bytes(answer)) => self.held = std::mem::take(&mut answer.reservation),
            Ok(Answer::Logs(_)) | Err(_) => return self,
        }
        if let Err(fault) = context.grow(&mut self.held, bytes).await {
            self.outcome = Err(fault.into());
        }
        self
    }

    /// The reply to a request without a valid id.
    pub(crate) fn refused(error: ApiError) -> Self {
        Self {
            id: "null".into(),
            outcome: Err(error),
            held: MemoryReservation::default(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.outcome.as_ref().map_or(0, Answer::size)
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
                out.text(error.rpc_json().to_string().as_bytes());
            }
        }
        out.text(b"}");
    }
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

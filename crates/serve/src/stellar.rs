//! Stellar RPC: `POST /stellar/{network}`.
//!
//! Nothing is decoded without need. A transaction is its stored body with each part as base64, a ledger is
//! joined from its parts and encoded while it is sent, events are logs. Only `xdrFormat: "json"` decodes.

mod about;
mod bounds;
mod events;
mod filter;
mod ledgers;
mod scan;
mod transactions;
mod wire;
mod xdr;

use chronolith_archive::Error as ArchiveError;

use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::http::body::BytesAnswer;
use crate::http::context::Context;
use crate::rpc::{Answer, Handler, Method, Request, from_view};

/// The methods of Stellar RPC.
#[rustfmt::skip]
pub(crate) static METHODS: [Method; 9] = [
    Method::new("getHealth", 0, from_view!(call => about::health(call.context, call.view).await)),
    Method::new("getNetwork", 0, from_view!(call => about::network(call.view).await)),
    Method::new("getLatestLedger", 1, from_view!(call => ledgers::latest(call.context, call.view, wire::read(call.params)?).await)),
    Method::new("getLedgers", 1, from_view!(call => ledgers::page(call.context, call.view, wire::read(call.params)?).await)),
    Method::new("getTransaction", 1, from_view!(call => transactions::one(call.context, call.view, wire::read(call.params)?).await)),
    Method::new("getTransactions", 1, from_view!(call => transactions::page(call.context, call.view, wire::read(call.params)?).await)),
    Method::new("getEvents", 1, from_view!(call => events::page(call.context, call.view, wire::read(call.params)?).await)),
    Method::new("getVersionInfo", 0, from_view!(call => about::version(call.view).await)),
    Method::new("getStatus", 0, from_view!(call => about::status(call.view).await)),
];

/// Answers a call of Stellar's methods.
pub(crate) async fn answer(
    context: &Context,
    chain: &ServedChain,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    let Some(method) = METHODS.iter().find(|method| method.name == request.method) else {
        let name: String = request.method.chars().take(80).collect();
        let error = ApiError::new(ErrorCode::MethodNotFound, "method not found");
        return Err(error.with(name.into()));
    };
    if method.arity == 0 {
        let wire::NoParams {} = wire::read(request.params)?;
    }
    let answered = method.answer(context, chain, request).await;
    answered.map_err(to_stellar_error)
}

/// Stellar RPC has three codes, and ledgers instead of blocks. Missing ledgers are an invalid request, a server
/// that is not ready is an internal error.
fn to_stellar_error(error: ApiError) -> ApiError {
    let code = match error.code {
        ErrorCode::NotCovered => ErrorCode::InvalidRequest,
        ErrorCode::NotReady | ErrorCode::NotIndexedYet => ErrorCode::Internal,
        // The message may quote the request.
        _ => return error,
    };
    let message = error.message.replace("block", "ledger");
    ApiError {
        code,
        message,
        ..error
    }
}

/// Space for what follows the items of a page.
const END_BYTES: usize = 1 << 10;

/// Reserves memory for the next item of a page, and writes the comma before it. The first item always fits;
/// others fit within the limit of an answer and into free memory.
async fn begin_item(
    context: &Context,
    out: &mut BytesAnswer,
    bytes: usize,
    is_first: bool,
) -> Result<bool, Fault> {
    let size = out.size() + bytes + END_BYTES;
    if is_first {
        context.grow(&mut out.reservation, size).await?;
        return Ok(true);
    }
    let fits = size <= context.limits.answer_bytes && context.try_grow(&mut out.reservation, size);
    if fits {
        out.text.push(b',');
    }
    Ok(fits)
}

/// The stored parts of a ledger do not fit together: an operator must repair it.
fn broken(ledger: u64, why: impl std::fmt::Display) -> Fault {
    ArchiveError::Internal(format!("ledger {ledger}: {why}")).into()
}

fn unreadable(ledger: u64, why: impl std::fmt::Display) -> ApiError {
    broken(ledger, why).into()
}

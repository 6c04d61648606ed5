//! JSON-RPC as Stellar RPC speaks it: `POST /stellar/{network}`.
//!
//! Nothing is decoded that is not asked for. A transaction is its body with base64 around the parts, a
//! ledger is put together from its parts and encoded while it is sent, events are logs. Only
//! `xdrFormat: "json"` decodes.

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
        let shown: String = request.method.chars().take(80).collect();
        let error = ApiError::new(ErrorCode::MethodNotFound, "method not found");
        return Err(error.with(shown.into()));
    };
    if method.arity == 0 {
        let wire::NoParams {} = wire::read(request.params)?;
    }
    let answered = method.answer(context, chain, request).await;
    answered.map_err(to_stellar_error)
}

/// Stellar RPC knows three codes, and ledgers where others have blocks. Ledgers that are not there are a wrong
/// request, what is not ready is a fault of the server.
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

/// Room for what stands behind the items of a page.
const END_BYTES: usize = 1 << 10;

/// What is kept of a ledger does not fit together: nobody who asks can mend it.
fn broken(ledger: u64, why: impl std::fmt::Display) -> Fault {
    ArchiveError::Internal(format!("ledger {ledger}: {why}")).into()
}

fn unreadable(ledger: u64, why: impl std::fmt::Display) -> ApiError {
    broken(ledger, why).into()
}

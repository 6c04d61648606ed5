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

use crate::context::Context;
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::rpc::{Answer, Request};
use crate::served::ServedChain;
use crate::view::View;

/// Every method.
pub(crate) const METHODS: [&str; 9] = [
    "getHealth",
    "getNetwork",
    "getLatestLedger",
    "getLedgers",
    "getTransaction",
    "getTransactions",
    "getEvents",
    "getVersionInfo",
    "getStatus",
];

/// Those that are asked with something.
const TAKE_PARAMETERS: [&str; 5] = [
    "getLatestLedger",
    "getLedgers",
    "getTransaction",
    "getTransactions",
    "getEvents",
];

/// Answers from one view; where that may be another answer in a moment, once more from a newer one.
pub(crate) async fn answer(
    context: &Context,
    chain: &ServedChain,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    if !METHODS.contains(&&*request.method) {
        let shown: String = request.method.chars().take(80).collect();
        let error = ApiError::new(ErrorCode::MethodNotFound, "method not found");
        return Err(error.with(shown.into()));
    }
    let view = View::take(chain).await.map_err(ApiError::from);
    let view = view.map_err(in_stellar_words)?;
    let answered = match dispatch(context, &view, request).await {
        Err(error) => match View::newer(chain, error.again).await {
            Ok(Some(view)) => dispatch(context, &view, request).await,
            Ok(None) => Err(error),
            Err(fault) => Err(fault.into()),
        },
        answered => answered,
    };
    answered.map_err(in_stellar_words)
}

async fn dispatch(
    context: &Context,
    view: &View<'_>,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    let params = request.params;
    if !TAKE_PARAMETERS.contains(&&*request.method) {
        let wire::Nothing {} = wire::read(params)?;
    }
    match &*request.method {
        "getHealth" => about::health(context, view).await,
        "getNetwork" => about::network(view).await,
        "getLatestLedger" => ledgers::latest(context, view, wire::read(params)?).await,
        "getLedgers" => ledgers::page(context, view, wire::read(params)?).await,
        "getTransaction" => transactions::one(context, view, wire::read(params)?).await,
        "getTransactions" => transactions::page(context, view, wire::read(params)?).await,
        "getEvents" => events::page(context, view, wire::read(params)?).await,
        "getVersionInfo" => about::version(view).await,
        "getStatus" => about::status(view).await,
        other => {
            let message = format!("{other} is listed and not answered: please report it");
            Err(ApiError::new(ErrorCode::Internal, message))
        }
    }
}

/// Stellar RPC knows three codes, and ledgers where others have blocks. Ledgers that are not there are a wrong
/// request, what is not ready is a fault of the server.
fn in_stellar_words(error: ApiError) -> ApiError {
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

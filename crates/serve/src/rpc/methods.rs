//! The JSON-RPC methods: a table with the number of parameters and the handler of each.

use futures::future::BoxFuture;
use serde_json::value::RawValue;

use super::reply::Answer;
use super::wire::{Params, Request};
use super::{blocks, logs, methods_own};
use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::view::View;

pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// The maximal number of parameters. Stellar's methods take one object or nothing.
    pub(crate) arity: usize,
    handler: Handler,
}

pub(crate) enum Handler {
    /// From settings alone.
    Constant(fn(&Context, &ServedChain) -> Answer),
    /// From one view of the chain.
    View(for<'a> fn(Call<'a>) -> BoxFuture<'a, Result<Answer, ApiError>>),
}

/// A call with what its handler needs.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a Context,
    pub(crate) view: &'a View<'a>,
    pub(crate) params: Option<&'a RawValue>,
    arity: usize,
}

impl<'a> Call<'a> {
    fn list(&self) -> Result<Params<'a>, ApiError> {
        Params::read(self.params, self.arity)
    }
}

impl Method {
    pub(crate) const fn new(name: &'static str, arity: usize, handler: Handler) -> Self {
        Self {
            name,
            arity,
            handler,
        }
    }

    pub(crate) async fn answer(
        &self,
        context: &Context,
        chain: &ServedChain,
        request: &Request<'_>,
    ) -> Result<Answer, ApiError> {
        let handler = match self.handler {
            Handler::Constant(answer) => return Ok(answer(context, chain)),
            Handler::View(handler) => handler,
        };
        let call = |view| {
            handler(Call {
                context,
                view,
                params: request.params,
                arity: self.arity,
            })
        };
        match call(&View::take(chain).await?).await {
            Err(error) => call(&View::retry(chain, error).await?).await,
            answered => answered,
        }
    }
}

/// A handler from an expression that may await.
macro_rules! from_view {
    ($call:ident => $answer:expr) => {
        Handler::View(|$call| Box::pin(async move { $answer }))
    };
}
pub(crate) use from_view;

/// The methods of Ethereum's family.
#[rustfmt::skip]
pub(crate) static METHODS: [Method; 15] = [
    Method::new("eth_getLogs", 1, from_view!(call => logs::get_logs(call.context, call.view, &call.list()?).await)),
    Method::new("eth_blockNumber", 0, from_view!(call => Ok(Answer::quantity(call.view.known_head()?.number)))),
    Method::new("eth_chainId", 0, Handler::Constant(|_, chain| Answer::quantity(chain.id))),
    Method::new("net_version", 0, Handler::Constant(|_, chain| Answer::text(&chain.id.to_string()))),
    Method::new("web3_clientVersion", 0, Handler::Constant(|context, _| Answer::text(&context.version))),
    Method::new("eth_getBlockByNumber", 2, from_view!(call => blocks::by_number(call.context, call.view, &call.list()?).await)),
    Method::new("eth_getBlockByHash", 2, from_view!(call => blocks::by_hash(call.context, call.view, &call.list()?).await)),
    Method::new("eth_getTransactionByHash", 1, from_view!(call => blocks::transaction(call.view, &call.list()?).await)),
    Method::new(
        "eth_getBlockTransactionCountByNumber", 1,
        from_view!(call => blocks::count_by_number(call.view, &call.list()?).await),
    ),
    Method::new(
        "eth_getBlockTransactionCountByHash", 1,
        from_view!(call => blocks::count_by_hash(call.view, &call.list()?).await),
    ),
    Method::new("eth_capabilities", 0, from_view!(call => methods_own::capabilities(call.view))),
    Method::new("eth_syncing", 0, from_view!(call => Ok(methods_own::syncing(call.view)))),
    Method::new("chronolith_getLogs", 1, from_view!(call => logs::get_page(call.context, call.view, &call.list()?).await)),
    Method::new("chronolith_getCoverage", 0, from_view!(call => methods_own::coverage(call.view))),
    Method::new("chronolith_blockByTime", 1, from_view!(call => methods_own::block_by_time(call.view, &call.list()?).await)),
];

/// Answers a call of Ethereum's methods.
pub(super) async fn answer(
    context: &Context,
    chain: &ServedChain,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    let Some(method) = METHODS.iter().find(|method| method.name == request.method) else {
        let name: String = request.method.chars().take(80).collect();
        let message = format!("the method {name} does not exist/is not available");
        return Err(ApiError::new(ErrorCode::MethodNotFound, message));
    };
    if method.arity == 0 {
        Params::read(request.params, 0)?;
    }
    method.answer(context, chain, request).await
}

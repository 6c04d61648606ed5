//! JSON-RPC over WebSocket: calls as over HTTP, and subscriptions to new heads.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::{Context, http};
use crate::evm::faults::RpcFault;
use crate::evm::json;
use crate::evm::node::Head;
use crate::evm::rpc::{self, Session};
use crate::http_server::until_stopped;
use crate::json_writer;

/// Turns a GET into a WebSocket.
pub(super) async fn upgrade(
    State(context): State<Arc<Context>>,
    Extension(stopped): Extension<watch::Receiver<bool>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.on_upgrade(|socket| serve(context, stopped, socket))
}

/// The connection has ended, one way or the other.
struct Ended;

/// Serves one connection. Returning drops it without a close frame.
async fn serve(context: Arc<Context>, stopped: watch::Receiver<bool>, mut socket: WebSocket) {
    // Before any call: a head that comes after the answer to a subscription must not be missed.
    let mut heads = context.node.subscribe();
    let mut session = Session::default();
    loop {
        let step = tokio::select! {
            () = until_stopped(stopped.clone()) => Err(Ended),
            head = heads.recv() => match head {
                Ok(head) => notify(&context, &mut socket, &session, &head).await,
                // A real node loses heads of slow listeners too.
                Err(RecvError::Lagged(_)) => Ok(()),
                Err(RecvError::Closed) => Err(Ended),
            },
            message = socket.recv() => match message {
                Some(Ok(message)) => answer(&context, &mut socket, &mut session, message).await,
                Some(Err(_)) | None => Err(Ended),
            },
        };
        if step.is_err() {
            return;
        }
    }
}

/// Answers one message.
async fn answer(
    context: &Context,
    socket: &mut WebSocket,
    session: &mut Session,
    message: Message,
) -> Result<(), Ended> {
    let bytes = match message {
        Message::Text(text) => bytes::Bytes::from(text),
        Message::Binary(bytes) => bytes,
        Message::Close(_) => return Err(Ended),
        // The library answers pings by itself.
        Message::Ping(_) | Message::Pong(_) => return Ok(()),
    };
    http::wait(context).await;
    if context.faults().hits(RpcFault::WsDrop) {
        return Err(Ended);
    }
    let request = rpc::parse(&bytes);
    let answer = rpc::answer(context, &request, Some(session));
    send(context, socket, answer).await
}

/// Sends a new head to every subscription.
async fn notify(
    context: &Context,
    socket: &mut WebSocket,
    session: &Session,
    head: &Head,
) -> Result<(), Ended> {
    for id in session.subscriptions() {
        if context.faults().hits(RpcFault::WsDrop) {
            return Err(Ended);
        }
        let times = 1 + usize::from(context.faults().hits(RpcFault::DuplicateHeads));
        for _ in 0..times {
            send(context, socket, notification(id, head)).await?;
        }
    }
    Ok(())
}

fn notification(id: u64, head: &Head) -> Vec<u8> {
    let mut text = Vec::with_capacity(2_048);
    let start = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"#;
    text.extend_from_slice(start.as_bytes());
    json_writer::put_quantity(&mut text, id);
    text.extend_from_slice(br#","result":"#);
    json::put_head(&mut text, head);
    text.extend_from_slice(b"}}");
    text
}

async fn send(context: &Context, socket: &mut WebSocket, text: Vec<u8>) -> Result<(), Ended> {
    context.count_bytes(text.len() as u64);
    let text = String::from_utf8(text).expect("JSON written here is UTF-8");
    let sent = socket.send(Message::Text(text.into())).await;
    sent.map_err(|_| Ended)
}

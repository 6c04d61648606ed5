//! Requests to a router over a real connection, for tests.

use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Sends a method and a path, such as `GET /health`; returns the raw response.
pub(crate) async fn fetch(router: Router, request: &str) -> String {
    send(
        router,
        &format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
    )
    .await
}

/// Sends a whole request; returns the raw response.
pub(crate) async fn send(router: Router, request: &str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = async { axum::serve(listener, router).await.unwrap() };
    let requesting = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    tokio::select! {
        () = serving => unreachable!(),
        answer = requesting => answer,
    }
}

//! The bare client: sends requests that were recorded, reads the answers and parses nothing. Nobody
//! who needs the answers can be faster at the same number of requests in flight.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::CONTENT_TYPE;

/// Replays a file of requests, one a line.
pub(crate) fn run(url: &str, requests: &Path, in_flight: usize) -> Result<ExitCode> {
    let requests = std::fs::read_to_string(requests).context("read the requests")?;
    let requests: Vec<Bytes> = requests
        .lines()
        .map(|line| Bytes::copy_from_slice(line.as_bytes()))
        .collect();
    let client = reqwest::Client::new();
    let send = |body: Bytes| {
        let request = client.post(url).header(CONTENT_TYPE, "application/json");
        async move {
            let mut response = request.body(body).send().await?;
            ensure!(response.status().is_success(), "HTTP {}", response.status());
            let mut bytes = 0;
            while let Some(part) = response.chunk().await? {
                bytes += part.len() as u64;
            }
            Ok(bytes)
        }
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let bytes: Vec<u64> = runtime.block_on(
        stream::iter(requests)
            .map(send)
            .buffer_unordered(in_flight)
            .try_collect(),
    )?;
    println!("{}", bytes.iter().sum::<u64>());
    Ok(ExitCode::SUCCESS)
}

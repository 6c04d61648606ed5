//! Spans to a collector over OTLP/HTTP, as protobuf. Off unless the environment names one.
//!
//! What is followed and archived never waits for a collector: spans are queued up to a limit, sent by
//! a thread of their own, and dropped when no collector takes them. That a collector is down is logged once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use reqwest::Url;
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Names the collector.
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Where a collector takes spans, below its address.
const PATH: &str = "/v1/traces";
/// Spans that wait to be sent; more are dropped.
const QUEUE_SPANS_MAX: usize = 16_384;
const SEND_EVERY: Duration = Duration::from_secs(1);
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stop may wait for the last spans to be taken.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends spans until it is stopped.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Sends to this collector. Nothing is sent yet.
    ///
    /// # Errors
    /// Not a web address. The message leaves it out, since it may contain a key.
    pub(crate) fn start(endpoint: &str, runtime: &Handle) -> Result<Self> {
        let wrong = || anyhow!("{ENDPOINT}: not an address that begins with http:// or https://");
        let base = Url::parse(endpoint).map_err(|_| wrong())?;
        let host = base
            .host_str()
            .filter(|_| base.scheme().starts_with("http"));
        let host = host.ok_or_else(wrong)?.to_owned();
        let client = reqwest::Client::builder().timeout(SEND_TIMEOUT).build()?;
        let sender = Sender {
            client,
            runtime: runtime.clone(),
            host,
            is_down: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(sender)
            .with_timeout(SEND_TIMEOUT)
            .with_endpoint(format!("{}{PATH}", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|_| wrong())?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS_MAX)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor.build())
            .with_resource(Resource::builder().with_service_name("chronolith").build());
        Ok(Self(provider.build()))
    }

    /// Takes the spans of this program. Events stay out: they are in the log, and other people's may
    /// hold URLs.
    pub(crate) fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let ours = |data: &Metadata<'_>| data.is_span() && data.target().starts_with("chronolith");
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("chronolith"))
            .with_location(false)
            .with_threads(false)
            .with_filter(filter_fn(ours).with_max_level_hint(LevelFilter::DEBUG))
            .boxed()
    }

    /// Sends what is left.
    pub(crate) fn stop(self) {
        // A span that was not accepted was logged when it was sent.
        let _ = self.0.shutdown_with_timeout(STOP_TIMEOUT);
    }
}

/// Sends over the same kind of HTTP client as requests to endpoints, on the existing runtime.
#[derive(Debug)]
struct Sender {
    client: reqwest::Client,
    runtime: Handle,
    host: String,
    is_down: AtomicBool,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request).map_err(|error| error.without_url())?;
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request).await?;
            let status = answer.status();
            Ok((status, answer.bytes().await?))
        });
        let sent: reqwest::Result<_> = sent.await?;
        let (status, body) = sent.map_err(|error| {
            self.log_down("it cannot be reached");
            error.without_url()
        })?;
        if status.is_success() {
            if self.is_down.swap(false, Ordering::Relaxed) {
                tracing::info!(event = "spans_accepted", collector = %self.host, "collector accepts spans again");
            }
        } else {
            self.log_down(&format!("HTTP {}", status.as_u16()));
        }
        Ok(Response::builder().status(status).body(body)?)
    }
}

impl Sender {
    fn log_down(&self, reason: &str) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            let collector = &self.host;
            tracing::warn!(event = "spans_refused", %collector, reason, "collector does not accept spans, ingest not affected");
        }
    }
}

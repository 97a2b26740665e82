//! Trace export to an OpenTelemetry collector over OTLP.
//!
//! Exports the `tracing` spans with the target `glovebox::trace`: requests, time in the queue, executions, store
//! access, and requests to a fleet. Spans contain no source, no token, and no session or file name.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{MatchedPath, Request},
    http::Uri,
    middleware::Next,
    response::Response,
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use opentelemetry::{propagation::TextMapPropagator as _, trace::TracerProvider as _};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider},
};
use tokio::{net::TcpStream, runtime::Handle};
use tracing::{Instrument as _, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, registry::LookupSpan};

use crate::SPANS;

/// Maximum number of spans queued for the collector. Further spans are dropped, so an unreachable collector uses
/// bounded memory.
const MAX_WAITING: usize = 4_096;
/// Maximum number of spans in one export, the default of OpenTelemetry.
const MAX_AT_ONCE: usize = 512;
/// The timeout of an export.
const SEND_TIME: Duration = Duration::from_secs(5);
/// The timeout of the last export at shutdown.
const END_TIME: Duration = Duration::from_secs(3);
/// Maximum length of a collector's response, in bytes. Valid responses contain only counts and a short message.
const MAX_ANSWER_BYTES: usize = 64 << 10;
const PATH: &str = "/v1/traces";

/// The reason why tracing could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The endpoint is not a valid collector URL.
    #[error("`{}` is not a valid collector address; use `http://HOST:PORT` (TLS is not supported: use a local collector that forwards over TLS)", glovebox::escaped(.0))]
    Endpoint(String),
    /// The exporter cannot be built.
    #[error("cannot export traces: {0}")]
    Exporter(String),
}

/// A trace exporter. Call [`end`](Self::end) to send the queued spans.
#[derive(Debug)]
pub struct Telemetry(SdkTracerProvider);

impl Telemetry {
    /// Starts exporting traces to a collector. The exporter has a dedicated thread and opens its connections on
    /// `runtime`.
    ///
    /// # Errors
    /// Fails if `endpoint` is not an `http://` URL, if it contains user information, or if the exporter cannot be
    /// built.
    pub fn start(endpoint: &str, runtime: &Handle) -> Result<Self, TelemetryError> {
        let url = traces_url(endpoint)
            .ok_or_else(|| TelemetryError::Endpoint(glovebox::escaped_text(endpoint).to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector(runtime.clone()))
            .with_endpoint(url)
            .with_timeout(SEND_TIME)
            .build()
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        let batch =
            BatchConfigBuilder::default().with_max_queue_size(MAX_WAITING).with_max_export_batch_size(MAX_AT_ONCE);
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batch.build()).build();
        let resource = Resource::builder_empty()
            .with_attributes([
                opentelemetry::KeyValue::new("service.name", "glovebox"),
                opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            ])
            .build();
        Ok(Self(SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build()))
    }

    /// Returns the `tracing_subscriber` layer that records the spans.
    pub fn layer<S: tracing::Subscriber + for<'span> LookupSpan<'span>>(&self) -> impl Layer<S> + use<S> {
        let tracer = self.0.tracer("glovebox");
        let spans = tracing_subscriber::filter::Targets::new().with_target(SPANS, tracing::Level::INFO);
        // Thread names and source locations are useless to an operator.
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_threads(false)
            .with_location(false)
            .with_tracked_inactivity(false)
            .with_filter(spans)
    }

    /// Sends the queued spans and stops the exporter. Blocks for at most 3 s.
    pub fn end(self) {
        let _ = self.0.shutdown_with_timeout(END_TIME);
    }
}

/// Returns the collector's URL for traces, or `None` if the endpoint is invalid.
fn traces_url(endpoint: &str) -> Option<String> {
    let uri: Uri = endpoint.parse().ok()?;
    if uri.scheme_str() != Some("http") || uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return None;
    }
    let endpoint = endpoint.trim_end_matches('/');
    Some(if uri.path().len() > 1 { endpoint.to_owned() } else { format!("{endpoint}{PATH}") })
}

/// Runs a request in a span. A `traceparent` header makes the span a child of the client's span.
pub(crate) async fn trace(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let span = tracing::info_span!(
        target: SPANS, "request",
        otel.name = %format_args!("{} {route}", request.method()),
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        http.response.status_code = Empty,
    );
    if span.is_disabled() {
        return next.run(request).await;
    }
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()));
    let _ = span.set_parent(parent);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}

/// An HTTP client that sends requests to a collector on the server's runtime.
#[derive(Debug)]
struct Collector(Handle);

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: hyper::Request<Bytes>) -> Result<hyper::Response<Bytes>, HttpError> {
        let sent = self.0.spawn(async move { tokio::time::timeout(SEND_TIME, send(request)).await });
        sent.await??
    }
}

async fn send(request: hyper::Request<Bytes>) -> Result<hyper::Response<Bytes>, HttpError> {
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().ok_or("the collector's URL has no host")?.clone();
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    parts.headers.insert(hyper::header::HOST, authority.as_str().parse()?);
    parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let response = sender.send_request(hyper::Request::from_parts(parts, Full::new(body))).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?.to_bytes();
    Ok(hyper::Response::from_parts(parts, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collector_endpoint_must_be_a_plain_http_url() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", Some("http://127.0.0.1:4318/v1/traces")),
            ("http://collector/", Some("http://collector/v1/traces")),
            ("http://collector/custom/path", Some("http://collector/custom/path")),
            ("https://collector", None),
            ("http://user:secret@collector", None),
            ("collector:4318", None),
            ("", None),
        ] {
            assert_eq!(traces_url(endpoint).as_deref(), url, "{endpoint}");
        }
    }
}

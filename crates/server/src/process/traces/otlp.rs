//! Sends spans to a collector: OTLP over HTTP, with JSON.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::time::Duration;

use axum::http::{Request, Uri, header};
use broker::{LeaseEnd, Millis, Span, SpanKind};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::process::traces::context::TraceContext;

/// Time limit of a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The usual port of collectors for OTLP over HTTP. It applies if the URL has no port.
const PORT: u16 = 4318;

/// OTLP's number for a span inside one program.
const INTERNAL: u32 = 1;
/// OTLP's number for a span that ended with an error.
const ERROR: u32 = 2;

/// A span of a job, with the context in which the job was put.
#[derive(Debug)]
pub(crate) struct TracedSpan {
    pub(crate) context: TraceContext,
    pub(crate) span: Span,
    /// The wall clock is ahead of the engine's time by this.
    pub(crate) wall_ms: u64,
}

/// The program that receives the spans.
#[derive(Debug)]
pub(crate) struct Collector {
    endpoint: Uri,
    /// The facts about this server that each request contains.
    resource: Value,
    /// Draws the ids of spans. Its keys are random.
    ids: RandomState,
}

impl Collector {
    pub(crate) fn new(endpoint: &Uri, host: String) -> Collector {
        let resource = json!({ "attributes": [
            text("service.name", "lineshaft"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("host.name", &host),
        ]});
        Collector { endpoint: endpoint.clone(), resource, ids: RandomState::new() }
    }

    pub(crate) fn endpoint(&self) -> &Uri {
        &self.endpoint
    }

    /// Sends the spans in one request. Fails if the collector does not accept them in time.
    pub(crate) async fn send(&self, spans: &[TracedSpan]) -> io::Result<()> {
        let body = self.encode(spans).to_string();
        match timeout(REQUEST_TIME, self.post(body)).await {
            Ok(sent) => sent,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn post(&self, body: String) -> io::Result<()> {
        let host = self.endpoint.host().unwrap_or_default();
        let port = self.endpoint.port_u16().unwrap_or(PORT);
        let authority = format!("{host}:{port}");
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((host, port)).await?;
        let (mut sender, connection) =
            handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        let path = self.endpoint.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::post(path)
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(io::Error::other)?;
        let response = async {
            let response = sender.send_request(request).await.map_err(io::Error::other)?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(io::Error::other(format!("the collector answered {status}"))),
            }
        };
        // The connection moves the bytes. Its own end does not matter.
        tokio::pin!(response);
        tokio::select! {
            answered = &mut response => answered,
            _ = connection => response.await,
        }
    }

    /// The body of a request: `ExportTraceServiceRequest` as JSON.
    fn encode(&self, spans: &[TracedSpan]) -> Value {
        let spans: Vec<Value> = spans.iter().map(|span| self.encode_span(span)).collect();
        json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": { "name": "lineshaft" }, "spans": spans }],
        }]})
    }

    fn encode_span(&self, traced: &TracedSpan) -> Value {
        let TracedSpan { context, span, wall_ms } = traced;
        let (name, end) = match span.kind {
            SpanKind::Wait => ("wait", None),
            SpanKind::Lease(end) => ("lease", Some(end)),
        };
        let lease = span.lease.map(|lease| lease.0);
        // An id of zeros is invalid.
        let id = self.ids.hash_one((name, span.job.0, lease, span.takes)).max(1);
        let queue = String::from_utf8_lossy(&span.queue);
        let mut attributes = vec![
            text("messaging.system", "lineshaft"),
            text("messaging.destination.name", &queue),
            text("messaging.message.id", &span.job.0.to_string()),
            json!({ "key": "messaging.message.body.size", "value": { "intValue": span.body.len().to_string() } }),
            json!({ "key": "lineshaft.takes", "value": { "intValue": span.takes.to_string() } }),
        ];
        attributes.extend(end.map(|end| text("lineshaft.end", name_of(end))));
        let mut encoded = json!({
            "traceId": context.trace_id,
            "parentSpanId": context.parent_id,
            "spanId": format!("{id:016x}"),
            "flags": 1,
            "name": format!("{name} {queue}"),
            "kind": INTERNAL,
            "startTimeUnixNano": nanoseconds(span.from, *wall_ms),
            "endTimeUnixNano": nanoseconds(span.to, *wall_ms),
            "attributes": attributes,
        });
        let error = match end {
            Some(LeaseEnd::Lost) => Some("the worker lost the job"),
            Some(LeaseEnd::Failed) => Some("the worker reported that the job failed"),
            Some(LeaseEnd::JobEnded | LeaseEnd::GivenBack | LeaseEnd::Buried) | None => None,
        };
        if let Some(message) = error {
            encoded["status"] = json!({ "code": ERROR, "message": message });
        }
        encoded
    }
}

/// How a lease ended, for people and queries.
fn name_of(end: LeaseEnd) -> &'static str {
    match end {
        LeaseEnd::JobEnded => "job_ended",
        LeaseEnd::GivenBack => "given_back",
        LeaseEnd::Buried => "buried",
        LeaseEnd::Lost => "lost",
        LeaseEnd::Failed => "failed",
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// OTLP's JSON writes numbers of 64 bits as text.
fn nanoseconds(moment: Millis, wall_ms: u64) -> String {
    format!("{}000000", moment.0.wrapping_add(wall_ms))
}

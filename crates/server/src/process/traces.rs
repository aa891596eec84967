//! Exports the times that jobs waited and were leased as spans of OpenTelemetry, if the
//! configuration asks for it. Only jobs whose body has a sampled trace context have spans.
//!
//! The engine notes the spans, and keeps a bounded number. A thread of its own takes them, reads
//! the trace contexts, and sends the spans to a collector. If the collector fails or is slow, spans
//! are dropped and counted. Nothing waits for it.

mod context;
mod otlp;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::{Broker, JobBody, Span};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio::{pin, select};

use crate::config::Traces;
use crate::process::clock::Clock;
use crate::process::message_limit::MessageLimit;
use crate::process::traces::context::Pointer;
use crate::process::traces::otlp::{Collector, TracedSpan};

/// Time between two looks for new spans.
const PERIOD: Duration = Duration::from_millis(500);
/// Limit of spans in one request.
const REQUEST_SPANS_MAX: usize = 512;
/// When the server stops: the time limit of the request that is under way, and of the last one.
const LAST_TIME: Duration = Duration::from_secs(1);

/// Counts what became of the spans.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    /// The collector has accepted the span.
    sent: AtomicU64,
    /// There were too many spans.
    dropped: AtomicU64,
    /// The body was only in the log, so the trace context is unknown.
    stored: AtomicU64,
    /// The collector failed.
    failed: AtomicU64,
}

impl SpanCounts {
    /// The numbers, with their names in the metrics.
    pub(crate) fn read(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("sent", &self.sent),
            ("dropped", &self.dropped),
            ("stored", &self.stored),
            ("failed", &self.failed),
        ];
        all.map(|(name, count)| (name, count.load(Ordering::Relaxed))).into()
    }
}

/// The running exporter. Drop sends the last spans, and ends the thread.
pub(crate) struct Exporter {
    pub(crate) counts: Arc<SpanCounts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Begins to export spans. `None` if the configuration does not ask for it.
    pub(crate) fn spawn(
        settings: &Traces,
        broker: &Broker,
        clock: Clock,
        host: String,
    ) -> io::Result<Option<Exporter>> {
        let (Some(pointer), Some(endpoint)) = (&settings.pointer, &settings.endpoint) else {
            return Ok(None);
        };
        broker.turn(clock.now()).note_spans();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let counts = Arc::new(SpanCounts::default());
        let work = Work {
            broker: broker.clone(),
            clock,
            pointer: Pointer::new(pointer),
            collector: Collector::new(endpoint, host),
            counts: counts.clone(),
            failures: MessageLimit::default(),
        };
        let named = std::thread::Builder::new().name("traces".to_owned());
        let thread = named.spawn(move || {
            runtime.block_on(work.run(stopped));
            // A thread of the runtime can hang while it looks up the name of the collector.
            runtime.shutdown_background();
        })?;
        Ok(Some(Exporter { counts, stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic was already reported.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Work {
    broker: Broker,
    clock: Clock,
    pointer: Pointer,
    collector: Collector,
    counts: Arc<SpanCounts>,
    failures: MessageLimit,
}

impl Work {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        // `stopped` ends with an error when its sender is dropped.
        while timeout(PERIOD, &mut stopped).await.is_err() {
            let export = self.export();
            pin!(export);
            select! {
                () = &mut export => {}
                _ = &mut stopped => {
                    // The stop of the server must not wait long for a collector that does not answer.
                    let _ = timeout(LAST_TIME, export).await;
                    break;
                }
            }
        }
        let _ = timeout(LAST_TIME, self.export()).await;
    }

    async fn export(&mut self) {
        let (spans, dropped, wall_ms) = {
            let mut turn = self.broker.turn(self.clock.now());
            let (spans, dropped) = turn.take_spans();
            let now = turn.now();
            (spans, dropped, turn.wall_at(now).0.wrapping_sub(now.0))
        };
        self.counts.dropped.fetch_add(dropped, Ordering::Relaxed);
        let traced: Vec<TracedSpan> =
            spans.into_iter().filter_map(|span| self.traced(span, wall_ms)).collect();
        let mut rest = traced.as_slice();
        while !rest.is_empty() {
            let (spans, behind) = rest.split_at(rest.len().min(REQUEST_SPANS_MAX));
            if let Err(error) = self.collector.send(spans).await {
                if self.failures.count().is_some() {
                    let endpoint = self.collector.endpoint();
                    tracing::warn!(%endpoint, %error, "cannot send spans to the collector; they are dropped");
                }
                // Each further request could take the whole time limit. New spans would wait.
                self.counts.failed.fetch_add(rest.len() as u64, Ordering::Relaxed);
                return;
            }
            self.counts.sent.fetch_add(spans.len() as u64, Ordering::Relaxed);
            rest = behind;
        }
    }

    /// The span with the trace context of its job, if the context asks for spans.
    fn traced(&self, mut span: Span, wall_ms: u64) -> Option<TracedSpan> {
        let context = match &span.body {
            JobBody::Resident(body) => self.pointer.find(body),
            JobBody::Stored(_) | JobBody::Loading(_) => {
                self.counts.stored.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        let context = context.filter(|context| context.is_sampled)?;
        // From here on, only the length of the body matters. The bodies of ended jobs must not stay
        // in memory until the collector answers.
        span.body = JobBody::Stored(u32::try_from(span.body.len()).unwrap_or(u32::MAX));
        Some(TracedSpan { context, span, wall_ms })
    }
}

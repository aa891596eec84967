//! Spans: the times that a job waited or was leased, for traces. Nobody reads most spans, so the
//! engine notes them only if it is told to, and keeps a bounded number.

use crate::ids::{JobId, LeaseId, Millis};
use crate::jobs::JobBody;

/// The engine keeps at most this many spans until the caller takes them.
const SPANS_MAX: usize = 32_768;
/// Limit of the bytes of the kept spans: their bodies and the names of their queues.
const BYTES_MAX: usize = 16 << 20;

/// A time in the life of a job.
#[derive(Clone, Debug)]
pub struct Span {
    /// What the job did.
    pub kind: SpanKind,
    /// The job.
    pub job: JobId,
    /// The lease: the one that began after the wait, or the one that ended. `None` if a client read
    /// the item for good.
    pub lease: Option<LeaseId>,
    /// The name of the queue.
    pub queue: Box<[u8]>,
    /// The first moment.
    pub from: Millis,
    /// The last moment.
    pub to: Millis,
    /// How many times the job has been taken, with this time.
    pub takes: u32,
    /// The body, as it was at the last moment.
    pub body: JobBody,
}

/// What a job did during a [`Span`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum SpanKind {
    /// It was ready, until a session took it.
    Wait,
    /// It was leased.
    Lease(LeaseEnd),
}

/// How a lease ended.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum LeaseEnd {
    /// The job ended.
    JobEnded,
    /// The holder gave the job back.
    GivenBack,
    /// The holder buried the job.
    Buried,
    /// The holder lost the job: the deadline passed, or the holder is gone.
    Lost,
    /// The holder reported that the job failed, and the job has not ended.
    Failed,
}

/// Spans that the caller has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    is_on: bool,
    kept: Vec<Span>,
    bytes: usize,
    dropped: u64,
}

impl Spans {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The memory of the kept spans. A body also counts here while its job exists, because the span
    /// can outlive the job.
    pub(crate) fn bytes(&self) -> u64 {
        (self.bytes + self.kept.capacity() * size_of::<Span>()) as u64
    }

    pub(crate) fn switch_on(&mut self) {
        self.is_on = true;
    }

    /// Keeps a span, or counts it as dropped if there are too many.
    pub(crate) fn note(&mut self, span: Span) {
        let resident = match &span.body {
            JobBody::Resident(body) => body.len(),
            JobBody::Stored(_) | JobBody::Loading(_) => 0,
        };
        let bytes = resident + span.queue.len();
        if self.kept.len() >= SPANS_MAX || self.bytes + bytes > BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.bytes += bytes;
        self.kept.push(span);
    }

    /// Takes all kept spans, and the number of spans that were dropped before.
    pub(crate) fn take(&mut self) -> (Vec<Span>, u64) {
        self.bytes = 0;
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Body;

    fn span(body: JobBody) -> Span {
        Span {
            kind: SpanKind::Wait,
            job: JobId(1),
            lease: None,
            queue: Box::from(*b"queue"),
            from: Millis(1),
            to: Millis(2),
            takes: 1,
            body,
        }
    }

    #[test]
    fn too_many_spans_are_dropped_and_counted() {
        let mut spans = Spans::default();
        for _ in 0..SPANS_MAX + 3 {
            spans.note(span(JobBody::Stored(1 << 30)));
        }
        let (kept, dropped) = spans.take();
        assert_eq!((kept.len(), dropped), (SPANS_MAX, 3));
        let (kept, dropped) = spans.take();
        assert_eq!((kept.len(), dropped), (0, 0));
    }

    #[test]
    fn large_bodies_are_dropped_before_they_fill_the_memory() {
        let mut spans = Spans::default();
        let body = Body::from(vec![b'x'; BYTES_MAX / 4]);
        for _ in 0..5 {
            spans.note(span(body.clone().into()));
        }
        let (kept, dropped) = spans.take();
        assert_eq!((kept.len(), dropped), (3, 2), "the names of the queues count, too");
        assert_eq!(spans.bytes(), 0, "the caller has them");
        spans.note(span(body.clone().into()));
        assert!(spans.bytes() >= body.len() as u64, "{}", spans.bytes());
        assert_eq!(spans.take().0.len(), 1);
        spans.note(span(body.into()));
        assert_eq!(spans.take().0.len(), 1);
    }
}

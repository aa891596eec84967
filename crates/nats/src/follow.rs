//! Delivers all records from one on.
//!
//! The library's consumer is patient: it notices a server that hangs after a minute. So this task
//! asks for the tail when nothing arrives, and begins again on the next server. While no server can
//! make a consumer, single reads deliver a few records in each attempt.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull::OrderedConfig};
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use futures_util::StreamExt;
use replica::Seq;
use replica::node::Answer;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::connect::Connector;
use crate::{REQUEST_MAX, read};

/// After this time without a record, the task asks whether there is one.
const SILENCE_MAX: Duration = Duration::from_millis(300);
/// A consumer gets at most this many bytes ahead of the reader.
const AHEAD_BYTES_MAX: i64 = 8 << 20;
/// A new consumer needs more of NATS than reads. So a few records come by single reads.
const BRIDGE_RECORDS: u64 = 16;
/// Time before the next attempt, if no server answers.
const RETRY: Duration = Duration::from_millis(100);

/// Why a server delivers nothing more.
enum Stop {
    /// It does not answer, or its consumer is silent.
    Server,
    /// Nobody takes the records.
    Listener,
}

pub(crate) async fn run(connector: Arc<Connector>, from: Seq, answers: mpsc::Sender<Answer>) {
    let mut next = from;
    while !answers.is_closed() {
        if let Some(stream) = read::open(&connector).await {
            match deliver(&stream, &mut next, &answers).await {
                Stop::Server => (),
                Stop::Listener => return,
            }
        }
        sleep(RETRY).await;
    }
}

/// Delivers as long as this server works.
async fn deliver(stream: &Stream<()>, next: &mut Seq, answers: &mpsc::Sender<Answer>) -> Stop {
    match bridge(stream, next, answers).await {
        Ok(()) => consume(stream, next, answers).await,
        Err(stop) => stop,
    }
}

/// Reads single records, as many as are quicker than a consumer.
async fn bridge(
    stream: &Stream<()>,
    next: &mut Seq,
    answers: &mpsc::Sender<Answer>,
) -> Result<(), Stop> {
    let Some(Answer::Tail { first, last, .. }) = read::tail(stream).await else {
        return Err(Stop::Server);
    };
    // If the stream was trimmed, the node notices the gap.
    *next = (*next).max(first);
    let end = last.min(*next + BRIDGE_RECORDS - 1);
    while *next <= end {
        let found = timeout(REQUEST_MAX, stream.get_raw_message(*next)).await;
        match found {
            Ok(Ok(message)) => pass(message.sequence, &message.payload, next, answers).await?,
            // The record is lost, or was trimmed meanwhile. The node notices the gap.
            Ok(Err(error)) if error.kind() == RawMessageErrorKind::NoMessageFound => *next += 1,
            Ok(Err(_)) | Err(_) => return Err(Stop::Server),
        }
    }
    Ok(())
}

/// Delivers by a consumer, as long as it works.
async fn consume(stream: &Stream<()>, next: &mut Seq, answers: &mpsc::Sender<Answer>) -> Stop {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *next },
        max_bytes: AHEAD_BYTES_MAX,
        ..OrderedConfig::default()
    };
    let consumer = timeout(REQUEST_MAX, stream.create_consumer(config)).await;
    let Ok(Ok(consumer)) = consumer else { return Stop::Server };
    let Ok(Ok(mut messages)) = timeout(REQUEST_MAX, consumer.messages()).await else {
        return Stop::Server;
    };
    loop {
        match timeout(SILENCE_MAX, messages.next()).await {
            Ok(Some(Ok(message))) => {
                let Ok(info) = message.info() else { return Stop::Server };
                let seq = info.stream_sequence;
                if let Err(stop) = pass(seq, &message.payload, next, answers).await {
                    return stop;
                }
            }
            Ok(Some(Err(_)) | None) => return Stop::Server,
            Err(_) => match read::tail(stream).await {
                Some(Answer::Tail { last, .. }) if last < *next => (),
                Some(_) | None => return Stop::Server,
            },
        }
    }
}

async fn pass(
    seq: Seq,
    record: &[u8],
    next: &mut Seq,
    answers: &mpsc::Sender<Answer>,
) -> Result<(), Stop> {
    if seq < *next {
        return Ok(());
    }
    *next = seq + 1;
    let answer = Answer::Record { seq, bytes: Arc::from(record) };
    answers.send(answer).await.map_err(|_| Stop::Listener)
}

//! Questions to the stream's leader: its tail, and single records. Also trims.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, RawMessageErrorKind, Stream};
use replica::Seq;
use replica::node::{Answer, Request};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::REQUEST_MAX;
use crate::connect::Connector;

/// A trim that takes longer counts as lost.
const TRIM_MAX: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    connector: Arc<Connector>,
    mut requests: mpsc::UnboundedReceiver<Request>,
    answers: mpsc::Sender<Answer>,
) {
    let mut stream = None;
    while let Some(request) = requests.recv().await {
        if stream.is_none() {
            stream = open(&connector).await;
        }
        let answer = match &stream {
            Some(stream) => ask(&connector, stream, &request).await,
            None => None,
        };
        if answer.is_none() {
            stream = None;
        }
        let Some(answer) = answer.or_else(|| no_answer(&request)) else { continue };
        if answers.send(answer).await.is_err() {
            return;
        }
    }
}

/// What a node gets if nobody answered.
fn no_answer(request: &Request) -> Option<Answer> {
    match request {
        Request::Tail => Some(Answer::NoTail),
        Request::Read { .. } | Request::LastClaim => Some(Answer::NoRead),
        Request::Trim { .. } | Request::Append { .. } | Request::Follow { .. } => None,
    }
}

/// The stream, on a new connection. No server is asked yet.
pub(crate) async fn open(connector: &Connector) -> Option<Stream<()>> {
    let client = connector.connect().await.ok()?;
    let context = jetstream::new(client);
    context.get_stream_no_info(connector.place().stream()).await.ok()
}

/// `None`: nobody answered in time.
async fn ask(connector: &Connector, stream: &Stream<()>, request: &Request) -> Option<Answer> {
    let answer = match request {
        Request::Tail => tail(stream).await?,
        Request::Read { seq } => {
            let found = timeout(REQUEST_MAX, stream.get_raw_message(*seq)).await.ok()?;
            match found {
                Ok(message) => {
                    Answer::Read { seq: message.sequence, bytes: Arc::from(&message.payload[..]) }
                }
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                    Answer::NoRecord { seq: *seq }
                }
                Err(_) => return None,
            }
        }
        Request::LastClaim => {
            let claims = connector.place().claims();
            let last = stream.get_last_raw_message_by_subject(&claims);
            match timeout(REQUEST_MAX, last).await.ok()? {
                Ok(message) => {
                    let bytes = Arc::from(&message.payload[..]);
                    Answer::LastClaim { seq: message.sequence, bytes }
                }
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                    Answer::NoClaim
                }
                Err(_) => return None,
            }
        }
        // Other tasks have these requests.
        Request::Trim { .. } | Request::Append { .. } | Request::Follow { .. } => return None,
    };
    Some(answer)
}

/// Removes all records before this one. If this fails, the node asks again later.
pub(crate) async fn trim(connector: Arc<Connector>, below: Seq) {
    let Some(stream) = open(&connector).await else { return };
    // Without a filter: such a purge removes whole blocks.
    let purge = stream.purge().sequence(below);
    let _ = timeout(TRIM_MAX, std::future::IntoFuture::into_future(purge)).await;
}

/// The tail. An answer of a server that does not know the stream's leader does not count.
pub(crate) async fn tail(stream: &Stream<()>) -> Option<Answer> {
    let info = timeout(REQUEST_MAX, stream.get_info()).await.ok()?.ok()?;
    info.cluster.as_ref()?.leader.as_ref()?;
    let state = info.state;
    let (first, last) = (state.first_sequence, state.last_sequence);
    Some(Answer::Tail { first, last, bytes: state.bytes })
}

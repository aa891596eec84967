//! What a node must know about the stream before it opens its folder.

use std::time::{Duration, Instant};

use nats::stream::{Found, StreamError};
use nats::{ConnectCause, Place, stream};

use crate::cluster::ClusterFailure;
use crate::cluster::status::Status;
use crate::config::Cluster;

/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(500);
/// Servers of NATS that have just started may not know the stream yet. After this time it does not
/// exist.
const MISSING_MAX: Duration = Duration::from_secs(15);
/// Time between two messages.
const MESSAGE_PERIOD: Duration = Duration::from_secs(10);

/// The stream of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) place: Place,
    pub(crate) found: Found,
}

/// Waits until the stream is known.
pub(crate) async fn join(
    settings: &Cluster,
    name: &str,
    status: &Status,
) -> Result<Joined, ClusterFailure> {
    let place = settings.place(name.to_owned(), 3);
    let begun = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        let error = match stream::find(&place).await {
            Ok(found) => {
                let place = Place { replicas: found.replicas, ..place };
                return Ok(Joined { place, found });
            }
            Err(error) => error,
        };
        let is_final = match &error {
            StreamError::Connect(error) => matches!(error.cause, ConnectCause::Access(_)),
            StreamError::Missing(_) => begun.elapsed() >= MISSING_MAX,
            error => !error.may_pass(),
        };
        if is_final {
            return Err(error.into());
        }
        status.say(format!("waits for the stream: {error}"));
        if told.is_none_or(|told| told.elapsed() >= MESSAGE_PERIOD) {
            told = Some(Instant::now());
            tracing::warn!("this node waits for the stream of its cluster: {error}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

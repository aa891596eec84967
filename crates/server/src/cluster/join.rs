//! What a node must know about the stream before it opens its folder.

use std::time::{Duration, Instant};

use nats::stream::{Found, StreamError};
use nats::{ConnectCause, Place, stream};

use crate::cluster::ClusterFailure;
use crate::cluster::status::Status;
use crate::config::Cluster;

/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(500);
/// Servers of NATS that have just started may not know the stream yet. If they say so for this time, it
/// does not exist.
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
    let mut patience = Patience::default();
    let mut told: Option<Instant> = None;
    loop {
        let error = match stream::find(&place).await {
            Ok(found) => {
                let place = Place { replicas: found.replicas, ..place };
                return Ok(Joined { place, found });
            }
            Err(error) => error,
        };
        if patience.ends_with(&error, Instant::now()) {
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

/// Decides which error ends the wait.
#[derive(Debug, Default)]
struct Patience {
    /// Since when the servers have said that the stream does not exist. Before, they may not have been
    /// there: all machines can start at once.
    missing_since: Option<Instant>,
}

impl Patience {
    /// Whether this error is final.
    fn ends_with(&mut self, error: &StreamError, now: Instant) -> bool {
        if let StreamError::Missing(_) = error {
            let since = *self.missing_since.get_or_insert(now);
            return now.duration_since(since) >= MISSING_MAX;
        }
        self.missing_since = None;
        match error {
            StreamError::Connect(error) => matches!(error.cause, ConnectCause::Access(_)),
            error => !error.may_pass(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nats::ConnectError;

    use super::*;

    #[test]
    fn a_stream_is_missing_only_after_the_servers_have_said_so_for_a_while() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let missing = StreamError::Missing("jobs".to_owned());
        let silent = StreamError::Connect(ConnectError {
            server: "nats://a".to_owned(),
            cause: ConnectCause::Silent,
        });
        let mut patience = Patience::default();
        assert!(!patience.ends_with(&silent, at(0)) && !patience.ends_with(&silent, at(20)));
        assert!(!patience.ends_with(&missing, at(20)), "the servers have just started");
        assert!(!patience.ends_with(&missing, at(34)));
        assert!(!patience.ends_with(&silent, at(35)), "the time begins again");
        assert!(!patience.ends_with(&missing, at(36)) && !patience.ends_with(&missing, at(50)));
        assert!(patience.ends_with(&missing, at(51)));
        let refused = StreamError::Exists("jobs".to_owned());
        assert!(patience.ends_with(&refused, at(52)), "waiting does not help");
    }
}

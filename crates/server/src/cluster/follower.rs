//! What the main thread does while the node follows. This can last for months.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use broker::Broker;

use crate::cluster::node::NodeThread;
use crate::error::ServeError;
use crate::process::reload::{ReloadRequester, Reloader};
use crate::process::signals::{FollowerSignal, Hangup, Signals};
use crate::process::systemd;

/// Time between two looks at the log.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Waits until the node leads. Returns false if a signal stops the server.
pub(crate) async fn follow(
    node: &mut NodeThread,
    broker: &Broker,
    (signals, hangup): (&mut Signals, Hangup),
    reloader: &Arc<Reloader>,
) -> Result<bool, ServeError> {
    systemd::ready();
    let period = systemd::watchdog_period();
    let mut beat = tokio::time::interval(period.unwrap_or(Duration::from_hours(24)));
    let mut look = tokio::time::interval(LOOK_PERIOD);
    let mut beats = None;
    let mut reloads = pin!(reloader.clone().run_as_follower(broker.clone()));
    loop {
        tokio::select! {
            // The thread of the node always says how it ends.
            led = &mut node.leads => match led {
                Ok(Ok(())) => return Ok(true),
                Ok(Err(failure)) => return Err(failure.into()),
                Err(_) => unreachable!("a panic of that thread ends the process"),
            },
            signal = signals.next_of_follower(hangup) => match signal {
                FollowerSignal::Stop => return Ok(false),
                FollowerSignal::Reload => {
                    reloader.reopen_files();
                    reloader.request(ReloadRequester::Signal);
                }
                FollowerSignal::Drain => {
                    tracing::warn!("this node follows: send SIGUSR1 to the node that leads");
                }
            },
            () = &mut reloads => unreachable!("it handles requests for ever"),
            _ = look.tick() => if let Some(failure) = broker.failure() {
                return Err(ServeError::LogFailed(failure));
            },
            _ = beat.tick(), if period.is_some() => {
                let now = Some(node.status.beats());
                if std::mem::replace(&mut beats, now) != now {
                    systemd::alive();
                }
            }
        }
    }
}

//! Checks again and again that the servers of NATS and the stream are safe. A node claims only after
//! a good check. The check does not delay a claim: the usual claim follows the loss of a machine,
//! whose server cannot answer any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nats::guard::{self, Found, Needed, Question};
use nats::stream::StreamError;
use replica::node::{GUARDS_AGE_MAX_MS, Input};
use tokio::sync::mpsc::UnboundedSender;

use crate::cluster::node::Event;
use crate::cluster::status::Status;

/// Time between two checks, after a good one and after a bad one.
const PERIOD: Duration = Duration::from_mins(1);
const PERIOD_AFTER_REFUSAL: Duration = Duration::from_secs(2);
/// A node does not claim after a check that is older.
const AGE_MAX: Duration = Duration::from_millis(GUARDS_AGE_MAX_MS);

/// Checks until nobody listens.
pub(super) async fn run(question: Question, status: Arc<Status>, events: UnboundedSender<Event>) {
    let mut told = Vec::new();
    let mut found_at = Instant::now();
    status.refuse("the servers of NATS are not checked yet".to_owned());
    loop {
        let mut is_safe = false;
        match guard::look(&question).await {
            Ok(found) => {
                found_at = Instant::now();
                is_safe = found.is_safe();
                if events.send(Event::Input(Input::Guards(is_safe))).is_err() {
                    return;
                }
                let refusal = found.judge(Needed::Majority).err();
                status.refuse(refusal.map(|refusal| refusal.to_string()).unwrap_or_default());
                tell(&found, &mut told);
                status.view().checked(found);
            }
            // The check before it is still the newest.
            Err(error) => {
                if let Some(text) = outdated(found_at.elapsed(), &error) {
                    if !told.contains(&text) {
                        tracing::error!("this node does not begin to lead: {text}");
                        told = vec![text.clone()];
                    }
                    status.refuse(text);
                }
            }
        }
        tokio::time::sleep(if is_safe { PERIOD } else { PERIOD_AFTER_REFUSAL }).await;
    }
}

/// Why the last check does not count any more. `None`: it does.
fn outdated(age: Duration, error: &StreamError) -> Option<String> {
    (age > AGE_MAX).then(|| format!("the servers of NATS cannot be checked: {error}"))
}

/// Writes what has changed since the last check.
fn tell(found: &Found, told: &mut Vec<String>) {
    let mut texts: Vec<String> = match found.judge(Needed::Majority) {
        Ok(()) => Vec::new(),
        Err(refusal) => vec![format!("this node does not begin to lead: {refusal}")],
    };
    texts.extend(found.small.iter().map(ToString::to_string));
    let silent = found.silent.iter();
    texts.extend(silent.map(|(address, reason)| format!("{address} does not answer: {reason}")));
    for text in texts.iter().filter(|text| !told.contains(text)) {
        tracing::error!("{text}");
    }
    if texts.is_empty() && !told.is_empty() {
        tracing::info!("the servers of NATS are safe now");
    }
    *told = texts;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_check_does_not_count_for_ever() {
        let error = StreamError::Missing("north".to_owned());
        assert_eq!(outdated(AGE_MAX, &error), None);
        let text = outdated(AGE_MAX + Duration::from_millis(1), &error).expect("it is too old");
        assert!(text.starts_with("the servers of NATS cannot be checked: stream north"), "{text}");
    }
}

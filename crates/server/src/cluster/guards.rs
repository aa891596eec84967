//! Checks again and again that the servers of NATS and the stream are safe. A node claims only after
//! a good check. The check does not delay a claim: the usual claim follows the loss of a machine,
//! whose server cannot answer any more.

use std::sync::Arc;
use std::time::Duration;

use nats::guard::{self, Found, Needed, Question};
use replica::node::Input;
use tokio::sync::mpsc::UnboundedSender;

use crate::cluster::node::Event;
use crate::cluster::status::Status;

/// Time between two checks, after a good one and after a bad one.
const PERIOD: Duration = Duration::from_mins(1);
const PERIOD_AFTER_REFUSAL: Duration = Duration::from_secs(2);

/// Checks until nobody listens.
pub(super) async fn run(question: Question, status: Arc<Status>, events: UnboundedSender<Event>) {
    let mut told = Vec::new();
    status.refuse("the servers of NATS are not checked yet".to_owned());
    loop {
        // If nobody answers, the check before it is still the newest.
        let mut is_safe = false;
        if let Ok(found) = guard::look(&question).await {
            is_safe = found.is_safe();
            if events.send(Event::Input(Input::Guards(is_safe))).is_err() {
                return;
            }
            let refusal = found.judge(Needed::Majority).err().map(|refusal| refusal.to_string());
            status.refuse(refusal.unwrap_or_default());
            tell(&found, &mut told);
        }
        tokio::time::sleep(if is_safe { PERIOD } else { PERIOD_AFTER_REFUSAL }).await;
    }
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

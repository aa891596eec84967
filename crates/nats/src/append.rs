//! Appends, one at a time.
//!
//! A client of this library that loses its connection sends waiting commands again, on the next
//! connection. So after an unknown outcome, the client is dropped, and the next attempt gets a new
//! one.

use std::sync::Arc;

use async_nats::{Client, HeaderMap};
use replica::node::{Answer, Expect, Request, Subject};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::REQUEST_MAX;
use crate::connect::Connector;

/// A condition of the append was wrong.
pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10_071;
/// Another append with a condition on the same subject is being decided.
const IN_PROCESS: u64 = 10_164;

pub(crate) async fn run(
    connector: Arc<Connector>,
    mut requests: mpsc::UnboundedReceiver<Request>,
    answers: mpsc::Sender<Answer>,
) {
    let mut client = None;
    while let Some(request) = requests.recv().await {
        let Request::Append { id, subject, expect, record } = request else { continue };
        if client.is_none() {
            client = connector.connect().await.ok();
        }
        let answer = match &client {
            Some(client) => append(&connector, client, id, subject, expect, &record).await,
            None => Answer::Unknown { id },
        };
        if matches!(answer, Answer::Unknown { .. }) {
            client = None;
        }
        if answers.send(answer).await.is_err() {
            return;
        }
    }
}

async fn append(
    connector: &Connector,
    client: &Client,
    id: u64,
    subject: Subject,
    expect: Expect,
    record: &[u8],
) -> Answer {
    let place = connector.place();
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", place.stream());
    headers.insert("Nats-Expected-Last-Sequence", expect.tail.to_string());
    headers.insert("Nats-Expected-Last-Subject-Sequence", expect.claim.to_string());
    // The library has no constant for this header.
    headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", place.claims());
    let subject = match subject {
        Subject::Groups => place.groups(),
        Subject::Claims => place.claims(),
    };
    let sent = client.request_with_headers(subject, headers, record.to_vec().into());
    // The library's own limit does not cover a connection that takes no more commands.
    match timeout(2 * REQUEST_MAX, sent).await {
        Ok(Ok(message)) => judge(id, &message.payload),
        Ok(Err(_)) | Err(_) => Answer::Unknown { id },
    }
}

/// What the stream's answer means. Everything that is not known for sure is unknown.
fn judge(id: u64, payload: &[u8]) -> Answer {
    let Ok(answer) = serde_json::from_slice::<Value>(payload) else {
        return Answer::Unknown { id };
    };
    match answer["error"]["err_code"].as_u64() {
        Some(WRONG_LAST_SEQUENCE) => Answer::Refused { id },
        Some(IN_PROCESS) => Answer::Busy { id },
        Some(_) => Answer::Unknown { id },
        None => match answer["seq"].as_u64() {
            Some(seq) if seq > 0 && answer["error"].is_null() => Answer::Appended { id, seq },
            Some(_) | None => Answer::Unknown { id },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_answers_are_believed() {
        let judge = |text: &str| judge(7, text.as_bytes());
        let refusal = |code: u64| {
            judge(&format!(r#"{{"error":{{"code":400,"err_code":{code}}},"seq":0,"stream":"S"}}"#))
        };
        assert_eq!(judge(r#"{"stream":"S","seq":4}"#), Answer::Appended { id: 7, seq: 4 });
        assert_eq!(refusal(10_071), Answer::Refused { id: 7 });
        assert_eq!(refusal(10_164), Answer::Busy { id: 7 });
        assert_eq!(refusal(10_060), Answer::Unknown { id: 7 });
        let strange = ["", "{}", r#"{"seq":0}"#, r#"{"seq":4,"error":{"code":503}}"#, "[1]"];
        for text in strange {
            assert_eq!(judge(text), Answer::Unknown { id: 7 }, "{text}");
        }
    }
}

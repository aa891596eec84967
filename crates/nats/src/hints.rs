//! What each node tells about itself, once a second, in a bucket of NATS.
//!
//! No promise depends on a hint. People see them, also while nodes are down. A leader trims less
//! while a hint says that a node needs more: see [`Hint::report`].
//!
//! A reader judges the age of a hint by its own clock, since the hint last changed. So clocks of
//! other machines do not matter.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt as _;
use replica::NodeId;
use replica::report::Report;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::append::WRONG_LAST_SEQUENCE;
use crate::connect::Connector;
use crate::stream::{self, StreamError};
use crate::{ConnectError, Place, REQUEST_MAX};

/// A node writes its hint this often.
pub const EVERY: Duration = Duration::from_secs(1);
/// The key of a node's hint begins with this.
const NODE: &str = "node.";
/// The key of the operator's order.
const ORDER: &str = "order";

/// What a node tells. Fields that a reader does not know are ignored, and missing ones are empty: the
/// nodes can have different versions.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hint {
    /// The node's name.
    pub name: String,
    /// Its address for other nodes.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// The newest format that it reads.
    pub format: u16,
    /// Its process.
    pub incarnation: u64,
    /// The lineage of its folder: 32 hexadecimal digits.
    pub lineage: String,
    /// What it does.
    pub role: Role,
    /// The epoch in which it leads, or that it follows.
    pub epoch: u64,
    /// The last group that it has applied.
    pub applied: u64,
    /// The chain after this group: 16 hexadecimal digits.
    pub chain: String,
    /// The last group that is durable in its folder.
    pub durable: u64,
    /// It follows from this group, so the stream must keep it.
    pub needs: u64,
    /// How far it is behind: the age of the first change that it has read and not applied, in
    /// milliseconds of log time.
    pub lag_ms: u64,
    /// The number of jobs in its folder.
    pub jobs: u64,
    /// The settings and policies that all nodes should have in common: words such as
    /// `limits=0123456789abcdef`. See [`differing_settings`].
    pub settings: String,
    /// What its guard found wrong. Empty: nothing.
    pub refusal: String,
    /// Why it does not serve. Empty: it does.
    pub fault: String,
    /// What an operator should mend, although it serves. Empty: nothing.
    pub warning: String,
    /// An operator says that the node does not come back. If it does, it writes its next hint.
    pub is_forgotten: bool,
    /// It never leads: `cluster.lead` is false.
    pub never_leads: bool,
    /// The last [`Order`] that it has refused.
    pub refused_order: u64,
    /// Why it has refused this order.
    pub order_refusal: String,
}

/// The names of the settings that differ between two nodes. A node of another version can have more or
/// fewer of them, and those do not count.
#[must_use]
pub fn differing_settings(one: &str, other: &str) -> Vec<String> {
    let parts = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.split(' ').filter_map(|part| part.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let other = parts(other);
    let differs = |(name, value): &(String, String)| other.get(name).is_some_and(|it| it != value);
    parts(one).into_iter().filter(differs).map(|(name, _)| name).collect()
}

/// What an operator wants. The bucket has the newest order.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Order {
    /// A random number. 0: the operator wants nothing.
    pub id: u64,
    /// The epoch whose leader is meant. So an old order never counts again.
    pub epoch: u64,
    /// The node that should lead next.
    pub successor: NodeId,
}

/// What a node does.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It follows.
    Follows,
    /// It leads.
    Leads,
    /// It looks for its place in the stream, or a reader does not know its role.
    #[default]
    #[serde(other)]
    Starts,
}

/// A node's hint, and how long ago it changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The node.
    pub node: NodeId,
    /// The hint.
    pub hint: Hint,
    /// How often this reader has seen the hint change.
    pub changes: u64,
    /// The time since the last change, by the clock of this reader.
    pub age: Duration,
}

/// Why hints cannot be written or read now.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The bucket cannot be created or read.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// No answer in time.
    #[error("NATS does not answer about hints: {0}")]
    Unanswered(String),
}

/// The hints of all nodes, as one reader sees them.
#[derive(Debug)]
pub struct Hints {
    connector: Connector,
    context: Option<Context>,
    seen: BTreeMap<NodeId, Last>,
}

#[derive(Debug)]
struct Last {
    /// The sequence number of the hint in the bucket.
    seq: u64,
    since: Instant,
    changes: u64,
    hint: Hint,
}

impl Hint {
    /// The report that the hint replaces while the node has no link to the leader. `None`: the hint
    /// has no lineage.
    #[must_use]
    pub fn report(&self, node: NodeId) -> Option<Report> {
        let Hint { incarnation, epoch, applied, durable, needs, format, .. } = *self;
        let lineage = self.lineage.parse().ok()?;
        let cannot_lead = self.never_leads || !self.refusal.is_empty() || !self.fault.is_empty();
        Some(Report {
            node,
            incarnation,
            lineage,
            epoch,
            applied,
            durable,
            needs,
            format,
            cannot_lead,
        })
    }
}

impl Hints {
    /// The hints of a cluster. The first call of another function connects.
    #[must_use]
    pub fn new(place: Place) -> Hints {
        Hints { connector: Connector::new(place), context: None, seen: BTreeMap::new() }
    }

    /// Writes the hint of a node. Creates the bucket if it is missing: its values are only in the
    /// memory of the servers.
    ///
    /// # Errors
    ///
    /// NATS does not answer in time, or refuses.
    pub async fn write(&mut self, node: NodeId, hint: &Hint) -> Result<(), HintError> {
        let text = serde_json::to_vec(hint).unwrap_or_default();
        let context = self.open().await?;
        let done = write(&context, self.place(), &key(node), text).await;
        self.keep(done)
    }

    /// Reads the hints of all nodes. Each call should come at least once in [`EVERY`], because a hint
    /// counts as changed when a call notices it.
    ///
    /// # Errors
    ///
    /// NATS does not answer in time.
    pub async fn read(&mut self) -> Result<Vec<Seen>, HintError> {
        let found = match self.open().await {
            Ok(context) => read_all(&context, self.place()).await,
            Err(error) => Err(error),
        };
        let found = self.keep(found)?;
        let now = Instant::now();
        self.seen.retain(|node, _| found.iter().any(|(other, ..)| other == node));
        for (node, seq, hint) in found {
            let last = self.seen.entry(node).or_insert(Last {
                seq,
                since: now,
                changes: 0,
                hint: hint.clone(),
            });
            if last.seq != seq {
                let changes = last.changes + 1;
                *last = Last { seq, since: now, changes, hint };
            }
        }
        Ok(self.all(now))
    }

    /// Leaves an order for the leader.
    ///
    /// # Errors
    ///
    /// NATS does not answer in time, or refuses.
    pub async fn order(&mut self, order: &Order) -> Result<(), HintError> {
        let text = serde_json::to_vec(order).unwrap_or_default();
        let subject = self.place().hint(ORDER);
        let context = self.open().await?;
        let done = put(&context.client(), subject, text, None).await;
        self.keep(done.map_err(|put| HintError::Unanswered(put.text())))
    }

    /// Takes an order back, if it is the newest one. Returns false if it is not: somebody else has given
    /// another order, which stays.
    ///
    /// # Errors
    ///
    /// NATS does not answer in time, or refuses.
    pub async fn take_back(&mut self, order: &Order) -> Result<bool, HintError> {
        let context = self.open().await?;
        let done = take_back(&context, self.place(), order.id).await;
        self.keep(done)
    }

    /// The newest order. `None`: there is none, or nobody answers.
    pub async fn newest_order(&mut self) -> Option<Order> {
        let order: Order = self.newest(ORDER).await?;
        (order.id > 0).then_some(order)
    }

    /// The newest hint of one node. `None`: there is none, or nobody answers.
    pub async fn newest_of(&mut self, node: NodeId) -> Option<Hint> {
        self.newest(&key(node)).await
    }

    async fn newest<T: for<'a> Deserialize<'a>>(&mut self, key: &str) -> Option<T> {
        let subject = self.place().hint(key);
        let name = self.place().hints();
        let context = self.open().await.ok()?;
        let bucket = context.get_stream_no_info(name).await.ok()?;
        let last = timeout(REQUEST_MAX, bucket.get_last_raw_message_by_subject(&subject)).await;
        serde_json::from_slice(&last.ok()?.ok()?.payload).ok()
    }

    fn place(&self) -> &Place {
        self.connector.place()
    }

    fn all(&self, now: Instant) -> Vec<Seen> {
        let seen = self.seen.iter().map(|(node, last)| Seen {
            node: *node,
            hint: last.hint.clone(),
            changes: last.changes,
            age: now.saturating_duration_since(last.since),
        });
        seen.collect()
    }

    async fn open(&mut self) -> Result<Context, HintError> {
        if let Some(context) = &self.context {
            return Ok(context.clone());
        }
        let mut context = jetstream::new(self.connector.connect().await?);
        context.set_timeout(REQUEST_MAX);
        Ok(self.context.insert(context).clone())
    }

    /// After an error, the next call uses another server.
    fn keep<T>(&mut self, done: Result<T, HintError>) -> Result<T, HintError> {
        if done.is_err() {
            self.context = None;
        }
        done
    }
}

async fn write(
    context: &Context,
    place: &Place,
    key: &str,
    text: Vec<u8>,
) -> Result<(), HintError> {
    let subject = place.hint(key);
    let done = put(&context.client(), subject.clone(), text.clone(), None).await;
    let done = match done {
        // Nothing takes this subject.
        Err(Put::Nobody) => {
            stream::create_hints(context, place).await?;
            put(&context.client(), subject, text, None).await
        }
        done => done,
    };
    done.map_err(|put| HintError::Unanswered(put.text()))
}

/// See [`Hints::take_back`].
async fn take_back(context: &Context, place: &Place, id: u64) -> Result<bool, HintError> {
    let unanswered = |error: &dyn std::fmt::Display| HintError::Unanswered(error.to_string());
    let bucket = context.get_stream_no_info(place.hints()).await;
    let bucket = bucket.map_err(|error| unanswered(&error))?;
    let subject = place.hint(ORDER);
    let last = timeout(REQUEST_MAX, bucket.get_last_raw_message_by_subject(&subject)).await;
    let last = match last.map_err(|late| unanswered(&late))? {
        Ok(message) => message,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(false),
        Err(error) => return Err(unanswered(&error)),
    };
    let newest: Order = serde_json::from_slice(&last.payload).unwrap_or_default();
    if newest.id != id {
        return Ok(false);
    }
    let nothing = serde_json::to_vec(&Order::default()).unwrap_or_default();
    // Another order can come between the read and this write.
    match put(&context.client(), subject, nothing, Some(last.sequence)).await {
        Ok(()) => Ok(true),
        Err(Put::Outdated) => Ok(false),
        Err(put) => Err(HintError::Unanswered(put.text())),
    }
}

/// Why a hint was not written.
enum Put {
    Nobody,
    /// Somebody else has written this key.
    Outdated,
    Failed(String),
}

impl Put {
    fn text(self) -> String {
        match self {
            Put::Nobody => "the bucket has no leader".to_owned(),
            Put::Outdated => "somebody else has written this key".to_owned(),
            Put::Failed(text) => text,
        }
    }
}

/// Writes a key. `expected`: only if this is the sequence number of its last value.
async fn put(
    client: &Client,
    subject: String,
    text: Vec<u8>,
    expected: Option<u64>,
) -> Result<(), Put> {
    use async_nats::client::RequestErrorKind::NoResponders;
    let sending = async {
        let Some(expected) = expected else { return client.request(subject, text.into()).await };
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        client.request_with_headers(subject, headers, text.into()).await
    };
    let Ok(sent) = timeout(2 * REQUEST_MAX, sending).await else {
        return Err(Put::Failed("the connection hangs".to_owned()));
    };
    match sent {
        Ok(message) => {
            let answer: Result<serde_json::Value, _> = serde_json::from_slice(&message.payload);
            match answer {
                Ok(answer) if answer["error"].is_null() => Ok(()),
                Ok(answer) if answer["error"]["err_code"] == WRONG_LAST_SEQUENCE => {
                    Err(Put::Outdated)
                }
                Ok(answer) => Err(Put::Failed(answer["error"]["description"].to_string())),
                Err(error) => Err(Put::Failed(error.to_string())),
            }
        }
        Err(error) if error.kind() == NoResponders => Err(Put::Nobody),
        Err(error) => Err(Put::Failed(error.to_string())),
    }
}

/// All hints, with their sequence numbers. No bucket means that there are none.
async fn read_all(context: &Context, place: &Place) -> Result<Vec<(NodeId, u64, Hint)>, HintError> {
    if stream::info(context, &place.hints()).await?.is_none() {
        return Ok(Vec::new());
    }
    let unanswered = |error: &dyn std::fmt::Display| HintError::Unanswered(error.to_string());
    let bucket = context.get_stream_no_info(place.hints()).await;
    let bucket = bucket.map_err(|error| unanswered(&error))?;
    let subjects = bucket.info_with_subjects(place.hint(">")).await;
    let mut subjects = subjects.map_err(|error| unanswered(&error))?;
    let prefix = place.hint(NODE);
    let mut found = Vec::new();
    while let Some(subject) = subjects.next().await {
        let (subject, _) = subject.map_err(|error| unanswered(&error))?;
        let node = subject.strip_prefix(&prefix);
        let Some(node) = node.and_then(|digits| NodeId::from_str_radix(digits, 16).ok()) else {
            continue;
        };
        // Another node may have removed it meanwhile.
        let last = bucket.get_last_raw_message_by_subject(&subject);
        let Ok(Ok(message)) = timeout(REQUEST_MAX, last).await else { continue };
        if let Ok(hint) = serde_json::from_slice(&message.payload) {
            found.push((node, message.sequence, hint));
        }
    }
    found.sort_by_key(|(node, ..)| *node);
    Ok(found)
}

fn key(node: NodeId) -> String {
    format!("{NODE}{node:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named() {
        let one = "policies=1 limits=2 more=3";
        assert_eq!(differing_settings(one, one), Vec::<String>::new());
        assert_eq!(differing_settings(one, "policies=9 limits=8"), ["limits", "policies"]);
        assert_eq!(differing_settings(one, ""), Vec::<String>::new(), "an older node");
    }

    #[test]
    fn hints_of_other_versions_are_read() {
        let newer = r#"{"name":"a","role":"sings","applied":7,"color":"red",
            "lineage":"0000000000000000000000000000000b"}"#;
        let hint: Hint = serde_json::from_str(newer).expect("a hint");
        assert_eq!((hint.name.as_str(), hint.role, hint.applied), ("a", Role::Starts, 7));
        let report = hint.report(3).expect("a lineage");
        assert_eq!((report.node, report.applied, report.lineage.0[15]), (3, 7, 0x0b));
        assert_eq!(Hint::default().report(3), None);
        let text = serde_json::to_string(&Hint { role: Role::Leads, ..hint }).expect("JSON");
        assert!(text.contains(r#""role":"leads""#), "{text}");
    }
}

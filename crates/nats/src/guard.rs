//! Whether the servers of NATS and the stream are safe.
//!
//! Above all, each server must flush a record before it acknowledges it. A client cannot see this,
//! so the guard asks the monitoring address of each server. A server's health check is no
//! substitute: it also fails while the servers elect a leader.
//!
//! A node looks when it starts, then once a minute, but never on its way to a claim: after the loss
//! of a machine, one server cannot answer. The newest [`Found`] decides: see [`Found::is_safe`].

use std::net::IpAddr;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::AccountErrorKind;
use replica::Lineage;

use crate::connect::Round;
pub use crate::monitor::Server;
use crate::stream::{self, MESSAGE_BYTES_MAX, StreamError, WrongSettings};
use crate::{Place, monitor};

/// The oldest version whose behaviour was measured.
pub const VERSION_MIN: [u64; 3] = [2, 15, 1];

/// What a guard compares.
#[derive(Clone, Debug)]
pub struct Question {
    /// The stream.
    pub place: Place,
    /// The monitoring address of each server: `http://host:port`, or `https://host:port`.
    pub monitors: Vec<String>,
    /// The lineage of the node's folder. `None`: the cluster is being created, and the stream need
    /// not exist.
    pub lineage: Option<Lineage>,
    /// The size that the stream must not exceed.
    pub stream_bytes_max: u64,
    /// Accept servers that run on one machine.
    pub allow_colocated: bool,
    /// Accept servers that acknowledge records before they are on disk.
    pub unsafe_flush: bool,
}

/// What a guard has found. It stays true for some time, so the caller keeps it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// The servers that answered.
    pub servers: Vec<Server>,
    /// The servers that have a replica of the stream. Without a stream, all servers that answered.
    pub peers: Vec<String>,
    /// The monitoring addresses that did not answer, each with the reason.
    pub silent: Vec<(String, String)>,
    /// Everything that is wrong.
    pub wrong: Vec<Refusal>,
    /// What is too small. It can stop the leader later, but it makes nothing unsafe.
    pub small: Vec<Refusal>,
    /// The caller accepts servers that nobody has checked.
    pub is_unsafe: bool,
}

/// How many servers must have been checked.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Needed {
    /// All of them: at the creation of a cluster, and at the first start of a folder.
    All,
    /// The majority that also decides about records.
    Majority,
}

/// What is wrong with the servers or with the stream.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A server acknowledges before it flushes.
    #[error(
        "NATS server {0} acknowledges records before they are on disk; set `sync_interval: always` \
         in the jetstream block of its configuration, and restart it"
    )]
    NoFlush(String),
    /// A server is too old.
    #[error("NATS server {name} has version {version}; upgrade it to 2.15.1 or later")]
    Version {
        /// The server.
        name: String,
        /// Its version.
        version: String,
    },
    /// A server accepts only small messages.
    #[error("NATS server {name} accepts messages of at most {bytes} bytes; set `max_payload: 1MB`")]
    Payload {
        /// The server.
        name: String,
        /// Its limit.
        bytes: u64,
    },
    /// A server has too little room for the stream.
    #[error(
        "NATS server {name} can store {bytes} bytes, but the stream can need {needed}; raise \
         `max_file_store` in its jetstream block, or lower cluster.stream_max"
    )]
    Store {
        /// The server.
        name: String,
        /// Its limit.
        bytes: u64,
        /// Twice the size of the stream: a server also has a log of its own.
        needed: u64,
    },
    /// The account has too little room for the stream.
    #[error(
        "the NATS account can store {bytes} bytes, but the stream can need {needed}; raise the \
         account's limit, or lower cluster.stream_max"
    )]
    Account {
        /// Its limit.
        bytes: u64,
        /// Twice the size of the stream.
        needed: u64,
    },
    /// Two servers run on the same machine.
    #[error(
        "NATS servers {0} and {1} are on one machine, so its loss could lose records; move one, or \
         set cluster.allow_colocated for a trial"
    )]
    Colocated(String, String),
    /// Nobody can check a server.
    #[error(
        "no address in cluster.nats_monitor belongs to NATS server {0}; add its monitoring address"
    )]
    NoMonitor(String),
    /// Too few servers answered.
    #[error(
        "only {verified} of {peers} NATS servers of the stream could be checked; missing: {missing}"
    )]
    Unchecked {
        /// Servers that answered.
        verified: usize,
        /// Servers that have a replica.
        peers: usize,
        /// Names of the others.
        missing: String,
    },
    /// The stream's settings are wrong.
    #[error(transparent)]
    Settings(#[from] WrongSettings),
    /// The folder belongs to a cluster whose stream does not exist.
    #[error(
        "stream {0} does not exist, but the data folder belongs to it; check cluster.name and \
         cluster.nats; if the stream is lost, see `lineshaft cluster recover`"
    )]
    NoStream(String),
    /// The stream belongs to another cluster.
    #[error(
        "stream {0} belongs to another cluster than the data folder; check cluster.name and \
         cluster.nats, or fetch a copy of another node's folder"
    )]
    OtherLineage(String),
}

/// Looks once. This takes at most a few seconds.
///
/// # Errors
///
/// Nobody answered about the stream, so nothing was found out. The newest earlier result still
/// counts.
pub async fn look(question: &Question) -> Result<Found, StreamError> {
    let Question { place, monitors, .. } = question;
    let asked = monitor::ask(monitors, &place.access);
    let (asked, stream) = tokio::join!(asked, look_at_stream(question));
    let Stream { peers, mut wrong, small } = stream?;
    let is_unsafe = question.unsafe_flush;
    let mut found = Found { small, is_unsafe, ..Found::default() };
    for (address, answer) in asked {
        match answer {
            Ok(server) if found.servers.iter().all(|other| other.name != server.name) => {
                found.servers.push(server);
            }
            // The same server again, at another address.
            Ok(_) => (),
            Err(reason) => found.silent.push((crate::connect::shown(&address), reason)),
        }
    }
    found.peers =
        peers.unwrap_or_else(|| found.servers.iter().map(|server| server.name.clone()).collect());
    judge(question, &mut found);
    found.wrong.append(&mut wrong);
    Ok(found)
}

/// What was found about the stream.
struct Stream {
    /// `None`: it does not exist.
    peers: Option<Vec<String>>,
    wrong: Vec<Refusal>,
    small: Vec<Refusal>,
}

async fn look_at_stream(question: &Question) -> Result<Stream, StreamError> {
    let mut round = Round::new(&question.place);
    loop {
        let seen = match round.next().await {
            Ok(context) => look_with(&context, question).await,
            Err(error) => Err(error.into()),
        };
        match seen {
            Err(error) if error.is_local() && !round.is_over() => {}
            seen => return seen,
        }
    }
}

async fn look_with(context: &Context, question: &Question) -> Result<Stream, StreamError> {
    let Question { place, lineage, .. } = question;
    let mut wrong = Vec::new();
    let small = check_account(context, question).await?.into_iter().collect();
    let name = place.stream();
    let Some(info) = stream::info(context, &name).await? else {
        if lineage.is_some() {
            wrong.push(Refusal::NoStream(name));
        }
        return Ok(Stream { peers: None, wrong, small });
    };
    if let Err(settings) = stream::check(place, &info.config) {
        wrong.push(settings.into());
    }
    if lineage.is_some() && stream::lineage(&info.config) != *lineage {
        wrong.push(Refusal::OtherLineage(name));
    }
    Ok(Stream { peers: Some(stream::peers(&info)), wrong, small })
}

async fn check_account(
    context: &Context,
    question: &Question,
) -> Result<Option<Refusal>, StreamError> {
    let name = question.place.stream();
    let account = context.query_account().await.map_err(|error| match error.kind() {
        AccountErrorKind::JetStream(answer) if stream::is_off(answer.error_code()) => {
            StreamError::Off
        }
        _ => StreamError::Unanswered { name, detail: error.to_string() },
    })?;
    let needed = question.stream_bytes_max.saturating_mul(2);
    let limit = account.limits.max_storage.and_then(|bytes| u64::try_from(bytes).ok());
    Ok(limit.filter(|bytes| *bytes < needed).map(|bytes| Refusal::Account { bytes, needed }))
}

/// Judges the servers that answered, and the list of addresses.
fn judge(question: &Question, found: &mut Found) {
    let mut wrong = Vec::new();
    let needed = question.stream_bytes_max.saturating_mul(2);
    for server in &found.servers {
        let name = server.name.clone();
        if !server.flushes && !question.unsafe_flush {
            wrong.push(Refusal::NoFlush(name.clone()));
        }
        if !is_new_enough(&server.version) {
            let version = server.version.clone();
            wrong.push(Refusal::Version { name: name.clone(), version });
        }
        if server.message_bytes < MESSAGE_BYTES_MAX as u64 {
            let bytes = server.message_bytes;
            wrong.push(Refusal::Payload { name: name.clone(), bytes });
        }
        if let Some(bytes) = server.store_bytes.filter(|bytes| *bytes < needed) {
            found.small.push(Refusal::Store { name, bytes, needed });
        }
    }
    if !question.allow_colocated {
        for (at, server) in found.servers.iter().enumerate() {
            let before = &found.servers[..at];
            if let Some(other) = before.iter().find(|other| share_machine(other, server)) {
                wrong.push(Refusal::Colocated(other.name.clone(), server.name.clone()));
            }
        }
    }
    // Each silent address can belong to one of the missing servers, but not to more.
    let missing = found.missing();
    if !question.unsafe_flush && missing.len() > found.silent.len() {
        let names = missing.into_iter().skip(found.silent.len());
        wrong.extend(names.map(|name| Refusal::NoMonitor(name.to_owned())));
    }
    found.wrong = wrong;
}

/// Different loopback addresses belong to one machine, too.
fn share_machine(one: &Server, other: &Server) -> bool {
    let machine = |server: &Server| server.address.filter(|address| !address.is_loopback());
    let is_here = |server: &Server| server.address.is_some_and(|at: IpAddr| at.is_loopback());
    (is_here(one) && is_here(other)) || (machine(one).is_some() && machine(one) == machine(other))
}

impl Found {
    /// The servers with a replica that did not answer.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        let is_known = |peer: &&str| self.servers.iter().any(|server| server.name == *peer);
        self.peers.iter().map(String::as_str).filter(|peer| !is_known(peer)).collect()
    }

    /// Whether a node can claim: most servers were checked, and nothing is wrong. The input `Guards`
    /// of a node takes this value.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.judge(Needed::Majority).is_ok()
    }

    /// Decides whether a node can rely on NATS. Something that is wrong is always a refusal.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn judge(&self, needed: Needed) -> Result<(), Refusal> {
        if let Some(wrong) = self.wrong.first() {
            return Err(wrong.clone());
        }
        if self.is_unsafe {
            return Ok(());
        }
        let missing = self.missing();
        let peers = self.peers.len();
        let verified = peers - missing.len();
        let needed = match needed {
            Needed::All => peers.max(1),
            Needed::Majority => peers / 2 + 1,
        };
        if verified >= needed {
            return Ok(());
        }
        Err(Refusal::Unchecked { verified, peers, missing: missing.join(", ") })
    }
}

fn is_new_enough(version: &str) -> bool {
    // A preview of a version counts as this version.
    let number = version.split('-').next().unwrap_or_default();
    let parts: Option<Vec<u64>> = number.split('.').map(|part| part.parse().ok()).collect();
    parts.is_some_and(|parts| parts.len() == 3 && parts[..] >= VERSION_MIN[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    fn question() -> Question {
        let place = Place {
            servers: Vec::new(),
            name: "north".into(),
            replicas: 3,
            access: Access::default(),
        };
        Question {
            place,
            monitors: Vec::new(),
            lineage: None,
            stream_bytes_max: 1000,
            allow_colocated: false,
            unsafe_flush: false,
        }
    }

    /// A server on a machine of its own.
    fn server(name: &str) -> Server {
        let last = name.as_bytes()[0];
        Server {
            name: name.into(),
            version: "2.15.1".into(),
            flushes: true,
            message_bytes: 1 << 20,
            store_bytes: Some(2000),
            address: Some([10, 0, 0, last].into()),
        }
    }

    /// What is found if these servers answer, and the stream has replicas on a, b and c.
    fn found(servers: &[Server], silent: usize) -> Found {
        let peers = ["a", "b", "c"].map(String::from).to_vec();
        let silent = vec![("http://x:8222".to_owned(), "no answer".to_owned()); silent];
        let servers = servers.to_vec();
        let mut found = Found { servers, peers, silent, ..Found::default() };
        judge(&question(), &mut found);
        found
    }

    #[test]
    fn a_majority_is_enough_if_nobody_is_wrong() {
        let all = found(&[server("a"), server("b"), server("c")], 0);
        all.judge(Needed::All).expect("all");
        let most = found(&[server("a"), server("c")], 1);
        assert!(most.is_safe());
        let missing = "b".to_owned();
        let refusal = Refusal::Unchecked { verified: 2, peers: 3, missing };
        assert_eq!(most.judge(Needed::All), Err(refusal));
        assert!(!found(&[server("a")], 2).is_safe());
        let careless = Server { flushes: false, ..server("b") };
        let wrong = found(&[server("a"), careless, server("c")], 0);
        assert_eq!(wrong.judge(Needed::Majority), Err(Refusal::NoFlush("b".into())));
        assert!(!Found::default().is_safe());
        assert!(!found(&[], 3).is_safe(), "no server has said that it flushes");
    }

    #[test]
    fn a_server_without_a_monitoring_address_is_wrong() {
        let refusals = |found: &Found| found.wrong.clone();
        assert_eq!(refusals(&found(&[server("a"), server("b")], 1)), []);
        let unknown = found(&[server("a"), server("b")], 0);
        assert_eq!(refusals(&unknown), [Refusal::NoMonitor("c".into())]);
        let other = found(&[server("a"), server("b"), server("x")], 0);
        assert_eq!(refusals(&other), [Refusal::NoMonitor("c".into())]);
    }

    #[test]
    fn each_server_needs_room_and_a_machine_of_its_own() {
        let refused = |change: fn(&mut Server)| {
            let mut changed = server("b");
            change(&mut changed);
            let found = found(&[server("a"), changed, server("c")], 0);
            let all = [found.wrong, found.small].concat();
            assert_eq!(all.len(), 1, "{all:?}");
            all[0].to_string()
        };
        assert!(refused(|one| one.message_bytes = 1000).contains("`max_payload: 1MB`"));
        assert!(refused(|one| one.store_bytes = Some(1999)).contains("`max_file_store`"));
        assert!(refused(|one| one.address = server("a").address).contains("a and b are on one"));
        let here = |name, last| Server { address: Some([127, 0, 0, last].into()), ..server(name) };
        let two = found(&[here("a", 1), here("b", 2), server("c")], 0);
        assert_eq!(two.wrong, [Refusal::Colocated("a".into(), "b".into())]);
    }

    #[test]
    fn old_versions_are_refused() {
        for (version, is_right) in [
            ("2.15.1", true),
            ("2.15.2-preview.1", true),
            ("2.16.0", true),
            ("3.0.0", true),
            ("2.15.0", false),
            ("2.9.10", false),
            ("2.15", false),
            ("new", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), is_right, "{version}");
        }
    }
}

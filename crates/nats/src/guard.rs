//! Whether the servers of NATS are safe: each must flush a record before it acknowledges it.
//!
//! A client cannot see this setting, so the guard asks the monitoring address of each server. A
//! server's health check is no substitute: it also fails while the servers elect a leader.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The oldest version whose behaviour was measured.
pub const VERSION_MIN: [u64; 3] = [2, 15, 1];
const ANSWER_MAX: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What one server says about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Server {
    /// Its name. The stream names its replicas like this.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it flushes each record before it acknowledges it.
    pub flushes: bool,
}

/// What is wrong with the servers.
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
}

/// Asks all monitoring addresses, `http://host:port`, at the same time. Servers that do not answer
/// are missing from the result.
pub async fn ask(addresses: &[String]) -> Vec<Server> {
    let asks: Vec<_> = addresses.iter().cloned().map(|one| tokio::spawn(ask_one(one))).collect();
    let mut servers = Vec::new();
    for ask in asks {
        if let Ok(Some(server)) = ask.await {
            servers.push(server);
        }
    }
    servers
}

/// Decides whether the servers with these names are safe. `needed`: at least this many of them must
/// have answered. A server that answered and is wrong is always a refusal.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn judge(peers: &[String], servers: &[Server], needed: usize) -> Result<(), Refusal> {
    let known: BTreeMap<&str, &Server> =
        servers.iter().map(|server| (server.name.as_str(), server)).collect();
    for server in known.values() {
        if !server.flushes {
            return Err(Refusal::NoFlush(server.name.clone()));
        }
        if !is_new_enough(&server.version) {
            let (name, version) = (server.name.clone(), server.version.clone());
            return Err(Refusal::Version { name, version });
        }
    }
    let missing: Vec<&str> =
        peers.iter().map(String::as_str).filter(|peer| !known.contains_key(peer)).collect();
    let verified = peers.len() - missing.len();
    if verified < needed {
        let missing = missing.join(", ");
        return Err(Refusal::Unchecked { verified, peers: peers.len(), missing });
    }
    Ok(())
}

fn is_new_enough(version: &str) -> bool {
    // A preview of a version counts as this version.
    let number = version.split('-').next().unwrap_or_default();
    let parts: Option<Vec<u64>> = number.split('.').map(|part| part.parse().ok()).collect();
    parts.is_some_and(|parts| parts.len() == 3 && parts[..] >= VERSION_MIN[..])
}

async fn ask_one(address: String) -> Option<Server> {
    let host = address.strip_prefix("http://")?.trim_end_matches('/').to_owned();
    let text = timeout(ANSWER_MAX, get(&host)).await.ok()?.ok()?;
    read(&text)
}

/// A request in the old version of HTTP, so that the server closes the connection after it.
async fn get(host: &str) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(host).await?;
    let request = format!("GET /varz HTTP/1.0\r\nHost: {host}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(answer)
}

fn read(answer: &[u8]) -> Option<Server> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.split(' ').nth(1) != Some("200") {
        return None;
    }
    let about: Value = serde_json::from_str(body).ok()?;
    Some(Server {
        name: about["server_name"].as_str()?.to_owned(),
        version: about["version"].as_str()?.to_owned(),
        // The field is missing if it is false.
        flushes: about["jetstream"]["config"]["sync_always"].as_bool().unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> Server {
        Server { name: name.into(), version: "2.15.1".into(), flushes: true }
    }

    fn peers() -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }

    #[test]
    fn a_majority_is_enough_if_nobody_is_wrong() {
        judge(&peers(), &[server("a"), server("b"), server("c")], 3).expect("all");
        judge(&peers(), &[server("a"), server("c")], 2).expect("a majority");
        let refusal = judge(&peers(), &[server("a"), server("x")], 2).expect_err("one");
        let missing = "b, c".to_owned();
        assert_eq!(refusal, Refusal::Unchecked { verified: 1, peers: 3, missing });
        let careless = Server { flushes: false, ..server("b") };
        let refusal = judge(&peers(), &[server("a"), careless, server("c")], 2);
        assert_eq!(refusal, Err(Refusal::NoFlush("b".into())));
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
            let one = Server { version: version.into(), ..server("a") };
            assert_eq!(judge(&[], &[one], 0).is_ok(), is_right, "{version}");
        }
    }

    #[test]
    fn a_missing_flush_setting_means_no_flush() {
        let with = |config: &str| {
            let body = format!(
                r#"{{"server_name":"n","version":"2.15.1","jetstream":{{"config":{config}}}}}"#
            );
            read(format!("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{body}").as_bytes())
        };
        assert!(with(r#"{"sync_always":true}"#).expect("an answer").flushes);
        assert!(!with(r#"{"sync_interval":120000000000}"#).expect("an answer").flushes);
        assert_eq!(read(b"HTTP/1.0 503 No\r\n\r\n{}"), None);
        assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\n{}"), None);
        assert_eq!(read(b"garbage"), None);
    }
}

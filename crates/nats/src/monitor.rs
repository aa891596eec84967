//! Asks the monitoring address of each server of NATS what the server says about itself.
//!
//! A client cannot see some settings, and no client can reach a server that only the others know.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_nats::rustls::crypto::ring;
use async_nats::rustls::pki_types::ServerName;
use async_nats::rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::Access;
use crate::access;

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
    /// The largest message that it accepts.
    pub message_bytes: u64,
    /// How much its streams may store on its disk, if it has a limit.
    pub store_bytes: Option<u64>,
    /// The address where it answered.
    pub address: Option<IpAddr>,
}

/// A monitoring address, and what came from there: a server, or why nothing came.
pub(crate) type Asked = (String, Result<Server, String>);

/// Asks all monitoring addresses, `http://host:port` or `https://host:port`, at the same time.
pub(crate) async fn ask(addresses: &[String], access: &Access) -> Vec<Asked> {
    let asks: Vec<_> = addresses
        .iter()
        .map(|address| {
            let (address, access) = (address.clone(), access.clone());
            tokio::spawn(async move { ask_one(&address, &access).await })
        })
        .collect();
    let mut asked = Vec::new();
    for (address, ask) in addresses.iter().zip(asks) {
        let answer = ask.await.unwrap_or_else(|error| Err(error.to_string()));
        asked.push((address.clone(), answer));
    }
    asked
}

async fn ask_one(address: &str, access: &Access) -> Result<Server, String> {
    let wrong = || "it is not an address such as http://host:8222".to_owned();
    let (scheme, host) = address.split_once("://").ok_or_else(wrong)?;
    let host = host.trim_end_matches('/');
    let answer = async {
        let socket = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
        let peer = socket.peer_addr().map_err(|error| error.to_string())?.ip();
        let text = match scheme {
            "http" => get(socket, host).await,
            "https" => get(encrypted(socket, host, access).await?, host).await,
            _ => return Err(wrong()),
        };
        let text = text.map_err(|error| error.to_string())?;
        let what = || "it does not answer like the monitoring address of a NATS server".to_owned();
        Ok(Server { address: Some(peer), ..read(&text).ok_or_else(what)? })
    };
    timeout(ANSWER_MAX, answer).await.unwrap_or_else(|_| Err("no answer in 2 seconds".to_owned()))
}

async fn encrypted(
    socket: TcpStream,
    host: &str,
    access: &Access,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + use<>, String> {
    let roots = if let Some(path) = &access.authority {
        access::authorities(path).map_err(|error| error.to_string())?
    } else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, socket);
    connecting.await.map_err(|error| format!("TLS failed: {error}"))
}

/// A request in the old version of HTTP, so that the server closes the connection after it.
async fn get(mut socket: impl AsyncRead + AsyncWrite + Unpin, host: &str) -> io::Result<Vec<u8>> {
    let request = format!("GET /varz HTTP/1.0\r\nHost: {host}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    match socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await {
        // A server of Go ends TLS without saying so. A cut answer is not valid JSON.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        Ok(_) | Err(_) => Ok(answer),
    }
}

fn read(answer: &[u8]) -> Option<Server> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.split(' ').nth(1) != Some("200") {
        return None;
    }
    let about: Value = serde_json::from_str(body).ok()?;
    let store = &about["jetstream"]["config"];
    Some(Server {
        name: about["server_name"].as_str()?.to_owned(),
        version: about["version"].as_str()?.to_owned(),
        // The field is missing if it is false.
        flushes: store["sync_always"].as_bool().unwrap_or(false),
        message_bytes: about["max_payload"].as_u64()?,
        store_bytes: store["max_storage"].as_u64(),
        address: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_flush_setting_means_no_flush() {
        let with = |config: &str| {
            let body = format!(
                r#"{{"server_name":"n","version":"2.15.1","max_payload":1048576,
                "jetstream":{{"config":{config}}}}}"#
            );
            read(format!("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{body}").as_bytes())
        };
        let safe = with(r#"{"sync_always":true,"max_storage":1000}"#).expect("an answer");
        assert!(safe.flushes);
        assert_eq!((safe.message_bytes, safe.store_bytes), (1 << 20, Some(1000)));
        assert!(!with(r#"{"sync_interval":120000000000}"#).expect("an answer").flushes);
        assert_eq!(read(b"HTTP/1.0 503 No\r\n\r\n{}"), None);
        assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\n{}"), None);
        assert_eq!(read(b"garbage"), None);
    }
}

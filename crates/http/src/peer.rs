//! Who is at the other end of a connection.

use std::net::IpAddr;

use ring::digest::{SHA256, digest};

/// The other end of a connection, in the extensions of each request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// The address of the client. `None` at a unix socket.
    pub address: Option<IpAddr>,
    /// Whether the connection speaks TLS.
    pub is_tls: bool,
    /// The SHA-256 of the client's certificate, if TLS has verified one.
    pub certificate: Option<[u8; 32]>,
    /// Whether the client is at the operator's socket, and runs as the user of the server.
    pub is_operator: bool,
    /// Whether another node of the cluster has passed the request on. Then this is its client.
    pub is_passed: bool,
}

impl Peer {
    /// The same peer, over TLS. `certificate` is the certificate that the client sent, as DER.
    #[must_use]
    pub fn over_tls(self, certificate: Option<&[u8]>) -> Peer {
        Peer { is_tls: true, certificate: certificate.map(sha256), ..self }
    }
}

/// The SHA-256 of these bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}

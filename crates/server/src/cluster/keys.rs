//! TLS between nodes, always: both sides show a certificate of the cluster's authority. All these
//! certificates have the name `lineshaft`, so that nodes can get other addresses. Each side checks the
//! name of the other: a company's authority may have signed certificates of many other machines.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::config::Cluster;
use crate::net::tls::{TlsError, read_certificates, read_key, unusable};
use crate::net::verifiers::{ClientVerifier, ServerVerifier};

const NAME: &str = "lineshaft";
const PROTOCOL: &[u8] = b"lineshaft-peer/1";
const CONNECT_MAX: Duration = Duration::from_millis(500);
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);
/// After this silence, and then this often, the kernel asks whether the other machine is there.
const PROBE: Duration = Duration::from_secs(3);
/// A link ends after this many questions without an answer.
const PROBES: u32 = 3;

/// What a node needs to connect to others, and to accept them.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Keys {
    /// Reads the files.
    pub(crate) fn load(settings: &Cluster) -> Result<Keys, TlsError> {
        let file = |file: &'static str, path: &Option<std::path::PathBuf>| {
            path.clone().ok_or(TlsError::Unset(file))
        };
        let authority = file("certificate of the cluster's authority", &settings.ca)?;
        let certificate = file("certificate of this node", &settings.certificate)?;
        let key = file("key of this node", &settings.key)?;
        let what = "certificate";
        let roots = Arc::new(roots(&authority)?);
        let chain = read_certificates(&certificate, what)?;
        let provider = Arc::new(ring::default_provider());
        let wrong = |error: rustls::Error| unusable(&certificate, what, error);
        let unfit = |error: VerifierBuilderError| unusable(&authority, what, error);
        let nodes = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let nodes = ClientVerifier::for_name(nodes.build().map_err(unfit)?, name());
        let leaders = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
        let leaders = ServerVerifier::new(leaders.build().map_err(unfit)?);
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_client_cert_verifier(Arc::new(nodes))
            .with_single_cert(chain.clone(), read_key(&key)?)
            .map_err(wrong)?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            // It calls the library's own verifier.
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(leaders))
            .with_client_auth_cert(chain, read_key(&key)?)
            .map_err(wrong)?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Keys { server: Arc::new(server), client: Arc::new(client) })
    }

    /// Accepts a node.
    pub(crate) async fn accept(
        &self,
        socket: TcpStream,
    ) -> io::Result<server::TlsStream<TcpStream>> {
        prepare(&socket)?;
        timeout(HANDSHAKE_MAX, TlsAcceptor::from(self.server.clone()).accept(socket)).await?
    }

    /// Connects to a node. If nobody listens there, the error is `ConnectionRefused`.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<client::TlsStream<TcpStream>> {
        let socket = timeout(CONNECT_MAX, TcpStream::connect(address)).await??;
        prepare(&socket)?;
        let connecting = TlsConnector::from(self.client.clone()).connect(name(), socket);
        timeout(HANDSHAKE_MAX, connecting).await?
    }
}

/// The name in the certificates of all nodes.
fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a name")
}

/// The loss of the other machine ends a link, also one that carries a client that waits. Otherwise
/// the leader would hand out jobs to clients of a follower that is gone.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, PROBE)?;
    sockopt::set_tcp_keepintvl(socket, PROBE)?;
    // No limit for unacknowledged bytes: it would also end a link whose client reads slowly. The kernel
    // asks nothing while there are such bytes, so `reporters.rs` ends these links.
    Ok(sockopt::set_tcp_keepcnt(socket, PROBES)?)
}

fn roots(authority: &Path) -> Result<RootCertStore, TlsError> {
    let what = "certificate of the cluster's authority";
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(authority, what)? {
        roots.add(certificate).map_err(|error| unusable(authority, what, error))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;
    use testkit::tls::certificates::{Authority, Identity};
    use tokio::net::TcpListener;

    use super::*;

    fn keys(authority: &Authority, identity: Identity) -> Keys {
        let Identity { certificate, key } = identity;
        let (ca, certificate, key) = (Some(authority.file.clone()), Some(certificate), Some(key));
        Keys::load(&Cluster { ca, certificate, key, ..Cluster::default() }).expect("right files")
    }

    #[tokio::test]
    async fn a_certificate_for_another_name_is_not_that_of_a_node() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "authority").expect("an authority");
        let node = keys(&authority, authority.issue("node").expect("a certificate"));
        let other = authority.issue_for("other", &["other.example"]).expect("a certificate");
        let other = keys(&authority, other);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        for (from, is_node) in [(&node, true), (&other, false)] {
            let accepting = async {
                let (socket, _) = listener.accept().await.expect("somebody connects");
                node.accept(socket).await
            };
            // With TLS 1.3, the connecting side has finished before the other one sees its certificate.
            let (accepted, _connected) = tokio::join!(accepting, from.connect(&address));
            let Err(error) = accepted else {
                assert!(is_node, "it was accepted");
                continue;
            };
            let reason = error.get_ref().and_then(|reason| reason.downcast_ref::<rustls::Error>());
            let is_for_its_name = matches!(
                reason,
                Some(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForNameContext { .. }
                ))
            );
            assert!(!is_node && is_for_its_name, "{error}");
        }
    }

    #[tokio::test]
    async fn a_link_notices_the_loss_of_the_other_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (socket, _) =
            tokio::try_join!(TcpStream::connect(address), listener.accept()).expect("a link");
        prepare(&socket).expect("the kernel knows these options");
        assert!(sockopt::socket_keepalive(&socket).expect("an option"));
        let idle = sockopt::tcp_keepidle(&socket).expect("an option");
        let interval = sockopt::tcp_keepintvl(&socket).expect("an option");
        let count = sockopt::tcp_keepcnt(&socket).expect("an option");
        assert!(idle + interval * count <= Duration::from_secs(12));
    }
}

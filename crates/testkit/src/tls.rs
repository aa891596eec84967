//! TLS for tests: a client, and a proxy that connects clients without TLS to a server with TLS.

pub mod certificates;

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use self::certificates::Identity;

/// The time that the proxy gives a peer to close its connection.
const LINGER: Duration = Duration::from_secs(2);
/// While this number of bytes waits to be sent, the proxy does not read.
const PASSED_BYTES_MAX: usize = 64 << 10;

/// A TLS connection that a test can read and write like a socket.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A TLS client: the authority that it trusts, and its own certificate.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// A client that trusts this authority. If `identity` is given, the client sends all certificates
    /// of its file.
    pub fn new(authority: &Path, identity: Option<&Identity>) -> Result<Client> {
        Client::of_versions(authority, identity, rustls::ALL_VERSIONS)
    }

    /// A client like [`Client::new`], with only these versions of TLS.
    pub fn of_versions(
        authority: &Path,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority)?)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = CertificateDer::pem_file_iter(certificate)?;
                let chain = chain.collect::<Result<Vec<_>, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key)?)?
            }
        };
        Ok(Client(Arc::new(config)))
    }

    /// The TLS state of a new connection.
    pub fn connection(&self) -> Result<ClientConnection> {
        let name = ServerName::try_from("localhost").context("a name")?;
        Ok(ClientConnection::new(self.0.clone(), name)?)
    }

    /// Connects. The first read or write starts the handshake.
    pub fn connect(&self, address: SocketAddr) -> Result<Stream> {
        Ok(StreamOwned::new(self.connection()?, TcpStream::connect(address)?))
    }
}

/// A proxy for clients without TLS. It passes all bytes, and the ends of connections, to a server
/// with TLS, and back. Its threads end with the process.
#[derive(Debug)]
pub struct Proxy {
    /// The address where the proxy listens.
    pub address: SocketAddr,
}

impl Proxy {
    /// Starts the proxy.
    pub fn start(client: Client, server: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for plain in listener.incoming().map_while(Result::ok) {
                let client = client.clone();
                // A broken connection needs no report, because the test notices it.
                thread::spawn(move || drop(relay(plain, &client, server)));
            }
        });
        Ok(Proxy { address })
    }
}

fn relay(mut plain: TcpStream, client: &Client, server: SocketAddr) -> Result<()> {
    let Stream { conn: mut tls, sock: mut secure } = client.connect(server)?;
    tls.set_buffer_limit(None);
    for socket in [&plain, &secure] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    let mut buffer = [0; 16 << 10];
    let mut back = Vec::new();
    let (mut plain_ended, mut secure_ended) = (false, false);
    while !secure_ended || !back.is_empty() {
        wait(
            &plain,
            &secure,
            [
                (!plain_ended && !tls.wants_write(), !back.is_empty()),
                (!secure_ended && back.len() < PASSED_BYTES_MAX, tls.wants_write()),
            ],
        )?;
        if !plain_ended && !tls.wants_write() {
            match plain.read(&mut buffer) {
                Ok(0) => {
                    plain_ended = true;
                    tls.send_close_notify();
                }
                Ok(count) => tls.writer().write_all(&buffer[..count])?,
                other => drop(unless_blocked(other)?),
            }
        }
        if tls.wants_write() {
            unless_blocked(tls.write_tls(&mut secure))?;
        }
        if !secure_ended && back.len() < PASSED_BYTES_MAX {
            let received = unless_blocked(tls.read_tls(&mut secure))?;
            let state = tls.process_new_packets()?;
            secure_ended = received == Some(0) || state.peer_has_closed();
            let start = back.len();
            back.resize(start + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut back[start..])?;
        }
        if let Some(sent) = unless_blocked(plain.write(&back))? {
            back.drain(..sent);
        }
    }
    plain.shutdown(Shutdown::Write)?;
    // If a socket is closed with unread bytes, the system discards the bytes that were sent last.
    // So read everything first.
    plain.set_nonblocking(false)?;
    plain.set_read_timeout(Some(LINGER))?;
    while plain.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Waits until a socket is ready to read or write.
fn wait(plain: &TcpStream, secure: &TcpStream, wanted: [(bool, bool); 2]) -> io::Result<()> {
    let flags = wanted.map(|(read, write)| {
        let read = if read { PollFlags::IN } else { PollFlags::empty() };
        read | if write { PollFlags::OUT } else { PollFlags::empty() }
    });
    poll(&mut [PollFd::new(plain, flags[0]), PollFd::new(secure, flags[1])], None)?;
    Ok(())
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

//! TLS for the two halves of a connection. Two threads can use the halves at the same time.
//!
//! The state of TLS is behind a lock that is never held while a thread waits for the server: the
//! reading half reads from the socket first, and then decrypts under the lock. Encrypted bytes must
//! leave in the order in which they were encrypted, so a second lock covers a whole write.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConnection;

use super::stream::Socket;

/// Bytes of one read from the socket: a TLS record and its head.
const RECORD_BYTES_MAX: usize = 17 << 10;

/// The TLS of one connection.
#[derive(Clone, Debug)]
pub(super) struct TlsSession {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connection: Mutex<ClientConnection>,
    /// Decrypted bytes that the reading half has not returned yet. rustls refuses more bytes from
    /// the socket while it has more than 16 KiB of them, and one read can complete twice as many.
    decrypted: Mutex<VecDeque<u8>>,
    /// Held while bytes are encrypted and sent.
    sending: Mutex<()>,
}

impl TlsSession {
    /// Does the handshake. The socket must block.
    pub(super) fn begin(
        mut connection: ClientConnection,
        socket: &mut Socket,
    ) -> io::Result<TlsSession> {
        while connection.is_handshaking() {
            connection.complete_io(socket)?;
        }
        let (connection, decrypted, sending) =
            (Mutex::new(connection), Mutex::default(), Mutex::new(()));
        Ok(TlsSession { shared: Arc::new(Shared { connection, decrypted, sending }) })
    }

    fn connection(&self) -> MutexGuard<'_, ClientConnection> {
        self.shared.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decrypted(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.shared.decrypted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads decrypted bytes. Returns 0 if the server has ended the connection, and an error of the
    /// kind `WouldBlock` if a record is incomplete so far.
    pub(super) fn read(&self, socket: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(count) = self.read_decrypted(buffer)? {
            return Ok(count);
        }
        let mut bytes = vec![0; RECORD_BYTES_MAX];
        let count = socket.read(&mut bytes)?;
        let mut rest = &bytes[..count];
        if rest.is_empty() {
            // Without this call, the connection would not notice the end.
            self.connection().read_tls(&mut io::empty())?;
        }
        while !rest.is_empty() {
            let mut connection = self.connection();
            connection.read_tls(&mut rest)?;
            let state = connection.process_new_packets().map_err(io::Error::other)?;
            let mut bytes = vec![0; state.plaintext_bytes_to_read()];
            connection.reader().read_exact(&mut bytes)?;
            self.decrypted().extend(bytes);
        }
        // The server can ask for new keys. If the other half sends now, it sends the answer, too. So
        // this half does not wait for a server that waits until this half reads.
        if self.connection().wants_write()
            && let Ok(_sending) = self.shared.sending.try_lock()
        {
            self.send(socket, &[])?;
        }
        self.read_decrypted(buffer)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// `None` if no decrypted bytes are there.
    fn read_decrypted(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let count = self.decrypted().read(buffer)?;
        if count > 0 {
            return Ok(Some(count));
        }
        match self.connection().reader().read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The connection ended without a notice. The protocols say where a reply ends.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Encrypts and sends some of these bytes.
    pub(super) fn write(&self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        let _sending = self.shared.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.send(socket, bytes)
    }

    /// Encrypts some of these bytes, and sends everything that is encrypted. The caller must hold the
    /// lock of sending.
    fn send(&self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        let mut encrypted = Vec::with_capacity(bytes.len() + RECORD_BYTES_MAX);
        let count = {
            let mut connection = self.connection();
            let count = connection.writer().write(bytes)?;
            while connection.wants_write() {
                connection.write_tls(&mut encrypted)?;
            }
            count
        };
        socket.write_all(&encrypted)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection};
    use testkit::tls::Client;
    use testkit::tls::certificates::Authority;

    use super::*;

    /// A client and a server after their handshake, each with its socket.
    fn connected() -> ((TlsSession, Socket), (ServerConnection, UnixStream)) {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "authority").expect("a new file");
        let identity = authority.issue("server").expect("a new file");
        let chain = vec![CertificateDer::from_pem_file(identity.certificate).expect("it is PEM")];
        let key = PrivateKeyDer::from_pem_file(identity.key).expect("it is PEM");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("the key is that of the certificate");
        let mut server = ServerConnection::new(Arc::new(config)).expect("no file is read");
        let client = Client::new(&authority.file, None).and_then(|client| client.connection());
        let client = client.expect("it trusts the authority");
        let (client_socket, mut server_socket) = UnixStream::pair().expect("two sockets");
        let handshake = thread::spawn(move || {
            let mut socket = Socket::Unix(client_socket);
            let session = TlsSession::begin(client, &mut socket).expect("it trusts the server");
            (session, socket)
        });
        while server.is_handshaking() {
            server.complete_io(&mut server_socket).expect("the client answers");
        }
        (handshake.join().expect("no panic"), (server, server_socket))
    }

    #[test]
    fn a_read_can_complete_more_bytes_than_rustls_holds() {
        let ((session, mut socket), (mut server, mut server_socket)) = connected();
        // A large record, and small ones.
        let mut encrypted = Vec::new();
        let mut sent = Vec::new();
        for length in std::iter::once(16 << 10).chain(std::iter::repeat_n(100, 200)) {
            let bytes = vec![sent.len() as u8; length];
            server.writer().write_all(&bytes).expect("it is memory");
            while server.wants_write() {
                server.write_tls(&mut encrypted).expect("it is memory");
            }
            sent.extend(bytes);
        }
        let (first, rest) = encrypted.split_at(15 << 10);
        let mut buffer = vec![0; 64 << 10];
        server_socket.write_all(first).expect("the client is there");
        let incomplete = session.read(&mut socket, &mut buffer).expect_err("no record is complete");
        assert_eq!(incomplete.kind(), io::ErrorKind::WouldBlock);
        server_socket.write_all(rest).expect("the client is there");
        let mut received = Vec::new();
        while received.len() < sent.len() {
            match session.read(&mut socket, &mut buffer) {
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
        assert!(received == sent);
    }
}

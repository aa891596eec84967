//! TLS for the two halves of a connection. Two threads can use the halves at the same time.
//!
//! The state of TLS is behind a lock that is never held while a thread waits for the server: the
//! reading half reads from the socket first, and then decrypts under the lock. Encrypted bytes must
//! leave in the order in which they were encrypted, so a second lock covers a whole write.

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
        let (connection, sending) = (Mutex::new(connection), Mutex::new(()));
        Ok(TlsSession { shared: Arc::new(Shared { connection, sending }) })
    }

    fn connection(&self) -> MutexGuard<'_, ClientConnection> {
        self.shared.connection.lock().unwrap_or_else(PoisonError::into_inner)
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
            connection.process_new_packets().map_err(io::Error::other)?;
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

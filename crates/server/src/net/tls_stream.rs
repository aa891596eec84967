//! TLS of one connection. Decrypts bytes from the socket for the dialect, and encrypts replies. No
//! function waits. rustls limits its buffers. The input buffer has one record and 16 KiB of plain
//! text. The output buffer has 64 KiB.

use std::io::{self, IoSlice, Read as _, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendFlags};
use rustls::{Error, ServerConfig, ServerConnection};

/// Time limit of the handshake. It is shorter in tests.
pub(crate) const HANDSHAKE_MS: u64 = if cfg!(test) { 1500 } else { 10_000 };

/// The state of TLS on one connection.
pub(crate) struct TlsStream {
    connection: ServerConnection,
    /// When the handshake began, in milliseconds of the clock.
    begun_at: u64,
    /// The client broke the rules of TLS, or has no valid certificate. The server sends an alert,
    /// and nothing else.
    failed: bool,
    /// The client has closed its sending side, with or without a close alert.
    ended: bool,
}

impl TlsStream {
    pub(crate) fn new(config: Arc<ServerConfig>, now_ms: u64) -> Result<TlsStream, Error> {
        let connection = ServerConnection::new(config)?;
        Ok(TlsStream { connection, begun_at: now_ms, failed: false, ended: false })
    }

    /// Whether TLS cannot encrypt replies, because the handshake is not finished or TLS has failed.
    pub(crate) fn is_unusable(&self) -> bool {
        self.failed || self.connection.is_handshaking()
    }

    /// Whether the handshake takes too long.
    pub(crate) fn is_overdue(&self, now_ms: u64) -> bool {
        self.is_unusable() && now_ms.saturating_sub(self.begun_at) >= HANDSHAKE_MS
    }

    /// Whether the client broke the rules of TLS, or has no valid certificate.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether the client has closed its sending side.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Called at the end of the socket's bytes. If the close alert is missing, an attacker may have
    /// cut off the last bytes. That does no harm, because an incomplete command never looks
    /// complete. So this counts as a normal end.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Copies decrypted bytes into `plaintext`, and returns their number. If `plaintext` is full
    /// afterwards, there may be more bytes.
    pub(crate) fn take(&mut self, plaintext: &mut [u8]) -> usize {
        // `read` returns an error if there are no bytes.
        self.connection.reader().read(plaintext).unwrap_or(0)
    }

    /// Decrypts complete records of `ciphertext` into `plaintext`. If `plaintext` has too little
    /// room, a later `take` returns the remaining bytes. `ciphertext` must not be longer than
    /// `plaintext`. This limits the number of remaining bytes.
    pub(crate) fn decrypt(
        &mut self,
        mut ciphertext: &[u8],
        plaintext: &mut [u8],
    ) -> Result<usize, Error> {
        let mut filled = 0;
        while !ciphertext.is_empty() && !self.ended {
            let taken = self.connection.read_tls(&mut ciphertext);
            let state = taken
                .map_err(|error| Error::General(error.to_string()))
                .and_then(|_| self.connection.process_new_packets());
            match state {
                Ok(state) => self.ended = state.peer_has_closed(),
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
            filled += self.take(&mut plaintext[filled..]);
        }
        Ok(filled)
    }

    /// Encrypts as many bytes as fit into the output buffer, and returns their number.
    pub(crate) fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(bytes)
    }

    /// Whether encrypted bytes wait to be sent.
    pub(crate) fn has_ciphertext(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends encrypted bytes with one system call.
    pub(crate) fn send(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.send_to(&mut Sending(socket))
    }

    /// Writes encrypted bytes to any writer, with one call.
    pub(crate) fn send_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.connection.write_tls(out).map(drop)
    }

    /// Sends the close alert. A failure does not matter, because the connection ends anyway.
    pub(crate) fn send_end(&mut self, socket: &OwnedFd) {
        self.connection.send_close_notify();
        let _ = self.send(socket);
    }
}

/// A socket as a writer. rustls writes all records with one call.
struct Sending<'a>(&'a OwnedFd);

impl Write for Sending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut no_extras = SendAncillaryBuffer::default();
        loop {
            match rustix::net::sendmsg(self.0, pieces, &mut no_extras, flags) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::tls::Client;
    use testkit::tls::certificates::Authority;

    use super::*;
    use crate::config::Tls;
    use crate::net::tls::Certificates;

    /// A server and a client after the handshake.
    fn pair() -> (TlsStream, rustls::ClientConnection) {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority").unwrap();
        let identity = authority.issue("server").unwrap();
        let settings = Tls {
            certificate: Some(identity.certificate),
            key: Some(identity.key),
            ..Tls::default()
        };
        let config = Certificates::load(&settings).unwrap().current();
        let mut server = TlsStream::new(config, 0).unwrap();
        let mut client = Client::new(&authority.file, None).unwrap().connection().unwrap();
        let mut plaintext = vec![0; 32 << 10];
        while client.is_handshaking() || server.is_unusable() {
            server.decrypt(&sent(&mut client), &mut plaintext).unwrap();
            let mut answer = Vec::new();
            while server.has_ciphertext() {
                server.send_to(&mut answer).unwrap();
            }
            let mut answer = answer.as_slice();
            while !answer.is_empty() {
                client.read_tls(&mut answer).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        (server, client)
    }

    fn sent(client: &mut rustls::ClientConnection) -> Vec<u8> {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Whether this byte is the type or the version at the head of a record. In TLS 1.3, these are
    /// always the same and say nothing, so a server need not check them.
    fn is_fixed(records: &[u8], at: usize) -> bool {
        const HEAD_BYTES: usize = 5;
        let mut start = 0;
        loop {
            let length = u16::from_be_bytes([records[start + 3], records[start + 4]]);
            let end = start + HEAD_BYTES + usize::from(length);
            if at < end {
                return at < start + 3;
            }
            start = end;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn fragments_of_any_length_give_the_same_plaintext(
            lengths in prop::collection::vec(0..40_000usize, 1..8),
            room in 4096..32_768usize,
            damaged in prop::option::of(0..100_000usize),
        ) {
            let (mut server, mut client) = pair();
            client.set_buffer_limit(None);
            let mut all = Vec::new();
            for (index, length) in lengths.iter().enumerate() {
                let piece = vec![index as u8; *length];
                client.writer().write_all(&piece).unwrap();
                all.extend(piece);
            }
            client.send_close_notify();
            let mut ciphertext = sent(&mut client);
            let damaged = damaged.filter(|at| *at < ciphertext.len());
            let matters = damaged.is_some_and(|at| !is_fixed(&ciphertext, at));
            if let Some(at) = damaged {
                ciphertext[at] ^= 1;
            }
            let (mut received, mut plaintext) = (Vec::new(), vec![0; room]);
            for piece in ciphertext.chunks(room) {
                let Ok(count) = server.decrypt(piece, &mut plaintext) else { break };
                received.extend_from_slice(&plaintext[..count]);
                loop {
                    let count = server.take(&mut plaintext);
                    if count == 0 { break }
                    received.extend_from_slice(&plaintext[..count]);
                }
            }
            if damaged.is_some() {
                // Whichever byte is damaged, the server reads only bytes that the client wrote.
                prop_assert!(all.starts_with(&received));
                let is_whole = received.len() == all.len() && server.has_ended();
                prop_assert!(!is_whole || !matters || all.is_empty());
            } else {
                prop_assert!(received == all && server.has_ended() && !server.has_failed());
            }
        }

        #[test]
        fn garbage_never_gives_a_byte(garbage in prop::collection::vec(any::<u8>(), 1..3000)) {
            let (mut server, _client) = pair();
            let mut plaintext = vec![0; 32 << 10];
            let count = server.decrypt(&garbage, &mut plaintext).unwrap_or(0);
            prop_assert_eq!(count, 0);
        }
    }
}

//! Scripts of TLS clients that follow the rules of TLS or break them. A script also splits and
//! changes the bytes. Up to the first broken rule, the dialect must get exactly the bytes that the
//! client wrote. The tests and the fuzz target share this file.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConnection, ServerConfig};
use testkit::tls::Client;
use testkit::tls::certificates::Authority;

use super::tls_stream::TlsStream;

/// Limit of bytes that the server receives at once. The buffer for decrypted bytes has the same
/// size.
const ROOM: usize = 16 << 10;
/// Limit of bytes that the client of a script writes.
const WRITTEN_BYTES_MAX: usize = 256 << 10;

/// Limit of key updates in a script. rustls refuses more than 32.
const NEW_KEYS_MAX: u8 = 30;

/// Plays a script. The first byte seeds the lengths of fragments. The second byte selects the
/// client.
pub(crate) fn check(script: &[u8]) {
    let mut script = Script(script);
    let seed = script.byte();
    match script.byte() % 3 {
        0 => check_raw(seed, script.0),
        1 => Play::new(seed, &setup().newest).play(script),
        _ => Play::new(seed, &setup().older).play(script),
    }
}

/// The server's configuration and the clients. They are created once per process, because creating
/// certificates takes time.
struct Setup {
    server: Arc<ServerConfig>,
    newest: Client,
    older: Client,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let folder = tempfile::tempdir().expect("there is room");
        let authority = Authority::new(folder.path(), "authority").expect("there is room");
        let identity = authority.issue("server").expect("there is room");
        let chain = CertificateDer::from_pem_file(&identity.certificate).expect("just written");
        let key = PrivateKeyDer::from_pem_file(&identity.key).expect("just written");
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has both")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .expect("they fit together");
        let client = |version| {
            Client::of_versions(&authority.file, None, &[version]).expect("the provider has both")
        };
        Setup {
            server: Arc::new(server),
            newest: client(&rustls::version::TLS13),
            older: client(&rustls::version::TLS12),
        }
    })
}

/// Plays a client that sends raw bytes without TLS keys. The dialect must get none of these bytes.
/// The result must not depend on how the bytes are split.
fn check_raw(seed: u8, bytes: &[u8]) {
    let outcome = |lengths: Option<Lengths>| {
        let mut server = Server::new(lengths);
        server.receive(bytes);
        server.answer();
        assert!(server.received.is_empty() && server.stream.is_unusable());
        (server.stream.has_failed(), server.stream.has_ended())
    };
    assert_eq!(outcome(None), outcome(Some(Lengths(seed.into()))), "whole, and in fragments");
}

/// The server's side.
struct Server {
    stream: TlsStream,
    lengths: Option<Lengths>,
    received: Vec<u8>,
}

impl Server {
    fn new(lengths: Option<Lengths>) -> Self {
        let stream = TlsStream::new(setup().server.clone(), 0).expect("the settings are right");
        Self { stream, lengths, received: Vec::new() }
    }

    /// Receives bytes like a connection of the server, which reads nothing after a failure or the
    /// end.
    fn receive(&mut self, mut bytes: &[u8]) {
        let mut plaintext = vec![0; ROOM];
        while !bytes.is_empty() && !self.stream.has_failed() && !self.stream.has_ended() {
            let len = self.lengths.as_mut().map_or(ROOM, Lengths::next).min(bytes.len());
            let (fragment, rest) = bytes.split_at(len);
            bytes = rest;
            let Ok(mut count) = self.stream.decrypt(fragment, &mut plaintext) else { break };
            while count > 0 {
                self.received.extend_from_slice(&plaintext[..count]);
                count = self.stream.take(&mut plaintext);
            }
        }
    }

    fn answer(&mut self) -> Vec<u8> {
        let mut answer = Vec::new();
        while self.stream.has_ciphertext() {
            self.stream.send_to(&mut answer).expect("a vector takes everything");
        }
        answer
    }
}

/// A client with keys, and an attacker between client and server.
struct Play {
    client: ClientConnection,
    client_failed: bool,
    server: Server,
    written: Vec<u8>,
    new_keys: u8,
    edits: Vec<Edit>,
    /// Whether the server has received bytes that the client did not send.
    tampered: bool,
    closed: bool,
    answered: Vec<u8>,
    sent: Vec<u8>,
}

/// A change that the attacker makes to the client's next bytes. A position is taken modulo the
/// number of bytes.
enum Edit {
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
}

impl Play {
    fn new(seed: u8, client: &Client) -> Self {
        let mut client = client.connection().expect("the name is one");
        client.set_buffer_limit(None);
        Self {
            client,
            client_failed: false,
            server: Server::new(Some(Lengths(seed.into()))),
            written: Vec::new(),
            new_keys: 0,
            edits: Vec::new(),
            tampered: false,
            closed: false,
            answered: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn play(mut self, mut script: Script<'_>) {
        while !script.0.is_empty() {
            match script.byte() % 8 {
                0 => self.write(257 * usize::from(script.byte())),
                1 => self.deliver(),
                2 => self.edits.push(Edit::Flip(script.short(), script.byte())),
                3 => {
                    let (at, len) = (script.short(), usize::from(script.byte()));
                    self.edits.push(Edit::Insert(at, script.take(len).to_vec()));
                }
                4 => self.edits.push(Edit::Remove(script.short(), 1 + usize::from(script.byte()))),
                5 => self.renew_keys(),
                // During the handshake, a close alert would have no meaning.
                6 if self.client.is_handshaking() => {}
                6 => {
                    self.closed = true;
                    self.client.send_close_notify();
                }
                _ => self.send(257 * usize::from(script.byte())),
            }
        }
        self.deliver();
        self.deliver();
        if !self.tampered && !self.client_failed {
            // A handshake takes at most two round trips.
            self.deliver();
            assert!(!self.server.stream.has_failed(), "it failed without a cause");
            assert_eq!(self.server.received.len(), self.written.len(), "something is missing");
            assert_eq!(self.server.stream.has_ended(), self.closed);
        }
    }

    /// Lets the client write bytes. Does nothing if the client has already ended or failed.
    fn write(&mut self, len: usize) {
        if self.closed || self.client_failed || self.written.len() + len > WRITTEN_BYTES_MAX {
            return;
        }
        let start = self.written.len();
        self.written.extend((start..start + len).map(|at| (at / 7) as u8));
        let written = self.client.writer().write(&self.written[start..]);
        assert_eq!(written.expect("it has no limit"), len);
    }

    fn renew_keys(&mut self) {
        if self.new_keys < NEW_KEYS_MAX {
            self.new_keys += 1;
            // Ignore an error. The update fails before the keys exist, and also with the older
            // version of TLS.
            let _ = self.client.refresh_traffic_keys();
        }
    }

    /// Lets the server write bytes, if it has finished the handshake. It writes only as many bytes
    /// as fit.
    fn send(&mut self, len: usize) {
        if self.server.stream.is_unusable() {
            return;
        }
        let start = self.sent.len();
        let bytes: Vec<u8> = (start..start + len).map(|at| (at / 5) as u8).collect();
        let taken = self.server.stream.encrypt(&bytes).expect("it only gathers");
        self.sent.extend_from_slice(&bytes[..taken]);
    }

    /// Delivers the client's bytes to the server, and the server's answer to the client.
    fn deliver(&mut self) {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).expect("a vector takes everything");
        }
        for edit in std::mem::take(&mut self.edits) {
            self.tampered |= edit.apply(&mut bytes);
        }
        self.server.receive(&bytes);
        assert!(self.written.starts_with(&self.server.received), "the client did not write this");
        let answer = self.server.answer();
        let mut answer = answer.as_slice();
        while !answer.is_empty() && !self.client_failed {
            let taken = self.client.read_tls(&mut answer);
            let state = self.client.process_new_packets();
            self.client_failed = !matches!(taken, Ok(1..)) || state.is_err();
            let start = self.answered.len();
            let count = state.map_or(0, |state| state.plaintext_bytes_to_read());
            self.answered.resize(start + count, 0);
            self.client.reader().read_exact(&mut self.answered[start..]).expect("so much is there");
        }
        assert!(self.sent.starts_with(&self.answered), "the server did not say this");
    }
}

impl Edit {
    /// Applies the change. Returns whether it changed any bytes.
    fn apply(self, bytes: &mut Vec<u8>) -> bool {
        let len = bytes.len();
        match self {
            Edit::Insert(at, inserted) => {
                let at = at % (len + 1);
                let changes = !inserted.is_empty();
                bytes.splice(at..at, inserted);
                changes
            }
            Edit::Flip(..) | Edit::Remove(..) if len == 0 => false,
            Edit::Flip(at, bits) => {
                bytes[at % len] ^= bits;
                bits != 0
            }
            Edit::Remove(at, count) => {
                let at = at % len;
                bytes.drain(at..len.min(at + count));
                true
            }
        }
    }
}

/// The part of a script that is not played yet. After the end of the script, every byte reads as 0.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn short(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }
}

/// Lengths of fragments. Most are short, and none exceeds [`ROOM`].
struct Lengths(u32);

impl Lengths {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let draw = (self.0 >> 24) as usize;
        if draw < 160 { 1 + draw } else { (draw * 97).min(ROOM) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn scripts_of_tls_give_what_the_client_wrote(script in vec(any::<u8>(), 0..60)) {
            check(&script);
        }
    }

    #[test]
    fn the_fuzz_corpus_of_tls_gives_what_the_client_wrote() {
        for file in testkit::fuzz_corpus("tls", 5) {
            check(&file);
        }
    }
}

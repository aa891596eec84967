//! The connection to a server: a TCP or UNIX socket, perhaps with TLS, with two buffered halves for
//! writing and for reading.

use std::io::{self, BufWriter, Read, Write};
use std::marker::PhantomData;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use notation::address::Address;

use super::error::{ClientError, PATIENCE};
use super::target::Target;
use super::tls::TlsSession;

/// A message from a server, of either protocol.
pub(crate) trait Message: Sized {
    /// Parses one message at the start of `input`. Returns the message and its length, or `None` if
    /// the message is incomplete.
    fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, ClientError>;
}

/// Size of one read from the socket.
const READ_BYTES: usize = 64 * 1024;

/// Size of the buffer for writes to the socket.
const WRITE_BYTES: usize = 64 * 1024;

/// Time without received data before the first keep-alive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);

/// Time between keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Number of unanswered probes after which the connection counts as broken.
const KEEPALIVE_COUNT: u32 = 4;

/// A connected socket of either kind.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One half of a connection.
#[derive(Debug)]
struct Stream {
    socket: Socket,
    tls: Option<TlsSession>,
}

/// Connects, and returns the two halves of the connection. With a `timeout`, a write waits at most
/// [`PATIENCE`].
pub(super) fn open<M: Message>(
    target: &Target,
    timeout: Option<Duration>,
) -> Result<(Requests, Replies<M>), ClientError> {
    let unreachable = |reason| ClientError::Unreachable { address: target.to_string(), reason };
    let mut socket = connect(target.address(), timeout).map_err(unreachable)?;
    socket.set_write_timeout(timeout.map(|_| PATIENCE)).map_err(unreachable)?;
    let tls = target.tls_connection().map(|connection| {
        socket.set_read_timeout(Some(PATIENCE))?;
        let session = TlsSession::begin(connection.map_err(io::Error::other)?, &mut socket)?;
        socket.set_read_timeout(None)?;
        Ok(session)
    });
    let failed = |reason| ClientError::Handshake { address: target.to_string(), reason };
    split(socket, tls.transpose().map_err(failed)?).map_err(unreachable)
}

/// Connects to the first address of the host that accepts the connection.
fn connect(address: &Address, timeout: Option<Duration>) -> io::Result<Socket> {
    let (host, port) = match address {
        Address::Unix(path) => return UnixStream::connect(path).map(Socket::Unix),
        Address::Tcp { host, port } => (host.as_str(), *port),
    };
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for candidate in (host, port).to_socket_addrs()? {
        let attempt = match timeout {
            Some(timeout) => TcpStream::connect_timeout(&candidate, timeout),
            None => TcpStream::connect(candidate),
        };
        match attempt {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                watch_over(&stream)?;
                return Ok(Socket::Tcp(stream));
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Turns on keep-alive probes. A wait for a job can take days, but it must end if the server's
/// machine or the network fails.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Splits a connection into its two halves.
fn split<M: Message>(
    socket: Socket,
    tls: Option<TlsSession>,
) -> io::Result<(Requests, Replies<M>)> {
    let for_writing = Stream { socket: socket.try_clone()?, tls: tls.clone() };
    let stream = Stream { socket, tls };
    let requests = Requests { writer: BufWriter::with_capacity(WRITE_BYTES, for_writing) };
    let replies =
        Replies { stream, buffer: Vec::new(), start: 0, read_timeout: None, message: PhantomData };
    Ok((requests, replies))
}

/// The half of a connection that writes. It sends only when its buffer is full, or at
/// [`Requests::flush`].
#[derive(Debug)]
pub(crate) struct Requests {
    writer: BufWriter<Stream>,
}

impl Requests {
    /// Adds the parts of one request to the buffer.
    pub(super) fn add(&mut self, parts: &[&[u8]]) -> Result<(), ClientError> {
        for part in parts {
            self.writer.write_all(part).map_err(ClientError::Broken)?;
        }
        Ok(())
    }

    /// The own address of the connection, as the server sees it. `None` at a unix socket.
    pub(crate) fn local_address(&self) -> Option<String> {
        match &self.writer.get_ref().socket {
            Socket::Tcp(socket) => Some(socket.local_addr().ok()?.to_string()),
            Socket::Unix(_) => None,
        }
    }

    /// Sends all buffered requests.
    pub(crate) fn flush(&mut self) -> Result<(), ClientError> {
        self.writer.flush().map_err(ClientError::Broken)
    }
}

/// The half of a connection that reads.
#[derive(Debug)]
pub(crate) struct Replies<M> {
    stream: Stream,
    /// Received bytes. The bytes before `start` are already parsed.
    buffer: Vec<u8>,
    start: usize,
    /// The socket's current timeout. If the timeout does not change, no system call is needed.
    read_timeout: Option<Duration>,
    message: PhantomData<M>,
}

impl<M: Message> Replies<M> {
    /// Waits for the next reply without a time limit.
    pub(crate) fn next_reply(&mut self) -> Result<M, ClientError> {
        loop {
            if let Some(reply) = self.buffered()? {
                return Ok(reply);
            }
            self.set_read_timeout(None)?;
            self.fill()?;
        }
    }

    /// Waits at most `timeout` for the next reply. The received part of an incomplete reply stays
    /// in the buffer.
    pub(crate) fn next_within(&mut self, timeout: Duration) -> Result<Option<M>, ClientError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(reply) = self.buffered()? {
                return Ok(Some(reply));
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(None);
            }
            // The system rounds a timeout down to microseconds, and reads 0 as no timeout. So use
            // at least 1 ms.
            self.set_read_timeout(Some(remaining.max(Duration::from_millis(1))))?;
            self.fill()?;
        }
    }

    /// Fails if the server has closed the connection. Does not wait.
    pub(crate) fn check_open(&mut self) -> Result<(), ClientError> {
        self.stream.socket.set_nonblocking(true).map_err(ClientError::Broken)?;
        let outcome = self.fill();
        self.stream.socket.set_nonblocking(false).map_err(ClientError::Broken)?;
        outcome
    }

    /// Returns the next reply if it has arrived. Does not wait. Fails if the server has closed the
    /// connection.
    pub(crate) fn next_if_there(&mut self) -> Result<Option<M>, ClientError> {
        if let Some(reply) = self.buffered()? {
            return Ok(Some(reply));
        }
        self.check_open()?;
        self.buffered()
    }

    fn buffered(&mut self) -> Result<Option<M>, ClientError> {
        let Some((reply, used)) = M::parse(&self.buffer[self.start..])? else {
            return Ok(None);
        };
        self.start += used;
        Ok(Some(reply))
    }

    /// Reads once from the socket. It is not an error if nothing arrives before the timeout.
    fn fill(&mut self) -> Result<(), ClientError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let outcome = self.stream.read(&mut self.buffer[filled..]);
        self.buffer.truncate(filled + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) => Err(ClientError::Closed),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(ClientError::Broken(error)),
            },
        }
    }

    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> Result<(), ClientError> {
        if self.read_timeout != timeout {
            self.stream.socket.set_read_timeout(timeout).map_err(ClientError::Broken)?;
            self.read_timeout = timeout;
        }
        Ok(())
    }
}

impl Socket {
    fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
        })
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(timeout),
            Socket::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Sets the time limit of a write. A write takes long if the server does not read.
    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_write_timeout(timeout),
            Socket::Unix(stream) => stream.set_write_timeout(timeout),
        }
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Socket::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read(&mut self.socket, buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.write(bytes),
            Some(tls) => tls.write(&mut self.socket, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_silent_server_is_probed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port };
        let Socket::Tcp(stream) = connect(&address, None).unwrap() else { panic!("no TCP") };
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_IDLE);
    }
}

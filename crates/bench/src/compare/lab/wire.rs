//! A small blocking connection for requests of any protocol, for measurements of single requests.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;

use crate::driver::packets::append_request;

/// Size of the buffer for one read of a long reply.
const BUFFER_BYTES: usize = 256 * 1024;
/// The most that one call sends or reads of a large job. A heavy load shares its processor with the client
/// that is measured, and the kernel hardly interrupts a long copy. With 10 MiB in one call, the client
/// waited up to 3 ms for the processor, whatever the server did.
const PIECE_BYTES: usize = 64 * 1024;
/// The time limit for each read of a page.
const PAGE_REST_MAX: Duration = Duration::from_mins(1);

/// One connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A handle that closes a connection from another thread, so that the connection's reader stops.
#[derive(Debug)]
pub(crate) struct Disconnect(TcpStream);

impl Disconnect {
    /// Closes the connection.
    pub(crate) fn cut(&self) {
        // The connection may already have ended.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Wire {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES] })
    }

    /// A handle that can close this connection.
    pub(crate) fn disconnect(&self) -> anyhow::Result<Disconnect> {
        Ok(Disconnect(self.stream.try_clone()?))
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        for piece in request.chunks(PIECE_BYTES) {
            self.stream.write_all(piece)?;
        }
        Ok(())
    }

    /// Reads until the last bytes are `tail`. The server must not send any bytes after them.
    pub(crate) fn read_to(&mut self, tail: &[u8]) -> anyhow::Result<()> {
        let mut last = Vec::new();
        while !last.ends_with(tail) {
            let count = self.read()?;
            last.extend_from_slice(&self.buffer[count.saturating_sub(tail.len())..count]);
            last.drain(..last.len().saturating_sub(tail.len()));
        }
        Ok(())
    }

    /// Reads this many lines. The server must not send any bytes after them.
    pub(crate) fn read_lines(&mut self, mut lines: usize) -> anyhow::Result<()> {
        while lines > 0 {
            let count = self.read()?;
            let came = memchr::memchr_iter(b'\n', &self.buffer[..count]).count();
            anyhow::ensure!(came <= lines, "more lines came than were asked for");
            lines -= came;
        }
        Ok(())
    }

    /// Reads this many lines and returns them. The server must not send any bytes after them.
    pub(crate) fn read_text(&mut self, lines: usize) -> anyhow::Result<String> {
        let mut text = Vec::new();
        let mut came = 0;
        while came < lines {
            let count = self.read()?;
            came += memchr::memchr_iter(b'\n', &self.buffer[..count]).count();
            text.extend_from_slice(&self.buffer[..count]);
        }
        anyhow::ensure!(came == lines, "more lines came than were asked for");
        Ok(String::from_utf8(text)?)
    }

    /// Reads Gearman packets until a job is assigned. Returns the job's handle.
    pub(crate) fn read_handle(&mut self) -> anyhow::Result<Vec<u8>> {
        const JOB_ASSIGN: u32 = 11;
        loop {
            let mut header = [0; 12];
            self.stream.read_exact(&mut header)?;
            let number = |at: usize| {
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            let mut rest = number(8) as usize;
            let mut handle = Vec::new();
            while rest > 0 {
                let piece = &mut self.buffer[..rest.min(PIECE_BYTES)];
                self.stream.read_exact(piece)?;
                if handle.is_empty() {
                    handle = piece.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
                }
                rest -= piece.len();
            }
            if number(4) == JOB_ASSIGN {
                return Ok(handle);
            }
        }
    }

    /// Returns the socket, for a caller that only keeps it open.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Reads and discards all bytes until the connection ends.
    pub(crate) fn drain(&mut self) {
        while self.read().is_ok() {}
    }

    fn read(&mut self) -> anyhow::Result<usize> {
        let count = self.stream.read(&mut self.buffer)?;
        anyhow::ensure!(count > 0, "the server closed the connection");
        Ok(count)
    }
}

/// A Gearman packet from a client.
pub(crate) fn packet(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    append_request(kind, &[body], &mut packet);
    packet
}

/// Requests a page over HTTP on a new connection. Fails if the status is not 200.
pub(crate) fn page(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PAGE_REST_MAX))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let status = page.lines().next().unwrap_or_default();
    anyhow::ensure!(status.contains(" 200 "), "{path}: {status}");
    Ok(page)
}

/// The job ids in the replies to beanstalkd's `put`.
pub(crate) fn inserted(replies: &str) -> Vec<u64> {
    let id = |line: &str| line.strip_prefix("INSERTED ")?.parse().ok();
    replies.lines().filter_map(id).collect()
}

/// The requests that delete these jobs.
pub(crate) fn deletes(ids: &[u64]) -> Vec<u8> {
    ids.iter().flat_map(|id| format!("delete {id}\r\n").into_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_jobs_that_were_taken() {
        let replies = "USING mix\r\nINSERTED 7\r\nOUT_OF_MEMORY\r\nINSERTED 12\r\n";
        assert_eq!(inserted(replies), [7, 12]);
    }
}

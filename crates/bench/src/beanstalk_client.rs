//! A small blocking beanstalkd client, for measurements of single jobs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;

/// The time limit for a reply.
const REPLY_MAX: Duration = Duration::from_mins(1);

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    line: String,
}

/// A job from a reserve.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) id: u64,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        Ok(Self { stream: BufReader::with_capacity(1024, stream), line: String::new() })
    }

    /// Selects `tube` for later puts. Reserves then take only from this tube.
    pub(crate) fn enter(&mut self, tube: &str) -> anyhow::Result<()> {
        self.command(&format!("use {tube}\r\n"), "USING")?;
        self.command(&format!("watch {tube}\r\n"), "WATCHING")?;
        if tube != "default" {
            self.command("ignore default\r\n", "WATCHING")?;
        }
        Ok(())
    }

    /// Sends bytes in one write.
    pub(crate) fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.get_mut().write_all(request)?)
    }

    /// Reads one line of a reply, and returns it without its end.
    pub(crate) fn reply(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        let length = self.stream.read_line(&mut self.line).context("no reply")?;
        anyhow::ensure!(length > 0, "the server closed the connection");
        Ok(self.line.trim_end())
    }

    /// Reads one line of a reply. Fails if the line does not begin with `word`.
    pub(crate) fn expect(&mut self, word: &str) -> anyhow::Result<&str> {
        let reply = self.reply()?;
        anyhow::ensure!(reply.starts_with(word), "expected {word}, got {reply}");
        Ok(reply)
    }

    /// Sends a request. Fails if the reply does not begin with `word`.
    pub(crate) fn command(&mut self, request: &str, word: &str) -> anyhow::Result<()> {
        self.send(request.as_bytes())?;
        self.expect(word)?;
        Ok(())
    }

    /// Puts a job.
    pub(crate) fn put(&mut self, delay_s: u32, ttr_s: u32, body: &[u8]) -> anyhow::Result<()> {
        let mut request = format!("put 1024 {delay_s} {ttr_s} {}\r\n", body.len()).into_bytes();
        request.extend_from_slice(body);
        request.extend_from_slice(b"\r\n");
        self.send(&request)?;
        self.expect("INSERTED")?;
        Ok(())
    }

    /// Reads the reply to a reserve. Returns `None` if the reserve timed out.
    pub(crate) fn reserved(&mut self) -> anyhow::Result<Option<Reserved>> {
        let reply = self.reply()?;
        if reply == "TIMED_OUT" {
            return Ok(None);
        }
        let mut words = reply.split(' ');
        let (Some("RESERVED"), Some(id), Some(size)) = (words.next(), words.next(), words.next())
        else {
            anyhow::bail!("expected RESERVED, got {reply}");
        };
        let (id, size): (u64, usize) = (id.parse()?, size.parse()?);
        let mut body = vec![0; size + 2];
        self.stream.read_exact(&mut body)?;
        body.truncate(size);
        Ok(Some(Reserved { id, body }))
    }

    /// The number of a tube's jobs in a state, such as `ready`. A tube without jobs and clients does
    /// not exist, so it has none.
    pub(crate) fn jobs_in(&mut self, tube: &str, state: &str) -> anyhow::Result<u64> {
        self.send(format!("stats-tube {tube}\r\n").as_bytes())?;
        let reply = self.reply()?;
        if reply == "NOT_FOUND" {
            return Ok(0);
        }
        let size =
            reply.strip_prefix("OK ").with_context(|| format!("expected OK, got {reply}"))?;
        let mut text = vec![0; size.parse::<usize>()? + 2];
        self.stream.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let name = format!("current-jobs-{state}");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(": "));
        Ok(line.with_context(|| format!("the statistics have no {name}"))?.trim().parse()?)
    }

    /// Returns the socket, for a caller that polls many sockets. The caller must have read all
    /// replies.
    pub(crate) fn into_nonblocking(self) -> anyhow::Result<mio::net::TcpStream> {
        assert!(self.stream.buffer().is_empty(), "a reply would be lost");
        let stream = self.stream.into_inner();
        stream.set_nonblocking(true)?;
        Ok(mio::net::TcpStream::from_std(stream))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_tube_that_does_not_exist_has_no_jobs() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let statistics = "---\nname: some\ncurrent-jobs-ready: 7\ncurrent-jobs-delayed: 3\n";
        write!(server, "OK {}\r\n{statistics}\r\nNOT_FOUND\r\n", statistics.len()).unwrap();
        assert_eq!(client.jobs_in("some", "ready").unwrap(), 7);
        assert_eq!(client.jobs_in("empty", "ready").unwrap(), 0);
        drop(server);
        client.jobs_in("some", "ready").unwrap_err();
    }
}

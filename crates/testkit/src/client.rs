//! A small blocking beanstalk client, for tests that check jobs and not bytes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::conformance::lines::block;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// A job as the server sends it for `reserve` and `peek`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The id of the job.
    pub id: u64,
    /// The body of the job.
    pub body: Vec<u8>,
}

impl Client {
    /// Connects. A reply that takes longer than 30 seconds is an error.
    pub fn connect(server: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(server).with_context(|| format!("connecting {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_write_timeout(Some(Duration::from_secs(30)))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Connects, uses this tube, and watches only this tube.
    pub fn on_tube(server: SocketAddr, tube: &str) -> Result<Client> {
        let mut client = Client::connect(server)?;
        client.expect(&format!("use {tube}"), &format!("USING {tube}"))?;
        if tube != "default" {
            client.expect(&format!("watch {tube}"), "WATCHING 2")?;
            client.expect("ignore default", "WATCHING 1")?;
        }
        Ok(client)
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Sends a line, and returns the first line of the reply. Both are without their line ends.
    pub fn command(&mut self, line: &str) -> Result<String> {
        self.send(format!("{line}\r\n").as_bytes())?;
        self.read_line()
    }

    /// Sends a line. Fails if the reply is not `reply`.
    pub fn expect(&mut self, line: &str, reply: &str) -> Result<()> {
        let got = self.command(line)?;
        ensure!(got == reply, "{line}: wanted {reply}, got {got}");
        Ok(())
    }

    /// Sends a put and returns the first line of its reply.
    pub fn try_put(&mut self, pri: u32, delay_s: u32, ttr_s: u32, body: &[u8]) -> Result<String> {
        let mut bytes = format!("put {pri} {delay_s} {ttr_s} {}\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes)?;
        self.read_line()
    }

    /// Puts a job and returns its id.
    pub fn put(&mut self, pri: u32, delay_s: u32, ttr_s: u32, body: &[u8]) -> Result<u64> {
        let reply = self.try_put(pri, delay_s, ttr_s, body)?;
        let id = reply.strip_prefix("INSERTED ").with_context(|| format!("put: {reply}"))?;
        Ok(id.parse()?)
    }

    /// Reserves a job. Waits at most `timeout_s` seconds for it.
    pub fn reserve(&mut self, timeout_s: u32) -> Result<Option<Job>> {
        match self.job(&format!("reserve-with-timeout {timeout_s}"))? {
            Ok(job) => Ok(Some(job)),
            Err(reply) if reply == "TIMED_OUT" => Ok(None),
            Err(reply) => bail!("reserve: {reply}"),
        }
    }

    /// Sends a peek command or `reserve-job`.
    pub fn peek(&mut self, line: &str) -> Result<Option<Job>> {
        match self.job(line)? {
            Ok(job) => Ok(Some(job)),
            Err(reply) if reply == "NOT_FOUND" => Ok(None),
            Err(reply) => bail!("{line}: {reply}"),
        }
    }

    /// The values in the reply to a statistics command, by key.
    pub fn stats(&mut self, line: &str) -> Result<BTreeMap<String, String>> {
        let first = self.command(line)?;
        let body_bytes = first.strip_prefix("OK ").with_context(|| format!("{line}: {first}"))?;
        let body = self.read_body(body_bytes.parse()?)?;
        let text = String::from_utf8_lossy(&body);
        Ok(block::pairs(text.strip_prefix("---\n").context("no block")?)?.into_iter().collect())
    }

    /// Reads one line, and returns it without its end. Fails if the connection ends first.
    pub fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let text = line.strip_suffix("\r\n");
        Ok(text.with_context(|| format!("the connection ended after {line:?}"))?.to_owned())
    }

    /// Reads a body of this length, and its line end.
    pub fn read_body(&mut self, body_bytes: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; body_bytes + 2];
        self.stream.read_exact(&mut body)?;
        ensure!(body.ends_with(b"\r\n"), "a body without its end");
        body.truncate(body_bytes);
        Ok(body)
    }

    /// Reads until the server closes the connection.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Closes the sending direction of the connection.
    pub fn half_close(&mut self) -> Result<()> {
        Ok(self.stream.get_ref().shutdown(std::net::Shutdown::Write)?)
    }

    /// Sets another time limit for replies.
    pub fn set_reply_timeout(&mut self, timeout: Duration) -> Result<()> {
        Ok(self.stream.get_ref().set_read_timeout(Some(timeout))?)
    }

    /// Sends a line. Returns the job in the reply, or the reply's line if it has no job.
    fn job(&mut self, line: &str) -> Result<Result<Job, String>> {
        let reply = self.command(line)?;
        let words: Vec<&str> = reply.split(' ').collect();
        let &["RESERVED" | "FOUND", id, body_bytes] = words.as_slice() else {
            return Ok(Err(reply));
        };
        let (id, body_bytes) = (id.parse()?, body_bytes.parse()?);
        Ok(Ok(Job { id, body: self.read_body(body_bytes)? }))
    }
}

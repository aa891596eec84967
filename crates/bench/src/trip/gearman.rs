//! Foreground round trip in Gearman: a client submits a job, a sleeping worker does it, and the
//! client gets the result.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::pair::RoundTrip;
use crate::driver::packets::{
    HEADER_BYTES, append_request, first_argument, kind, kind_of, packet_bytes,
};

/// The time limit for a reply.
const REPLY_MAX: Duration = Duration::from_mins(1);

/// A client, and a worker that sleeps between trips.
pub(super) struct Pair {
    client: Connection,
    worker: Connection,
    submit: Vec<u8>,
    body: Vec<u8>,
}

impl Pair {
    /// Connects client and worker. They use the function `bench-trip-<index>`.
    pub(super) fn open(
        address: SocketAddr,
        index: usize,
        body_bytes: usize,
    ) -> anyhow::Result<Self> {
        let function = format!("bench-trip-{index}");
        let body = vec![b'x'; body_bytes];
        let mut submit = Vec::new();
        append_request(kind::SUBMIT_JOB, &[function.as_bytes(), b"", &body], &mut submit);
        let client = Connection::open(address)?;
        let mut worker = Connection::open(address)?;
        worker.send(kind::CAN_DO, &[function.as_bytes()])?;
        // Check that there is no old job. The worker could not distinguish an old job from a job of
        // a trip. If the worker grabs an old job here, the server gets the job back when the
        // connection ends.
        worker.send(kind::GRAB_JOB, &[])?;
        let reply = worker.receive()?;
        anyhow::ensure!(
            reply == kind::NO_JOB,
            "the function {function} has jobs, but trip needs an empty one; take them with \
             `lineshaft bench take --protocol gearman --queue {function}`"
        );
        worker.send(kind::PRE_SLEEP, &[])?;
        Ok(Self { client, worker, submit, body })
    }

    /// Sleeps until there is a job. Then the worker's `body` has the job's handle.
    fn assigned(&mut self) -> anyhow::Result<()> {
        loop {
            self.worker.expect(kind::NOOP)?;
            self.worker.send(kind::GRAB_JOB, &[])?;
            match self.worker.receive()? {
                kind::JOB_ASSIGN => return Ok(()),
                // A server can wake a worker although there is no job for this worker.
                kind::NO_JOB => self.worker.send(kind::PRE_SLEEP, &[])?,
                other => anyhow::bail!("a grab was answered by a packet of type {other}"),
            }
        }
    }
}

impl RoundTrip for Pair {
    fn trip(&mut self) -> anyhow::Result<Instant> {
        self.client.stream.get_mut().write_all(&self.submit)?;
        self.assigned()?;
        let handle = first_argument(&self.worker.body).to_vec();
        self.worker.send(kind::WORK_COMPLETE, &[&handle, &self.body])?;
        self.client.expect(kind::JOB_CREATED)?;
        let created = self.client.body.clone();
        self.client.expect(kind::WORK_COMPLETE)?;
        let arrived = Instant::now();
        anyhow::ensure!(created == handle, "another client submits to the functions of trip");
        self.worker.send(kind::GRAB_JOB, &[])?;
        self.worker.expect(kind::NO_JOB)?;
        self.worker.send(kind::PRE_SLEEP, &[])?;
        Ok(arrived)
    }
}

/// A blocking connection that reads one packet at a time.
struct Connection {
    stream: BufReader<TcpStream>,
    /// The body of the last packet: its arguments.
    body: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        Ok(Self { stream: BufReader::with_capacity(1024, stream), body: Vec::new() })
    }

    fn send(&mut self, kind: u32, arguments: &[&[u8]]) -> anyhow::Result<()> {
        let mut request = Vec::new();
        append_request(kind, arguments, &mut request);
        Ok(self.stream.get_mut().write_all(&request)?)
    }

    /// Reads a packet. Returns its type.
    fn receive(&mut self) -> anyhow::Result<u32> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).context("no reply")?;
        let length = packet_bytes(&header)?.expect("the header is complete");
        self.body.resize(length - HEADER_BYTES, 0);
        self.stream.read_exact(&mut self.body).context("no end of a reply")?;
        Ok(kind_of(&header))
    }

    /// Reads a packet. Fails if the packet is of another type.
    fn expect(&mut self, kind: u32) -> anyhow::Result<()> {
        let received = self.receive()?;
        anyhow::ensure!(
            received == kind,
            "expected a packet of type {kind}, got {received}: {}",
            String::from_utf8_lossy(&self.body)
        );
        Ok(())
    }
}

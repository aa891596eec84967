//! One connection of a load: its socket, its driver, and the times when its operations in flight
//! began.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;

use crate::driver::{Driver, Progress};
use crate::latency::Latency;
use crate::schedule::Schedule;

pub(super) struct Connection {
    stream: TcpStream,
    driver: Box<dyn Driver>,
    /// Bytes to send. The first `sent` bytes are sent.
    output: Vec<u8>,
    sent: usize,
    in_flight: usize,
    begun: u64,
    ended: u64,
    /// In a closed loop, the operations in flight, oldest first, grouped by the moment of sending.
    /// Replies on a connection arrive in order, so the oldest group ends first.
    groups: VecDeque<(Instant, u32)>,
}

impl Connection {
    /// Connects, and waits until the server accepts or refuses the connection.
    pub(super) fn open(address: SocketAddr, driver: Box<dyn Driver>) -> anyhow::Result<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            driver,
            output: Vec::new(),
            sent: 0,
            in_flight: 0,
            begun: 0,
            ended: 0,
            groups: VecDeque::new(),
        })
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Reads all bytes that have arrived.
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> anyhow::Result<Progress> {
        let mut total = Progress::default();
        loop {
            match self.stream.read(scratch) {
                Ok(0) => anyhow::bail!("the server closed a connection"),
                Ok(length) => {
                    let progress = self.driver.receive(&scratch[..length], &mut self.output)?;
                    total.finished += progress.finished;
                    total.missed += progress.missed;
                    total.failed += progress.failed;
                    total.failure = total.failure.or(progress.failure);
                    // This read was short, so the socket is empty. Later bytes will cause a new
                    // event. Returning here saves a system call.
                    if length < scratch.len() {
                        return Ok(total);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(total),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Begins up to `count` operations. The next flush sends them.
    pub(super) fn begin(&mut self, count: usize, now: Instant) -> usize {
        let begun = self.driver.begin(count, &mut self.output);
        if begun > 0 {
            self.in_flight += begun;
            self.begun += begun as u64;
            self.groups.push_back((now, begun as u32));
        }
        begun
    }

    /// Sends as many bytes as the socket accepts. The remaining bytes are sent when the socket is
    /// writable again.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Closed loop: notes that the oldest `ended` operations are over.
    pub(super) fn end_closed(
        &mut self,
        ended: u32,
        now: Instant,
        mut latency: Option<&mut Latency>,
    ) {
        self.end(ended);
        let mut left = ended;
        while left > 0 {
            let Some((began, count)) = self.groups.front_mut() else { return };
            let part = left.min(*count);
            if let Some(latency) = latency.as_deref_mut() {
                latency.record((now - *began).as_nanos() as u64, u64::from(part));
            }
            left -= part;
            *count -= part;
            if *count == 0 {
                self.groups.pop_front();
            }
        }
    }

    /// Open loop: notes that the oldest `ended` operations are over. The latency of each counts
    /// from its due time.
    pub(super) fn end_scheduled(
        &mut self,
        ended: u32,
        index: usize,
        schedule: Schedule,
        start: Instant,
        now: Instant,
        latency: Option<&mut Latency>,
    ) {
        self.groups.clear();
        if let Some(latency) = latency {
            let now_ns = (now - start).as_nanos() as u64;
            for nth in self.ended..self.ended + u64::from(ended) {
                latency.record(now_ns.saturating_sub(schedule.due_ns(index, nth)), 1);
            }
        }
        self.end(ended);
    }

    fn end(&mut self, ended: u32) {
        self.ended += u64::from(ended);
        // If the server refuses an opening request, the driver reports the end of an operation that
        // never began. The report shows the failure.
        self.in_flight = self.in_flight.saturating_sub(ended as usize);
    }
}

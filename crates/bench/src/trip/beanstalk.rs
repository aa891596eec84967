//! A round trip in beanstalkd's protocol: from a put to a waiting reserve.

use std::net::SocketAddr;
use std::time::Instant;

use super::pair::RoundTrip;
use crate::beanstalk_client::Client;

/// A producer, and a consumer that waits for its jobs.
pub(super) struct Pair {
    producer: Client,
    consumer: Client,
    request: Vec<u8>,
}

impl Pair {
    /// Connects producer and consumer. They use the queue `bench-trip-<index>`.
    pub(super) fn open(
        address: SocketAddr,
        index: usize,
        body_bytes: usize,
    ) -> anyhow::Result<Self> {
        let tube = format!("bench-trip-{index}");
        let mut producer = Client::connect(address)?;
        producer.enter(&tube)?;
        // Check that there is no old job. The consumer could not distinguish an old job from a job
        // of a trip.
        for state in ["ready", "delayed", "reserved"] {
            let count = producer.jobs_in(&tube, state)?;
            anyhow::ensure!(
                count == 0,
                "the queue {tube} has jobs ({count} {state}), but trip needs an empty one; empty it \
             with `lineshaft work {tube} --drain -- true`"
            );
        }
        let mut consumer = Client::connect(address)?;
        consumer.enter(&tube)?;
        consumer.send(b"reserve\r\n")?;
        Ok(Self { producer, consumer, request: put_request(body_bytes) })
    }
}

impl RoundTrip for Pair {
    fn trip(&mut self) -> anyhow::Result<Instant> {
        self.producer.send(&self.request)?;
        let job = self.consumer.reserved()?;
        let arrived = Instant::now();
        let job = job.ok_or_else(|| anyhow::anyhow!("a reserve without a timeout timed out"))?;
        self.producer.expect("INSERTED")?;
        self.consumer.send(format!("delete {}\r\nreserve\r\n", job.id).as_bytes())?;
        self.consumer.expect("DELETED")?;
        Ok(arrived)
    }
}

fn put_request(body_bytes: usize) -> Vec<u8> {
    let mut request = format!("put 1024 0 120 {body_bytes}\r\n").into_bytes();
    request.resize(request.len() + body_bytes, b'x');
    request.extend_from_slice(b"\r\n");
    request
}

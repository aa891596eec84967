//! A server of one connection: a broker with a log, a session and its outbox.

use std::sync::Arc;

use broker::{
    Answer, Broker, Dialect, Event, Mailbox, Millis, Options, Outbox, SessionId, Settings, Turn,
};
use log::FaultDisk;

/// The time of all requests.
pub(crate) const NOW: Millis = Millis(1_700_000_000_000);

const DISK_BYTES: u64 = 1 << 30;
/// Small segments, because callgrind is slow, and the log fills a segment before it is used.
const SEGMENT_BYTES: u64 = 1 << 20;

pub(crate) struct Server {
    broker: Broker,
    session: Box<dyn Dialect>,
    outbox: Outbox,
}

/// The sessions of this program never wait, so they get no events.
struct NoEvents;

impl Mailbox for NoEvents {
    fn deliver(&self, _session: SessionId, _event: Answer<Event>) {}

    fn released(&self) {}

    fn alarm(&self, _at: Millis) {}
}

impl Server {
    /// A server with an empty log, and one connection.
    pub(crate) fn new<D: Dialect + 'static>(
        connect: impl FnOnce(&mut Turn<'_>, usize) -> D,
    ) -> Self {
        let disk = Arc::new(FaultDisk::new(1, DISK_BYTES));
        let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
        let options = Options::without_threads(disk, settings);
        let (broker, _) = Broker::open(options, NOW).expect("an empty disk works");
        let mailbox = broker.add_mailbox(Arc::new(NoEvents));
        let session = Box::new(connect(&mut broker.turn(NOW), mailbox));
        Self { broker, session, outbox: Outbox::default() }
    }

    /// Handles a request that is not counted. Returns the reply.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(request);
        self.commit();
        self.reply()
    }

    /// Handles a request that is counted, up to the reply. Returns the reply.
    pub(crate) fn ask_measured(&mut self, request: &[u8]) -> Vec<u8> {
        self.measured_request(request);
        self.commit();
        self.measured_send();
        self.reply()
    }

    // Callgrind counts while the program is inside this function.
    #[inline(never)]
    fn measured_request(&mut self, request: &[u8]) {
        self.send(request);
    }

    #[inline(never)]
    fn measured_send(&mut self) {
        let released = self.broker.released();
        std::hint::black_box(self.outbox.sendable(released));
    }

    /// Handles a request. Its reply comes after a commit.
    pub(crate) fn send(&mut self, request: &[u8]) {
        let mut turn = self.broker.turn(NOW);
        let progress = self.session.input(request, &mut turn, &mut self.outbox);
        assert_eq!(progress.used, request.len(), "the session has read the whole request");
    }

    /// Makes everything durable, and begins a segment of the log in time.
    pub(crate) fn commit(&mut self) {
        self.broker.commit_step(NOW).expect("the disk works");
        self.broker.prepare_step().expect("the disk works");
    }

    /// All replies that have not been read.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let released = self.broker.released();
        let mut replies = Vec::new();
        loop {
            let bytes = self.outbox.sendable(released);
            if bytes.is_empty() {
                return replies;
            }
            let count = bytes.len();
            replies.extend_from_slice(bytes);
            self.outbox.advance(count);
        }
    }
}

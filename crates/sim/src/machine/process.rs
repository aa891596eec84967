//! One process of the server: the broker, the state that sessions share, and events that are not
//! delivered yet.

use std::collections::VecDeque;
use std::sync::Arc;

use beanstalk::{Listener, ProcessorTime, ServerInfo};
use broker::{Answer, Broker, Dialect, Event, Millis, SessionId, Turn};

use super::mailbox::SimMailbox;
use crate::plan::Plan;
use crate::protocol::{Kestrel, Protocol};

/// Number of mailboxes. A real server has one per I/O thread.
pub(crate) const MAILBOXES: usize = 2;

/// One process of the server, from its start to its end.
pub(crate) struct Process {
    pub(crate) broker: Broker,
    beanstalk: Arc<Listener>,
    gearman: Arc<gearman::Server>,
    kestrel: Arc<kestrel::Server>,
    pub(crate) mailboxes: Vec<Arc<SimMailbox>>,
    pub(crate) events: Vec<VecDeque<(SessionId, Answer<Event>)>>,
    /// The first id that this process assigns.
    pub(crate) first_id: u64,
    /// The time at which the server's timer fires.
    pub(crate) alarm: Option<u64>,
}

/// Does nothing, because no simulated client requests a reload or a stop.
#[derive(Debug)]
struct NoControls;

impl kestrel::Controls for NoControls {
    fn reload(&self, _session: SessionId, _turn: &mut Turn<'_>) {}

    fn shut_down(&self) {}
}

impl Process {
    pub(crate) fn new(broker: Broker, plan: &Plan, now: u64) -> Self {
        broker.turn(Millis(now)).note_milestones();
        if plan.unmodelled.is_some() {
            // The model does not follow work that waits for commits.
            broker.expect_commits();
        }
        let server = beanstalk::Server::new(ServerInfo {
            pid: 1,
            version: "sim".into(),
            hostname: "host".into(),
            os: "os".into(),
            platform: "platform".into(),
            id: 1,
            segment_bytes: 0,
            started: Millis(now),
            processor_time: ProcessorTime::default,
        });
        let gearman = gearman::Server::new(gearman::ServerOptions {
            pid: 1,
            version: "sim".into(),
            round_robin: plan.gearman.round_robin,
            exceptions: plan.gearman.exceptions,
            packet_bytes_max: plan.packet_bytes_max(),
            ..gearman::ServerOptions::for_host("sim")
        });
        let options = kestrel::ServerOptions {
            started: Millis(now),
            item_bytes_max: plan.max_job_size,
            ..kestrel::ServerOptions::default()
        };
        let kestrel = kestrel::Server::new(options, Box::new(NoControls));
        let mailboxes: Vec<_> = (0..MAILBOXES).map(|_| Arc::new(SimMailbox::default())).collect();
        for (index, mailbox) in mailboxes.iter().enumerate() {
            let number = broker.add_mailbox(mailbox.clone());
            assert_eq!(number, index, "mailboxes are numbered as they come");
        }
        let mut turn = broker.turn(Millis(now));
        turn.set_wake_max(plan.gearman.wake_max);
        turn.set_attempts_max(plan.gearman.attempts_max);
        drop(turn);
        Self {
            broker,
            beanstalk: Arc::new(Listener { server, max_job_size: plan.max_job_size }),
            gearman,
            kestrel,
            mailboxes,
            events: vec![VecDeque::new(); MAILBOXES],
            first_id: 1,
            alarm: None,
        }
    }

    /// Opens the server's side of a new connection.
    pub(crate) fn open(
        &self,
        protocol: Protocol,
        turn: &mut Turn<'_>,
        mailbox: usize,
    ) -> (SessionId, Box<dyn Dialect>) {
        match protocol {
            Protocol::Beanstalk => {
                let session = beanstalk::Session::new(self.beanstalk.clone(), turn, mailbox);
                (session.id(), Box::new(session))
            }
            Protocol::Gearman => {
                let server = self.gearman.clone();
                let session = gearman::Session::new(server, "127.0.0.1", turn, mailbox);
                (session.id(), Box::new(session))
            }
            Protocol::Kestrel(Kestrel::Memcache) => {
                let server = self.kestrel.clone();
                let session = kestrel::MemcacheSession::new(server, turn, mailbox);
                (session.id(), Box::new(session))
            }
            Protocol::Kestrel(Kestrel::Text) => {
                let server = self.kestrel.clone();
                let session = kestrel::TextSession::new(server, turn, mailbox);
                (session.id(), Box::new(session))
            }
            Protocol::Kestrel(Kestrel::Thrift) => {
                let server = self.kestrel.clone();
                let session = kestrel::ThriftSession::new(server, turn, mailbox);
                (session.id(), Box::new(session))
            }
        }
    }

    /// Moves the events out of the mailboxes.
    pub(crate) fn gather(&mut self) {
        for (mailbox, events) in self.mailboxes.iter().zip(&mut self.events) {
            let mut contents = mailbox.open();
            events.append(&mut contents.events);
            if let Some(Millis(at)) = contents.alarm.take() {
                self.alarm = Some(self.alarm.map_or(at, |known| known.min(at)));
            }
        }
    }
}

//! Simulated clients: the requests that they write, and how they read replies.

mod beanstalk;
mod gearman;
mod kestrel;

use std::collections::VecDeque;

pub(crate) use gearman::packet;

use crate::plan::Plan;
use crate::protocol::{Kestrel, Protocol};
use crate::rng::Rng;

/// Ids from replies. Clients use them in requests of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Known {
    ids: VecDeque<u64>,
    /// Numbers of items that clients of thrift received.
    leases: VecDeque<u64>,
    pub(crate) newest: u64,
}

const KNOWN_IDS_MAX: usize = 60;

/// In some runs, the policies say that this name stands for the queue `a`.
pub(crate) const OTHER_NAME: &str = "sa";

impl Known {
    /// The jobs that clients got to know last.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> {
        self.ids.iter().copied()
    }

    fn note_id(&mut self, id: u64) {
        self.newest = self.newest.max(id);
        self.ids.push_back(id);
        if self.ids.len() > KNOWN_IDS_MAX {
            self.ids.pop_front();
        }
    }

    fn note_lease(&mut self, lease: u64) {
        self.leases.push_back(lease);
        if self.leases.len() > KNOWN_IDS_MAX {
            self.leases.pop_front();
        }
    }

    /// Mostly one of the newest leases.
    fn any_lease(&self, rng: &mut Rng) -> u64 {
        match self.leases.len() {
            0 => rng.below(5),
            _ if rng.one_in(10) => u64::MAX - rng.below(2),
            len => self.leases[rng.index(len)],
        }
    }

    fn any(&self, rng: &mut Rng) -> u64 {
        match rng.below(20) {
            0 => rng.below(3),
            1 => u64::MAX - rng.below(2),
            2 => self.newest + rng.below(4),
            _ if self.ids.is_empty() => 1 + rng.below(5),
            3..12 => self.ids[self.ids.len() - 1 - rng.index(self.ids.len().min(4))],
            _ => self.ids[rng.index(self.ids.len())],
        }
    }
}

/// One client: its kind, the jobs that it may hold, and the reply that it is reading.
#[derive(Debug)]
pub(crate) struct Client {
    kind: ClientKind,
    /// True if the client reads rarely.
    pub(crate) is_slow: bool,
    /// Ids of the client's jobs. For a client of thrift: the numbers of its items.
    held: Vec<u64>,
    unread: Vec<u8>,
}

#[derive(Debug)]
enum ClientKind {
    Beanstalk(beanstalk::Role),
    Gearman(gearman::Role),
    Kestrel(Kestrel, kestrel::Role),
}

impl Client {
    /// A client of a random kind, according to the plan's frequencies.
    pub(crate) fn any(plan: &Plan, rng: &mut Rng) -> Self {
        let [beanstalk, gearman, kestrel] = plan.shares;
        let [memcache, text, thrift] = plan.dialects;
        let dialect = rng.weighted(&[
            (memcache, Kestrel::Memcache),
            (text, Kestrel::Text),
            (thrift, Kestrel::Thrift),
        ]);
        let protocol = rng.weighted(&[
            (beanstalk, Protocol::Beanstalk),
            (gearman, Protocol::Gearman),
            (kestrel, Protocol::Kestrel(dialect)),
        ]);
        Self::new(protocol, rng)
    }

    pub(crate) fn new(protocol: Protocol, rng: &mut Rng) -> Self {
        let kind = match protocol {
            Protocol::Beanstalk => ClientKind::Beanstalk(beanstalk::Role::any(rng)),
            Protocol::Gearman => ClientKind::Gearman(gearman::Role::any(rng)),
            Protocol::Kestrel(dialect) => ClientKind::Kestrel(dialect, kestrel::Role::any(rng)),
        };
        Self { kind, is_slow: rng.one_in(6), held: Vec::new(), unread: Vec::new() }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self.kind {
            ClientKind::Beanstalk(_) => Protocol::Beanstalk,
            ClientKind::Gearman(_) => Protocol::Gearman,
            ClientKind::Kestrel(dialect, _) => Protocol::Kestrel(dialect),
        }
    }

    /// The client reads some bytes. Returns each whole reply.
    pub(crate) fn read(&mut self, bytes: &[u8], known: &mut Known) -> Vec<Vec<u8>> {
        self.unread.extend_from_slice(bytes);
        let mut replies = Vec::new();
        loop {
            let len = match self.kind {
                ClientKind::Beanstalk(_) => beanstalk::reply_len(&self.unread),
                ClientKind::Gearman(_) => gearman::reply_len(&self.unread),
                ClientKind::Kestrel(Kestrel::Memcache, _) => kestrel::reply_len(&self.unread),
                ClientKind::Kestrel(Kestrel::Text, _) => kestrel::text::reply_len(&self.unread),
                ClientKind::Kestrel(Kestrel::Thrift, _) => kestrel::thrift::reply_len(&self.unread),
            };
            let Some(len) = len else { return replies };
            let reply: Vec<u8> = self.unread.drain(..len).collect();
            let (note_id, is_taken) = match self.kind {
                ClientKind::Beanstalk(_) => beanstalk::read_reply(&reply),
                ClientKind::Gearman(_) => gearman::read_reply(&reply),
                ClientKind::Kestrel(Kestrel::Thrift, _) => {
                    let leases = kestrel::thrift::leases(&reply);
                    for lease in &leases {
                        known.note_lease(*lease);
                    }
                    self.held.extend(leases);
                    (None, false)
                }
                // No reply names a job.
                ClientKind::Kestrel(..) => (None, false),
            };
            if let Some(id) = note_id {
                known.note_id(id);
                if is_taken {
                    self.held.push(id);
                }
            }
            replies.push(reply);
        }
    }

    /// Returns bytes to send: whole requests. The world can deliver the bytes in any pieces.
    pub(crate) fn write(&mut self, plan: &Plan, known: &Known, now: u64, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = Vec::new();
        let in_crowd = plan.crowd && rng.coin();
        let count = if in_crowd { 1 } else { rng.between(1, plan.pipeline) };
        for _ in 0..count {
            let is_garbage = plan.garbage && rng.one_in(25);
            let held = &mut self.held;
            match &self.kind {
                ClientKind::Beanstalk(_) if in_crowd => {
                    beanstalk::crowd(plan, &mut bytes, held, rng);
                }
                ClientKind::Gearman(_) if in_crowd => gearman::crowd(&mut bytes, held, rng),
                ClientKind::Beanstalk(_) if is_garbage => beanstalk::garbage(&mut bytes, rng),
                ClientKind::Gearman(_) if is_garbage => gearman::garbage(&mut bytes, rng),
                ClientKind::Kestrel(Kestrel::Memcache, _) if is_garbage => {
                    kestrel::garbage(&mut bytes, rng);
                }
                ClientKind::Kestrel(Kestrel::Thrift, _) if is_garbage => {
                    kestrel::thrift::garbage(&mut bytes, rng);
                }
                ClientKind::Kestrel(Kestrel::Text, _) if is_garbage => {
                    kestrel::text::garbage(&mut bytes, rng);
                }
                ClientKind::Beanstalk(role) => {
                    let mut writer = beanstalk::Writer { plan, known, held, rng };
                    writer.command(*role, &mut bytes);
                }
                ClientKind::Gearman(role) => {
                    let mut writer = gearman::Writer { plan, known, held, now, rng };
                    writer.request(*role, &mut bytes);
                }
                ClientKind::Kestrel(dialect, role) => {
                    let mut writer = kestrel::Writer { plan, now, rng };
                    match dialect {
                        Kestrel::Memcache => writer.request(*role, &mut bytes),
                        Kestrel::Text => writer.text_request(*role, &mut bytes),
                        Kestrel::Thrift => writer.call(*role, held, known, &mut bytes),
                    }
                }
            }
        }
        bytes
    }
}

/// Mostly the id of a job that the client may hold.
fn mostly_held(held: &mut Vec<u64>, gives_it_up: bool, known: &Known, rng: &mut Rng) -> u64 {
    if held.is_empty() || rng.one_in(8) {
        return known.any(rng);
    }
    let index = rng.index(held.len());
    if gives_it_up { held.swap_remove(index) } else { held[index] }
}

fn queue(plan: &Plan, rng: &mut Rng) -> &'static str {
    if plan.renames && rng.one_in(4) {
        return OTHER_NAME;
    }
    // Sometimes use a name that Kestrel's clients often use.
    if plan.shares[2] > 0 && rng.one_in(8) {
        return ["a+x", "b-2", "al"][rng.index(3)];
    }
    let names = ["default", "a", "b-2", "(c)", "d/e", "f.$;+_"];
    names[rng.below(plan.queues) as usize]
}

/// The length of a body. Bodies near the maximum length, or beyond it, are rare because they cost
/// time.
fn body_len(plan: &Plan, rng: &mut Rng) -> u64 {
    let size = match rng.below(30) {
        0 => u64::from(plan.max_job_size) + rng.below(3) - 1,
        1 => 0,
        2 => rng.below(20_000),
        _ => rng.below(plan.body_bytes + 1),
    };
    if size > 20_000 && !rng.one_in(4) { rng.below(50) } else { size }
}

fn random_bytes(bytes: &mut Vec<u8>, len: u64, rng: &mut Rng) {
    let mut word = [0; 8];
    for index in 0..len {
        if index % 8 == 0 {
            word = rng.next_u64().to_le_bytes();
        }
        bytes.push(word[(index % 8) as usize]);
    }
}

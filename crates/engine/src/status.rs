//! The server's status: whether clients may read and write.

use crate::ids::Millis;

/// The status of the server. It says whether clients can read and write. Each status is stricter
/// than the status before it.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
#[repr(u8)]
pub enum Status {
    /// Clients can read and write.
    #[default]
    Up = 1,
    /// Clients can read and write. But a client that can choose between servers should write to
    /// another server.
    WriteAvoid = 2,
    /// Clients can only read.
    ReadOnly = 3,
    /// Clients cannot read or write.
    Quiescent = 4,
}

impl Status {
    /// The status whose `status as u8` is this number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Up, Self::WriteAvoid, Self::ReadOnly, Self::Quiescent]
            .into_iter()
            .find(|status| *status as u8 == number)
    }
}

/// The requested status, and the status in force.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ServerStatus {
    /// The status that was requested last.
    requested: Status,
    in_force: Status,
    /// When the requested status comes into force. `None`: the requested status is in force.
    changes_at: Option<Millis>,
    /// Queues whose age rank is at least this number refuse reads. The age rank of a queue is its
    /// place in the order of age. `u64::MAX`: no queue refuses reads. 0: all queues refuse reads.
    /// Other values occur only after reads were allowed again. A walk over all queues then raises
    /// the value step by step.
    blocked_from: u64,
}

impl Default for ServerStatus {
    fn default() -> Self {
        let (requested, in_force) = (Status::default(), Status::default());
        Self { requested, in_force, changes_at: None, blocked_from: u64::MAX }
    }
}

impl ServerStatus {
    pub(crate) fn requested(&self) -> Status {
        self.requested
    }

    pub(crate) fn reads_blocked(&self) -> bool {
        self.in_force == Status::Quiescent
    }

    pub(crate) fn writes_blocked(&self) -> bool {
        self.in_force >= Status::ReadOnly
    }

    /// Whether any queue refuses reads.
    pub(crate) fn blocks_some(&self) -> bool {
        self.blocked_from != u64::MAX
    }

    /// Whether the queue of this age rank refuses reads.
    pub(crate) fn blocks(&self, age_rank: u64) -> bool {
        age_rank >= self.blocked_from
    }

    /// Requests a status. Returns false if the request is ignored. A request for the status that
    /// was requested last is ignored. While this status is not in force yet, a request for a
    /// stricter status is ignored, too.
    pub(crate) fn request(&mut self, status: Status) -> bool {
        let is_ignored =
            status == self.requested || self.changes_at.is_some() && status > self.requested;
        if !is_ignored {
            self.requested = status;
        }
        !is_ignored
    }

    /// When the requested status comes into force. Only [`crate::timers::Timers`] changes this
    /// moment.
    pub(crate) fn timer(&self) -> Option<Millis> {
        self.changes_at
    }

    pub(crate) fn timer_mut(&mut self) -> &mut Option<Millis> {
        &mut self.changes_at
    }

    /// Puts the requested status in force. If this status blocks reads, all queues refuse reads at
    /// once. If this status allows reads again, queues still refuse reads until
    /// [`ServerStatus::unblock`].
    pub(crate) fn enforce(&mut self) {
        self.in_force = self.requested;
        self.changes_at = None;
        if self.reads_blocked() {
            self.blocked_from = 0;
        }
    }

    /// Lets the queues with age ranks below `below` serve reads again. `None`: all queues.
    pub(crate) fn unblock(&mut self, below: Option<u64>) {
        self.blocked_from = below.unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stricter_status_on_its_way_is_taken_back_but_not_made_stricter() {
        let mut status = ServerStatus::default();
        assert!(!status.request(Status::Up), "it is so already");
        assert!(status.request(Status::ReadOnly));
        *status.timer_mut() = Some(Millis(5));
        assert!(!status.request(Status::Quiescent));
        assert!(status.request(Status::WriteAvoid));
        assert_eq!(status.requested(), Status::WriteAvoid);
        assert!(!status.writes_blocked(), "nothing is in force before its time");
    }

    #[test]
    fn queues_that_refused_reads_serve_again_one_by_one() {
        let mut status = ServerStatus::default();
        assert!(status.request(Status::Quiescent));
        status.enforce();
        assert!(status.reads_blocked() && status.blocks(0) && status.blocks(9));
        assert!(status.request(Status::Up));
        status.enforce();
        assert!(!status.reads_blocked() && status.blocks_some());
        status.unblock(Some(5));
        assert!(!status.blocks(4) && status.blocks(5));
        status.unblock(None);
        assert!(!status.blocks_some() && !status.blocks(9));
    }
}

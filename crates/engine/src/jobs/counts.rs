//! Counts of jobs by state, for one queue or for all queues.

use super::facts::State;

/// In beanstalkd's statistics, a ready job is urgent if its priority is below this number (spec
/// beanstalkd 5.1).
const URGENT_BELOW: u32 = 1024;

/// A job has Gearman's low priority if its priority is above this number.
const LOW_ABOVE: u32 = 1 << 31;

/// Gearman has only three priorities. Each is a band of the priorities that all dialects share.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Band {
    /// Priorities below 1024.
    High,
    /// Priorities from 1024 to 2^31.
    Normal,
    /// Priorities above 2^31.
    Low,
}

impl Band {
    /// The band of a priority.
    pub fn of(priority: u32) -> Self {
        match priority {
            0..URGENT_BELOW => Self::High,
            URGENT_BELOW..=LOW_ABOVE => Self::Normal,
            _ => Self::Low,
        }
    }
}

/// The facts of one job that change the counts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CountedJob {
    pub(super) state: State,
    pub(super) priority: u32,
    pub(super) body_bytes: usize,
    /// The body is only in the log.
    pub(super) is_stored: bool,
}

impl CountedJob {
    /// The bytes of the job's body, if the job is ready and the body is only in the log.
    pub(crate) fn stored_bytes(&self) -> Option<u64> {
        (self.is_stored && self.state == State::Ready).then_some(self.body_bytes as u64)
    }
}

/// The number of jobs by state. Every change of a job updates the counts, so statistics are cheap
/// to read. A `u32` is large enough for each count of jobs: see [`crate::limits::JOBS_MAX`].
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) ready: u32,
    pub(crate) urgent: u32,
    pub(crate) delayed: u32,
    pub(crate) leased: u32,
    pub(crate) buried: u32,
    /// Ready and delayed jobs, one number for each [`Band`].
    pub(crate) bands: [u32; 3],
    /// Bytes of the bodies of ready jobs.
    pub(crate) bytes: u64,
}

impl Counts {
    /// The number of jobs in this state.
    pub(crate) fn in_state(&self, state: State) -> u64 {
        match state {
            State::Ready => self.ready,
            State::Delayed => self.delayed,
            State::Leased => self.leased,
            State::Buried => self.buried,
        }
        .into()
    }

    pub(crate) fn total(&self) -> u64 {
        [self.ready, self.delayed, self.leased, self.buried].into_iter().map(u64::from).sum()
    }

    pub(crate) fn add(&mut self, job: CountedJob) {
        *self.of(job.state) += 1;
        match job.state {
            State::Ready => {
                self.bytes += job.body_bytes as u64;
                self.urgent += u32::from(job.priority < URGENT_BELOW);
                self.bands[Band::of(job.priority) as usize] += 1;
            }
            State::Delayed => self.bands[Band::of(job.priority) as usize] += 1,
            State::Leased | State::Buried => {}
        }
    }

    pub(crate) fn remove(&mut self, job: CountedJob) {
        *self.of(job.state) -= 1;
        match job.state {
            State::Ready => {
                self.bytes -= job.body_bytes as u64;
                self.urgent -= u32::from(job.priority < URGENT_BELOW);
                self.bands[Band::of(job.priority) as usize] -= 1;
            }
            State::Delayed => self.bands[Band::of(job.priority) as usize] -= 1,
            State::Leased | State::Buried => {}
        }
    }

    /// The number of jobs of a state.
    pub(crate) fn get(&self, state: State) -> u32 {
        match state {
            State::Ready => self.ready,
            State::Delayed => self.delayed,
            State::Leased => self.leased,
            State::Buried => self.buried,
        }
    }

    pub(super) fn of(&mut self, state: State) -> &mut u32 {
        match state {
            State::Ready => &mut self.ready,
            State::Delayed => &mut self.delayed,
            State::Leased => &mut self.leased,
            State::Buried => &mut self.buried,
        }
    }
}

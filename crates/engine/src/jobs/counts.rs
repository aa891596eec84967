//! Counts of jobs by state: of one queue, and of all queues.

use super::facts::State;

/// beanstalkd calls a ready job urgent if its priority is below this (spec beanstalkd 5.1).
const URGENT_BELOW: u32 = 1024;

/// Gearman calls a job low if its priority is above this.
const LOW_ABOVE: u32 = 1 << 31;

/// Gearman's three priorities, as bands of the priorities of all dialects.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Band {
    /// Below 1024.
    High,
    /// All others.
    Normal,
    /// Above 2^31.
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

/// The contribution of one job to the counts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CountedJob {
    pub(super) state: State,
    pub(super) priority: u32,
    pub(super) body_bytes: usize,
}

/// Jobs by state. Every change updates the counts, so statistics are cheap to read. A job's place
/// is a u32, so no count of jobs can exceed a u32.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) ready: u32,
    pub(crate) urgent: u32,
    pub(crate) delayed: u32,
    pub(crate) leased: u32,
    pub(crate) buried: u32,
    /// Ready and delayed jobs by priority band.
    pub(crate) bands: [u32; 3],
    /// Bytes of the bodies of ready jobs.
    pub(crate) bytes: u64,
}

impl Counts {
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

    fn of(&mut self, state: State) -> &mut u32 {
        match state {
            State::Ready => &mut self.ready,
            State::Delayed => &mut self.delayed,
            State::Leased => &mut self.leased,
            State::Buried => &mut self.buried,
        }
    }
}

//! Turns the rows of gearmand's tables into jobs.

use crate::backlog::{Backlog, Body, Job, State, Tags, check_body, check_tags};

/// The priorities that Lineshaft's Gearman dialect gives to high, normal and low jobs.
const PRIORITIES: [u32; 3] = [512, 1024, 3 << 30];
const NORMAL: u32 = PRIORITIES[1];

/// One row of a table, from sqlite or CSV.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) unique: Vec<u8>,
    pub(crate) function: Vec<u8>,
    pub(crate) priority: Option<i64>,
    pub(crate) data: Vec<u8>,
    pub(crate) when_to_run: i64,
}

impl Row {
    /// Adds the job of this row.
    pub(crate) fn add_to(self, backlog: &mut Backlog) -> Result<(), String> {
        let tags = Tags { unique: self.unique, reducer: Vec::new() };
        check_tags(&tags)?;
        check_body(self.data.len() as u64)?;
        let queue = backlog.queue(&self.function, false)?;
        let level = self.priority.and_then(|level| usize::try_from(level).ok());
        let due_ms = u64::try_from(self.when_to_run).unwrap_or(0).saturating_mul(1000);
        let is_delayed = due_ms > 0;
        backlog.jobs.push(Job {
            queue,
            state: if is_delayed { State::Delayed } else { State::Ready },
            priority: level.and_then(|level| PRIORITIES.get(level)).copied().unwrap_or(NORMAL),
            due_ms,
            by_clock: is_delayed,
            tags: Some(Box::new(tags)),
            body: Body::Here(self.data),
            ..Job::default()
        });
        Ok(())
    }
}

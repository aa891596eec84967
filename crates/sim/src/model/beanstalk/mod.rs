//! Requests and replies of beanstalkd clients (spec beanstalkd).

mod commands;
mod stats;
mod wire;

pub(super) use wire::is_name;

use super::session::{Expected, Observed, Reading};
use super::{Model, Place};

/// The longest line (spec beanstalkd 1.3).
const LINE_BYTES_MAX: usize = 222;

impl Model {
    /// Handles one line or body, if it has arrived completely.
    pub(super) fn read_command(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<bool, String> {
        let conn = self.conn(place);
        match conn.reading {
            Reading::Line => {
                let Some(line) = conn.take_line() else { return Ok(false) };
                let command = if line.len() > LINE_BYTES_MAX {
                    wire::Command::Bad
                } else {
                    wire::parse(&line)
                };
                self.execute(place, command, observed)?;
            }
            Reading::Skip(left) => {
                let count = left.min(conn.buffer.len() as u64);
                conn.buffer.drain(..count as usize);
                if count < left {
                    conn.reading = Reading::Skip(left - count);
                    return Ok(false);
                }
                conn.reading = Reading::Line;
                observed.take(&Expected::line("JOB_TOO_BIG", 0))?;
            }
            Reading::Body { pri, delay, ttr, size } => {
                if conn.buffer.len() < size + 2 {
                    return Ok(false);
                }
                let body: Vec<u8> = conn.buffer.drain(..size + 2).collect();
                conn.reading = Reading::Line;
                let job = Self::new_job(pri, delay, ttr, &body[..size]);
                self.finish_put(place, job, &body, observed)?;
            }
        }
        Ok(true)
    }
}

//! Schedules: when something happens again and again, as a cron expression and a time zone say.
//!
//! All is a pure function of its arguments. The tables of time zones are part of the program, so
//! the machine's own tables and its own time zone have no effect.

mod cron;
mod zone;

pub use cron::{Cron, CronError};
pub use zone::{Zone, ZoneError};

use crate::ids::Millis;

impl Cron {
    /// The first instant after this time of the wall clock. Each local time that matches happens
    /// once: if a clock change skips it, at the end of the change; if a clock change repeats it, the
    /// first time. `None`: there is none until the end of the calendar.
    pub fn next_after(&self, wall: Millis, zone: &Zone) -> Option<Millis> {
        // Instants never go back when local times go on. So the first match after `wall` is the
        // first match from the local time of `wall` on whose instant is later.
        let mut from = zone.local_minute(wall)?;
        loop {
            let local = self.next_local(from)?;
            let instant = zone.instant(local)?;
            if instant > wall {
                return Some(instant);
            }
            // In a repeated hour, this happens once for each match of the hour.
            from = zone::minute_after(local)?;
        }
    }
}

#[cfg(test)]
mod tests;

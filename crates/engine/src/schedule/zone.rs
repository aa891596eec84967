//! Time zones.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::ids::Millis;

/// A time zone of the tz database, such as `Europe/Berlin`.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

/// The text is not the name of a time zone.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a time zone; write its name, such as \"Europe/Berlin\" or \"UTC\"")]
pub struct ZoneError(pub(super) String);

impl Zone {
    /// The name in the tz database.
    pub fn as_str(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// What the clocks of the zone show at this time, without the seconds.
    pub(super) fn local_minute(&self, wall: Millis) -> Option<DateTime> {
        let local = self.0.to_datetime(timestamp(wall)?);
        let (hour, minute) = (local.hour(), local.minute());
        Some(local.date().at(hour, minute, 0, 0))
    }

    /// The first instant at which the clocks of the zone show this local time, or a later one if a
    /// clock change skips it.
    pub(super) fn instant(&self, local: DateTime) -> Option<Millis> {
        let offset = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Fold { before, .. } => before,
            AmbiguousOffset::Gap { after, .. } => {
                // With the later offset, a skipped time is before the change. The change is next.
                let before = after.to_timestamp(local).ok()?;
                return millis(self.0.following(before).next()?.timestamp());
            }
        };
        millis(offset.to_timestamp(local).ok()?)
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Zone {}

impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        let refused = |_| ZoneError(text.to_owned());
        TimeZoneDatabase::bundled().get(text).map(Self).map_err(refused)
    }
}

fn timestamp(wall: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(wall.0).ok()?).ok()
}

fn millis(timestamp: Timestamp) -> Option<Millis> {
    u64::try_from(timestamp.as_millisecond()).ok().map(Millis)
}

pub(super) fn minute_after(local: DateTime) -> Option<DateTime> {
    local.checked_add(SignedDuration::from_mins(1)).ok()
}

//! The time limit of a turn of the broker, so that no thread keeps the others waiting.

use std::time::{Duration, Instant};

/// After this time, a turn begins no further commands, because all other threads wait for the end
/// of the turn. The turn checks the clock only between two slices of work. A slice takes about as
/// long as this limit. So a turn can last about twice this time.
const TURN_TIME_MAX: Duration = Duration::from_micros(500);

/// The time limit of a turn that continues held-back requests. It is shorter than
/// [`TURN_TIME_MAX`], because a held-back request has already had a slice of work. So this turn
/// should delay clients with small requests less than other turns.
const LATER_TURN_TIME_MAX: Duration = Duration::from_micros(250);

/// The same time limit in a round that has also served short inputs. Their clients probably send
/// the next request soon, and it waits for the end of this turn.
const LATER_TURN_TIME_MAX_BESIDE_SHORT: Duration = Duration::from_micros(100);

/// When a turn began, and how long it can last.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TurnTime {
    began_at: Instant,
    most: Duration,
}

impl TurnTime {
    /// Starts the clock of a turn.
    pub(crate) fn begin() -> TurnTime {
        TurnTime { began_at: Instant::now(), most: TURN_TIME_MAX }
    }

    /// Starts the clock of a turn that continues held-back requests. `beside_short`: whether the
    /// round has also served short inputs.
    pub(crate) fn begin_later(beside_short: bool) -> TurnTime {
        let most =
            if beside_short { LATER_TURN_TIME_MAX_BESIDE_SHORT } else { LATER_TURN_TIME_MAX };
        TurnTime { began_at: Instant::now(), most }
    }

    /// When the turn began.
    pub(crate) fn began_at(self) -> Instant {
        self.began_at
    }

    /// The time since the turn began.
    pub(crate) fn elapsed(self) -> Duration {
        self.began_at.elapsed()
    }

    /// Whether the turn must end, so that other threads can take a turn.
    pub(crate) fn is_over(self) -> bool {
        self.began_at.elapsed() >= self.most
    }

    /// A turn that has already reached its time limit.
    #[cfg(test)]
    pub(crate) fn over() -> TurnTime {
        let began_at = Instant::now().checked_sub(TURN_TIME_MAX);
        let began_at = began_at.expect("the machine runs for longer than a turn");
        TurnTime { began_at, most: TURN_TIME_MAX }
    }
}

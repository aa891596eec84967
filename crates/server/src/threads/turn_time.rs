//! The time limit of a turn of the broker, so that no thread keeps the others waiting.

use std::time::{Duration, Instant};

/// After this time, a turn begins no further commands, because all other threads wait for the end
/// of the turn. The turn checks the clock only between two slices of work. A slice takes at most
/// about half of this time.
const TURN_TIME_MAX: Duration = Duration::from_micros(500);

/// The same limit while quiet clients send requests: see `ClientMix::is_beside_quiet`. Their next
/// requests wait for the end of the turn. Twice this time makes a quiet client wait up to half as
/// long again. With half of it, busy clients get a tenth less done: see `docs/performance.md`.
const TURN_TIME_MAX_BESIDE_QUIET: Duration = Duration::from_micros(75);

/// The time limit of a turn that continues held-back requests. It is shorter than
/// [`TURN_TIME_MAX`], because a held-back request has already had a slice of work. So this turn
/// should delay clients with small requests less than other turns.
const LATER_TURN_TIME_MAX: Duration = Duration::from_micros(250);

/// The same limit while quiet clients send requests.
const LATER_TURN_TIME_MAX_BESIDE_QUIET: Duration = Duration::from_micros(50);

/// A dialect gets its input in pieces of this size. Between two pieces, a turn checks the clock.
pub(crate) const PIECE_BYTES: usize = 4 * 1024;

/// An input of at most this size is *short*. It rarely has more than a few commands. A dialect gets
/// it at once: otherwise the end of a quiet client's job could wait for the next turn.
pub(crate) const SHORT_INPUT_BYTES: usize = 1024;

/// The size of a piece of a longer input while quiet clients send requests. A piece of
/// [`PIECE_BYTES`] can hold 300 short commands, which take about 100 microseconds.
const PIECE_BYTES_BESIDE_QUIET: usize = 512;

/// A turn of this time is long for quiet clients, so they begin to have shorter turns. It is twice
/// [`TURN_TIME_MAX_BESIDE_QUIET`], because a few jobs of some KiB also take about that long.
const LONG_TURN_TIME: Duration = Duration::from_micros(150);

/// The same for a turn that continues held-back requests.
const LONG_LATER_TURN_TIME: Duration = Duration::from_micros(80);

/// When a turn began, and how long it can last.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TurnTime {
    began_at: Instant,
    most: Duration,
    /// From this time on, such a turn is long for quiet clients.
    long: Duration,
    piece_bytes: usize,
}

impl TurnTime {
    /// Starts the clock of a turn. `beside_quiet`: whether quiet clients send requests.
    pub(crate) fn begin(beside_quiet: bool) -> TurnTime {
        let most = if beside_quiet { TURN_TIME_MAX_BESIDE_QUIET } else { TURN_TIME_MAX };
        TurnTime::limited(most, LONG_TURN_TIME, beside_quiet)
    }

    /// Starts the clock of a turn that continues held-back requests.
    pub(crate) fn begin_later(beside_quiet: bool) -> TurnTime {
        let most =
            if beside_quiet { LATER_TURN_TIME_MAX_BESIDE_QUIET } else { LATER_TURN_TIME_MAX };
        TurnTime::limited(most, LONG_LATER_TURN_TIME, beside_quiet)
    }

    fn limited(most: Duration, long: Duration, beside_quiet: bool) -> TurnTime {
        let piece_bytes = if beside_quiet { PIECE_BYTES_BESIDE_QUIET } else { PIECE_BYTES };
        TurnTime { began_at: Instant::now(), most, long, piece_bytes }
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

    /// Whether a turn that took this time is one for which quiet clients wait long.
    pub(crate) fn is_long(self, turn_time: Duration) -> bool {
        turn_time >= self.long
    }

    /// The number of bytes of a longer input that a dialect gets before the next look at the clock.
    pub(crate) fn piece_bytes(self) -> usize {
        self.piece_bytes
    }

    /// A turn that has already reached its time limit.
    #[cfg(test)]
    pub(crate) fn over(beside_quiet: bool) -> TurnTime {
        let began_at = Instant::now().checked_sub(TURN_TIME_MAX);
        let began_at = began_at.expect("the machine runs for longer than a turn");
        TurnTime { began_at, ..TurnTime::begin(beside_quiet) }
    }
}

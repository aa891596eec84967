//! Decides whether an I/O thread yields its processor to the committer.
//!
//! The two threads can share a processor. The kernel can leave the committer waiting for one or two
//! milliseconds, although it is ready: the I/O thread keeps the processor for its slice. If it yields
//! after each turn, the committer waits for one turn.
//!
//! But if other programs compete for the processor, a yield passes it to them for a whole slice of
//! theirs. A server that yields after each turn then does a turn every few milliseconds, and loses
//! most of its rate. So the thread stops yielding for a while if too many yields are long.

use std::time::{Duration, Instant};

/// A yield of this time is *long*. The committer and other I/O threads work for a shorter time at
/// once. Another program runs until the next tick of the kernel, which comes every 1 to 10
/// milliseconds, so most yields to it are longer.
const LONG: Duration = Duration::from_millis(1);
/// A long yield outweighs this many short ones. Beside another program, some yields are short, too.
const LONG_WEIGHT: u32 = 4;
/// At this weight, that of three long yields in a row, another program probably uses the processor.
/// A background thread of the server needs it for a moment only, so most yields beside it are short.
const WEIGHT_MAX: u32 = 3 * LONG_WEIGHT;
/// How long the thread does not yield then. One long yield in this time costs a few percent.
const PAUSE: Duration = Duration::from_millis(100);

/// How the last yields of a thread went.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// The weight of the long yields, less that of the short ones after them.
    weight: u32,
    not_before: Option<Instant>,
}

impl Yields {
    /// Yields the processor, unless other programs would take it.
    pub(crate) fn yield_processor(&mut self) {
        let before = Instant::now();
        if self.may_yield(before) {
            std::thread::yield_now();
            self.note(before, Instant::now());
        }
    }

    fn may_yield(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|moment| moment <= now)
    }

    /// Notes when a yield began and ended.
    fn note(&mut self, before: Instant, after: Instant) {
        if after - before < LONG {
            self.weight = self.weight.saturating_sub(1);
            return;
        }
        self.weight = WEIGHT_MAX.min(self.weight + LONG_WEIGHT);
        if self.weight == WEIGHT_MAX {
            self.not_before = Some(after + PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(80);

    /// Notes yields of these times, and returns whether the thread may yield after them.
    fn may_yield_after(yields: &mut Yields, now: &mut Instant, times: &[Duration]) -> bool {
        for &time in times {
            assert!(yields.may_yield(*now));
            yields.note(*now, *now + time);
            *now += time;
        }
        yields.may_yield(*now)
    }

    #[test]
    fn a_thread_does_not_yield_for_a_while_if_many_yields_are_long() {
        let (mut yields, mut now) = (Yields::default(), Instant::now());
        // A background thread has the processor for a moment, again and again.
        for _ in 0..10 {
            assert!(may_yield_after(&mut yields, &mut now, &[LONG, LONG]));
            assert!(may_yield_after(&mut yields, &mut now, &[SHORT; 8]));
        }
        // Another program has it.
        assert!(may_yield_after(&mut yields, &mut now, &[LONG, SHORT, LONG, SHORT]));
        assert!(may_yield_after(&mut yields, &mut now, &[LONG, SHORT]));
        assert!(!may_yield_after(&mut yields, &mut now, &[LONG]));
        now += PAUSE;
        assert!(!may_yield_after(&mut yields, &mut now, &[LONG]), "it is still there");
        now += PAUSE;
        // It has gone.
        assert!(may_yield_after(&mut yields, &mut now, &[SHORT; 8]));
        assert!(may_yield_after(&mut yields, &mut now, &[LONG]));
    }
}

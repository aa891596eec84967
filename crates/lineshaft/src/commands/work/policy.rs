//! Decides when a failed job is retried, and when it is buried.
//!
//! The decision uses the server's counts. They include the attempts of all workers, and attempts
//! before a restart.

use crate::client::Stats;

/// The user's settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    /// A job is buried when it fails on this attempt; 0 means never.
    pub(super) attempts_max: u32,
    /// The delay before the second attempt. It doubles with each further attempt.
    pub(super) base_seconds: u32,
    /// The longest delay.
    pub(super) cap_seconds: u32,
}

/// What happens to a failed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The worker gives the job back with a delay.
    Retry {
        /// The delay.
        delay_seconds: u32,
    },
    /// The worker buries the job.
    Bury,
}

impl RetryPolicy {
    /// The user's settings, with defaults: five attempts, with short first delays.
    pub(super) fn new(
        attempts_max: Option<u32>,
        base_seconds: Option<u32>,
        cap_seconds: Option<u32>,
    ) -> RetryPolicy {
        RetryPolicy {
            attempts_max: attempts_max.unwrap_or(5),
            base_seconds: base_seconds.unwrap_or(1),
            cap_seconds: cap_seconds.unwrap_or(3_600),
        }
    }

    /// Decides what to do after attempt number `attempt` has failed. The first attempt is 1.
    pub(super) fn after_failure(self, attempt: u64) -> Verdict {
        if self.attempts_max > 0 && attempt >= u64::from(self.attempts_max) {
            return Verdict::Bury;
        }
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let delay_seconds = self.base_seconds.saturating_mul(factor).min(self.cap_seconds);
        Verdict::Retry { delay_seconds }
    }

    /// True if the job seems to kill its workers, because many of them vanished while they held it.
    /// No worker can report the failure of such a job. So without this check, workers would take it
    /// again and again without a delay.
    ///
    /// Every take ends with a release, a bury, or a vanished worker. So the counts show how many
    /// workers vanished. Each kick allows one more vanished worker.
    pub(super) fn looks_deadly(self, counts: Counts) -> bool {
        let ended_well = 1 + counts.releases + counts.buries;
        let vanished = counts.reserves.saturating_sub(ended_well);
        self.attempts_max > 0 && vanished >= u64::from(self.attempts_max) + counts.kicks
    }
}

/// The server's counts for a job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Number of takes, including this one.
    pub(super) reserves: u64,
    /// Number of releases.
    pub(super) releases: u64,
    /// Number of buries.
    pub(super) buries: u64,
    /// Number of kicks.
    pub(super) kicks: u64,
}

impl Counts {
    /// Reads the counts from a reply to `stats-job`.
    pub(super) fn of(stats: &Stats) -> Counts {
        Counts {
            reserves: stats.number("reserves"),
            releases: stats.number("releases"),
            buries: stats.number("buries"),
            kicks: stats.number("kicks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { attempts_max: 5, base_seconds: 1, cap_seconds: 3_600 };

    fn delays(policy: RetryPolicy, attempts: impl Iterator<Item = u64>) -> Vec<u32> {
        attempts
            .map(|attempt| match policy.after_failure(attempt) {
                Verdict::Retry { delay_seconds } => delay_seconds,
                Verdict::Bury => panic!("buried after {attempt}"),
            })
            .collect()
    }

    #[test]
    fn the_wait_doubles_until_the_job_is_buried() {
        assert_eq!(delays(POLICY, 1..=4), [1, 2, 4, 8]);
        assert_eq!(POLICY.after_failure(5), Verdict::Bury);
        assert_eq!(POLICY.after_failure(6), Verdict::Bury, "kicked and failed once more");
    }

    #[test]
    fn the_wait_ends_at_the_cap() {
        let policy = RetryPolicy { attempts_max: 0, base_seconds: 1_000, ..POLICY };
        let late = [1, 2, 3, 30, 40, 1_000_000, u64::MAX];
        assert_eq!(
            delays(policy, late.into_iter()),
            [1_000, 2_000, 3_600, 3_600, 3_600, 3_600, 3_600]
        );
        let no_wait = RetryPolicy { attempts_max: 0, base_seconds: 0, ..POLICY };
        assert_eq!(delays(no_wait, late.into_iter()), [0; 7]);
    }

    #[test]
    fn one_attempt_means_no_second() {
        let policy = RetryPolicy { attempts_max: 1, ..POLICY };
        assert_eq!(policy.after_failure(1), Verdict::Bury);
    }

    #[test]
    fn a_job_whose_workers_vanish_is_deadly() {
        let taken = |reserves| Counts { reserves, ..Counts::default() };
        assert!(!POLICY.looks_deadly(taken(1)));
        assert!(!POLICY.looks_deadly(taken(5)));
        assert!(POLICY.looks_deadly(taken(6)));
        let failed = Counts { releases: 4, ..taken(6) };
        assert!(!POLICY.looks_deadly(failed), "failing is not vanishing");
        let kicked = Counts { buries: 1, kicks: 1, ..taken(7) };
        assert!(!POLICY.looks_deadly(kicked), "a kick allows one more attempt");
        let kicked_and_vanished = Counts { buries: 1, kicks: 1, ..taken(8) };
        assert!(POLICY.looks_deadly(kicked_and_vanished));
        let unlimited = RetryPolicy { attempts_max: 0, ..POLICY };
        assert!(!unlimited.looks_deadly(taken(1_000)));
    }
}

//! Retries of failed jobs: how many, and after which time.

use crate::ids::JobId;

/// What happens to a job whose attempt failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Retries {
    /// If false, the original behaviour of each protocol applies, and the other fields have no
    /// meaning.
    pub is_on: bool,
    /// The maximum number of retries. The failure after the last retry buries the job.
    pub limit: u32,
    /// How the time before a retry grows.
    pub backoff: Backoff,
    /// The time before the first retry, in milliseconds.
    pub base_ms: u64,
    /// The time before a retry is at most this number of milliseconds, before the jitter.
    pub max_ms: u64,
    /// The time before a retry is up to this many thousandths longer or shorter.
    pub jitter_permille: u32,
    /// Whether a job that its holder gives back has failed.
    pub counts_release: bool,
    /// Whether a job has failed if its holder disconnects, or can no longer do it.
    pub counts_disconnect: bool,
}

/// How the time before a retry grows with each failure.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Backoff {
    /// The job is ready again at once.
    None,
    /// The time grows by the same amount.
    Linear,
    /// The time doubles.
    #[default]
    Exponential,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            is_on: false,
            limit: 5,
            backoff: Backoff::default(),
            base_ms: 5_000,
            max_ms: 3_600_000,
            jitter_permille: 200,
            counts_release: true,
            counts_disconnect: true,
        }
    }
}

impl Retries {
    /// The time before the next attempt at a job that has failed this many times, in milliseconds.
    /// The jitter depends only on the job and on this number, so replay and simulation agree.
    pub fn wait_ms(&self, id: JobId, failures: u32) -> u64 {
        let growth = failures.saturating_sub(1);
        let wait_ms = match self.backoff {
            Backoff::None => return 0,
            Backoff::Linear => self.base_ms.saturating_mul(u64::from(failures)),
            Backoff::Exponential => {
                self.base_ms.saturating_mul(1_u64.checked_shl(growth).unwrap_or(u64::MAX))
            }
        };
        let wait_ms = wait_ms.min(self.max_ms);
        if self.jitter_permille == 0 {
            return wait_ms;
        }
        let choices = 2 * u64::from(self.jitter_permille) + 1;
        let drawn = scattered(id.0 ^ u64::from(failures).rotate_left(48)) % choices;
        let permille = 1000 + drawn - u64::from(self.jitter_permille).min(1000);
        wait_ms.saturating_mul(permille) / 1000
    }
}

/// Scatters a number: the last step of splitmix64. Neighbours give very different results.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(retries: &Retries, failures: impl Iterator<Item = u32>) -> Vec<u64> {
        failures.map(|failures| retries.wait_ms(JobId(7), failures)).collect()
    }

    #[test]
    fn waits_grow_up_to_the_maximum() {
        let plain = Retries { jitter_permille: 0, max_ms: 60_000, ..Retries::default() };
        assert_eq!(waits(&plain, 1..6), [5_000, 10_000, 20_000, 40_000, 60_000]);
        assert_eq!(waits(&plain, [64, 65, 1000, u32::MAX].into_iter()), [60_000; 4]);
        let linear = Retries { backoff: Backoff::Linear, ..plain.clone() };
        assert_eq!(waits(&linear, 1..4), [5_000, 10_000, 15_000]);
        assert_eq!(waits(&linear, [u32::MAX].into_iter()), [60_000]);
        let none = Retries { backoff: Backoff::None, ..plain };
        assert_eq!(waits(&none, 1..3), [0, 0]);
    }

    #[test]
    fn the_jitter_spreads_the_jobs_and_stays_in_its_bounds() {
        let retries = Retries { base_ms: 100_000, ..Retries::default() };
        let mut all: Vec<u64> = (1..=1000).map(|id| retries.wait_ms(JobId(id), 1)).collect();
        let mean = all.iter().sum::<u64>() / 1000;
        assert!((98_000..=102_000).contains(&mean), "{mean}");
        all.sort_unstable();
        assert!(all[0] >= 80_000 && all[0] < 81_000, "{}", all[0]);
        assert!(all[999] <= 120_000 && all[999] > 119_000, "{}", all[999]);
        // The same job waits for another time after each failure.
        assert_ne!(retries.wait_ms(JobId(1), 1) * 2, retries.wait_ms(JobId(1), 2));
    }
}

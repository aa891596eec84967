//! Histograms: how many values were small, and how many were large.
//!
//! The bounds of the buckets are the powers of two. So adding a value costs a few instructions and no
//! memory, and the engine can add one for each job. A quantile is exact to a factor of two.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of buckets.
const BUCKETS: usize = 32;

/// Counts of values by their size. Bucket `n` has the values of at most 2ⁿ that no earlier bucket
/// has. The last bucket also has all larger values.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: u64,
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
    (bits as usize).min(BUCKETS - 1)
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.sum = self.sum.wrapping_add(value);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The number of values that are at most 2 to the power of `exponent`.
    pub fn up_to(&self, exponent: usize) -> u64 {
        self.counts[..BUCKETS.min(exponent + 1)].iter().sum()
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count += other;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The values that this histogram has, and that it did not have when it was `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut counts = self.counts;
        for (count, earlier) in counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(earlier);
        }
        Histogram { counts, sum: self.sum.wrapping_sub(earlier.sum) }
    }

    /// The value that this share of all values does not exceed, for example 0.99. `None` if there
    /// are no values. Within a bucket, the values count as evenly spread.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = share * count as f64;
        let (mut below, mut low) = (0.0, 0.0);
        for (exponent, count) in self.counts.iter().enumerate() {
            let high = (1_u64 << exponent) as f64;
            let count = *count as f64;
            if count > 0.0 && below + count >= wanted {
                return Some(low + (high - low) * ((wanted - below) / count).max(0.0));
            }
            (below, low) = (below + count, high);
        }
        Some(low)
    }
}

/// A histogram that several threads read. Only one thread at a time can add to it.
#[derive(Debug, Default)]
pub struct SharedHistogram {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl SharedHistogram {
    /// Counts a value. If two threads add at the same moment, one of the values can be lost. In
    /// exchange, an addition needs no slow instruction.
    #[inline]
    pub fn add(&self, value: u64) {
        let add = |number: &AtomicU64, more: u64| {
            number.store(number.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.counts[bucket(value)], 1);
        add(&self.sum, value);
    }

    /// The present values. A value that is being added now can be missing in the sum.
    pub fn read(&self) -> Histogram {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Histogram { counts: self.counts.each_ref().map(read), sum: read(&self.sum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut all = Histogram::default();
        for value in values {
            all.add(*value);
        }
        all
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let all = of(&[0, 1, 2, 3, 4, 5, 1 << 20, u64::MAX]);
        assert_eq!([0, 1, 2, 3].map(|exponent| all.up_to(exponent)), [2, 3, 5, 6]);
        assert_eq!([19, 20, 30, 31, 99].map(|exponent| all.up_to(exponent)), [6, 7, 7, 8, 8]);
        assert_eq!(all.count(), 8);
    }

    #[test]
    fn quantiles_are_in_the_bucket_of_the_value() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        let mut all = of(&[100; 99]);
        all.add(5000);
        assert!(all.quantile(0.5).is_some_and(|value| (64.0..=128.0).contains(&value)));
        assert!(all.quantile(0.999).is_some_and(|value| (4096.0..=8192.0).contains(&value)));
        assert_eq!(of(&[8]).quantile(1.0), Some(8.0));
    }

    #[test]
    fn differences_and_sums_are_exact() {
        let (one, other) = (of(&[1, 70, 800]), of(&[70, 9]));
        let mut both = one.clone();
        both.merge(&other);
        assert_eq!((both.count(), both.sum()), (5, 950));
        assert_eq!(both.since(&one), other);
        let shared = SharedHistogram::default();
        for value in [1, 70, 800] {
            shared.add(value);
        }
        assert_eq!(shared.read(), one);
    }
}

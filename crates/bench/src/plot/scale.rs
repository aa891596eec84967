//! Scales: where a value is on an axis, and which values get a label.

/// The kind of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Begins at zero.
    Linear,
    /// Has room only for values above zero.
    Log,
}

/// A scale from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

/// The first digits of labels on a log scale, from few labels to many.
const DIGITS: [&[f64]; 3] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0]];

impl Span {
    /// The scale that ends at the smallest and the largest value.
    pub(super) fn tight(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|value| scale.has(*value));
        let (mut low, mut high) = usable
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if scale == Scale::Linear {
            low = 0.0;
        }
        if !low.is_finite() {
            (low, high) = (1.0, 1.0);
        }
        if low >= high {
            (low, high) = match scale {
                Scale::Linear => (0.0, 1.0),
                Scale::Log => (low / 2.0, low * 2.0),
            };
        }
        Self { scale, low, high }
    }

    /// Like `tight`, but ends at values that can have a label.
    pub(super) fn round(scale: Scale, values: impl Iterator<Item = f64>, labels: usize) -> Self {
        let span = Self::tight(scale, values);
        match scale {
            Scale::Linear => {
                let step = step_of(span.high, labels);
                Self { high: (span.high / step - 1e-9).ceil() * step, ..span }
            }
            Scale::Log => {
                let near = |value: f64| {
                    let decade = 10_f64.powf(value.log10().floor());
                    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade)
                };
                let below = |edge: &f64| *edge <= span.low * 1.000_001;
                let low = near(span.low).into_iter().rfind(below).unwrap_or(span.low);
                let above = |edge: &f64| *edge >= span.high * 0.999_999;
                let high = near(span.high).into_iter().find(above).unwrap_or(span.high);
                Self { low, high, ..span }
            }
        }
    }

    /// The place of a value, from 0 at the beginning of the axis to 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// True if the value can be shown.
    pub(super) fn shows(&self, value: f64) -> bool {
        self.scale.has(value)
    }

    /// The values with a label: about this many.
    pub(super) fn labels(&self, most: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step_of(self.high, most);
                let count = (self.high / step + 1e-9) as usize;
                (0..=count).map(|index| index as f64 * step).collect()
            }
            Scale::Log => {
                let sets = DIGITS.map(|digits| self.with_digits(digits));
                let fitting = sets.iter().rev().find(|set| set.len() <= most);
                fitting.unwrap_or(&sets[0]).clone()
            }
        }
    }

    fn with_digits(&self, digits: &[f64]) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
        all.filter(|value| (self.low * 0.999_999..=self.high * 1.000_001).contains(value)).collect()
    }
}

impl Scale {
    fn has(self, value: f64) -> bool {
        value.is_finite() && (self == Scale::Linear || value > 0.0)
    }
}

/// The smallest round step that needs at most this many labels up to `high`.
fn step_of(high: f64, labels: usize) -> f64 {
    let least = high / labels.max(1) as f64;
    let decade = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    steps.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= right.abs() * 1e-9
    }

    #[test]
    fn a_linear_scale_begins_at_zero_and_ends_at_a_label() {
        let span = Span::round(Scale::Linear, [120e3, 183e3].into_iter(), 4);
        assert_eq!(span.labels(4), [0.0, 50e3, 100e3, 150e3, 200e3]);
        assert!(near(span.place(50e3), 0.25));
    }

    #[test]
    fn a_log_scale_ends_at_round_values() {
        let span = Span::round(Scale::Log, [3.1, 740.0].into_iter(), 4);
        assert!(near(span.low, 2.0) && near(span.high, 1000.0), "{span:?}");
        assert_eq!(span.labels(4), [10.0, 100.0, 1000.0]);
        assert_eq!(span.labels(8), [3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]);
        assert!(near(span.place(2.0 * 500_f64.sqrt()), 0.5));
    }

    #[test]
    fn values_that_a_log_scale_cannot_show_do_not_count() {
        let span = Span::tight(Scale::Log, [0.0, -1.0, f64::NAN, 5.0, 10.0].into_iter());
        assert_eq!((span.low, span.high), (5.0, 10.0));
        assert!(!span.shows(0.0));
    }

    #[test]
    fn one_value_or_none_has_a_scale() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![0.0], vec![7.0]] {
                let span = Span::round(scale, values.into_iter(), 4);
                assert!(span.low < span.high && !span.labels(4).is_empty(), "{span:?}");
            }
        }
    }
}

//! Writes metrics in the text format of Prometheus, version 0.0.4.
//!
//! This crate uses no library with a registry of metrics, because the server already has every
//! number, and the registry would store it twice.

use std::fmt::{Display, Write as _};

use histogram::Histogram;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kind of a metric.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum MetricType {
    /// A number that starts at 0 with the process and only grows.
    Counter,
    /// A number that can grow and shrink.
    Gauge,
    /// Counts of values by their size.
    Histogram,
}

/// How the values of a histogram are shown.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Buckets {
    /// A bucket for each of these powers of two, of the values as they were counted.
    pub(crate) exponents: (usize, usize),
    /// The number of counted units in a unit of the metric.
    pub(crate) units: f64,
}

/// The text so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    name: &'static str,
}

impl Exposition {
    /// Begins a metric. The caller then adds its samples.
    pub(crate) fn metric(&mut self, name: &'static str, kind: MetricType, help: &str) -> &mut Self {
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        self.name = name;
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self
    }

    /// Writes a metric with one sample.
    pub(crate) fn number(
        &mut self,
        name: &'static str,
        kind: MetricType,
        help: &str,
        value: impl Display,
    ) {
        self.metric(name, kind, help).sample(&[], value);
    }

    /// Writes one sample of the current metric.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_of(self.name, labels, value);
    }

    fn sample_of(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.push(name);
        let mut separator = '{';
        for (key, label) in labels {
            self.push(format_args!("{separator}{key}=\""));
            self.push_escaped(label);
            self.text.push('"');
            separator = ',';
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.push(format_args!("{end} {value}\n"));
    }

    /// Writes a histogram as samples of the current metric.
    pub(crate) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        values: &Histogram,
        buckets: Buckets,
    ) {
        let name = self.name;
        let mut bucket = |bound: &str, count: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            self.sample_of(&format!("{name}_bucket"), &labels, count);
        };
        let (first, last) = buckets.exponents;
        for exponent in first..=last {
            let bound = (1_u64 << exponent) as f64 / buckets.units;
            bucket(&bound.to_string(), values.up_to(exponent));
        }
        let count = values.count();
        bucket("+Inf", count);
        self.sample_of(&format!("{name}_sum"), labels, values.sum() as f64 / buckets.units);
        self.sample_of(&format!("{name}_count"), labels, count);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn push_escaped(&mut self, label: &str) {
        for letter in label.chars() {
            match letter {
                '\\' | '"' => self.text.extend(['\\', letter]),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }

    fn push(&mut self, what: impl Display) {
        write!(self.text, "{what}").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_the_format_wants_it() {
        let mut exposition = Exposition::default();
        exposition.number("a_total", MetricType::Counter, "All of a.", 3);
        exposition.metric("b", MetricType::Gauge, "Each b.");
        exposition.sample(&[("q", "x"), ("s", "a \"\\\n")], 0.5);
        let text = "# HELP a_total All of a.\n# TYPE a_total counter\na_total 3\n\
            # HELP b Each b.\n# TYPE b gauge\nb{q=\"x\",s=\"a \\\"\\\\\\n\"} 0.5\n";
        assert_eq!(exposition.into_text(), text);
    }

    #[test]
    fn the_last_bucket_of_a_histogram_has_all_values() {
        let mut values = Histogram::default();
        for value in [1, 3, 64, 1_000_000] {
            values.add(value);
        }
        let mut exposition = Exposition::default();
        exposition.metric("t_seconds", MetricType::Histogram, "Times.");
        let buckets = Buckets { exponents: (1, 6), units: 1e6 };
        exposition.histogram(&[("p", "x")], &values, buckets);
        let text = "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
            t_seconds_bucket{p=\"x\",le=\"0.000002\"} 1\n\
            t_seconds_bucket{p=\"x\",le=\"0.000004\"} 2\n\
            t_seconds_bucket{p=\"x\",le=\"0.000008\"} 2\n\
            t_seconds_bucket{p=\"x\",le=\"0.000016\"} 2\n\
            t_seconds_bucket{p=\"x\",le=\"0.000032\"} 2\n\
            t_seconds_bucket{p=\"x\",le=\"0.000064\"} 3\n\
            t_seconds_bucket{p=\"x\",le=\"+Inf\"} 4\n\
            t_seconds_sum{p=\"x\"} 1.000068\n\
            t_seconds_count{p=\"x\"} 4\n";
        assert_eq!(exposition.into_text(), text);
    }
}

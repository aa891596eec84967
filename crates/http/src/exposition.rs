//! Writes metrics in the text format of Prometheus, version 0.0.4.
//!
//! This crate uses no library with a registry of metrics, because the server already has every
//! number, and the registry would store it twice.

use std::fmt::{Display, Write as _};

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kind of a metric.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum MetricType {
    /// A number that starts at 0 with the process and only grows.
    Counter,
    /// A number that can grow and shrink.
    Gauge,
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
        self.push(self.name);
        let mut separator = '{';
        for (name, label) in labels {
            self.push(format_args!("{separator}{name}=\""));
            self.push_escaped(label);
            self.text.push('"');
            separator = ',';
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.push(format_args!("{end} {value}\n"));
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
}

//! The two formats of a response: JSON, and text for people.

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::snapshot::Snapshot;

/// All numbers. They serialize as one JSON object.
#[derive(Serialize)]
pub(crate) struct Stats<'a> {
    counters: Counters<'a>,
    gauges: Gauges<'a>,
    labels: &'a std::collections::BTreeMap<&'static str, String>,
    metrics: Metrics<'a>,
}

/// The counters of a report. To save memory, a report builds the names of a queue's numbers only
/// when it writes them.
struct Counters<'a>(&'a Snapshot);
struct Gauges<'a>(&'a Snapshot);
struct Metrics<'a>(&'a Snapshot);

impl<'a> Stats<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Stats<'a> {
        Stats {
            counters: Counters(snapshot),
            gauges: Gauges(snapshot),
            labels: &snapshot.labels,
            metrics: Metrics(snapshot),
        }
    }

    /// Writes the sections as text. The rows of a section are sorted and indented by two spaces.
    pub(crate) fn as_text(&self) -> String {
        let sections = [
            ("counters", lines(self.counters.rows())),
            ("gauges", lines(self.gauges.rows().map(|(name, value)| (name, number(value))))),
            ("labels", lines(self.labels.iter().map(|(name, label)| ((*name).to_owned(), label)))),
            ("metrics", lines(self.metrics.rows().map(|(name, all)| (name, plain(&all))))),
        ];
        let mut text = String::new();
        for (name, rows) in sections {
            text.extend([name, ":\n"]);
            text.extend(rows);
        }
        text
    }
}

/// Sorted lines of a section.
fn lines(rows: impl Iterator<Item = (String, impl std::fmt::Display)>) -> Vec<String> {
    let mut rows: Vec<String> = rows.map(|(name, value)| format!("  {name}: {value}\n")).collect();
    rows.sort_unstable();
    rows
}

impl Counters<'_> {
    fn rows(&self) -> impl Iterator<Item = (String, u64)> {
        let own = self.0.counters.iter().map(|(name, value)| ((*name).to_owned(), *value));
        own.chain(self.0.queue_counters())
    }
}

impl Gauges<'_> {
    fn rows(&self) -> impl Iterator<Item = (String, f64)> {
        let own = self.0.gauges.iter().map(|(name, value)| ((*name).to_owned(), *value));
        own.chain(self.0.queue_gauges())
    }
}

impl Metrics<'_> {
    fn rows(&self) -> impl Iterator<Item = (String, Value)> {
        let own = self.0.metrics.iter();
        let own = own.map(|(name, all)| ((*name).to_owned(), distribution(all.as_deref())));
        own.chain(self.0.queue_metrics().map(|name| (name, distribution(None))))
    }
}

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.rows())
    }
}

impl Serialize for Gauges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.rows().map(|(name, value)| (name, number(value))))
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.rows())
    }
}

/// A number in JSON, without decimals if it is whole. As a float, Kestrel's value for "no limit" is
/// too large by 1, and the cast corrects this.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

fn distribution(measured: Option<&Histogram<u64>>) -> Value {
    let Some(measured) = measured.filter(|measured| !measured.is_empty()) else {
        return json!({ "count": 0 });
    };
    let mean = measured.mean();
    let at = |quantile| measured.value_at_quantile(quantile);
    json!({
        "count": measured.len(),
        "sum": (mean * measured.len() as f64).round() as u64,
        "minimum": measured.min(),
        "maximum": measured.max(),
        "average": mean.round() as u64,
        "p25": at(0.25),
        "p50": at(0.5),
        "p75": at(0.75),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
    })
}

/// Writes a line of JSON. If there is a callback, the line is a call of that function. The text gets
/// room for `bytes` bytes at first. With too little room, a long text would be copied several times.
pub(crate) fn as_json(value: &impl Serialize, callback: Option<&str>, bytes: usize) -> String {
    let mut text = Vec::with_capacity(bytes);
    if let Some(callback) = callback {
        text.extend_from_slice(callback.as_bytes());
        text.push(b'(');
    }
    serde_json::to_writer(&mut text, value)
        .expect("all keys are texts, and nothing fails to be written");
    text.extend_from_slice(if callback.is_some() { b")\n" } else { b"\n" });
    String::from_utf8(text).expect("JSON and the names of functions are UTF-8")
}

/// Like `as_json`, but puts a value that is not an object into an object.
pub(crate) fn as_object(value: &Value, callback: Option<&str>) -> String {
    match value {
        Value::Object(_) => as_json(value, callback, 0),
        other => as_json(&json!({ "response": other }), callback, 0),
    }
}

/// Writes a value as text. An object has one line per key.
pub(crate) fn as_text(value: &Value) -> String {
    let Value::Object(rows) = value else { return format!("{}\n", plain(value)) };
    let mut text = String::new();
    text.extend(rows.iter().map(|(name, row)| format!("{name}: {}\n", plain(row))));
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|(key, part)| format!("{key}={}", plain(part))).collect();
            format!("({})", parts.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.counters.insert("cmd_get", 3);
        snapshot.gauges.insert("whole", 3.0);
        snapshot.gauges.insert("part", 0.5);
        snapshot.gauges.insert("no_limit", 9_223_372_036_854_775_807.0);
        snapshot.labels.insert("status", "Up".to_owned());
        snapshot.metrics.insert("none", None);
        let mut measured = Histogram::new(3).unwrap();
        measured.record_n(10, 3).unwrap();
        measured.record(30).unwrap();
        snapshot.metrics.insert("some", Some(Arc::new(measured)));
        snapshot
    }

    #[test]
    fn numbers_look_as_monitoring_knows_them() {
        let text = as_json(&Stats::of(&snapshot()), None, 0);
        assert!(text.contains(r#""counters":{"cmd_get":3}"#), "{text}");
        assert!(
            text.contains(r#""gauges":{"no_limit":9223372036854775807,"part":0.5,"whole":3}"#),
            "{text}"
        );
        assert!(text.contains(r#""labels":{"status":"Up"}"#), "{text}");
        assert!(text.contains(r#""none":{"count":0}"#), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        let some = &read["metrics"]["some"];
        assert_eq!(
            (&some["count"], &some["sum"], &some["average"]),
            (&json!(4), &json!(60), &json!(15))
        );
        assert_eq!((&some["minimum"], &some["maximum"]), (&json!(10), &json!(30)));
        assert_eq!((&some["p50"], &some["p9999"]), (&json!(10), &json!(30)));
    }

    #[test]
    fn text_has_sections() {
        let text = Stats::of(&snapshot()).as_text();
        let wanted = "counters:\n  cmd_get: 3\ngauges:\n  no_limit: 9223372036854775807\n  part: 0.5\n  \
            whole: 3\nlabels:\n  status: Up\nmetrics:\n  none: (count=0)\n  some: (average=15, count=4, maximum=30, \
            minimum=10, p25=10, p50=10, p75=10, p90=30, p95=30, p99=30, p999=30, p9999=30, sum=60)\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_value_becomes_an_object_and_a_callback_takes_it() {
        assert_eq!(as_object(&json!("pong"), None), "{\"response\":\"pong\"}\n");
        assert_eq!(as_object(&json!("pong"), Some("f")), "f({\"response\":\"pong\"})\n");
        assert_eq!(as_text(&json!("pong")), "pong\n");
    }
}

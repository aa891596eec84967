//! The two forms of an answer: JSON, and text for people.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::snapshot::Snapshot;

/// The numbers as one object.
pub(crate) fn stats(snapshot: &Snapshot) -> Value {
    let gauges = snapshot.gauges.iter().map(|(name, value)| (name.clone(), number(*value)));
    let labels = snapshot.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    let metrics = snapshot
        .metrics
        .iter()
        .map(|(name, measured)| (name.clone(), distribution(measured.as_deref())));
    json!({
        "counters": snapshot.counters,
        "gauges": gauges.collect::<Map<_, _>>(),
        "labels": labels.collect::<Map<_, _>>(),
        "metrics": metrics.collect::<Map<_, _>>(),
    })
}

/// A number; a whole one without decimals. The cast turns what stands for no limit back into what it was.
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

/// One line of JSON. What is no object becomes one.
pub(crate) fn as_json(value: &Value, callback: Option<&str>) -> String {
    let object = match value {
        Value::Object(_) => value.to_string(),
        other => json!({ "response": other }).to_string(),
    };
    match callback {
        Some(callback) => format!("{callback}({object})\n"),
        None => format!("{object}\n"),
    }
}

/// Text: an object has a line for each key, one in it begins a section, and one in that stands in one line.
pub(crate) fn as_text(value: &Value) -> String {
    let Value::Object(sections) = value else { return format!("{}\n", plain(value)) };
    let mut text = String::new();
    for (name, section) in sections {
        match section {
            Value::Object(rows) => {
                text.extend([name, ":\n"]);
                text.extend(rows.iter().map(|(key, row)| format!("  {key}: {}\n", plain(row))));
            }
            other => text.extend([name, ": ", &plain(other), "\n"]),
        }
    }
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
        snapshot.counters.insert("cmd_get".to_owned(), 3);
        snapshot.gauge("whole", 3.0);
        snapshot.gauge("part", 0.5);
        snapshot.gauge("q/x/max_bytes", 9_223_372_036_854_775_807.0);
        snapshot.labels.insert("status", "Up".to_owned());
        snapshot.metrics.insert("none".to_owned(), None);
        let mut measured = Histogram::new(3).unwrap();
        measured.record_n(10, 3).unwrap();
        measured.record(30).unwrap();
        snapshot.metrics.insert("some".to_owned(), Some(Arc::new(measured)));
        snapshot
    }

    #[test]
    fn numbers_look_as_monitoring_knows_them() {
        let text = as_json(&stats(&snapshot()), None);
        assert!(text.contains(r#""counters":{"cmd_get":3}"#), "{text}");
        assert!(
            text.contains(r#""gauges":{"part":0.5,"q/x/max_bytes":9223372036854775807,"whole":3}"#),
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
        let text = as_text(&stats(&snapshot()));
        let wanted = "counters:\n  cmd_get: 3\ngauges:\n  part: 0.5\n  q/x/max_bytes: 9223372036854775807\n  \
            whole: 3\nlabels:\n  status: Up\nmetrics:\n  none: (count=0)\n  some: (average=15, count=4, maximum=30, \
            minimum=10, p25=10, p50=10, p75=10, p90=30, p95=30, p99=30, p999=30, p9999=30, sum=60)\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn what_is_no_object_becomes_one_and_a_callback_takes_it() {
        assert_eq!(as_json(&json!("pong"), None), "{\"response\":\"pong\"}\n");
        assert_eq!(as_json(&json!("pong"), Some("f")), "f({\"response\":\"pong\"})\n");
        assert_eq!(as_text(&json!("pong")), "pong\n");
    }
}

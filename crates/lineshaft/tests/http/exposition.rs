//! A strict parser of Prometheus' text format. If this parser accepts a page, every scraper accepts
//! it.

use std::collections::{BTreeMap, BTreeSet};

/// All samples of a page, and the kinds of its metrics. The key of a sample is its name with
/// labels, as on the page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    samples: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl Page {
    /// Parses a page. Panics on an error.
    pub(crate) fn read(text: &str) -> Page {
        assert!(text.ends_with('\n'), "the last line is not whole");
        let mut page = Page::default();
        let mut helped = BTreeSet::new();
        let mut current = "";
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, what) = help.split_once(' ').unwrap();
                assert!(is_name(name) && !what.is_empty(), "{line}");
                assert!(helped.insert(name.to_owned()), "a second time: {line}");
                current = name;
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, current, "{line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(page.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) =
                    series.find('{').map_or((series, ""), |at| series.split_at(at));
                let is_histogram = page.kinds.get(current).is_some_and(|kind| kind == "histogram");
                let part = name.strip_prefix(current).filter(|_| is_histogram);
                let is_part =
                    part.is_some_and(|part| ["_bucket", "_sum", "_count"].contains(&part));
                assert!(name == current || is_part, "a sample among another metric's: {line}");
                assert!(page.kinds.contains_key(current), "{line}");
                check_labels(labels);
                let value: f64 = value.parse().unwrap();
                assert!(value.is_finite() && value >= 0.0, "{line}");
                assert!(page.samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
            }
        }
        for (name, kind) in &page.kinds {
            assert!(helped.contains(name), "{name} is not explained");
            if kind == "histogram" {
                page.check_buckets(name);
            }
        }
        page
    }

    /// The counts of the buckets of a histogram never shrink, and the last one is the count.
    fn check_buckets(&self, name: &str) {
        let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (series, count) in &self.samples {
            let Some(labels) = series.strip_prefix(&format!("{name}_bucket{{")) else { continue };
            let (others, bound) = labels.split_once("le=\"").unwrap();
            let bound = bound.strip_suffix("\"}").unwrap().replace("+Inf", "inf");
            let others = others.trim_end_matches(',').to_owned();
            buckets.entry(others).or_default().push((bound.parse().unwrap(), *count));
        }
        for (others, mut buckets) in buckets {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(buckets.is_sorted_by_key(|(_, count)| *count), "{name}: {buckets:?}");
            let labels = if others.is_empty() { String::new() } else { format!("{{{others}}}") };
            let count = self.value(&format!("{name}_count{labels}"));
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{name}");
        }
    }

    /// The value of a series. `series` is its name with labels, as on the page.
    pub(crate) fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.samples))
    }

    pub(crate) fn get(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The sum over all series of a metric whose labels contain this text.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let of_metric = self.samples.iter().filter(|(series, _)| {
            series.starts_with(&format!("{name}{{")) && series.contains(label)
        });
        of_metric.map(|(_, value)| value).sum()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Checks labels in the form `{name="value",…}`. No labels are also valid.
fn check_labels(labels: &str) {
    if labels.is_empty() {
        return;
    }
    let mut rest = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap();
    let mut names = BTreeSet::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap();
        assert!(is_name(name) && names.insert(name), "{labels}");
        let mut letters = value.char_indices();
        let end = loop {
            match letters.next().expect("the end of a value") {
                (_, '\\') => {
                    let escaped = letters.next().expect("an escaped letter").1;
                    assert!(['\\', '"', 'n'].contains(&escaped), "{labels}");
                }
                (at, '"') => break at,
                _ => {}
            }
        };
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or_else(|| {
            assert!(rest.is_empty(), "{labels}");
            rest
        });
    }
}

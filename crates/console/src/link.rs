//! Addresses of pages.

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::texts::Texts;

/// The bytes that a part of a path can have as they are.
pub(crate) const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// At most this many characters of a name are in a list.
const SHOWN_MAX: usize = 80;
/// A request has at most 16 KiB, so a longer address of a queue cannot be used.
const ADDRESS_BYTES_MAX: usize = 12 << 10;

/// The name of a queue in a list, as a link to its page.
pub(crate) fn to_queue(t: &Texts, name: &str) -> Markup {
    let address = queue(name);
    let cut = name.char_indices().nth(SHOWN_MAX).map(|(end, _)| &name[..end]);
    let shown = html! { (cut.unwrap_or(name)) @if cut.is_some() { "…" } };
    html! {
        @if address.len() > ADDRESS_BYTES_MAX {
            span title=(t.frame.long_name) { (shown) }
        } @else {
            a href=(address) { (shown) }
        }
    }
}

/// The page of a queue. `name` is the name as the API shows it.
pub(crate) fn queue(name: &str) -> String {
    format!("{}/queues/{}", crate::PREFIX, utf8_percent_encode(name, IN_PATH))
}

/// The page of a job.
pub(crate) fn job(id: u64) -> String {
    format!("{}/jobs/{id}", crate::PREFIX)
}

/// The jobs that have left a queue.
pub(crate) fn queue_history(name: &str) -> String {
    format!("{}/history", queue(name))
}

/// A job as it left its last queue.
pub(crate) fn past_job(id: u64) -> String {
    format!("{}/history", job(id))
}

/// A job as it left this queue at this moment. `path` is the path for the job.
pub(crate) fn entry(path: &str, queue: &str, left_at: &str) -> String {
    let full = with(path, &[("queue", Some(queue)), ("left_at", Some(left_at))]);
    // The moment alone is almost always enough.
    if full.len() > ADDRESS_BYTES_MAX { with(path, &[("left_at", Some(left_at))]) } else { full }
}

/// The page of the operations.
pub(crate) fn operations() -> String {
    format!("{}/operations", crate::PREFIX)
}

/// The page of the people who are signed in.
pub(crate) fn sessions() -> String {
    format!("{}/sessions", crate::PREFIX)
}

/// The page of a connection.
pub(crate) fn connection(id: &str) -> String {
    format!("{}/connections/{id}", crate::PREFIX)
}

/// A page with parameters. Parameters without a value are left out.
pub(crate) fn with(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts;

    #[test]
    fn names_are_one_part_of_a_path() {
        assert_eq!(queue("a/b ?.."), "/console/queues/a%2Fb%20%3F%2E%2E");
    }

    #[test]
    fn long_names_are_cut_and_very_long_ones_have_no_link() {
        assert_eq!(
            to_queue(texts::ALL[0], "a<").into_string(),
            "<a href=\"/console/queues/a%3C\">a&lt;</a>"
        );
        let long = to_queue(texts::ALL[0], &"ä".repeat(81)).into_string();
        assert!(long.ends_with(&format!(">{}…</a>", "ä".repeat(80))), "{long}");
        let address = format!("href=\"{}\"", queue(&"ä".repeat(81)));
        assert!(long.contains(&address), "{long}");
        let longest = to_queue(texts::ALL[0], &"x".repeat(13 << 10)).into_string();
        assert!(longest.starts_with("<span title=") && longest.len() < 300, "{longest}");
    }

    #[test]
    fn an_entry_is_named_by_its_queue_and_its_moment() {
        let at = "2026-11-25T09:30:00.000Z";
        let shown = "/console/jobs/7/history?queue=a%26b&left_at=2026-11-25T09%3A30%3A00.000Z";
        assert_eq!(entry(&past_job(7), "a&b", at), shown);
        let long = entry(&past_job(7), &"x".repeat(13 << 10), at);
        assert_eq!(long, "/console/jobs/7/history?left_at=2026-11-25T09%3A30%3A00.000Z");
    }

    #[test]
    fn parameters_without_a_value_are_left_out() {
        assert_eq!(with("/x", &[("a", None)]), "/x");
        assert_eq!(with("/x", &[("a", None), ("b", Some("1&2"))]), "/x?b=1%262");
    }
}

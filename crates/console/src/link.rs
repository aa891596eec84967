//! Addresses of pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The bytes that a part of a path can have as they are.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// The page of a queue. `name` is the name as the API shows it.
pub(crate) fn queue(name: &str) -> String {
    format!("{}/queues/{}", crate::PREFIX, utf8_percent_encode(name, IN_PATH))
}

/// The page of a job.
pub(crate) fn job(id: u64) -> String {
    format!("{}/jobs/{id}", crate::PREFIX)
}

/// The page of the operations.
pub(crate) fn operations() -> String {
    format!("{}/operations", crate::PREFIX)
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

    #[test]
    fn names_are_one_part_of_a_path() {
        assert_eq!(queue("a/b ?.."), "/console/queues/a%2Fb%20%3F%2E%2E");
    }

    #[test]
    fn parameters_without_a_value_are_left_out() {
        assert_eq!(with("/x", &[("a", None)]), "/x");
        assert_eq!(with("/x", &[("a", None), ("b", Some("1&2"))]), "/x?b=1%262");
    }
}

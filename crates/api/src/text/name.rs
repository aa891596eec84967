//! Names of queues as text. A name is any bytes. Its text is valid in JSON, and, when it is
//! percent-encoded, as one part of a path.
//!
//! Valid UTF-8 is unchanged, except that a backslash is doubled. Another byte becomes `\x` and two
//! hexadecimal digits. The empty name is `\e`. In the names `.` and `..` the first dot is written
//! as a byte, because clients remove such parts from a path.

use axum::extract::{FromRequestParts, Path};
use broker::limits::QUEUE_NAME_BYTES_MAX;
use hyper::http::request::Parts;

use crate::problem::{Problem, ProblemKind};

/// The text of a name.
pub fn shown_name(name: &[u8]) -> String {
    match name {
        b"" => "\\e".to_owned(),
        b"." => "\\x2e".to_owned(),
        b".." => "\\x2e.".to_owned(),
        _ => http_api::escaped_name(name),
    }
}

impl Problem {
    /// No queue has this name.
    pub(crate) fn no_queue(name: &[u8]) -> Problem {
        let why = format!("no queue has the name `{}`", shown_name(name));
        Problem::new(ProblemKind::NotFound, why)
    }
}

/// The name with this text.
pub fn parse_name(text: &str) -> Result<Vec<u8>, Problem> {
    let bad = |why: &str| Problem::new(ProblemKind::BadName, why).of_parameter("queue");
    if text == "\\e" {
        return Ok(Vec::new());
    }
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        name.extend_from_slice(before.as_bytes());
        if let Some(after) = after.strip_prefix('\\') {
            name.push(b'\\');
            rest = after;
        } else {
            let digits = after.strip_prefix('x').and_then(|after| after.get(..2));
            let byte = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(
                || bad("after a backslash, write another backslash, or x and two hexadecimal digits"),
            )?;
            name.push(byte);
            rest = &after[3..];
        }
    }
    name.extend_from_slice(rest.as_bytes());
    if name.len() > QUEUE_NAME_BYTES_MAX {
        return Err(bad("the name is too long"));
    }
    Ok(name)
}

/// The name of a queue in the path of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct QueueName(pub(crate) Vec<u8>);

impl<S: Send + Sync> FromRequestParts<S> for QueueName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueueName, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| {
            let why = "the name is not UTF-8; write other bytes as \\x and two hexadecimal digits";
            Problem::new(ProblemKind::BadName, why).of_parameter("queue")
        })?;
        parse_name(&text).map(QueueName)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_readable() {
        for (name, text) in [
            (&b"mail"[..], "mail"),
            ("naïve/邮件".as_bytes(), "naïve/邮件"),
            (b"a\xffb", "a\\xffb"),
            (b"a\\xffb", "a\\\\xffb"),
            (b"", "\\e"),
            (b".", "\\x2e"),
            (b"..", "\\x2e."),
            (b"...", "..."),
        ] {
            assert_eq!(shown_name(name), text);
            assert_eq!(parse_name(text).unwrap(), name);
        }
    }

    #[test]
    fn wrong_names_are_refused() {
        for text in ["\\", "a\\", "\\q", "\\x", "\\x1", "\\xgg", "\\x+1", "\\xé", "\\e\\e"] {
            let problem = parse_name(text).unwrap_err();
            assert!(problem.kind.ends_with("#bad-name"), "{text}");
        }
        assert!(parse_name(&"n".repeat(QUEUE_NAME_BYTES_MAX)).is_ok());
        assert!(parse_name(&"n".repeat(QUEUE_NAME_BYTES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn every_name_has_a_text_of_its_own(name in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(parse_name(&shown_name(&name)).unwrap(), name);
        }

        #[test]
        fn any_text_is_a_name_or_a_problem(text in ".{0,40}") {
            let _ = parse_name(&text);
        }
    }
}

//! The trace context of the W3C (`traceparent`), in the JSON body of a job.

use api::JsonPointer;
use memchr::memmem::Finder;
use serde_json::Value;

/// The server does not look into larger bodies.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The length of a `traceparent` of version 00. Later versions can append more.
const LENGTH: usize = 55;

/// The context in which a job was put.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TraceContext {
    /// 32 hexadecimal digits.
    pub(crate) trace_id: String,
    /// The span of the program that put the job: 16 hexadecimal digits.
    pub(crate) parent_id: String,
    /// Whether this program records its spans.
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Reads `VERSION-TRACE-PARENT-FLAGS`.
    pub(crate) fn parse(text: &str) -> Option<TraceContext> {
        let bytes = text.as_bytes();
        let is_hex =
            |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_id = |part: &[u8]| is_hex(part) && part.iter().any(|digit| *digit != b'0');
        let (head, rest) = bytes.split_at_checked(LENGTH)?;
        let [version, trace, parent, flags] =
            [&head[..2], &head[3..35], &head[36..52], &head[53..]];
        let dashes = [head[2], head[35], head[52]];
        let is_longer = rest.first().is_some_and(|byte| *byte == b'-') && version != b"00";
        if !(rest.is_empty() || is_longer)
            || dashes != [b'-'; 3]
            || !is_hex(version)
            || version == b"ff"
            || !is_id(trace)
            || !is_id(parent)
            || !is_hex(flags)
        {
            return None;
        }
        // All bytes up to here are ASCII.
        let flags = u8::from_str_radix(&text[53..55], 16).ok()?;
        Some(TraceContext {
            trace_id: text[3..35].to_owned(),
            parent_id: text[36..52].to_owned(),
            is_sampled: flags & 1 == 1,
        })
    }
}

/// The place of the trace context in a body: a JSON pointer (RFC 6901).
#[derive(Debug)]
pub(crate) struct Pointer {
    pointer: String,
    /// Finds the last name of the pointer. Most bodies without a context do not contain it, so they
    /// need not be parsed. A body that writes this name with escapes has no context for the server.
    name: Finder<'static>,
}

impl Pointer {
    pub(crate) fn new(pointer: &JsonPointer) -> Pointer {
        let name = pointer.steps().last().map_or("", String::as_str);
        let name = Finder::new(name.as_bytes()).into_owned();
        Pointer { pointer: pointer.text().to_owned(), name }
    }

    /// The trace context in this body.
    pub(crate) fn find(&self, body: &[u8]) -> Option<TraceContext> {
        if body.len() > BODY_BYTES_MAX || self.name.find(body).is_none() {
            return None;
        }
        let body: Value = serde_json::from_slice(body).ok()?;
        TraceContext::parse(body.pointer(&self.pointer)?.as_str()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_has_ids_and_flags() {
        let context = TraceContext::parse(PARENT).unwrap();
        assert_eq!(context.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent_id, "00f067aa0ba902b7");
        assert!(context.is_sampled);
        assert!(!TraceContext::parse(&PARENT.replace("-01", "-00")).unwrap().is_sampled);
        assert!(TraceContext::parse(&PARENT.replace("-01", "-03")).unwrap().is_sampled);
        let later = format!("cc{}-what-comes-later", &PARENT[2..]);
        assert_eq!(TraceContext::parse(&later).unwrap(), context);
    }

    #[test]
    fn invalid_contexts_are_ignored() {
        for wrong in [
            "",
            &PARENT[..54],
            &format!("{PARENT}-more"),
            &format!("{PARENT}0"),
            &PARENT.replace("00-4", "ff-4"),
            &PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &PARENT.to_uppercase(),
            &PARENT.replacen('-', "_", 1),
            &PARENT.replace("4736", "473é"),
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pointer_finds_the_context_in_a_body() {
        let find = |pointer: &str, body: &str| {
            Pointer::new(&JsonPointer::parse(pointer).unwrap()).find(body.as_bytes())
        };
        let body = format!(r#"{{"traceparent":"{PARENT}","meta":{{"a/b":["{PARENT}",7]}}}}"#);
        assert!(find("/traceparent", &body).is_some());
        assert!(find("/meta/a~1b/0", &body).is_some());
        for pointer in ["/meta/a~1b/1", "/meta", "/other", "/meta/traceparent"] {
            assert_eq!(find(pointer, &body), None, "{pointer}");
        }
        for body in ["traceparent", "", "{\"traceparent\":7}", "a:2:{s:11:\"traceparent\";}"] {
            assert_eq!(find("/traceparent", body), None, "{body}");
        }
    }
}

//! Who sees the bodies of jobs over HTTP, and the values in them that are not shown.

use std::borrow::Cow;
use std::ops::Range;

use broker::limits::DEAD_ERROR_BYTES_MAX;
use broker::policy::Key;
use hyper::body::Bytes;
use serde::de::IgnoredAny;

use crate::access::Principal;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::types::Role;

/// The deepest JSON that is read, as in many libraries. The scan needs stack for each level.
const DEPTH_MAX: usize = 128;
/// The text that replaces a masked value.
const MASKED: &[u8] = b"\"***\"";
/// A longer body is masked in another thread.
const MASKED_IN_PLACE_MAX: usize = 64 << 10;
/// With masks, a longer body is not shown: reading its JSON would take too long.
const MASKED_BYTES_MAX: usize = 16 << 20;

/// What the configuration says about the bodies of jobs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BodySettings {
    /// The role that a client needs to see bodies. `None`: no client sees them.
    pub shown_to: Option<Role>,
    /// The values in JSON that are not shown. A worker gets the whole body, also over HTTP.
    pub masks: Vec<JsonPointer>,
}

impl Default for BodySettings {
    fn default() -> BodySettings {
        BodySettings { shown_to: Some(Role::Viewer), masks: Vec::new() }
    }
}

/// The place of a value in JSON, as in RFC 6901: `/customer/card`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonPointer {
    text: String,
    steps: Vec<String>,
}

impl JsonPointer {
    /// Reads a pointer. The error describes the mistake.
    pub fn parse(text: &str) -> Result<JsonPointer, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("`{text}` is not a JSON pointer such as `/customer/card`"));
        };
        let steps = rest.split('/').map(step_of).collect::<Option<_>>();
        let steps = steps.ok_or_else(|| {
            format!("`{text}`: in a JSON pointer, write `~0` for `~`, and `~1` for `/`")
        })?;
        Ok(JsonPointer { text: text.to_owned(), steps })
    }

    /// The names and numbers on the way to the value, without escapes.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The pointer as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A step of a pointer without its escapes.
fn step_of(text: &str) -> Option<String> {
    let mut parts = text.split('~');
    let mut step = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.strip_prefix('0').map(|rest| ('~', rest));
        let (letter, rest) = rest.or_else(|| part.strip_prefix('1').map(|rest| ('/', rest)))?;
        step.push(letter);
        step.push_str(rest);
    }
    Some(step)
}

impl BodySettings {
    /// A body as clients see it. `None`: it may have a masked value that cannot be found, because it
    /// begins like JSON and is not valid, or is very long or deep, or has another encoding than
    /// UTF-8.
    pub(crate) fn masked<'a>(&self, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.masks.is_empty() {
            return Some(Cow::Borrowed(body));
        }
        if is_wide(body) {
            return None;
        }
        let json = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        if !matches!(json.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return Some(Cow::Borrowed(body));
        }
        if body.len() > MASKED_BYTES_MAX {
            return None;
        }
        serde_json::from_slice::<IgnoredAny>(json).ok()?;
        let mut scan = Scan { json, at: 0, depth: 0, found: Vec::new() };
        let masks: Vec<&[String]> = self.masks.iter().map(|mask| &mask.steps[..]).collect();
        scan.value(&masks)?;
        if scan.found.is_empty() {
            return Some(Cow::Borrowed(body));
        }
        let mut shown = Vec::with_capacity(json.len());
        let mut at = 0;
        for found in scan.found {
            shown.extend_from_slice(&json[at..found.start]);
            shown.extend_from_slice(MASKED);
            at = found.end;
        }
        shown.extend_from_slice(&json[at..]);
        Some(Cow::Owned(shown))
    }

    /// Whether clients can search for a key: its JSON pointer does not lead to a masked value. Other keys can
    /// have masked values in them, and the match of a `regex:` key can be one. They are still found: nobody
    /// can tell from the expression what it matches, and the role that a redrive needs can also take the job,
    /// and a taken job has no masks.
    pub(crate) fn shows_key(&self, key: &Key) -> bool {
        let pointer = key.as_str().strip_prefix("json:");
        pointer.is_none_or(|pointer| !self.masks.iter().any(|mask| is_within(pointer, mask)))
    }
}

/// Whether a JSON pointer leads to the value of another one, or to a part of it.
fn is_within(pointer: &str, other: &JsonPointer) -> bool {
    let rest = pointer.strip_prefix(&*other.text);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a body can be JSON in UTF-16 or UTF-32: it begins with a byte order mark, or a zero byte
/// is directly before or behind its first bracket.
fn is_wide(body: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xfe\xff", b"\xff\xfe", b"\0\0\xfe\xff"];
    if marks.iter().any(|mark| body.starts_with(mark)) {
        return true;
    }
    let is_text = |byte: &u8| *byte != 0 && !byte.is_ascii_whitespace();
    let Some(at) = body.iter().position(is_text) else { return false };
    matches!(body[at], b'{' | b'[') && (body[..at].contains(&0) || body.get(at + 1) == Some(&0))
}

/// Finds the masked values in JSON that is known to be valid. Each function returns `None` if the
/// JSON is not what it expects, so that nothing is shown then.
struct Scan<'a> {
    json: &'a [u8],
    at: usize,
    /// The objects and lists around this place.
    depth: usize,
    /// The places of the masked values, in order.
    found: Vec<Range<usize>>,
}

impl Scan<'_> {
    fn skip_space(&mut self) {
        while self.json.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Skips space, and this byte if it comes next.
    fn skips(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.json.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads a value. `masks` are the rests of the pointers that lead to it.
    fn value(&mut self, masks: &[&[String]]) -> Option<()> {
        self.skip_space();
        let begin = self.at;
        if masks.iter().any(|mask| mask.is_empty()) {
            self.value(&[])?;
            self.found.push(begin..self.at);
            return Some(());
        }
        match self.json.get(self.at)? {
            first @ (b'{' | b'[') if self.depth < DEPTH_MAX => {
                self.depth += 1;
                let read = if *first == b'{' { self.members(masks) } else { self.elements(masks) };
                self.depth -= 1;
                read
            }
            b'{' | b'[' => None,
            b'"' => self.text().map(drop),
            _ => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
                let rest = &self.json[self.at..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                Some(())
            }
        }
    }

    fn members(&mut self, masks: &[&[String]]) -> Option<()> {
        self.at += 1;
        if self.skips(b'}') {
            return Some(());
        }
        loop {
            self.skip_space();
            let name = self.text()?;
            let masks = if masks.is_empty() {
                Vec::new()
            } else {
                // A name can be written with escapes.
                behind(masks, &serde_json::from_slice::<String>(&self.json[name]).ok()?)
            };
            if !self.skips(b':') {
                return None;
            }
            self.value(&masks)?;
            if !self.skips(b',') {
                return self.skips(b'}').then_some(());
            }
        }
    }

    fn elements(&mut self, masks: &[&[String]]) -> Option<()> {
        self.at += 1;
        if self.skips(b']') {
            return Some(());
        }
        for index in 0_usize.. {
            let masks =
                if masks.is_empty() { Vec::new() } else { behind(masks, &index.to_string()) };
            self.value(&masks)?;
            if !self.skips(b',') {
                break;
            }
        }
        self.skips(b']').then_some(())
    }

    /// Reads a text, with its quotes.
    fn text(&mut self) -> Option<Range<usize>> {
        let begin = self.at;
        if self.json.get(begin) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        loop {
            match self.json.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(begin..self.at);
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

/// The rests of the pointers whose next step has this name.
fn behind<'m>(masks: &[&'m [String]], name: &str) -> Vec<&'m [String]> {
    let split = masks.iter().filter_map(|mask| mask.split_first());
    split.filter(|(step, _)| *step == name).map(|(_, rest)| rest).collect()
}

/// The error of a worker. It can have parts of a body, so it obeys the same settings. `None`: they
/// hide it.
pub(crate) fn shown_error(error: &[u8], bodies: Option<&BodySettings>) -> Option<String> {
    if error.is_empty() {
        return Some(String::new());
    }
    let bodies = bodies?;
    // An error that was cut can be the end of JSON, in which nothing can be masked.
    if !bodies.masks.is_empty() && error.len() >= DEAD_ERROR_BYTES_MAX {
        return None;
    }
    let shown = bodies.masked(error)?;
    Some(String::from_utf8_lossy(&shown).into_owned())
}

impl Api {
    /// Checks that the client may see the bodies of jobs.
    pub(crate) fn check_bodies(&self, principal: &Principal) -> Result<(), Problem> {
        if let Some(role) = self.setup.bodies.shown_to {
            return principal.require(role);
        }
        let why = "the server shows no bodies of jobs over HTTP: see `http.bodies`";
        Err(Problem::new(ProblemKind::Forbidden, why))
    }

    /// Whether the client may see the bodies of jobs.
    pub fn sees_bodies(&self, principal: &Principal) -> bool {
        self.check_bodies(principal).is_ok()
    }

    /// The settings for bodies, if the client may see bodies.
    pub(crate) fn bodies_for(&self, principal: &Principal) -> Option<&BodySettings> {
        self.sees_bodies(principal).then_some(&self.setup.bodies)
    }

    /// A body as clients see it: the same bytes, or a copy with masks.
    pub(crate) async fn shown_body(&self, body: Bytes) -> Result<Bytes, Problem> {
        if self.setup.bodies.masks.is_empty() {
            return Ok(body);
        }
        let (setup, is_long) = (self.setup.clone(), body.len() > MASKED_IN_PLACE_MAX);
        let mask = move || match setup.bodies.masked(&body)? {
            Cow::Borrowed(_) => Some(body.clone()),
            Cow::Owned(masked) => Some(Bytes::from(masked)),
        };
        // Long JSON takes a while. Other requests must not wait for it.
        let shown = if is_long { self.masking(mask).await? } else { mask() };
        shown.ok_or_else(|| {
            let why = "the server does not show this body: it has to mask values in it \
                (`http.mask`), but it cannot read its JSON";
            Problem::new(ProblemKind::Forbidden, why)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn settings(masks: &[&str]) -> BodySettings {
        let masks = masks.iter().map(|mask| JsonPointer::parse(mask).unwrap()).collect();
        BodySettings { masks, ..BodySettings::default() }
    }

    fn masked(masks: &[&str], body: &str) -> Option<String> {
        let shown = settings(masks).masked(body.as_bytes())?.into_owned();
        Some(String::from_utf8(shown).unwrap())
    }

    #[test]
    fn masked_values_are_replaced_and_the_rest_stays_as_it_is() {
        for (masks, body, shown) in [
            (
                &["/password"][..],
                r#"{"user": "ann", "password": "x"}"#,
                r#"{"user": "ann", "password": "***"}"#,
            ),
            (
                &["/password"],
                r#"{"password":{"a":[1,"}"]},"b":1.10}"#,
                r#"{"password":"***","b":1.10}"#,
            ),
            (&["/a/1/b"], " [0]", " [0]"),
            (
                &["/a/1/b"],
                r#"{"a":[{"b":1},{"b":2,"c":3}]}"#,
                r#"{"a":[{"b":1},{"b":"***","c":3}]}"#,
            ),
            // A name can occur twice, and with escapes.
            (&["/pin"], r#"{"pin":1,"p\u0069n":2}"#, r#"{"pin":"***","p\u0069n":"***"}"#),
            (&["/a~1b~0c"], r#"{"a/b~c":true}"#, r#"{"a/b~c":"***"}"#),
            (&["/a", "/a/b", "/c"], r#"{"a":{"b":1},"c":null}"#, r#"{"a":"***","c":"***"}"#),
            (&["/"], r#"{"":1,"x":2}"#, r#"{"":"***","x":2}"#),
            (&["/x"], "to=ann", "to=ann"),
            (&["/x"], r#""x""#, r#""x""#),
        ] {
            assert_eq!(masked(masks, body).as_deref(), Some(shown), "{masks:?} {body}");
        }
    }

    #[test]
    fn a_body_whose_json_cannot_be_read_is_not_shown() {
        let deep = format!("{}{{\"x\":1}}{}", "[".repeat(200), "]".repeat(200));
        for body in [r#"{"x":1"#, "{\"x\":1}\n{\"x\":2}", "[1,]", "\u{feff}{x:1}", &deep] {
            assert_eq!(masked(&["/x"], body), None, "{body}");
            assert_eq!(masked(&[], body).as_deref(), Some(body), "no mask needs its JSON");
        }
    }

    #[test]
    fn json_in_other_encodings_is_not_shown() {
        let json = r#"{"x":1}"#;
        let wide = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
            [mark, &json.encode_utf16().flat_map(bytes).collect::<Vec<u8>>()].concat()
        };
        for body in [
            wide(b"\xfe\xff", u16::to_be_bytes),
            wide(b"\xff\xfe", u16::to_le_bytes),
            wide(b"", u16::to_be_bytes),
            wide(b"", u16::to_le_bytes),
            wide(b" \0", u16::to_le_bytes),
        ] {
            assert_eq!(settings(&["/x"]).masked(&body), None, "{body:?}");
            assert!(settings(&[]).masked(&body).is_some(), "no mask needs its JSON");
        }
        for bytes in [&b"\0\x01x{"[..], b"\n\0\x02", b"", b"\0"] {
            assert!(settings(&["/x"]).masked(bytes).is_some(), "no JSON: {bytes:?}");
        }
    }

    #[test]
    fn pointers_are_checked() {
        for wrong in ["", "password", "/a~2", "/a~"] {
            assert!(JsonPointer::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(JsonPointer::parse("/a~01/b").unwrap().steps, ["a~1", "b"]);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_mask_changes_what_a_pointer_finds_and_nothing_else(
            value in json(), pointer in "(/[ab01]){1,3}", is_pretty: bool,
        ) {
            let text = if is_pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            let mut expected = value;
            if let Some(found) = expected.pointer_mut(&pointer) {
                *found = Value::from("***");
            }
            let shown = masked(&[&pointer], &text).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), expected);
        }
    }
}

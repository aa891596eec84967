//! Keys of jobs: an operator writes where the key of a job is, and the engine computes it once, when
//! the job is put.
//!
//! The work for one key has a bound. If a job has no key, the key is empty. That is never an error.

use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;

/// Maximum length of an expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 512;
/// Maximum length of the text of a key, in bytes. The rest of a longer key is only in its hash.
pub const KEY_TEXT_BYTES_MAX: usize = 64;
/// Maximum size of a body that is read as JSON, in bytes. A larger body has no key.
pub const JSON_BYTES_MAX: usize = 64 << 10;
/// Maximum number of bytes of a body that `prefix:`, `until:` and `regex:` look at.
pub const SCAN_BYTES_MAX: usize = 4 << 10;
/// Maximum number of names in a JSON pointer.
const DEPTH_MAX: usize = 32;
/// Maximum memory of one compiled pattern, in bytes.
const PATTERN_MEMORY_MAX: usize = 256 << 10;

/// Where the key of a job is. Made from a text, such as `json:/tenant`. A clone is cheap.
#[derive(Clone)]
pub struct Key(Arc<Expression>);

struct Expression {
    text: Box<str>,
    /// A hash of the text, so that rules compare expressions without their texts.
    hash: KeyHash,
    source: Source,
}

enum Source {
    /// The whole body.
    Body,
    /// The string, number or truth value that a JSON pointer leads to.
    Json(Box<[Box<str>]>),
    /// The first bytes of the body, or the whole body if it is shorter.
    Prefix(usize),
    /// The bytes of the body before the first such byte.
    Until(u8),
    /// The key that a client of Gearman gave to the job.
    GearmanUnique,
    /// The host or the name of the client.
    Client,
    /// What the group of the pattern matches.
    Regex(Regex),
}

/// What the key of a job can depend on.
#[derive(Copy, Clone, Debug, Default)]
pub struct KeySource<'a> {
    /// The body of the job.
    pub body: &'a [u8],
    /// The key that a client of Gearman gave to the job. `-`: the body is the key. Empty: none.
    pub gearman_unique: &'a [u8],
    /// The address of the client, with or without its port, or its name. Empty: it is unknown.
    pub client: &'a str,
}

/// The key of one job.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct KeyValue {
    /// The first bytes of the key, for people.
    pub text: SmallVec<[u8; KEY_TEXT_BYTES_MAX]>,
    /// A hash of the whole key. It never changes its meaning, because the log stores it.
    pub hash: KeyHash,
}

/// A hash of an expression and of the key that it leads to: the first 16 bytes of their SHA-256. So
/// keys of different expressions differ, although their bytes are equal. All zeros: the empty key.
pub type KeyHash = [u8; 16];

/// Why a text is no expression for a key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// The text is too long.
    #[error("a key has at most {EXPRESSION_BYTES_MAX} bytes")]
    TooLong,
    /// There is no such kind of key.
    #[error(
        "`{0}` is not a key; write `body`, `json:/a/b`, `prefix:<n>`, `until:<byte>`, \
         `gm:unique`, `client` or `regex:<pattern>`"
    )]
    Unknown(String),
    /// The JSON pointer is wrong.
    #[error(
        "`{0}` is not a JSON pointer; write `/` before each name, such as `json:/user/id`, \
         and at most {DEPTH_MAX} names"
    )]
    Pointer(String),
    /// The length of the prefix is wrong.
    #[error("`{0}` is not a length; write a number from 1 to {SCAN_BYTES_MAX}")]
    Prefix(String),
    /// The byte is not one byte.
    #[error(
        "`{0}` is not one byte; write an ASCII character, `\\n`, `\\r`, `\\t`, `\\0`, `\\\\` or such \
         as `\\xff`"
    )]
    Byte(String),
    /// The pattern cannot be compiled.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// The pattern has no group, or several.
    #[error("the pattern has {0} groups `(…)`; it needs exactly one, around the key")]
    Groups(usize),
}

impl Key {
    /// The text that the key was made from.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// A hash of the text.
    pub(crate) fn expression_hash(&self) -> KeyHash {
        self.0.hash
    }

    /// Whether the key depends on the client, and not on the job alone.
    pub fn needs_client(&self) -> bool {
        matches!(self.0.source, Source::Client)
    }

    /// An upper bound for the bytes that [`Key::compute`] reads, for the account of work.
    pub fn bytes_read(&self, job: KeySource<'_>) -> usize {
        let body = job.body.len();
        match &self.0.source {
            Source::Body => body,
            Source::Json(_) if body > JSON_BYTES_MAX => 0,
            // To read JSON takes several times as long as to hash it.
            Source::Json(_) => 4 * body,
            Source::Prefix(length) => body.min(*length),
            Source::Until(_) | Source::Regex(_) => body.min(SCAN_BYTES_MAX),
            Source::GearmanUnique if job.gearman_unique == b"-" => body,
            Source::GearmanUnique | Source::Client => 0,
        }
    }

    /// The key of a job. Empty: the job has none.
    pub fn compute(&self, job: KeySource<'_>) -> KeyValue {
        let scanned = &job.body[..job.body.len().min(SCAN_BYTES_MAX)];
        match &self.0.source {
            Source::Body => {
                let mut value = self.value(job.body);
                if !value.is_empty() {
                    // A body can be anything, so its hash is what people see.
                    value.text = hex(&value.hash).as_bytes().into();
                }
                value
            }
            Source::Json(pointer) => json_at(job.body, pointer)
                .map_or_else(KeyValue::default, |found| self.value(found.as_bytes())),
            Source::Prefix(length) => self.value(&scanned[..scanned.len().min(*length)]),
            Source::Until(byte) => {
                let end = scanned.iter().position(|one| one == byte).unwrap_or(0);
                self.value(&scanned[..end])
            }
            Source::GearmanUnique if job.gearman_unique == b"-" => self.value(job.body),
            Source::GearmanUnique => self.value(job.gearman_unique),
            Source::Client => self.value(host(job.client).as_bytes()),
            Source::Regex(pattern) => {
                let found = pattern.captures(scanned).and_then(|found| found.get(1));
                self.value(found.map_or(b"", |group| group.as_bytes()))
            }
        }
    }

    /// The hash of the key with these bytes.
    pub(crate) fn hash_of(&self, bytes: &[u8]) -> KeyHash {
        self.value(bytes).hash
    }

    /// The key with these bytes.
    fn value(&self, bytes: &[u8]) -> KeyValue {
        if bytes.is_empty() {
            return KeyValue::default();
        }
        let expression = self.as_str().as_bytes();
        let len = (expression.len() as u16).to_le_bytes();
        let digest =
            Sha256::new().chain_update(len).chain_update(expression).chain_update(bytes).finalize();
        let hash = first_bytes(&digest);
        KeyValue { text: bytes[..bytes.len().min(KEY_TEXT_BYTES_MAX)].into(), hash }
    }
}

impl KeyValue {
    /// Whether the job has no key.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

fn first_bytes(digest: &[u8]) -> KeyHash {
    let mut hash = KeyHash::default();
    hash.copy_from_slice(&digest[..size_of::<KeyHash>()]);
    hash
}

/// A hash as lower-case hexadecimal digits.
fn hex(hash: &KeyHash) -> String {
    hash.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes every text");
        text
    })
}

/// The address without its port. An address of IPv6 with a port has brackets. Other texts stay as they
/// are, because the name of a client can have colons and digits, too.
fn host(client: &str) -> &str {
    if client.parse::<SocketAddr>().is_err() {
        return client;
    }
    let host = client.rsplit_once(':').map_or(client, |(host, _port)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(KeyError::TooLong);
        }
        let source = match (text, text.split_once(':')) {
            ("body", _) => Source::Body,
            ("gm:unique", _) => Source::GearmanUnique,
            ("client", _) => Source::Client,
            (_, Some(("json", pointer))) => Source::Json(pointer_of(pointer)?),
            (_, Some(("prefix", length))) => {
                let number = length.parse().ok().filter(|n| (1..=SCAN_BYTES_MAX).contains(n));
                Source::Prefix(number.ok_or_else(|| KeyError::Prefix(length.to_owned()))?)
            }
            (_, Some(("until", byte))) => {
                Source::Until(byte_of(byte).ok_or_else(|| KeyError::Byte(byte.to_owned()))?)
            }
            (_, Some(("regex", pattern))) => Source::Regex(pattern_of(pattern)?),
            _ => return Err(KeyError::Unknown(text.to_owned())),
        };
        let hash = first_bytes(&Sha256::digest(text));
        Ok(Key(Arc::new(Expression { text: text.into(), hash, source })))
    }
}

/// The names of a JSON pointer (RFC 6901).
fn pointer_of(text: &str) -> Result<Box<[Box<str>]>, KeyError> {
    let refused = || KeyError::Pointer(text.to_owned());
    let rest = text.strip_prefix('/').ok_or_else(refused)?;
    let names = rest.split('/').map(|name| {
        let is_escaped = name.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        is_escaped.then(|| name.replace("~1", "/").replace("~0", "~").into())
    });
    let names: Option<Box<[Box<str>]>> = names.collect();
    names.filter(|names| names.len() <= DEPTH_MAX).ok_or_else(refused)
}

fn byte_of(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && *byte != b'\\' => Some(*byte),
        b"\\\\" => Some(b'\\'),
        b"\\n" => Some(b'\n'),
        b"\\r" => Some(b'\r'),
        b"\\t" => Some(b'\t'),
        b"\\0" => Some(0),
        [b'\\', b'x', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            u8::from_str_radix(&text[2..], 16).ok()
        }
        _ => None,
    }
}

fn pattern_of(text: &str) -> Result<Regex, KeyError> {
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(PATTERN_MEMORY_MAX).dfa_size_limit(PATTERN_MEMORY_MAX).nest_limit(32);
    let pattern = builder.build().map_err(|error| {
        // The message of a syntax error draws the pattern on several lines. The last one says why.
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        KeyError::Pattern(last.trim_start_matches("error: ").to_owned())
    })?;
    match pattern.captures_len() - 1 {
        1 => Ok(pattern),
        groups => Err(KeyError::Groups(groups)),
    }
}

/// The text of the string, number or truth value in a JSON document. `None`: there is no such value,
/// or the body is too large or not JSON. If an object has a name twice, the last one counts.
fn json_at(body: &[u8], pointer: &[Box<str>]) -> Option<String> {
    if body.len() > JSON_BYTES_MAX {
        return None;
    }
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    Seek { pointer, found: &mut found }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    found
}

/// Reads a JSON value, and keeps only what the pointer leads to.
struct Seek<'a> {
    pointer: &'a [Box<str>],
    found: &'a mut Option<String>,
}

impl Seek<'_> {
    fn scalar(self, text: impl fmt::Display) {
        if self.pointer.is_empty() {
            *self.found = Some(text.to_string());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalar(text);
        Ok(())
    }

    fn visit_bool<E>(self, truth: bool) -> Result<(), E> {
        self.scalar(truth);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.scalar(number);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.scalar(number);
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // A larger number may be rounded. So two different numbers could be one key.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if number.abs() < EXACT_MAX {
            // Minus zero is zero.
            self.scalar(number + 0.0);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let (index, rest) = match self.pointer {
            [] => (None, &[][..]),
            [name, rest @ ..] => (index_of(name), rest),
        };
        let mut at = 0;
        loop {
            let is_next = if index == Some(at) {
                let seek = Seek { pointer: rest, found: &mut *self.found };
                list.next_element_seed(seek)?.is_some()
            } else {
                list.next_element::<IgnoredAny>()?.is_some()
            };
            if !is_next {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (name, rest) = match self.pointer {
            [] => (None, &[][..]),
            [name, rest @ ..] => (Some(&**name), rest),
        };
        while let Some(is_it) = map.next_key_seed(NameIs(name))? {
            if is_it {
                *self.found = None;
                map.next_value_seed(Seek { pointer: rest, found: &mut *self.found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The place of an element of a list, as a JSON pointer writes it.
fn index_of(name: &str) -> Option<u64> {
    let is_plain = name == "0" || !name.starts_with(['0', '+']);
    name.parse().ok().filter(|_| is_plain)
}

/// Compares the name of a member of an object without a copy of the name.
struct NameIs<'a>(Option<&'a str>);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == Some(name))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Key({:?})", self.as_str())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Key {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The text of the key of a body. Empty: it has none.
    fn text(expression: &str, body: &[u8]) -> String {
        let value = key(expression).compute(KeySource { body, ..KeySource::default() });
        assert_eq!(value.is_empty(), value.hash == KeyHash::default());
        String::from_utf8_lossy(&value.text).into_owned()
    }

    #[test]
    fn a_pointer_finds_one_value() {
        let body = br#" {"a": {"b": "x", "c": [1, {"d": true}, -2.5]}, "~/": 7, "n": null} "#;
        for (expression, expected) in [
            ("json:/a/b", "x"),
            ("json:/a/c/0", "1"),
            ("json:/a/c/1/d", "true"),
            ("json:/a/c/2", "-2.5"),
            ("json:/a/c/00", ""),
            ("json:/a/c/3", ""),
            ("json:/a/c/-", ""),
            ("json:/~0~1", "7"),
            ("json:/n", ""),
            ("json:/a", ""),
            ("json:/a/b/c", ""),
            ("json:/", ""),
        ] {
            assert_eq!(text(expression, body), expected, "{expression}");
        }
        assert_eq!(text("json:/a", br#"{"a":1,"a":2}"#), "2");
        assert_eq!(text("json:/a", br#"{"a":1,"a":null}"#), "");
        assert_eq!(text("json:/\u{e9}", br#"{"\u00e9":"\u00fc"}"#), "\u{fc}");
    }

    #[test]
    fn names_and_numbers_have_one_form() {
        for (expression, body, expected) in [
            // Escapes of the pointer: `~1` is `/`, `~0` is `~`, and `~01` is `~1`.
            ("json:/~01", r#"{"~1":1,"/":2}"#, "1"),
            ("json:/a~1b", r#"{"a":{"b":1},"a/b":2}"#, "2"),
            // Escapes of the document.
            ("json:/a", r#"{"\u0061":"x"}"#, "x"),
            ("json:/a", r#"{"a":"\ud83d\ude00"}"#, "\u{1f600}"),
            ("json:/a", r#"{"a":"\ud83d"}"#, ""),
            // The last member of a name counts, also if the value is not below it.
            ("json:/a/b", r#"{"a":{"b":1},"a":{"b":2}}"#, "2"),
            ("json:/a/b", r#"{"a":{"b":1},"a":{"c":2}}"#, ""),
            ("json:/a/b", r#"{"a":{"b":1},"a":5}"#, ""),
            ("json:/a", r#"{"a":1,"\u0061":2}"#, "2"),
            ("json:/a", r#"{"a":""}"#, ""),
            ("json:/a", r#"{"a":1.0}"#, "1"),
            ("json:/a", r#"{"a":1e2}"#, "100"),
            ("json:/a", r#"{"a":-0}"#, "0"),
            ("json:/a", r#"{"a":-0.0}"#, "0"),
            ("json:/a", r#"{"a":1e999}"#, ""),
            ("json:/a", "\u{feff}{\"a\":1}", ""),
            ("json://", r#"{"":{"":1}}"#, "1"),
        ] {
            assert_eq!(text(expression, body.as_bytes()), expected, "{expression} of {body}");
        }
    }

    #[test]
    fn the_work_for_a_key_is_bounded() {
        let body = vec![b'x'; 1 << 20];
        let source =
            |len: usize| KeySource { body: &body[..len], gearman_unique: b"-", client: "" };
        let read = |expression: &str, len| key(expression).bytes_read(source(len));
        assert_eq!(read("body", 1 << 20), 1 << 20);
        assert_eq!(read("gm:unique", 1 << 20), 1 << 20);
        assert_eq!(read("json:/a", JSON_BYTES_MAX), 4 * JSON_BYTES_MAX);
        assert_eq!(read("json:/a", JSON_BYTES_MAX + 1), 0);
        assert_eq!(read("prefix:9", 1 << 20), 9);
        assert_eq!(read("until: ", 1 << 20), SCAN_BYTES_MAX);
        assert_eq!(read("regex:(x)", 1 << 20), SCAN_BYTES_MAX);
        assert_eq!(read("client", 1 << 20), 0);
    }

    #[test]
    fn a_body_that_is_not_json_has_no_key() {
        for body in [&b""[..], b"{", b"{\"a\":1", b"{\"a\":1} x", b"\xff", b"{\"a\":\"\xff\"}"] {
            assert_eq!(text("json:/a", body), "", "{body:?}");
        }
        let deep = ["[".repeat(30_000), "]".repeat(30_000)].concat();
        assert_eq!(text("json:/0", deep.as_bytes()), "");
        // Two numbers that are the same when they are rounded.
        assert_eq!(text("json:/a", b"{\"a\":36893488147419103233}"), "");
        assert_eq!(text("json:/a", b"{\"a\":18446744073709551615}"), u64::MAX.to_string());
        let padded = |bytes: usize| {
            let padding = " ".repeat(bytes - 7);
            text("json:/a", format!("{{\"a\":1}}{padding}").as_bytes())
        };
        assert_eq!(
            (padded(JSON_BYTES_MAX), padded(JSON_BYTES_MAX + 1)),
            ("1".into(), String::new())
        );
    }

    #[test]
    fn other_keys_are_parts_of_the_job() {
        assert_eq!(text("prefix:3", b"abcd"), "abc");
        assert_eq!(text("prefix:3", b"ab"), "ab");
        assert_eq!(text("prefix:3", b""), "");
        assert_eq!(text("until::", b"mail:1:2"), "mail");
        assert_eq!(text("until:\\n", b"head\nrest"), "head");
        assert_eq!(text("until:\\x00", b"a\0b"), "a");
        assert_eq!(text("until:\\0", b"a\0b"), "a");
        assert_eq!(text("until:\\xfF", b"a\xffb"), "a");
        assert_eq!(text("until:\\\\", b"a\\b"), "a");
        assert_eq!(text("until:\n", b"a\nb"), "a");
        assert_eq!(text("until::", b":a"), "");
        assert_eq!(text("until: ", b"none"), "");
        let far = [vec![b'a'; SCAN_BYTES_MAX], b" b".to_vec()].concat();
        assert_eq!(text("until: ", &far), "");
    }

    #[test]
    fn a_pattern_has_one_group() {
        assert_eq!(text(r#"regex:"id";i:(\d+);"#, br#"a:1:{s:2:"id";i:42;}"#), "42");
        assert_eq!(text("regex:^(?:a|b)([^ ]*)", b"bcd e"), "cd");
        assert_eq!(text("regex:(x)?y", b"y"), "");
        assert_eq!(text(r"regex:(?-u)\x81([\x00-\xff])", b"\x81\xfe"), "\u{fffd}");
        let far = [vec![b' '; SCAN_BYTES_MAX], b"id".to_vec()].concat();
        assert_eq!(text("regex:(id)", &far), "");
    }

    #[test]
    fn a_client_is_its_host() {
        let of = |client| {
            let value = key("client").compute(KeySource { client, ..KeySource::default() });
            String::from_utf8(value.text.to_vec()).unwrap()
        };
        assert_eq!(of("10.0.0.1:4711"), "10.0.0.1");
        assert_eq!(of("10.0.0.1"), "10.0.0.1");
        assert_eq!((of("[::1]:4711"), of("::1")), ("::1".into(), "::1".into()));
        assert_eq!((of("fe80::1"), of("unix")), ("fe80::1".into(), "unix".into()));
        assert_eq!((of("team:mail"), of("")), ("team:mail".into(), String::new()));
        assert_eq!((of("team:1"), of("[team]")), ("team:1".into(), "[team]".into()));
    }

    #[test]
    fn keys_of_gearman_and_bodies() {
        let of = |gearman_unique, body: &'static [u8]| {
            let source = KeySource { body, gearman_unique, client: "" };
            key("gm:unique").compute(source)
        };
        assert!(of(b"", b"body").is_empty());
        assert_eq!(of(b"-", b"body"), of(b"body", b"other"));
        let long = text("prefix:100", &[b'x'; 100]);
        assert_eq!(long.len(), KEY_TEXT_BYTES_MAX);
        assert_eq!(text("body", b"x").len(), 32);
        // The log stores the hash, so it may never change.
        let value = key("body").compute(KeySource { body: b"hello", ..KeySource::default() });
        assert_eq!(hex(&value.hash), "5a55127904637976a2301945e8a3c702");
        let other = key("prefix:9").compute(KeySource { body: b"hello", ..KeySource::default() });
        assert_ne!(value.hash, other.hash);
        // The same bytes are other keys for another expression.
        let of = |expression: &str| {
            key(expression)
                .compute(KeySource { body: b"{\"a\":1,\"b\":1}", ..KeySource::default() })
        };
        assert_eq!(of("json:/a").text, of("json:/b").text);
        assert_ne!(of("json:/a").hash, of("json:/b").hash);
    }

    #[test]
    fn a_mistake_is_named() {
        let long = format!("regex:({})", "a".repeat(EXPRESSION_BYTES_MAX));
        for (text, expected) in [
            ("", "`` is not a key; write `body`"),
            ("Body", "`Body` is not a key"),
            ("gm:id", "`gm:id` is not a key"),
            ("json:", "`` is not a JSON pointer"),
            ("json:tenant", "`tenant` is not a JSON pointer"),
            ("json:/a~2", "`/a~2` is not a JSON pointer"),
            ("prefix:0", "`0` is not a length"),
            ("prefix:4097", "`4097` is not a length"),
            ("prefix:x", "`x` is not a length"),
            ("until:", "`` is not one byte"),
            ("until:ab", "`ab` is not one byte"),
            ("until:\u{e9}", "is not one byte"),
            ("until:\\xg0", "is not one byte"),
            ("until:\\x+1", "is not one byte"),
            ("until:\\x0", "is not one byte"),
            ("until:\\", "`\\n`, `\\r`, `\\t`, `\\0`, `\\\\` or such as `\\xff`"),
            ("regex:(", "the pattern cannot be used: unclosed group"),
            ("regex:a", "the pattern has 0 groups"),
            ("regex:(a)(b)", "the pattern has 2 groups"),
            ("regex:(\\w{1000})", "the pattern cannot be used: "),
            (long.as_str(), "a key has at most 512 bytes"),
        ] {
            let error = text.parse::<Key>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert_eq!(key("json:/a").to_string(), "json:/a");
        assert_eq!(key("json:/a"), key("json:/a"));
        assert_ne!(key("json:/a"), key("json:/b"));
    }

    proptest! {
        #[test]
        fn no_text_and_no_body_makes_it_panic(text in "(json:/|prefix:|until:|regex:|).{0,20}", body: Vec<u8>) {
            if let Ok(key) = text.parse::<Key>() {
                let value = key.compute(KeySource { body: &body, ..KeySource::default() });
                prop_assert!(value.text.len() <= KEY_TEXT_BYTES_MAX);
            }
        }
    }
}

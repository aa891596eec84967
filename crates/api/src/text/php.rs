//! Values that PHP's function `serialize` wrote, as JSON, for people who read the body of a job.

use std::fmt::Write as _;

use crate::text::json_lines::json_in_lines;

/// The deepest value that is read. The reader needs stack for each level.
const DEPTH_MAX: usize = 64;
/// The JSON has at most this many bytes.
const JSON_BYTES_MAX: usize = 256 * 1024;
/// The name under which the class of an object is shown.
const CLASS: &str = "(class)";

/// An array or an object of PHP, as JSON with line breaks. A list is an array of JSON, and any other
/// array is an object. The class of an object is its first value, under the name `(class)`. Bytes
/// that are not text are replaced. `None`: the bytes are something else, or the result would be too
/// long.
pub(crate) fn php_in_lines(bytes: &[u8]) -> Option<String> {
    if !matches!(bytes, [b'a' | b'O' | b'C' | b'E', b':', ..]) {
        return None;
    }
    let mut reader = Reader { rest: bytes };
    let json = reader.value(0)?;
    reader.rest.is_empty().then_some(())?;
    if json.starts_with(['{', '[']) { json_in_lines(json.as_bytes()) } else { Some(json) }
}

/// The bytes that are not read yet.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next value, as JSON.
    fn value(&mut self, depth: usize) -> Option<String> {
        if depth > DEPTH_MAX {
            return None;
        }
        let kind = self.byte()?;
        if kind == b'N' {
            self.expect(b";")?;
            return Some("null".to_owned());
        }
        self.expect(b":")?;
        let json = match kind {
            b'b' => {
                let value = self.until(b';')?;
                matches!(value, "0" | "1").then(|| (value == "1").to_string())?
            }
            b'i' => self.until(b';')?.parse::<i64>().ok()?.to_string(),
            b'd' => number(self.until(b';')?)?,
            // Text, or the name of an enumeration and of its case.
            b's' | b'E' => {
                let text = self.string()?;
                self.expect(b";")?;
                quoted(text)
            }
            b'r' | b'R' => {
                let place = self.until(b';')?.parse::<u64>().ok()?;
                format!("{{\"(reference)\":{place}}}")
            }
            b'a' => self.members(None, depth)?,
            b'O' => {
                let class = self.string()?;
                self.expect(b":")?;
                self.members(Some(class), depth)?
            }
            b'C' => {
                // The class has written its data itself, so nobody else can read them.
                let class = self.string()?;
                self.expect(b":")?;
                let count = self.until(b':')?.parse().ok()?;
                self.expect(b"{")?;
                let data = self.take(count)?;
                self.expect(b"}")?;
                format!("{{\"{CLASS}\":{},\"data\":{}}}", quoted(class), quoted(data))
            }
            _ => return None,
        };
        (json.len() <= JSON_BYTES_MAX).then_some(json)
    }

    /// The members of an array, or of an object of this class.
    fn members(&mut self, class: Option<&[u8]>, depth: usize) -> Option<String> {
        let count: usize = self.until(b':')?.parse().ok()?;
        self.expect(b"{")?;
        let mut is_list = class.is_none();
        // The members as those of an object, and as those of a list.
        let (mut named, mut listed) = (String::new(), String::new());
        if let Some(class) = class {
            let _ = write!(named, "\"{CLASS}\":{}", quoted(class));
        }
        for index in 0..count {
            let name = match (self.byte()?, self.expect(b":")?) {
                (b'i', ()) => {
                    let number = self.until(b';')?.parse::<i64>().ok()?;
                    is_list &= i64::try_from(index) == Ok(number);
                    format!("\"{number}\"")
                }
                (b's', ()) => {
                    is_list = false;
                    let name = self.string()?;
                    self.expect(b";")?;
                    quoted(plain_name(name))
                }
                _ => return None,
            };
            let value = self.value(depth + 1)?;
            for (all, more) in [(&mut named, format!("{name}:{value}")), (&mut listed, value)] {
                let comma = if all.is_empty() { "" } else { "," };
                all.extend([comma, &more]);
            }
            if named.len() > JSON_BYTES_MAX {
                return None;
            }
        }
        self.expect(b"}")?;
        Some(if is_list { format!("[{listed}]") } else { format!("{{{named}}}") })
    }

    /// A length, and this many bytes in quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let count = self.until(b':')?.parse().ok()?;
        self.expect(b"\"")?;
        let text = self.take(count)?;
        self.expect(b"\"")?;
        Some(text)
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn expect(&mut self, bytes: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(bytes)?;
        Some(())
    }

    /// The text before this byte, without the byte. Numbers are short.
    fn until(&mut self, end: u8) -> Option<&'a str> {
        let at = self.rest.iter().take(32).position(|byte| *byte == end)?;
        let text = std::str::from_utf8(self.take(at)?).ok()?;
        self.byte()?;
        Some(text)
    }
}

/// A number of PHP as JSON, which has no infinite numbers.
fn number(text: &str) -> Option<String> {
    if matches!(text, "INF" | "-INF" | "NAN") {
        return Some(quoted(text.as_bytes()));
    }
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let number: f64 = text.bytes().all(is_part).then(|| text.parse().ok())??;
    // The digits stay as they are, if JSON allows them.
    let is_json = serde_json::from_str::<serde_json::Number>(text).is_ok();
    Some(if is_json { text.to_owned() } else { number.to_string() })
}

/// The name of a property, without the class that a private or protected one begins with.
fn plain_name(name: &[u8]) -> &[u8] {
    let Some(rest) = name.strip_prefix(b"\0") else { return name };
    let end = rest.iter().position(|byte| *byte == 0);
    end.map_or(name, |end| &rest[end + 1..])
}

fn quoted(bytes: &[u8]) -> String {
    serde_json::Value::from(String::from_utf8_lossy(bytes)).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(bytes: &[u8]) -> Option<serde_json::Value> {
        php_in_lines(bytes).map(|lines| serde_json::from_str(&lines).unwrap())
    }

    #[test]
    fn values_of_all_kinds_are_json() {
        for (php, json) in [
            ("a:0:{}", "[]"),
            ("a:2:{i:0;s:3:\"a\"b\";i:1;d:0.5;}", r#"["a\"b",0.5]"#),
            ("a:2:{i:1;b:1;i:0;N;}", r#"{"1":true,"0":null}"#),
            ("a:1:{s:2:\"id\";i:-7;}", r#"{"id":-7}"#),
            ("a:3:{i:0;d:INF;i:1;d:1.0E+25;i:2;d:.5;}", r#"["INF",1.0E+25,0.5]"#),
            ("a:1:{i:0;s:2:\"\u{e9}\";}", "[\"\u{e9}\"]"),
            (
                "O:8:\"App\\Mail\":3:{s:2:\"to\";s:3:\"ann\";s:4:\"\0*\0n\";i:1;s:6:\"\0App\0k\";R:1;}",
                r#"{"(class)":"App\\Mail","to":"ann","n":1,"k":{"(reference)":1}}"#,
            ),
            ("C:1:\"X\":4:{a;}\"}", r#"{"(class)":"X","data":"a;}\""}"#),
            ("E:6:\"Suit:H\";", "\"Suit:H\""),
        ] {
            let json: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(shown(php.as_bytes()), Some(json), "{php:?}");
        }
        let lines = "{\n  \"(class)\": \"M\",\n  \"to\": [\n    1\n  ]\n}";
        let php = "O:1:\"M\":1:{s:2:\"to\";a:1:{i:0;i:1;}}";
        assert_eq!(php_in_lines(php.as_bytes()).as_deref(), Some(lines), "the order stays");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "a",
            "i:1;",
            "s:1:\"a\";",
            "a:1:{i:0;}",
            "a:0:{}x",
            "a:1:{i:0;s:9:\"a\";}",
            "a:1:{d:1;i:1;}",
            "a:99999999999999999999:{}",
            "a:2:{i:0;b:2;}",
            "O:1:\"M\":0:{",
            "a: note",
        ] {
            assert_eq!(php_in_lines(text.as_bytes()), None, "{text:?}");
        }
        let deep =
            |levels: usize| format!("{}i:1;{}", "a:1:{i:0;".repeat(levels), "}".repeat(levels));
        assert!(php_in_lines(deep(DEPTH_MAX).as_bytes()).is_some());
        assert_eq!(php_in_lines(deep(DEPTH_MAX + 1).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in "[aOCEsidbNrR]:[0-9]{1,3}:?[{\";a-z0-9:}\\\\]{0,40}") {
            if let Some(lines) = php_in_lines(bytes.as_bytes()) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&lines).is_ok());
            }
        }
    }
}

//! The steps of Gearman's cases. `corpus/gearman/README.md` explains every key.

use anyhow::Result;
use serde::Deserialize;

use crate::conformance::case;

/// A case of Gearman.
pub type Case = case::Case<Step>;

/// One step. It has an action, an expectation, or both.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds to wait before this step's actions.
    pub sleep_ms: u64,
    /// The connection of this step. The first step that names a connection opens it.
    pub conn: Option<String>,
    /// A packet to send.
    pub send_packet: Option<PacketText>,
    /// Bytes to send, as Latin-1 text with placeholders.
    pub send: Option<String>,
    /// Bytes to send, in hexadecimal digits.
    pub send_hex: Option<String>,
    /// The packet that must arrive next.
    pub expect_packet: Option<PacketPattern>,
    /// A pattern for the bytes that must arrive next. Its named groups become variables.
    pub expect_text_regex: Option<String>,
    /// For this number of milliseconds, nothing may arrive.
    pub expect_nothing_ms: Option<u64>,
    /// The server must close the connection. No byte may come first, except if `discard` is set.
    pub expect_close: bool,
    /// Ignores bytes before the end of the connection.
    pub discard: bool,
    /// Closes the connection.
    pub close: bool,
}

/// A packet to send: magic, type, arguments.
#[derive(Debug, Clone, Deserialize)]
pub struct PacketText(pub Magic, pub u32, pub Vec<String>);

/// An expected packet: its magic, its type, and a pattern for each argument. Without patterns, the
/// body must be empty.
#[derive(Debug, Clone, Deserialize)]
pub struct PacketPattern(pub Magic, pub u32, pub Vec<Matcher>);

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Magic {
    /// To a server.
    Req,
    /// From a server.
    Res,
}

/// An expected argument of a packet.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Matcher {
    /// Exactly this text.
    Text(String),
    /// Any text that passes all of these tests.
    Tests(Tests),
}

/// Tests of an argument. If there is no test, every argument passes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tests {
    /// A pattern for the whole argument.
    pub regex: Option<String>,
    /// The argument must be equal to the value of this variable.
    pub same_as: Option<String>,
    /// The argument must differ from the value of this variable.
    pub not_same_as: Option<String>,
    /// This variable gets the argument as its value.
    pub capture: Option<String>,
}

/// Reads `corpus/gearman/<file>` of this repository.
pub fn read_cases(file: &str) -> Result<Vec<Case>> {
    case::read_cases("gearman", file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_readable() {
        assert!(read_cases("cases.jsonl").unwrap().len() >= 150);
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(serde_json::from_str::<Step>(r#"{"expct": "x"}"#).is_err());
        assert!(serde_json::from_str::<Matcher>(r#"{"captre": "x"}"#).is_err());
    }
}

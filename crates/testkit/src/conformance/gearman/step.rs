//! The steps of Gearman's cases. `corpus/gearman/README.md` explains every key.

use anyhow::Result;
use serde::Deserialize;

use crate::conformance::case;

/// A case of Gearman.
pub type Case = case::Case<Step>;

/// One step: an action or an expectation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds that pass before anything else.
    pub sleep_ms: u64,
    /// The connection of this step. It is opened when a step first names it.
    pub conn: Option<String>,
    /// A packet to send.
    pub send_packet: Option<PacketText>,
    /// Bytes to send, as Latin-1 text with placeholders.
    pub send: Option<String>,
    /// Bytes to send, in hexadecimal digits.
    pub send_hex: Option<String>,
    /// The next packet.
    pub expect_packet: Option<PacketPattern>,
    /// A pattern for the next bytes; named groups become variables.
    pub expect_text_regex: Option<String>,
    /// Milliseconds during which nothing may arrive.
    pub expect_nothing_ms: Option<u64>,
    /// The server must close the connection. No byte can come before, unless `discard` is set.
    pub expect_close: bool,
    /// Bytes before the end of the connection are ignored.
    pub discard: bool,
    /// Closes the connection.
    pub close: bool,
}

/// A packet to send: magic, type, arguments.
#[derive(Debug, Clone, Deserialize)]
pub struct PacketText(pub Magic, pub u32, pub Vec<String>);

/// An expected packet: magic, type, and a pattern for each argument. No patterns mean an empty
/// body.
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

/// An expected argument.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Matcher {
    /// Exactly this text.
    Text(String),
    /// An argument that passes all of these tests.
    Tests(Tests),
}

/// Tests of an argument. Without any test, all arguments pass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tests {
    /// A pattern for the whole argument.
    pub regex: Option<String>,
    /// The variable whose value it must equal.
    pub same_as: Option<String>,
    /// The variable whose value it must not equal.
    pub not_same_as: Option<String>,
    /// The variable that gets its value.
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

//! Gearman's conformance cases: their data model and how they are read from `corpus/gearman/`.
//!
//! `corpus/gearman/README.md` explains every key. Playing a case is not part of this file.

use anyhow::Result;
use serde::Deserialize;

use crate::case;

/// One behaviour: a name and the steps that show it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique within its file; tests select cases by parts of it.
    pub name: String,
    /// What a runner needs to know before it plays the case, such as `order`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Why the behaviour is as it is.
    #[serde(default)]
    pub note: String,
    /// Played in order.
    pub steps: Vec<Step>,
}

/// One step: something done or something expected.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds that pass before anything else.
    pub sleep_ms: u64,
    /// The connection that the rest speaks of; opened when first named.
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
    /// The server must end the connection, without a byte before unless `discard` is set.
    pub expect_close: bool,
    /// Bytes before the end of the connection do not matter.
    pub discard: bool,
    /// Hangs up.
    pub close: bool,
}

/// A packet to send: magic, type, arguments.
#[derive(Debug, Clone, Deserialize)]
pub struct PacketText(pub Magic, pub u32, pub Vec<String>);

/// What a packet must be: magic, type, and a pattern for each argument. No patterns mean an empty body.
#[derive(Debug, Clone, Deserialize)]
pub struct PacketPattern(pub Magic, pub u32, pub Vec<Matcher>);

/// Whether a packet says that it goes to a server or comes from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Magic {
    /// To a server.
    Req,
    /// From a server.
    Res,
}

/// What an argument must be.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Matcher {
    /// Exactly this text.
    Text(String),
    /// Something that passes every test named.
    Tests(Tests),
}

/// Tests of an argument; none of them lets anything pass.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tests {
    /// A pattern for the whole argument.
    pub regex: Option<String>,
    /// The variable that it must be equal to.
    pub same_as: Option<String>,
    /// The variable that it must differ from.
    pub not_same_as: Option<String>,
    /// The variable that takes it.
    pub capture: Option<String>,
}

impl Case {
    /// Whether the case carries this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

/// Reads `corpus/gearman/<file>` of this repository.
pub fn read_cases(file: &str) -> Result<Vec<Case>> {
    case::read_cases("gearman", file, |case: &Case| &case.name)
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

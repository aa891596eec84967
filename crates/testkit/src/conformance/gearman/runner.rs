//! Plays one Gearman case over a wire. An error says where the case failed.

use anyhow::{Context, Result, bail, ensure};

use super::packet::{Packet, REQUEST, RESPONSE};
use super::step::{Case, Magic, Matcher, PacketPattern, PacketText, Step, Tests};
use crate::conformance::case::Playable;
use crate::conformance::connection::{Connection, Run};
use crate::conformance::text::{Variables, latin1_bytes, latin1_text, pattern_of, shown};
use crate::conformance::wire::Wire;

/// Time limit of a step for its expected bytes.
const PATIENCE_MS: u64 = 4_000;

impl Playable for Case {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn plays_alone(&self) -> bool {
        false
    }

    fn play(&self, wire: &mut dyn Wire, tag: &str) -> Result<()> {
        let mut variables = Variables::default();
        for (name, letter) in [("func", 'f'), ("func2", 'g'), ("func3", 'h'), ("uniq", 'u')] {
            variables.set(name, format!("{letter}_{tag}"));
        }
        let mut run = Run::new(wire, variables);
        let outcome = run.play(&self.steps, summary, Run::packet_step);
        run.close();
        outcome
    }
}

impl Run<'_> {
    fn packet_step(&mut self, step: &Step) -> Result<()> {
        self.wire.advance(step.sleep_ms);
        self.variables.set("now", (self.wire.now_ms() / 1_000).to_string());
        let Some(name) = &step.conn else { return Ok(()) };
        self.on(name, None, step.close, |run, connection| run.packet_step_on(connection, step))
    }

    fn packet_step_on(&mut self, connection: &mut Connection, step: &Step) -> Result<()> {
        self.send(connection, step)?;
        let deadline_ms = self.wire.now_ms() + PATIENCE_MS;
        if let Some(wanted) = &step.expect_packet {
            self.expect_packet(connection, wanted, deadline_ms)?;
        }
        if let Some(pattern) = &step.expect_text_regex {
            self.expect_text(connection, pattern, deadline_ms)?;
        }
        if let Some(quiet_ms) = step.expect_nothing_ms {
            connection.expect_silence(self.wire, quiet_ms)?;
        }
        if step.expect_close {
            connection.expect_end(self.wire, deadline_ms, step.discard)?;
        }
        Ok(())
    }

    fn send(&mut self, connection: &mut Connection, step: &Step) -> Result<()> {
        let mut bytes = Vec::new();
        if let Some(PacketText(magic, kind, arguments)) = &step.send_packet {
            let fill = |argument: &String| latin1_bytes(&self.variables.fill(argument));
            let arguments: Vec<Vec<u8>> = arguments.iter().map(fill).collect();
            let packet = Packet { magic: magic.bytes(), kind: *kind, body: arguments.join(&0) };
            bytes.extend(packet.bytes());
        }
        if let Some(text) = &step.send {
            bytes.extend(latin1_bytes(&self.variables.fill(text)));
        }
        if let Some(digits) = &step.send_hex {
            bytes.extend(bytes_of_hex(digits)?);
        }
        // A server can close the connection before it has read all bytes. So a failed send is not
        // an error here. The expectations of this step and of later steps check whether the
        // connection may end.
        if !bytes.is_empty() && self.wire.send(connection.id, &bytes).is_err() {
            connection.ended = true;
        }
        Ok(())
    }

    fn expect_packet(
        &mut self,
        connection: &mut Connection,
        wanted: &PacketPattern,
        deadline_ms: u64,
    ) -> Result<()> {
        let PacketPattern(magic, kind, matchers) = wanted;
        let packet = loop {
            if let Some(packet) = Packet::take(&mut connection.unread) {
                break packet;
            }
            let length_before = connection.unread.len();
            connection.fill_until(self.wire, deadline_ms, |c| c.unread.len() > length_before);
            if connection.unread.len() == length_before {
                bail!("wanted a packet, got {}", connection.shown());
            }
        };
        let body = shown(&packet.body);
        ensure!(packet.magic == magic.bytes(), "wrong magic {:?}, body {body}", packet.magic);
        ensure!(packet.kind == *kind, "wanted type {kind}, got {}, body {body}", packet.kind);
        if matchers.is_empty() {
            ensure!(packet.body.is_empty(), "wanted an empty body, got {body}");
        }
        let arguments = packet.arguments(matchers.len());
        ensure!(
            arguments.len() == matchers.len(),
            "wanted {} arguments, got {body}",
            matchers.len()
        );
        for (index, (matcher, argument)) in matchers.iter().zip(arguments).enumerate() {
            self.match_argument(matcher, argument)
                .with_context(|| format!("argument {index} of {body}"))?;
        }
        Ok(())
    }

    fn match_argument(&mut self, matcher: &Matcher, argument: &[u8]) -> Result<()> {
        let Tests { regex, same_as, not_same_as, capture } = match matcher {
            Matcher::Text(text) => {
                let wanted = latin1_bytes(&self.variables.fill(text));
                ensure!(wanted == argument, "wanted {}, got {}", shown(&wanted), shown(argument));
                return Ok(());
            }
            Matcher::Tests(tests) => tests,
        };
        let text = latin1_text(argument);
        if let Some(regex) = regex {
            let pattern = pattern_of(&format!("^(?:{})$", self.variables.fill_pattern(regex)))?;
            ensure!(pattern.is_match(argument), "wanted /{regex}/, got {}", shown(argument));
        }
        if let Some(name) = same_as {
            let wanted = self.variables.get(name);
            ensure!(wanted == Some(&text), "wanted {name} = {wanted:?}, got {}", shown(argument));
        }
        if let Some(name) = not_same_as {
            let unwanted = self.variables.get(name) == Some(&text);
            ensure!(!unwanted, "wanted other than {name}, got {}", shown(argument));
        }
        if let Some(name) = capture {
            self.variables.set(name, text);
        }
        Ok(())
    }

    fn expect_text(
        &mut self,
        connection: &mut Connection,
        wanted: &str,
        deadline_ms: u64,
    ) -> Result<()> {
        let pattern = pattern_of(&format!("^(?:{})", self.variables.fill_pattern(wanted)))?;
        connection.fill_until(self.wire, deadline_ms, |c| pattern.is_match(&c.unread));
        let Some(groups) = pattern.captures(&connection.unread) else {
            bail!("wanted /{pattern}/, got {}", connection.shown());
        };
        for name in pattern.capture_names().flatten() {
            if let Some(group) = groups.name(name) {
                self.variables.set(name, latin1_text(group.as_bytes()));
            }
        }
        let matched_bytes = groups.get(0).expect("group 0 is the whole match").end();
        connection.unread.drain(..matched_bytes);
        Ok(())
    }
}

impl Magic {
    fn bytes(self) -> [u8; 4] {
        match self {
            Magic::Req => REQUEST,
            Magic::Res => RESPONSE,
        }
    }
}

fn bytes_of_hex(digits: &str) -> Result<Vec<u8>> {
    ensure!(digits.is_ascii() && digits.len().is_multiple_of(2), "odd digits {digits}");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).context("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The main action of a step, for failure messages.
fn summary(step: &Step) -> String {
    let conn = step.conn.as_deref().unwrap_or("-");
    match (&step.send_packet, &step.send, &step.expect_packet) {
        (Some(PacketText(_, kind, arguments)), ..) => {
            format!("({conn} sends packet {kind} {})", shown(arguments.join("\0").as_bytes()))
        }
        (_, Some(text), _) => format!("({conn} sends {})", shown(text.as_bytes())),
        (.., Some(PacketPattern(_, kind, _))) => format!("({conn} expects packet {kind})"),
        _ => format!("({conn})"),
    }
}

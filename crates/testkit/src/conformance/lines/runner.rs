//! Plays one case over a wire. An error says where the case failed.

use anyhow::{Context, Result, bail, ensure};
use regex::bytes::Regex;

use super::block;
use super::step::{Case, Step, TIMEOUT_MS_DEFAULT};
use crate::conformance::case::Playable;
use crate::conformance::connection::{Connection, Run};
use crate::conformance::text::{Variables, latin1_bytes, latin1_text, pattern_of, shown};
use crate::conformance::wire::Wire;

/// At the end of a case, unexpected bytes have this time to arrive.
const LEFTOVER_WAIT_MS: u64 = 10;

impl Playable for Case {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn plays_alone(&self) -> bool {
        self.has_tag("alone")
    }

    /// In a case, `{tube}` and `{queue}` stand for a name that no other case uses. The name begins
    /// with `tag`. At the end, also after a failure, the runner deletes the jobs whose ids the case
    /// has captured.
    fn play(&self, wire: &mut dyn Wire, tag: &str) -> Result<()> {
        let mut variables = Variables::default();
        for name in ["tube", "queue"] {
            variables.set(name, format!("{tag}-{}", self.name));
        }
        let mut run = Run::new(wire, variables);
        let port = self.port.as_deref();
        let outcome = run.play(&self.steps, summary, |run, step| run.step(step, port));
        let outcome = outcome.and_then(|()| run.expect_no_leftovers());
        run.clean_up(port);
        outcome
    }
}

impl Run<'_> {
    fn step(&mut self, step: &Step, port: Option<&str>) -> Result<()> {
        self.wire.advance(step.sleep_ms);
        let Some(name) = &step.conn else { return Ok(()) };
        let port = step.port.as_deref().or(port);
        self.on(name, port, step.close, |run, connection| run.step_on(connection, step))
    }

    fn step_on(&mut self, connection: &mut Connection, step: &Step) -> Result<()> {
        let started_ms = self.wire.now_ms();
        let deadline_ms = started_ms + step.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        if let Some(text) = &step.send {
            let sent = self.wire.send(connection.id, &latin1_bytes(&self.variables.fill(text)));
            // A server that must close the connection can do so before it has read all bytes.
            ensure!(step.expect_close || sent.is_ok(), "{:#}", sent.expect_err("just tested"));
        }
        self.expect_bytes(connection, step, deadline_ms)?;
        self.expect_blocks(connection, step, deadline_ms)?;
        let took_ms = self.wire.now_ms() - started_ms;
        let (min_ms, max_ms) = (step.min_ms.unwrap_or(0), step.max_ms.unwrap_or(u64::MAX));
        ensure!(took_ms >= min_ms, "the reply came after {took_ms} ms, wanted {min_ms} at least");
        ensure!(took_ms <= max_ms, "the reply came after {took_ms} ms, wanted {max_ms} at most");
        if let Some(quiet_ms) = step.expect_nothing_ms {
            connection.expect_silence(self.wire, quiet_ms)?;
        }
        if step.half_close {
            self.wire.half_close(connection.id)?;
        }
        if step.expect_close {
            connection.expect_end(self.wire, deadline_ms, false)?;
        }
        Ok(())
    }

    fn expect_no_leftovers(&mut self) -> Result<()> {
        for (name, connection) in &mut self.connections {
            let deadline_ms = self.wire.now_ms() + LEFTOVER_WAIT_MS;
            connection.fill_until(self.wire, deadline_ms, |c| !c.unread.is_empty());
            ensure!(
                connection.unread.is_empty(),
                "connection {name} has unexpected further bytes: {}",
                connection.shown()
            );
        }
        Ok(())
    }

    fn expect_bytes(&mut self, conn: &mut Connection, step: &Step, deadline_ms: u64) -> Result<()> {
        if let Some(text) = &step.expect {
            let wanted = latin1_bytes(&self.variables.fill(text));
            conn.fill_until(self.wire, deadline_ms, |c| c.unread.len() >= wanted.len());
            if !conn.unread.starts_with(&wanted) {
                bail!("wanted {}, got {}", shown(&wanted), conn.shown());
            }
            conn.unread.drain(..wanted.len());
        }
        let Some(pattern) = &step.expect_regex else { return Ok(()) };
        let pattern = front_pattern(&self.variables.fill_pattern(pattern))?;
        conn.fill_until(self.wire, deadline_ms, |c| pattern.is_match(&c.unread));
        let Some(groups) = pattern.captures(&conn.unread) else {
            bail!("wanted /{pattern}/, got {}", conn.shown());
        };
        for (index, name) in step.capture.names().iter().enumerate() {
            let group = groups.get(index + 1).with_context(|| format!("no group for {name}"))?;
            self.variables.set(name, latin1_text(group.as_bytes()));
        }
        let matched = groups.get(0).expect("group 0 is the whole match");
        for wanted in &step.contains {
            let wanted = pattern_of(&self.variables.fill_pattern(wanted))?;
            ensure!(
                wanted.is_match(matched.as_bytes()),
                "wanted /{wanted}/ in {}",
                shown(matched.as_bytes())
            );
        }
        let matched_bytes = matched.end();
        conn.unread.drain(..matched_bytes);
        Ok(())
    }

    fn expect_blocks(
        &mut self,
        conn: &mut Connection,
        step: &Step,
        deadline_ms: u64,
    ) -> Result<()> {
        if let Some(wanted) = &step.expect_yaml {
            let text = take_block(conn, self.wire, deadline_ms)?;
            block::check_yaml(&text, wanted, &mut self.variables)?;
        }
        if let Some(wanted) = &step.expect_list {
            let text = take_block(conn, self.wire, deadline_ms)?;
            block::check_list(&text, wanted, &self.variables)?;
        }
        Ok(())
    }

    /// Closes the connections. Deletes the jobs whose ids the case has captured, so that other
    /// cases on the same server do not get these jobs.
    fn clean_up(&mut self, port: Option<&str>) {
        self.close();
        let deletes: Vec<String> =
            self.variables.starting_with("id").map(|id| format!("delete {id}\r\n")).collect();
        if deletes.is_empty() {
            return;
        }
        let replies_bytes_min = deletes.len() * "DELETED\r\n".len();
        let Ok(id) = self.wire.connect(port) else { return };
        let mut cleaner = Connection::new(id);
        if self.wire.send(id, deletes.concat().as_bytes()).is_ok() {
            let deadline_ms = self.wire.now_ms() + 1_000;
            cleaner.fill_until(self.wire, deadline_ms, |c| c.unread.len() >= replies_bytes_min);
        }
        self.wire.close(id);
    }
}

/// Removes an `OK <n>` block from the front of the unread bytes. Returns its text without the line
/// `---`.
fn take_block(
    connection: &mut Connection,
    wire: &mut dyn Wire,
    deadline_ms: u64,
) -> Result<String> {
    connection.fill_until(wire, deadline_ms, |c| c.unread.contains(&b'\n'));
    let length = block::length(&connection.unread)?;
    connection.fill_until(wire, deadline_ms, |c| c.unread.len() >= length);
    if connection.unread.len() < length {
        bail!("wanted the rest of a block, got {}", connection.shown());
    }
    let block: Vec<u8> = connection.unread.drain(..length).collect();
    block::text(&block)
}

/// A pattern that must match at the front of some bytes.
fn front_pattern(text: &str) -> Result<Regex> {
    pattern_of(&format!("^(?:{text})"))
}

/// The main action of a step, for failure messages.
fn summary(step: &Step) -> String {
    let conn = step.conn.as_deref().unwrap_or("-");
    match &step.send {
        Some(text) => format!("({conn} sends {})", shown(text.as_bytes())),
        None => format!("({conn})"),
    }
}

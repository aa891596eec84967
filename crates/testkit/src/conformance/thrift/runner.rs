//! Cases of the thrift service. `corpus/kestrel-thrift/README.md` describes them. They are played
//! with a client that implements the protocol itself.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value as Json, json};

use super::codec::{CALL, EXCEPTION, ONEWAY, REPLY, Reply, Style, Value, message, take_reply};
use crate::conformance::case::{self, Playable};
use crate::conformance::connection::Connection;
use crate::conformance::wire::Wire;

/// The time limit for an expected reply.
const LIMIT_MS: u64 = 5_000;

/// A call that waits must get no reply for this time.
const SILENCE_MS: u64 = 50;

/// A case, and the style of its client's messages.
#[derive(Clone, Debug)]
pub struct Case {
    style: Style,
    case: case::Case<Json>,
}

/// A running case.
struct Play<'a> {
    wire: &'a mut dyn Wire,
    style: Style,
    /// The value of `{q}`.
    queue: String,
    /// The ids of open reads. The keys are the names that the case gives them.
    ids: BTreeMap<String, i64>,
    clients: BTreeMap<String, Client>,
    sequence: i32,
}

struct Client {
    connection: Connection,
    /// The unanswered call: its method, its number, and when it was sent.
    waits_for: Option<(String, i32, u64)>,
}

/// All cases of the corpus, in each of these styles.
pub fn read_cases(styles: &[Style]) -> Result<Vec<Case>> {
    let cases: Vec<case::Case<Json>> = case::read_cases("kestrel-thrift", "cases.jsonl")?;
    let in_style = |&style| cases.iter().map(move |case| Case { style, case: case.clone() });
    Ok(styles.iter().flat_map(in_style).collect())
}

impl Playable for Case {
    fn name(&self) -> String {
        format!("{} {:?}", self.case.name, self.style)
    }

    /// Cases with the tag `testconfig` use queues with policies. The names of these queues are the
    /// same in all cases, so only one of the cases can run at a time.
    fn plays_alone(&self) -> bool {
        self.case.has_tag("alone") || self.case.has_tag("testconfig")
    }

    fn play(&self, wire: &mut dyn Wire, tag: &str) -> Result<()> {
        let queue = format!("{tag}-{}-", self.case.name);
        let (ids, clients) = (BTreeMap::new(), BTreeMap::new());
        let mut play = Play { wire, style: self.style, queue, ids, clients, sequence: 0 };
        let mut steps = self.case.steps.iter();
        let played = steps.try_for_each(|step| play.step(step).with_context(|| format!("{step}")));
        let sets_status = |step: &Json| step["call"] == "set_status";
        if played.is_err() && self.case.steps.iter().any(sets_status) {
            // The server must not keep the status of a case that failed: all later cases would fail.
            let up =
                json!({"call": "set_status", "with": {"status": 3}, "on": "end", "returns": null});
            if let Err(error) = play.step(&up) {
                return played.with_context(|| format!("its status stays ({error:#})"));
            }
        }
        for client in play.clients.into_values() {
            play.wire.close(client.connection.id);
        }
        played
    }
}

impl Play<'_> {
    fn step(&mut self, step: &Json) -> Result<()> {
        if let Some(ms) = step["sleep_ms"].as_u64() {
            self.wire.advance(ms);
        }
        if let Some(name) = step["close"].as_str() {
            let client = self.clients.remove(name).context("no such connection")?;
            self.wire.close(client.connection.id);
        }
        let Some(name) = step["on"].as_str() else { return Ok(()) };
        if let Some(method) = step["call"].as_str() {
            self.call(name, method, step)?;
        }
        if let Some(ms) = step["silent_ms"].as_u64() {
            self.expect_silence(name, ms)?;
        }
        let reply = &step["returns"];
        let reply = if step.get("answers").is_some() { &step["answers"] } else { reply };
        if step.get("returns").is_some() || step.get("answers").is_some() {
            let fields = self.result(name, step, REPLY)?;
            self.check_result(&fields, reply).with_context(|| format!("{fields:?} came"))?;
        }
        if let Some(code) = step["fails"].as_i64() {
            let fields = self.result(name, step, EXCEPTION)?;
            let [(1, Value::Bytes(_)), (2, Value::I32(got))] = fields[..] else {
                bail!("{fields:?} is no exception");
            };
            ensure!(i64::from(got) == code, "the exception is of the type {got}");
        }
        Ok(())
    }

    fn call(&mut self, name: &str, method: &str, step: &Json) -> Result<()> {
        let arguments = step["with"].as_object().context("a call has arguments")?;
        let arguments: Result<Vec<_>> =
            arguments.iter().map(|(name, value)| self.argument(name, value)).collect();
        let mut arguments = arguments?;
        arguments.sort_by_key(|(number, _)| *number);
        let oneway = step["oneway"] == true;
        let kind = if oneway { ONEWAY } else { CALL };
        self.sequence += 1;
        let bytes = message(self.style, kind, method, self.sequence, &arguments);
        if !self.clients.contains_key(name) {
            let connection = Connection::new(self.wire.connect(None)?);
            self.clients.insert(name.to_owned(), Client { connection, waits_for: None });
        }
        let now_ms = self.wire.now_ms();
        let client = self.clients.get_mut(name).context("it was connected")?;
        self.wire.send(client.connection.id, &bytes)?;
        if !oneway {
            ensure!(client.waits_for.is_none(), "an earlier call waits");
            client.waits_for = Some((method.to_owned(), self.sequence, now_ms));
        }
        if step["waits"] == true {
            self.expect_silence(name, SILENCE_MS)?;
        }
        Ok(())
    }

    fn argument(&self, name: &str, value: &Json) -> Result<(i16, Value)> {
        let number = |value: &Json| value.as_i64().and_then(|number| i32::try_from(number).ok());
        let number = number(value).map(Value::I32).context("no number of 32 bits");
        Ok(match name {
            "queue_name" => (1, Value::Bytes(self.text(value)?)),
            "items" => {
                let items = value.as_array().context("no list")?;
                let items: Result<Vec<_>> = items.iter().map(|item| self.text(item)).collect();
                (2, Value::Strings(items?))
            }
            "ids" => {
                let ids = value.as_array().context("no list")?;
                let ids: Result<Vec<_>> = ids.iter().map(|id| self.id(id)).collect();
                (2, Value::Numbers(ids?))
            }
            "status" => (1, number?),
            "max_items" => (2, number?),
            "expiration_msec" | "timeout_msec" => (3, number?),
            "auto_abort_msec" => (4, number?),
            other => bail!("there is no argument {other}"),
        })
    }

    fn id(&self, id: &Json) -> Result<i64> {
        let of_name = || id.as_str().and_then(|name| self.ids.get(name)).copied();
        id.as_i64().or_else(of_name).context("an id without a name")
    }

    /// Reads Latin-1 text. `{q}` stands for the case's own queue, and `{x*300}` for 300 times x.
    fn text(&self, text: &Json) -> Result<Vec<u8>> {
        let text = text.as_str().context("no text")?.replace("{q}", &self.queue);
        let repeated = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let text = match repeated.and_then(|inner| inner.split_once('*')) {
            Some((one, count)) => one.repeat(count.parse()?),
            None => text,
        };
        text.chars().map(|one| u8::try_from(one).context("not Latin-1")).collect()
    }

    fn expect_silence(&mut self, name: &str, ms: u64) -> Result<()> {
        let client = self.clients.get_mut(name).context("no such connection")?;
        client.connection.expect_silence(self.wire, ms)
    }

    /// The fields of the next reply. It must be the reply to the last call.
    fn result(&mut self, name: &str, step: &Json, kind: u8) -> Result<Vec<(i16, Value)>> {
        let reply = self.receive(name)?;
        let client = self.clients.get_mut(name).context("no such connection")?;
        let (method, sequence, since) = client.waits_for.take().context("nothing was called")?;
        let took_ms = self.wire.now_ms() - since;
        ensure!(reply.name == method.as_bytes() && reply.sequence == sequence, "{reply:?} came");
        ensure!(reply.kind == kind, "{reply:?} came");
        // The two moments are in whole milliseconds, so their difference can be wrong by one.
        let takes_ms_min = step["takes_ms_min"].as_u64().unwrap_or(0);
        ensure!(took_ms + 1 >= takes_ms_min, "it came after {took_ms} ms");
        Ok(reply.fields)
    }

    fn receive(&mut self, name: &str) -> Result<Reply> {
        let client = self.clients.get_mut(name).context("no such connection")?;
        let (style, connection) = (self.style, &mut client.connection);
        let deadline_ms = self.wire.now_ms() + LIMIT_MS;
        let is_whole = |c: &Connection| take_reply(style, &mut c.unread.clone()).is_some();
        connection.fill_until(self.wire, deadline_ms, is_whole);
        let reply = take_reply(style, &mut connection.unread);
        let reply = reply.with_context(|| format!("wanted a reply, got {}", connection.shown()))?;
        ensure!(connection.unread.is_empty(), "there is more than the reply");
        Ok(reply)
    }

    fn check_result(&mut self, fields: &[(i16, Value)], wanted: &Json) -> Result<()> {
        match (fields, wanted) {
            ([], Json::Null) => {}
            ([(0, Value::I32(got))], Json::Number(wanted)) => {
                ensure!(wanted.as_i64() == Some(i64::from(*got)));
            }
            ([(0, Value::Bytes(got))], Json::Object(wanted)) => {
                let prefix = wanted["prefix"].as_str().context("it has a prefix")?;
                ensure!(got.starts_with(prefix.as_bytes()));
            }
            ([(0, Value::Structs(items))], Json::Array(wanted)) => {
                ensure!(items.len() == wanted.len());
                for (item, wanted) in items.iter().zip(wanted) {
                    self.check_item(item, wanted)?;
                }
            }
            ([(0, Value::Struct(info))], Json::Object(wanted)) => {
                for (key, wanted) in wanted {
                    self.check_info(info, key, wanted).with_context(|| key.clone())?;
                }
            }
            _ => bail!("that is something else"),
        }
        Ok(())
    }

    fn check_item(&mut self, item: &[(i16, Value)], wanted: &Json) -> Result<()> {
        let [(1, Value::Bytes(data)), (2, Value::I64(id))] = item else { bail!("no item") };
        ensure!(*data == self.text(&wanted[0])?);
        match &wanted[1] {
            Json::String(name) => {
                ensure!(*id > 0, "an open read has a number");
                let is_new = self.ids.values().all(|other| other != id);
                ensure!(is_new, "the number was given before");
                self.ids.insert(name.clone(), *id);
            }
            wanted => ensure!(wanted.as_i64() == Some(*id)),
        }
        Ok(())
    }

    fn check_info(&self, info: &[(i16, Value)], key: &str, wanted: &Json) -> Result<()> {
        let keys = ["items", "bytes", "journal_bytes", "age", "waiters", "open_transactions"];
        let numbers: Vec<i16> = info.iter().map(|(number, _)| *number).collect();
        ensure!(numbers == [1, 2, 3, 4, 5, 6, 7] || numbers == [2, 3, 4, 5, 6, 7]);
        if key == "head_item" {
            let head = info.iter().find(|(number, _)| *number == 1).map(|(_, value)| value);
            let text = if wanted.is_null() { None } else { Some(Value::Bytes(self.text(wanted)?)) };
            ensure!(head == text.as_ref());
            return Ok(());
        }
        let place = keys.iter().position(|one| *one == key).context("no such key")?;
        let got = match &info[info.len() - keys.len() + place].1 {
            Value::I32(number) if place >= 4 => i64::from(*number),
            Value::I64(number) if place < 4 => *number,
            other => bail!("{other:?} is of the wrong type"),
        };
        ensure!(wanted.as_i64() == Some(got), "it is {got}");
        Ok(())
    }
}

//! The `[[cron]]` tables of the configuration: entries that put jobs by schedules. This module reads
//! them, and prints them in the same form.

use std::path::Path;
use std::time::Duration;

use broker::crons::{CRONS_BYTES_MAX, CatchUp, CronEntry, CronTable, JITTER_MS_MAX, Overlap};
use broker::schedule::{CronError, Zone, ZoneError};
use notation::duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::policies::line_with_origin;
use crate::config::settings::quote;
use crate::config::values::{FilePosition, scalar, suggestion, text};

/// The name of the tables in the file.
pub(crate) const SECTION: &str = "cron";

const KEYS: [&str; 9] =
    ["name", "queue", "spec", "tz", "body", "body_file", "overlap", "catch_up", "jitter"];
/// The keys that each table has.
const REQUIRED: [&str; 3] = ["name", "queue", "spec"];

/// Reads all `[[cron]]` tables. Files of bodies are relative to `folder`. Reports each mistake to
/// `refuse`, with its place.
pub(crate) fn read(
    source: &str,
    folder: &Path,
    value: &Spanned<DeValue<'_>>,
    refuse: &mut dyn FnMut(FilePosition, String),
) -> CronTable {
    let mut reading = Reading { source, folder, mistakes: Vec::new() };
    let table = CronTable(reading.read_all(value));
    if reading.mistakes.is_empty()
        && let Err(error) = table.check()
    {
        let place = FilePosition { line: error.line() as usize, column: None };
        reading.mistakes.push((place, format!("{SECTION}: {error}")));
    }
    for (place, message) in reading.mistakes {
        refuse(place, message);
    }
    table
}

struct Reading<'a> {
    source: &'a str,
    folder: &'a Path,
    mistakes: Vec<(FilePosition, String)>,
}

impl Reading<'_> {
    fn refuse(&mut self, place: FilePosition, message: &str) {
        self.mistakes.push((place, format!("{SECTION}: {message}")));
    }

    fn read_all(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<CronEntry> {
        let usual = "each entry begins with a line [[cron]], in double brackets";
        let DeValue::Array(tables) = value.get_ref() else {
            self.refuse(FilePosition::of(self.source, value.span().start), usual);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for table in tables {
            let place = FilePosition::of(self.source, table.span().start);
            match table.get_ref() {
                DeValue::Table(keys) => entries.push(self.read_entry(place, keys)),
                _ => self.refuse(place, usual),
            }
        }
        entries
    }

    fn read_entry(&mut self, place: FilePosition, keys: &DeTable<'_>) -> CronEntry {
        let mut entry = CronEntry {
            name: Box::default(),
            queue: Box::default(),
            cron: "@daily".parse().expect("a word for an expression"),
            zone: Zone::default(),
            body: [][..].into(),
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter_ms: 0,
            line: place.line as u32,
        };
        let mut keys: Vec<_> = keys.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in &keys {
            let place = FilePosition::of(self.source, value.span().start);
            let name: &str = key.get_ref();
            if !KEYS.contains(&name) {
                let place = FilePosition::of(self.source, key.span().start);
                let known = suggestion(name, KEYS.map(str::to_owned).into_iter());
                let hint = known.map(|known| format!("; did you mean `{known}`?"));
                self.refuse(place, &format!("unknown key `{name}`{}", hint.unwrap_or_default()));
                continue;
            }
            let is_text = !matches!(name, "overlap" | "catch_up" | "jitter");
            let read = if is_text { text } else { scalar };
            let Some(value) = read(value.get_ref()) else {
                let kind = value.get_ref().type_str();
                self.mistake(place, name, &format!("cannot be of type {kind}"));
                continue;
            };
            if let Err(message) = self.assign(&mut entry, name, &value) {
                self.mistake(place, name, &message);
            }
        }
        let has = |wanted: &str| keys.iter().any(|(key, _)| key.get_ref() == wanted);
        for key in REQUIRED {
            if !has(key) {
                self.refuse(place, &format!("`{key}` is missing"));
            }
        }
        if has("body") && has("body_file") {
            self.refuse(place, "an entry has `body` or `body_file`, not both");
        }
        entry
    }

    fn assign(&self, entry: &mut CronEntry, key: &str, value: &str) -> Result<(), String> {
        match key {
            "name" => entry.name = value.as_bytes().into(),
            "queue" => entry.queue = value.as_bytes().into(),
            "spec" => entry.cron = value.parse().map_err(|error: CronError| error.to_string())?,
            "tz" => entry.zone = value.parse().map_err(|error: ZoneError| error.to_string())?,
            "body" => entry.body = value.as_bytes().into(),
            "body_file" => entry.body = self.file(value)?.as_slice().into(),
            "overlap" => entry.overlap = find(value, Overlap::ALL, Overlap::as_str)?,
            "catch_up" => entry.catch_up = find(value, CatchUp::ALL, CatchUp::as_str)?,
            _ => {
                entry.jitter_ms = duration::parse(value)?.as_millis() as u64;
                if entry.jitter_ms > JITTER_MS_MAX {
                    return Err(format!("`{value}` is longer than an hour"));
                }
            }
        }
        Ok(())
    }

    /// The content of a file with a body. The file must be regular, because a reload that waits for the
    /// writer of a FIFO keeps all later reloads waiting.
    fn file(&self, name: &str) -> Result<Vec<u8>, String> {
        let file = self.folder.join(name);
        operator_file::read_regular(&file, CRONS_BYTES_MAX as u64)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))
    }

    fn mistake(&mut self, place: FilePosition, key: &str, message: &str) {
        self.mistakes.push((place, format!("{SECTION}.{key}: {message}")));
    }
}

/// Finds the rule with this word.
fn find<T: Copy>(text: &str, all: [T; 3], word: fn(T) -> &'static str) -> Result<T, String> {
    let [a, b, c] = all.map(word);
    let found = all.into_iter().find(|one| word(*one) == text);
    found.ok_or_else(|| format!("`{text}` is neither `{a}`, `{b}` nor `{c}`"))
}

/// The entries in the form of the file, each with its origin. A body from a file is shown as
/// `body`.
pub(crate) fn show(table: &CronTable, mut origin: impl FnMut(u32) -> String) -> String {
    let mut shown = String::new();
    for entry in &table.0 {
        let quoted = |bytes: &[u8]| quote(&String::from_utf8_lossy(bytes));
        let values = [
            ("name", quoted(&entry.name)),
            ("queue", quoted(&entry.queue)),
            ("spec", quote(entry.cron.as_str())),
            ("tz", quote(entry.zone.as_str())),
            ("body", quoted(&entry.body)),
            ("overlap", quote(entry.overlap.as_str())),
            ("catch_up", quote(entry.catch_up.as_str())),
            ("jitter", quote(&duration::format(Duration::from_millis(entry.jitter_ms)))),
        ];
        shown.push_str("\n[[cron]]\n");
        for (key, value) in values {
            shown.push_str(&line_with_origin(&format!("{key} = {value}"), &origin(entry.line)));
        }
    }
    shown
}

#[cfg(test)]
mod tests;

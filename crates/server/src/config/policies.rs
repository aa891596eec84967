//! The `[[policy]]` tables of the configuration. This module reads them, and prints them in the
//! same form.

mod order;

use std::num::NonZeroU32;

use broker::policy::{
    Backoff, DeadTarget, FairMode, KeptBody, Key, KeyError, Name, OnDuplicate, Order, Pattern, Per,
    QueueSync, Rate, Rule, RuleSetting, Rules, Setting, UniqueWindow, WhenFull,
};
use broker::schedule::{Cron, CronError, Zone, ZoneError};
use notation::{duration, size};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::Durability;
use crate::config::settings::quote;
use crate::config::values::{FilePosition, decimal, scalar, suggestion, text};

/// The name of the tables in the file.
pub(crate) const SECTION: &str = "policy";

/// The value that removes a setting of a more general policy.
const NONE: &str = "none";
/// The largest allowed limit of open reads per session and queue. No session needs more open reads,
/// and each open read uses memory.
const OPEN_MAX: u32 = 1_000_000;

/// The longest ttr and delay: about a hundred years. A moment must fit into its field.
const SECONDS_MAX: u32 = 3_153_600_000;
/// The longest pause of a schedule: a year.
const PAUSE_MS_MAX: u128 = 366 * 24 * 3_600_000;
/// The longest wait of a put for room: an hour.
const BLOCK_MS_MAX: u128 = 3_600_000;
/// The largest number of retries.
const RETRIES_MAX: u32 = 1000;
/// The largest jitter, in thousandths.
const JITTER_MAX: u32 = 500;
/// Values of `dead.queue` that are no names of queues.
const BURY: &str = "bury";
const DROP: &str = "drop";
/// Keys that are also groups: a table of its keys turns such a key on.
const RETRIES: &str = "retries";
const PAUSE: &str = "pause";
const HISTORY: &str = "history";
const REASON: &str = "pause.reason";
const CRON: &str = "pause.cron";
const ZONE: &str = "pause.tz";
const JITTER: &str = "retries.jitter";
const WEIGHTS: &str = "fair.weights";
/// The largest number of jobs in `rate` and `concurrency`.
const GATE_MAX: u32 = 1_000_000;
/// The largest number of jobs in the history of a queue.
const HISTORY_MAX: u64 = 1_000_000;
/// The keys of a rate, which can be fractions.
const RATES: [&str; 3] = ["rate.per_second", "rate.per_minute", "rate.per_hour"];

/// Keys whose values are names of queues, or other texts: any text in quotes.
const NAMES: [&str; 12] = [
    "expire_to",
    "alias",
    "route.copy_to",
    "same_as",
    "dead.queue",
    "unique.by",
    "rate.key",
    "concurrency.key",
    "fair.key",
    REASON,
    CRON,
    ZONE,
];

/// How to read the value of a key. A returned error describes the mistake.
enum Read {
    One(fn(&str) -> Result<Setting, String>),
    List(fn(&[&str]) -> Setting),
    Map(ReadMap),
}

/// Reads a table of keys and values.
type ReadMap = fn(&[(&str, &str)]) -> Result<Setting, String>;

static KEYS: [(&str, Read); 61] = [
    ("limits.jobs", Read::One(|text| number(text).map(Setting::JobsMax))),
    ("limits.bytes", Read::One(|text| bytes(text).map(Setting::BytesMax))),
    ("limits.item_bytes", Read::One(|text| bytes(text).map(Setting::ItemBytesMax))),
    ("limits.age", Read::One(|text| millis(text).map(Setting::AgeMax))),
    ("limits.when_full", Read::One(|text| when_full(text).map(Setting::WhenFull))),
    ("limits.block_for", Read::One(|text| block_for(text).map(Setting::BlockFor))),
    ("expire_to", Read::One(|text| Ok(Setting::ExpireTo(unless_none(text).map(name))))),
    ("expire_sweep", Read::One(|text| sweep(text).map(Setting::ExpireSweep))),
    ("idle", Read::One(|text| millis(text).map(Setting::Idle))),
    ("open.max", Read::One(|text| open_max(text).map(Setting::OpenMax))),
    ("open.timeout", Read::One(|text| millis(text).map(Setting::OpenTimeout))),
    ("fanout_only", Read::One(|text| truth(text).map(Setting::FanoutOnly))),
    ("sync", Read::One(|text| sync(text).map(Setting::Sync))),
    ("reservation", Read::One(|text| reservation(text).map(Setting::DurableLeases))),
    ("memory.bytes", Read::One(|text| bytes(text).map(Setting::MemoryMax))),
    ("alias", Read::List(|texts| Setting::Alias(names(texts)))),
    ("route.copy_to", Read::List(|texts| Setting::CopyTo(names(texts)))),
    ("same_as", Read::One(|text| Ok(Setting::SameAs(unless_none(text).map(name))))),
    (RETRIES, Read::One(|text| on_or_off(text).map(Setting::Retries))),
    ("retries.limit", Read::One(|text| retry_limit(text).map(Setting::RetryLimit))),
    ("retries.backoff", Read::One(|text| backoff(text).map(Setting::RetryBackoff))),
    ("retries.base", Read::One(|text| time(text).map(Setting::RetryBase))),
    ("retries.max", Read::One(|text| time(text).map(Setting::RetryMax))),
    (JITTER, Read::One(|text| jitter(text).map(Setting::RetryJitter))),
    ("retries.count_release", Read::One(|text| truth(text).map(Setting::RetryRelease))),
    ("retries.count_disconnect", Read::One(|text| truth(text).map(Setting::RetryDisconnect))),
    ("dead.queue", Read::One(|text| Ok(Setting::DeadQueue(dead_target(text))))),
    ("dead.keep", Read::One(|text| millis(text).map(Setting::DeadKeep))),
    ("dead.max_jobs", Read::One(|text| count(text).map(Setting::DeadJobsMax))),
    ("dead.expired", Read::One(|text| truth(text).map(Setting::DeadExpired))),
    ("dead.dropped", Read::One(|text| truth(text).map(Setting::DeadDropped))),
    ("ttr", Read::One(|text| ttr(text).map(Setting::Ttr))),
    ("priority", Read::One(|text| priority(text).map(Setting::Priority))),
    ("delay", Read::One(|text| seconds(text).map(Setting::Delay))),
    (PAUSE, Read::One(|text| truth(text).map(Setting::Pause))),
    (REASON, Read::One(|text| Ok(Setting::PauseReason(unless_none(text).map(name))))),
    (CRON, Read::One(|text| cron(text).map(Setting::PauseCron))),
    ("pause.for", Read::One(|text| pause_length(text).map(Setting::PauseLength))),
    (ZONE, Read::One(|text| zone(text).map(Setting::PauseZone))),
    (RATES[0], Read::One(|text| rate(text, Per::Second).map(Setting::Rate))),
    (RATES[1], Read::One(|text| rate(text, Per::Minute).map(Setting::Rate))),
    (RATES[2], Read::One(|text| rate(text, Per::Hour).map(Setting::Rate))),
    ("rate.burst", Read::One(|text| gate(text).map(Setting::RateBurst))),
    ("rate.key", Read::One(|text| key(text).map(Setting::RateKey))),
    ("concurrency.limit", Read::One(|text| gate(text).map(Setting::Concurrency))),
    ("concurrency.key", Read::One(|text| key(text).map(Setting::ConcurrencyKey))),
    ("concurrency.order", Read::One(|text| order::strictness(text).map(Setting::ConcurrencyOrder))),
    ("fair.key", Read::One(|text| key(text).map(Setting::FairKey))),
    (WEIGHTS, Read::Map(|entries| order::weights(entries).map(Setting::FairWeights))),
    ("fair.mode", Read::One(|text| order::mode(text).map(Setting::FairMode))),
    ("fair.across_priorities", Read::One(|text| truth(text).map(Setting::FairAcross))),
    ("aging", Read::One(|text| order::aging(text).map(Setting::Aging))),
    ("unique.by", Read::One(|text| unique_by(text).map(Setting::UniqueBy))),
    ("unique.window", Read::One(|text| window(text).map(Setting::UniqueWindow))),
    ("unique.on_duplicate", Read::One(|text| on_duplicate(text).map(Setting::OnDuplicate))),
    ("unique.ignore_buried", Read::One(|text| truth(text).map(Setting::IgnoreBuried))),
    (HISTORY, Read::One(|text| history(text).map(Setting::History))),
    ("history.keep", Read::One(|text| history_keep(text).map(Setting::HistoryKeep))),
    ("history.max", Read::One(|text| history_max(text).map(Setting::HistoryMax))),
    ("history.body", Read::One(|text| history_body(text).map(Setting::HistoryBody))),
    ("result.keep", Read::One(|text| millis(text).map(Setting::ResultKeep))),
];

/// Reads all `[[policy]]` tables. Reports each mistake to `refuse`, with its place.
pub(crate) fn read(
    text: &str,
    value: &Spanned<DeValue<'_>>,
    refuse: &mut dyn FnMut(FilePosition, String),
) -> Rules {
    let mut reading = Reading { text, rules: Vec::new(), mistakes: Vec::new() };
    reading.read_all(value);
    let rules = Rules(reading.rules);
    if reading.mistakes.is_empty()
        && let Err(error) = rules.check()
    {
        let place = FilePosition { line: error.line() as usize, column: None };
        reading.mistakes.push((place, format!("{SECTION}.{error}")));
    }
    for (place, message) in reading.mistakes {
        refuse(place, message);
    }
    rules
}

/// The setting with this key and this value, as [`show_value`] writes it.
pub fn parse_setting(key: &str, value: &str) -> Result<Setting, String> {
    let unknown = || format!("`{key}` is no key of a policy in this version");
    let (key, read) = KEYS.iter().find(|(known, _)| *known == key).ok_or_else(unknown)?;
    let text = format!("value = {value}");
    let table = DeTable::parse(&text).map_err(|error| error.message().to_owned())?;
    let value = table.get_ref().get("value").ok_or_else(|| format!("`{value}` is no value"))?;
    let mut reading = Reading { text: &text, rules: vec![Rule::default()], mistakes: Vec::new() };
    reading.read_value(key, read, value);
    match (reading.rule().settings.pop(), reading.mistakes.pop()) {
        (Some(asked), None) => Ok(asked.setting),
        (_, mistake) => Err(mistake.map_or_else(unknown, |(_, message)| message)),
    }
}

struct Reading<'a> {
    text: &'a str,
    rules: Vec<Rule>,
    mistakes: Vec<(FilePosition, String)>,
}

impl Reading<'_> {
    fn refuse(&mut self, place: FilePosition, message: &str) {
        self.mistakes.push((place, format!("{SECTION}: {message}")));
    }

    fn read_all(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(tables) = value.get_ref() else {
            let place = FilePosition::of(self.text, value.span().start);
            return self
                .refuse(place, "each policy begins with a line [[policy]], in double brackets");
        };
        for table in tables {
            let place = FilePosition::of(self.text, table.span().start);
            match table.get_ref() {
                DeValue::Table(entries) => self.read_rule(place, entries),
                _ => self.refuse(place, "each policy begins with a line [[policy]]"),
            }
        }
    }

    fn read_rule(&mut self, place: FilePosition, entries: &DeTable<'_>) {
        self.rules.push(Rule { line: place.line as u32, ..Rule::default() });
        self.read_entries("", entries);
        let has_match = entries.iter().any(|(key, _)| key.get_ref() == "match");
        if !has_match {
            self.refuse(place, "`match` is missing; it selects the queues, \"*\" is all");
        }
    }

    fn read_entries(&mut self, group: &str, entries: &DeTable<'_>) {
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let path = match group {
                "" => key.get_ref().to_string(),
                group => format!("{group}.{}", key.get_ref()),
            };
            let place = FilePosition::of(self.text, key.span().start);
            if path == "match" {
                self.read_match(value);
            } else if let Some(setting) = turned_on(&path)
                && let Some(inner) = value.get_ref().as_table()
            {
                let line = place.line as u32;
                self.rule().settings.push(RuleSetting { setting, line });
                self.read_entries(&path, inner);
            } else if let Some((key, read)) = KEYS.iter().find(|(key, _)| *key == path) {
                self.read_value(key, read, value);
            } else if let Some(inner) = value.get_ref().as_table()
                && is_group(&path)
            {
                self.read_entries(&path, inner);
            } else if let Some((key, _)) = KEYS.iter().find(|(key, _)| is_in_group(key, &path)) {
                self.refuse(place, &format!("`{path}` has keys of its own, such as `{key}`"));
            } else {
                let hint = suggest(&path).map(|known| format!("; did you mean `{known}`?"));
                let hint = hint.unwrap_or_default();
                self.refuse(place, &format!("unknown key `{path}`{hint}"));
            }
        }
    }

    fn read_match(&mut self, value: &Spanned<DeValue<'_>>) {
        let place = FilePosition::of(self.text, value.span().start);
        let patterns = match value.get_ref() {
            DeValue::String(pattern) => Some(vec![pattern.to_string()]),
            DeValue::Array(items) => items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect::<Option<Vec<String>>>(),
            _ => None,
        };
        match patterns {
            Some(patterns)
                if !patterns.is_empty() && patterns.iter().all(|one| !one.is_empty()) =>
            {
                let patterns = patterns.iter().map(|text| Pattern::new(text.as_bytes()));
                self.rule().patterns = patterns.collect();
            }
            _ => self.refuse(place, "match: write a pattern such as \"mail.*\", or a list of them"),
        }
    }

    fn read_value(&mut self, key: &str, read: &Read, value: &Spanned<DeValue<'_>>) {
        let place = FilePosition::of(self.text, value.span().start);
        let take = match key {
            JITTER => decimal,
            key if RATES.contains(&key) => decimal,
            key if NAMES.contains(&key) => text,
            _ => scalar,
        };
        if let Read::Map(read) = read {
            return self.read_map(key, *read, value);
        }
        let values: Option<Vec<String>> = match (read, value.get_ref()) {
            (Read::List(_), DeValue::Array(items)) => {
                items.iter().map(|item| take(item.get_ref())).collect()
            }
            (_, other) => take(other).map(|text| vec![text]),
        };
        let Some(values) = values else {
            let kind = value.get_ref().type_str();
            return self.mistake(place, key, &format!("cannot be of type {kind}"));
        };
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let setting = match read {
            Read::One(read) => read(values[0]),
            Read::List(read) => Ok(read(&values)),
            Read::Map(_) => unreachable!("a table is read above"),
        };
        self.add(place, key, setting);
    }

    fn read_map(&mut self, key: &str, read: ReadMap, value: &Spanned<DeValue<'_>>) {
        let place = FilePosition::of(self.text, value.span().start);
        let entries: Option<Vec<(String, String)>> = match value.get_ref() {
            DeValue::Table(entries) => entries
                .iter()
                .map(|(name, value)| Some((name.get_ref().to_string(), scalar(value.get_ref())?)))
                .collect(),
            _ => None,
        };
        let Some(entries) = entries else {
            return self.mistake(place, key, "write a table of numbers, such as { acme = 3 }");
        };
        let entries: Vec<(&str, &str)> =
            entries.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.add(place, key, read(&entries));
    }

    fn add(&mut self, place: FilePosition, key: &str, setting: Result<Setting, String>) {
        match setting {
            Ok(setting) => {
                self.rule().settings.push(RuleSetting { setting, line: place.line as u32 });
            }
            Err(message) => self.mistake(place, key, &message),
        }
    }

    fn mistake(&mut self, place: FilePosition, key: &str, message: &str) {
        self.mistakes.push((place, format!("{SECTION}.{key}: {message}")));
    }

    fn rule(&mut self) -> &mut Rule {
        self.rules.last_mut().expect("a rule is begun before its keys are read")
    }
}

/// What a table of keys turns on, if the group of these keys is a key itself.
fn turned_on(group: &str) -> Option<Setting> {
    match group {
        RETRIES => Some(Setting::Retries(true)),
        PAUSE => Some(Setting::Pause(true)),
        HISTORY => Some(Setting::History(true)),
        _ => None,
    }
}

/// Whether there are keys that begin with this path and a dot.
fn is_group(path: &str) -> bool {
    KEYS.iter().any(|(key, _)| is_in_group(key, path))
}

fn is_in_group(key: &str, path: &str) -> bool {
    key.split_once('.').is_some_and(|(group, _)| group == path)
}

fn suggest(path: &str) -> Option<String> {
    // A missing or wrong group, such as `limits`, is more likely than a misspelt key. So look first
    // for a key with the same last word.
    let name = last_word(path);
    let keys = KEYS.iter().map(|(key, _)| (*key).to_owned());
    let others = [
        "match",
        "limits",
        "open",
        "memory",
        "route",
        "retries",
        "dead",
        "pause",
        "rate",
        "concurrency",
        "fair",
        "unique",
        "history",
        "result",
    ]
    .map(str::to_owned);
    let elsewhere = keys.clone().find(|key| last_word(key) == name);
    elsewhere.or_else(|| suggestion(path, keys.chain(others)))
}

fn last_word(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}

fn unless_none(text: &str) -> Option<&str> {
    (text != NONE).then_some(text)
}

fn number(text: &str) -> Result<Option<u64>, String> {
    let refused = |_| format!("`{text}` is neither `{NONE}` nor a number from 0 on");
    unless_none(text).map(|text| text.parse().map_err(refused)).transpose()
}

fn sweep(text: &str) -> Result<Option<u32>, String> {
    match unless_none(text).map(str::parse) {
        None => Ok(None),
        Some(Ok(count)) if count > 0 => Ok(Some(count)),
        Some(_) => Err(format!("`{text}` is neither `{NONE}` nor a number from 1 to {}", u32::MAX)),
    }
}

fn bytes(text: &str) -> Result<Option<u64>, String> {
    unless_none(text).map(size::parse).transpose()
}

fn millis(text: &str) -> Result<Option<u64>, String> {
    let Some(text) = unless_none(text) else { return Ok(None) };
    match duration::parse(text)?.as_millis() as u64 {
        0 => Err(format!("`{text}` must be greater than zero; write `{NONE}` for no limit")),
        millis => Ok(Some(millis)),
    }
}

fn when_full(text: &str) -> Result<WhenFull, String> {
    match text {
        "refuse" => Ok(WhenFull::Refuse),
        "drop-oldest" => Ok(WhenFull::DropOldest),
        "block" => Ok(WhenFull::Block),
        _ => Err(format!("`{text}` is not `refuse`, `drop-oldest` or `block`")),
    }
}

/// Reads how long a put waits for room.
fn block_for(text: &str) -> Result<u64, String> {
    match duration::parse(text)?.as_millis() {
        0 => Err(format!("`{text}` must be greater than zero; to refuse at once, use `refuse`")),
        millis if millis <= BLOCK_MS_MAX => Ok(millis as u64),
        _ => Err(format!("`{text}` is longer than an hour")),
    }
}

fn open_max(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=OPEN_MAX).contains(count));
    count.ok_or_else(|| format!("`{text}` is not a number from 1 to {OPEN_MAX}"))
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
}

/// Whether leases are durable.
fn reservation(text: &str) -> Result<bool, String> {
    match text {
        "durable" => Ok(true),
        "volatile" => Ok(false),
        _ => Err(format!("`{text}` is neither `durable` nor `volatile`")),
    }
}

fn dead_target(text: &str) -> DeadTarget {
    match text {
        BURY => DeadTarget::Bury,
        DROP => DeadTarget::Drop,
        queue => DeadTarget::Queue(name(queue)),
    }
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number from 0 on"))
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => {
            Err(format!("`{text}` is neither `on` nor `off`, nor a table such as {{ limit = 5 }}"))
        }
    }
}

fn retry_limit(text: &str) -> Result<u32, String> {
    let limit = text.parse().ok().filter(|limit| *limit <= RETRIES_MAX);
    limit.ok_or_else(|| format!("`{text}` is not a number from 0 to {RETRIES_MAX}"))
}

fn backoff(text: &str) -> Result<Backoff, String> {
    match text {
        "none" => Ok(Backoff::None),
        "linear" => Ok(Backoff::Linear),
        "exponential" => Ok(Backoff::Exponential),
        _ => Err(format!("`{text}` is not `none`, `linear` or `exponential`")),
    }
}

fn time(text: &str) -> Result<u64, String> {
    match duration::parse(text)?.as_millis() as u64 {
        0 => {
            Err(format!("`{text}` must be greater than zero; for no delay, use backoff = \"none\""))
        }
        millis => Ok(millis),
    }
}

/// Reads a part from 0 to 0.5, as thousandths.
fn jitter(text: &str) -> Result<u32, String> {
    let part = text.parse::<f64>().ok().map(|part| (part * 1000.0).round());
    let permille = part.filter(|part| (0.0..=f64::from(JITTER_MAX)).contains(part));
    permille
        .map(|part| part as u32)
        .ok_or_else(|| format!("`{text}` is not a number from 0 to 0.5"))
}

fn ttr(text: &str) -> Result<Option<u32>, String> {
    match unless_none(text).map(seconds).transpose()? {
        Some(0) => Err(format!("`{text}` must be greater than zero; write `{NONE}` for no ttr")),
        ttr => Ok(ttr),
    }
}

fn priority(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number from 0 to {}", u32::MAX))
}

/// Reads a time of whole seconds, because jobs count in seconds.
fn seconds(text: &str) -> Result<u32, String> {
    let time = duration::parse(text)?;
    match u32::try_from(time.as_secs()) {
        Ok(seconds) if time.subsec_nanos() == 0 && seconds <= SECONDS_MAX => Ok(seconds),
        Ok(seconds) if seconds <= SECONDS_MAX => Err(format!("`{text}` is not whole seconds")),
        _ => Err(format!("`{text}` is longer than a hundred years")),
    }
}

/// Reads a number of jobs in a time, with up to three digits after the point.
fn rate(text: &str, per: Per) -> Result<Option<Rate>, String> {
    let Some(text) = unless_none(text) else { return Ok(None) };
    let milli = text.parse::<f64>().ok().map(|jobs| (jobs * 1000.0).round());
    let milli = milli.filter(|milli| (1.0..=f64::from(GATE_MAX) * 1000.0).contains(milli));
    let milli = milli.and_then(|milli| NonZeroU32::new(milli as u32));
    milli.map(|milli| Some(Rate { milli, per })).ok_or_else(|| {
        format!("`{text}` is neither `{NONE}` nor a number from 0.001 to {GATE_MAX}")
    })
}

/// Reads a number of jobs.
fn gate(text: &str) -> Result<Option<NonZeroU32>, String> {
    let Some(text) = unless_none(text) else { return Ok(None) };
    let jobs = text.parse().ok().filter(|jobs: &NonZeroU32| jobs.get() <= GATE_MAX);
    let wrong = || format!("`{text}` is neither `{NONE}` nor a number from 1 to {GATE_MAX}");
    jobs.map(Some).ok_or_else(wrong)
}

/// Reads where the key of a job is. `none`: jobs have no key.
fn key(text: &str) -> Result<Option<Key>, String> {
    let refused = |error: KeyError| error.to_string();
    unless_none(text).map(|text| text.parse().map_err(refused)).transpose()
}

fn unique_by(text: &str) -> Result<Option<Key>, String> {
    let by = key(text)?;
    if by.as_ref().is_some_and(Key::needs_client) {
        return Err("`client` is no key for `unique`: it says nothing about the job".to_owned());
    }
    Ok(by)
}

fn window(text: &str) -> Result<UniqueWindow, String> {
    match text {
        "until-done" => Ok(UniqueWindow::UntilDone),
        "until-start" => Ok(UniqueWindow::UntilStart),
        _ => match duration::parse(text).map(|time| time.as_millis() as u64) {
            Ok(millis) if millis > 0 => Ok(UniqueWindow::For(millis)),
            Ok(_) => Err(format!("`{text}` must be greater than zero")),
            Err(_) => Err(format!(
                "`{text}` is neither `until-done`, `until-start` nor a time such as 1h"
            )),
        },
    }
}

fn on_duplicate(text: &str) -> Result<OnDuplicate, String> {
    match text {
        "return-existing" => Ok(OnDuplicate::ReturnExisting),
        "refuse" => Ok(OnDuplicate::Refuse),
        "bump" => Ok(OnDuplicate::Bump),
        "replace-body" => Ok(OnDuplicate::ReplaceBody),
        _ => Err(format!("`{text}` is not `return-existing`, `refuse`, `bump` or `replace-body`")),
    }
}

fn history(text: &str) -> Result<bool, String> {
    on_or_off(text).map_err(|_| {
        format!("`{text}` is neither `on` nor `off`, nor a table such as {{ keep = \"24h\" }}")
    })
}

fn history_keep(text: &str) -> Result<u64, String> {
    match duration::parse(text)?.as_millis() as u64 {
        0 => Err(format!("`{text}` must be greater than zero; for no history, write `off`")),
        millis => Ok(millis),
    }
}

fn history_max(text: &str) -> Result<u64, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=HISTORY_MAX).contains(jobs));
    jobs.ok_or_else(|| format!("`{text}` is not a number from 1 to {HISTORY_MAX}"))
}

/// Reads how much of a body the history keeps.
fn history_body(text: &str) -> Result<KeptBody, String> {
    let prefix = text.strip_prefix("prefix:").and_then(|bytes| bytes.parse().ok());
    match (text, prefix) {
        (NONE, _) => Ok(KeptBody::None),
        ("full", _) => Ok(KeptBody::Full),
        (_, Some(bytes)) if bytes > 0 => Ok(KeptBody::Prefix(bytes)),
        _ => Err(format!("`{text}` is not `{NONE}`, `full` or a prefix such as `prefix:1024`")),
    }
}

fn cron(text: &str) -> Result<Option<Cron>, String> {
    let refused = |error: CronError| error.to_string();
    unless_none(text).map(|text| text.parse().map_err(refused)).transpose()
}

fn zone(text: &str) -> Result<Zone, String> {
    text.parse().map_err(|error: ZoneError| error.to_string())
}

/// Reads the length of a pause.
fn pause_length(text: &str) -> Result<Option<u64>, String> {
    let Some(text) = unless_none(text) else { return Ok(None) };
    match duration::parse(text)?.as_millis() {
        0 => Err(format!("`{text}` must be greater than zero")),
        millis if millis <= PAUSE_MS_MAX => Ok(Some(millis as u64)),
        _ => Err(format!("`{text}` is longer than a year")),
    }
}

fn sync(text: &str) -> Result<Option<QueueSync>, String> {
    if text == NONE {
        return Ok(None);
    }
    Ok(Some(match Durability::parse(text)? {
        Durability::Always => QueueSync::Always,
        Durability::Every(time) => QueueSync::Every(time.as_millis() as u64),
        Durability::Never => QueueSync::Never,
        Durability::Memory => QueueSync::Memory,
    }))
}

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

fn names(texts: &[&str]) -> Box<[Name]> {
    texts.iter().map(|text| name(text)).collect()
}

/// The rules in the form of the file, each line with its origin.
pub(crate) fn show(rules: &Rules, mut origin: impl FnMut(u32) -> String) -> String {
    let mut text = String::new();
    for rule in &rules.0 {
        let patterns: Vec<String> =
            rule.patterns.iter().map(|pattern| shown(pattern.as_bytes())).collect();
        let patterns = format!("match = {}", list(&patterns));
        text.push_str("\n[[policy]]\n");
        text.push_str(&line_with_origin(&patterns, &origin(rule.line)));
        for asked in &rule.settings {
            if turned_on(asked.setting.key()).as_ref() == Some(&asked.setting)
                && has_keys_of(rule, asked.setting.key())
            {
                // The other keys turn it on, and the file cannot have both.
                continue;
            }
            let line = format!("{} = {}", asked.setting.key(), show_value(&asked.setting));
            text.push_str(&line_with_origin(&line, &origin(asked.line)));
        }
    }
    text
}

fn has_keys_of(rule: &Rule, group: &str) -> bool {
    rule.settings.iter().any(|asked| is_in_group(asked.setting.key(), group))
}

/// One printed line, with the value's origin as a comment.
pub(crate) fn line_with_origin(line: &str, origin: &str) -> String {
    format!("{line:<40} # {origin}\n")
}

/// The value of a setting as it is written in a file.
pub fn show_value(setting: &Setting) -> String {
    let none = || quote(NONE);
    let millis = |time: u64| quote(&duration::format(std::time::Duration::from_millis(time)));
    let seconds = |time: u32| millis(u64::from(time) * 1000);
    match setting {
        Setting::JobsMax(jobs) => jobs.map_or_else(none, |jobs| jobs.to_string()),
        Setting::ExpireSweep(jobs) => jobs.map_or_else(none, |jobs| jobs.to_string()),
        Setting::BytesMax(bytes) | Setting::ItemBytesMax(bytes) | Setting::MemoryMax(bytes) => {
            bytes.map_or_else(none, |bytes| quote(&size::format(bytes)))
        }
        Setting::AgeMax(time)
        | Setting::Idle(time)
        | Setting::OpenTimeout(time)
        | Setting::DeadKeep(time)
        | Setting::ResultKeep(time)
        | Setting::PauseLength(time) => time.map_or_else(none, millis),
        Setting::PauseCron(cron) => cron.as_ref().map_or_else(none, |cron| quote(cron.as_str())),
        Setting::PauseZone(zone) => quote(zone.as_str()),
        Setting::WhenFull(WhenFull::Refuse) | Setting::OnDuplicate(OnDuplicate::Refuse) => {
            quote("refuse")
        }
        Setting::WhenFull(WhenFull::DropOldest) => quote("drop-oldest"),
        Setting::WhenFull(WhenFull::Block) => quote("block"),
        Setting::ExpireTo(name) | Setting::SameAs(name) | Setting::PauseReason(name) => {
            name.as_ref().map_or_else(none, |name| shown(name))
        }
        Setting::DurableLeases(durable) => quote(if *durable { "durable" } else { "volatile" }),
        Setting::OpenMax(reads) => reads.to_string(),
        Setting::FanoutOnly(truth)
        | Setting::RetryRelease(truth)
        | Setting::RetryDisconnect(truth)
        | Setting::DeadExpired(truth)
        | Setting::DeadDropped(truth)
        | Setting::Pause(truth)
        | Setting::FairAcross(truth)
        | Setting::IgnoreBuried(truth) => truth.to_string(),
        Setting::Retries(is_on) | Setting::History(is_on) => {
            quote(if *is_on { "on" } else { "off" })
        }
        Setting::RetryLimit(limit) => limit.to_string(),
        Setting::RetryBackoff(Backoff::None) => quote("none"),
        Setting::RetryBackoff(Backoff::Linear) => quote("linear"),
        Setting::RetryBackoff(Backoff::Exponential) => quote("exponential"),
        Setting::BlockFor(time)
        | Setting::RetryBase(time)
        | Setting::RetryMax(time)
        | Setting::HistoryKeep(time)
        | Setting::UniqueWindow(UniqueWindow::For(time)) => millis(*time),
        Setting::DeadQueue(DeadTarget::Bury) => quote(BURY),
        Setting::DeadQueue(DeadTarget::Drop) => quote(DROP),
        Setting::DeadQueue(DeadTarget::Queue(name)) => shown(name),
        Setting::DeadJobsMax(jobs) | Setting::HistoryMax(jobs) => jobs.to_string(),
        Setting::HistoryBody(KeptBody::None) => none(),
        Setting::HistoryBody(KeptBody::Prefix(bytes)) => quote(&format!("prefix:{bytes}")),
        Setting::HistoryBody(KeptBody::Full) => quote("full"),
        Setting::Ttr(ttr) => ttr.map_or_else(none, seconds),
        Setting::Priority(priority) => priority.to_string(),
        Setting::Delay(delay) => seconds(*delay),
        Setting::UniqueBy(key)
        | Setting::RateKey(key)
        | Setting::ConcurrencyKey(key)
        | Setting::FairKey(key) => key.as_ref().map_or_else(none, |key| quote(key.as_str())),
        Setting::FairWeights(weights) => order::show_weights(weights),
        Setting::Aging(aging) => quote(&order::show_aging(*aging)),
        Setting::FairMode(FairMode::RoundRobin) => quote("drr"),
        Setting::FairMode(FairMode::InFlight) => quote("in-flight"),
        Setting::ConcurrencyOrder(Order::Loose) => quote("loose"),
        Setting::ConcurrencyOrder(Order::Strict) => quote("strict"),
        Setting::UniqueWindow(UniqueWindow::UntilDone) => quote("until-done"),
        Setting::UniqueWindow(UniqueWindow::UntilStart) => quote("until-start"),
        Setting::OnDuplicate(OnDuplicate::Bump) => quote("bump"),
        Setting::OnDuplicate(OnDuplicate::ReplaceBody) => quote("replace-body"),
        Setting::OnDuplicate(OnDuplicate::ReturnExisting) => quote("return-existing"),
        Setting::RetryJitter(permille) => (f64::from(*permille) / 1000.0).to_string(),
        Setting::Rate(rate) => {
            let jobs = |rate: &Rate| (f64::from(rate.milli.get()) / 1000.0).to_string();
            rate.as_ref().map_or_else(none, jobs)
        }
        Setting::RateBurst(jobs) | Setting::Concurrency(jobs) => {
            jobs.map_or_else(none, |jobs| jobs.to_string())
        }
        Setting::Sync(sync) => match sync {
            None => none(),
            Some(QueueSync::Always) => quote("always"),
            Some(QueueSync::Every(time)) => millis(*time),
            Some(QueueSync::Never) => quote("never"),
            Some(QueueSync::Memory) => quote("memory"),
        },
        Setting::Alias(names) | Setting::CopyTo(names) => {
            list(&names.iter().map(|name| shown(name)).collect::<Vec<String>>())
        }
    }
}

fn list(items: &[String]) -> String {
    match items {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn shown(name: &[u8]) -> String {
    quote(&String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests;

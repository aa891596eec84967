//! The texts of statistics and lists. The keys, their order and the format of values are exactly as
//! in the original.

use broker::{JobStatus, Millis, QueueStats, State, Turn};

use crate::counters::Counters;
use crate::environment::{Listener, ProcessorTime};
use crate::reply::Digits;
use crate::yaml;

/// Enough bytes for every text of statistics, if names have a usual length.
const TEXT_BYTES_USUAL: usize = 1280;

/// Lines of the form `key: value`, after a first line of three dashes.
struct Text(Vec<u8>);

impl Text {
    fn new() -> Self {
        let mut bytes = Vec::with_capacity(TEXT_BYTES_USUAL);
        bytes.extend_from_slice(yaml::HEAD);
        Self(bytes)
    }

    fn key(&mut self, key: &str) {
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b": ");
    }

    fn number(&mut self, key: &str, value: impl Into<u64>) {
        self.key(key);
        self.0.extend_from_slice(Digits::of(value.into()).bytes());
        self.0.push(b'\n');
    }

    /// Adds a word that this server chose. It needs no quotes.
    fn word(&mut self, key: &str, value: &str) {
        self.key(key);
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }

    /// Adds a name that a client or the system chose, with quotes if it needs them.
    fn name(&mut self, key: &str, value: &[u8]) {
        self.key(key);
        yaml::append_scalar(&mut self.0, value);
        self.0.push(b'\n');
    }

    fn quoted(&mut self, key: &str, value: &str) {
        self.key(key);
        yaml::append_quoted(&mut self.0, value.as_bytes());
        self.0.push(b'\n');
    }
}

/// The remaining time in seconds, as clients see it.
///
/// COMPAT(beanstalkd): the number is truncated, not rounded. In the original, some time has always
/// passed since the start of the period. So a client sees at most 59 remaining seconds of a period
/// of 60 seconds. The conformance cases ttr-time-left-truncates and pause-blocks-reserve test this.
fn seconds_left(left_ms: u64) -> u64 {
    left_ms.saturating_sub(1) / 1000
}

fn whole_seconds(now: Millis, since: Millis) -> u64 {
    now.since(since) / 1000
}

/// The text of `stats-job`. `file` is the number of the log's segment that holds the job. It is 0
/// without a log.
pub(crate) fn job(status: &JobStatus, tube: &[u8], file: u32, now: Millis) -> Vec<u8> {
    let facts = &status.facts;
    let state = match facts.state {
        State::Ready => "ready",
        State::Delayed => "delayed",
        State::Leased => "reserved",
        State::Buried => "buried",
    };
    let mut text = Text::new();
    text.number("id", facts.id.0);
    text.name("tube", tube);
    text.word("state", state);
    text.number("pri", facts.priority);
    text.number("age", whole_seconds(now, facts.created));
    text.number("delay", facts.delay_s);
    text.number("ttr", facts.ttr_s);
    text.number("time-left", seconds_left(status.time_left_ms));
    text.number("file", file);
    text.number("reserves", facts.counters.takes);
    text.number("timeouts", facts.counters.timeouts);
    text.number("releases", facts.counters.releases);
    text.number("buries", facts.counters.buries);
    text.number("kicks", facts.counters.kicks);
    text.0
}

/// The text of `stats-tube`.
pub(crate) fn tube(name: &[u8], stats: &QueueStats) -> Vec<u8> {
    let mut text = Text::new();
    text.name("name", name);
    text.number("current-jobs-urgent", stats.urgent);
    text.number("current-jobs-ready", stats.ready);
    text.number("current-jobs-reserved", stats.leased);
    text.number("current-jobs-delayed", stats.delayed);
    text.number("current-jobs-buried", stats.buried);
    text.number("total-jobs", stats.puts);
    text.number("current-using", stats.users);
    text.number("current-watching", stats.watchers);
    text.number("current-waiting", stats.waiters);
    text.number("cmd-delete", stats.finishes);
    text.number("cmd-pause-tube", stats.pauses);
    text.number("pause", stats.pause_s);
    text.number("pause-time-left", seconds_left(stats.pause_left_ms));
    text.0
}

/// The text of `stats`.
pub(crate) fn server(listener: &Listener, turn: &Turn<'_>) -> Vec<u8> {
    let info = &listener.server.info;
    let counters = &listener.server.counters;
    let totals = turn.totals();
    let log = turn.log_stats();
    let ProcessorTime { user_us, system_us } = (info.processor_time)();
    let mut text = Text::new();
    text.number("current-jobs-urgent", totals.urgent);
    text.number("current-jobs-ready", totals.ready);
    text.number("current-jobs-reserved", totals.leased);
    text.number("current-jobs-delayed", totals.delayed);
    text.number("current-jobs-buried", totals.buried);
    append_counters(&mut text, counters);
    text.number("job-timeouts", totals.timeouts);
    text.number("total-jobs", totals.puts);
    text.number("max-job-size", listener.max_job_size);
    text.number("current-tubes", totals.queues);
    text.number("current-connections", counters.connections.get());
    text.number("current-producers", counters.producers.get());
    text.number("current-workers", counters.workers.get());
    text.number("current-waiting", totals.waiting_sessions);
    text.number("total-connections", counters.connections_total.get());
    text.number("pid", info.pid);
    text.quoted("version", &info.version);
    text.word("rusage-utime", &seconds_with_micros(user_us));
    text.word("rusage-stime", &seconds_with_micros(system_us));
    text.number("uptime", whole_seconds(turn.now(), info.started));
    text.number("binlog-oldest-index", log.oldest_segment);
    text.number("binlog-current-index", log.current_segment);
    text.number("binlog-records-migrated", log.records_copied);
    text.number("binlog-records-written", log.records_written);
    text.number("binlog-max-size", info.segment_bytes);
    text.word("draining", if turn.draining() { "true" } else { "false" });
    text.word("id", &format!("{:016x}", info.id));
    text.name("hostname", info.hostname.as_bytes());
    text.name("os", info.os.as_bytes());
    text.name("platform", info.platform.as_bytes());
    text.0
}

fn append_counters(text: &mut Text, counters: &Counters) {
    text.number("cmd-put", counters.put.get());
    text.number("cmd-peek", counters.peek.get());
    text.number("cmd-peek-ready", counters.peek_ready.get());
    text.number("cmd-peek-delayed", counters.peek_delayed.get());
    text.number("cmd-peek-buried", counters.peek_buried.get());
    text.number("cmd-reserve", counters.reserve.get());
    text.number("cmd-reserve-with-timeout", counters.reserve_with_timeout.get());
    text.number("cmd-delete", counters.delete.get());
    text.number("cmd-release", counters.release.get());
    text.number("cmd-use", counters.use_tube.get());
    text.number("cmd-watch", counters.watch.get());
    text.number("cmd-ignore", counters.ignore.get());
    text.number("cmd-bury", counters.bury.get());
    text.number("cmd-kick", counters.kick.get());
    text.number("cmd-touch", counters.touch.get());
    text.number("cmd-stats", counters.stats.get());
    text.number("cmd-stats-job", counters.stats_job.get());
    text.number("cmd-stats-tube", counters.stats_tube.get());
    text.number("cmd-list-tubes", counters.list_tubes.get());
    text.number("cmd-list-tube-used", counters.list_tube_used.get());
    text.number("cmd-list-tubes-watched", counters.list_tubes_watched.get());
    text.number("cmd-pause-tube", counters.pause_tube.get());
}

fn seconds_with_micros(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A list of names.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = Text::new();
    for name in names {
        yaml::append_item(&mut text.0, name);
    }
    text.0
}

//! Collects metrics in short turns of the broker, and formats them after the turns.

use std::collections::BTreeMap;

use broker::crons::CronCounts;
use broker::policy::Name;
use broker::{
    Broker, CommitSizes, DiskRoom, JobTimes, LogStats, Memory, Millis, PutRefusal, QueueId,
    QueueStats, QueueUsage, Status, Totals, Turn,
};
use histogram::Histogram as Values;

use crate::cluster::{self, ClusterFacts};
use crate::exposition::MetricType::{Counter, Gauge, Histogram};
use crate::exposition::{Buckets, Exposition};

/// The label under which all other queues are summed up.
const OTHER: &str = "other";
/// A queue with a longer name counts as `other`. The limit exists because a name can have 8 KiB,
/// and a label is repeated in many lines.
const LABEL_NAME_BYTES_MAX: usize = 256;

/// Facts about the server's process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProcessFacts {
    /// Open connections of all protocols except HTTP.
    pub connections: u64,
    /// The names of the protocols with open connections, and the numbers of these.
    pub connections_by_protocol: Vec<(&'static str, u64)>,
    /// The limit of open connections.
    pub connections_max: u64,
    /// Connections that the server closed at once because their address had too many connections.
    pub refused_per_address: u64,
    /// Connections that the server closed because the client sent HTTP or TLS to a port of another
    /// protocol.
    pub refused_wrong_protocol: u64,
    /// Sum of the times for which I/O threads held the broker's lock, in nanoseconds.
    pub turns_ns: u64,
    /// Processor time used so far, in microseconds.
    pub processor_us: u64,
    /// Memory in use; 0 if unknown.
    pub resident_bytes: u64,
    /// The number of processors that the process can use.
    pub processors: u64,
    /// What became of the spans of jobs, with the names of the results. Empty: the server exports
    /// none.
    pub spans: Vec<(&'static str, u64)>,
    /// How long the start read the log. `None`: there is no log.
    pub recovery_ms: Option<u64>,
    /// What the node of a cluster knows about itself. `None`: the server is alone.
    pub cluster: Option<ClusterFacts>,
    /// The server is stopping.
    pub is_stopping: bool,
}

/// Some queues, as turns of the broker read them. A turn holds the lock, so it makes no labels.
#[derive(Debug, Default)]
pub(crate) struct QueueRows {
    /// The queues with labels.
    rows: Vec<QueueRow>,
    /// The jobs of the queues without labels.
    other: QueueStats,
}

#[derive(Debug)]
struct QueueRow {
    name: Name,
    stats: QueueStats,
    /// How long the first jobs of keys have waited in a fair queue, longest first.
    key_heads_ms: Vec<u64>,
}

impl QueueRows {
    pub(crate) fn add(&mut self, turn: &Turn<'_>, queue: QueueId) {
        let (name, stats) = (turn.queue_name(queue), turn.queue_stats_of(queue));
        if has_label(name) {
            let (name, key_heads_ms) = (name.into(), turn.oldest_key_heads_ms(name));
            self.rows.push(QueueRow { name, stats, key_heads_ms });
        } else {
            let other = &mut self.other;
            other.ready += stats.ready;
            other.delayed += stats.delayed;
            other.leased += stats.leased;
            other.buried += stats.buried;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Counts all jobs that are not in these rows as jobs of `other`. The turn that read the totals
    /// can be a later one than those that read the rows.
    pub(crate) fn count_others(&mut self, totals: &Totals) {
        let shown = |number: fn(&QueueStats) -> u64| -> u64 {
            self.rows.iter().map(|row| number(&row.stats)).sum()
        };
        // The rows can be older than the totals. So a sum of them can exceed its total.
        let rest = |total: u64, number| total.saturating_sub(shown(number));
        self.other = QueueStats {
            ready: rest(totals.ready, |queue| queue.ready),
            delayed: rest(totals.delayed, |queue| queue.delayed),
            leased: rest(totals.leased, |queue| queue.leased),
            buried: rest(totals.buried, |queue| queue.buried),
            ..QueueStats::default()
        };
    }
}

/// The numbers that turns of the broker read.
#[derive(Debug)]
pub(crate) struct Gathered {
    totals: Totals,
    times: JobTimes,
    log: LogStats,
    draining: bool,
    status: Status,
    /// Queues by label.
    queues: BTreeMap<String, QueueStats>,
    /// How long the first jobs of keys have waited in fair queues, longest first, by label.
    key_heads_ms: BTreeMap<String, Vec<u64>>,
    /// The jobs of all other queues.
    other: QueueStats,
    /// What entries with schedules have done, by name.
    crons: Vec<(Name, CronCounts)>,
}

impl Gathered {
    /// Reads what is not about a single queue.
    pub(crate) fn of(turn: &Turn<'_>) -> Gathered {
        Gathered {
            totals: turn.totals(),
            times: turn.job_times(),
            log: turn.log_stats(),
            draining: turn.draining(),
            status: turn.status(),
            queues: BTreeMap::new(),
            key_heads_ms: BTreeMap::new(),
            other: QueueStats::default(),
            crons: turn.crons().map(|it| (it.entry.name.clone(), it.counts)).collect(),
        }
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Makes the labels of these queues. Call this without a turn.
    pub(crate) fn with(mut self, queues: QueueRows) -> Gathered {
        self.other = queues.other;
        for QueueRow { name, stats, key_heads_ms } in queues.rows {
            let label = escaped_name(&name);
            if !key_heads_ms.is_empty() {
                self.key_heads_ms.insert(label.clone(), key_heads_ms);
            }
            self.queues.insert(label, stats);
        }
        self
    }
}

/// Whether a queue has a label of its own. Otherwise it counts as `other`. Different names have
/// different labels: see [`escaped_name`].
fn has_label(name: &[u8]) -> bool {
    name.len() <= LABEL_NAME_BYTES_MAX && name != OTHER.as_bytes()
}

/// The name of a queue as text. Different names have different texts. A byte that is not UTF-8
/// becomes `\x` and its hexadecimal value. A backslash is doubled.
pub fn escaped_name(name: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '\\' {
                text.push('\\');
            }
            text.push(letter);
        }
        // Names can have thousands of such bytes, and a page many names. So this calls no formatter.
        for byte in chunk.invalid() {
            text.push_str("\\x");
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 0xf)]));
        }
    }
    text
}

/// Facts about the server that do not change.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) version: &'a str,
    /// When the server started, by the wall clock.
    pub(crate) started_at: Millis,
}

/// Facts from the broker that can be read without a turn, and whether the server is ready.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) is_ready: bool,
    pub(crate) is_full: bool,
    pub(crate) memory: Memory,
    pub(crate) disk: Option<DiskRoom>,
    pub(crate) jobs_max: Option<u64>,
    pub(crate) queues: QueueUsage,
    pub(crate) refusals: [(PutRefusal, u64); PutRefusal::ALL.len()],
    pub(crate) commits: CommitSizes,
}

impl Health {
    pub(crate) fn of(broker: &Broker, is_ready: bool) -> Health {
        Health {
            is_ready,
            is_full: broker.is_full(),
            memory: broker.memory_usage(),
            disk: broker.disk_room(),
            jobs_max: broker.job_count_limit(),
            queues: broker.queue_usage(),
            refusals: broker.put_refusals(),
            commits: broker.commit_sizes(),
        }
    }
}

/// The times of a protocol's requests, in microseconds: the name of the protocol, and the times.
pub type RequestTimes = (&'static str, Values);

/// The times of the jobs that have left a queue with a history, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct QueueTimes {
    /// The queue. `None`: all queues that have no times of their own.
    pub queue: Option<Box<[u8]>>,
    /// How long they were ready.
    pub waits_ms: Values,
    /// How long clients had them.
    pub runs_ms: Values,
    /// How long they existed.
    pub totals_ms: Values,
}

/// The whole metrics page.
pub(crate) fn render(
    gathered: &Gathered,
    identity: Identity<'_>,
    health: &Health,
    process: ProcessFacts,
    requests: &[RequestTimes],
    queues: &[QueueTimes],
) -> String {
    let mut page = Exposition::default();
    render_server(&mut page, identity, health, gathered);
    render_queues(&mut page, gathered);
    render_crons(&mut page, &gathered.crons);
    render_totals(&mut page, &gathered.totals);
    render_times(&mut page, &gathered.times, requests);
    render_queue_times(&mut page, queues);
    render_log(&mut page, &gathered.log);
    render_commits(&mut page, &health.commits);
    render_process(&mut page, identity, process);
    page.into_text()
}

fn render_server(
    page: &mut Exposition,
    identity: Identity<'_>,
    health: &Health,
    gathered: &Gathered,
) {
    page.metric("lineshaft_build_info", Gauge, "Version of the server; always 1.")
        .sample(&[("version", identity.version)], 1);
    let flag = |page: &mut Exposition, name, help, is: bool| {
        page.number(name, Gauge, help, u8::from(is));
    };
    let help = "Whether /health/ready answers 200.";
    flag(page, "lineshaft_ready", help, health.is_ready);
    let help = "Whether new jobs are refused because the server drains.";
    flag(page, "lineshaft_draining", help, gathered.draining);
    let help = "Whether new jobs are refused because the disk is full or has less free room than disk.critical, or the log \
                has reached its limit.";
    flag(page, "lineshaft_log_full", help, health.is_full);
    if let Some(room) = health.disk {
        let help = "Whether the disk of the data folder has less free room than disk.low.";
        flag(page, "lineshaft_disk_low", help, room.is_low);
        let help =
            "Whether new jobs are refused because the disk has less free room than disk.critical.";
        flag(page, "lineshaft_disk_critical", help, room.is_critical);
        let help = "Free bytes of the disk of the data folder.";
        page.number("lineshaft_disk_free_bytes", Gauge, help, room.free_bytes);
        let help = "Size of the disk of the data folder.";
        page.number("lineshaft_disk_size_bytes", Gauge, help, room.size_bytes);
    }
    let memory = health.memory;
    let help = "Whether new jobs are refused because memory is at its limit.";
    flag(page, "lineshaft_memory_full", help, memory.is_full());
    let help = "Bytes of memory that jobs, queues and connections use.";
    page.number("lineshaft_memory_used_bytes", Gauge, help, memory.used_bytes);
    if let Some(limit_bytes) = memory.limit_bytes {
        let help = "Limit of that memory, above which new jobs are refused.";
        page.number("lineshaft_memory_limit_bytes", Gauge, help, limit_bytes);
    }
    if let Some(most) = health.jobs_max {
        let help = "Limit of jobs, above which new jobs are refused.";
        page.number("lineshaft_jobs_limit", Gauge, help, most);
    }
    if let Some(most) = health.queues.most {
        let help = "Limit of queues, above which clients can create no more.";
        page.number("lineshaft_queues_limit", Gauge, help, most as u64);
    }
    let help = "Requests refused at the limit of queues or memory because they would have created a queue, since the start.";
    page.number("lineshaft_queues_refused_total", Counter, help, health.queues.refused);
    let help = "Jobs refused because memory was at its limit, since the start.";
    page.number("lineshaft_memory_refusals_total", Counter, help, memory.refused);
    let help = "Jobs refused, by reason.";
    page.metric("lineshaft_put_refusals_total", Counter, help);
    for (refusal, count) in health.refusals {
        page.sample(&[("reason", refusal_name(refusal))], count);
    }
    page.metric("lineshaft_status", Gauge, "1 for the current status, 0 for the others.");
    let statuses = [
        ("up", Status::Up),
        ("write_avoid", Status::WriteAvoid),
        ("read_only", Status::ReadOnly),
        ("quiescent", Status::Quiescent),
    ];
    for (name, status) in statuses {
        page.sample(&[("status", name)], u8::from(status == gathered.status));
    }
}

fn render_crons(page: &mut Exposition, crons: &[(Name, CronCounts)]) {
    if crons.is_empty() {
        return;
    }
    let crons: Vec<(String, &CronCounts)> =
        crons.iter().map(|(name, counts)| (escaped_name(name), counts)).collect();
    page.metric("lineshaft_cron_fired_total", Counter, "Jobs that [[cron]] entries have put.");
    for (name, counts) in &crons {
        page.sample(&[("name", name)], counts.fired);
    }
    let help = "Instants at which [[cron]] entries have put no job, by reason.";
    page.metric("lineshaft_cron_skipped_total", Counter, help);
    for (name, counts) in &crons {
        let reasons =
            [("overlap", counts.overlaps), ("missed", counts.missed), ("refused", counts.refused)];
        for (reason, count) in reasons {
            page.sample(&[("name", name), ("reason", reason)], count);
        }
    }
}

fn render_queues(page: &mut Exposition, gathered: &Gathered) {
    let help = "Jobs by queue and state; the queue `other` sums up all queues that are not shown.";
    page.metric("lineshaft_jobs", Gauge, help);
    let shown = gathered.queues.iter().map(|(label, stats)| (label.as_str(), stats));
    for (queue, stats) in shown.clone().chain([(OTHER, &gathered.other)]) {
        let states = [
            ("ready", stats.ready),
            ("reserved", stats.leased),
            ("delayed", stats.delayed),
            ("buried", stats.buried),
        ];
        for (state, count) in states {
            page.sample(&[("queue", queue), ("state", state)], count);
        }
    }
    let help = "Time since the next ready job of a queue was put; 0 if there is none.";
    page.metric("lineshaft_queue_head_age_seconds", Gauge, help);
    for (queue, stats) in shown.clone() {
        page.sample(&[("queue", queue)], seconds(stats.head_age_ms));
    }
    if !gathered.key_heads_ms.is_empty() {
        let help = "Time since the next job of a key became ready, in queues with the policy `fair`; rank 1 has waited longest.";
        page.metric("lineshaft_key_head_age_seconds", Gauge, help);
        for (queue, heads) in &gathered.key_heads_ms {
            for (rank, age_ms) in (1..).zip(heads) {
                let rank: u32 = rank;
                let labels = [("queue", queue.as_str()), ("rank", &rank.to_string())];
                page.sample(&labels, seconds(*age_ms));
            }
        }
    }
    page.metric("lineshaft_queue_waiters", Gauge, "Clients that wait for a job of a queue.");
    for (queue, stats) in shown.clone() {
        page.sample(&[("queue", queue)], stats.waiters);
    }
    page.metric("lineshaft_queue_puts_total", Counter, "Jobs put into a queue.");
    for (queue, stats) in shown.clone() {
        page.sample(&[("queue", queue)], stats.puts);
    }
    let help = "Jobs of a queue that clients or workers ended.";
    page.metric("lineshaft_queue_finishes_total", Counter, help);
    for (queue, stats) in shown {
        page.sample(&[("queue", queue)], stats.finishes);
    }
}

fn render_totals(page: &mut Exposition, totals: &Totals) {
    page.number("lineshaft_queues", Gauge, "Queues that exist.", totals.queues);
    let help = "Clients that wait for a job.";
    page.number("lineshaft_waiting_clients", Gauge, help, totals.waiting_sessions);
    let counters = [
        ("lineshaft_puts_total", "Jobs put.", totals.puts),
        ("lineshaft_reserves_total", "Times that a job was handed out.", totals.takes),
        ("lineshaft_deletes_total", "Jobs that ended, for any reason.", totals.ends),
        ("lineshaft_releases_total", "Times that a client gave a job back.", totals.releases),
        ("lineshaft_buries_total", "Times that a client buried a job.", totals.buries),
        ("lineshaft_timeouts_total", "Times that a job's time to run ended.", totals.timeouts),
        (
            "lineshaft_duplicate_puts_total",
            "Puts that were answered with a job that has the same key.",
            totals.duplicates,
        ),
        (
            "lineshaft_keyless_jobs_total",
            "Jobs without a key in queues whose policy asks for one.",
            totals.keyless,
        ),
    ];
    for (name, help, value) in counters {
        page.number(name, Counter, help, value);
    }
}

/// Times of jobs, from 1 ms to 18 hours.
const JOB_BUCKETS: Buckets = Buckets { exponents: (0, 26), units: 1e3 };
/// Times of requests and syncs, from 32 µs to 33 s.
pub(crate) const IO_BUCKETS: Buckets = Buckets { exponents: (5, 25), units: 1e6 };
/// Entries of a group, from 1 to 16,384.
const GROUP_BUCKETS: Buckets = Buckets { exponents: (0, 14), units: 1.0 };

fn render_times(page: &mut Exposition, times: &JobTimes, requests: &[RequestTimes]) {
    let help = "Time from when a job became ready until a client got it.";
    page.metric("lineshaft_wait_seconds", Histogram, help);
    page.histogram(&[], &times.waits_ms, JOB_BUCKETS);
    let help = "Time from when a client got a job until its lease ended, for any reason.";
    page.metric("lineshaft_lease_seconds", Histogram, help);
    page.histogram(&[], &times.leases_ms, JOB_BUCKETS);
    let help = "Time from when the server executes a request until its reply is sent.";
    page.metric("lineshaft_request_seconds", Histogram, help);
    for (protocol, values) in requests {
        page.histogram(&[("protocol", protocol)], values, IO_BUCKETS);
    }
}

/// Chooses values of a queue.
type ValuesOf = fn(&QueueTimes) -> &Values;

fn render_queue_times(page: &mut Exposition, queues: &[QueueTimes]) {
    if queues.is_empty() {
        return;
    }
    let label_of = |times: &QueueTimes| {
        let name = times.queue.as_deref().filter(|name| has_label(name));
        name.map_or_else(|| OTHER.to_owned(), escaped_name)
    };
    let metrics: [(&str, &str, ValuesOf); 3] = [
        (
            "lineshaft_queue_wait_seconds",
            "Time for which a job that has left a queue with a history was ready.",
            |times| &times.waits_ms,
        ),
        (
            "lineshaft_queue_run_seconds",
            "Time for which clients had a job that has left a queue with a history.",
            |times| &times.runs_ms,
        ),
        (
            "lineshaft_queue_total_seconds",
            "Time from the put of a job until it left a queue with a history.",
            |times| &times.totals_ms,
        ),
    ];
    for (name, help, values) in metrics {
        page.metric(name, Histogram, help);
        // Queues whose names are too long for a label count as `other`, too.
        let mut all: BTreeMap<String, Values> = BTreeMap::new();
        for times in queues {
            all.entry(label_of(times)).or_default().merge(values(times));
        }
        for (queue, values) in &all {
            page.histogram(&[("queue", queue)], values, JOB_BUCKETS);
        }
    }
}

fn render_commits(page: &mut Exposition, commits: &CommitSizes) {
    let help = "Time of the syncs of the log on which replies wait.";
    page.metric("lineshaft_log_sync_seconds", Histogram, help);
    page.histogram(&[], &commits.syncs_us, IO_BUCKETS);
    let help = "Entries that were written together.";
    page.metric("lineshaft_log_group_entries", Histogram, help);
    page.histogram(&[], &commits.group_entries, GROUP_BUCKETS);
}

fn refusal_name(refusal: PutRefusal) -> &'static str {
    match refusal {
        PutRefusal::QueueFull => "queue_full",
        PutRefusal::TooBig => "too_big",
        PutRefusal::Duplicate => "duplicate",
        PutRefusal::LogFull => "log_full",
        PutRefusal::MemoryFull => "memory_full",
        PutRefusal::JobsFull => "job_limit",
        PutRefusal::NoNewQueue => "queue_limit",
        PutRefusal::WritesBlocked => "status",
        PutRefusal::Draining => "draining",
    }
}

fn render_log(page: &mut Exposition, log: &LogStats) {
    let segments = match log.current_segment {
        0 => 0,
        current => u64::from(current) + 1 - u64::from(log.oldest_segment),
    };
    let gauges = [
        ("lineshaft_log_bytes", "Bytes of the files that hold the log.", log.data_bytes),
        ("lineshaft_log_live_bytes", "Bytes in the log that are still needed.", log.live_bytes),
        ("lineshaft_log_prepared_bytes", "Bytes of files kept for later.", log.ahead_bytes),
        ("lineshaft_log_segments", "Files that hold the log.", segments),
    ];
    for (name, help, value) in gauges {
        page.number(name, Gauge, help, value);
    }
    let help = "Memory of job bodies that the log has, too.";
    page.number("lineshaft_resident_body_bytes", Gauge, help, log.resident_body_bytes);
    let help = "Jobs whose body is only in the log.";
    page.number("lineshaft_stored_bodies", Gauge, help, log.stored_jobs);
    let help = "Ready jobs that are only in the log.";
    page.number("lineshaft_cold_jobs", Gauge, help, log.cold_jobs);
    let help = "Jobs that are only in the log and cannot be read now.";
    page.number("lineshaft_unreadable_jobs", Gauge, help, log.unreadable_jobs);
    let help = "Job bodies that could not be read from the log.";
    page.number("lineshaft_body_errors_total", Counter, help, log.body_errors);
    let help = "Entries written to the log, copies included.";
    page.number("lineshaft_log_records_total", Counter, help, log.records_written);
    let help = "Entries that were copied to free a file.";
    page.number("lineshaft_log_copied_records_total", Counter, help, log.records_copied);
    let help = "Bytes written to the log, copies and index files included.";
    page.number("lineshaft_log_written_bytes_total", Counter, help, log.bytes_written);
    let help = "Bytes written to the log for the changes of clients.";
    page.number("lineshaft_log_client_bytes_total", Counter, help, log.bytes_of_clients);
}

fn render_process(page: &mut Exposition, identity: Identity<'_>, process: ProcessFacts) {
    let help = "Open connections, without those for HTTP.";
    page.number("lineshaft_connections", Gauge, help, process.connections);
    let help = "Limit of open connections.";
    page.number("lineshaft_connections_max", Gauge, help, process.connections_max);
    let help = "Connections closed at once: too many from one address, or HTTP or TLS on a port that does not speak it.";
    page.metric("lineshaft_connections_refused_total", Counter, help);
    page.sample(&[("reason", "address")], process.refused_per_address);
    page.sample(&[("reason", "foreign")], process.refused_wrong_protocol);
    if let Some(recovery_ms) = process.recovery_ms {
        let help = "How long the start read the log.";
        page.number("lineshaft_recovery_seconds", Gauge, help, recovery_ms as f64 / 1e3);
    }
    if !process.spans.is_empty() {
        let help = "Spans of jobs: sent to the collector, or dropped for this reason.";
        page.metric("lineshaft_spans_total", Counter, help);
        for (result, count) in process.spans {
            page.sample(&[("result", result)], count);
        }
    }
    if let Some(facts) = &process.cluster {
        cluster::render(page, facts);
    }
    let help = "When the server started, in seconds of Unix time.";
    page.number("process_start_time_seconds", Gauge, help, seconds(identity.started_at.0));
    let help = "Time in which a thread worked on the queues while others had to wait.";
    page.number("lineshaft_turn_seconds_total", Counter, help, process.turns_ns as f64 / 1e9);
    let processor = process.processor_us as f64 / 1e6;
    page.number("process_cpu_seconds_total", Counter, "Processor time used.", processor);
    let help = "Memory in use.";
    page.number("process_resident_memory_bytes", Gauge, help, process.resident_bytes);
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use broker::{Body, Broker, NewJob};

    use super::*;

    fn put(turn: &mut Turn<'_>, queue: &[u8]) {
        let session = turn.open_session(0);
        turn.caller(session).use_queue(queue);
        let job = NewJob { priority: 0, delay_s: 0, ttr_s: 1 };
        turn.caller(session).put(job, Body::from(&b"x"[..])).value.unwrap();
        turn.close_session(session);
    }

    #[test]
    fn different_names_have_different_labels() {
        assert_eq!(escaped_name("naïve".as_bytes()), "naïve");
        assert_eq!(escaped_name(b"a\xffb\x80\0"), "a\\xffb\\x80\0");
        assert_eq!(escaped_name(b"a\\xffb"), "a\\\\xffb");
        assert!(has_label(&[b'n'; LABEL_NAME_BYTES_MAX]));
        assert!(!has_label(&[b'n'; LABEL_NAME_BYTES_MAX + 1]));
        assert!(!has_label(b"other"));
    }

    #[test]
    fn queues_beyond_the_limit_are_summed_up_and_no_job_is_missing() {
        let broker = Broker::memory(broker::EngineSetup::default(), Millis(1));
        let mut turn = broker.turn(Millis(1));
        for queue in ["default", "a", "b", "c", "other"] {
            put(&mut turn, queue.as_bytes());
        }
        let gathered = |count| {
            let mut queues = QueueRows::default();
            for name in turn.queue_names().take(count) {
                queues.add(&turn, turn.queue_id(name).unwrap());
            }
            (Gathered::of(&turn), queues)
        };
        let (some, mut queues) = gathered(2);
        queues.count_others(some.totals());
        let some = some.with(queues);
        let labels: Vec<&str> = some.queues.keys().map(String::as_str).collect();
        assert_eq!(labels, ["a", "default"]);
        assert_eq!(some.other.ready, 3);
        let (all, queues) = gathered(5);
        let all = all.with(queues);
        assert_eq!((all.queues.len(), all.other.ready), (4, 1));
    }
}

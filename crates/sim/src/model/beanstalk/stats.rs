//! The texts of the model's statistics (spec beanstalkd 5.1). `*` stands for a number that the
//! model cannot compute, such as the position of a job in the log.

use std::fmt::Write;

use super::super::{Model, NEVER, Name, State};
use super::wire;
use crate::protocol::Protocol;

/// A name in YAML. In the simulation, only names with other characters than ASCII need quotes.
fn scalar(name: &str) -> String {
    if name.is_ascii() { name.to_owned() } else { format!("\"{name}\"") }
}

impl Model {
    pub(in crate::model) fn stats_job_text(&self, id: u64) -> String {
        let job = &self.jobs[&id];
        let (state, until) = match job.state {
            State::Ready => ("ready", None),
            State::Delayed { due } => ("delayed", Some(due)),
            State::Leased(lease) => {
                ("reserved", Some(lease.deadline).filter(|deadline| *deadline != NEVER))
            }
            State::Buried { .. } => ("buried", None),
        };
        let file = if self.setting.in_memory { "0" } else { "*" };
        let counts = job.counts;
        format!(
            "---\nid: {id}\ntube: {}\nstate: {state}\npri: {}\nage: {}\ndelay: {}\nttr: {}\n\
             time-left: {}\nfile: {file}\nreserves: {}\ntimeouts: {}\nreleases: {}\nburies: {}\n\
             kicks: {}\n",
            scalar(&job.queue),
            job.pri,
            self.now.saturating_sub(job.created) / 1000,
            job.delay,
            job.ttr,
            until.map_or(0, |until| self.seconds_until(until)),
            counts.reserves,
            counts.timeouts,
            counts.releases,
            counts.buries,
            counts.kicks,
        )
    }

    /// Seconds until this moment, truncated. In beanstalkd, some time always passes between the
    /// start of a delay or a lease and the request for statistics. So a reply never shows the full
    /// length of the delay. In the simulation, sometimes no time passes, so this function subtracts
    /// a millisecond.
    fn seconds_until(&self, until: u64) -> u64 {
        until.saturating_sub(self.now).saturating_sub(1) / 1000
    }

    /// The statistics of a queue, which the client calls by the name `shown`.
    pub(in crate::model) fn stats_tube_text(&self, name: &str, shown: &str) -> String {
        let queue = &self.queues[name];
        let [urgent, ready, delayed, reserved, buried] = self.counts_of(Some(name));
        let conns = || self.conns.values();
        let using = conns().filter(|conn| &*conn.used == name).count();
        let watches = |watched: &[Name]| watched.iter().any(|queue| &**queue == name);
        let watching = conns().filter(|conn| watches(&conn.watched)).count();
        let waiting = conns().filter(|conn| conn.waits_for(&name.into())).count();
        let pause = queue.pause.filter(|pause| pause.until > self.now);
        format!(
            "---\nname: {shown}\ncurrent-jobs-urgent: {urgent}\ncurrent-jobs-ready: {ready}\n\
             current-jobs-reserved: {reserved}\ncurrent-jobs-delayed: {delayed}\n\
             current-jobs-buried: {buried}\ntotal-jobs: {}\ncurrent-using: {using}\n\
             current-watching: {watching}\ncurrent-waiting: {waiting}\ncmd-delete: {}\n\
             cmd-pause-tube: {}\npause: {}\npause-time-left: {}\n",
            queue.puts,
            queue.deletes,
            queue.pauses,
            pause.map_or(0, |pause| pause.seconds),
            pause.map_or(0, |pause| self.seconds_until(pause.until)),
        )
    }

    /// The number of urgent, ready, delayed, reserved and buried jobs of a queue, or of all queues.
    fn counts_of(&self, queue: Option<&str>) -> [u64; 5] {
        let mut counts = [0; 5];
        for job in self.jobs.values().filter(|job| queue.is_none_or(|queue| *job.queue == *queue)) {
            match job.state {
                State::Ready => {
                    counts[0] += u64::from(job.pri < 1024);
                    counts[1] += 1;
                }
                State::Delayed { .. } => counts[2] += 1,
                State::Leased(_) => counts[3] += 1,
                State::Buried { .. } => counts[4] += 1,
            }
        }
        counts
    }

    pub(in crate::model) fn stats_text(&self) -> String {
        let [urgent, ready, delayed, reserved, buried] = self.counts_of(None);
        let mut text = format!(
            "---\ncurrent-jobs-urgent: {urgent}\ncurrent-jobs-ready: {ready}\n\
             current-jobs-reserved: {reserved}\ncurrent-jobs-delayed: {delayed}\n\
             current-jobs-buried: {buried}\n"
        );
        for command in [
            "put",
            "peek",
            "peek-ready",
            "peek-delayed",
            "peek-buried",
            "reserve",
            "reserve-with-timeout",
            "delete",
            "release",
            "use",
            "watch",
            "ignore",
            "bury",
            "kick",
            "touch",
            "stats",
            "stats-job",
            "stats-tube",
            "list-tubes",
            "list-tube-used",
            "list-tubes-watched",
            "pause-tube",
        ] {
            let count = self.counters.get(command).copied().unwrap_or(0);
            writeln!(text, "cmd-{command}: {count}").expect("strings take all");
        }
        let all = || self.conns.values();
        let conns = || all().filter(|conn| conn.protocol == Protocol::Beanstalk);
        for (key, value) in [
            ("job-timeouts", self.timeouts),
            ("total-jobs", self.puts),
            ("max-job-size", u64::from(self.setting.max_job_size)),
            ("current-tubes", self.queues.len() as u64),
            ("current-connections", conns().count() as u64),
            ("current-producers", conns().filter(|conn| conn.is_producer).count() as u64),
            ("current-workers", conns().filter(|conn| conn.is_worker).count() as u64),
            ("current-waiting", all().filter(|conn| conn.waiting.is_some()).count() as u64),
            ("total-connections", self.counters.get("connections").copied().unwrap_or(0)),
        ] {
            writeln!(text, "{key}: {value}").expect("strings take all");
        }
        let uptime = (self.now - self.setting.started) / 1000;
        text.push_str("pid: 1\nversion: \"sim\"\nrusage-utime: 0.000000\n");
        writeln!(text, "rusage-stime: 0.000000\nuptime: {uptime}").expect("strings take all");
        let unknown = if self.setting.in_memory { "0" } else { "*" };
        for key in
            ["oldest-index", "current-index", "records-migrated", "records-written", "max-size"]
        {
            writeln!(text, "binlog-{key}: {unknown}").expect("strings take all");
        }
        writeln!(text, "draining: {}", self.is_draining).expect("strings take all");
        text.push_str("id: 0000000000000001\n");
        text.push_str("hostname: host\nos: os\nplatform: platform\n");
        text
    }

    pub(in crate::model) fn list_text<'a>(names: impl Iterator<Item = &'a str>) -> String {
        let mut text = String::from("---\n");
        for name in names.filter(|name| wire::is_name(name)) {
            writeln!(text, "- {name}").expect("strings take all");
        }
        text
    }
}

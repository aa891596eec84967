//! The state of the server at one moment, and the rates since the previous moment.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::client::{Stats, Survey};
use crate::commands::stats::paused_seconds;

/// One row of the table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) ready: u64,
    pub(super) delayed: u64,
    pub(super) leased: u64,
    pub(super) buried: u64,
    /// Number of workers that wait for a job.
    pub(super) waiting: u64,
    pub(super) paused_seconds: Option<u64>,
    /// Jobs put per second. `None` in the first snapshot, because a rate needs two.
    pub(super) put_rate: Option<f64>,
    /// Jobs finished per second.
    pub(super) finish_rate: Option<f64>,
}

/// The state of the whole server.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) server: Stats,
    pub(super) queues: Vec<Queue>,
    /// Number of queues that cannot be shown, because their names are invalid in the beanstalkd
    /// protocol.
    pub(super) unnamed_count: u64,
    /// When the server's reply arrived.
    pub(super) taken: Option<Instant>,
}

/// Counters of one queue. They only grow while the queue exists.
#[derive(Debug, Clone, Copy)]
struct Counters {
    put: u64,
    finished: u64,
}

/// The counters of the previous snapshot.
#[derive(Debug, Default)]
pub(super) struct Meter {
    before: Option<(Instant, BTreeMap<String, Counters>)>,
}

impl Meter {
    /// Turns the server's reply into a snapshot with rates.
    pub(super) fn measure(&mut self, survey: Survey, now: Instant) -> Snapshot {
        let Survey { server, queues, unnamed_count } = survey;
        let mut counters_now = BTreeMap::new();
        let mut rows = Vec::with_capacity(queues.len());
        for stats in &queues {
            let name = stats.get("name").unwrap_or("?").to_owned();
            let counters =
                Counters { put: stats.number("total-jobs"), finished: stats.number("cmd-delete") };
            let rates = self.rates(&name, counters, now);
            rows.push(Queue {
                name: name.clone(),
                ready: stats.number("current-jobs-ready"),
                delayed: stats.number("current-jobs-delayed"),
                leased: stats.number("current-jobs-reserved"),
                buried: stats.number("current-jobs-buried"),
                waiting: stats.number("current-waiting"),
                paused_seconds: paused_seconds(stats),
                put_rate: rates.map(|(put, _)| put),
                finish_rate: rates.map(|(_, finished)| finished),
            });
            counters_now.insert(name, counters);
        }
        self.before = Some((now, counters_now));
        Snapshot { server, queues: rows, unnamed_count, taken: Some(now) }
    }

    /// Puts and finishes per second since the previous snapshot. `None` in the first snapshot.
    fn rates(&self, name: &str, counters: Counters, now: Instant) -> Option<(f64, f64)> {
        let (then, all_before) = self.before.as_ref()?;
        let seconds = now.duration_since(*then).as_secs_f64();
        // The counters of a new queue begin at 0. If counters became smaller, they also began at 0
        // again, because the queue vanished and came back, or the server restarted.
        let nothing = Counters { put: 0, finished: 0 };
        let before = all_before
            .get(name)
            .filter(|before| before.put <= counters.put && before.finished <= counters.finished)
            .unwrap_or(&nothing);
        (seconds > 0.0).then(|| {
            let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
            (rate(counters.put, before.put), rate(counters.finished, before.finished))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn look(meter: &mut Meter, now: Instant, put: u64, finished: u64) -> Queue {
        let text = format!("---\nname: mail\ntotal-jobs: {put}\ncmd-delete: {finished}\n");
        let queue = Stats::parse(text.as_bytes());
        let survey = Survey { server: Stats::default(), queues: vec![queue], unnamed_count: 0 };
        meter.measure(survey, now).queues.remove(0)
    }

    #[test]
    fn rates_come_from_two_looks() {
        let mut meter = Meter::default();
        let start = Instant::now();
        assert_eq!(look(&mut meter, start, 100, 50).put_rate, None);
        let later = look(&mut meter, start + Duration::from_secs(2), 120, 52);
        assert_eq!((later.put_rate, later.finish_rate), (Some(10.0), Some(1.0)));
        let restarted = look(&mut meter, start + Duration::from_secs(3), 5, 1);
        assert_eq!((restarted.put_rate, restarted.finish_rate), (Some(5.0), Some(1.0)));
    }
}

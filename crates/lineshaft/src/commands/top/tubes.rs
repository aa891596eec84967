//! The queues of a server without the HTTP API, such as beanstalkd, over the beanstalkd protocol. The
//! protocol has no sorted lists and no pages, so each look reads the numbers of all queues.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::types::{QueueRow, Queues};

use super::ask::{Head, ListOfQueues, SortKey};
use crate::client::{CONNECT_TIMEOUT, Client, ClientError, Stats, Survey, Target};
use crate::commands::stats::paused_seconds;

/// Numbers that are younger than this serve the next page, too.
const FRESH: Duration = Duration::from_millis(900);

/// A server of the beanstalkd protocol.
#[derive(Debug)]
pub(super) struct Tubes {
    target: Target,
    client: Option<Client>,
    meter: Meter,
    last: Option<(Instant, Head, Vec<QueueRow>)>,
}

impl Tubes {
    /// Connects to the server.
    pub(super) fn connect(target: Target) -> Result<Tubes, ClientError> {
        let client = Some(Client::connect_within(&target, CONNECT_TIMEOUT)?);
        Ok(Tubes { target, client, meter: Meter::default(), last: None })
    }

    /// The server, and a page of its queues.
    pub(super) fn page(&mut self, list: &ListOfQueues) -> Result<(Head, Queues), ClientError> {
        if self.last.as_ref().is_none_or(|(at, ..)| at.elapsed() >= FRESH) {
            // After an error, the next look connects again.
            let mut client = match self.client.take() {
                Some(client) => client,
                None => Client::connect_within(&self.target, CONNECT_TIMEOUT)?,
            };
            let survey = client.survey()?;
            self.client = Some(client);
            let now = Instant::now();
            let (head, rows) = self.meter.measure(survey, now);
            self.last = Some((now, head, rows));
        }
        let (_, head, rows) = self.last.as_ref().expect("it was set above");
        Ok((head.clone(), page(rows, list)))
    }
}

fn page(rows: &[QueueRow], list: &ListOfQueues) -> Queues {
    let mut found: Vec<&QueueRow> =
        rows.iter().filter(|row| row.name.contains(&list.search)).collect();
    found.sort_by(|left, right| {
        let order = compare(list.order.key, left, right).then_with(|| left.name.cmp(&right.name));
        if list.order.is_descending { order.reverse() } else { order }
    });
    let begin = list.from.as_ref().and_then(|from| from.parse().ok()).unwrap_or(0_usize);
    let end = begin.saturating_add(list.limit);
    Queues {
        items: found.iter().skip(begin).take(list.limit).map(|row| (*row).clone()).collect(),
        next: (end < found.len()).then(|| end.to_string()),
        matched: found.len() as u64,
        total: rows.len() as u64,
        as_of_at: String::new(),
    }
}

fn compare(key: SortKey, left: &QueueRow, right: &QueueRow) -> Ordering {
    let by_rate = |number: fn(&QueueRow) -> Option<f64>| {
        number(left).unwrap_or(0.0).total_cmp(&number(right).unwrap_or(0.0))
    };
    match key {
        SortKey::Name => Ordering::Equal,
        SortKey::Ready => left.ready.cmp(&right.ready),
        SortKey::Leased => left.leased.cmp(&right.leased),
        SortKey::Delayed => left.delayed.cmp(&right.delayed),
        SortKey::Buried => left.buried.cmp(&right.buried),
        SortKey::Age => left.head_age_ms.cmp(&right.head_age_ms),
        SortKey::In => by_rate(|row| row.puts_per_s),
        SortKey::Out => by_rate(|row| row.finishes_per_s),
        SortKey::Growth => by_rate(|row| row.growth_per_s),
        SortKey::Waiters => left.waiters.cmp(&right.waiters),
    }
}

/// Counters of one queue. They only grow while the queue exists.
#[derive(Debug, Clone, Copy)]
struct Counters {
    put: u64,
    finished: u64,
}

/// The counters of the look before.
#[derive(Debug, Default)]
struct Meter {
    before: Option<(Instant, BTreeMap<String, Counters>)>,
}

impl Meter {
    /// Turns the server's reply into rows with rates.
    fn measure(&mut self, survey: Survey, now: Instant) -> (Head, Vec<QueueRow>) {
        let Survey { server, queues, unnamed_count } = survey;
        let mut counters_now = BTreeMap::new();
        let mut rows = Vec::with_capacity(queues.len());
        for stats in &queues {
            let name = stats.get("name").unwrap_or("?").to_owned();
            let counters =
                Counters { put: stats.number("total-jobs"), finished: stats.number("cmd-delete") };
            let rates = self.rates(&name, counters, now);
            rows.push(QueueRow { puts_per_s: rates.0, finishes_per_s: rates.1, ..row(stats) });
            counters_now.insert(name, counters);
        }
        self.before = Some((now, counters_now));
        let head = Head::Tubes {
            version: server.get("version").unwrap_or("?").to_owned(),
            uptime_s: server.number("uptime"),
            connections: server.number("current-connections"),
            is_draining: server.get("draining") == Some("true"),
            unnamed_count,
        };
        (head, rows)
    }

    /// Puts and finishes per second since the look before. Unknown at the first look, because a rate
    /// needs two.
    fn rates(&self, name: &str, counters: Counters, now: Instant) -> (Option<f64>, Option<f64>) {
        let Some((then, all_before)) = &self.before else { return (None, None) };
        let seconds = now.duration_since(*then).as_secs_f64().max(1e-3);
        // The counters of a new queue begin at 0. If counters became smaller, they also began at 0
        // again, because the queue vanished and came back, or the server restarted.
        let nothing = Counters { put: 0, finished: 0 };
        let before = all_before
            .get(name)
            .filter(|before| before.put <= counters.put && before.finished <= counters.finished)
            .unwrap_or(&nothing);
        let rate = |now: u64, before: u64| Some((now - before) as f64 / seconds);
        (rate(counters.put, before.put), rate(counters.finished, before.finished))
    }
}

fn row(stats: &Stats) -> QueueRow {
    QueueRow {
        name: stats.get("name").unwrap_or("?").to_owned(),
        ready: stats.number("current-jobs-ready"),
        leased: stats.number("current-jobs-reserved"),
        delayed: stats.number("current-jobs-delayed"),
        buried: stats.number("current-jobs-buried"),
        waiters: stats.number("current-waiting"),
        watchers: stats.number("current-watching"),
        pause_left_ms: paused_seconds(stats).unwrap_or(0).saturating_mul(1_000),
        ..QueueRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::Order;
    use super::*;

    fn look(meter: &mut Meter, now: Instant, put: u64, finished: u64) -> QueueRow {
        let text = format!("---\nname: mail\ntotal-jobs: {put}\ncmd-delete: {finished}\n");
        let queue = Stats::parse(text.as_bytes());
        let survey = Survey { server: Stats::default(), queues: vec![queue], unnamed_count: 0 };
        meter.measure(survey, now).1.remove(0)
    }

    #[test]
    fn rates_come_from_two_looks() {
        let mut meter = Meter::default();
        let start = Instant::now();
        assert_eq!(look(&mut meter, start, 100, 50).puts_per_s, None);
        let later = look(&mut meter, start + Duration::from_secs(2), 120, 52);
        assert_eq!((later.puts_per_s, later.finishes_per_s), (Some(10.0), Some(1.0)));
        let restarted = look(&mut meter, start + Duration::from_secs(3), 5, 1);
        assert_eq!((restarted.puts_per_s, restarted.finishes_per_s), (Some(5.0), Some(1.0)));
    }

    #[test]
    fn pages_are_sorted_and_filtered() {
        let queue =
            |name: &str, ready| QueueRow { name: name.to_owned(), ready, ..QueueRow::default() };
        let rows = [queue("ab", 1), queue("b", 3), queue("bc", 1), queue("x", 9)];
        let mut list = ListOfQueues {
            order: Order { key: SortKey::Ready, is_descending: true },
            search: "b".to_owned(),
            from: None,
            limit: 2,
        };
        let names = |page: &Queues| {
            page.items.iter().map(|row| row.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let first = page(&rows, &list);
        assert_eq!((names(&first), first.matched, first.total), ("b bc".to_owned(), 3, 4));
        list.from = first.next;
        let second = page(&rows, &list);
        assert_eq!((names(&second), second.next), ("ab".to_owned(), None));
    }
}

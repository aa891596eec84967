//! The survey: the numbers of all queues at about one moment, for lists that are sorted by number.
//!
//! The engine has no order of queues by number, so a list needs a walk over all queues. The walk
//! takes short turns, in a task of its own, so that a client that disconnects does not stop it.
//! Requests share its result. After a walk, the next one waits [`RESTS`] times as long as the turns
//! took. So the walks use at most 2 % of the broker's time, and requests get older numbers instead.
//!
//! A survey of 100,000 queues takes 30 to 40 MB. So requests that have ended must not keep old
//! ones: see [`Surveys::with_current`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker::{Broker, Millis, QueueCursor, QueueFacts, QueueStats, Turn};
use http_api::{Door, between_turns};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::threads::with_permit;

/// The rest after a walk, as a multiple of the time in turns.
pub(crate) const RESTS: u32 = 50;
/// The shortest rest after a walk.
const REST_MIN: Duration = Duration::from_secs(1);
/// A walk is compared with an earlier walk of at most this age. Older numbers show no rates.
const RATES_AGE_MAX_MS: u64 = 120_000;
/// The steps of a sort: for each row, and for each byte of its name. A sort of 5,000 rows compares
/// each of them about 12 times, and then a step compares up to 16 bytes of two names.
pub(crate) const SORT_STEPS: (usize, usize) = (160, 2);
/// More steps than these are taken in another thread. A sort of 5,000 queues with names of 20 bytes
/// takes so many, which are about two milliseconds.
const STEPS_AT_ONCE: usize = 1_000_000;
/// At most this many requests work with a survey in other threads at once. The site has few of
/// them.
const SORTERS_MAX: usize = 1;

/// The numbers of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: Box<[u8]>,
    pub(crate) stats: QueueStats,
    pub(crate) facts: QueueFacts,
    pub(crate) rates: Option<Rates>,
}

/// Changes per second since the survey before.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) puts: f64,
    pub(crate) finishes: f64,
    /// The change of the number of ready jobs.
    pub(crate) growth: f64,
}

/// A number by which a list of queues can be sorted.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Key {
    Name,
    Ready,
    Leased,
    Delayed,
    Buried,
    Age,
    Puts,
    Finishes,
    Growth,
    Waiters,
}

impl Key {
    pub(crate) const ALL: [(&'static str, Key); 10] = [
        ("name", Key::Name),
        ("ready", Key::Ready),
        ("leased", Key::Leased),
        ("delayed", Key::Delayed),
        ("buried", Key::Buried),
        ("age", Key::Age),
        ("in", Key::Puts),
        ("out", Key::Finishes),
        ("growth", Key::Growth),
        ("waiters", Key::Waiters),
    ];

    /// The number of a queue. Names have no number, so they are all equal here.
    pub(crate) fn of(self, row: &Row) -> f64 {
        let rates = row.rates.unwrap_or_default();
        match self {
            Key::Name => 0.0,
            Key::Ready => row.stats.ready as f64,
            Key::Leased => row.stats.leased as f64,
            Key::Delayed => row.stats.delayed as f64,
            Key::Buried => row.stats.buried as f64,
            Key::Age => row.stats.head_age_ms as f64,
            Key::Puts => rates.puts,
            Key::Finishes => rates.finishes,
            Key::Growth => rates.growth,
            Key::Waiters => row.stats.waiters as f64,
        }
    }
}

/// The numbers of all queues.
#[derive(Debug)]
pub(crate) struct Survey {
    /// When the walk ended, by the broker's clock and by the wall clock.
    pub(crate) taken: Millis,
    pub(crate) taken_wall: Millis,
    /// The queues, oldest first.
    pub(crate) rows: Vec<Row>,
    /// The bytes of all names.
    name_bytes: usize,
    /// The places of the rows, by number and then by name. One list for each [`Key`].
    sorted: [OnceLock<Vec<u32>>; Key::ALL.len()],
    /// The next walk may begin at this moment.
    next_at: Instant,
    _memory: Counted,
}

/// Memory of a survey, counted as memory in use until this value is dropped.
#[derive(Debug)]
struct Counted {
    bytes: i64,
    broker: Broker,
}

impl Counted {
    fn new(bytes: usize, broker: &Broker) -> Counted {
        let counted = Counted { bytes: bytes as i64, broker: broker.clone() };
        broker.add_outside_bytes(counted.bytes);
        counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.broker.add_outside_bytes(-self.bytes);
    }
}

impl Survey {
    /// The places of the rows, by number and then by name. The first call for a key sorts, so it
    /// takes long if there are many queues.
    pub(crate) fn sorted(&self, key: Key) -> &[u32] {
        self.sorted[key as usize].get_or_init(|| {
            let mut places: Vec<u32> = (0..self.rows.len() as u32).collect();
            places.sort_unstable_by(|one, other| {
                let (one, other) = (&self.rows[*one as usize], &self.rows[*other as usize]);
                key.of(one).total_cmp(&key.of(other)).then_with(|| one.name.cmp(&other.name))
            });
            places
        })
    }

    /// Compares with the survey before. Both have the queues by age, so a queue that is in both has
    /// the same order in both, and one pass finds all. A queue that was removed and made again is
    /// among the youngest, so it is not found.
    fn compare(&mut self, before: &Survey) {
        let seconds = self.taken.since(before.taken) as f64 / 1e3;
        if seconds <= 0.0 || seconds * 1e3 > RATES_AGE_MAX_MS as f64 {
            return;
        }
        let mut old = before.rows.iter();
        for row in &mut self.rows {
            let Some(old) = old.find(|old| old.name == row.name) else { return };
            let per_s = |now: u64, then: u64| (now as f64 - then as f64) / seconds;
            row.rates = Some(Rates {
                puts: per_s(row.stats.puts, old.stats.puts).max(0.0),
                finishes: per_s(row.stats.finishes, old.stats.finishes).max(0.0),
                growth: per_s(row.stats.ready, old.stats.ready),
            });
        }
    }
}

/// The last survey, and whether a walk runs.
#[derive(Debug)]
pub(crate) struct Surveys {
    door: Door,
    last: watch::Sender<Option<Arc<Survey>>>,
    is_walking: AtomicBool,
    /// Limits the work with surveys in other threads.
    sorters: Arc<Semaphore>,
}

/// Notes the end of a walk, even if the walk panics.
struct Walking(Arc<Surveys>);

impl Drop for Walking {
    fn drop(&mut self) {
        self.0.is_walking.store(false, Ordering::Relaxed);
    }
}

impl Surveys {
    pub(crate) fn new(door: Door) -> Surveys {
        let (last, is_walking) = (watch::Sender::new(None), AtomicBool::new(false));
        Surveys { door, last, is_walking, sorters: Arc::new(Semaphore::new(SORTERS_MAX)) }
    }

    /// Works with the present survey. `steps`: the steps of the work, for each row and for each
    /// byte of its name. Long work is done in another thread. It goes on after its client has gone,
    /// and keeps its survey in memory. So a request gets a survey only when it has the thread.
    pub(crate) async fn with_current<T: Send + 'static>(
        self: &Arc<Self>,
        steps: (usize, usize),
        work: impl FnOnce(&Survey) -> T + Send + 'static,
    ) -> T {
        let permit = self.sorters.clone().acquire_owned().await.ok();
        let survey = self.current().await;
        let (of_row, of_byte) = steps;
        if survey.rows.len() * of_row + survey.name_bytes * of_byte <= STEPS_AT_ONCE {
            return work(&survey);
        }
        with_permit(permit, move || work(&survey)).await
    }

    /// The present survey: a new one, if the rest after the last one is over.
    async fn current(self: &Arc<Self>) -> Arc<Survey> {
        let mut last = self.last.subscribe();
        loop {
            let known = last.borrow_and_update().clone();
            if let Some(survey) = known.filter(|survey| Instant::now() < survey.next_at) {
                return survey;
            }
            if !self.is_walking.swap(true, Ordering::Relaxed) {
                tokio::spawn(walk(Walking(self.clone())));
            }
            // If the walk panics, nothing changes. Then try again.
            let _ = tokio::time::timeout(REST_MIN, last.changed()).await;
        }
    }
}

/// Reads the next rows in one turn. At the end, returns the moment by both clocks.
fn next_rows(
    turn: &mut Turn<'_>,
    cursor: &mut QueueCursor,
    rows: &mut Vec<Row>,
) -> Option<(Millis, Millis)> {
    turn.begin_slice();
    while !turn.slice_is_spent() {
        let Some(queue) = turn.next_queue(cursor) else {
            return Some((turn.now(), turn.wall_at(turn.now())));
        };
        rows.push(Row {
            name: turn.queue_name(queue).into(),
            stats: turn.queue_stats_of(queue),
            facts: turn.queue_facts_of(queue),
            rates: None,
        });
    }
    None
}

async fn walk(walking: Walking) {
    let surveys = &walking.0;
    let door = &surveys.door;
    // A list that grows copies all its rows. In a turn, all clients would wait for that, so each turn has a
    // short list of its own. Usually, the long list never grows, even if clients make queues meanwhile.
    let known = door.turn().totals().queues as usize;
    let (mut rows, mut part) = (Vec::with_capacity(known + known / 8), Vec::new());
    // It can be long, and the walk as well.
    let while_walking = Counted::new(rows.capacity() * size_of::<Row>(), door.broker());
    let (mut cursor, mut in_turns) = (QueueCursor::default(), Duration::ZERO);
    let (taken, taken_wall) = loop {
        let end = {
            let mut turn = door.turn();
            let began = Instant::now();
            let end = next_rows(&mut turn, &mut cursor, &mut part);
            in_turns += began.elapsed();
            end
        };
        rows.append(&mut part);
        if let Some(moments) = end {
            break moments;
        }
        between_turns().await;
    };
    rows.shrink_to_fit();
    let name_bytes: usize = rows.iter().map(|row| row.name.len()).sum();
    let places_bytes = Key::ALL.len() * size_of::<u32>();
    let bytes = rows.capacity() * (size_of::<Row>() + places_bytes) + name_bytes;
    drop(while_walking);
    let mut survey = Survey {
        taken,
        taken_wall,
        rows,
        name_bytes,
        sorted: Default::default(),
        next_at: Instant::now() + REST_MIN.max(in_turns * RESTS),
        _memory: Counted::new(bytes, surveys.door.broker()),
    };
    let before = surveys.last.borrow().clone();
    if let Some(before) = before {
        survey.compare(&before);
    }
    surveys.last.send_replace(Some(Arc::new(survey)));
}

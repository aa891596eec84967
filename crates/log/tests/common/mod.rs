//! A random workload for the log on the simulated disk, and a model of the expected state.
//!
//! The model stores every appended change, with the end of its entry. After a crash, the recovered
//! state must be the model's state after some prefix of these changes. The prefix must contain
//! everything that was acknowledged.
#![allow(dead_code, unreachable_pub, missing_debug_implementations, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, mpsc};

use lineshaft_log::{
    BlockId, BlockSummary, BodyRef, Class, Current, FaultDisk, Log, Meta, OpenError, OwnedRow,
    Owner, Position, QueueRef, RecoveryReport, Restored, RestoredBody, Settings, Slice, Slot, Sync,
};

/// A random number generator: Splitmix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The expected state of a job after recovery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Job {
    pub queue: Vec<u8>,
    pub priority: u32,
    pub due_ms: u64,
    pub state: u8,
    pub options: Vec<u8>,
    pub body: Vec<u8>,
}

impl Job {
    pub fn meta(&self, id: u64) -> Meta<'_> {
        Meta {
            id,
            priority: self.priority,
            ttr: id as u32 ^ 7,
            created_ms: id * 3,
            due_ms: self.due_ms,
            state: self.state,
            options: &self.options,
        }
    }
}

pub type Jobs = BTreeMap<u64, Job>;
pub type Facts = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    pub jobs: Jobs,
    pub facts: Facts,
}

#[derive(Clone, Debug)]
enum Change {
    Put(u64, Job),
    Finish(u64),
    Fact(Vec<u8>, Vec<u8>),
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(id, job) => {
                self.jobs.insert(*id, job.clone());
            }
            Change::Finish(id) => {
                self.jobs.remove(id);
            }
            Change::Fact(key, value) if value.is_empty() => {
                self.facts.remove(key);
            }
            Change::Fact(key, value) => {
                self.facts.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The result of a recovery.
#[derive(Debug, Default)]
pub struct Recovered {
    pub state: State,
    pub places: BTreeMap<u64, Slot>,
    pub counters: BTreeMap<u64, Vec<u8>>,
    pub blocks: BTreeSet<BlockId>,
    pub report: RecoveryReport,
}

/// Checks a summary against the rows that it stands for.
fn check_summary(summary: &BlockSummary, rows: &[OwnedRow]) {
    let classes: Vec<Class> = rows.iter().map(|row| classify(&row.meta()).unwrap()).collect();
    assert!(classes.is_sorted_by_key(|class| class.key), "the rows are not in their order");
    assert!(classes.iter().all(|class| class.list == summary.list));
    let ends = (classes[0].key, classes[classes.len() - 1].key);
    assert_eq!((summary.first_key, summary.last_key), ends);
    let next = classes.iter().map(|class| class.next_key).min();
    assert_eq!(Some(summary.first_next_key), next);
    for (band, count) in (0..).zip(summary.bands) {
        let in_band = classes.iter().filter(|class| class.band == band).count();
        assert_eq!(in_band, count as usize);
    }
    assert_eq!(summary.first_created_ms, rows[0].created_ms);
    assert_eq!(summary.body_bytes, rows.iter().map(|row| u64::from(row.body_len)).sum::<u64>());
    let slots = summary.slot_min..=summary.slot_max;
    assert!(rows.iter().all(|row| slots.contains(&row.slot.index)));
}

/// The most memory that this process has used so far.
pub fn resident_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

pub fn settings(sync: Sync) -> Settings {
    Settings { segment_bytes: 256 << 10, sync, ..Settings::default() }
}

/// Lists of jobs for index files: two lists for each queue, and some jobs that are in no list.
pub fn classify(meta: &Meta<'_>) -> Option<Class> {
    let is_listed = meta.options.len() != 7;
    let key = (meta.priority.into(), meta.id);
    let (list, next_key) = (meta.state % 2, (meta.id, meta.priority.into()));
    is_listed.then_some(Class { list, key, next_key, band: (meta.priority >> 30) as u8 })
}

impl Recovered {
    fn add(
        &mut self,
        slot: Slot,
        queue: &[u8],
        meta: &Meta<'_>,
        counters: Option<&[u8]>,
        body: &RestoredBody<'_>,
    ) {
        let read = body.read().unwrap();
        assert_eq!(body.len(), read.len());
        let job = Job {
            queue: queue.to_vec(),
            priority: meta.priority,
            due_ms: meta.due_ms,
            state: meta.state,
            options: meta.options.to_vec(),
            body: read.to_vec(),
        };
        assert_eq!((meta.ttr, meta.created_ms), (meta.id as u32 ^ 7, meta.id * 3));
        assert!(self.state.jobs.insert(meta.id, job).is_none(), "job {} came twice", meta.id);
        self.places.insert(meta.id, slot);
        if let Some(counters) = counters {
            self.counters.insert(meta.id, counters.to_vec());
        }
    }
}

/// Opens the log on a disk, and collects its live jobs and facts.
pub fn recover(
    disk: &FaultDisk,
    settings: Settings,
    now_ms: u64,
) -> Result<(Log, Recovered), OpenError> {
    let mut found = Recovered::default();
    let (log, report) =
        Log::open(Arc::new(disk.clone()), settings, now_ms, &mut |restored| match restored {
            Restored::Job { slot, queue, meta, counters, body, .. } => {
                found.add(slot, queue, &meta, counters, &body);
            }
            Restored::Block { block, summary, queue, rows } => {
                let read = rows.read().unwrap();
                assert_eq!((summary.rows as usize, found.blocks.insert(block)), (read.len(), true));
                for row in read.iter() {
                    assert_eq!((row.slot.segment, row.meta().id), (block.segment, row.id));
                    found.add(row.slot, queue, &row.meta(), None, &rows.body(row));
                }
                check_summary(&summary, &read);
            }
            Restored::Fact { key, value, .. } => {
                assert!(found.state.facts.insert(key.to_vec(), value.to_vec()).is_none());
            }
        })?;
    found.report = report;
    Ok((log, found))
}

/// The owner of the log's jobs. It gives queues their numbers, and stores the new slots of copied
/// jobs.
struct Book<'a> {
    state: &'a State,
    places: &'a mut BTreeMap<u64, Slot>,
    numbers: &'a [Vec<u8>],
}

impl Owner for Book<'_> {
    fn current(&mut self, slot: Slot, id: u64) -> Option<Current<'_>> {
        assert_eq!(
            self.places.get(&id),
            Some(&slot),
            "the log asks for a slot that is not the job's"
        );
        let job = self.state.jobs.get(&id)?;
        let number = self.numbers.iter().position(|name| *name == job.queue)?;
        let queue = QueueRef { number: number as u32, name: &job.queue };
        Some(Current { queue, meta: job.meta(id) })
    }

    fn moved(&mut self, old: Slot, new: Slot, id: u64, _: Position, _: BodyRef<'_>) {
        assert_eq!(self.places.insert(id, new), Some(old));
    }
}

/// A log in use.
pub struct World {
    pub disk: FaultDisk,
    pub log: Arc<Log>,
    pub random: Random,
    pub settings: Settings,
    pub now_ms: u64,
    /// The expected state after all changes.
    pub state: State,
    /// The slots of the jobs, by id.
    places: BTreeMap<u64, Slot>,
    /// The state at the last recovery.
    base: State,
    /// All changes since the last recovery.
    changes: Vec<(Position, Change)>,
    /// All counters that each job got since its last meta.
    counters: BTreeMap<u64, Vec<Vec<u8>>>,
    numbers: Vec<Vec<u8>>,
    next_id: u64,
    /// The highest id that was given to a job, plus 1.
    pub ids_spent: u64,
    /// The length of the largest body in bytes.
    pub body_bytes_max: u64,
    /// If there are more jobs than this, the workload makes no puts.
    pub jobs_aim: usize,
    /// True if the workload makes only single puts, and no body that is much larger than the
    /// others.
    pub plain: bool,
    /// True if the second committer often makes a sync during the first one's.
    pub has_second: bool,
    /// The slice of reclaim that is not copied to its end.
    slice: Option<Slice>,
}

/// What the first committer's thread tells the test.
enum First {
    /// A sync has begun. It ends after a message through this channel.
    Syncs(mpsc::Sender<()>),
    /// The step has ended.
    Ended(bool),
}

impl World {
    /// Creates a log on a new disk. Returns an error if a planned crash or failure happened.
    pub fn new(seed: u64, disk: FaultDisk, settings: Settings) -> Result<World, OpenError> {
        let (log, found) = recover(&disk, settings.clone(), 1_000_000)?;
        let numbers = (0..6).map(|n| vec![b'a' + n; 1 + n as usize * 3]).collect();
        Ok(World {
            disk,
            log: Arc::new(log),
            random: Random(seed),
            settings,
            now_ms: 1_000_000,
            base: found.state.clone(),
            state: found.state,
            places: found.places,
            changes: Vec::new(),
            counters: BTreeMap::new(),
            numbers,
            next_id: found.report.next_id,
            ids_spent: 1,
            body_bytes_max: 40_000,
            jobs_aim: 40,
            plain: false,
            has_second: false,
            slice: None,
        })
    }

    fn note(&mut self, position: Position, change: Change) {
        self.state.apply(&change);
        self.changes.push((position, change));
    }

    fn some_job(&mut self) -> Option<u64> {
        if self.state.jobs.is_empty() {
            return None;
        }
        // Often choose the oldest job, like a take from a queue.
        let n = match self.random.below(3) {
            0 => 0,
            _ => self.random.below(self.state.jobs.len() as u64),
        };
        self.state.jobs.keys().nth(n as usize).copied()
    }

    fn some_queue(&mut self) -> usize {
        self.random.below(self.numbers.len() as u64) as usize
    }

    fn some_bytes(&mut self, max: u64) -> Vec<u8> {
        let len = self.random.below(max + 1);
        let byte = self.random.next() as u8;
        (0..len).map(|n| byte.wrapping_add((n % 251) as u8)).collect()
    }

    fn some_job_for(&mut self, queue: usize, body: &[u8]) -> Job {
        Job {
            queue: self.numbers[queue].clone(),
            priority: self.random.next() as u32,
            due_ms: self.random.next() >> 20,
            state: self.random.below(4) as u8,
            options: self.some_bytes(24),
            body: body.to_vec(),
        }
    }

    /// Puts one job, or several jobs that share a body. Returns false if the log refused the put.
    pub fn put(&mut self) -> bool {
        let fans_out = self.random.one_in(6) && !self.plain;
        let n = if fans_out { 1 + self.random.below(3) } else { 1 };
        let max = match self.random.below(40) {
            _ if self.plain => self.body_bytes_max,
            0 => 400_000.min(self.body_bytes_max * 10),
            1..10 => 50,
            _ => self.body_bytes_max,
        };
        // The log keeps the large ones of these bodies.
        let body: triomphe::Arc<[u8]> = self.some_bytes(max).into();
        if !self.log.admits_put(body.len()) {
            return false;
        }
        if self.next_id + n > self.log.id_limit() {
            self.log.note_next_id(self.now_ms, self.next_id + n);
            return false;
        }
        let first_id = self.next_id;
        self.next_id += n;
        self.ids_spent = self.next_id;
        self.log.note_next_id(self.now_ms, self.next_id);
        let queues: Vec<usize> = (0..n).map(|_| self.some_queue()).collect();
        let jobs: Vec<Job> = queues.iter().map(|&queue| self.some_job_for(queue, &body)).collect();
        let mut slots = Vec::new();
        let position = if n == 1 {
            let queue = QueueRef { number: queues[0] as u32, name: &jobs[0].queue };
            let (slot, position) = self.log.put(self.now_ms, queue, &jobs[0].meta(first_id), &body);
            slots.push(slot);
            position
        } else {
            let metas: Vec<_> = (first_id..)
                .zip(&jobs)
                .zip(&queues)
                .map(|((id, job), &number)| {
                    (QueueRef { number: number as u32, name: &job.queue }, job.meta(id))
                })
                .collect();
            self.log.put_many(self.now_ms, &metas, &body, &mut slots)
        };
        for ((id, job), slot) in (first_id..).zip(jobs).zip(slots) {
            self.places.insert(id, slot);
            self.note(position, Change::Put(id, job));
        }
        true
    }

    fn update(&mut self) {
        if let Some(id) = self.some_job()
            && self.log.admits_update()
        {
            let queue = self.some_queue();
            let body = self.state.jobs[&id].body.clone();
            let job = self.some_job_for(queue, &body);
            let queue = QueueRef { number: queue as u32, name: &job.queue };
            let position = self.log.update(self.now_ms, self.places[&id], queue, &job.meta(id));
            self.counters.remove(&id);
            self.note(position, Change::Put(id, job));
        }
    }

    fn count(&mut self) {
        if let Some(id) = self.some_job() {
            let counters = self.some_bytes(20);
            self.log.count(self.now_ms, self.places[&id], &counters);
            self.counters.entry(id).or_default().push(counters);
        }
    }

    pub fn finish(&mut self, n: u64) {
        let mut ids = Vec::new();
        for _ in 0..n {
            ids.extend(self.some_job().filter(|id| !ids.contains(id)));
        }
        let slots: Vec<Slot> = ids.iter().filter_map(|id| self.places.remove(id)).collect();
        if slots.is_empty() {
            return;
        }
        let position = self.log.finish_many(self.now_ms, &slots);
        for id in ids {
            self.note(position, Change::Finish(id));
        }
    }

    /// Finishes the newest job.
    pub fn finish_newest(&mut self) {
        let newest = self.state.jobs.keys().next_back().copied();
        self.finish_if_some(newest);
    }

    /// Finishes the oldest job.
    pub fn finish_oldest(&mut self) {
        let oldest = self.state.jobs.keys().next().copied();
        self.finish_if_some(oldest);
    }

    fn finish_if_some(&mut self, id: Option<u64>) {
        let Some(id) = id else { return };
        let slot = self.places.remove(&id).unwrap();
        let position = self.log.finish(self.now_ms, slot);
        self.note(position, Change::Finish(id));
    }

    fn fact(&mut self) {
        let key = vec![b'k', self.random.below(5) as u8];
        let value = if self.random.one_in(3) { Vec::new() } else { self.some_bytes(60) };
        let position = self.log.fact(self.now_ms, &key, &value);
        self.note(position, Change::Fact(key, value));
    }

    /// Skips some ids, as if jobs without durability had used them. Swaps the numbers of two
    /// queues.
    fn renumber(&mut self) {
        self.next_id += self.random.below(400_000);
        self.log.note_next_id(self.now_ms, self.next_id);
        let (a, b) = (self.some_queue(), self.some_queue());
        self.log.forget_queue(a as u32);
        self.log.forget_queue(b as u32);
        self.numbers.swap(a, b);
    }

    /// Puts and finishes jobs until the log is in this segment.
    pub fn work_up_to(&mut self, segment: u32) {
        while self.log.usage().last_segment < segment {
            self.put();
            self.finish_newest();
            self.log.commit_step(self.now_ms).unwrap();
            self.log.prepare_step().unwrap();
        }
    }

    /// Where the log has each job.
    pub fn places(&self) -> &BTreeMap<u64, Slot> {
        &self.places
    }

    /// Whether reclaim has work: it wants a slice, or has begun one.
    pub fn reclaim_wanted(&self) -> bool {
        self.slice.is_some() || self.log.reclaim_wanted()
    }

    /// Copies a part of a slice of reclaim. Ignores a failed read.
    pub fn reclaim_once(&mut self) {
        let slice = match self.slice.take() {
            Some(slice) => Some(slice),
            None => self.log.reclaim_read().unwrap_or_default(),
        };
        if let Some(slice) = slice {
            self.copy(slice);
        }
    }

    /// Copies a part of a slice of reclaim, if there is one. Returns true if this changed anything.
    pub fn reclaim(&mut self) -> bool {
        if let Some(slice) = self.slice.take() {
            self.copy(slice);
            return true;
        }
        match self.log.reclaim_read() {
            Ok(Some(slice)) => {
                self.copy(slice);
                true
            }
            Ok(None) => false,
            Err(error) => {
                assert!(self.disk.has_crashed() || self.log.failure().is_some(), "{error}");
                false
            }
        }
    }

    fn copy(&mut self, mut slice: Slice) {
        let mut book =
            Book { state: &self.state, places: &mut self.places, numbers: &self.numbers };
        if !self.log.reclaim_copy(self.now_ms, &mut slice, &mut book).unwrap() {
            self.slice = Some(slice);
        }
    }

    /// Makes one random action. Returns an error if the log failed.
    pub fn step(&mut self) -> Result<(), ()> {
        let crowded = self.state.jobs.len() > self.jobs_aim;
        match self.random.below(32) {
            0..8 if !crowded => {
                self.put();
            }
            0..12 => self.finish(1),
            12 => self.finish(3),
            13 | 14 => self.update(),
            15 | 16 => self.count(),
            17 => self.fact(),
            18 => self.renumber(),
            19..26 if self.has_second && !self.may_rotate() => self.commit_with_second()?,
            19..26 => {
                self.log.commit_step(self.now_ms).map_err(|_| ())?;
            }
            26 | 27 => {
                self.log.prepare_step().map_err(|_| ())?;
                // An index that cannot be written is no failure of the log.
                let _ = self.log.index_step();
            }
            28 | 29 => {
                if self.log.reclaim_wanted() || self.random.one_in(3) {
                    self.reclaim();
                }
            }
            _ => self.now_ms += self.random.below(250),
        }
        Ok(())
    }

    /// Whether a commit step may begin a segment. Then the second committer waits during the step's first sync.
    fn may_rotate(&self) -> bool {
        let begins = self.log.last_segment() != self.log.written().segment();
        // Counters that no reply waits for have at most an eighth of a segment.
        begins || self.log.room_left() < self.settings.segment_bytes / 4
    }

    /// Makes a commit step. During each of its syncs, entries arrive, and the second committer commits them. Its
    /// sync ends before that of the step, or after it. One of the two threads always waits for the other, so
    /// that each run is the same.
    fn commit_with_second(&mut self) -> Result<(), ()> {
        let (tell, told) = mpsc::channel();
        let (log, now_ms) = (Arc::clone(&self.log), self.now_ms);
        let (start, started) = mpsc::channel();
        let first = std::thread::spawn({
            let tell = tell.clone();
            move || {
                started.recv().unwrap();
                let done = log.commit_step(now_ms);
                // The test has ended if nobody listens.
                let _ = tell.send(First::Ended(done.is_ok()));
            }
        });
        let first_id = first.thread().id();
        let mut ended = None;
        let to_first = Arc::new(Mutex::new(None::<mpsc::Sender<()>>));
        let told = Arc::new(Mutex::new(told));
        let seconds_end = Arc::new(Mutex::new(None));
        self.disk.set_during_sync({
            let (told, to_first) = (Arc::clone(&told), Arc::clone(&to_first));
            let seconds_end = Arc::clone(&seconds_end);
            move || {
                if std::thread::current().id() == first_id {
                    let (go_on, wait) = mpsc::channel();
                    tell.send(First::Syncs(go_on)).unwrap();
                    wait.recv().unwrap();
                } else if let Some(go_on) = to_first.lock().unwrap().take() {
                    // The second committer's sync ends after the first one's.
                    go_on.send(()).unwrap();
                    *seconds_end.lock().unwrap() = Some(told.lock().unwrap().recv().unwrap());
                }
            }
        });
        start.send(()).unwrap();
        while ended.is_none() {
            let next = seconds_end.lock().unwrap().take();
            match next.unwrap_or_else(|| told.lock().unwrap().recv().unwrap()) {
                First::Ended(is_ok) => ended = Some(is_ok),
                First::Syncs(go_on) => {
                    for _ in 0..self.random.below(3) {
                        self.put();
                        self.finish(1);
                    }
                    let is_last = self.random.one_in(2);
                    *to_first.lock().unwrap() = is_last.then(|| go_on.clone());
                    let _ = self.log.commit_beside(self.now_ms);
                    if !is_last || to_first.lock().unwrap().take().is_some() {
                        go_on.send(()).unwrap();
                    }
                }
            }
        }
        first.join().unwrap();
        self.disk.set_during_sync(|| ());
        if ended == Some(true) && self.log.failure().is_none() { Ok(()) } else { Err(()) }
    }

    /// Opens the log again after a crash or a restart, and compares the log with the model.
    /// `acknowledged` is the last acknowledged position after a crash, or the last written position
    /// after a restart of only the process.
    pub fn reopen(&mut self, acknowledged: Position) -> Result<(), OpenError> {
        self.now_ms += 1;
        let (log, found) = recover(&self.disk, self.settings.clone(), self.now_ms)?;
        self.check(&found, acknowledged);
        self.log = Arc::new(log);
        self.slice = None;
        self.base = found.state.clone();
        self.state = found.state;
        self.places = found.places;
        self.changes.clear();
        self.counters = found.counters.into_iter().map(|(id, bytes)| (id, vec![bytes])).collect();
        self.next_id = found.report.next_id;
        Ok(())
    }

    /// The state after all changes up to a position. The log must have reached this position after
    /// the last recovery.
    pub fn state_at(&self, end: Position) -> State {
        let mut state = self.base.clone();
        for (_, change) in self.changes.iter().take_while(|(position, _)| *position <= end) {
            state.apply(change);
        }
        state
    }

    /// Checks that the recovered state is the model's state after some prefix of the changes. Also
    /// checks that no id can be used twice.
    pub fn check(&self, found: &Recovered, acknowledged: Position) {
        assert!(found.report.next_id >= self.ids_spent, "ids could be dealt twice");
        for (id, counters) in &found.counters {
            let known = self.counters.get(id).is_some_and(|known| known.contains(counters));
            // If an update is lost, the job has the counters from before the update. The model no
            // longer has these counters.
            let updated = self
                .changes
                .iter()
                .any(|(_, change)| matches!(change, Change::Put(put, _) if put == id));
            assert!(known || updated, "counters of {id} come from nowhere");
        }
        let mut state = self.base.clone();
        let must =
            self.changes.iter().take_while(|(position, _)| *position <= acknowledged).count();
        for (_, change) in &self.changes[..must] {
            state.apply(change);
        }
        let mut rest = self.changes[must..].iter().peekable();
        while state != found.state {
            let Some((position, change)) = rest.next() else {
                let ids = |state: &State| state.jobs.keys().copied().collect::<Vec<_>>();
                panic!(
                    "no prefix from {acknowledged:?} on gives what came back\nfound {:?}\nwanted at least {:?}",
                    ids(&found.state),
                    ids(&state)
                );
            };
            state.apply(change);
            while let Some((_, change)) = rest.next_if(|(next, _)| next == position) {
                state.apply(change);
            }
        }
    }
}

//! The state in the log: jobs and facts about queues, as they are after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use broker::policy::KeyHash;
use broker::policy::{Policy, Rules};
use broker::{Claim, ClaimKey, Death, DeathCause};

use super::policies::{UP, is_named_child, parent_of, text};
use super::record::{Record, Subject};
use super::{Job, Name, State, Tags};

/// The counters in the statistics of a job.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) reserves: u32,
    pub(crate) timeouts: u32,
    pub(crate) releases: u32,
    pub(crate) buries: u32,
    pub(crate) kicks: u32,
    pub(crate) failures: u32,
}

impl Counts {
    /// The counters, with 0 for each counter that `lazy` returns.
    pub(super) fn strict(self) -> Self {
        Self { reserves: 0, timeouts: 0, failures: 0, ..self }
    }

    /// The counters that the log appends later than the counted events.
    pub(super) fn lazy(self) -> [u32; 3] {
        [self.reserves, self.timeouts, self.failures]
    }
}

/// The state of a job after a restart.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum StoredState {
    Ready,
    Delayed { due: u64 },
    Buried { order: u64 },
}

/// A job in the log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StoredJob {
    pub(crate) queue: Name,
    pub(crate) pri: u32,
    pub(crate) delay: u32,
    pub(crate) ttr: u32,
    pub(crate) created: u64,
    /// The time when a ready job became ready, if a delay ended or a request made the job ready.
    /// Otherwise 0.
    pub(crate) since: u64,
    pub(crate) body: Rc<[u8]>,
    pub(crate) state: StoredState,
    pub(crate) counts: Counts,
    pub(crate) attempts: u32,
    pub(crate) death: Option<Death>,
    /// The job's order number among the jobs of its priority.
    pub(crate) order: u64,
    /// The parameters of the submit, if the job was submitted.
    pub(crate) tags: Option<Tags>,
    pub(crate) expires: Option<u64>,
    pub(crate) key: Option<KeyHash>,
    pub(crate) group: Option<KeyHash>,
    /// The job before its last [`Record::Moved`]. If the disk was full, the log may lack this
    /// record. Then a restart can recover this older state.
    pub(crate) before: Option<Rc<StoredJob>>,
}

/// The facts of a queue, as the log stores them.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Facts {
    pub(crate) kept: bool,
    pub(crate) limits: [u32; 3],
    /// True if a client of Kestrel created or used the queue.
    pub(crate) is_items: bool,
    /// True if the queue gets copies of its parent's jobs.
    pub(crate) is_child: bool,
    /// The moment when the queue was created, if it is a queue of items.
    pub(crate) created: u64,
}

impl StoredJob {
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            queue: job.queue.clone(),
            pri: job.pri,
            delay: job.delay,
            ttr: job.ttr,
            created: job.created,
            since: if job.state == State::Ready && job.since > job.created { job.since } else { 0 },
            body: job.body.clone(),
            state: match job.state {
                State::Ready | State::Leased(_) => StoredState::Ready,
                State::Delayed { due } => StoredState::Delayed { due },
                State::Buried { order } => StoredState::Buried { order },
            },
            counts: job.counts,
            attempts: job.attempts,
            death: job.death.clone(),
            order: job.order,
            tags: job.tags.clone(),
            expires: job.expires,
            key: job.key,
            group: job.group,
            before: None,
        }
    }

    /// The job's order number, and its number among the buried jobs, or 0.
    pub(super) fn orders(&self) -> (u64, u64) {
        match self.state {
            StoredState::Buried { order } => (self.order, order),
            StoredState::Ready | StoredState::Delayed { .. } => (self.order, 0),
        }
    }

    /// True if the process that started at this moment has made the job a dead letter, or buried it as the
    /// dead letter that it was, because it expired or made room. `found` is the job after the start.
    fn was_set_aside(&self, found: &StoredJob, now: u64) -> bool {
        let is_buried = |job: &Self| matches!(job.state, StoredState::Buried { .. });
        if self.death.is_some() && self.death == found.death {
            return is_buried(found) && !is_buried(self);
        }
        let is_new = |death: &&Death| death.died.0 == now && self.death.as_ref() != Some(*death);
        let death = found.death.as_ref().filter(is_new);
        death.is_some_and(|death| matches!(death.cause, DeathCause::Expired | DeathCause::Dropped))
    }

    /// The last moment of a dead letter, if it has one.
    fn dead_until(&self) -> Option<u64> {
        self.death.as_ref()?.until.map(|until| until.0)
    }

    /// True if the recovered job equals this job. Ignores the counters that the log appends later.
    /// If the disk was full, the recovered job can also equal the job before its last move.
    fn is_found_as(&self, found: &StoredJob, start: Start) -> bool {
        if start.is_short
            && let Some(before) = &self.before
            && before.is_found_as(found, start)
        {
            return true;
        }
        let state = match self.state {
            StoredState::Delayed { due } if due <= start.now => StoredState::Ready,
            state => state,
        };
        found.state == state
            && found.order == self.order
            && found.tags == self.tags
            && (found.expires, found.key, found.group) == (self.expires, self.key, self.group)
            && found.counts.strict() == self.counts.strict()
            && (found.attempts, &found.death) == (self.attempts, &self.death)
            && found.body == self.body
            && found.queue == self.queue
            && (found.pri, found.delay, found.ttr, found.created)
                == (self.pri, self.delay, self.ttr, self.created)
    }
}

pub(crate) type StoredJobs = BTreeMap<u64, StoredJob>;

/// Facts about the start of a process.
#[derive(Copy, Clone, Debug)]
pub(super) struct Start {
    pub(super) now: u64,
    /// The process assigned this number and all higher numbers after its start.
    pub(super) next_id: u64,
    /// True if the disk was full before the start.
    pub(super) is_short: bool,
}

/// The state that survives a process.
#[derive(Clone, Debug)]
pub(crate) struct LogContents {
    pub(crate) jobs: StoredJobs,
    /// The queues that have facts in the log.
    pub(crate) queues: BTreeMap<Name, Facts>,
    pub(crate) rules: Rc<Rules>,
    pub(crate) status: u8,
    /// The keys of unique jobs that have ended.
    pub(crate) claims: BTreeMap<ClaimKey, Claim>,
}

impl Default for LogContents {
    fn default() -> Self {
        let (jobs, queues) = (StoredJobs::new(), BTreeMap::new());
        Self { jobs, queues, rules: Rc::default(), status: UP, claims: BTreeMap::new() }
    }
}

impl LogContents {
    pub(super) fn apply(&mut self, record: &Record) {
        match record {
            Record::Put(id, image) | Record::Update(id, image) => {
                self.jobs.insert(*id, image.clone());
            }
            Record::PutMany(images) => self.jobs.extend(images.iter().cloned()),
            Record::Moved(id, image) => {
                let before = self.jobs.remove(id).map(Rc::new);
                self.jobs.insert(*id, StoredJob { before, ..image.clone() });
            }
            Record::Finish(id) => {
                self.jobs.remove(id);
            }
            Record::Queue(name, facts) if *facts == Facts::default() => {
                self.queues.remove(name);
            }
            Record::Queue(name, facts) => {
                self.queues.insert(name.clone(), *facts);
            }
            Record::Count(..) => {}
            Record::Policies(rules) => self.rules = rules.clone(),
            Record::Status(status) => self.status = *status,
            Record::Claim(key, claim) => {
                self.claims.insert(*key, *claim);
            }
        }
    }

    /// True if the recovered state of a subject agrees with this state. A job that expired while no
    /// server ran can have ended, or be in the queue for expired jobs, or be a dead letter.
    pub(super) fn agrees(&self, found: &Self, subject: &Subject, start: Start) -> bool {
        match subject {
            Subject::Job(id) => match (self.jobs.get(id), found.jobs.get(id)) {
                (None, None) => true,
                (None, Some(_)) => false,
                // The job expired. Or an expired job moved into the queue of this job, and the
                // server ended this job to make room.
                (Some(image), None) => {
                    self.has_expired(image, start.now)
                        || self.gets_expired(&image.queue, start.now)
                        || image.dead_until().is_some_and(|until| until < start.now)
                }
                (Some(image), Some(found)) => {
                    let is_fresh = found.created == start.now && found.order >= start.next_id;
                    image.is_found_as(found, start)
                        || (is_fresh && self.has_expired(image, start.now))
                        || (image.was_set_aside(found, start.now)
                            && (self.has_expired(image, start.now)
                                || self.gets_expired(&image.queue, start.now)))
                }
            },
            // If the disk was full (`is_short`), the log may lack the facts of a queue that a
            // client used. So then accept every difference.
            Subject::Queue(name) => {
                let (found, found_rules) = (found.queues.get(name), found.rules.clone());
                let is_new = |facts: &Facts| facts.is_items && facts.created == start.now;
                // Whether the queue was already a queue of items.
                let is_old = self.queues.get(name).is_some_and(|facts| facts.is_items);
                let was_idle = self.was_idle(name, start.now);
                let is_fresh = found.is_some_and(is_new)
                    && (!is_old || was_idle)
                    && self.gets_expired(name, start.now);
                let is_gone = found.is_none() && was_idle;
                // True if a rule makes the queue a child. Perhaps only the new process has added
                // this fact to the log.
                let is_named = is_named_child(&found_rules, name)
                    && (self.queues.contains_key(name)
                        || self.jobs.values().any(|image| image.queue == *name));
                let kept = |facts: Option<&Facts>| {
                    let facts = facts.copied().unwrap_or_default();
                    let of_rule = is_named && !facts.is_items;
                    let (kept, is_child) = (facts.kept && !of_rule, facts.is_child && !of_rule);
                    Facts { kept, is_child, ..facts }
                };
                let mine = self.queues.get(name);
                start.is_short || is_fresh || is_gone || kept(mine) == kept(found)
            }
            Subject::Policies => start.is_short || self.rules == found.rules,
            Subject::Status => start.is_short || self.status == found.status,
            Subject::Claim(key) => {
                let lasting = |of: &Self| {
                    of.claims.get(key).copied().filter(|claim| claim.until.0 > start.now)
                };
                start.is_short || lasting(self) == lasting(found)
            }
        }
    }

    /// The delayed jobs that are due at this moment.
    pub(super) fn due_at(&self, now: u64) -> Vec<u64> {
        let is_due =
            |image: &StoredJob| matches!(image.state, StoredState::Delayed { due } if due <= now);
        self.jobs.iter().filter(|(_, image)| is_due(image)).map(|(id, _)| *id).collect()
    }

    /// Checks that this state has exactly these jobs.
    pub(super) fn compare(&self, jobs: &StoredJobs, now: u64) -> Result<(), String> {
        let start = Start { now, next_id: 0, is_short: false };
        for id in jobs.keys().chain(self.jobs.keys()) {
            let (mine, found) = (jobs.get(id), self.jobs.get(id));
            let agrees =
                mine.zip(found).is_some_and(|(mine, found)| mine.is_found_as(found, start));
            if !agrees {
                let (mine, found) = (short_text(mine), short_text(found));
                return Err(format!("job {id} should be {mine} at the start\n    but is {found}"));
            }
        }
        Ok(())
    }

    /// True if the job is too old to be handed out.
    fn has_expired(&self, image: &StoredJob, now: u64) -> bool {
        let policy = self.policy(&image.queue);
        // After a lost lease, the log does not always contain the moment when the job became ready.
        // So count the age from the put.
        let aged = policy.age_max_ms.map(|age| image.created + age);
        let is_ready = match image.state {
            StoredState::Ready => true,
            StoredState::Delayed { due } => due <= now,
            StoredState::Buried { .. } => false,
        };
        is_ready && [image.expires, aged].into_iter().flatten().any(|last| last < now)
    }

    /// True if a process that starts at this moment removes the queue as soon as it has no jobs.
    fn was_idle(&self, name: &Name, now: u64) -> bool {
        // Of other queues, the log has no time. For them, the start of the process counts.
        let created = self.queues.get(name).filter(|facts| facts.is_items).map(|it| it.created);
        let idle_ms = self.policy(name).idle_ms;
        created.zip(idle_ms).is_some_and(|(created, idle_ms)| created + idle_ms < now)
    }

    /// True if this queue may get expired jobs, or dead letters because jobs have expired. Then jobs of
    /// this queue can end to make room.
    fn gets_expired(&self, name: &Name, now: u64) -> bool {
        let expired = self.jobs.values().filter(|image| self.has_expired(image, now));
        expired.into_iter().any(|image| {
            let target = self.policy(&image.queue).expire_to.map(|target| text(&target).into());
            // The job finds no room in this queue, or a job makes room for it.
            let may_drop = target.as_ref().is_some_and(|target| self.gets_letters(target, name));
            target.as_ref() == Some(name) || may_drop || self.gets_letters(&image.queue, name)
        })
    }

    /// True if jobs of a queue that expire or make room can become dead letters in the queue `name`.
    fn gets_letters(&self, queue: &Name, name: &Name) -> bool {
        let dead = self.policy(queue).dead;
        let target = dead.target.queue_for(queue.as_bytes());
        let is_target = target.is_some_and(|target| *target == *name.as_bytes());
        (dead.expired || dead.dropped) && (is_target || queue == name)
    }

    fn policy(&self, name: &Name) -> Policy {
        let is_child = self.queues.get(name).is_some_and(|facts| facts.is_child)
            || is_named_child(&self.rules, name);
        let parent = parent_of(name).filter(|_| is_child).map(str::as_bytes);
        self.rules.resolve(name.as_bytes(), parent)
    }

    /// Reclaim's copy of a leased job does not contain the moment when the job became ready
    /// (`since`). So at the start, the process counts the age of such a job from the put, and may
    /// end the job because of its age. This function uses the same count for those of the `leased`
    /// jobs that are too old by it, and are not in their queues in the recovered state `found`.
    pub(super) fn count_from_puts(&mut self, found: &Self, leased: &BTreeSet<u64>, now: u64) {
        let is_gone = |id: &u64, image: &StoredJob| {
            let is_there = found.jobs.get(id).is_some_and(|found| {
                found.queue == image.queue && !image.was_set_aside(found, now)
            });
            !is_there && leased.contains(id) && self.has_expired(image, now)
        };
        let gone = self.jobs.iter().filter(|(id, image)| is_gone(id, image));
        let gone: Vec<u64> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            // With 0, the age of a delayed job would count from its due time.
            self.jobs.get_mut(&id).expect("it was just there").since = 1;
        }
    }

    /// Gives the jobs that are not in the recovered state `found` their newest counters.
    pub(super) fn count_all_of_gone(&mut self, found: &Self, newest: &BTreeMap<u64, Counts>) {
        for (id, image) in self.jobs.iter_mut().filter(|(id, _)| !found.jobs.contains_key(id)) {
            image.counts = newest.get(id).copied().unwrap_or(image.counts);
        }
    }

    /// Copies the facts that this state lacks from the recovered state `found`.
    pub(super) fn meet(&mut self, found: &Self, now: u64, is_short: bool) {
        for (id, image) in &mut self.jobs {
            match found.jobs.get(id) {
                // Keep the state, because the process may have made a due job ready only after its
                // start.
                Some(found) if found.queue == image.queue && !image.was_set_aside(found, now) => {
                    // If `since` is 0, `offer` sets it to the due time. The value 1 prevents this,
                    // because reclaim's copy of a job that had lost a lease does not contain the
                    // due time.
                    let came_due = image.state != found.state;
                    let since = if came_due { found.since.max(1) } else { found.since };
                    *image = StoredJob { state: image.state, since, ..found.clone() };
                }
                Some(found) => image.counts = found.counts,
                None => {}
            }
        }
        if is_short {
            self.queues.clone_from(&found.queues);
            (self.rules, self.status) = (found.rules.clone(), found.status);
            self.claims.clone_from(&found.claims);
        }
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject> {
        let jobs = self.jobs.keys().map(|id| Subject::Job(*id));
        let queues = self.queues.keys().map(|name| Subject::Queue(name.clone()));
        let claims = self.claims.keys().map(|key| Subject::Claim(*key));
        jobs.chain(queues).chain(claims).chain([Subject::Policies, Subject::Status])
    }

    pub(super) fn short_text(&self, subject: &Subject) -> String {
        match subject {
            Subject::Job(id) => short_text(self.jobs.get(id)),
            Subject::Queue(name) => format!("{:?}", self.queues.get(name)),
            Subject::Policies => format!("{:?}", self.rules),
            Subject::Status => self.status.to_string(),
            Subject::Claim(key) => format!("{:?}", self.claims.get(key)),
        }
    }
}

pub(crate) fn short_text(image: Option<&StoredJob>) -> String {
    image.map_or("nothing".into(), |image| {
        format!(
            "{} pri {} order {} delay {} ttr {} created {} since {} body {} bytes {:?} {:?} failed {} {:?} {:?} expires {:?}",
            image.queue,
            image.pri,
            image.order,
            image.delay,
            image.ttr,
            image.created,
            image.since,
            image.body.len(),
            image.state,
            image.counts,
            image.attempts,
            image.death,
            image.tags,
            image.expires
        )
    })
}

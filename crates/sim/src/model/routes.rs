//! The route of a put in the model. It contains the named queue, or the queues of the named alias.
//! It also contains their children, and the queues that get copies. This file also has the limits
//! of queues.

use broker::Death;
use broker::policy::{Unsent, WhenFull};

use super::dead_letters::Unserved;
use super::policies::text;
use super::record::Record;
use super::unique::{Admitted, Offer};
use super::{Job, JobKind, Model, Name, Need, Place, State, StoredJob};

/// The maximum number of expired jobs that a put ends in each queue of its route. Also the maximum
/// number of old jobs that the put drops from a full queue to make room.
const PUT_ENDS_MAX: u64 = 2;

/// The reason why a queue is on the route of a put.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Role {
    Requested,
    Child,
    /// The queue gets a copy if the queue at this index of [`Route::stops`] accepts the job.
    Copy {
        of: usize,
    },
}

/// A queue on the route of a put.
#[derive(Debug)]
struct Stop {
    queue: Name,
    role: Role,
    stores: bool,
}

#[derive(Debug, Default)]
pub(super) struct Route {
    stops: Vec<Stop>,
    /// The queues that the put names, directly or through an alias.
    requested: Vec<Name>,
    /// The aliases on the route.
    aliases: Vec<Name>,
    /// Queues on the route. They must not be dropped during the put.
    seen: Vec<Name>,
    is_items: bool,
}

/// The reason why a queue refuses a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Refused {
    QueueFull,
    TooBig,
    Duplicate,
}

/// The result of a put.
#[derive(Debug, Default)]
pub(super) struct Routed {
    /// The first job in a requested queue.
    pub(super) requested: Option<u64>,
    /// The job of the first requested queue that has the key of the put.
    pub(super) same: Option<u64>,
    /// The job that has ended, and whose key the first such requested queue keeps.
    pub(super) ended: Option<u64>,
    /// The first job in any queue.
    pub(super) first: Option<u64>,
    pub(super) refused: Option<Refused>,
    /// The record that the reply depends on.
    pub(super) need: Need,
}

impl Model {
    pub(super) fn route_to(&mut self, name: &str, is_items: bool) -> Route {
        let mut route = Route { is_items, ..Route::default() };
        self.ask(name, &mut route);
        for queue in route.requested.clone() {
            self.follow_queue(queue, Role::Requested, &mut route);
        }
        route
    }

    fn ask(&mut self, name: &str, route: &mut Route) {
        let Some(destinations) = self.destinations(name, route) else {
            let queue = self.met(name, route);
            return route.requested.push(queue);
        };
        for destination in destinations {
            self.ask(&destination, route);
        }
    }

    fn follow(&mut self, name: &str, role: Role, route: &mut Route) {
        let Some(destinations) = self.destinations(name, route) else {
            let queue = self.met(name, route);
            return self.follow_queue(queue, role, route);
        };
        for destination in destinations {
            self.follow(&destination, role, route);
        }
    }

    /// The queues of an alias, or an empty list if the route already has this alias. `None` if the
    /// name is not an alias.
    fn destinations(&self, name: &str, route: &mut Route) -> Option<Vec<String>> {
        let destinations = self.alias(name)?;
        let name = &*self.real_name(name);
        if route.aliases.iter().any(|seen| &**seen == name) {
            return Some(Vec::new());
        }
        route.aliases.push(name.into());
        Some(destinations)
    }

    fn met(&mut self, name: &str, route: &Route) -> Name {
        if route.is_items { self.item_queue(name) } else { self.create_queue(name) }
    }

    fn follow_queue(&mut self, queue: Name, role: Role, route: &mut Route) {
        if route.seen.contains(&queue) {
            return;
        }
        route.seen.push(queue.clone());
        self.guards.push(queue.clone());
        let policy = self.queues[&queue].policy.clone();
        let role = if route.requested.contains(&queue) { Role::Requested } else { role };
        let is_copy = matches!(role, Role::Copy { .. });
        let has_aliases = self.has_aliases();
        for child in self.children_of(&queue) {
            let role = if is_copy { role } else { Role::Child };
            // The engine looks up children by name only if an alias exists. Only this look-up turns
            // a child into a queue of items.
            if has_aliases {
                self.follow(&child, role, route);
            } else {
                self.follow_queue(child, role, route);
            }
        }
        let of_copy = if is_copy { role } else { Role::Copy { of: route.stops.len() } };
        route.stops.push(Stop { queue, role, stores: !policy.fanout_only });
        for copy in &policy.copy_to {
            self.follow(&text(copy), of_copy, route);
        }
    }

    /// Puts a job into each queue on the route that has room. A foreground client waits for the
    /// outcome of the first job in a requested queue. Each queue's policy fills in what is unsent.
    pub(super) fn put_along(
        &mut self,
        mut route: Route,
        (job, unsent): (&Job, Unsent),
        (unique, client): (&[u8], Option<Place>),
        is_foreground: bool,
    ) -> Routed {
        let mut routed = Routed::default();
        let mut known = 0;
        let mut ids = Vec::new();
        let mut has_room = Vec::new();
        for Stop { queue, role, stores } in &route.stops {
            let is_fed = match role {
                Role::Requested | Role::Child => true,
                Role::Copy { of } => has_room[*of],
            };
            let is_watched =
                is_foreground && *role == Role::Requested && routed.requested.is_none();
            let is_alone = route.stops.len() == 1;
            let offer = Offer {
                job: Some((job, unsent)),
                body: &job.body,
                unique,
                client,
                is_watched,
                is_alone,
            };
            let admitted = match (is_fed, stores) {
                (false, _) => Err(Refused::QueueFull),
                (true, true) => self.admit(queue, offer),
                (true, false) => {
                    self.check_size(queue, job.body.len()).map(|()| Admitted::New(None, None))
                }
            };
            let is_requested = *stores && *role == Role::Requested;
            let admitted = match admitted {
                Ok(Admitted::New(..)) if is_requested && self.room_is_kept(queue, client) => {
                    Err(Refused::QueueFull)
                }
                admitted => admitted,
            };
            has_room.push(matches!(admitted, Ok(Admitted::New(..))));
            match admitted {
                Ok(Admitted::Same(id)) => {
                    known = known.max(self.jobs[&id].need);
                    if *role == Role::Requested {
                        routed.same = routed.same.or(Some(id));
                    }
                }
                Ok(Admitted::Ended(id, need)) => {
                    known = known.max(need);
                    if *role == Role::Requested {
                        routed.ended = routed.ended.or(Some(id));
                    }
                }
                Ok(Admitted::New(key, group)) if *stores => {
                    let kind = if is_watched { JobKind::Watched } else { self.kind_in(queue) };
                    let mut job = Job { key, group, ..job.clone() };
                    self.fill_in(queue, &mut job, unsent, kind);
                    let id = self.enter(queue, job, kind);
                    ids.push(id);
                    self.unplaced.push(id);
                    if *role == Role::Requested {
                        routed.requested = routed.requested.or(Some(id));
                    }
                }
                Err(refused) if *role == Role::Requested => {
                    routed.refused = routed.refused.or(Some(refused));
                }
                Ok(Admitted::New(..)) | Err(_) => {}
            }
        }
        routed.first = ids.first().copied();
        self.tally.copies += ids.len().saturating_sub(1) as u64;
        self.tally.rejections += u64::from(routed.refused.is_some());
        routed.need = self.record_together(&ids);
        for id in ids {
            self.place_new(id);
            if !self.jobs.contains_key(&id) {
                // If one request puts and ends a job, the log contains nothing about this job.
                self.history.unwrite(id, routed.need);
            }
        }
        if !self.history.is_something(routed.need) {
            routed.need = 0;
        }
        routed.need = routed.need.max(known);
        route.seen.sort_unstable_by_key(|queue| self.queues[queue].place);
        for queue in route.seen {
            let guard = self.guards.iter().rposition(|guarded| *guarded == queue);
            self.guards.remove(guard.expect("it was held when it was met"));
            self.drop_queue_if_unwanted(&queue);
        }
        routed
    }

    pub(super) fn fill_in(&self, queue: &Name, job: &mut Job, unsent: Unsent, kind: JobKind) {
        let defaults = self.queues[queue].policy.defaults;
        if unsent.priority {
            job.pri = defaults.priority;
        }
        if let Some(ttr) = defaults.ttr_s.filter(|_| unsent.ttr) {
            job.ttr = ttr;
        }
        // The client of a foreground job waits, so the job is never delayed.
        if unsent.delay && kind != JobKind::Watched && defaults.delay_s > 0 {
            job.delay = defaults.delay_s;
            job.state = State::Delayed { due: self.now + u64::from(defaults.delay_s) * 1000 };
        }
    }

    /// Adds a job to the model. The job is in no list yet.
    pub(super) fn enter(&mut self, queue: &Name, mut job: Job, kind: JobKind) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.puts += 1;
        self.queue_mut(queue).puts += 1;
        job.queue = queue.clone();
        job.created = self.now;
        job.order = id;
        job.kind = kind;
        self.jobs.insert(id, job);
        id
    }

    fn place_new(&mut self, id: u64) {
        self.unplaced.retain(|unplaced| *unplaced != id);
        let job = &self.jobs[&id];
        let queue = job.queue.clone();
        if job.state == State::Ready {
            let is_late = job.expires.is_some() && self.is_expired(id);
            self.offer(id);
            if is_late {
                self.sweep_some(&queue, PUT_ENDS_MAX);
            }
        }
    }

    /// Records all jobs of one put together. After a crash, all of these jobs exist, or none.
    fn record_together(&mut self, ids: &[u64]) -> Need {
        let logged: Vec<u64> =
            ids.iter().copied().filter(|id| self.jobs[id].kind == JobKind::Logged).collect();
        if logged.is_empty() {
            return 0;
        }
        let images = logged.iter().map(|id| (*id, super::StoredJob::of(&self.jobs[id]))).collect();
        // Each queue's policy says how durable its job must be. The record counts as strict only if
        // all these queues are strict.
        let is_strict = logged.iter().all(|id| self.is_strict(&self.jobs[id].queue));
        let need = self.history.note(Record::PutMany(images), is_strict);
        for id in logged {
            let job = self.job_mut(id);
            job.need = need;
            let queue = job.queue.clone();
            self.history.note_jobs_of(&queue, need);
        }
        need
    }

    /// Makes room for one more job in a queue.
    pub(super) fn admit(&mut self, queue: &Name, offer: Offer<'_>) -> Result<Admitted, Refused> {
        self.sweep_some(queue, PUT_ENDS_MAX);
        self.check_size(queue, offer.body.len())?;
        let mut admitted = self.check_unique(queue, offer)?;
        if let Admitted::New(_, group) = &mut admitted {
            self.make_room(queue, offer.body.len())?;
            *group = self.group_key_for(queue, offer);
        }
        Ok(admitted)
    }

    pub(super) fn make_room(&mut self, queue: &Name, body_len: usize) -> Result<(), Refused> {
        self.check_size(queue, body_len)?;
        if !self.is_over_limit(queue) {
            return Ok(());
        }
        if self.queues[queue].policy.when_full != WhenFull::DropOldest {
            return Err(Refused::QueueFull);
        }
        for _ in 0..PUT_ENDS_MAX {
            let oldest = self.oldest_of_the_least_urgent(queue).ok_or(Refused::QueueFull)?;
            self.guarded(queue, |model| model.end_or_set_aside(oldest, Unserved::Dropped));
            if !self.is_over_limit(queue) {
                break;
            }
        }
        Ok(())
    }

    /// Makes room for a longer body of a ready job. Returns false if the job must be dropped first.
    pub(super) fn make_room_to_grow(
        &mut self,
        queue: &Name,
        id: u64,
        body_len: usize,
    ) -> Result<bool, Refused> {
        let own = self.jobs[&id].body.len();
        for dropped in 0..PUT_ENDS_MAX {
            if body_len <= own || !self.is_over_bytes(queue, own as u64) {
                break;
            }
            if self.queues[queue].policy.when_full != WhenFull::DropOldest {
                return Err(Refused::QueueFull);
            }
            let oldest = self.oldest_of_the_least_urgent(queue).ok_or(Refused::QueueFull)?;
            if oldest == id {
                return Ok(dropped > 0);
            }
            self.guarded(queue, |model| model.end_or_set_aside(oldest, Unserved::Dropped));
        }
        Ok(true)
    }

    fn oldest_of_the_least_urgent(&self, queue: &Name) -> Option<u64> {
        let keys = || self.ready_keys(queue);
        let worst = keys().map(|((pri, _), _)| pri).max()?;
        keys().filter(|((pri, _), _)| *pri == worst).min().map(|(_, id)| id)
    }

    /// Checks that a queue has room as it is.
    pub(super) fn check_room(&self, queue: &Name, body_len: usize) -> Result<(), Refused> {
        self.check_size(queue, body_len)?;
        let is_full = self.is_over_limit(queue) || self.room_is_kept(queue, None);
        if is_full { Err(Refused::QueueFull) } else { Ok(()) }
    }

    pub(super) fn check_size(&self, queue: &Name, body_len: usize) -> Result<(), Refused> {
        let most = self.queues[queue].policy.item_bytes_max;
        let is_too_big = most.is_some_and(|most| body_len as u64 > most);
        if is_too_big { Err(Refused::TooBig) } else { Ok(()) }
    }

    pub(super) fn is_over_limit(&self, queue: &Name) -> bool {
        let jobs_max = self.queues[queue].policy.jobs_max;
        let count = self.ready_of(queue).count() as u64;
        jobs_max.is_some_and(|most| count >= most) || self.is_over_bytes(queue, 0)
    }

    /// True if the ready jobs of a queue would have too many bytes without so many of them.
    fn is_over_bytes(&self, queue: &Name, without: u64) -> bool {
        let bytes: usize = self.ready_of(queue).map(|job| job.body.len()).sum();
        let bytes_max = self.queues[queue].policy.bytes_max;
        bytes_max.is_some_and(|most| bytes as u64 - without >= most)
    }

    fn ready_of(&self, queue: &Name) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(move |job| job.state == State::Ready && job.queue == *queue)
    }

    /// Calls `act`. The queue is not dropped before `act` returns.
    pub(super) fn guarded<T>(&mut self, queue: &Name, act: impl FnOnce(&mut Self) -> T) -> T {
        self.guards.push(queue.clone());
        let done = act(self);
        self.guards.pop();
        done
    }

    /// Moves a ready or delayed job to the end of another queue. The time of the move replaces the
    /// time of its put. `as_record` makes the record of the change.
    pub(super) fn reroute(&mut self, id: u64, to: &Name, as_record: fn(u64, StoredJob) -> Record) {
        let now = self.now;
        self.relocate(id, to, (now, None), as_record);
    }

    /// Moves a job to the end of another queue. It counts as put at the moment `created`, and is a
    /// dead letter if `death` is given.
    pub(super) fn relocate(
        &mut self,
        id: u64,
        to: &Name,
        (created, death): (u64, Option<Death>),
        as_record: fn(u64, StoredJob) -> Record,
    ) {
        self.rerouted.push(id);
        let order = self.next_id;
        self.next_id += 1;
        let job = self.job_mut(id);
        // The move does not change whether the log has the job.
        let (from, kind) = (std::mem::replace(&mut job.queue, to.clone()), job.kind);
        (job.created, job.order, job.expires) = (created, order, None);
        (job.attempts, job.death) = (0, death);
        self.queue_mut(to).puts += 1;
        if kind == JobKind::Logged {
            self.record(id, as_record);
            let need = self.jobs[&id].need;
            self.history.note_jobs_of(&from, need);
        }
        if self.jobs[&id].state == State::Ready {
            self.offer(id);
        } else {
            self.keep_slot(to, id);
        }
        self.drop_queue_if_unwanted(&from);
    }
}

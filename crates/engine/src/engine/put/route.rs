//! The route of a put: all queues that the put goes to. The route begins with the queue that the
//! put names, or with the destinations of an alias. The children and copies of these queues follow.
//! This file also decides whether a queue has room.

use std::collections::BTreeSet;

use crate::effects::{Effects, Record};
use crate::engine::Engine;
use crate::engine::dead_letters::Unserved;
use crate::engine::put::{Admitted, KnownKeys, Offer};
use crate::ids::{JobId, JobSlot, QueueId, SessionId};
use crate::jobs::{Body, Draft, JobKind, PutKeys, State};
use crate::limits::PUT_ENDS_MAX;
use crate::policy::{Name, Policy, QueueSync, WhenFull};

/// Why a queue refuses a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The queue has reached a limit of its policy.
    #[error("the queue is full")]
    QueueFull,
    /// The body is larger than the policy of the queue allows.
    #[error("the body is larger than the queue takes")]
    TooBig,
    /// Another job has the key of the put, and the policy `unique` of the queue says `refuse`.
    #[error("the queue has a job with the same key")]
    Duplicate,
}

/// The reason why a queue is on the route of a put.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Role {
    /// The put names this queue, or an alias with this destination. The put fails if this queue has
    /// no room.
    Requested,
    /// The queue is a child of a requested queue. The child gets the job even if the requested
    /// queue has no room (spec kestrel 3.4).
    Child,
    /// The queue gets a copy of a job, because a requested queue or a child leads to this queue
    /// through `route.copy_to`. `of` is the index of the requested queue or child in
    /// `Route::stops`. If the requested queue or child has no room, this queue gets no copy.
    Copy { of: usize },
}

/// A stop: a queue on the route of a put.
#[derive(Copy, Clone, Debug)]
struct Stop {
    queue: QueueId,
    role: Role,
    /// Whether the queue stores the job. If not, it only passes the job on to other queues.
    stores: bool,
}

/// The queues that one put goes to. Each queue is on the route once.
#[derive(Debug, Default)]
pub(in crate::engine) struct Route {
    stops: Vec<Stop>,
    /// The requested queues. A requested queue can also be a child or a copy of another requested
    /// queue.
    requested: Vec<QueueId>,
    aliases: BTreeSet<Name>,
    /// All queues on the route, including queues that store no job. The route holds them, so that
    /// none of them vanishes during the put.
    seen: BTreeSet<QueueId>,
    /// Whether the engine marks each queue on the route as a queue of items.
    items: bool,
}

impl Route {
    /// The first queue that the put names, if it stores jobs. Otherwise the first one on the route that
    /// does.
    pub(in crate::engine) fn first_queue(&self) -> Option<QueueId> {
        let stores =
            |queue: &QueueId| self.stops.iter().any(|stop| stop.queue == *queue && stop.stores);
        let fed = self.stops.iter().find(|stop| stop.stores).map(|stop| stop.queue);
        self.requested.first().copied().filter(stores).or(fed)
    }
}

/// The result of a put along a route.
#[derive(Debug, Default)]
pub(in crate::engine) struct Routed {
    /// The job of the first requested queue that accepted the put.
    pub(crate) requested: Option<JobSlot>,
    /// The job of the first requested queue that did not store the put, because this job has its key.
    pub(crate) same: Option<JobId>,
    /// The job that has ended, but whose key the first such requested queue still keeps.
    pub(crate) ended: Option<JobId>,
    /// The first job that a queue on the route stored.
    pub(crate) first: Option<JobSlot>,
    /// The job that the [first queue](Route::first_queue) stored.
    pub(crate) in_first_queue: Option<JobSlot>,
    /// The reason why a requested queue refused the put.
    pub(crate) refused: Option<Refused>,
}

impl Engine {
    /// Whether a put under this name can go to other queues than the queue of this name.
    pub fn feeds_others(&self, name: &[u8]) -> bool {
        match self.queue_id(name) {
            Some(id) => {
                let extension = self.queues[id].extension();
                extension.is_some_and(|extension| !extension.is_single())
            }
            None => !self.rules.rules().0.is_empty() || self.queues.children(name).is_some(),
        }
    }

    /// Whether a put under this name can make a job that the log stores. If so, the log needs room
    /// for the put.
    pub fn puts_are_logged(&self, name: &[u8]) -> bool {
        // A new queue is not in memory only, unless a rule says so, and then the put may feed others.
        let Some(id) = self.queue_id(name) else { return true };
        self.queues[id].extension().is_none_or(|extension| {
            !extension.is_single() || extension.policy().sync != Some(QueueSync::Memory)
        })
    }

    /// All queues that a put under this name goes to.
    pub(in crate::engine) fn route_to(
        &mut self,
        name: &[u8],
        items: bool,
        effects: &mut Effects,
    ) -> Route {
        let mut route = Route { items, ..Route::default() };
        self.collect_required(name, &mut route, effects);
        for at in 0..route.requested.len() {
            self.collect_copies_of(route.requested[at], Role::Requested, &mut route, effects);
        }
        route
    }

    /// Adds the requested queues to the route. If the name is an alias, the requested queues are
    /// all destinations of the alias. The put fails if one of the requested queues has no room.
    fn collect_required(&mut self, name: &[u8], route: &mut Route, effects: &mut Effects) {
        let Some(destinations) = self.destinations(name, route) else {
            return route.requested.push(self.find_or_create(name, route, effects));
        };
        for destination in destinations {
            self.collect_required(&destination, route, effects);
        }
    }

    fn collect_copies(
        &mut self,
        name: &[u8],
        role: Role,
        route: &mut Route,
        effects: &mut Effects,
    ) {
        let Some(destinations) = self.destinations(name, route) else {
            let id = self.find_or_create(name, route, effects);
            return self.collect_copies_of(id, role, route, effects);
        };
        for destination in destinations {
            self.collect_copies(&destination, role, route, effects);
        }
    }

    /// The destinations of an alias. The list is empty if the route already has this alias, so that
    /// a put cannot go in a circle. The check of new rules refuses most circles. But a pattern with
    /// wildcards matches any number of names, and the check cannot follow all these names. `None`:
    /// the name is a queue.
    fn destinations(&self, name: &[u8], route: &mut Route) -> Option<Box<[Name]>> {
        let destinations = self.alias(name)?;
        let is_new = route.aliases.insert(self.real_name(name).into());
        Some(if is_new { destinations } else { Box::default() })
    }

    fn find_or_create(&mut self, name: &[u8], route: &Route, effects: &mut Effects) -> QueueId {
        if route.items { self.item_queue(name, effects) } else { self.queue_or_create(name) }
    }

    fn collect_copies_of(
        &mut self,
        id: QueueId,
        role: Role,
        route: &mut Route,
        effects: &mut Effects,
    ) {
        if !route.seen.insert(id) {
            return;
        }
        self.meter.count(1);
        // Hold the queue until the end of the put. Otherwise the queue could vanish during the put.
        // For example, an expired job of another stop moves here and finds no room. Then the engine
        // drops this queue, because nothing needs it.
        self.queues[id].hold();
        let role = if route.requested.contains(&id) { Role::Requested } else { role };
        let queue = &self.queues[id];
        let Some(extension) = queue.extension() else {
            return route.stops.push(Stop { queue: id, role, stores: true });
        };
        let Policy { fanout_only, copy_to, .. } = &extension.policy();
        let (stores, copy_to) = (!*fanout_only, copy_to.clone());
        let children = self.queues.children(queue.name()).filter(|_| extension.parent());
        let children: Vec<QueueId> = children.into_iter().flatten().copied().collect();
        let of_child = match role {
            Role::Requested | Role::Child => Role::Child,
            Role::Copy { .. } => role,
        };
        for child in children {
            if self.rules.have_aliases() {
                let name = self.queues[child].owned_name();
                self.collect_copies(&name, of_child, route, effects);
            } else {
                self.collect_copies_of(child, of_child, route, effects);
            }
        }
        let of_copy = match role {
            Role::Requested | Role::Child => Role::Copy { of: route.stops.len() },
            Role::Copy { .. } => role,
        };
        route.stops.push(Stop { queue: id, role, stores });
        for copy in copy_to {
            self.collect_copies(&copy, of_copy, route, effects);
        }
    }

    /// Puts one job into each queue on the route that stores jobs and has room. `unique`: the key of a
    /// submit. `client`: the session whose client puts the job.
    pub(in crate::engine) fn put_along(
        &mut self,
        route: Route,
        draft: &Draft,
        (unique, client): (&[u8], Option<SessionId>),
        effects: &mut Effects,
    ) -> Routed {
        let body_bytes = draft.body.len();
        for alias in &route.aliases {
            self.rules.count_alias(alias, body_bytes);
        }
        let known_keys = KnownKeys::default();
        let mut routed = Routed::default();
        let first_queue = route.first_queue();
        let mut slots = Vec::with_capacity(route.stops.len());
        let mut has_room = Vec::with_capacity(route.stops.len());
        for &Stop { queue, role, stores } in &route.stops {
            let is_fed = match role {
                Role::Requested | Role::Child => true,
                Role::Copy { of } => has_room[of],
            };
            let admitted = if !is_fed {
                Err(Refused::QueueFull)
            } else if stores {
                let is_watched =
                    draft.foreground && role == Role::Requested && routed.requested.is_none();
                let is_alone = route.stops.len() == 1;
                self.admit(
                    queue,
                    Offer {
                        draft: Some(draft),
                        body: &draft.body,
                        unique,
                        client,
                        is_watched,
                        is_alone,
                        is_requested: role == Role::Requested,
                        keys: &known_keys,
                    },
                    effects,
                )
            } else {
                // The queue stores no job, so only the size of the body is checked (spec kestrel
                // 3.1).
                self.check_size(queue, body_bytes).map(|()| Admitted::New(PutKeys::default()))
            };
            // A job that is there already has its copies.
            has_room.push(matches!(admitted, Ok(Admitted::New(_))));
            match admitted {
                Ok(Admitted::New(keys)) if stores => {
                    let is_watched =
                        draft.foreground && role == Role::Requested && routed.requested.is_none();
                    let kind = if is_watched { JobKind::Watched } else { self.kind_in(queue) };
                    let slot = self.insert_job(queue, draft.clone(), kind);
                    self.set_keys(slot, keys);
                    slots.push(slot);
                    if Some(queue) == first_queue {
                        routed.in_first_queue = Some(slot);
                    }
                    if role == Role::Requested {
                        routed.requested = routed.requested.or(Some(slot));
                    }
                }
                Ok(Admitted::Same(slot)) if role == Role::Requested => {
                    routed.same = routed.same.or(Some(self.jobs[slot].id()));
                }
                Ok(Admitted::Ended(id)) if role == Role::Requested => {
                    routed.ended = routed.ended.or(Some(id));
                }
                Err(refused) if role == Role::Requested => {
                    routed.refused = routed.refused.or(Some(refused));
                }
                Err(_) if is_fed => self.discard_one(queue),
                Ok(Admitted::New(_) | Admitted::Same(_) | Admitted::Ended(_)) | Err(_) => {}
            }
        }
        routed.first = slots.first().copied();
        let is_logged = |slot: &JobSlot| self.jobs[*slot].is_logged();
        let logged = slots.iter().filter(|slot| is_logged(slot));
        let logged: Box<[(JobSlot, JobId)]> =
            logged.map(|slot| (*slot, self.jobs[*slot].id())).collect();
        match *logged {
            [] => {}
            [(slot, _)] => self.note(Record::Put, slot, effects),
            [..] => effects.records.push(Record::PutMany(logged)),
        }
        for slot in slots {
            // The end of one wait can cost thousands of units, and a put can end one wait in each
            // queue. So the queues' timers end the other waits.
            if !self.leave_to_timer(slot) {
                self.list_new_job(slot, effects);
            }
        }
        for queue in route.seen {
            self.queues[queue].release();
            // A queue that was made for this route vanishes now if it got no job.
            self.drop_if_unwanted(queue, effects);
        }
        routed
    }

    fn discard_one(&mut self, queue: QueueId) {
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.discarded += 1;
        }
    }

    /// Looks for a job with the key of a put, and makes room for one more job in the queue, as its
    /// policy says. First ends expired jobs at the head.
    pub(in crate::engine) fn admit(
        &mut self,
        queue: QueueId,
        offer: Offer<'_>,
        effects: &mut Effects,
    ) -> Result<Admitted, Refused> {
        let Some(extension) = self.queues[queue].extension() else {
            return Ok(Admitted::New(PutKeys::default()));
        };
        let policy = extension.policy();
        let (is_unique, has_group) = (policy.unique.by.is_some(), policy.group_key().is_some());
        let body_bytes = offer.body.len();
        self.sweep(queue, PUT_ENDS_MAX, effects);
        let mut admitted = Admitted::New(PutKeys::default());
        let mut lacks_key = false;
        if is_unique {
            self.check_size(queue, body_bytes)?;
            if let Some(key) = self.key_for(queue, offer) {
                admitted = self.check_unique(queue, key, offer, effects)?;
            } else {
                lacks_key = true;
            }
        }
        // A full queue has room for a job that it has already.
        if let Admitted::New(keys) = &mut admitted {
            self.make_room(queue, body_bytes, effects)?;
            // A copy gets what room there is: nobody could put it again.
            if offer.is_requested && self.room_is_kept(queue, offer.client) {
                return Err(Refused::QueueFull);
            }
            if has_group {
                keys.group = self.group_key_for(queue, offer);
                lacks_key |= keys.group.is_none();
            }
        }
        self.tally.keyless += u64::from(lacks_key);
        Ok(admitted)
    }

    /// Makes room for one more job in a queue, as its policy says. Does not end expired jobs.
    pub(in crate::engine) fn make_room(
        &mut self,
        queue: QueueId,
        body_bytes: usize,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        self.check_size(queue, body_bytes)?;
        let Some(policy) = self.policy_of(queue) else { return Ok(()) };
        if !self.is_full(queue) {
            return Ok(());
        }
        match policy.when_full {
            // The owner has asked whether the put must wait.
            WhenFull::Refuse | WhenFull::Block => Err(Refused::QueueFull),
            WhenFull::DropOldest => {
                for _ in 0..PUT_ENDS_MAX {
                    let Some(oldest) = self.oldest_of_the_least_urgent(queue) else {
                        return Err(Refused::QueueFull);
                    };
                    self.drop_job(queue, oldest, effects);
                    if !self.is_full(queue) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Makes room for a longer body of a ready job, as the policy of its queue says. The limit counts as
    /// for a put into the queue without this job. Returns false if the job must be dropped first. Then
    /// a put makes room by dropping it, and makes a new job.
    pub(super) fn make_room_to_grow(
        &mut self,
        slot: JobSlot,
        body_bytes: usize,
        effects: &mut Effects,
    ) -> Result<bool, Refused> {
        let job = &self.jobs[slot];
        let (queue, own_bytes) = (job.queue(), job.body_len());
        for dropped in 0..PUT_ENDS_MAX {
            if body_bytes <= own_bytes || !self.is_full_of_bytes(queue, own_bytes as u64) {
                break;
            }
            if self.policy_of(queue).is_none_or(|policy| policy.when_full != WhenFull::DropOldest) {
                return Err(Refused::QueueFull);
            }
            let oldest = self.oldest_of_the_least_urgent(queue).ok_or(Refused::QueueFull)?;
            if oldest == slot {
                return Ok(dropped > 0);
            }
            self.drop_job(queue, oldest, effects);
        }
        Ok(true)
    }

    /// Checks that a queue has room for a job as it is, even if a put could make room. The job does not
    /// pass puts that wait.
    pub(in crate::engine) fn check_room(
        &self,
        queue: QueueId,
        body_bytes: usize,
    ) -> Result<(), Refused> {
        self.check_size(queue, body_bytes)?;
        if self.lacks_room(queue, (0, 0)) { Err(Refused::QueueFull) } else { Ok(()) }
    }

    /// Whether a put that does not wait would find no room in a queue without so many of its ready jobs
    /// and their bytes: the queue is full, or other puts wait.
    fn lacks_room(&self, queue: QueueId, without: (u64, u64)) -> bool {
        self.is_full_without(queue, without) || self.room_is_kept(queue, None)
    }

    /// Whether the queue of this name refuses a put that does not wait: it lacks room, and its policy
    /// drops no jobs.
    pub fn is_full_for_puts(&self, name: &[u8]) -> bool {
        let refuses = |queue: &QueueId| {
            let policy = self.policy_of(*queue);
            policy.is_some_and(|policy| policy.when_full != WhenFull::DropOldest)
        };
        let queue = self.queue_id(name).filter(refuses);
        queue.is_some_and(|queue| self.lacks_room(queue, (0, 0)))
    }

    /// Checks that a body is not larger than a queue's policy allows.
    pub(super) fn check_size(&self, queue: QueueId, body_bytes: usize) -> Result<(), Refused> {
        let most = self.policy_of(queue).and_then(|policy| policy.item_bytes_max);
        let is_too_big = most.is_some_and(|most| body_bytes as u64 > most);
        if is_too_big { Err(Refused::TooBig) } else { Ok(()) }
    }

    pub(super) fn is_full(&self, queue: QueueId) -> bool {
        self.is_full_without(queue, (0, 0))
    }

    /// Whether a queue would be full without so many of its ready jobs, and so many bytes of bodies.
    fn is_full_without(&self, queue: QueueId, (ready, bytes): (u64, u64)) -> bool {
        let jobs_max = self.policy_of(queue).and_then(|policy| policy.jobs_max);
        let jobs = u64::from(self.queues[queue].counts().ready).saturating_sub(ready);
        jobs_max.is_some_and(|most| jobs >= most) || self.is_full_of_bytes(queue, bytes)
    }

    /// Whether the ready jobs of a queue would have too many bytes without so many of them.
    fn is_full_of_bytes(&self, queue: QueueId, without: u64) -> bool {
        let bytes_max = self.policy_of(queue).and_then(|policy| policy.bytes_max);
        let bytes = self.queues[queue].counts().bytes.saturating_sub(without);
        bytes_max.is_some_and(|most| bytes >= most)
    }

    /// Whether a put of this body is refused by a queue, or makes no job there, only because of this
    /// job.
    pub(in crate::engine) fn keeps_out(&self, slot: JobSlot, queue: QueueId, body: &Body) -> bool {
        let job = &self.jobs[slot];
        if job.queue() != queue || self.check_size(queue, body.len()).is_err() {
            return false;
        }
        let Some(policy) = self.policy_of(queue) else { return false };
        let key = self.key_for(queue, Offer::of_key(body, b"", &KnownKeys::default()));
        let is_taken = |except| key.is_some_and(|key| self.is_taken(queue, key, except));
        let refuses = policy.when_full != WhenFull::DropOldest;
        // The limits of a queue count only ready jobs.
        let own = match job.state() {
            State::Ready => (1, job.body_len() as u64),
            State::Delayed | State::Leased | State::Buried => (0, 0),
        };
        let is_out = is_taken(None) || refuses && self.is_full(queue);
        is_out && !is_taken(Some(job.id())) && !(refuses && self.lacks_room(queue, own))
    }

    fn oldest_of_the_least_urgent(&self, queue: QueueId) -> Option<JobSlot> {
        let ready = &self.queues[queue].ready();
        let ((rank, _), _) = ready.last()?;
        ready.first_from((rank, 0)).map(|(_, slot)| JobSlot(slot))
    }

    /// Ends a job of a queue to make room, or makes it a dead letter. The queue does not vanish, even if
    /// this was its last job.
    fn drop_job(&mut self, queue: QueueId, slot: JobSlot, effects: &mut Effects) {
        if !self.has_stayed(slot) {
            self.discard_one(queue);
        }
        self.queues[queue].hold();
        self.end_or_set_aside(slot, Unserved::Dropped, effects);
        self.queues[queue].release();
        self.arm_queue(queue);
    }
}

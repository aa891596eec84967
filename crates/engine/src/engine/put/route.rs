//! Where a put goes: the queue it names, the children and copies that this one feeds, or the
//! destinations of an alias; and whether they have room for it.

use std::collections::BTreeSet;

use crate::effects::{Effects, News, Record};
use crate::engine::Engine;
use crate::ids::{JobId, JobSlot, QueueId};
use crate::jobs::{Draft, JobKind};
use crate::limits::PUT_ENDS_MAX;
use crate::policy::{Name, Policy, QueueSync, WhenFull};
use crate::queues::Extension;

/// Why a queue does not take a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// It has as much as it may have.
    #[error("the queue is full")]
    QueueFull,
    /// The body is larger than its policy lets it be.
    #[error("the body is larger than the queue takes")]
    TooBig,
}

/// Why a queue is among those that a put goes to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Role {
    /// The put names it, or an alias that the put names: it fails if this queue has no room.
    Requested,
    /// It is a child of one that is asked. It gets the put also if that one has no room
    /// (spec kestrel 3.4).
    Child,
    /// It gets copies of the stop with this index, if that one has room.
    Copy { of: usize },
}

/// A queue on the way of a put.
#[derive(Copy, Clone, Debug)]
struct Stop {
    queue: QueueId,
    role: Role,
    /// What is put stays there, too, and not only with those that it feeds.
    stores: bool,
}

/// The queues that one put goes to, each once.
#[derive(Debug, Default)]
pub(in crate::engine) struct Route {
    stops: Vec<Stop>,
    /// Those that are asked, which may also be met as children or copies of each other.
    requested: Vec<QueueId>,
    aliases: BTreeSet<Name>,
    /// All queues that were met, also those that only feed others; they do not vanish meanwhile.
    seen: BTreeSet<QueueId>,
    /// Queues on the way are marked as queues of items.
    items: bool,
}

/// What became of a put that went to several queues.
pub(in crate::engine) struct Routed {
    /// The job of the first queue that was asked and took it.
    pub(crate) requested: Option<JobSlot>,
    /// The first job, if any queue took it.
    pub(crate) first: Option<JobSlot>,
    /// Why one that was asked did not.
    pub(crate) refused: Option<Refused>,
}

impl Engine {
    /// Whether a put to this name may go to others besides, or instead.
    pub fn feeds_others(&self, name: &[u8]) -> bool {
        match self.queue_id(name) {
            Some(id) => {
                let extension = self.queues[id].extension();
                extension.is_some_and(|extension| !extension.is_single())
            }
            None => !self.rules.rules().0.is_empty() || self.queues.children(name).is_some(),
        }
    }

    /// Whether a put to this name may be of more than a job in memory, so that the log needs room.
    pub fn puts_are_logged(&self, name: &[u8]) -> bool {
        self.feeds_others(name) || self.policy(name).sync != Some(QueueSync::Memory)
    }

    /// All queues that a put to this name goes to.
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

    /// Finds the queues that a put fails without.
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

    /// Where an alias on the way leads to, nowhere if it was met before: rules that send a put in a
    /// circle are refused, but only as far as names can be foreseen. `None`: it is a queue.
    fn destinations(&self, name: &[u8], route: &mut Route) -> Option<Box<[Name]>> {
        let destinations = self.alias(name)?;
        let is_new = route.aliases.insert(name.into());
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
        // Held until the put is done: what expires on the way may come here, be refused and drop it.
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

    /// Puts one job into each queue of the way, as far as they have room.
    pub(in crate::engine) fn put_along(
        &mut self,
        route: Route,
        draft: &Draft,
        effects: &mut Effects,
    ) -> Routed {
        let body_bytes = draft.body.len();
        for alias in route.aliases {
            self.rules.count_alias(&alias, body_bytes);
        }
        let mut routed = Routed { requested: None, first: None, refused: None };
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
                self.admit(queue, body_bytes, effects)
            } else {
                // The size is looked at before anything else (spec kestrel 3.1).
                self.check_size(queue, body_bytes)
            };
            has_room.push(admitted.is_ok());
            match admitted {
                Ok(()) if stores => {
                    let is_watched =
                        draft.foreground && role == Role::Requested && routed.requested.is_none();
                    let kind = if is_watched { JobKind::Watched } else { self.kind_in(queue) };
                    let slot = self.insert_job(queue, draft.clone(), kind);
                    slots.push(slot);
                    if role == Role::Requested {
                        routed.requested = routed.requested.or(Some(slot));
                    }
                }
                Err(refused) if role == Role::Requested => {
                    routed.refused = routed.refused.or(Some(refused));
                }
                Err(_) if is_fed => self.discard_one(queue),
                Ok(()) | Err(_) => {}
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
            self.list_new_job(slot, effects);
        }
        for queue in route.seen {
            self.queues[queue].release();
            // One that was made on the way, and got nothing, goes again.
            self.drop_if_unwanted(queue, effects);
        }
        routed
    }

    fn discard_one(&mut self, queue: QueueId) {
        if let Some(extension) = self.queues[queue].extension_mut() {
            extension.discarded += 1;
        }
    }

    /// Sees to it that a queue has room for one job more, as its policy says.
    pub(in crate::engine) fn admit(
        &mut self,
        queue: QueueId,
        body_bytes: usize,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        if self.queues[queue].extension().is_none() {
            return Ok(());
        }
        self.sweep(queue, PUT_ENDS_MAX, effects);
        self.make_room(queue, body_bytes, effects)
    }

    /// The same, without a look at jobs that have expired.
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
            WhenFull::Refuse => Err(Refused::QueueFull),
            WhenFull::DropOldest => {
                for _ in 0..PUT_ENDS_MAX {
                    let Some(oldest) = self.oldest_of_the_least_urgent(queue) else {
                        return Err(Refused::QueueFull);
                    };
                    self.discard_one(queue);
                    self.end_in(queue, oldest, effects);
                    if !self.is_full(queue) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether a body is not larger than a queue's policy lets it be.
    fn check_size(&self, queue: QueueId, body_bytes: usize) -> Result<(), Refused> {
        let most = self.policy_of(queue).and_then(|policy| policy.item_bytes_max);
        let is_too_big = most.is_some_and(|most| body_bytes as u64 > most);
        if is_too_big { Err(Refused::TooBig) } else { Ok(()) }
    }

    fn is_full(&self, queue: QueueId) -> bool {
        let queue = &self.queues[queue];
        let Some(Policy { jobs_max, bytes_max, .. }) = queue.extension().map(Extension::policy)
        else {
            return false;
        };
        jobs_max.is_some_and(|most| u64::from(queue.counts().ready) >= most)
            || bytes_max.is_some_and(|most| queue.counts().bytes >= most)
    }

    fn oldest_of_the_least_urgent(&self, queue: QueueId) -> Option<JobSlot> {
        let ready = &self.queues[queue].ready();
        let ((rank, _), _) = ready.last()?;
        ready.first_from((rank, 0)).map(|(_, slot)| JobSlot(slot))
    }

    /// Ends a job of a queue that must not vanish for it.
    pub(in crate::engine) fn end_in(
        &mut self,
        queue: QueueId,
        slot: JobSlot,
        effects: &mut Effects,
    ) {
        self.queues[queue].hold();
        self.end_job(slot, &News::Fail, effects);
        self.queues[queue].release();
        self.arm_queue(queue);
    }
}

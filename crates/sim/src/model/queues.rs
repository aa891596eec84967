//! Queues of the model: why they exist, which facts are in the log, and pauses.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::beanstalk::is_name;
use super::gates::Gates;
use super::record::Record;
use super::{Facts, Model, Name, Need, Pause, Place, Queue, State};

impl Model {
    /// The name of the queue that this name stands for.
    pub(super) fn real_name(&self, name: &str) -> String {
        let real = self.rules.real_name(name.as_bytes());
        real.map_or_else(|| name.to_owned(), |real| super::policies::text(&real))
    }

    /// The queue that this name stands for, if it exists.
    pub(super) fn queue_named(&self, name: &str) -> Option<Name> {
        self.queues.get_key_value(&*self.real_name(name)).map(|(name, _)| name.clone())
    }

    /// Returns the queue that this name stands for. Creates the queue if it does not exist.
    pub(super) fn create_queue(&mut self, name: &str) -> Name {
        let name = &*self.real_name(name);
        if let Some((name, _)) = self.queues.get_key_value(name) {
            return name.clone();
        }
        let name: Name = name.into();
        let place = self.free_queue_places.pop().unwrap_or(self.queues.len() as Place);
        let age = self.next_age;
        self.next_age += 1;
        let gates = Gates::new(self.now);
        let queue = Queue {
            place,
            age,
            pause: None,
            puts: 0,
            deletes: 0,
            pauses: 0,
            facts: Facts::default(),
            sleepers: BTreeMap::new(),
            policy: Rc::default(),
            gates,
            phase: None,
            lanes: BTreeMap::new(),
            lanes_empty_at: self.now,
            first_lease: 0,
            next_turn: 0,
            extra_since: None,
            sweep_rests_until: 0,
            last_read: None,
        };
        self.queues.insert(name.clone(), queue);
        if !self.children_of(&name).is_empty() {
            self.ensure_extra(&name);
        }
        self.resolve(&name);
        name
    }

    /// Drops a queue if nothing keeps it in existence (spec beanstalkd 6).
    pub(super) fn drop_queue_if_unwanted(&mut self, name: &Name) {
        if self.is_wanted(name) {
            return;
        }
        if let Some(queue) = self.queues.remove(name) {
            self.free_queue_places.push(queue.place);
        }
    }

    pub(crate) fn is_wanted(&self, name: &Name) -> bool {
        let uses = |conn: &super::Conn| {
            conn.used == *name || conn.watched.contains(name) || conn.worker.records(name) > 0
        };
        &**name == "default"
            || self.guards.contains(name)
            || self.is_waited_for(name)
            || self.queues.get(name).is_some_and(|queue| queue.facts.kept)
            || self.conns.values().any(uses)
            || self.jobs.values().any(|job| job.queue == *name)
    }

    /// Keeps the queue in existence until a client removes it.
    pub(super) fn keep_queue(&mut self, name: &Name) {
        let queue = self.queues.get_mut(name).expect("a queue of this moment");
        // The default queue always exists, so it needs no record.
        if !queue.facts.kept && &**name != "default" {
            queue.facts.kept = true;
            self.note_facts(name);
        }
    }

    pub(super) fn note_facts(&mut self, name: &Name) -> Need {
        let facts = self.queues[name].facts;
        // The record must be as durable as the jobs of the queue.
        let is_strict = self.is_strict(name);
        self.history.note(Record::Queue(name.clone(), facts), is_strict)
    }

    /// Executes `create function`. Returns the record that the reply depends on.
    pub(super) fn create_kept_queue(&mut self, name: &str) -> Need {
        let name = self.create_queue(name);
        let before = self.history.facts_need(&name);
        self.keep_queue(&name);
        self.history.facts_need(&name).max(before)
    }

    /// Executes `maxqueue`. Returns the record that the reply depends on. A queue with limits stays
    /// in existence.
    pub(super) fn limit_queue(&mut self, name: &str, limits: [u32; 3]) -> Need {
        let Some(name) = self.queue_named(name) else { return 0 };
        let queue = self.queues.get_mut(&name).expect("it was just found");
        queue.facts.limits = limits;
        queue.facts.kept |= limits != [0; 3] && &*name != "default";
        self.note_facts(&name)
    }

    /// The queues that beanstalkd clients can name.
    pub(crate) fn beanstalk_tubes(&self) -> Vec<Name> {
        self.queues.keys().filter(|name| is_name(name)).cloned().collect()
    }

    pub(super) fn queues_by_place(&self) -> Vec<Name> {
        let mut queues: Vec<_> = self.queues.iter().collect();
        queues.sort_by_key(|(_, queue)| queue.place);
        queues.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Copies what depends on the order in which queues lose their expired jobs at a start, because the model
    /// does not know this order: the places of the queues, the free places, the next one first, and when
    /// queues were made that were idle at the start.
    pub(crate) fn adopt_queues(
        &mut self,
        seen: impl Fn(&Name) -> Option<(Place, u64)>,
        free: impl Iterator<Item = Place>,
    ) {
        if self.now != self.setting.started {
            return;
        }
        for (name, queue) in &mut self.queues {
            let Some((place, created)) = seen(name) else { continue };
            queue.place = place;
            // Only a queue that ended at the start was made anew.
            let is_new = queue.facts.created == self.now || created == self.now;
            if is_new && queue.facts.is_items && queue.policy.idle_ms.is_some() {
                (queue.facts.created, queue.extra_since) = (created, Some(created));
            }
        }
        self.free_queue_places = free.collect();
        self.free_queue_places.reverse();
    }

    pub(super) fn queues_by_age(&self) -> Vec<Name> {
        let mut queues: Vec<_> = self.queues.iter().collect();
        queues.sort_by_key(|(_, queue)| queue.age);
        queues.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// True if the policy of a queue holds its jobs back: it pauses the queue, or its name is an alias.
    fn is_held_by_policy(&self, name: &Name) -> bool {
        self.is_paused_by_policy(name) || !self.queues[name].policy.alias.is_empty()
    }

    /// True if a pause or the policy of a queue holds its jobs back.
    pub(super) fn is_paused(&self, name: &Name) -> bool {
        let queue = &self.queues[name];
        self.is_held_by_policy(name) || queue.pause.is_some_and(|pause| pause.until > self.now)
    }

    pub(super) fn pause(&mut self, name: &str, seconds: u32) -> bool {
        let Some(name) = self.queue_named(name) else { return false };
        let until = self.now + u64::from(seconds) * 1000;
        let queue = self.queues.get_mut(&name).expect("it was just found");
        queue.pauses += 1;
        queue.pause = (seconds > 0).then_some(Pause { until, seconds });
        if seconds == 0 {
            self.serve_waiters(&name);
        }
        true
    }

    /// Gives ready jobs to waiting clients, after the queue can hand out jobs again.
    pub(super) fn serve_waiters(&mut self, queue: &Name) {
        while let Some(id) = self.first_ready(queue) {
            let is_shut =
                self.reads_blocked() || self.is_held_by_policy(queue) || self.is_shut(queue);
            if is_shut || self.is_expired(id) {
                return;
            }
            let Some(waiter) = self.first_waiter(queue) else {
                let jobs = self.ready_in(queue).count().min(self.openings(queue));
                return self.wake_sleepers(queue, jobs);
            };
            self.grant_to_waiter(waiter, id);
        }
    }

    /// The job that is handed out next, or else the first ready job, even if the queue is paused.
    pub(super) fn first_ready(&self, queue: &Name) -> Option<u64> {
        let first = || self.ready_keys(queue).min().map(|(_, id)| id);
        if self.is_keyed(queue) { self.first_eligible(queue).or_else(first) } else { first() }
    }

    /// The ids of the ready jobs of a queue.
    pub(super) fn ready_in(&self, queue: &Name) -> impl Iterator<Item = u64> {
        self.ready_keys(queue).map(|(_, id)| id)
    }

    /// The ready jobs of a queue, with the keys that order them.
    pub(super) fn ready_keys(&self, queue: &Name) -> impl Iterator<Item = ((u32, u64), u64)> {
        let ready = self.jobs.iter().filter(|(_, job)| job.state == State::Ready);
        let own = ready.filter(move |(_, job)| job.queue == *queue);
        let placed = own.filter(|(id, _)| !self.unplaced.contains(id));
        placed.map(|(id, job)| (job.key(), *id))
    }
}

//! Queues of the model: why they exist, what the log keeps of them, pauses.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::beanstalk::is_name;
use super::record::Record;
use super::{Facts, Model, Name, Need, Pause, Place, State, Tube};

impl Model {
    /// The tube of this name. Creates it if it does not exist.
    pub(super) fn create_tube(&mut self, name: &str) -> Name {
        if let Some((name, _)) = self.tubes.get_key_value(name) {
            return name.clone();
        }
        let name: Name = name.into();
        let place = self.free_tube_places.pop().unwrap_or(self.tubes.len() as Place);
        let age = self.next_age;
        self.next_age += 1;
        let tube = Tube {
            place,
            age,
            pause: None,
            puts: 0,
            deletes: 0,
            pauses: 0,
            facts: Facts::default(),
            sleepers: BTreeMap::new(),
            policy: Rc::default(),
            extra_since: None,
            timer: None,
            last_read: None,
        };
        self.tubes.insert(name.clone(), tube);
        if !self.children_of(&name).is_empty() {
            self.ensure_extra(&name);
        }
        self.resolve(&name);
        name
    }

    /// Destroys a tube that nothing keeps (spec beanstalkd 6).
    pub(super) fn drop_tube_if_unwanted(&mut self, name: &Name) {
        if self.is_wanted(name) {
            // From now on it can be idle, so its idle time must be checked.
            if self.tubes.get(name).is_some_and(|tube| tube.extra_since.is_some()) {
                self.arm(name);
            }
        } else if let Some(tube) = self.tubes.remove(name) {
            self.free_tube_places.push(tube.place);
        }
    }

    pub(crate) fn is_wanted(&self, name: &Name) -> bool {
        let uses = |conn: &super::Conn| {
            conn.used == *name || conn.watched.contains(name) || conn.worker.records(name) > 0
        };
        &**name == "default"
            || self.guards.contains(name)
            || self.tubes.get(name).is_some_and(|tube| tube.facts.kept)
            || self.conns.values().any(uses)
            || self.jobs.values().any(|job| job.tube == *name)
    }

    /// Keeps the queue until a client drops it.
    pub(super) fn keep_tube(&mut self, name: &Name) {
        let tube = self.tubes.get_mut(name).expect("a tube of this moment");
        // The default tube always exists, so it need not be kept.
        if !tube.facts.kept && &**name != "default" {
            tube.facts.kept = true;
            self.note_facts(name);
        }
    }

    pub(super) fn note_facts(&mut self, name: &Name) -> Need {
        let facts = self.tubes[name].facts;
        // The record must be as durable as the jobs in the queue.
        let is_strict = self.is_strict(name);
        self.history.note(Record::Queue(name.clone(), facts), is_strict)
    }

    /// `create function`. Returns the record that the reply depends on.
    pub(super) fn create_kept_tube(&mut self, name: &str) -> Need {
        let name = self.create_tube(name);
        let before = self.history.queue_need(&name);
        self.keep_tube(&name);
        self.history.queue_need(&name).max(before)
    }

    /// `maxqueue`. Returns the record that the reply depends on. A tube with limits is kept.
    pub(super) fn limit_tube(&mut self, name: &str, limits: [u32; 3]) -> Need {
        let Some((name, _)) = self.tubes.get_key_value(name) else { return 0 };
        let name = name.clone();
        let tube = self.tubes.get_mut(&name).expect("it was just found");
        tube.facts.limits = limits;
        tube.facts.kept |= limits != [0; 3] && &*name != "default";
        self.note_facts(&name)
    }

    /// Tubes that clients of beanstalkd can name.
    pub(crate) fn beanstalk_tubes(&self) -> Vec<Name> {
        self.tubes.keys().filter(|name| is_name(name)).cloned().collect()
    }

    pub(super) fn tubes_by_place(&self) -> Vec<Name> {
        let mut tubes: Vec<_> = self.tubes.iter().collect();
        tubes.sort_by_key(|(_, tube)| tube.place);
        tubes.into_iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn tubes_by_age(&self) -> Vec<Name> {
        let mut tubes: Vec<_> = self.tubes.iter().collect();
        tubes.sort_by_key(|(_, tube)| tube.age);
        tubes.into_iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn is_paused(&self, name: &Name) -> bool {
        self.tubes[name].pause.is_some_and(|pause| pause.until > self.now)
    }

    pub(super) fn pause(&mut self, name: &str, seconds: u32) -> bool {
        let Some((name, _)) = self.tubes.get_key_value(name) else { return false };
        let name = name.clone();
        let until = self.now + u64::from(seconds) * 1000;
        let tube = self.tubes.get_mut(&name).expect("it was just found");
        tube.pauses += 1;
        tube.pause = (seconds > 0).then_some(Pause { until, seconds });
        if seconds == 0 {
            self.serve_waiters(&name);
        }
        true
    }

    /// The tube can hand out jobs again.
    pub(super) fn serve_waiters(&mut self, tube: &Name) {
        while let Some(id) = self.first_ready(tube) {
            if self.reads_blocked() || self.is_expired(id) {
                return;
            }
            let Some(waiter) = self.first_waiter(tube) else {
                return self.wake_sleepers(tube, self.ready_in(tube).count());
            };
            self.grant_to_waiter(waiter, id);
        }
    }

    /// The first ready job, even if the tube is paused.
    pub(super) fn first_ready(&self, tube: &Name) -> Option<u64> {
        self.ready_keys(tube).min().map(|(_, id)| id)
    }

    /// The ready jobs of a tube, by number.
    pub(super) fn ready_in(&self, tube: &Name) -> impl Iterator<Item = u64> {
        self.ready_keys(tube).map(|(_, id)| id)
    }

    /// The ready jobs of a tube, and the keys that order them.
    pub(super) fn ready_keys(&self, tube: &Name) -> impl Iterator<Item = ((u32, u64), u64)> {
        let ready = self.jobs.iter().filter(|(_, job)| job.state == State::Ready);
        let own = ready.filter(move |(_, job)| job.tube == *tube);
        let placed = own.filter(|(id, _)| !self.unplaced.contains(id));
        placed.map(|(id, job)| (job.key(), *id))
    }
}

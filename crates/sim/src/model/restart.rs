//! The model after a restart: only what the log kept.

use super::{Estate, History, Job, Model, Name, Setting, Shelf, State};

/// What a new process found.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) estate: Estate,
    /// The next id that it will deal.
    pub(crate) next_id: u64,
    /// Its tubes, oldest first; the order in which jobs lie in the log is not the model's affair.
    pub(crate) tubes: Vec<Name>,
}

impl Model {
    /// Begins anew with what was recovered: reserved jobs are ready, delayed ones keep their time,
    /// pauses and counters of the process are gone.
    pub(crate) fn restart(&mut self, now: u64, setting: Setting, recovered: Recovered) {
        let mut model = Model::new(now, setting);
        for name in &recovered.tubes {
            let name = model.create_tube(name);
            let facts = recovered.estate.queues.get(&name).copied().unwrap_or_default();
            model.tubes.get_mut(&name).expect("it was just made").facts = facts;
        }
        model.next_id = recovered.next_id;
        model.next_lease = recovered.next_id;
        for (id, image) in &recovered.estate.jobs {
            let state = match image.shelf {
                Shelf::Ready => State::Ready,
                Shelf::Delayed { due } => State::Delayed { due },
                Shelf::Buried { order } => {
                    model.next_buried = model.next_buried.max(order + 1);
                    State::Buried { order }
                }
            };
            let job = Job {
                tube: image.tube.clone(),
                pri: image.pri,
                delay: image.delay,
                ttr: image.ttr,
                created: image.created,
                body: image.body.clone(),
                state,
                counts: image.counts,
                order: image.order,
                // What is set aside equals no other job.
                is_keyed: image.tags.is_some() && !matches!(state, State::Buried { .. }),
                tags: image.tags.clone(),
                is_durable: true,
                watchers: Vec::new(),
                progress: (0, 0),
                need: 0,
            };
            model.jobs.insert(*id, job);
        }
        model.history = History::default();
        model.history.restart(recovered.estate);
        if self.may_refuse {
            model.expect_shortage();
        }
        model.refusals = self.refusals;
        model.tally = self.tally;
        *self = model;
    }
}

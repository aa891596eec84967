//! Breaks promises of the server, if the options of the run request it.

use std::collections::BTreeSet;

use broker::{Answer, Event, JobId, State, Turn};

use super::World;
use crate::Sabotage;
use crate::model::Place;

/// The error of a wrong clock, in milliseconds.
const WRONG_BY_MS: u64 = 700;

impl World {
    /// Loses, doubles or swaps events before they are delivered.
    pub(crate) fn sabotage_events(&mut self) {
        let is_news = |event: &Answer<Event>| matches!(event.value, Event::News { .. });
        let is_end = |event: &Answer<Event>| matches!(&event.value, Event::News { news, .. } if news.is_end());
        for events in &mut self.process.events {
            match self.options.sabotage {
                Sabotage::LostWakeUps => {
                    events.retain(|(_, event)| !matches!(event.value, Event::WorkToDo));
                }
                Sabotage::LostEnds => events.retain(|(_, event)| !is_end(event)),
                Sabotage::DoubledEnds => {
                    if let Some(last) = events.back().filter(|(_, event)| is_end(event)) {
                        events.push_back(last.clone());
                    }
                }
                Sabotage::DisorderedNews => {
                    let newest = events.make_contiguous().last_chunk_mut();
                    if let Some([(one, first), (other, second)]) = newest
                        && one == other
                        && is_news(first)
                        && is_news(second)
                    {
                        let last = events.len() - 1;
                        events.swap(last - 1, last);
                    }
                }
                _ => {}
            }
        }
    }

    /// The time that the server uses.
    pub(crate) fn sabotaged_now(&self) -> u64 {
        match self.options.sabotage {
            Sabotage::FastClock => self.now + WRONG_BY_MS,
            Sabotage::SlowClock | Sabotage::LateExpiries => self.now.saturating_sub(WRONG_BY_MS),
            _ => self.now,
        }
    }

    /// When the server's timer fires. The timer of a slow server is slow, too.
    pub(crate) fn sabotaged_alarm(&self) -> Option<u64> {
        let is_slow = self.options.sabotage == Sabotage::LateExpiries;
        self.process.alarm.map(|alarm| if is_slow { alarm + WRONG_BY_MS } else { alarm })
    }

    /// Removes the jobs that a put created in children.
    pub(crate) fn sabotage_copies(&self, turn: &mut Turn<'_>) {
        if !matches!(self.options.sabotage, Sabotage::LostCopies | Sabotage::MissedCopies) {
            return;
        }
        let new = || self.model.jobs.iter().filter(|(_, job)| job.created == self.now);
        let is_in_parent = |(name, body): (&str, &[u8])| {
            let parent = name.split('+').next();
            new().any(|(_, job)| parent == Some(&*job.queue) && *job.body == *body)
        };
        let copies = new()
            .filter(|(_, job)| job.queue.contains('+') && is_in_parent((&job.queue, &job.body)));
        let thief = turn.open_session(0);
        for (id, _) in copies {
            // The job may have ended already.
            let _ = turn.caller(thief).cancel(JobId(*id));
        }
        turn.close_session(thief);
    }

    /// Changes jobs without a client's request.
    pub(crate) fn sabotage_jobs(&self, turn: &mut Turn<'_>) {
        if !self.options.sabotage.is_for_oracle() {
            return;
        }
        let thief = turn.open_session(0);
        // A cluster has no model.
        let known: BTreeSet<u64> = match &self.cluster {
            Some(_) => self.known.ids().collect(),
            None => self.model.jobs.keys().copied().collect(),
        };
        for id in known.into_iter().filter(|id| *id % 3 == 0).map(JobId) {
            let facts = turn.job_status(id).value.map(|status| status.facts).ok();
            let is_ready = facts.as_ref().is_some_and(|facts| facts.state == State::Ready);
            // Once for each job. Otherwise the thief would take every token of a queue with a rate.
            let is_in_order = facts.is_some_and(|facts| facts.priority < u32::MAX);
            // Many jobs are in a state that does not allow the change. So ignore errors.
            match self.options.sabotage {
                Sabotage::ShortLeases => {
                    for link in self.links.iter().filter(|link| link.is_open) {
                        let _ = turn.caller(link.id).give_back(id, 0, 0);
                    }
                }
                Sabotage::WrongOrder if is_ready && is_in_order => {
                    let mut thief = turn.caller(thief);
                    if thief.take_job(id).value.is_ok() {
                        let _ = thief.give_back(id, u32::MAX, 0);
                    }
                }
                Sabotage::RestlessJobs => drop(turn.caller(thief).kick_job(id)),
                Sabotage::LostJobs => drop(turn.caller(thief).cancel(id)),
                _ => {}
            }
        }
        turn.close_session(thief);
    }

    /// Called before a connection closes. Can end the jobs that its session waits for.
    pub(crate) fn sabotage_leaving(&self, place: Place, turn: &mut Turn<'_>) {
        if self.options.sabotage == Sabotage::TakesAlong {
            let watched = self.model.jobs.iter().filter(|(_, job)| job.watchers.contains(&place));
            let thief = turn.open_session(0);
            for (id, _) in watched {
                turn.caller(thief).cancel(JobId(*id)).value.expect("it is there");
            }
            turn.close_session(thief);
        }
    }
}

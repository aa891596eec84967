//! Tells sessions that wait for cold jobs to try again: those that wait for the next block of a
//! list, and those that search for a job by its number.

use engine::{JobList, SessionId};

use crate::cold::loads::ColdLoad;
use crate::cold::waits::{Search, Wait};
use crate::core::Core;
use crate::{Answer, Event};

/// One turn tells at most this many sessions of a list. Each takes up to 0.4 us under the broker's
/// lock, so this is 0.1 ms.
const TURN_WAKES: usize = 256;

impl Core {
    /// Ends the wait of a session, and returns it. If no thread has begun the session's search,
    /// none will.
    #[inline]
    pub(crate) fn end_wait(&mut self, session: SessionId) -> Option<Wait> {
        let wait = self.cold.waits.end(session)?;
        if let Wait::Job { search, .. } = wait {
            self.loads.remove_search(search);
        }
        Some(wait)
    }

    /// Tells the sessions that wait for a block of this list to try again.
    pub(super) fn wake_waiting(&mut self, list: JobList) {
        // If the loader still tells those of an earlier block, it tells these, too.
        if self.cold.waits.call(list) {
            self.wake_called(list);
        }
    }

    /// Tells the first sessions that were called. The loader tells the others in its next turns.
    pub(super) fn wake_called(&mut self, list: JobList) {
        for (mailbox, session) in self.cold.waits.take_called(list, TURN_WAKES) {
            self.outgoing.push((mailbox, session, Answer::at_once(Event::Loaded)));
        }
        if self.cold.waits.has_called(list) {
            self.loads.add_cold(ColdLoad::Wake(list));
        }
    }

    /// Whether a search is still needed. If another load has brought the job meanwhile, tells the
    /// session.
    pub(super) fn begin_search(&mut self, search: Search) -> bool {
        if !self.cold.waits.has(search) {
            return false;
        }
        let is_needed = self.needs_search(search.id);
        if !is_needed {
            self.wake_for_job(search);
        }
        is_needed
    }

    /// Tells a session that waited for a job to try again. If no cold job has this number, the
    /// session's next request for the job does not wait.
    pub(super) fn wake_for_job(&mut self, search: Search) {
        let is_absent = self.engine.slot(search.id).is_err();
        if self.cold.waits.end_search(search, is_absent) {
            let (mailbox, session) = search.session;
            self.outgoing.push((mailbox, session, Answer::at_once(Event::Loaded)));
        }
    }

    /// Tells a session that waited for a job that the job cannot be read.
    pub(super) fn note_unreadable(&mut self, search: Search) {
        if self.cold.waits.end_search(search, false) {
            let (mailbox, session) = search.session;
            self.cold.waits.end(session);
            self.outgoing.push((mailbox, session, Answer::at_once(Event::Unreadable)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use engine::{Millis, QueueId, State};

    use super::*;
    use crate::{Broker, Mailbox, Options};

    const NOW: Millis = Millis(1_000_000);
    const LIST: JobList = JobList { queue: QueueId(0), state: State::Delayed };

    /// Keeps the sessions that were told.
    #[derive(Default)]
    struct Told(Mutex<Vec<SessionId>>);

    impl Told {
        fn take(&self) -> Vec<SessionId> {
            std::mem::take(&mut *self.0.lock().expect("no test panics here"))
        }
    }

    impl Mailbox for Told {
        fn deliver(&self, session: SessionId, _: Answer<Event>) {
            self.0.lock().expect("no test panics here").push(session);
        }

        fn released(&self) {}

        fn alarm(&self, _: Millis) {}
    }

    #[test]
    fn a_block_wakes_many_sessions_in_slices_and_in_their_order() {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let options = Options::without_threads(disk, log::Settings::default());
        let broker = Broker::open(options, NOW).expect("the disk is empty").0;
        let told = Arc::new(Told::default());
        broker.add_mailbox(told.clone());
        let wait = || {
            let mut turn = broker.turn(NOW);
            let session = turn.open_session(0);
            turn.core.cold.waits.for_list(LIST, session, 0);
            session
        };
        let mut sessions: Vec<SessionId> = (0..3 * TURN_WAKES).map(|_| wait()).collect();
        let mut turn = broker.turn(NOW);
        turn.core.wake_waiting(LIST);
        turn.core.wake_waiting(LIST);
        drop(turn);
        assert_eq!(told.take(), &sessions[..TURN_WAKES], "also if the turn loads two blocks");
        broker.turn(NOW).close_session(sessions.remove(TURN_WAKES + 1));
        let late = wait();
        while broker.load_step(NOW) {}
        assert_eq!(told.take(), &sessions[TURN_WAKES..], "each once");
        broker.turn(NOW).core.wake_waiting(LIST);
        assert_eq!(told.take(), [late], "it waits for the next block");
        assert!(!broker.load_step(NOW));
    }

    #[test]
    fn a_block_that_comes_while_others_are_told_wakes_the_sessions_behind_them() {
        let broker = Broker::memory(engine::EngineSetup::default(), NOW);
        let mut turn = broker.turn(NOW);
        let core = &mut *turn.core;
        for session in 0..=TURN_WAKES as u64 {
            core.cold.waits.for_list(LIST, SessionId(session), 0);
        }
        core.wake_waiting(LIST);
        let late = SessionId(9999);
        core.cold.waits.for_list(LIST, late, 0);
        core.wake_waiting(LIST);
        core.wake_called(LIST);
        assert!(core.outgoing.iter().any(|(_, session, _)| *session == late));
        assert!(!core.cold.waits.has_called(LIST));
    }
}

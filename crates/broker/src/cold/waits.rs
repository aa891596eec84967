//! Sessions that wait for cold jobs: for the next job of a list, or for a job by its number.
//!
//! A session that waits for a job by its number must learn that the job does not exist, if no cold
//! block has it. The search for the job takes time. **Invariant: from the beginning of the search to the
//! session's next request, the job does not become cold.** So a job that the search did not find is
//! in memory or has ended.

use std::collections::BTreeMap;

use engine::{JobId, JobList, SessionId};

/// The sessions that wait. A session waits for one thing at a time.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// For each list: the sessions that wait for its next block, in the order of their tickets, each
    /// with the number of its mailbox.
    lists: BTreeMap<JobList, BTreeMap<u64, (u32, SessionId)>>,
    /// The lists whose sessions are told now, a few at a time: all that have a ticket below this
    /// number.
    called: BTreeMap<JobList, u64>,
    /// Each wait gets the next ticket. A session that waits again gets a new one.
    next_ticket: u64,
    /// What each session waits for.
    sessions: BTreeMap<SessionId, Wait>,
    /// The jobs that sessions search for, each with the number of these sessions.
    sought: BTreeMap<JobId, u32>,
}

/// The wait of a session.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// For the next block of a list.
    List { list: JobList, ticket: u64 },
    /// For a job. `is_absent`: the search has ended, and no cold job has this number.
    Job { search: Search, is_absent: bool },
}

/// A session's search for a job by its number.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Search {
    pub(crate) id: JobId,
    /// The mailbox of the session that waits, and this session.
    pub(crate) session: (u32, SessionId),
    /// No other search has this ticket.
    pub(crate) ticket: u64,
}

impl Wait {
    /// Whether a search for this job has ended without success.
    pub(crate) fn is_absent(self, job: JobId) -> bool {
        matches!(self, Self::Job { search, is_absent: true } if search.id == job)
    }
}

impl Waits {
    /// Adds a session that waits for the next block of a list.
    pub(crate) fn for_list(&mut self, list: JobList, session: SessionId, mailbox: u32) {
        self.end(session);
        let ticket = self.ticket();
        self.sessions.insert(session, Wait::List { list, ticket });
        self.lists.entry(list).or_default().insert(ticket, (mailbox, session));
    }

    /// Adds a session that waits for a job, and returns its search.
    pub(crate) fn for_job(&mut self, id: JobId, session: SessionId, mailbox: u32) -> Search {
        self.end(session);
        let search = Search { id, session: (mailbox, session), ticket: self.ticket() };
        self.sessions.insert(session, Wait::Job { search, is_absent: false });
        *self.sought.entry(id).or_default() += 1;
        search
    }

    fn ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// Ends the wait of a session, and returns it.
    pub(crate) fn end(&mut self, session: SessionId) -> Option<Wait> {
        // Almost always, nobody waits, and many requests ask.
        if self.sessions.is_empty() {
            return None;
        }
        let wait = self.sessions.remove(&session)?;
        match wait {
            Wait::List { list, ticket } => {
                if let Some(sessions) = self.lists.get_mut(&list) {
                    sessions.remove(&ticket);
                    if sessions.is_empty() {
                        self.lists.remove(&list);
                    }
                }
            }
            Wait::Job { search: Search { id, .. }, .. } => {
                if let Some(count) = self.sought.get_mut(&id) {
                    *count -= 1;
                    if *count == 0 {
                        self.sought.remove(&id);
                    }
                }
            }
        }
        Some(wait)
    }

    /// Calls all sessions that wait for the next block of a list: [`Waits::take_called`] returns
    /// them. Returns false if there are none, or if sessions of the list were called before, and
    /// are not all taken.
    pub(crate) fn call(&mut self, list: JobList) -> bool {
        self.lists.contains_key(&list) && self.called.insert(list, self.next_ticket).is_none()
    }

    /// Ends the waits of at most `most` sessions that were called. Returns the mailboxes and the
    /// sessions in the order in which they began to wait.
    pub(crate) fn take_called(&mut self, list: JobList, most: usize) -> Vec<(u32, SessionId)> {
        let mut taken = Vec::new();
        let Some(end) = self.called.get(&list).copied() else { return taken };
        let mut waiting = self.lists.remove(&list).unwrap_or_default();
        while taken.len() < most
            && let Some(first) = waiting.first_entry()
            && *first.key() < end
        {
            let (mailbox, session) = first.remove();
            self.sessions.remove(&session);
            taken.push((mailbox, session));
        }
        if waiting.first_key_value().is_none_or(|(ticket, _)| *ticket >= end) {
            self.called.remove(&list);
        }
        if !waiting.is_empty() {
            self.lists.insert(list, waiting);
        }
        taken
    }

    /// Whether sessions of a list were called and are not taken.
    pub(crate) fn has_called(&self, list: JobList) -> bool {
        self.called.contains_key(&list)
    }

    /// Whether the session still waits for this search.
    pub(crate) fn has(&self, search: Search) -> bool {
        let wait = self.sessions.get(&search.session.1);
        matches!(wait, Some(Wait::Job { search: expected, .. }) if *expected == search)
    }

    /// Ends a search. Returns false if the session does not wait for it any more.
    pub(crate) fn end_search(&mut self, search: Search, absent: bool) -> bool {
        match self.sessions.get_mut(&search.session.1) {
            Some(Wait::Job { search: expected, is_absent }) if *expected == search => {
                *is_absent = absent;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Whether a session searches for this job, so that the job must not become cold now.
    pub(crate) fn need(&self, job: JobId) -> bool {
        self.sought.contains_key(&job)
    }
}

#[cfg(test)]
mod tests {
    use engine::{QueueId, State};

    use super::*;

    #[test]
    fn a_wait_that_ends_leaves_nothing() {
        let mut waits = Waits::default();
        let list = JobList { queue: QueueId(3), state: State::Ready };
        let job = JobId(7);
        let sessions = [SessionId(1), SessionId(2), SessionId(4)];
        waits.for_list(list, sessions[0], 5);
        waits.for_list(list, sessions[1], 6);
        let other = waits.for_job(job, sessions[2], 7);
        let first = waits.for_job(job, sessions[1], 6);
        let second = waits.for_job(job, sessions[1], 6);
        assert!(waits.need(job));
        assert!(waits.call(list));
        assert_eq!(waits.take_called(list, 9), [(5, sessions[0])]);
        assert!(!waits.has_called(list) && !waits.call(list), "nobody waits for the list");
        assert!(!waits.has(first) && !waits.end_search(first, true), "it searches again");
        assert!(waits.has(second) && waits.end_search(second, true));
        assert!(waits.end(sessions[1]).is_some_and(|wait| wait.is_absent(job)));
        assert!(!waits.has(second) && waits.has(other));
        assert!(waits.need(job), "another session searches for it");
        assert!(waits.end(sessions[2]).is_some_and(|wait| !wait.is_absent(job)));
        assert!(!waits.need(job));
        assert!(waits.lists.is_empty() && waits.sessions.is_empty() && waits.sought.is_empty());
    }
}

//! The record of keys. Checks that of two puts with the same key, one makes the job: within a window that
//! counts from the put, whatever has become of this job meanwhile, or as long as the job is there. The
//! oracle reads the keys itself.

use std::collections::BTreeMap;

use broker::policy::Rules;

use super::rules::{KeyWindow, QueueRules, Uniqueness, lets_jobs_die, resolve_for_certain};
use super::terms::Conn;
use crate::Checked;

#[derive(Debug, Default)]
pub(super) struct Uniques {
    /// The rules in force.
    rules: Rules,
    /// True if the earlier rules can still apply to some queues.
    is_changing: bool,
    /// True if a job can end by the rules in force, although it is not done. Then its key is free.
    lets_die: bool,
    /// True if a client or an operator could end jobs in this way.
    is_over: bool,
    puts: BTreeMap<(String, Vec<u8>), Answers>,
    /// The last bytes that each connection has sent.
    ends: BTreeMap<Conn, Vec<u8>>,
    pub(super) judged: u64,
}

/// Requests of Kestrel's clients that end jobs, which are not done then, begin with these words.
const WORDS: [&[u8]; 2] = [b"flush", b"delete"];
/// The longest of these words, without its last byte.
const KEPT_BYTES: usize = 5;

/// The answers to puts into one queue with one key.
#[derive(Copy, Clone, Debug)]
struct Answers {
    /// The job of the last answer.
    id: u64,
    /// When the request for the last answer arrived.
    arrival: u64,
    /// A moment before the put of the job. `None`: the oracle knows none, because the put can have
    /// been one that it did not see.
    put_after: Option<u64>,
}

impl Uniques {
    /// Checks no more, because clients can do what the oracle does not see or follow.
    pub(super) fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Looks at what a client sent, in a dialect that the oracle does not read.
    pub(super) fn look_at(&mut self, conn: Conn, sent: &[u8]) {
        let seen = self.ends.entry(conn).or_default();
        seen.extend_from_slice(sent);
        let has = |word: &&[u8]| seen.windows(word.len()).any(|bytes| bytes == *word);
        self.is_over |= WORDS.iter().any(has);
        seen.drain(..seen.len().saturating_sub(KEPT_BYTES));
    }

    /// Notes other rules. If `in_slices`, the earlier rules can apply to some queues until
    /// [`Uniques::settled`] is called.
    pub(super) fn changed(&mut self, rules: &Rules, in_slices: bool) {
        self.rules = rules.clone();
        self.is_changing = true;
        self.lets_die = lets_jobs_die(rules);
        if !in_slices {
            self.settled();
        }
    }

    pub(super) fn settled(&mut self) {
        if std::mem::take(&mut self.is_changing) {
            self.puts.clear();
        }
    }

    /// Notes another process with these rules. It can lack the last changes of the process before.
    pub(super) fn began(&mut self, rules: &Rules) {
        self.changed(rules, false);
    }

    /// The rules that certainly apply to a queue.
    fn rules_of(&self, queue: &str) -> Option<QueueRules> {
        let rules = resolve_for_certain(&self.rules, queue)?;
        let is_plain = !rules.is_alias && !rules.fanout_only && !rules.ends_jobs();
        let is_certain = !self.is_changing && !self.lets_die && !self.is_over;
        (is_plain && is_certain).then_some(rules)
    }

    /// A put with this body, which arrived at the moment `arrival`, was answered with this job now.
    /// `is_there` says whether a job certainly is there.
    pub(super) fn answered(
        &mut self,
        id: u64,
        (queue, body): (&str, &[u8]),
        arrival: u64,
        now: u64,
        is_there: impl Fn(u64) -> bool,
    ) -> Checked {
        let uniqueness = self.rules_of(queue).and_then(|rules| rules.uniqueness);
        let Some(Uniqueness { part, window }) = uniqueness else { return Ok(()) };
        let key = part.key(body);
        if key.is_empty() {
            return Ok(());
        }
        let last = self.puts.get(&(queue.to_owned(), key.clone())).copied();
        let mut answers = Answers { id, arrival, put_after: None };
        if let Some(last) = last {
            if last.id == id {
                answers.put_after = last.put_after;
                self.judged += 1;
            } else {
                // The last request was answered with another job, so this job was not there yet.
                answers.put_after = Some(last.arrival);
            }
            let has_key = match window {
                KeyWindow::For(ms) => last.put_after.is_some_and(|put| now < put + ms),
                KeyWindow::UntilDone => is_there(last.id),
            };
            if last.id != id && has_key {
                let (other, key) = (last.id, String::from_utf8_lossy(&key));
                return Err(match window {
                    KeyWindow::For(_) => {
                        format!("job {other} of {queue} has the key {key:?}: {last:?}")
                    }
                    KeyWindow::UntilDone => {
                        format!("job {other} of {queue} is there, with {key:?}")
                    }
                });
            }
        }
        self.puts.insert((queue.to_owned(), key), answers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use broker::policy::{Rule, Setting, UniqueWindow};

    use super::*;

    fn uniques() -> Uniques {
        let settings = [
            Setting::UniqueBy("prefix:1".parse().ok()),
            Setting::UniqueWindow(UniqueWindow::For(100)),
        ];
        let mut uniques = Uniques::default();
        uniques.changed(&Rules(vec![Rule::new(["q"], settings)]), false);
        uniques
    }

    fn put(uniques: &mut Uniques, id: u64, body: &[u8], now: u64) -> Checked {
        uniques.answered(id, ("q", body), now, now, |_| false)
    }

    #[test]
    fn a_double_within_the_window_is_noticed() {
        let mut uniques = uniques();
        // The first job can be older than its first answer.
        put(&mut uniques, 1, b"a1", 0).expect("the first");
        put(&mut uniques, 2, b"a2", 90).expect("its window can be over");
        put(&mut uniques, 2, b"a", 95).expect("the same job");
        put(&mut uniques, 3, b"b", 95).expect("another key");
        let error = put(&mut uniques, 4, b"a", 99).expect_err("job 2 was put after 0");
        assert!(error.contains("job 2 of q"), "{error}");
        assert_eq!(uniques.judged, 1);
    }

    #[test]
    fn a_double_of_a_job_that_is_there_is_noticed() {
        let settings = [
            Setting::UniqueBy("body".parse().ok()),
            Setting::UniqueWindow(UniqueWindow::UntilDone),
        ];
        let mut uniques = Uniques::default();
        uniques.changed(&Rules(vec![Rule::new(["q"], settings)]), false);
        let mut put =
            |id, ended: u64| uniques.answered(id, ("q", b"a"), 0, 0, |other| other != ended);
        put(1, 0).expect("the first");
        put(1, 0).expect("the same job");
        put(2, 1).expect("job 1 has ended");
        let error = put(3, 1).expect_err("job 2 is there");
        assert!(error.contains("job 2 of q is there"), "{error}");
    }

    #[test]
    fn rules_by_which_jobs_die_end_the_checks_only_as_long_as_they_are_in_force() {
        let settings = [
            Setting::UniqueBy("body".parse().ok()),
            Setting::UniqueWindow(UniqueWindow::UntilDone),
        ];
        let unique = Rule::new(["q"], settings);
        let dying = Rules(vec![unique.clone(), Rule::new(["q"], [Setting::Retries(true)])]);
        let mut uniques = Uniques::default();
        for (rules, is_noticed) in [(dying, false), (Rules(vec![unique]), true)] {
            uniques.changed(&rules, false);
            put(&mut uniques, 1, b"a", 0).expect("the first");
            let second = uniques.answered(2, ("q", b"a"), 0, 0, |_| true);
            assert_eq!(second.is_err(), is_noticed);
        }
    }

    #[test]
    fn what_can_end_a_job_ends_the_checks() {
        let is_over = |act: fn(&mut Uniques)| {
            let mut uniques = uniques();
            for (id, now) in [(1, 0), (2, 50)] {
                put(&mut uniques, id, b"a", now).expect("nothing is certain yet");
            }
            act(&mut uniques);
            put(&mut uniques, 3, b"a", 51).is_ok()
        };
        assert!(!is_over(|_| ()));
        assert!(!is_over(|uniques| uniques.look_at(1, b"get flus")));
        assert!(is_over(|uniques| {
            uniques.look_at(1, b"get q\r\nflu");
            uniques.look_at(1, b"sh q\r\n");
        }));
        assert!(is_over(Uniques::give_up));
        assert!(is_over(|uniques| uniques.began(&Rules::default())));
    }
}

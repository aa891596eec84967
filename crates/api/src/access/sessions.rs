//! Sessions of people who signed in to the console, with a token or a one-time code. Both are only
//! in memory. A session keeps what its person signed in with, so it ends as soon as the token is
//! removed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::Millis;

use crate::access::rate::{Rate, Recent};
use crate::access::tokens::{EntryKind, Fingerprint, random_text};

/// The longest time of a session.
pub(crate) const SESSION_S: u64 = 12 * 3_600;
/// Above this number, the oldest session of the credential with most sessions ends. So nobody ends the
/// sessions of others by beginning many.
const SESSIONS_MAX: usize = 1_000;
/// How long a one-time code is valid.
pub(crate) const CODE_S: u64 = 60;
/// Above this number, the oldest code of the same maker becomes invalid. So nobody pushes out the
/// codes of others.
const CODES_MAX: usize = 10;

/// How often one credential signs in and makes codes. Each time leaves up to three lines in the record
/// of changes: the code, the sign-in with it, and the sign-out. Otherwise, a viewer could fill the disk
/// with them: 20 times in a minute are 120 KB at most.
const SIGN_INS: Rate = Rate { at_once: 20, period_ms: 3_000 };

/// What a person signed in with.
#[derive(Copy, Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Credential {
    /// An entry of the token file.
    Entry(EntryKind, Fingerprint),
    /// A code that was made over the operator's socket.
    Operator,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<Kept<Session>>,
    /// The number of sessions that have begun.
    begun: AtomicU64,
    codes: Mutex<Kept<Code>>,
    /// The credentials that were used lately, to sign in or to make codes. They are valid, so they are
    /// not many.
    recent: Mutex<HashMap<Credential, Recent>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The number of the session. Unlike the secret of its cookie, others can see it.
    pub(crate) number: u64,
    pub(crate) credential: Credential,
    /// The address from which the person signed in. `None`: a unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) began: Millis,
    /// A secret that only pages of the console know. A request that changes something must have it.
    pub(crate) csrf: Arc<str>,
}

/// A code with which one person can sign in, once.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) credential: Credential,
}

impl Sessions {
    /// Begins a session, and returns the secret of its cookie.
    pub(crate) fn begin(
        &self,
        credential: Credential,
        address: Option<IpAddr>,
        now: Millis,
    ) -> io::Result<String> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let csrf = random_text()?.into();
        let session = Session { number, credential, address, began: now, csrf };
        let mut open = lock(&self.open);
        open.forget_ended(now);
        if open.all.len() >= SESSIONS_MAX {
            let mut counts = HashMap::<Credential, usize>::new();
            for (session, _) in open.all.values() {
                *counts.entry(session.credential).or_default() += 1;
            }
            let most = counts.values().copied().max().unwrap_or(0);
            open.remove_oldest(|session| counts[&session.credential] == most);
        }
        open.add(session, SESSION_S, now)
    }

    /// Counts that this credential, which is valid, signs in or makes a code. False if it did so too
    /// often lately. A sign-in by a code does not count again.
    pub(crate) fn admits(&self, credential: Credential, now: Millis) -> bool {
        let mut recent = lock(&self.recent);
        recent.retain(|_, of_credential| !of_credential.has_rested(now));
        recent.entry(credential).or_default().admits(SIGN_INS, now)
    }

    /// The session whose cookie has this secret.
    pub(crate) fn find(&self, secret: &str, now: Millis) -> Option<Session> {
        lock(&self.open).find(secret, now).cloned()
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        lock(&self.open).all.remove(secret);
    }

    /// All sessions, the newest first, and the moment when each ends.
    pub(crate) fn all(&self, now: Millis) -> Vec<(Session, Millis)> {
        let open = lock(&self.open);
        let mut all: Vec<_> =
            open.all.values().filter(|(_, until)| *until > now).cloned().collect();
        all.sort_by_key(|(session, _)| Reverse(session.number));
        all
    }

    /// Ends the session with this number, and returns it.
    pub(crate) fn end_number(&self, number: u64, now: Millis) -> Option<Session> {
        let mut open = lock(&self.open);
        let is_it = |(session, until): &(Session, Millis)| session.number == number && *until > now;
        let secret = open.all.iter().find(|(_, kept)| is_it(kept))?.0.clone();
        open.all.remove(&secret).map(|(session, _)| session)
    }

    /// Makes a code.
    pub(crate) fn make_code(&self, credential: Credential, now: Millis) -> io::Result<String> {
        let is_own = |code: &Code| code.credential == credential;
        let mut codes = lock(&self.codes);
        codes.forget_ended(now);
        if codes.all.values().filter(|(code, _)| is_own(code)).count() >= CODES_MAX {
            codes.remove_oldest(is_own);
        }
        codes.add(Code { credential }, CODE_S, now)
    }

    /// What a code stands for. It stays valid.
    pub(crate) fn look_at_code(&self, code: &str, now: Millis) -> Option<Code> {
        lock(&self.codes).find(code, now).cloned()
    }

    /// What a code stands for. It becomes invalid.
    pub(crate) fn use_code(&self, code: &str, now: Millis) -> Option<Code> {
        let mut codes = lock(&self.codes);
        codes.find(code, now)?;
        codes.all.remove(code).map(|(code, _)| code)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values by their secret names, each until a moment.
#[derive(Debug)]
struct Kept<T> {
    all: HashMap<String, (T, Millis)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept { all: HashMap::new() }
    }
}

impl<T> Kept<T> {
    /// Keeps a value for this many seconds, and returns its secret name.
    fn add(&mut self, value: T, seconds: u64, now: Millis) -> io::Result<String> {
        let secret = random_text()?;
        self.all.insert(secret.clone(), (value, Millis(now.0 + seconds * 1_000)));
        Ok(secret)
    }

    fn forget_ended(&mut self, now: Millis) {
        self.all.retain(|_, (_, until)| *until > now);
    }

    /// Removes the oldest of these values.
    fn remove_oldest(&mut self, is_meant: impl Fn(&T) -> bool) {
        let meant = self.all.iter().filter(|(_, (kept, _))| is_meant(kept));
        let oldest = meant.min_by_key(|(_, (_, until))| *until);
        if let Some(oldest) = oldest.map(|(secret, _)| secret.clone()) {
            self.all.remove(&oldest);
        }
    }

    fn find(&self, secret: &str, now: Millis) -> Option<&T> {
        self.all.get(secret).filter(|(_, until)| *until > now).map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_and_are_bounded() {
        let sessions = Sessions::default();
        let token = |number| Credential::Entry(EntryKind::Token, [number; 32]);
        let first = sessions.begin(token(1), None, Millis(0)).unwrap();
        let found = sessions.find(&first, Millis(SESSION_S * 1_000 - 1)).unwrap();
        assert_eq!(found.credential, token(1));
        assert!(sessions.find(&first, Millis(SESSION_S * 1_000)).is_none());
        assert!(sessions.find("", Millis(0)).is_none());
        let second = sessions.begin(token(2), None, Millis(1)).unwrap();
        for _ in 0..SESSIONS_MAX {
            sessions.begin(token(2), None, Millis(2)).unwrap();
        }
        assert!(sessions.find(&first, Millis(2)).is_some(), "others cannot end it");
        assert!(sessions.find(&second, Millis(2)).is_none(), "the oldest session of `2` ends");
        assert_eq!(lock(&sessions.open).all.len(), SESSIONS_MAX);
        let last = sessions.begin(token(3), None, Millis(1)).unwrap();
        sessions.end(&last);
        assert!(sessions.find(&last, Millis(1)).is_none());
    }

    #[test]
    fn sessions_have_numbers_that_are_not_their_secrets() {
        let sessions = Sessions::default();
        let begin = |now| sessions.begin(Credential::Operator, None, Millis(now)).unwrap();
        let (first, second) = (begin(0), begin(5));
        let numbers = |now| -> Vec<u64> {
            sessions.all(Millis(now)).iter().map(|(session, _)| session.number).collect()
        };
        assert_eq!(numbers(5), [2, 1]);
        assert_eq!(sessions.end_number(1, Millis(5)).unwrap().number, 1);
        assert!(sessions.end_number(1, Millis(5)).is_none(), "it has ended");
        assert!(sessions.find(&first, Millis(5)).is_none());
        assert!(sessions.find(&second, Millis(5)).is_some());
        let end = SESSION_S * 1_000 + 5;
        assert!(numbers(end).is_empty() && sessions.end_number(2, Millis(end)).is_none());
        begin(end);
        assert_eq!(numbers(end), [3], "a number is not used again");
    }

    #[test]
    fn a_code_is_valid_once_and_for_a_minute() {
        let sessions = Sessions::default();
        let code = sessions.make_code(Credential::Operator, Millis(0)).unwrap();
        let end = Millis(CODE_S * 1_000);
        assert!(sessions.look_at_code(&code, Millis(end.0 - 1)).is_some());
        assert!(sessions.use_code(&code, end).is_none());
        assert!(sessions.use_code(&code, Millis(end.0 - 1)).is_some());
        assert!(sessions.use_code(&code, Millis(1)).is_none());
        assert!(sessions.find(&code, Millis(1)).is_none(), "a code is no cookie");
    }

    #[test]
    fn a_maker_pushes_out_only_its_own_codes() {
        let sessions = Sessions::default();
        let busy = Credential::Entry(EntryKind::Token, [1; 32]);
        let of_operator = sessions.make_code(Credential::Operator, Millis(0)).unwrap();
        let first = sessions.make_code(busy, Millis(0)).unwrap();
        for _ in 0..CODES_MAX {
            sessions.make_code(busy, Millis(1)).unwrap();
        }
        assert!(sessions.look_at_code(&first, Millis(1)).is_none());
        assert!(sessions.look_at_code(&of_operator, Millis(1)).is_some());
        assert_eq!(lock(&sessions.codes).all.len(), CODES_MAX + 1);
    }
}

//! Sessions of people who signed in to the console with a token. A session is only in memory. It
//! keeps the token's fingerprint, so a session ends as soon as its token is removed.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::Millis;

use crate::tokens::{Fingerprint, random_text};

/// The longest time of a session.
pub(crate) const SESSION_S: u64 = 12 * 3_600;
/// Above this number, the oldest session ends.
const SESSIONS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<String, Session>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The fingerprint of the token with which the session began.
    pub(crate) token: Fingerprint,
    /// A secret that only pages of the console know. A request that changes something must have it.
    pub(crate) csrf: Arc<str>,
    until: Millis,
}

impl Sessions {
    /// Begins a session, and returns the secret of its cookie.
    pub(crate) fn begin(&self, token: Fingerprint, now: Millis) -> io::Result<String> {
        let (secret, csrf) = (random_text()?, random_text()?.into());
        let until = Millis(now.0 + SESSION_S * 1_000);
        let mut open = self.open();
        open.retain(|_, session| session.until > now);
        if open.len() >= SESSIONS_MAX
            && let Some(oldest) = open
                .iter()
                .min_by_key(|(_, session)| session.until)
                .map(|(secret, _)| secret.clone())
        {
            open.remove(&oldest);
        }
        open.insert(secret.clone(), Session { token, csrf, until });
        Ok(secret)
    }

    /// The session whose cookie has this secret.
    pub(crate) fn find(&self, secret: &str, now: Millis) -> Option<Session> {
        self.open().get(secret).filter(|session| session.until > now).cloned()
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        self.open().remove(secret);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_and_are_bounded() {
        let sessions = Sessions::default();
        let first = sessions.begin([1; 32], Millis(0)).unwrap();
        let found = sessions.find(&first, Millis(SESSION_S * 1_000 - 1)).unwrap();
        assert_eq!(found.token, [1; 32]);
        assert!(sessions.find(&first, Millis(SESSION_S * 1_000)).is_none());
        assert!(sessions.find("", Millis(0)).is_none());
        for _ in 0..SESSIONS_MAX {
            sessions.begin([2; 32], Millis(1)).unwrap();
        }
        assert!(sessions.find(&first, Millis(1)).is_none(), "the oldest session ends");
        assert_eq!(sessions.open().len(), SESSIONS_MAX);
        let last = sessions.begin([3; 32], Millis(1)).unwrap();
        sessions.end(&last);
        assert!(sessions.find(&last, Millis(1)).is_none());
    }
}

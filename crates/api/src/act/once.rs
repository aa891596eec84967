//! Requests that a client sends again, because it did not get the response. If both have the same
//! `Idempotency-Key`, the second one changes nothing, and gets the response of the first one. The
//! keys are only in memory: they last one hour, and not beyond a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::Response;
use broker::Millis;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use super::put::PutReply;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;

/// How long a response can be sent again.
const AGE_MAX_MS: u64 = 3_600_000;
/// Limit of responses.
const RESPONSES_MAX: usize = 100_000;
/// Limit of the bytes of all responses and keys.
const BYTES_MAX: usize = 16 << 20;

/// The name of the client, and the key that it gave.
type Key = (Arc<str>, String);

/// Limit of requests with a key that run at a time. They do not end with their connections, so the
/// limit of connections does not limit them.
const RUNNING_MAX: usize = 64;

/// The responses that can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    kept: Arc<Mutex<Kept>>,
    running: Arc<Semaphore>,
}

impl Default for Once {
    fn default() -> Once {
        Once { kept: Arc::default(), running: Arc::new(Semaphore::new(RUNNING_MAX)) }
    }
}

#[derive(Debug, Default)]
struct Kept {
    requests: HashMap<Key, Known>,
    /// The keys of complete requests, the oldest one first.
    order: VecDeque<(Millis, Key)>,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    /// The SHA-256 of the request.
    asked: [u8; 32],
    /// `None` until the request is complete.
    reply: Option<PutReply>,
}

impl Once {
    /// Runs a request, if it is the first one with this key. `asked` is the SHA-256 of all bytes of
    /// the request that matter. The request goes on even if the client disconnects, because the client will
    /// send it again.
    pub(crate) async fn run(
        &self,
        api: &Api,
        key: Key,
        asked: [u8; 32],
        work: impl Future<Output = Result<PutReply, Problem>> + Send + 'static,
    ) -> Result<Response, Problem> {
        let busy = |_| {
            let why = "too many puts with an `Idempotency-Key` wait for the log; try again";
            Problem::new(ProblemKind::Unavailable, why)
        };
        let permit = self.running.clone().try_acquire_owned().map_err(busy)?;
        if let Some(reply) = self.kept().begin(&key, asked, api.setup.door.now())? {
            let mut response = reply.response();
            let replayed = HeaderName::from_static("idempotency-replayed");
            response.headers_mut().insert(replayed, HeaderValue::from_static("true"));
            return Ok(response);
        }
        let (once, door) = (self.clone(), api.setup.door.clone());
        let running = Running { once, key: Some(key) };
        let done = tokio::spawn(async move {
            let _permit = permit;
            let reply = work.await?;
            running.complete(&reply, door.now());
            Ok(reply)
        });
        // A panic there has been reported. It ends this request, too.
        let reply: Result<PutReply, Problem> =
            done.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        Ok(reply?.response())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that runs. If it fails, its key is free again.
struct Running {
    once: Once,
    key: Option<Key>,
}

impl Running {
    fn complete(mut self, reply: &PutReply, now: Millis) {
        if let Some(key) = self.key.take() {
            self.once.kept().keep(key, reply, now);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.once.kept().requests.remove(key);
        }
    }
}

impl Kept {
    /// Begins a request with this key. Returns the response if the request is complete already.
    fn begin(
        &mut self,
        key: &Key,
        asked: [u8; 32],
        now: Millis,
    ) -> Result<Option<PutReply>, Problem> {
        self.forget(|kept, at| kept.is_over_limit() || now.since(at) >= AGE_MAX_MS);
        match self.requests.get(key) {
            Some(known) if known.asked != asked => {
                let why = "an earlier request had the same `Idempotency-Key`, but another path or \
                    body; use a new key for each request";
                Err(Problem::new(ProblemKind::IdempotencyMismatch, why))
            }
            Some(Known { reply: None, .. }) => {
                let why = "the first request with this `Idempotency-Key` is not done; try again";
                Err(Problem::new(ProblemKind::IdempotencyBusy, why))
            }
            Some(Known { reply: Some(reply), .. }) => Ok(Some(reply.clone())),
            None => {
                self.requests.insert(key.clone(), Known { asked, reply: None });
                Ok(None)
            }
        }
    }

    fn keep(&mut self, key: Key, reply: &PutReply, now: Millis) {
        if let Some(known) = self.requests.get_mut(&key) {
            known.reply = Some(reply.clone());
            self.bytes += bytes_of(&key, reply);
            self.order.push_back((now, key));
            self.forget(|kept, _| kept.is_over_limit());
        }
    }

    fn is_over_limit(&self) -> bool {
        self.order.len() > RESPONSES_MAX || self.bytes > BYTES_MAX
    }

    fn forget(&mut self, is_due: impl Fn(&Kept, Millis) -> bool) {
        while let Some((at, _)) = self.order.front()
            && is_due(self, *at)
            && let Some((_, key)) = self.order.pop_front()
        {
            if let Some(Known { reply: Some(reply), .. }) = self.requests.remove(&key) {
                self.bytes -= bytes_of(&key, &reply);
            }
        }
    }
}

fn bytes_of(key: &Key, reply: &PutReply) -> usize {
    size_of::<(Key, Known)>() + 2 * key.1.len() + reply.body.len()
}

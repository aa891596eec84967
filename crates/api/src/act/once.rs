//! Requests that a client sends again, because it did not get the response. If both have the same
//! `Idempotency-Key`, the second one changes nothing, and gets the response of the first one. The
//! keys are only in memory: they last one hour, and not beyond a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::Response;
use broker::Millis;
use http_api::Door;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use super::put::PutReply;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;

/// How long a response can be sent again.
const AGE_MAX_MS: u64 = 3_600_000;
/// Limit of responses.
const RESPONSES_MAX: usize = 100_000;
/// Limit of the bytes of all responses and keys, and their part of the limit of memory: no request frees
/// them.
const BYTES_MAX: usize = 16 << 20;
const MEMORY_SHARE: u64 = 16;
/// Tables of a client with fewer entries keep their room.
const ENTRIES_MIN: usize = 64;

/// The name of the client, and the key that it gave.
pub(super) type Key = (Arc<str>, Arc<str>);

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

/// The keys of all clients. No client pushes out the keys of others that use less memory.
#[derive(Debug, Default)]
struct Kept {
    clients: HashMap<Arc<str>, OfClient>,
    /// The number and the bytes of all responses.
    count: usize,
    bytes: usize,
}

/// The keys of one client.
#[derive(Debug, Default)]
struct OfClient {
    /// The entries are small, because a table has many free ones.
    requests: HashMap<Arc<str>, Box<Known>>,
    /// The keys of complete requests, the oldest one first.
    order: VecDeque<(Millis, Arc<str>)>,
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
    /// Whether another request had this key, and was not refused.
    pub(crate) fn knows(&self, api: &Api, key: &Key) -> bool {
        let door = &api.setup.door;
        self.change(door, |kept| kept.knows(key, door.now()))
    }

    /// The response to a request whose key is known. `asked`: see [`Once::run`].
    pub(crate) fn again(&self, api: &Api, key: &Key, asked: [u8; 32]) -> Result<Response, Problem> {
        let door = &api.setup.door;
        let reply = self.change(door, |kept| kept.find(key, asked, door.now()))?;
        // The first request was refused while the body of this one came, or its key was forgotten.
        reply.map(replayed).ok_or_else(|| {
            let why = "the first request with this `Idempotency-Key` has just ended; try again";
            Problem::new(ProblemKind::IdempotencyBusy, why)
        })
    }

    /// Forgets old keys, and gives memory back. Must be called from time to time: without requests, nobody
    /// else does this.
    pub(crate) fn tidy(&self, door: &Door) {
        self.change(door, |kept| {
            kept.forget_old(door.now());
            kept.clients.values_mut().for_each(OfClient::shrink);
        });
    }

    /// Runs a request, if it is the first one with this key. `asked` is the SHA-256 of all bytes of
    /// the request that matter. The request continues even if the client disconnects, because the
    /// client will send it again.
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
        let door = api.setup.door.clone();
        if let Some(reply) = self.change(&door, |kept| kept.begin(&key, asked, door.now()))? {
            return Ok(replayed(reply));
        }
        let running = Running { once: self.clone(), key: Some(key) };
        let done = tokio::spawn(async move {
            let _permit = permit;
            let reply = work.await?;
            // A request that has changed nothing can be sent again.
            if reply.has_put {
                running.complete(&reply, &door);
            }
            Ok(reply)
        });
        // A panic there has been reported. It ends this request, too.
        let reply: Result<PutReply, Problem> =
            done.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        Ok(reply?.response())
    }

    /// Changes what is kept, and counts it as memory in use.
    fn change<T>(&self, door: &Door, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept();
        let before = kept.bytes;
        let changed = change(&mut kept);
        door.broker().add_outside_bytes(kept.bytes as i64 - before as i64);
        changed
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The response with the reply to an earlier request.
fn replayed(reply: PutReply) -> Response {
    let mut response = reply.response();
    let name = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(name, HeaderValue::from_static("true"));
    response
}

/// A request that runs. If it puts nothing, its key is free again.
struct Running {
    once: Once,
    key: Option<Key>,
}

impl Running {
    fn complete(mut self, reply: &PutReply, door: &Door) {
        let now = door.now();
        let Some(key) = self.key.take() else { return };
        let limit = door.broker().memory_usage().limit_bytes;
        let share = limit.map_or(u64::MAX, |limit| limit / MEMORY_SHARE);
        let bytes_max = BYTES_MAX.min(usize::try_from(share).unwrap_or(usize::MAX));
        self.once.change(door, |kept| kept.keep(&key, reply, now, bytes_max));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.once.kept().release(key);
        }
    }
}

impl OfClient {
    /// Makes tables smaller that have room for more than four times their entries: the account does not
    /// have so many free ones.
    fn shrink(&mut self) {
        let wanted = 2 * self.requests.len().max(ENTRIES_MIN);
        if self.requests.capacity() > 2 * wanted {
            self.requests.shrink_to(wanted);
        }
        if self.order.capacity() > 2 * wanted {
            self.order.shrink_to(wanted);
        }
    }
}

impl Kept {
    /// Whether there is a request with this key. It runs, or is complete.
    fn knows(&mut self, (client, key): &Key, now: Millis) -> bool {
        self.forget_old(now);
        self.clients.get(client).is_some_and(|of_client| of_client.requests.contains_key(key))
    }

    /// The reply to the request with this key. `None`: there is no request with it.
    fn find(
        &mut self,
        (client, key): &Key,
        asked: [u8; 32],
        now: Millis,
    ) -> Result<Option<PutReply>, Problem> {
        self.forget_old(now);
        let known = self.clients.get(client).and_then(|of_client| of_client.requests.get(key));
        let Some(known) = known else { return Ok(None) };
        if known.asked != asked {
            let why = "an earlier request had the same `Idempotency-Key`, but another path or body; \
                use a new key for each request";
            return Err(Problem::new(ProblemKind::IdempotencyMismatch, why));
        }
        if known.reply.is_none() {
            let why = "the first request with this `Idempotency-Key` is not done; try again";
            return Err(Problem::new(ProblemKind::IdempotencyBusy, why));
        }
        Ok(known.reply.clone())
    }

    /// Begins a request with this key. Returns the reply if the request is complete already.
    fn begin(
        &mut self,
        key: &Key,
        asked: [u8; 32],
        now: Millis,
    ) -> Result<Option<PutReply>, Problem> {
        let reply = self.find(key, asked, now)?;
        if reply.is_none() {
            let of_client = self.clients.entry(key.0.clone()).or_default();
            of_client.requests.insert(key.1.clone(), Box::new(Known { asked, reply: None }));
        }
        Ok(reply)
    }

    fn keep(&mut self, (client, key): &Key, reply: &PutReply, now: Millis, bytes_max: usize) {
        let Some(of_client) = self.clients.get_mut(client) else { return };
        let Some(known) = of_client.requests.get_mut(key) else { return };
        // The copy has no free room.
        let reply = reply.clone();
        let bytes = bytes_of(key, &reply);
        known.reply = Some(reply);
        of_client.order.push_back((now, key.clone()));
        of_client.bytes += bytes;
        self.bytes += bytes;
        self.count += 1;
        while self.count > RESPONSES_MAX || self.bytes > bytes_max {
            // There are few clients, because each one has a name of the token file.
            let largest = self.clients.iter().max_by_key(|(_, of_client)| of_client.bytes);
            let Some(client) = largest.map(|(client, _)| client.clone()) else { break };
            self.forget_oldest(&client);
        }
    }

    /// Frees the key of a request that put nothing.
    fn release(&mut self, (client, key): &Key) {
        if let Some(of_client) = self.clients.get_mut(client) {
            of_client.requests.remove(key);
            if of_client.requests.is_empty() {
                self.clients.remove(client);
            }
        }
    }

    /// Forgets responses that are old.
    fn forget_old(&mut self, now: Millis) {
        let is_old = |of_client: &OfClient| {
            of_client.order.front().is_some_and(|(at, _)| now.since(*at) >= AGE_MAX_MS)
        };
        while let Some(client) = self
            .clients
            .iter()
            .find(|(_, of_client)| is_old(of_client))
            .map(|(client, _)| client.clone())
        {
            self.forget_oldest(&client);
        }
    }

    /// Forgets the oldest response of a client.
    fn forget_oldest(&mut self, client: &Arc<str>) {
        let Some(of_client) = self.clients.get_mut(client) else { return };
        let Some((_, key)) = of_client.order.pop_front() else { return };
        if let Some(known) = of_client.requests.remove(&key)
            && let Some(reply) = &known.reply
        {
            let bytes = bytes_of(&key, reply);
            of_client.bytes -= bytes;
            self.bytes -= bytes;
            self.count -= 1;
        }
        if of_client.requests.is_empty() {
            self.clients.remove(client);
        }
    }
}

/// The memory of a complete request.
fn bytes_of(key: &str, reply: &PutReply) -> usize {
    let entries = size_of::<(Arc<str>, Box<Known>)>() + size_of::<(Millis, Arc<str>)>();
    // A table has up to as many free entries as used ones, and an `Arc` has two counts.
    let shared_key = 2 * size_of::<usize>() + key.len();
    2 * entries + size_of::<Known>() + shared_key + reply.heap_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_pushes_out_only_its_own_keys() {
        let mut kept = Kept::default();
        let reply = PutReply::of(vec![b'x'; 1 << 20]);
        let key = |client: &str, number: u32| -> Key { (client.into(), number.to_string().into()) };
        let mut put = |client: &str, number| {
            let key = key(client, number);
            let known = kept.begin(&key, [0; 32], Millis(u64::from(number))).unwrap();
            if known.is_none() {
                kept.keep(&key, &reply, Millis(u64::from(number)), BYTES_MAX);
            }
            (known.is_some(), kept.bytes <= BYTES_MAX)
        };
        assert_eq!(put("quiet", 0), (false, true));
        for number in 1..100 {
            assert_eq!(put("busy", number), (false, true));
        }
        assert_eq!(put("quiet", 0), (true, true), "another client has not pushed it out");
        assert_eq!(put("busy", 99), (true, true));
        assert_eq!(put("busy", 1), (false, true), "its own newer keys have");

        // A key that failed is free again, and old ones are forgotten.
        let mut kept = Kept::default();
        let (failed, done) = (key("a", 1), key("a", 2));
        assert!(kept.begin(&failed, [0; 32], Millis(0)).unwrap().is_none());
        assert!(kept.begin(&failed, [0; 32], Millis(0)).is_err());
        kept.release(&failed);
        assert!(kept.clients.is_empty());
        assert!(kept.begin(&done, [0; 32], Millis(0)).unwrap().is_none());
        kept.keep(&done, &reply, Millis(5), BYTES_MAX);
        assert!(kept.begin(&done, [0; 32], Millis(AGE_MAX_MS)).unwrap().is_some());
        assert!(kept.begin(&done, [1; 32], Millis(AGE_MAX_MS)).is_err());
        assert!(kept.begin(&done, [0; 32], Millis(5 + AGE_MAX_MS)).unwrap().is_none());
        assert_eq!((kept.count, kept.bytes), (0, 0));
    }

    #[test]
    fn a_client_with_few_keys_has_small_tables() {
        let mut kept = Kept::default();
        let reply = PutReply::of(Vec::new());
        let client: Arc<str> = "a".into();
        for number in 0..10_000_u64 {
            let key = (client.clone(), number.to_string().into());
            assert!(kept.begin(&key, [0; 32], Millis(number)).unwrap().is_none());
            kept.keep(&key, &reply, Millis(number), BYTES_MAX);
        }
        let rooms = |kept: &Kept| {
            let of_client = &kept.clients[&client];
            [of_client.requests.capacity(), of_client.order.capacity()]
        };
        let before = rooms(&kept);
        assert!(before.iter().all(|room| *room >= 10_000), "{before:?}");
        kept.clients.values_mut().for_each(OfClient::shrink);
        assert_eq!(rooms(&kept), before, "the tables are used");
        kept.forget_old(Millis(AGE_MAX_MS + 9_998));
        assert_eq!(kept.count, 1);
        kept.clients.values_mut().for_each(OfClient::shrink);
        let after = rooms(&kept);
        assert!(after.iter().all(|room| *room <= 4 * ENTRIES_MIN), "{after:?}");
    }
}

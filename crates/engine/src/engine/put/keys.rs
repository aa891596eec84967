//! The keys of a put, as the policies of its queues ask for them.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::Offer;
use crate::engine::Engine;
use crate::ids::{QueueId, SessionId};
use crate::limits::UNIT_BODY_BYTES;
use crate::policy::{Key, KeyHash, KeySource};
use crate::sessions::Session;

/// The hashes of the keys of one put, by the hashes of their expressions. A put can go to hundreds of
/// queues, and a key can depend on the whole body. So the put computes the key of an expression once.
#[derive(Debug, Default)]
pub(in crate::engine) struct KnownKeys(RefCell<SmallVec<[(KeyHash, KeyHash); 2]>>);

impl KnownKeys {
    fn find(&self, by: &Key) -> Option<KeyHash> {
        let expression = by.expression_hash();
        self.0.borrow().iter().find(|(known, _)| *known == expression).map(|(_, key)| *key)
    }

    fn add(&self, by: &Key, key: KeyHash) {
        self.0.borrow_mut().push((by.expression_hash(), key));
    }
}

impl Engine {
    /// The key that a put into this queue gets. `None`: the policy of the queue does not ask for
    /// one, or the put has none.
    pub(super) fn key_for(&self, queue: QueueId, offer: Offer<'_>) -> Option<KeyHash> {
        let by = self.policy_of(queue)?.unique.by.as_ref()?;
        self.compute_key(by, offer)
    }

    /// The group key that a put into this queue gets.
    pub(super) fn group_key_for(&self, queue: QueueId, offer: Offer<'_>) -> Option<KeyHash> {
        let by = self.policy_of(queue)?.group_key()?;
        if !by.needs_client() {
            return self.compute_key(by, offer);
        }
        let client = offer.client.map_or("", |session| self.client_of(session));
        let value = by.compute(KeySource { client, ..KeySource::default() });
        (!value.is_empty()).then_some(value.hash)
    }

    /// The address or the name of a session's client. Empty: it is unknown.
    fn client_of(&self, session: SessionId) -> &str {
        let peer = self.sessions.find(session).map_or(&b""[..], Session::peer);
        str::from_utf8(peer).unwrap_or_default()
    }

    /// The key of a put by an expression that does not depend on the client.
    pub(super) fn compute_key(&self, by: &Key, offer: Offer<'_>) -> Option<KeyHash> {
        let hash = offer.keys.find(by).unwrap_or_else(|| {
            let source = KeySource { body: offer.body, gearman_unique: offer.unique, client: "" };
            self.meter.count(by.bytes_read(source) / UNIT_BODY_BYTES);
            let hash = by.compute(source).hash;
            offer.keys.add(by, hash);
            hash
        });
        // The empty key: the put has none.
        (hash != KeyHash::default()).then_some(hash)
    }
}

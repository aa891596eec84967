//! A follower: it reads records, and claims when the leader is gone.

use std::sync::Arc;

use super::lead::Lead;
use super::{ASK_MS, Act, Append, CLAIM_IDS, End, Node, Output, Request, Role, Subject};
use crate::claim::{Claim, Reason};
use crate::reader::Meaning;
use crate::record::Kind;
use crate::{Incarnation, NodeId, Seq};

/// A claim because of silence waits this much longer than the lease.
const SILENCE_MS: u64 = 500;
/// The stream's leader must have confirmed the tail for this time, and this often. While the stream
/// itself has no leader, nobody hears anything, and nobody claims.
const CONFIRMED_MS: u64 = 600;
const CONFIRMED_ANSWERS: u32 = 3;
/// The node that the leader named claims at once. The others wait.
const SUCCESSOR_MS: u64 = 300;

/// While a claim is possible, the node looks this often.
const UNEASY_MS: u64 = 20;

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub(super) struct Follow {
    /// When the last record arrived.
    heard_ms: u64,
    /// Since when, and how often, the stream's leader has said that nothing follows our tail.
    confirmed: Option<(u64, u32)>,
    /// The leader resigned at this moment, in favour of this node.
    resigned: Option<(NodeId, u64)>,
    /// The leader's process is gone.
    is_gone: bool,
    /// The leader's address refuses connections.
    refuses: bool,
    /// The leader has written nothing since its claim. It may be a process that had given the claim
    /// up, and the leader before it may have a lease. That leader's last record arrived at this
    /// moment, or earlier.
    former_ms: Option<u64>,
    /// An operator wants a claim.
    is_promoted: bool,
}

impl Follow {
    /// `leads`: somebody has claimed, and may have written nothing since.
    pub(super) fn new(now_ms: u64, leads: bool) -> Follow {
        Follow {
            former_ms: leads.then_some(now_ms),
            heard_ms: now_ms,
            confirmed: None,
            resigned: None,
            is_gone: false,
            refuses: false,
            is_promoted: false,
        }
    }

    /// Whether the stream's tail is of interest: nothing was heard for half a lease.
    pub(super) fn asks_tail(&self, now_ms: u64, lease_ms: u64) -> bool {
        self.is_gone || now_ms >= self.heard_ms + lease_ms / 2
    }

    /// Whether a claim may be possible soon.
    fn is_uneasy(&self, now_ms: u64, lease_ms: u64) -> bool {
        self.is_gone || self.resigned.is_some() || self.asks_tail(now_ms, lease_ms)
    }

    pub(super) fn wake_at(&self, now_ms: u64, lease_ms: u64) -> u64 {
        let is_uneasy = self.is_uneasy(now_ms, lease_ms);
        if is_uneasy { now_ms + UNEASY_MS } else { self.heard_ms + lease_ms / 2 }
    }

    /// See [`Node::hurries`].
    pub(super) fn hurries(&self, now_ms: u64, lease_ms: u64) -> bool {
        self.is_promoted || self.is_uneasy(now_ms, lease_ms)
    }
}

impl Node {
    fn follow(&mut self) -> Option<&mut Follow> {
        match &mut self.role {
            Role::Follow(follow) => Some(follow),
            Role::Search(_) | Role::Lead(_) | Role::Over => None,
        }
    }

    /// A record that was delivered. Records that are known already are ignored.
    pub(super) fn record(
        &mut self,
        now_ms: u64,
        seq: Seq,
        bytes: &Arc<[u8]>,
        out: &mut Vec<Output>,
    ) {
        let expected = self.reader.tail() + 1;
        if self.follow().is_none() || seq < expected {
            return;
        }
        if seq > expected {
            // Records leave the stream only by a trim.
            return self.finish(Act::Fetch, out);
        }
        self.read(now_ms, bytes, out);
    }

    /// Reads the record after the tail.
    pub(super) fn read(&mut self, now_ms: u64, bytes: &Arc<[u8]>, out: &mut Vec<Output>) {
        let seq = self.reader.tail() + 1;
        let knew_leader = self.reader.leader().is_some();
        let had_leader = self.reader.epoch() > 0;
        let meaning = match self.read_record(seq, bytes) {
            Ok(meaning) => meaning,
            Err(error) => return self.fail(error.into(), out),
        };
        let own = self.setting.incarnation;
        let Some(follow) = self.follow() else { return };
        let heard_ms = std::mem::replace(&mut follow.heard_ms, now_ms);
        follow.confirmed = None;
        match meaning {
            Meaning::Stale => (),
            Meaning::Claim(..) => {
                (follow.is_gone, follow.refuses) = (false, false);
                follow.former_ms = had_leader.then_some(heard_ms);
            }
            Meaning::Group(_)
            | Meaning::Part
            | Meaning::Alive
            | Meaning::Renewal
            | Meaning::Resign(_) => {
                (follow.is_gone, follow.refuses) = (false, false);
                follow.former_ms = None;
            }
        }
        match meaning {
            Meaning::Group(group) => out.push(Output::Act(Act::Apply(group))),
            Meaning::Part | Meaning::Alive => (),
            Meaning::Claim(node, claim) => {
                follow.resigned = None;
                follow.is_promoted = false;
                // The other nodes believe that this process leads. It ends, and they wait for it
                // as for any leader.
                if claim.incarnation == own {
                    return self.end(End::LateClaim, out);
                }
                out.push(Output::Act(Act::Follows(node, claim)));
            }
            Meaning::Renewal => {
                if let Some((node, claim)) = self.reader.leader().filter(|_| !knew_leader) {
                    out.push(Output::Act(Act::Follows(*node, claim.clone())));
                }
            }
            Meaning::Resign(resignation) => {
                follow.resigned = Some((resignation.successor, now_ms));
            }
            Meaning::Stale => self.counts.stale += 1,
        }
    }

    pub(super) fn follow_tail(&mut self, now_ms: u64, last: Seq) {
        let tail = self.reader.tail();
        let Some(follow) = self.follow() else { return };
        if last == tail {
            follow.confirmed.get_or_insert((now_ms, 0)).1 += 1;
        } else {
            follow.confirmed = None;
        }
    }

    pub(super) fn follow_no_tail(&mut self) {
        if let Some(follow) = self.follow() {
            follow.confirmed = None;
        }
    }

    pub(super) fn leader_gone(&mut self, incarnation: Incarnation) {
        if let Some(follow) = self.follow_of(incarnation) {
            follow.is_gone = true;
        }
    }

    pub(super) fn leader_refuses(&mut self, incarnation: Incarnation) {
        if let Some(follow) = self.follow_of(incarnation) {
            follow.refuses = true;
        }
    }

    /// The state of a follower, if this process is its leader.
    fn follow_of(&mut self, incarnation: Incarnation) -> Option<&mut Follow> {
        let leads = |(_, claim): &(NodeId, Claim)| claim.incarnation == incarnation;
        let is_leader = self.reader.leader().is_some_and(leads);
        self.follow().filter(|_| is_leader)
    }

    pub(super) fn promote(&mut self) {
        if let Some(follow) = self.follow() {
            follow.is_promoted = true;
        }
    }

    pub(super) fn claim_if_due(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let is_safe = self.is_safe(now_ms);
        let has_applied = self.applied == self.reader.at().number;
        let is_new = self.reader.epoch() == 0 && !self.setting.has_place;
        let hangs = self.folder_hangs(now_ms);
        if !self.can_append() || !is_safe || !has_applied || is_new || hangs {
            return;
        }
        let Some(reason) = self.reason_to_claim(now_ms) else { return };
        let claim = Claim {
            reason,
            incarnation: self.setting.incarnation,
            leader: self.setting.leader.clone(),
        };
        let id_limit = self.reader.id_limit().max(self.next_id) + CLAIM_IDS;
        let time_ms = self.reader.time_ms();
        let record = self.plain_record(Kind::Claim, time_ms, id_limit, &claim.encode());
        self.begin_append(now_ms, Subject::Claims, record, out);
    }

    fn reason_to_claim(&self, now_ms: u64) -> Option<Reason> {
        let Role::Follow(follow) = &self.role else { return None };
        let (lease_ms, jitter_ms) = (self.setting.lease_ms, self.setting.jitter_ms);
        if follow.is_promoted {
            return Some(Reason::Forced);
        }
        if !self.setting.can_lead {
            return None;
        }
        if let Some((successor, at_ms)) = follow.resigned {
            let is_due =
                successor == self.setting.node || now_ms >= at_ms + SUCCESSOR_MS + jitter_ms;
            return is_due.then_some(Reason::Resigned);
        }
        let (since_ms, answers) = follow.confirmed?;
        if self.reader.epoch() == 0 {
            return (now_ms >= since_ms + jitter_ms).then_some(Reason::First);
        }
        let is_free = |former_ms: u64| now_ms >= former_ms + lease_ms + SILENCE_MS;
        let is_free = follow.former_ms.is_none_or(is_free);
        // An idle leader writes after a quarter of its lease (`lead.rs`). One that lives is seldom silent for
        // twice as long, and a firewall may well refuse connections to it. As with silence, it has time for an
        // append that waited for the stream.
        let is_quiet = now_ms >= follow.heard_ms + lease_ms / 2;
        let is_confirmed = answers >= CONFIRMED_ANSWERS && now_ms >= since_ms + CONFIRMED_MS;
        let is_gone = follow.is_gone || follow.refuses && is_quiet && is_confirmed;
        if is_gone && is_free && now_ms >= since_ms + jitter_ms {
            return Some(Reason::ProcessGone);
        }
        let is_silent = now_ms >= follow.heard_ms + lease_ms + SILENCE_MS + jitter_ms;
        (is_silent && is_confirmed).then_some(Reason::Silence)
    }

    /// The claim is in the stream, directly after the record that this node has read and applied.
    pub(super) fn claimed(&mut self, now_ms: u64, append: &Append, out: &mut Vec<Output>) {
        let epoch = append.place();
        if let Err(error) = self.read_record(epoch, &append.record) {
            return self.fail(error.into(), out);
        }
        assert_eq!(self.reader.epoch(), epoch, "a claim with the right conditions counts");
        let (time_ms, id_limit) = (self.reader.time_ms(), self.reader.id_limit());
        self.role = Role::Lead(Lead::new(now_ms, time_ms, epoch));
        self.asked_ms = now_ms.max(ASK_MS);
        out.push(Output::Request(Request::Follow { from: None }));
        out.push(Output::Act(Act::Lead { epoch, at: self.reader.at(), time_ms, id_limit }));
    }
}

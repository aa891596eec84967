//! The order of the jobs in a lane, and of the lanes. The log keeps nothing of it: the order of jobs
//! follows from their facts, and turns begin anew with the process.

use super::{Lane, Lanes};
use crate::ids::Millis;
use crate::policy::{FairMode, KeyHash, LaneRules};
use crate::queues::ReadyKey;

/// A ready or delayed job, as its lane needs to know it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Entrant {
    pub(crate) key: KeyHash,
    /// Its place among the ready jobs of the queue.
    pub(crate) place: ReadyKey,
    /// When the job became ready.
    pub(crate) ready_since: Millis,
    /// The job was handed out before.
    pub(crate) has_begun: bool,
}

/// The place of a delayed job in its queue.
pub(crate) type DelayKey = (Millis, u64);

/// The place of a ready job in its lane: its urgency, and its order number.
pub(super) type LanePlace = (u64, u64);

/// The place of a lane among all lanes. The parts are: the urgency of the first job, the place of the
/// key among the keys that share the hand-outs, and the order number of the first job.
pub(super) type Rank = (u64, u64, u64);

/// The first place.
pub(super) const FIRST: LanePlace = (0, 0);

/// This bit of the urgency marks jobs that come after all jobs without it.
const BEHIND: u64 = 1 << 63;

/// The turn of a lane, if the lanes take turns: deficit round robin. A lane comes behind all others
/// when it gets its first ready job, and after as many hand-outs as its weight says. While it is
/// closed, it keeps its turn, and loses nothing.
#[derive(Copy, Clone, Debug)]
pub(super) struct Turn {
    /// The lane with the lowest number has the turn.
    number: u64,
    /// How many jobs the lane can hand out before the turn goes on.
    left: u32,
}

impl Entrant {
    /// The place of the job in its lane. With a strict order, a job that was handed out before comes
    /// before all jobs that were not.
    pub(super) fn place_in_lane(self, rules: &LaneRules) -> LanePlace {
        let (priority, order) = self.place;
        let behind = if rules.is_strict && !self.has_begun { BEHIND } else { 0 };
        let urgency = match rules.aging {
            Some(aging) => aging.urgency(priority, self.ready_since),
            None => priority.into(),
        };
        (urgency | behind, order)
    }
}

impl Turn {
    /// No turn: the lane has no ready job.
    pub(super) const NONE: Self = Self { number: 0, left: 0 };
}

impl Lane {
    /// The rank of the lane with this first job.
    pub(super) fn rank(&self, rules: &LaneRules, (urgency, order): LanePlace) -> Rank {
        let urgency = urgency & !BEHIND;
        let Some(share) = rules.share else { return (urgency, 0, order) };
        let level = match rules.aging {
            _ if share.across_priorities => 0,
            Some(aging) => aging.level(urgency),
            None => urgency,
        };
        match share.mode {
            FairMode::RoundRobin => (level, self.turn.number, order),
            // Weights are small, so different quotients differ by more than 1 here.
            FairMode::InFlight => {
                (level, (u64::from(self.leased) << 32) / u64::from(self.weight), order)
            }
        }
    }
}

impl Lanes {
    /// The lane comes behind all others.
    pub(super) fn begin_turn(&mut self, at: u32) {
        let number = self.next_turn;
        self.next_turn += 1;
        let lane = self.lane_mut(at);
        lane.turn = Turn { number, left: lane.weight };
    }

    /// The lane has handed out a job of its turn.
    pub(super) fn use_turn(&mut self, at: u32) {
        let lane = self.lane_mut(at);
        // A lane without ready jobs has no turn.
        if lane.ready > 0 {
            lane.turn.left = lane.turn.left.saturating_sub(1);
            if lane.turn.left == 0 {
                self.begin_turn(at);
            }
        }
    }
}

//! The lanes of a fair queue in the order of the ages of their first jobs, for metrics: so they name
//! the keys that have waited longest without a look at all keys.

use super::Lanes;
use crate::ids::Millis;

impl Lanes {
    /// Notes since when the first job of a lane is ready. `None`: the lane has no ready job.
    pub(super) fn set_head(&mut self, at: u32, since: Option<Millis>) {
        let head = since.filter(|_| self.rules.share.is_some());
        let before = std::mem::replace(&mut self.lane_mut(at).head, head);
        if before == head {
            return;
        }
        if let Some(before) = before {
            self.heads.remove(&(before, at));
        }
        if let Some(head) = head {
            self.heads.insert((head, at));
        }
    }

    /// Forgets one of the first jobs. Returns false if there are none.
    pub(super) fn forget_head(&mut self) -> bool {
        let Some((_, at)) = self.heads.pop_first() else { return false };
        self.lane_mut(at).head = None;
        true
    }

    /// Since when the first jobs of the lanes are ready, oldest first. While lanes are cleared, nobody
    /// knows: a job that leaves meanwhile stays among the first ones.
    pub(crate) fn oldest_heads(&self) -> impl Iterator<Item = Millis> {
        let heads = self.is_at_rest().then_some(&self.heads);
        heads.into_iter().flatten().map(|(since, _)| *since)
    }

    /// Panics if a lane has not the place of its first job.
    pub(super) fn check_heads(&self) {
        let mut heads = 0;
        for at in self.by_key.values() {
            let first = self.first_in(*at).filter(|_| self.rules.share.is_some());
            let lane = self.table.get(*at).expect("a key has its lane");
            assert_eq!(lane.head, first.map(|first| first.since), "the first job of a lane");
            assert!(lane.head.is_none_or(|head| self.heads.contains(&(head, *at))));
            heads += usize::from(lane.head.is_some());
        }
        assert_eq!(heads, self.heads.len(), "the first jobs of lanes");
    }
}

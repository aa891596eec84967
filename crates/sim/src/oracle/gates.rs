//! The record of hand-outs of each queue. Checks that a queue with a rate hands out at most
//! `burst + rate × w` jobs in each window of `w` milliseconds, over crashes, too, and that a queue
//! with a limit of leased jobs keeps it. The checks count, and know no bucket. A queue hands out
//! nothing while a schedule pauses it.
//!
//! A limit of leased jobs can count for each key on its own. The oracle computes the keys itself. It counts
//! the leases of jobs that were put since the last change of the rules, because an older job keeps the key
//! that it had.

use std::collections::{BTreeMap, BTreeSet};

use broker::policy::{Rate, Rules};

use super::rules::{Part, QueueRules, lead_to, parent_of, resolve_for_certain};
use crate::Checked;

/// The oracle forgets older hand-outs of a queue than this many.
const MOMENTS_MAX: usize = 400;
/// A reply can wait for the log: a client got its job at most this long ago.
const REPLY_MS_MAX: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Gates {
    /// The rules in force.
    rules: Rules,
    /// True if the earlier rules can still apply to some queues.
    is_changing: bool,
    /// Time that has passed in processes of the server. The time between two processes does not
    /// count, because somebody can set the clock meanwhile.
    clock: u64,
    last: u64,
    /// True if the wall clock shows the server's time.
    knows_wall: bool,
    queues: BTreeMap<String, HandOuts>,
    /// The leased jobs of each queue with a limit, when the oracle last looked.
    leased: BTreeMap<String, u32>,
    /// Jobs with this number or a higher one were put while the rules in force applied to their queue.
    put_from: Option<u64>,
    /// Jobs that an operator moved. They keep the keys that they had in other queues.
    moved: BTreeSet<u64>,
    pub(super) keys_judged: u64,
    pub(super) rates_judged: u64,
    pub(super) slots_judged: u64,
    pub(super) pauses_judged: u64,
}

/// A leased job.
#[derive(Copy, Clone, Debug)]
pub(crate) struct LeasedJob<'a> {
    pub(crate) id: u64,
    pub(crate) queue: &'a str,
    /// The key of a client of Gearman, or empty.
    pub(crate) unique: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl LeasedJob<'_> {
    /// The key of the job by this expression. It is empty if the job has none. `None`: the oracle does not
    /// know it.
    fn key(&self, expression: &str) -> Option<Vec<u8>> {
        match (expression, self.unique) {
            ("gm:unique", b"-") => Some(self.body.to_vec()),
            // It can be a copy. A copy has the key of its original, but joins no submit.
            ("gm:unique", b"") if parent_of(self.queue).is_some() => None,
            // A dialect can cut long ones.
            ("gm:unique", unique) => (unique.len() < 64).then(|| unique.to_vec()),
            (expression, _) => Part::of(expression).map(|part| part.key(self.body)),
        }
    }
}

/// The hand-outs of a queue while the same rate applied.
#[derive(Debug)]
struct HandOuts {
    rate: Rate,
    burst: u32,
    moments: Vec<u64>,
}

impl Gates {
    pub(super) fn passed(&mut self, now: u64) {
        self.clock += now.saturating_sub(self.last);
        self.last = self.last.max(now);
    }

    /// Notes other rules. If `in_slices`, the earlier rules can apply to some queues until
    /// [`Gates::settled`] is called.
    pub(super) fn changed(&mut self, rules: &Rules, in_slices: bool) {
        self.rules = rules.clone();
        self.leased.clear();
        self.put_from = None;
        self.is_changing = true;
        if !in_slices {
            self.settled();
        }
    }

    pub(super) fn settled(&mut self) {
        if std::mem::take(&mut self.is_changing) {
            self.queues.clear();
            self.put_from = None;
        }
    }

    /// Notes that another process began at this moment, with these rules. It knows nothing of the
    /// hand-outs before it. The record does.
    pub(super) fn began(&mut self, rules: &Rules, opened: u64) {
        self.last = opened;
        self.knows_wall = true;
        self.leased.clear();
        self.put_from = None;
        if *rules != self.rules || self.is_changing {
            self.rules = rules.clone();
            self.is_changing = false;
            self.queues.clear();
        }
    }

    /// Forgets everything, because the moments of another process say nothing about this one.
    pub(super) fn forget(&mut self, rules: &Rules, now: u64) {
        self.queues.clear();
        self.began(rules, now);
        self.knows_wall = false;
    }

    /// The rules that certainly apply to a queue.
    fn rules_of(&self, queue: &str) -> Option<QueueRules> {
        let rules = resolve_for_certain(&self.rules, queue)?;
        // A policy that can end ready jobs applies only when all jobs of the queue are loaded.
        (!rules.lets_go() && !self.is_changing).then_some(rules)
    }

    /// The server handed out a job of this queue now. The client did not wait for it.
    pub(super) fn handed_out(&mut self, queue: &str, now: u64) -> Checked {
        self.passed(now);
        let Some(rules) = self.rules_of(queue) else { return Ok(()) };
        if let Some(window) = rules.window().filter(|_| self.knows_wall) {
            if window.lasts(now).is_some_and(|since| since > REPLY_MS_MAX) {
                return Err(format!("{queue} handed out a job in a pause: {window:?}"));
            }
            self.pauses_judged += 1;
        }
        let Some(rate) = rules.rate.filter(|_| rules.rate_key.is_none()) else { return Ok(()) };
        let per_ms = u128::from(rate.per.millis());
        let milli = u128::from(rate.milli.get());
        let of_a_second = (milli / per_ms).max(1) as u32;
        let burst = rules.rate_burst.map_or(of_a_second, std::num::NonZeroU32::get);
        let clock = self.clock;
        let record = self.queues.entry(queue.to_owned());
        let record = record.or_insert(HandOuts { rate, burst, moments: Vec::new() });
        assert_eq!((record.rate, record.burst), (rate, burst), "the same rules");
        record.moments.push(clock);
        if record.moments.len() > MOMENTS_MAX {
            record.moments.remove(0);
        }
        for (before, from) in record.moments.iter().enumerate() {
            let count = (record.moments.len() - before) as u128;
            let window = u128::from(clock - from);
            let allowed = u128::from(burst) * 1000 * per_ms + milli * window;
            if count * 1000 * per_ms > allowed {
                return Err(format!(
                    "{queue} handed out {count} jobs in {window} ms, with {rate:?} and burst {burst}"
                ));
            }
        }
        self.rates_judged += 1;
        Ok(())
    }

    /// True if the server limits leased jobs of some queue.
    pub(super) fn limits_slots(&self) -> bool {
        let mut settings = self.rules.0.iter().flat_map(|rule| &rule.settings);
        settings.any(|asked| matches!(asked.setting, broker::policy::Setting::Concurrency(Some(_))))
    }

    /// Checks the number of leased jobs of a queue. After a change of the rules, it can be too
    /// large, but it does not grow. The leases of a key do not count for another key that the rules
    /// give later, so such limits are not judged here.
    pub(super) fn check_leased(&mut self, queue: &str, leased: u32) -> Checked {
        let before = self.leased.insert(queue.to_owned(), leased).unwrap_or(leased);
        let limit = self
            .rules_of(queue)
            .filter(|rules| rules.concurrency_key.is_none())
            .and_then(|rules| Some((rules.concurrency?, rules.is_strict)));
        let Some((limit, is_strict)) = limit else { return Ok(()) };
        self.slots_judged += u64::from(leased > 0);
        if leased > limit.get().max(before) {
            let order = if is_strict { "strict" } else { "loose" };
            return Err(format!(
                "{leased} jobs of {queue} are leased, with a limit of {limit} and a {order} order"
            ));
        }
        Ok(())
    }
}

/// # Limits for each key
impl Gates {
    /// True if the server limits the leased jobs of some key.
    pub(super) fn limits_keys(&self) -> bool {
        let mut settings = self.rules.0.iter().flat_map(|rule| &rule.settings);
        settings
            .any(|asked| matches!(asked.setting, broker::policy::Setting::ConcurrencyKey(Some(_))))
    }

    /// An operator moved this job to another queue.
    pub(super) fn moved(&mut self, id: u64) {
        self.moved.insert(id);
    }

    /// Checks the leased jobs of each key. `next_id` is above the numbers of all jobs.
    pub(super) fn check_keys(&mut self, leased: &[LeasedJob<'_>], next_id: u64) -> Checked {
        if self.is_changing {
            return Ok(());
        }
        let put_from = *self.put_from.get_or_insert(next_id);
        let mut counts: BTreeMap<(&str, Vec<u8>), u32> = BTreeMap::new();
        for job in leased.iter().filter(|job| job.id >= put_from && !self.moved.contains(&job.id)) {
            let rules = self.rules_of(job.queue).filter(|_| !lead_to(&self.rules, job.queue));
            let Some(rules) = rules else { continue };
            let Some(limit) = rules.concurrency else { continue };
            let expression = rules.concurrency_key.as_ref();
            let Some(key) = expression.and_then(|key| job.key(key.as_str())) else { continue };
            self.keys_judged += 1;
            let count = counts.entry((job.queue, key.clone())).or_default();
            *count += 1;
            if *count > limit.get() {
                return Err(format!(
                    "{count} jobs of {} with the key \"{}\" are leased, with a limit of {limit}",
                    job.queue,
                    key.escape_ascii()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use broker::policy::{Order, Rule, Setting};

    use super::*;

    #[test]
    fn a_strict_order_has_no_more_leases_than_slots() {
        let strict = Setting::ConcurrencyOrder(Order::Strict);
        let slots = Setting::Concurrency(NonZeroU32::new(2));
        let rules = Rules(vec![Rule::new(["q"], [slots, strict])]);
        let mut gates = Gates::default();
        gates.changed(&rules, false);
        // Leases from before the rules may stay, and end one after the other.
        let kept = [4, 3, 2, 0, 2].map(|leased| gates.check_leased("q", leased).is_ok());
        assert_eq!(kept, [true; 5]);
        let error = gates.check_leased("q", 3).expect_err("a promise was broken");
        assert!(error.contains("with a limit of 2 and a strict order"), "{error}");
        assert!(gates.check_leased("other", 9).is_ok());
    }

    #[test]
    fn each_key_has_no_more_leases_than_slots() {
        let key = Setting::ConcurrencyKey(Some("prefix:1".parse().expect("it is a key")));
        let rules = Rules(vec![Rule::new(["q"], [Setting::Concurrency(NonZeroU32::new(1)), key])]);
        let mut gates = Gates::default();
        gates.changed(&rules, false);
        let job = |id, body| LeasedJob { id, queue: "q", unique: b"", body };
        // Jobs from before the rules have no key.
        let before = [job(1, b"x"), job(2, b"x")];
        assert_eq!(gates.check_keys(&before, 3), Ok(()));
        let well = [job(1, b"x"), job(3, b"x"), job(4, b"y"), job(5, b"")];
        assert_eq!(gates.check_keys(&well, 6), Ok(()));
        // An operator moved this job here.
        gates.moved(6);
        assert_eq!(gates.check_keys(&[job(3, b"x"), job(6, b"x")], 7), Ok(()));
        let error = gates.check_keys(&[job(3, b"xa"), job(7, b"xb")], 8);
        let error = error.expect_err("a promise was broken");
        assert!(error.contains("2 jobs of q with the key \"x\" are leased"), "{error}");
        let error = gates.check_keys(&[job(5, b""), job(8, b"")], 9);
        let error = error.expect_err("a promise was broken");
        assert!(error.contains("with the key \"\" are leased"), "{error}");
    }
}

//! Policies: an operator's settings for queues. They come from a file of rules, and a rule applies
//! to queues whose names match its patterns.
//!
//! The types here are pure values and refer to no queue. [`Rules`] are the content of the file. A
//! [`Policy`] is the result of the rules for one name. Other modules of the engine apply policies
//! to queues.

mod aging;
mod check;
pub(crate) mod codec;
mod dead_letters;
mod defaults;
mod fair;
mod gates;
mod history;
mod in_force;
mod key;
mod pattern;
mod pause;
mod retries;
mod rules_with;
mod same_as;
#[cfg(test)]
mod tests;
mod unique;

pub use aging::{AGING_MS_MAX, AGING_STEPS_MAX, Aging};
pub use check::{COPIES_MAX, DESTINATIONS_MAX, RULES_BYTES_MAX, RulesError};
pub use dead_letters::{DeadLetters, DeadTarget};
pub use defaults::{Defaults, PRIORITY_DEFAULT, Unsent};
pub(crate) use fair::LaneWeights;
pub use fair::{Fair, FairMode, WEIGHT_MAX, WEIGHTS_MAX, Weight, Weights};
pub(crate) use gates::LaneRules;
pub use gates::{Order, Per, Rate};
pub use history::{History, KeptBody};
pub(crate) use in_force::InForce;
pub use key::{
    EXPRESSION_BYTES_MAX, JSON_BYTES_MAX, KEY_TEXT_BYTES_MAX, Key, KeyError, KeyHash, KeySource,
    KeyValue, SCAN_BYTES_MAX,
};
pub use pattern::Pattern;
pub use pause::{PausePhase, PausePolicy};
pub use retries::{Backoff, Retries};
pub use unique::{OnDuplicate, Unique, UniqueWindow};

use std::mem::discriminant;
use std::num::NonZeroU32;

use crate::schedule::{Cron, Zone};

/// Maximum number of open reads of one session on a queue, if no policy sets this number.
pub const OPEN_MAX_DEFAULT: u32 = 100;

/// The name of a queue, as bytes.
pub type Name = Box<[u8]>;

/// The policy of one queue. A queue without a matching rule has the default policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// With this number of ready jobs, the queue is full.
    pub jobs_max: Option<u64>,
    /// With this many bytes of bodies of ready jobs, the queue is full. The check is before a put,
    /// so the last body can exceed the limit.
    pub bytes_max: Option<u64>,
    /// Maximum size of a body. The queue refuses a larger body.
    pub item_bytes_max: Option<u64>,
    /// A ready job expires when it is older than this many milliseconds.
    pub age_max_ms: Option<u64>,
    /// The result of a put into a full queue.
    pub when_full: WhenFull,
    /// How long a put waits for room, in milliseconds, if `when_full` says so.
    pub block_for_ms: u64,
    /// The queue to which expired jobs move. `None`: expired jobs end.
    pub expire_to: Option<Name>,
    /// Maximum number of expired jobs that one sweep removes.
    pub expire_sweep: Option<u32>,
    /// The engine removes an empty and unused queue that is older than this many milliseconds.
    pub idle_ms: Option<u64>,
    /// Maximum number of open reads of one session on the queue.
    pub open_max: u32,
    /// The lease of an open read ends after this many milliseconds, and the item is given back.
    pub open_timeout_ms: Option<u64>,
    /// The queue itself stores no job. A put into this queue goes only to its children and copies.
    pub fanout_only: bool,
    /// How durable a put is when the server acknowledges it. `None`: the setting of the whole
    /// server applies.
    pub sync: Option<QueueSync>,
    /// Whether a client gets a job only after the log has stored that it was taken. If not, a crash of
    /// the server can forget the last takes of a job.
    pub durable_leases: bool,
    /// The memory for the bodies of this queue, in bytes. If the bodies of the ready jobs take more,
    /// some of them leave the memory, and are then only in the log. The bodies of delayed and buried
    /// jobs leave the memory at once.
    pub memory_max: Option<u64>,
    /// If this is not empty, the name is an alias and not a queue. A put under this name goes to
    /// each of these queues.
    pub alias: Box<[Name]>,
    /// A put into this queue also goes to each of these queues.
    pub copy_to: Box<[Name]>,
    /// The queue that the name stands for, for puts and takes: see [`Rules::real_name`]. `None`: the
    /// name stands for a queue of its own.
    pub same_as: Option<Name>,
    /// What happens to a job whose attempt failed.
    pub retries: Retries,
    /// What happens to a job that has failed too often, or expires or makes room.
    pub dead: DeadLetters,
    /// What a job gets if its client did not send it.
    pub defaults: Defaults,
    /// Whether the queue hands out jobs.
    pub pause: PausePolicy,
    /// How many jobs the queue hands out in a time, at most. `None`: any number.
    pub rate: Option<Rate>,
    /// How many jobs a queue with a rate can hand out at once: see [`Policy::burst`].
    pub rate_burst: Option<NonZeroU32>,
    /// Where the key of a job is, if the rate counts for each key on its own.
    pub rate_key: Option<Key>,
    /// How many jobs of the queue can be leased at one time. `None`: any number.
    pub concurrency: Option<NonZeroU32>,
    /// Where the key of a job is, if the limit of leased jobs counts for each key on its own.
    pub concurrency_key: Option<Key>,
    /// Whether the jobs behind a job that was handed out can pass it while it is delayed.
    pub concurrency_order: Order,
    /// How the keys of the queue share its hand-outs.
    pub fair: Fair,
    /// How fast ready jobs become more urgent. `None`: they do not.
    pub aging: Option<Aging>,
    /// Which jobs are the same job, and what happens to a put of one that is there already.
    pub unique: Unique,
    /// What is kept of jobs that have left the queue.
    pub history: History,
    /// The outcome of a submitted job is kept for this many milliseconds after its end. `None`: it is
    /// not.
    pub result_keep_ms: Option<u64>,
}

impl Policy {
    /// Whether the engine needs all jobs of the queue in memory: to end the oldest of them, to end each
    /// at its age, or to sort them by their keys.
    pub fn needs_all_jobs(&self) -> bool {
        self.age_max_ms.is_some() || self.drops_oldest() || self.lane_rules().is_some()
    }

    /// Whether a put can end the oldest job of the queue to make room.
    pub(crate) fn drops_oldest(&self) -> bool {
        let is_bounded = self.jobs_max.is_some() || self.bytes_max.is_some();
        self.when_full == WhenFull::DropOldest && is_bounded
    }

    /// This policy, but with the bounds of another one, and what happens to a put beyond them.
    pub(crate) fn with_bounds_of(self, other: &Policy) -> Policy {
        let Policy { jobs_max, bytes_max, when_full, .. } = *other;
        Policy { jobs_max, bytes_max, when_full, ..self }
    }

    /// Whether a put that replaces the body of a job can make a new job, and set the old one aside as a
    /// dead letter.
    pub(crate) fn may_keep_replaced(&self) -> bool {
        self.unique.on_duplicate == OnDuplicate::ReplaceBody
            && self.when_full == WhenFull::DropOldest
            && self.bytes_max.is_some()
            && self.dead.dropped
    }
}

/// The result of a put into a full queue.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// The queue refuses the put.
    #[default]
    Refuse,
    /// The queue ends ready jobs until it has room. It ends the least urgent job first. Among jobs
    /// of the same priority, it ends the oldest first.
    DropOldest,
    /// The put waits for room, at most for a time. Then the queue refuses it. The engine itself
    /// refuses each put into a full queue: see [`crate::Engine::wait_for_room`].
    Block,
}

/// How long a put waits for room if no policy says it.
pub const BLOCK_FOR_MS_DEFAULT: u64 = 5000;

/// How durable a put is when the server acknowledges it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum QueueSync {
    /// The log has written and synced the put: it is on stable storage.
    Always,
    /// The log has written the put. The put is on stable storage at most this many milliseconds
    /// later.
    Every(u64),
    /// The log has written the put. The operating system brings it to stable storage at some later
    /// time.
    Never,
    /// The put is only in memory. The job ends with the process.
    Memory,
}

/// One setting with its value. A value of `None` sets the default again, so that a specific rule
/// can undo a general rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Setting {
    /// See [`Policy::jobs_max`].
    JobsMax(Option<u64>),
    /// See [`Policy::bytes_max`].
    BytesMax(Option<u64>),
    /// See [`Policy::item_bytes_max`].
    ItemBytesMax(Option<u64>),
    /// See [`Policy::age_max_ms`].
    AgeMax(Option<u64>),
    /// See [`Policy::when_full`].
    WhenFull(WhenFull),
    /// See [`Policy::block_for_ms`].
    BlockFor(u64),
    /// See [`Policy::expire_to`].
    ExpireTo(Option<Name>),
    /// See [`Policy::expire_sweep`].
    ExpireSweep(Option<u32>),
    /// See [`Policy::idle_ms`].
    Idle(Option<u64>),
    /// See [`Policy::open_max`].
    OpenMax(u32),
    /// See [`Policy::open_timeout_ms`].
    OpenTimeout(Option<u64>),
    /// See [`Policy::fanout_only`].
    FanoutOnly(bool),
    /// See [`Policy::sync`].
    Sync(Option<QueueSync>),
    /// See [`Policy::durable_leases`].
    DurableLeases(bool),
    /// See [`Policy::memory_max`].
    MemoryMax(Option<u64>),
    /// See [`Policy::alias`].
    Alias(Box<[Name]>),
    /// See [`Policy::copy_to`].
    CopyTo(Box<[Name]>),
    /// See [`Policy::same_as`].
    SameAs(Option<Name>),
    /// See [`Retries::is_on`].
    Retries(bool),
    /// See [`Retries::limit`].
    RetryLimit(u32),
    /// See [`Retries::backoff`].
    RetryBackoff(Backoff),
    /// See [`Retries::base_ms`].
    RetryBase(u64),
    /// See [`Retries::max_ms`].
    RetryMax(u64),
    /// See [`Retries::jitter_permille`].
    RetryJitter(u32),
    /// See [`Retries::counts_release`].
    RetryRelease(bool),
    /// See [`Retries::counts_disconnect`].
    RetryDisconnect(bool),
    /// See [`DeadLetters::target`].
    DeadQueue(DeadTarget),
    /// See [`DeadLetters::keep_ms`].
    DeadKeep(Option<u64>),
    /// See [`DeadLetters::jobs_max`].
    DeadJobsMax(u64),
    /// See [`DeadLetters::expired`].
    DeadExpired(bool),
    /// See [`DeadLetters::dropped`].
    DeadDropped(bool),
    /// See [`Defaults::ttr_s`].
    Ttr(Option<u32>),
    /// See [`Defaults::priority`].
    Priority(u32),
    /// See [`Defaults::delay_s`].
    Delay(u32),
    /// See [`PausePolicy::is_on`]. Begins a new pause: the parts of an earlier pause no longer
    /// apply.
    Pause(bool),
    /// See [`PausePolicy::reason`].
    PauseReason(Option<Name>),
    /// See [`PausePolicy::cron`].
    PauseCron(Option<Cron>),
    /// See [`PausePolicy::length_ms`].
    PauseLength(Option<u64>),
    /// See [`PausePolicy::zone`].
    PauseZone(Zone),
    /// See [`Policy::rate`].
    Rate(Option<Rate>),
    /// See [`Policy::rate_burst`].
    RateBurst(Option<NonZeroU32>),
    /// See [`Policy::rate_key`].
    RateKey(Option<Key>),
    /// See [`Policy::concurrency`].
    Concurrency(Option<NonZeroU32>),
    /// See [`Policy::concurrency_key`].
    ConcurrencyKey(Option<Key>),
    /// See [`Policy::concurrency_order`].
    ConcurrencyOrder(Order),
    /// See [`Fair::key`].
    FairKey(Option<Key>),
    /// See [`Fair::weights`].
    FairWeights(Weights),
    /// See [`Fair::mode`].
    FairMode(FairMode),
    /// See [`Fair::across_priorities`].
    FairAcross(bool),
    /// See [`Policy::aging`].
    Aging(Option<Aging>),
    /// See [`Unique::by`].
    UniqueBy(Option<Key>),
    /// See [`Unique::window`].
    UniqueWindow(UniqueWindow),
    /// See [`Unique::on_duplicate`].
    OnDuplicate(OnDuplicate),
    /// See [`Unique::ignore_buried`].
    IgnoreBuried(bool),
    /// See [`History::is_on`].
    History(bool),
    /// See [`History::keep_ms`].
    HistoryKeep(u64),
    /// See [`History::jobs_max`].
    HistoryMax(u64),
    /// See [`History::body`].
    HistoryBody(KeptBody),
    /// See [`Policy::result_keep_ms`].
    ResultKeep(Option<u64>),
}

/// The number of settings.
const SETTINGS: usize = 59;

/// A setting, and its place in the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleSetting {
    /// The setting.
    pub setting: Setting,
    /// The line in the file, counted from 1. 0: the setting does not come from a file.
    pub line: u32,
}

/// Settings for all queues whose name matches one of the patterns.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rule {
    /// The rule applies to each name that matches at least one of these patterns.
    pub patterns: Vec<Pattern>,
    /// The settings of the rule. If two settings have the same key, the later setting wins.
    pub settings: Vec<RuleSetting>,
    /// The line in the file where the rule begins, counted from 1. 0: the rule does not come from a
    /// file.
    pub line: u32,
}

/// All rules, in the order of the file. If several matching rules have the same setting, the last
/// of these rules wins.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rules(pub Vec<Rule>);

/// The part of a name before the first `+`: the name of the parent, if the queue is a fan-out
/// child. `None`: the name has no `+`.
pub fn parent_name(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().position(|&byte| byte == b'+')?;
    Some(&name[..end])
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            jobs_max: None,
            bytes_max: None,
            item_bytes_max: None,
            age_max_ms: None,
            when_full: WhenFull::Refuse,
            block_for_ms: BLOCK_FOR_MS_DEFAULT,
            expire_to: None,
            expire_sweep: None,
            idle_ms: None,
            open_max: OPEN_MAX_DEFAULT,
            open_timeout_ms: None,
            fanout_only: false,
            sync: None,
            durable_leases: false,
            memory_max: None,
            alias: Box::default(),
            copy_to: Box::default(),
            same_as: None,
            retries: Retries::default(),
            dead: DeadLetters::default(),
            defaults: Defaults::default(),
            pause: PausePolicy::default(),
            rate: None,
            rate_burst: None,
            rate_key: None,
            concurrency: None,
            concurrency_key: None,
            concurrency_order: Order::Loose,
            fair: Fair::default(),
            aging: None,
            unique: Unique::default(),
            history: History::default(),
            result_keep_ms: None,
        }
    }
}

impl Policy {
    /// All settings with their values, in the order of the documentation.
    pub fn settings(&self) -> [Setting; SETTINGS] {
        let retries = &self.retries;
        [
            Setting::JobsMax(self.jobs_max),
            Setting::BytesMax(self.bytes_max),
            Setting::ItemBytesMax(self.item_bytes_max),
            Setting::AgeMax(self.age_max_ms),
            Setting::WhenFull(self.when_full),
            Setting::BlockFor(self.block_for_ms),
            Setting::ExpireTo(self.expire_to.clone()),
            Setting::ExpireSweep(self.expire_sweep),
            Setting::Idle(self.idle_ms),
            Setting::OpenMax(self.open_max),
            Setting::OpenTimeout(self.open_timeout_ms),
            Setting::FanoutOnly(self.fanout_only),
            Setting::Sync(self.sync),
            Setting::DurableLeases(self.durable_leases),
            Setting::MemoryMax(self.memory_max),
            Setting::Alias(self.alias.clone()),
            Setting::CopyTo(self.copy_to.clone()),
            Setting::SameAs(self.same_as.clone()),
            Setting::Retries(retries.is_on),
            Setting::RetryLimit(retries.limit),
            Setting::RetryBackoff(retries.backoff),
            Setting::RetryBase(retries.base_ms),
            Setting::RetryMax(retries.max_ms),
            Setting::RetryJitter(retries.jitter_permille),
            Setting::RetryRelease(retries.counts_release),
            Setting::RetryDisconnect(retries.counts_disconnect),
            Setting::DeadQueue(self.dead.target.clone()),
            Setting::DeadKeep(self.dead.keep_ms),
            Setting::DeadJobsMax(self.dead.jobs_max),
            Setting::DeadExpired(self.dead.expired),
            Setting::DeadDropped(self.dead.dropped),
            Setting::Ttr(self.defaults.ttr_s),
            Setting::Priority(self.defaults.priority),
            Setting::Delay(self.defaults.delay_s),
            Setting::Pause(self.pause.is_on),
            Setting::PauseReason(self.pause.reason.clone()),
            Setting::PauseCron(self.pause.cron.clone()),
            Setting::PauseLength(self.pause.length_ms),
            Setting::PauseZone(self.pause.zone.clone()),
            Setting::Rate(self.rate),
            Setting::RateBurst(self.rate_burst),
            Setting::RateKey(self.rate_key.clone()),
            Setting::Concurrency(self.concurrency),
            Setting::ConcurrencyKey(self.concurrency_key.clone()),
            Setting::ConcurrencyOrder(self.concurrency_order),
            Setting::FairKey(self.fair.key.clone()),
            Setting::FairWeights(self.fair.weights.clone()),
            Setting::FairMode(self.fair.mode),
            Setting::FairAcross(self.fair.across_priorities),
            Setting::Aging(self.aging),
            Setting::UniqueBy(self.unique.by.clone()),
            Setting::UniqueWindow(self.unique.window),
            Setting::OnDuplicate(self.unique.on_duplicate),
            Setting::IgnoreBuried(self.unique.ignore_buried),
            Setting::History(self.history.is_on),
            Setting::HistoryKeep(self.history.keep_ms),
            Setting::HistoryMax(self.history.jobs_max),
            Setting::HistoryBody(self.history.body),
            Setting::ResultKeep(self.result_keep_ms),
        ]
    }

    fn apply(&mut self, setting: &Setting) {
        match setting {
            Setting::JobsMax(jobs) => self.jobs_max = *jobs,
            Setting::BytesMax(bytes) => self.bytes_max = *bytes,
            Setting::ItemBytesMax(bytes) => self.item_bytes_max = *bytes,
            Setting::AgeMax(millis) => self.age_max_ms = *millis,
            Setting::WhenFull(when_full) => self.when_full = *when_full,
            Setting::BlockFor(millis) => self.block_for_ms = *millis,
            Setting::ExpireTo(name) => self.expire_to.clone_from(name),
            Setting::ExpireSweep(jobs) => self.expire_sweep = *jobs,
            Setting::Idle(millis) => self.idle_ms = *millis,
            Setting::OpenMax(reads) => self.open_max = *reads,
            Setting::OpenTimeout(millis) => self.open_timeout_ms = *millis,
            Setting::FanoutOnly(fanout_only) => self.fanout_only = *fanout_only,
            Setting::Sync(sync) => self.sync = *sync,
            Setting::DurableLeases(durable) => self.durable_leases = *durable,
            Setting::MemoryMax(bytes) => self.memory_max = *bytes,
            Setting::Alias(names) => self.alias.clone_from(names),
            Setting::CopyTo(names) => self.copy_to.clone_from(names),
            Setting::SameAs(name) => self.same_as.clone_from(name),
            Setting::Retries(is_on) => self.retries.is_on = *is_on,
            Setting::RetryLimit(limit) => self.retries.limit = *limit,
            Setting::RetryBackoff(backoff) => self.retries.backoff = *backoff,
            Setting::RetryBase(millis) => self.retries.base_ms = *millis,
            Setting::RetryMax(millis) => self.retries.max_ms = *millis,
            Setting::RetryJitter(permille) => self.retries.jitter_permille = *permille,
            Setting::RetryRelease(counts) => self.retries.counts_release = *counts,
            Setting::RetryDisconnect(counts) => self.retries.counts_disconnect = *counts,
            Setting::DeadQueue(target) => self.dead.target.clone_from(target),
            Setting::DeadKeep(millis) => self.dead.keep_ms = *millis,
            Setting::DeadJobsMax(jobs) => self.dead.jobs_max = *jobs,
            Setting::DeadExpired(is_dead) => self.dead.expired = *is_dead,
            Setting::DeadDropped(is_dead) => self.dead.dropped = *is_dead,
            Setting::Ttr(seconds) => self.defaults.ttr_s = *seconds,
            Setting::Priority(priority) => self.defaults.priority = *priority,
            Setting::Delay(seconds) => self.defaults.delay_s = *seconds,
            Setting::Pause(is_on) => {
                self.pause = PausePolicy { is_on: *is_on, ..PausePolicy::default() };
            }
            Setting::PauseReason(reason) => self.pause.reason.clone_from(reason),
            Setting::PauseCron(cron) => self.pause.cron.clone_from(cron),
            Setting::PauseLength(millis) => self.pause.length_ms = *millis,
            Setting::PauseZone(zone) => self.pause.zone.clone_from(zone),
            Setting::Rate(rate) => self.rate = *rate,
            Setting::RateBurst(burst) => self.rate_burst = *burst,
            Setting::RateKey(key) => self.rate_key.clone_from(key),
            Setting::Concurrency(limit) => self.concurrency = *limit,
            Setting::ConcurrencyKey(key) => self.concurrency_key.clone_from(key),
            Setting::ConcurrencyOrder(order) => self.concurrency_order = *order,
            Setting::FairKey(key) => self.fair.key.clone_from(key),
            Setting::FairWeights(weights) => self.fair.weights.clone_from(weights),
            Setting::FairMode(mode) => self.fair.mode = *mode,
            Setting::FairAcross(truth) => self.fair.across_priorities = *truth,
            Setting::Aging(aging) => self.aging = *aging,
            Setting::UniqueBy(key) => self.unique.by.clone_from(key),
            Setting::UniqueWindow(window) => self.unique.window = *window,
            Setting::OnDuplicate(answer) => self.unique.on_duplicate = *answer,
            Setting::IgnoreBuried(ignores) => self.unique.ignore_buried = *ignores,
            Setting::History(is_on) => self.history.is_on = *is_on,
            Setting::HistoryKeep(millis) => self.history.keep_ms = *millis,
            Setting::HistoryMax(jobs) => self.history.jobs_max = *jobs,
            Setting::HistoryBody(body) => self.history.body = *body,
            Setting::ResultKeep(millis) => self.result_keep_ms = *millis,
        }
    }
}

impl Setting {
    /// The key of the setting in the configuration.
    pub fn key(&self) -> &'static str {
        match self {
            Setting::JobsMax(_) => "limits.jobs",
            Setting::BytesMax(_) => "limits.bytes",
            Setting::ItemBytesMax(_) => "limits.item_bytes",
            Setting::AgeMax(_) => "limits.age",
            Setting::WhenFull(_) => "limits.when_full",
            Setting::BlockFor(_) => "limits.block_for",
            Setting::ExpireTo(_) => "expire_to",
            Setting::ExpireSweep(_) => "expire_sweep",
            Setting::Idle(_) => "idle",
            Setting::OpenMax(_) => "open.max",
            Setting::OpenTimeout(_) => "open.timeout",
            Setting::FanoutOnly(_) => "fanout_only",
            Setting::Sync(_) => "sync",
            Setting::DurableLeases(_) => "reservation",
            Setting::MemoryMax(_) => "memory.bytes",
            Setting::Alias(_) => "alias",
            Setting::CopyTo(_) => "route.copy_to",
            Setting::SameAs(_) => "same_as",
            Setting::Retries(_) => "retries",
            Setting::RetryLimit(_) => "retries.limit",
            Setting::RetryBackoff(_) => "retries.backoff",
            Setting::RetryBase(_) => "retries.base",
            Setting::RetryMax(_) => "retries.max",
            Setting::RetryJitter(_) => "retries.jitter",
            Setting::RetryRelease(_) => "retries.count_release",
            Setting::RetryDisconnect(_) => "retries.count_disconnect",
            Setting::DeadQueue(_) => "dead.queue",
            Setting::DeadKeep(_) => "dead.keep",
            Setting::DeadJobsMax(_) => "dead.max_jobs",
            Setting::DeadExpired(_) => "dead.expired",
            Setting::DeadDropped(_) => "dead.dropped",
            Setting::Ttr(_) => "ttr",
            Setting::Priority(_) => "priority",
            Setting::Delay(_) => "delay",
            Setting::Pause(_) => "pause",
            Setting::PauseReason(_) => "pause.reason",
            Setting::PauseCron(_) => "pause.cron",
            Setting::PauseLength(_) => "pause.for",
            Setting::PauseZone(_) => "pause.tz",
            Setting::Rate(Some(Rate { per: Per::Minute, .. })) => "rate.per_minute",
            Setting::Rate(Some(Rate { per: Per::Hour, .. })) => "rate.per_hour",
            Setting::Rate(_) => "rate.per_second",
            Setting::RateBurst(_) => "rate.burst",
            Setting::RateKey(_) => "rate.key",
            Setting::Concurrency(_) => "concurrency.limit",
            Setting::ConcurrencyKey(_) => "concurrency.key",
            Setting::ConcurrencyOrder(_) => "concurrency.order",
            Setting::FairKey(_) => "fair.key",
            Setting::FairWeights(_) => "fair.weights",
            Setting::FairMode(_) => "fair.mode",
            Setting::FairAcross(_) => "fair.across_priorities",
            Setting::Aging(_) => "aging",
            Setting::UniqueBy(_) => "unique.by",
            Setting::UniqueWindow(_) => "unique.window",
            Setting::OnDuplicate(_) => "unique.on_duplicate",
            Setting::IgnoreBuried(_) => "unique.ignore_buried",
            Setting::History(_) => "history",
            Setting::HistoryKeep(_) => "history.keep",
            Setting::HistoryMax(_) => "history.max",
            Setting::HistoryBody(_) => "history.body",
            Setting::ResultKeep(_) => "result.keep",
        }
    }

    /// Whether a new pause ends the effect of this setting in earlier rules.
    fn is_part_of_pause(&self) -> bool {
        matches!(
            self,
            Setting::PauseReason(_)
                | Setting::PauseCron(_)
                | Setting::PauseLength(_)
                | Setting::PauseZone(_)
        )
    }

    /// Whether a child inherits this setting from its parent. A setting that sends the parent's
    /// puts to other queues is not inherited. Otherwise each child would send the parent's puts to
    /// these queues again.
    fn is_inherited(&self) -> bool {
        !matches!(
            self,
            Setting::FanoutOnly(_) | Setting::Alias(_) | Setting::CopyTo(_) | Setting::SameAs(_)
        )
    }
}

impl Rule {
    /// A rule that does not come from a file.
    pub fn new<const P: usize>(
        patterns: [&str; P],
        settings: impl IntoIterator<Item = Setting>,
    ) -> Rule {
        let settings = settings.into_iter().map(|setting| RuleSetting { setting, line: 0 });
        Rule {
            patterns: patterns.map(|pattern| Pattern::new(pattern.as_bytes())).into(),
            settings: settings.collect(),
            line: 0,
        }
    }

    /// Whether the rule applies to the queue of this name.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

impl Rules {
    /// The policy of the queue of this name. If the queue is a fan-out child, `child_of` is its
    /// parent, and the child inherits the parent's settings. The child does not inherit the
    /// settings that send puts to other queues. Rules that match the child's name but not the
    /// parent's name override inherited settings. If the name stands for another queue, this is the
    /// policy of that queue, with [`Policy::same_as`].
    pub fn resolve(&self, name: &[u8], child_of: Option<&[u8]>) -> Policy {
        match self.real_name(name) {
            Some(real) => {
                let policy = self.resolve_own(&real, parent_name(&real));
                Policy { same_as: Some(real), ..policy }
            }
            None => Policy { same_as: None, ..self.resolve_own(name, child_of) },
        }
    }

    /// Like [`Rules::resolve`], but for the queue that has this name itself.
    fn resolve_own(&self, name: &[u8], child_of: Option<&[u8]>) -> Policy {
        let mut policy = Policy::default();
        for asked in self.asked(name, child_of) {
            policy.apply(&asked.setting);
        }
        policy
    }

    /// All settings of the queue of this name, in the order of [`Policy::settings`]. Each setting
    /// comes with its line in the file, or with `None` if no rule sets it.
    pub fn resolve_with_origins(
        &self,
        name: &[u8],
        child_of: Option<&[u8]>,
    ) -> [(Setting, Option<u32>); SETTINGS] {
        let policy = self.resolve(name, child_of);
        let real = policy.same_as.clone();
        let (own, child_of) = match &real {
            Some(real) => (&**real, parent_name(real)),
            None => (name, child_of),
        };
        policy.settings().map(|setting| {
            if matches!(setting, Setting::SameAs(Some(_))) {
                let line = self.line_of_same_as(name);
                return (setting, line);
            }
            let mut line = None;
            for asked in self.asked(own, child_of) {
                if discriminant(&asked.setting) == discriminant(&setting) {
                    line = Some(asked.line);
                } else if matches!(asked.setting, Setting::Pause(_)) && setting.is_part_of_pause() {
                    line = None;
                }
            }
            (setting, line)
        })
    }

    /// Whether any rule limits the memory of a queue.
    pub fn limit_memory(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| matches!(asked.setting, Setting::MemoryMax(Some(_))))
    }

    /// Whether any rule limits the age of jobs.
    pub fn limit_ages(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| matches!(asked.setting, Setting::AgeMax(Some(_))))
    }

    /// Whether any rule pauses queues by a schedule.
    pub fn pause_by_schedule(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| matches!(asked.setting, Setting::PauseCron(Some(_))))
    }

    /// Whether puts into any queue can wait for room.
    pub fn block_puts(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| asked.setting == Setting::WhenFull(WhenFull::Block))
    }

    /// Whether puts into any queue can replace the bodies of jobs.
    pub fn replace_bodies(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| asked.setting == Setting::OnDuplicate(OnDuplicate::ReplaceBody))
    }

    /// Whether any rule keeps a history of jobs.
    pub fn keep_history(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| asked.setting == Setting::History(true))
    }

    /// Whether any rule makes the leases of a queue durable.
    pub fn have_durable_leases(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| asked.setting == Setting::DurableLeases(true))
    }

    /// Whether any rule keeps the outcomes of jobs.
    pub fn keep_results(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| matches!(asked.setting, Setting::ResultKeep(Some(_))))
    }

    /// All patterns without wildcards: each is the name of one queue. The operator chose these
    /// names, so they do not count towards the limits for clients. A name can occur more than once.
    pub fn literal_names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|rule| &rule.patterns).filter_map(Pattern::literal)
    }

    /// The settings that the rules have for a name, inherited settings first. If two settings have
    /// the same key, the later setting wins.
    fn asked<'a>(
        &'a self,
        name: &'a [u8],
        child_of: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a RuleSetting> {
        let of_parent = move |rule: &&Rule| child_of.is_some_and(|parent| rule.matches(parent));
        let inherited = self.0.iter().filter(of_parent).flat_map(|rule| &rule.settings);
        let own = self.0.iter().filter(move |rule| !of_parent(rule) && rule.matches(name));
        inherited
            .filter(|asked| asked.setting.is_inherited())
            .chain(own.flat_map(|rule| &rule.settings))
    }
}

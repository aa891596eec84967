//! Policies: an operator's settings for queues, by pattern of the queue's name, in the order of a
//! file.
//!
//! These are pure values and know no queue. [`Rules`] are the content of the file. A [`Policy`] is
//! the result of the rules for one name. The engine applies policies.

mod check;
mod codec;
mod in_force;
mod pattern;
#[cfg(test)]
mod tests;

pub use check::{COPIES_MAX, DESTINATIONS_MAX, RULES_BYTES_MAX, RulesError};
pub(crate) use in_force::InForce;
pub use pattern::Pattern;

use std::mem::discriminant;

/// Maximum number of open reads of one session on a queue, unless a policy says otherwise.
pub const OPEN_MAX_DEFAULT: u32 = 100;

/// The name of a queue, as bytes.
pub type Name = Box<[u8]>;

/// The policy of one queue. The default is the policy of a queue to which no rule applies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// The queue is full at this number of ready jobs.
    pub jobs_max: Option<u64>,
    /// The queue is full at this many bytes of ready bodies. The check comes before a put, so one
    /// body can exceed the limit.
    pub bytes_max: Option<u64>,
    /// A larger body is refused. A body of this size is accepted.
    pub item_bytes_max: Option<u64>,
    /// A ready job ends when it is older than this.
    pub age_max_ms: Option<u64>,
    /// The fate of a put when the queue is full.
    pub when_full: WhenFull,
    /// The queue that expired jobs move to. `None`: they end.
    pub expire_to: Option<Name>,
    /// Maximum number of expired jobs that one sweep removes.
    pub expire_sweep: Option<u32>,
    /// An empty queue is removed when it is older than this.
    pub idle_ms: Option<u64>,
    /// Maximum number of open reads of one session on the queue.
    pub open_max: u32,
    /// An open read is given back after this time.
    pub open_timeout_ms: Option<u64>,
    /// Puts feed only the children.
    pub fanout_only: bool,
    /// How durable a put is when it is acknowledged. `None`: as in other queues of the server.
    pub sync: Option<QueueSync>,
    /// If not empty, the name is an alias and not a queue: a put goes to each of these queues.
    pub alias: Box<[Name]>,
    /// A put goes to each of these queues, too.
    pub copy_to: Box<[Name]>,
}

/// The fate of a put when the queue is full.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// The put is refused.
    #[default]
    Refuse,
    /// The oldest of the least urgent ready jobs ends, until there is room.
    DropOldest,
}

/// How durable a put is when it is acknowledged.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum QueueSync {
    /// The put is on stable storage.
    Always,
    /// The put is in the kernel, and on stable storage at most this many milliseconds later.
    Every(u64),
    /// The put is in the kernel.
    Never,
    /// The put is in memory only: such jobs end with the process.
    Memory,
}

/// One setting with its value. `None` states the default explicitly, so that a specific rule can
/// undo a general rule.
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
    /// See [`Policy::alias`].
    Alias(Box<[Name]>),
    /// See [`Policy::copy_to`].
    CopyTo(Box<[Name]>),
}

/// A setting, and its place in the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleSetting {
    /// The setting.
    pub setting: Setting,
    /// The line in the file, from 1. 0: not from a file.
    pub line: u32,
}

/// Settings for all queues whose name matches one of the patterns.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rule {
    /// The rule applies to names that match at least one of these.
    pub patterns: Vec<Pattern>,
    /// If two settings have the same key, the later one wins.
    pub settings: Vec<RuleSetting>,
    /// The line in the file where the rule begins, from 1. 0: not from a file.
    pub line: u32,
}

/// All rules, in the order of the file. For each setting, the last matching rule that has it wins.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rules(pub Vec<Rule>);

/// The name of the parent, if the name is that of a fan-out child: the part before the first `+`.
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
            expire_to: None,
            expire_sweep: None,
            idle_ms: None,
            open_max: OPEN_MAX_DEFAULT,
            open_timeout_ms: None,
            fanout_only: false,
            sync: None,
            alias: Box::default(),
            copy_to: Box::default(),
        }
    }
}

impl Policy {
    /// All settings with their values, in the order of the documentation.
    pub fn settings(&self) -> [Setting; 14] {
        [
            Setting::JobsMax(self.jobs_max),
            Setting::BytesMax(self.bytes_max),
            Setting::ItemBytesMax(self.item_bytes_max),
            Setting::AgeMax(self.age_max_ms),
            Setting::WhenFull(self.when_full),
            Setting::ExpireTo(self.expire_to.clone()),
            Setting::ExpireSweep(self.expire_sweep),
            Setting::Idle(self.idle_ms),
            Setting::OpenMax(self.open_max),
            Setting::OpenTimeout(self.open_timeout_ms),
            Setting::FanoutOnly(self.fanout_only),
            Setting::Sync(self.sync),
            Setting::Alias(self.alias.clone()),
            Setting::CopyTo(self.copy_to.clone()),
        ]
    }

    fn apply(&mut self, setting: &Setting) {
        match setting {
            Setting::JobsMax(jobs) => self.jobs_max = *jobs,
            Setting::BytesMax(bytes) => self.bytes_max = *bytes,
            Setting::ItemBytesMax(bytes) => self.item_bytes_max = *bytes,
            Setting::AgeMax(millis) => self.age_max_ms = *millis,
            Setting::WhenFull(when_full) => self.when_full = *when_full,
            Setting::ExpireTo(name) => self.expire_to.clone_from(name),
            Setting::ExpireSweep(jobs) => self.expire_sweep = *jobs,
            Setting::Idle(millis) => self.idle_ms = *millis,
            Setting::OpenMax(reads) => self.open_max = *reads,
            Setting::OpenTimeout(millis) => self.open_timeout_ms = *millis,
            Setting::FanoutOnly(fanout_only) => self.fanout_only = *fanout_only,
            Setting::Sync(sync) => self.sync = *sync,
            Setting::Alias(names) => self.alias.clone_from(names),
            Setting::CopyTo(names) => self.copy_to.clone_from(names),
        }
    }
}

impl Setting {
    /// Its key in the configuration.
    pub fn key(&self) -> &'static str {
        match self {
            Setting::JobsMax(_) => "limits.jobs",
            Setting::BytesMax(_) => "limits.bytes",
            Setting::ItemBytesMax(_) => "limits.item_bytes",
            Setting::AgeMax(_) => "limits.age",
            Setting::WhenFull(_) => "limits.when_full",
            Setting::ExpireTo(_) => "expire_to",
            Setting::ExpireSweep(_) => "expire_sweep",
            Setting::Idle(_) => "idle",
            Setting::OpenMax(_) => "open.max",
            Setting::OpenTimeout(_) => "open.timeout",
            Setting::FanoutOnly(_) => "fanout_only",
            Setting::Sync(_) => "sync",
            Setting::Alias(_) => "alias",
            Setting::CopyTo(_) => "route.copy_to",
        }
    }

    /// Whether a child inherits this from its parent. A child does not inherit a setting that sends
    /// the parent's puts to other queues. Otherwise each child would send these puts there again.
    fn is_inherited(&self) -> bool {
        !matches!(self, Setting::FanoutOnly(_) | Setting::Alias(_) | Setting::CopyTo(_))
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
    /// The policy of the queue of this name. A fan-out child inherits the policy of its parent,
    /// except where the parent's puts go. Rules that match the child's own name, but not the
    /// parent's, override it.
    pub fn resolve(&self, name: &[u8], child_of: Option<&[u8]>) -> Policy {
        let mut policy = Policy::default();
        for asked in self.asked(name, child_of) {
            policy.apply(&asked.setting);
        }
        policy
    }

    /// All settings of the queue of this name, as in [`Policy::settings`], each with the line of
    /// its rule. `None`: no rule sets it.
    pub fn resolve_with_origins(
        &self,
        name: &[u8],
        child_of: Option<&[u8]>,
    ) -> [(Setting, Option<u32>); 14] {
        self.resolve(name, child_of).settings().map(|setting| {
            let same =
                |asked: &&RuleSetting| discriminant(&asked.setting) == discriminant(&setting);
            let line = self.asked(name, child_of).filter(same).last().map(|asked| asked.line);
            (setting, line)
        })
    }

    /// The names that patterns without wildcards spell out. A policy makes these queues. Names can
    /// repeat.
    pub fn literal_names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|rule| &rule.patterns).filter_map(Pattern::literal)
    }

    /// The settings that the rules have for a name. If several have the same key, the last one
    /// wins.
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

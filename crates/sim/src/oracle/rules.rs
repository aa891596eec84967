//! The rules for a queue, resolved by the oracle's own code according to `docs/policies.md`.

use std::num::NonZeroU32;

use broker::policy::{
    DeadTarget, Key, OnDuplicate, Order, QueueSync, Rate, Rule, Rules, Setting, UniqueWindow,
    WhenFull,
};

use crate::windows::Window;

/// The settings of one queue that the oracle looks at.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct QueueRules {
    pub(super) jobs_max: Option<u64>,
    pub(super) bytes_max: Option<u64>,
    pub(super) item_bytes_max: Option<u64>,
    pub(super) age_max_ms: Option<u64>,
    pub(super) drops_oldest: bool,
    pub(super) open_timeout_ms: Option<u64>,
    pub(super) fanout_only: bool,
    pub(super) in_memory: bool,
    pub(super) is_alias: bool,
    pub(super) rate: Option<Rate>,
    pub(super) rate_burst: Option<NonZeroU32>,
    pub(super) concurrency: Option<NonZeroU32>,
    is_paused: bool,
    pause_cron: Option<String>,
    pause_length_ms: u64,
    pause_zone: String,
    pub(super) rate_key: Option<Key>,
    pub(super) concurrency_key: Option<Key>,
    pub(super) is_strict: bool,
    pub(super) fair_key: Option<Key>,
    pub(super) is_aging: bool,
    /// Some puts store nothing, because another job has their key.
    is_unique: bool,
    refuses_duplicates: bool,
    replaces_bodies: bool,
    /// Which jobs are the same, if the oracle knows this kind of key and window.
    pub(super) uniqueness: Option<Uniqueness>,
    part: Option<Part>,
    window: Option<KeyWindow>,
    ignores_buried: bool,
    retries: bool,
    retry_limit: Option<u32>,
    skips_releases: bool,
    skips_disconnects: bool,
    /// The server can remove the queue when it is empty and unused.
    pub(super) can_idle: bool,
}

/// Jobs with the same key are the same job for some time.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Uniqueness {
    pub(super) part: Part,
    pub(super) window: KeyWindow,
}

/// How long a job has its key.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum KeyWindow {
    /// For this many milliseconds from its put.
    For(u64),
    /// As long as the job is there.
    UntilDone,
}

/// The part of a body that is the key.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Whole,
    FirstByte,
    /// The first letter or digit.
    FirstAlphanumeric,
    /// The first one of a few letters and digits.
    FirstOfFew,
}

impl Part {
    pub(super) fn of(expression: &str) -> Option<Part> {
        match expression {
            "body" => Some(Part::Whole),
            "prefix:1" => Some(Part::FirstByte),
            "regex:(?-u)([0-9a-zA-Z])" => Some(Part::FirstAlphanumeric),
            "regex:(?-u)([abx01])" => Some(Part::FirstOfFew),
            _ => None,
        }
    }

    pub(super) fn key(self, body: &[u8]) -> Vec<u8> {
        let first = |is_it: fn(&u8) -> bool| {
            body.iter().take(4096).find(|byte| is_it(byte)).copied().into_iter().collect()
        };
        match self {
            Part::Whole => body.to_vec(),
            Part::FirstByte => first(|_| true),
            Part::FirstAlphanumeric => first(u8::is_ascii_alphanumeric),
            Part::FirstOfFew => first(|byte| b"abx01".contains(byte)),
        }
    }
}

impl QueueRules {
    /// True if the server can refuse a put.
    pub(super) fn has_limit(&self) -> bool {
        let has_max =
            self.jobs_max.is_some() || self.bytes_max.is_some() || self.item_bytes_max.is_some();
        has_max || self.is_unique && self.refuses_duplicates
    }

    /// True if the policy can end a ready job without a client's request, or a put can be accepted
    /// that stores nothing.
    pub(super) fn lets_go(&self) -> bool {
        self.ends_jobs() || self.is_unique
    }

    /// True if the policy can end a ready job without a client's request.
    pub(super) fn ends_jobs(&self) -> bool {
        let is_bounded = self.jobs_max.is_some() || self.bytes_max.is_some();
        self.age_max_ms.is_some() || (self.drops_oldest && is_bounded)
    }

    /// True if the queue can have ready jobs, and hand out none.
    pub(super) fn has_gates(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }

    /// How many failures a job may have and be handed out again. `None`: any number, or some ends of an
    /// attempt are no failures.
    pub(super) fn retry_limit(&self) -> Option<u32> {
        let counts_all = !self.skips_releases && !self.skips_disconnects;
        self.retry_limit.filter(|_| self.retries && counts_all)
    }

    /// The times of the day at which the queue hands out no jobs.
    pub(super) fn window(&self) -> Option<Window> {
        let cron = self.pause_cron.as_ref().filter(|_| self.is_paused)?;
        let zone = if self.pause_zone.is_empty() { "UTC" } else { &self.pause_zone };
        Some(Window::new(cron, self.pause_length_ms, zone))
    }

    /// The key whose limits count for a job.
    pub(super) fn group_key(&self) -> Option<&Key> {
        let slots = self.concurrency_key.as_ref().filter(|_| self.concurrency.is_some());
        let rate = || self.rate_key.as_ref().filter(|_| self.rate.is_some());
        slots.or_else(rate).or(self.fair_key.as_ref())
    }

    fn apply(&mut self, setting: &Setting) {
        match setting {
            Setting::Pause(is_on) => {
                self.is_paused = *is_on;
                (self.pause_cron, self.pause_zone) = (None, String::new());
            }
            Setting::PauseCron(cron) => {
                self.pause_cron = cron.as_ref().map(|cron| cron.as_str().into());
            }
            Setting::PauseLength(millis) => self.pause_length_ms = millis.unwrap_or(0),
            Setting::PauseZone(zone) => self.pause_zone = zone.as_str().into(),
            Setting::JobsMax(max) => self.jobs_max = *max,
            Setting::BytesMax(max) => self.bytes_max = *max,
            Setting::ItemBytesMax(max) => self.item_bytes_max = *max,
            Setting::AgeMax(millis) => self.age_max_ms = *millis,
            Setting::WhenFull(what) => self.drops_oldest = *what == WhenFull::DropOldest,
            Setting::OpenTimeout(millis) => self.open_timeout_ms = *millis,
            Setting::FanoutOnly(is_so) => self.fanout_only = *is_so,
            Setting::Sync(sync) => self.in_memory = *sync == Some(QueueSync::Memory),
            Setting::Alias(names) => self.is_alias = !names.is_empty(),
            Setting::Rate(rate) => self.rate = *rate,
            Setting::RateBurst(burst) => self.rate_burst = *burst,
            Setting::Concurrency(limit) => self.concurrency = *limit,
            Setting::RateKey(key) => self.rate_key.clone_from(key),
            Setting::ConcurrencyKey(key) => self.concurrency_key.clone_from(key),
            Setting::ConcurrencyOrder(order) => self.is_strict = *order == Order::Strict,
            Setting::UniqueBy(key) => {
                self.is_unique = key.is_some();
                self.part = key.as_ref().and_then(|key| Part::of(key.as_str()));
            }
            Setting::UniqueWindow(window) => {
                self.window = match window {
                    UniqueWindow::For(millis) => Some(KeyWindow::For(*millis)),
                    UniqueWindow::UntilDone => Some(KeyWindow::UntilDone),
                    UniqueWindow::UntilStart => None,
                };
            }
            Setting::OnDuplicate(answer) => {
                self.refuses_duplicates = *answer == OnDuplicate::Refuse;
                self.replaces_bodies = *answer == OnDuplicate::ReplaceBody;
            }
            Setting::Retries(is_on) => self.retries = *is_on,
            Setting::RetryLimit(limit) => self.retry_limit = Some(*limit),
            Setting::RetryRelease(counts) => self.skips_releases = !counts,
            Setting::RetryDisconnect(counts) => self.skips_disconnects = !counts,
            Setting::IgnoreBuried(ignores) => self.ignores_buried = *ignores,
            Setting::FairKey(key) => self.fair_key.clone_from(key),
            Setting::Idle(millis) => self.can_idle = millis.is_some(),
            Setting::Aging(aging) => self.is_aging = aging.is_some(),
            Setting::FairWeights(_)
            | Setting::FairMode(_)
            | Setting::FairAcross(_)
            | Setting::ExpireTo(_)
            | Setting::ExpireSweep(_)
            | Setting::OpenMax(_)
            | Setting::MemoryMax(_)
            | Setting::CopyTo(_)
            | Setting::SameAs(_)
            | Setting::BlockFor(_)
            | Setting::RetryBackoff(_)
            | Setting::RetryBase(_)
            | Setting::RetryMax(_)
            | Setting::RetryJitter(_)
            | Setting::DeadQueue(_)
            | Setting::DeadKeep(_)
            | Setting::DeadJobsMax(_)
            | Setting::DeadExpired(_)
            | Setting::DeadDropped(_)
            | Setting::Ttr(_)
            | Setting::Priority(_)
            | Setting::Delay(_)
            | Setting::PauseReason(_)
            | Setting::History(_)
            | Setting::HistoryKeep(_)
            | Setting::HistoryMax(_)
            | Setting::HistoryBody(_)
            | Setting::ResultKeep(_)
            | Setting::DurableLeases(_) => {}
        }
        let window = if self.ignores_buried { None } else { self.window };
        let part_and_window = self.part.zip(window);
        self.uniqueness = part_and_window.map(|(part, window)| Uniqueness { part, window });
    }
}

/// All rules of the run so far, and the rules that can be in force now.
#[derive(Debug)]
pub(super) struct RuleHistory {
    ever: Vec<Rules>,
    now: Vec<Rules>,
    is_changing: bool,
}

impl RuleHistory {
    pub(super) fn new() -> Self {
        Self { ever: vec![Rules::default()], now: vec![Rules::default()], is_changing: false }
    }

    /// True if there were never any rules.
    pub(super) fn is_empty(&self) -> bool {
        self.ever.iter().all(|rules| rules.0.is_empty())
    }

    /// Notes new rules. If `in_slices`, the earlier rules can apply to some queues until
    /// [`RuleHistory::settled`] is called.
    pub(super) fn changed(&mut self, rules: &Rules, in_slices: bool) {
        self.ever.push(rules.clone());
        self.now.push(rules.clone());
        self.is_changing = true;
        if !in_slices {
            self.settled();
        }
    }

    /// Notes that the newest rules are in force for all queues.
    pub(super) fn settled(&mut self) {
        if std::mem::take(&mut self.is_changing) {
            self.now.drain(..self.now.len() - 1);
        }
    }

    /// Notes a crash. After the crash, any earlier rules can be in force.
    pub(super) fn crashed(&mut self) {
        self.now.clone_from(&self.ever);
        self.is_changing = false;
    }

    /// All settings that can apply to a queue now. `as_child` is true if a queue with the name of a
    /// child certainly is a child.
    pub(super) fn rules_of(&self, queue: &str, as_child: bool) -> Vec<QueueRules> {
        let parent = parent_of(queue);
        let mut all: Vec<QueueRules> =
            self.now.iter().map(|rules| resolve(rules, queue, parent)).collect();
        if !as_child && parent.is_some() {
            all.extend(self.now.iter().map(|rules| resolve(rules, queue, None)));
        }
        all
    }

    /// The settings that certainly apply to a queue. If the queue has the name of a child, it
    /// counts as a child.
    pub(super) fn certain_rules_of(&self, queue: &str) -> Option<QueueRules> {
        let mut all = self.rules_of(queue, true);
        let first = all.pop()?;
        all.iter().all(|other| *other == first).then_some(first)
    }

    /// True if jobs can come into the queue from other queues, or by a put under another name.
    pub(super) fn may_lead_to(&self, queue: &str) -> bool {
        self.ever.iter().any(|rules| lead_to(rules, queue))
    }

    /// True if a rule makes, or made, some queue less durable than the log's setting.
    pub(super) fn was_lax(&self) -> bool {
        let is_lax = |sync: &QueueSync| *sync != QueueSync::Always;
        self.settings().any(|setting| match setting {
            Setting::Sync(sync) => sync.as_ref().is_some_and(is_lax),
            _ => false,
        })
    }

    /// True if failed jobs are, or were, delayed or buried.
    pub(super) fn ever_retries(&self) -> bool {
        self.settings().any(|setting| matches!(setting, Setting::Retries(true)))
    }

    /// True if jobs with the same key are, or were, the same job.
    pub(super) fn ever_unique(&self) -> bool {
        self.settings().any(|setting| matches!(setting, Setting::UniqueBy(Some(_))))
    }

    /// True if a put can make, or could make, another job more urgent, or give it its body.
    pub(super) fn ever_bumps(&self) -> bool {
        self.settings().any(|setting| {
            matches!(setting, Setting::OnDuplicate(OnDuplicate::Bump | OnDuplicate::ReplaceBody))
        })
    }

    /// True if a put can give, or could give, its body to another job of this queue.
    pub(super) fn ever_replaces(&self, queue: &str) -> bool {
        let replaces = |rules: &Rules| {
            let parents = [None, parent_of(queue)];
            let resolved = parents.map(|parent| resolve(rules, queue, parent));
            resolved.iter().any(|rules| rules.is_unique && rules.replaces_bodies)
        };
        self.ever.iter().any(replaces)
    }

    /// True if jobs are, or were, delayed, although their clients did not ask for it.
    pub(super) fn ever_delays(&self) -> bool {
        let is_delay =
            |setting: &Setting| matches!(setting, Setting::Delay(seconds) if *seconds > 0);
        self.ever_retries() || self.settings().any(is_delay)
    }

    /// True if puts of a dialect do not all have the same priority, or are, or were, delayed or taken
    /// back after a time.
    pub(super) fn ever_has_defaults(&self) -> bool {
        let has_defaults = self.settings().any(|setting| {
            matches!(setting, Setting::Ttr(_) | Setting::Priority(_) | Setting::Delay(_))
        });
        has_defaults || self.ever_bumps()
    }

    /// True if a queue does not hand out its jobs, or did not for a time.
    pub(super) fn ever_pauses(&self) -> bool {
        self.settings().any(|setting| matches!(setting, Setting::Pause(true)))
    }

    pub(super) fn ever_times_out(&self) -> bool {
        self.settings().any(|setting| matches!(setting, Setting::OpenTimeout(Some(_))))
    }

    /// True if jobs that expire are, or were, dead letters, which can come back.
    pub(super) fn ever_sets_aside(&self) -> bool {
        self.settings().any(sets_aside)
    }

    fn settings(&self) -> impl Iterator<Item = &Setting> {
        let rules = self.ever.iter().flat_map(|rules| &rules.0);
        rules.flat_map(|rule| &rule.settings).map(|rule_setting| &rule_setting.setting)
    }
}

/// True if jobs can become dead letters by these rules. A dead letter has no key.
pub(super) fn lets_jobs_die(rules: &Rules) -> bool {
    let mut settings = rules.0.iter().flat_map(|rule| &rule.settings);
    settings
        .any(|asked| matches!(asked.setting, Setting::Retries(true)) || sets_aside(&asked.setting))
}

/// True if jobs that expire or make room can become dead letters.
fn sets_aside(setting: &Setting) -> bool {
    matches!(setting, Setting::DeadExpired(true) | Setting::DeadDropped(true))
}

/// True if these rules let jobs come into the queue from other queues, or by a put under another name.
pub(super) fn lead_to(rules: &Rules, queue: &str) -> bool {
    let names = [Some(queue), parent_of(queue)];
    let is_it = |name: &[u8]| names.iter().flatten().any(|other| other.as_bytes() == name);
    let mut settings = rules.0.iter().flat_map(|rule| &rule.settings);
    settings.any(|asked| match &asked.setting {
        Setting::ExpireTo(name) => name.as_deref().is_some_and(is_it),
        Setting::Alias(names) | Setting::CopyTo(names) => names.iter().any(|name| is_it(name)),
        Setting::DeadQueue(DeadTarget::Queue(pattern)) => {
            let pattern = String::from_utf8_lossy(pattern).replace("{name}", "*");
            names.iter().flatten().any(|name| fits(pattern.as_bytes(), name.as_bytes()))
        }
        _ => false,
    })
}

/// The name of the parent, if this is the name of a child.
pub(super) fn parent_of(queue: &str) -> Option<&str> {
    queue.split_once('+').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// Resolves the rules for a queue. For each setting, the last matching rule wins. A child first
/// gets its parent's settings, but not the destinations of the parent's puts. Then the rules apply
/// that match the child's name but not the parent's name.
pub(super) fn resolve(rules: &Rules, queue: &str, parent: Option<&str>) -> QueueRules {
    let mut resolved = QueueRules::default();
    let is_of_parent = |rule: &Rule| parent.is_some_and(|parent| matches(rule, parent));
    for rule in rules.0.iter().filter(|rule| is_of_parent(rule)) {
        for setting in &rule.settings {
            match &setting.setting {
                Setting::FanoutOnly(_) | Setting::Alias(_) | Setting::CopyTo(_) => {}
                setting => resolved.apply(setting),
            }
        }
    }
    for rule in rules.0.iter().filter(|rule| !is_of_parent(rule) && matches(rule, queue)) {
        rule.settings.iter().for_each(|setting| resolved.apply(&setting.setting));
    }
    resolved
}

/// The settings of a queue, if they are the same whether it is a child of another queue or not.
pub(super) fn resolve_for_certain(rules: &Rules, queue: &str) -> Option<QueueRules> {
    let resolved = resolve(rules, queue, None);
    (resolved == resolve(rules, queue, parent_of(queue))).then_some(resolved)
}

fn matches(rule: &Rule, queue: &str) -> bool {
    rule.patterns.iter().any(|pattern| fits(pattern.as_bytes(), queue.as_bytes()))
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, _) => name.is_empty(),
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        (Some((one, rest)), Some((other, others))) => {
            (*one == b'?' || one == other) && fits(rest, others)
        }
        (Some(_), None) => false,
    }
}

//! Changes policies while the world runs.

use std::rc::Rc;

use std::num::NonZeroU32;

use broker::policy::{
    Aging, Backoff, DeadTarget, FairMode, KeptBody, Key, Name, OnDuplicate, Order, Per, QueueSync,
    Rate, Rule, Rules, Setting, UniqueWindow, WhenFull,
};

use super::World;
use crate::rng::Rng;
use crate::workload::OTHER_NAME;
use crate::{Checked, RunKind, Sabotage};

fn names(names: &[&str]) -> Box<[Name]> {
    names.iter().map(|name| name.as_bytes().into()).collect()
}

/// Creates a random rule that refuses no put.
fn mild(rng: &mut Rng) -> Rule {
    let dropping = Setting::WhenFull(WhenFull::DropOldest);
    let kind = rng.below(24);
    let mut rule = match kind {
        0 => Rule::new(["*"], [Setting::JobsMax(Some(3)), dropping]),
        1 => Rule::new(["a*"], [Setting::BytesMax(Some(500)), dropping]),
        2 => Rule::new(["*"], [Setting::AgeMax(Some(2000))]),
        3 => Rule::new(["a"], [Setting::AgeMax(Some(500)), expiring_to("b-2")]),
        4 => Rule::new(["a+x", "b-2"], [expiring_to("old")]),
        5 => Rule::new(["a"], [Setting::FanoutOnly(true)]),
        10 => {
            let sync = Setting::Sync(Some(QueueSync::Always));
            Rule::new(["a*"], [sync, Setting::MemoryMax(Some(300))])
        }
        11 => Rule::new(["*"], [Setting::Sync(Some(*rng.pick(&LAX)))]),
        6 => Rule::new(["b-2*"], [Setting::Sync(Some(QueueSync::Memory))]),
        7 => Rule::new(["al"], [Setting::Alias(names(&["a", "b-2"]))]),
        8 => Rule::new(["(c)", "b-2"], [Setting::CopyTo(names(&["a", "copies"]))]),
        9 => Rule::new(["*"], [Setting::OpenMax(1), Setting::History(true)]),
        13 => {
            let mut rule = retrying("*", rng);
            rule.settings.extend(Rule::new([""], [Setting::DurableLeases(true)]).settings);
            rule.settings.extend(Rule::new([""], dead(rng)).settings);
            rule
        }
        14 => {
            let mut rule = retrying("a*", rng);
            let kept = [Setting::History(true), Setting::HistoryBody(KeptBody::Full)];
            rule.settings.extend(Rule::new([""], kept).settings);
            rule
        }
        15 => Rule::new(["*"], defaults(rng)),
        16 => Rule::new(["a*", "default"], defaults(rng)),
        17 => Rule::new(["*"], [Setting::Pause(true)]),
        18 => Rule::new([*rng.pick(&["a", "a+x", "b-2", "default"])], [Setting::Pause(true)]),
        19 => Rule::new([*rng.pick(&["a*", "default"])], [Setting::Pause(false)]),
        20..23 => unique("*", rng),
        23 => unique("a*", rng),
        _ => Rule::new(["a*"], [Setting::OpenTimeout(Some(1500))]),
    };
    // Jobs that expire or make room.
    if kind < 4 && rng.coin() {
        rule.settings.extend(Rule::new([""], dead(rng)).settings);
    }
    rule
}

const PATTERNS: [&str; 3] = ["*", "a*", "b-2*"];

/// Creates a random rule that limits hand-outs.
fn gates(rng: &mut Rng) -> Rule {
    let mut rule = Rule::new([*rng.pick(&PATTERNS)], []);
    let kind = rng.below(4);
    if kind != 0 {
        rule.settings.extend(Rule::new([""], rate(rng)).settings);
    }
    if kind < 2 {
        rule.settings.extend(Rule::new([""], [slots(rng)]).settings);
    }
    // Most bodies are random bytes. The pattern finds few different keys in them.
    let by = *rng.pick(&["prefix:1", "regex:(?-u)([abx01])", "gm:unique", "client"]);
    let key = || Some(by.parse().expect("it is a key"));
    let is_grouped = rng.coin();
    let keyed = rng.below(3);
    if is_grouped && keyed != 1 {
        rule.settings.extend(Rule::new([""], [Setting::RateKey(key())]).settings);
    }
    if is_grouped && keyed != 0 {
        rule.settings.extend(Rule::new([""], [Setting::ConcurrencyKey(key())]).settings);
    }
    let is_fair = rng.one_in(3);
    if is_fair {
        rule.settings.extend(Rule::new([""], fair(rng, key())).settings);
    }
    // Without its own key, a strict order is that of the whole queue.
    let may_be_strict = if is_grouped { keyed != 0 } else { !is_fair };
    if kind < 2 && may_be_strict && rng.coin() {
        let strict = Rule::new([""], [Setting::ConcurrencyOrder(Order::Strict)]);
        rule.settings.extend(strict.settings);
    }
    if rng.one_in(4) {
        let number = |number: u64| NonZeroU32::new(number as u32).expect("a number from 1 on");
        let aging = Aging { steps: number(rng.between(1, 3)), per_ms: number(rng.between(1, 900)) };
        rule.settings.extend(Rule::new([""], [Setting::Aging(Some(aging))]).settings);
    }
    rule
}

/// Creates a random rule by which expired jobs, or unused queues, end late.
fn ending(rng: &mut Rng) -> Rule {
    let mut rule = Rule::new([*rng.pick(&PATTERNS)], []);
    if rng.coin() {
        let sweep = Setting::ExpireSweep(Some(rng.below(3) as u32));
        rule.settings.extend(Rule::new([""], [sweep, Setting::AgeMax(Some(700))]).settings);
    }
    if rng.coin() {
        let idle = Setting::Idle(Some(*rng.pick(&[0, 300, 2500])));
        rule.settings.extend(Rule::new([""], [idle]).settings);
    }
    rule
}

/// Creates a rule that the sabotage breaks.
fn broken(sabotage: Sabotage, rng: &mut Rng) -> Rule {
    let setting = match sabotage {
        // Most bodies have none of these characters, so they share the empty key.
        Sabotage::OpenKeys => {
            let key = "regex:(?-u)([abx01])";
            Setting::ConcurrencyKey(Some(key.parse().expect("it is a key")))
        }
        _ => Setting::ConcurrencyOrder(Order::Strict),
    };
    Rule::new(["*"], [slots(rng), setting])
}

fn fair(rng: &mut Rng, key: Option<Key>) -> [Setting; 4] {
    let weight =
        |text: &str, weight| (Box::<str>::from(text), NonZeroU32::new(weight).expect("a weight"));
    let weights = [weight("0", 2), weight("a", 3), weight("b", 2)];
    let has_weights = rng.coin();
    [
        Setting::FairKey(key),
        Setting::FairWeights(weights.into_iter().filter(|_| has_weights).collect()),
        Setting::FairMode(*rng.pick(&[FairMode::RoundRobin, FairMode::InFlight])),
        Setting::FairAcross(rng.one_in(3)),
    ]
}

fn rate(rng: &mut Rng) -> [Setting; 2] {
    let (per, milli) = match rng.below(4) {
        0 => (Per::Minute, rng.between(300_000, 12_000_000)),
        1 => (Per::Hour, rng.between(9_000_000, 720_000_000)),
        _ => (Per::Second, rng.between(3_000, 200_000)),
    };
    let milli = NonZeroU32::new(milli as u32);
    let burst = NonZeroU32::new(rng.below(5) as u32);
    [Setting::Rate(milli.map(|milli| Rate { milli, per })), Setting::RateBurst(burst)]
}

/// Creates a random rule that pauses queues by a schedule.
fn windows(rng: &mut Rng) -> Rule {
    let cron = format!("*/{} * * * *", rng.pick(&[1, 2, 5]));
    let zone = *rng.pick(&["UTC", "Asia/Kathmandu"]);
    let settings = [
        Setting::Pause(true),
        Setting::PauseCron(Some(cron.parse().expect("a cron expression"))),
        Setting::PauseLength(Some(rng.between(1_000, 50_000))),
        Setting::PauseZone(zone.parse().expect("a time zone")),
        Setting::PauseReason(Some(b"nightly"[..].into())),
    ];
    Rule::new([*rng.pick(&PATTERNS)], settings)
}

fn slots(rng: &mut Rng) -> Setting {
    Setting::Concurrency(NonZeroU32::new(rng.between(1, 3) as u32))
}

fn retrying(pattern: &str, rng: &mut Rng) -> Rule {
    let backoff = *rng.pick(&[Backoff::None, Backoff::Linear, Backoff::Exponential]);
    let settings = [
        Setting::Retries(!rng.one_in(8)),
        Setting::RetryLimit(rng.below(4) as u32),
        Setting::RetryBackoff(backoff),
        Setting::RetryBase(rng.between(1, 1500)),
        Setting::RetryMax(2500),
        Setting::RetryJitter(*rng.pick(&[0, 200])),
        Setting::RetryRelease(rng.coin()),
        Setting::RetryDisconnect(rng.coin()),
    ];
    Rule::new([pattern], settings)
}

/// Creates a rule with retries, by which each attempt that ends without a success has failed.
fn patient(rng: &mut Rng) -> Rule {
    let mut rule = retrying("*", rng);
    let counting = [Setting::RetryRelease(true), Setting::RetryDisconnect(true)];
    rule.settings.extend(Rule::new([""], counting).settings);
    rule
}

/// Creates a rule by which some jobs are the same.
fn unique(pattern: &str, rng: &mut Rng) -> Rule {
    // Most bodies are random bytes. The patterns find few different keys in them.
    let few = "regex:(?-u)([0-9a-zA-Z])";
    let fewer = "regex:(?-u)([abx01])";
    let by = *rng.pick(&["body", "prefix:1", "gm:unique", few, fewer, fewer]);
    let windows = [
        UniqueWindow::UntilDone,
        UniqueWindow::UntilStart,
        UniqueWindow::For(rng.between(1, 8000)),
        UniqueWindow::For(20_000),
    ];
    let answers = [OnDuplicate::ReturnExisting, OnDuplicate::Bump, OnDuplicate::ReplaceBody];
    let settings = [
        Setting::UniqueBy(Some(by.parse().expect("it is a key"))),
        Setting::UniqueWindow(*rng.pick(&windows)),
        Setting::OnDuplicate(*rng.pick(&answers)),
        Setting::IgnoreBuried(rng.coin()),
        Setting::ResultKeep(Some(4000)),
    ];
    Rule::new([pattern], settings)
}

fn dead(rng: &mut Rng) -> [Setting; 5] {
    let target = match rng.below(5) {
        0 => DeadTarget::Bury,
        1 => DeadTarget::Drop,
        2 => DeadTarget::Queue(b"b-2"[..].into()),
        _ => DeadTarget::Queue(b"dead.{name}"[..].into()),
    };
    let keep = if rng.coin() { Some(rng.between(500, 4000)) } else { None };
    [
        Setting::DeadQueue(target),
        Setting::DeadKeep(keep),
        Setting::DeadJobsMax(rng.below(4)),
        Setting::DeadExpired(rng.coin()),
        Setting::DeadDropped(rng.coin()),
    ]
}

/// What a job gets if its client did not send it.
fn defaults(rng: &mut Rng) -> [Setting; 3] {
    let ttr = if rng.coin() { Some(rng.between(1, 3) as u32) } else { None };
    let delay = if rng.coin() { rng.between(1, 2) as u32 } else { 0 };
    [Setting::Ttr(ttr), Setting::Priority(*rng.pick(&[0, 1024, 2000])), Setting::Delay(delay)]
}

const LAX: [QueueSync; 2] = [QueueSync::Never, QueueSync::Every(20)];

fn expiring_to(name: &str) -> Setting {
    Setting::ExpireTo(Some(name.as_bytes().into()))
}

fn refusing(rng: &mut Rng) -> Rule {
    match rng.below(6) {
        4 | 5 => {
            let pattern = *rng.pick(&["*", "a*", "default"]);
            let block_for = Setting::BlockFor(rng.between(50, 3000));
            let blocks = Setting::WhenFull(WhenFull::Block);
            Rule::new([pattern], [Setting::JobsMax(Some(2)), blocks, block_for])
        }
        3 => {
            let mut rule = unique("*", rng);
            rule.settings
                .extend(Rule::new([""], [Setting::OnDuplicate(OnDuplicate::Refuse)]).settings);
            rule
        }
        0 => Rule::new(["*"], [Setting::JobsMax(Some(2))]),
        1 => Rule::new(["a*"], [Setting::BytesMax(Some(300))]),
        _ => Rule::new(["*"], [Setting::ItemBytesMax(Some(200))]),
    }
}

/// The same rules without limits for queues.
fn without_limits(rules: &Rules) -> Rules {
    let is_limit = |setting: &Setting| {
        matches!(setting, Setting::JobsMax(_) | Setting::BytesMax(_) | Setting::ItemBytesMax(_))
    };
    let mut rules = rules.clone();
    for rule in &mut rules.0 {
        rule.settings.retain(|asked| !is_limit(&asked.setting));
    }
    rules
}

/// The same rules without limits of hand-outs.
fn without_gates(rules: &Rules) -> Rules {
    let is_gate = |setting: &Setting| {
        matches!(setting, Setting::Rate(_) | Setting::Concurrency(_) | Setting::PauseCron(_))
            || *setting == Setting::Pause(true)
    };
    let mut rules = rules.clone();
    for rule in &mut rules.0 {
        rule.settings.retain(|asked| !is_gate(&asked.setting));
    }
    rules
}

/// The same rules, with each setting as `edit` changes it.
fn edited(rules: &Rules, edit: impl Fn(&mut Setting)) -> Rules {
    let mut rules = rules.clone();
    for asked in rules.0.iter_mut().flat_map(|rule| &mut rule.settings) {
        edit(&mut asked.setting);
    }
    rules
}

/// The rules that the server gets instead of these. `None`: it gets none.
fn sabotaged(rules: &Rules, sabotage: Sabotage) -> Option<Rules> {
    Some(match sabotage {
        Sabotage::StalePolicies => return None,
        Sabotage::IgnoredLimits => without_limits(rules),
        Sabotage::OpenGates | Sabotage::OpenKeys | Sabotage::OpenOrders => without_gates(rules),
        // The window of a key ends with the job, or when a worker takes the job.
        Sabotage::ForgottenClaims => edited(rules, |setting| {
            if let Setting::UniqueWindow(window) = setting {
                *window = match window {
                    UniqueWindow::For(_) => UniqueWindow::UntilDone,
                    UniqueWindow::UntilDone | UniqueWindow::UntilStart => UniqueWindow::UntilStart,
                };
            }
        }),
        // More retries than a run has.
        Sabotage::EndlessRetries => edited(rules, |setting| {
            if let Setting::RetryLimit(limit) = setting {
                *limit = 1000;
            }
        }),
        Sabotage::LooseOrders => edited(rules, |setting| {
            if let Setting::ConcurrencyOrder(order) = setting {
                *order = Order::Loose;
            }
        }),
        Sabotage::OtherShares => edited(rules, |setting| {
            if let Setting::FairMode(mode) = setting {
                *mode = match mode {
                    FairMode::RoundRobin => FairMode::InFlight,
                    FairMode::InFlight => FairMode::RoundRobin,
                };
            }
        }),
        Sabotage::NoAging => edited(rules, |setting| {
            if let Setting::Aging(aging) = setting {
                *aging = None;
            }
        }),
        _ => rules.clone(),
    })
}

impl World {
    /// The rules that are in force during the whole run, if the plan says so. Some keep the results of
    /// Gearman's jobs. If a name stands for another queue from the beginning, no queue ever has this name
    /// itself.
    pub(crate) fn base_rules(&self) -> Rules {
        let mut rules = vec![];
        if self.plan.keeps_results {
            let settings = [
                Setting::UniqueBy(Some("gm:unique".parse().expect("it is a key"))),
                Setting::UniqueWindow(UniqueWindow::For(20_000)),
                Setting::OnDuplicate(OnDuplicate::ReturnExisting),
                Setting::ResultKeep(Some(8000)),
            ];
            rules.push(Rule::new(["*"], settings));
        }
        if self.plan.renames {
            rules.push(Rule::new([OTHER_NAME], [Setting::SameAs(Some(b"a"[..].into()))]));
        }
        Rules(rules)
    }

    /// At the beginning of a process: puts the rules of the whole run in force, if the process before
    /// has lost them.
    pub(crate) fn restore_base_rules(&mut self) -> Checked {
        let base = self.base_rules();
        self.with_turn(|world, turn| {
            let mut rules = turn.policies().clone();
            if base.0.iter().all(|rule| rules.0.contains(rule)) {
                return Ok(());
            }
            rules.0.extend(base.0);
            let rules = Rc::new(rules);
            let _ = turn.set_policies((*rules).clone());
            if world.is_modelled() {
                world.model.set_policies(&rules);
            }
            world.oracle.policies_changed(&rules);
            Ok(())
        })
    }

    /// Replaces the rules with up to three random rules.
    pub(crate) fn change_policies(&mut self) -> Checked {
        let mut rules = Rules::default();
        let sabotage = self.options.sabotage;
        if sabotage.chooses_rules() {
            rules.0.push(broken(sabotage, &mut self.rng));
        }
        for _ in 0..self.rng.below(4) {
            let refuses = self.plan.refusing && self.rng.coin();
            rules.0.push(if refuses { refusing(&mut self.rng) } else { mild(&mut self.rng) });
        }
        if self.rng.one_in(3) {
            rules.0.push(gates(&mut self.rng));
        }
        if self.rng.one_in(5) {
            rules.0.push(windows(&mut self.rng));
        }
        if self.rng.one_in(4) {
            rules.0.push(ending(&mut self.rng));
        }
        // Such rules are rare above, and the oracle judges them only over several hand-outs or puts.
        if self.options.kind == RunKind::Policies && self.rng.coin() {
            let is_retry = self.rng.coin();
            rules.0.push(if is_retry {
                patient(&mut self.rng)
            } else {
                unique("*", &mut self.rng)
            });
        }
        rules.0.extend(self.base_rules().0);
        if rules.check().is_err() {
            return Ok(());
        }
        self.trace.note(format_args!("{rules:?}"));
        let rules = Rc::new(rules);
        self.with_turn(|world, turn| {
            if let Some(rules) = sabotaged(&rules, world.options.sabotage) {
                let _ = turn.set_policies(rules);
            }
            if world.is_modelled() {
                world.model.set_policies(&rules);
            }
            world.oracle.policies_changed(&rules);
            Ok(())
        })
    }
}

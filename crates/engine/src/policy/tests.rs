//! Tests of rules: the policies that they give, the rules that the check refuses, and the encoding.

use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

fn names(texts: &[&str]) -> Box<[Name]> {
    texts.iter().map(|text| name(text)).collect()
}

fn resolve(rules: &Rules, queue: &str) -> Policy {
    rules.resolve(queue.as_bytes(), parent_name(queue.as_bytes()))
}

fn refused(rules: Vec<Rule>) -> String {
    Rules(rules).check().expect_err("it cannot be obeyed").to_string()
}

#[test]
fn an_unmatched_queue_has_no_settings() {
    let policy = resolve(&Rules::default(), "mail");
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.open_max, 100);
}

#[test]
fn for_each_setting_the_last_rule_that_has_it_wins() {
    let rules = Rules(vec![
        Rule::new(["*"], [Setting::JobsMax(Some(10)), Setting::AgeMax(Some(1000))]),
        Rule::new(["mail.*", "news"], [Setting::JobsMax(Some(500))]),
        Rule::new(["mail.free"], [Setting::AgeMax(None)]),
    ]);
    let of = |queue| {
        let policy = resolve(&rules, queue);
        (policy.jobs_max, policy.age_max_ms)
    };
    assert_eq!(of("other"), (Some(10), Some(1000)));
    assert_eq!(of("news"), (Some(500), Some(1000)));
    assert_eq!(of("mail.in"), (Some(500), Some(1000)));
    assert_eq!(of("mail.free"), (Some(500), None));
}

#[test]
fn a_child_has_what_its_parent_has_and_its_own_over_it() {
    // The example of spec kestrel 5.1.
    let rules = Rules(vec![
        Rule::new(["q+fanout"], [Setting::AgeMax(Some(60_000))]),
        Rule::new(["*"], [Setting::BytesMax(Some(8)), Setting::AgeMax(Some(1))]),
        Rule::new(["q"], [Setting::JobsMax(Some(500)), Setting::FanoutOnly(true)]),
        Rule::new(["x"], [Setting::BytesMax(Some(16))]),
    ]);
    let of = |queue| {
        let policy = resolve(&rules, queue);
        (policy.bytes_max, policy.jobs_max, policy.age_max_ms, policy.fanout_only)
    };
    assert_eq!(of("q"), (Some(8), Some(500), Some(1), true));
    // The child's own rule wins, although the parent's rule comes later. The child does not inherit
    // `fanout_only`.
    assert_eq!(of("q+fanout"), (Some(8), Some(500), Some(60_000), false));
    assert_eq!(of("q+other+more"), (Some(8), Some(500), Some(1), false));
    assert_eq!(of("x"), (Some(16), None, Some(1), false));
    // If a queue is not a child, it inherits no settings, even with a `+` in its name.
    let plain = rules.resolve(b"q+plain", None);
    assert_eq!((plain.jobs_max, plain.bytes_max), (None, Some(8)));
}

#[test]
fn where_a_parents_puts_go_is_not_for_its_children() {
    let rules = Rules(vec![
        Rule::new(["news"], [Setting::CopyTo(names(&["audit"])), Setting::Alias(names(&["a"]))]),
        Rule::new(["news+b"], [Setting::CopyTo(names(&["other"]))]),
    ]);
    let child = resolve(&rules, "news+a");
    assert!(child.copy_to.is_empty() && child.alias.is_empty());
    assert_eq!(resolve(&rules, "news+b").copy_to, names(&["other"]));
    assert_eq!(resolve(&rules, "news").copy_to, names(&["audit"]));
}

#[test]
fn each_value_knows_its_line() {
    let asked = |setting, line| RuleSetting { setting, line };
    let rules = Rules(vec![
        Rule {
            patterns: vec![Pattern::new(b"*")],
            settings: vec![asked(Setting::JobsMax(Some(1)), 3), asked(Setting::OpenMax(7), 4)],
            line: 1,
        },
        Rule {
            patterns: vec![Pattern::new(b"m*")],
            settings: vec![asked(Setting::JobsMax(Some(2)), 8)],
            line: 6,
        },
    ]);
    let all = rules.resolve_with_origins(b"mail", None);
    assert_eq!(all[0], (Setting::JobsMax(Some(2)), Some(8)));
    assert_eq!(all[1], (Setting::BytesMax(None), None));
    assert_eq!(all[9], (Setting::OpenMax(7), Some(4)));
    let keys = all.map(|(setting, _)| setting.key());
    assert_eq!((keys[0], keys[16]), ("limits.jobs", "route.copy_to"));
}

#[test]
fn literal_names_are_those_without_wildcards() {
    let rules = Rules(vec![Rule::new(["a*", "b", "?"], []), Rule::new(["c+d"], [])]);
    let found: Vec<&[u8]> = rules.literal_names().collect();
    assert_eq!(found, [&b"b"[..], b"c+d"]);
}

#[test]
fn circles_are_refused() {
    let copy = |from, to: &[&str]| Rule::new([from], [Setting::CopyTo(names(to))]);
    let alias = |from, to: &[&str]| Rule::new([from], [Setting::Alias(names(to))]);
    for circle in [
        vec![copy("a", &["a"])],
        vec![copy("a", &["b"]), copy("b", &["c"]), alias("c", &["a"])],
        vec![copy("*", &["audit"])],
        vec![copy("a", &["b"]), copy("?", &["a"])],
    ] {
        assert!(refused(circle.clone()).contains("come back to it"), "{circle:?}");
    }
    // Two paths to the same queue are not a circle.
    let diamond = vec![copy("a", &["b", "c"]), copy("b", &["d"]), copy("c", &["d"])];
    Rules(diamond).check().unwrap();
    Rules(vec![copy("*", &["audit"]), copy("audit", &[])]).check().unwrap();
}

#[test]
fn puts_that_reach_too_many_queues_are_refused() {
    let many = |prefix: &str, count| -> Box<[Name]> {
        (0..count).map(|number| name(&format!("{prefix}{number}"))).collect()
    };
    let copies = |count| vec![Rule::new(["a"], [Setting::CopyTo(many("q", count))])];
    Rules(copies(8)).check().unwrap();
    assert_eq!(refused(copies(9)), "route.copy_to: at most 8 copies");
    let aliases = |count| vec![Rule::new(["a"], [Setting::Alias(many("q", count))])];
    Rules(aliases(64)).check().unwrap();
    assert!(refused(aliases(65)).contains("more than 64 queues"));
    // An alias with eight destinations, each with eight copies.
    let tree = [aliases(8), vec![Rule::new(["q?"], [Setting::CopyTo(many("r", 8))])]].concat();
    assert!(refused(tree).contains("more than 64 queues"));
    let chain = (0..500).map(|number| {
        Rule::new(
            [format!("q{number}").as_str()],
            [Setting::Alias(names(&[&format!("q{}", number + 1)]))],
        )
    });
    assert!(refused(chain.collect()).contains("more than 64 queues"));
}

#[test]
fn rules_whose_expired_jobs_come_back_are_refused() {
    let rule = |from| Rule::new([from], [Setting::ExpireTo(Some(name("late")))]);
    for from in ["late", "*", "l*"] {
        assert!(refused(vec![rule(from)]).contains("jobs that expire in `late`"), "{from}");
    }
    let last = Rule::new(["late"], [Setting::ExpireTo(None)]);
    Rules(vec![rule("*"), last]).check().unwrap();
}

#[test]
fn names_and_sizes_are_bounded() {
    let to = |target: &str| vec![Rule::new(["a"], [Setting::ExpireTo(Some(name(target)))])];
    assert!(refused(to("")).starts_with("expire_to: a queue name"));
    Rules(to(&"x".repeat(8180))).check().unwrap();
    assert!(refused(to(&"x".repeat(8181))).starts_with("expire_to: a queue name"));
    let large = "x".repeat(RULES_BYTES_MAX);
    assert!(refused(vec![Rule::new([large.as_str()], [])]).contains("64KiB"));
}

/// A simple matcher, to compare with the real matcher.
fn matches_naively(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|end| matches_naively(rest, &name[end..])),
        Some((b'?', rest)) => !name.is_empty() && matches_naively(rest, &name[1..]),
        Some((byte, rest)) => name.first() == Some(byte) && matches_naively(rest, &name[1..]),
    }
}

#[test]
fn a_hard_pattern_takes_no_longer_than_its_length_times_the_names() {
    let pattern = ["a*".repeat(2000).as_bytes(), b"b*"].concat();
    assert!(!Pattern::new(&pattern).matches(&b"a".repeat(8000)));
}

#[test]
fn only_the_parts_between_two_stars_are_looked_for_in_a_name() {
    let per_byte = |pattern: &[u8]| Pattern::new(pattern).steps().1;
    for pattern in ["", "abc", "*", "abc*", "*abc", "a*bc", "**"] {
        assert_eq!(per_byte(pattern.as_bytes()), 0, "{pattern}");
    }
    for pattern in ["*abc*", "a*bc*d*efgh", "*a?c*"] {
        assert_eq!(per_byte(pattern.as_bytes()), 1, "{pattern}");
    }
    // A step compares up to 64 bytes of a part.
    let of_part = |bytes| per_byte(&[b"*", &b"a".repeat(bytes)[..], b"*"].concat());
    assert_eq!([64, 65, 250].map(of_part), [1, 5, 9]);
}

#[test]
fn long_parts_take_their_first_places_and_do_not_overlap() {
    let name = b"a".repeat(200);
    for (bytes, count, is_match) in [(64, 3, true), (65, 3, true), (70, 2, true), (70, 3, false)] {
        let part = "a".repeat(bytes) + "*";
        let pattern = Pattern::new(format!("*{}", part.repeat(count)).as_bytes());
        assert_eq!(pattern.matches(&name), is_match, "{count} parts of {bytes} bytes");
    }
}

fn some_name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(any::<u8>(), 0..6).prop_map(Vec::into_boxed_slice)
}

fn some_names() -> impl Strategy<Value = Box<[Name]>> {
    proptest::collection::vec(some_name(), 0..4).prop_map(Vec::into_boxed_slice)
}

fn some_sync() -> impl Strategy<Value = Option<QueueSync>> {
    prop_oneof![
        Just(None),
        Just(Some(QueueSync::Always)),
        any::<u64>().prop_map(|millis| Some(QueueSync::Every(millis))),
        Just(Some(QueueSync::Never)),
        Just(Some(QueueSync::Memory)),
    ]
}

fn some_setting() -> impl Strategy<Value = Setting> {
    prop_oneof![
        any::<Option<u64>>().prop_map(Setting::JobsMax),
        any::<Option<u64>>().prop_map(Setting::BytesMax),
        any::<Option<u64>>().prop_map(Setting::ItemBytesMax),
        any::<Option<u64>>().prop_map(Setting::AgeMax),
        prop_oneof![Just(WhenFull::Refuse), Just(WhenFull::DropOldest)].prop_map(Setting::WhenFull),
        proptest::option::of(some_name()).prop_map(Setting::ExpireTo),
        any::<Option<u32>>().prop_map(Setting::ExpireSweep),
        any::<Option<u64>>().prop_map(Setting::Idle),
        any::<u32>().prop_map(Setting::OpenMax),
        any::<Option<u64>>().prop_map(Setting::OpenTimeout),
        any::<bool>().prop_map(Setting::FanoutOnly),
        some_sync().prop_map(Setting::Sync),
        any::<bool>().prop_map(Setting::DurableLeases),
        any::<Option<u64>>().prop_map(Setting::MemoryMax),
        some_names().prop_map(Setting::Alias),
        some_names().prop_map(Setting::CopyTo),
        some_retry_setting(),
        some_unique_setting(),
    ]
}

fn some_unique_setting() -> impl Strategy<Value = Setting> {
    let keys = vec!["body", "json:/a~1b/0", "prefix:8", "until:\\x00", "gm:unique", "regex:^(a+)"];
    let key = proptest::option::of(proptest::sample::select(keys));
    let parsed = |text: &str| text.parse().expect("it is a key");
    prop_oneof![
        key.prop_map(move |key| Setting::UniqueBy(key.map(parsed))),
        prop_oneof![
            Just(UniqueWindow::UntilDone),
            Just(UniqueWindow::UntilStart),
            any::<u64>().prop_map(UniqueWindow::For)
        ]
        .prop_map(Setting::UniqueWindow),
        prop_oneof![Just(OnDuplicate::ReturnExisting), Just(OnDuplicate::Refuse)]
            .prop_map(Setting::OnDuplicate),
        any::<bool>().prop_map(Setting::IgnoreBuried),
        any::<bool>().prop_map(Setting::History),
        any::<u64>().prop_map(Setting::HistoryKeep),
        any::<u64>().prop_map(Setting::HistoryMax),
        any::<u32>().prop_map(|bytes| Setting::HistoryBody(KeptBody::Prefix(bytes))),
        Just(Setting::HistoryBody(KeptBody::Full)),
        any::<Option<u64>>().prop_map(Setting::ResultKeep),
    ]
}

fn some_target() -> impl Strategy<Value = DeadTarget> {
    prop_oneof![
        Just(DeadTarget::Bury),
        Just(DeadTarget::Drop),
        some_name().prop_map(DeadTarget::Queue),
    ]
}

fn some_retry_setting() -> impl Strategy<Value = Setting> {
    let backoff =
        prop_oneof![Just(Backoff::None), Just(Backoff::Linear), Just(Backoff::Exponential)];
    prop_oneof![
        any::<bool>().prop_map(Setting::Retries),
        any::<u32>().prop_map(Setting::RetryLimit),
        backoff.prop_map(Setting::RetryBackoff),
        any::<u64>().prop_map(Setting::RetryBase),
        any::<u64>().prop_map(Setting::RetryMax),
        any::<u32>().prop_map(Setting::RetryJitter),
        any::<bool>().prop_map(Setting::RetryRelease),
        any::<bool>().prop_map(Setting::RetryDisconnect),
        some_target().prop_map(Setting::DeadQueue),
        any::<Option<u64>>().prop_map(Setting::DeadKeep),
        any::<u64>().prop_map(Setting::DeadJobsMax),
        any::<bool>().prop_map(Setting::DeadExpired),
        any::<bool>().prop_map(Setting::DeadDropped),
        any::<Option<u32>>().prop_map(Setting::Ttr),
        any::<u32>().prop_map(Setting::Priority),
        any::<u32>().prop_map(Setting::Delay),
        any::<bool>().prop_map(Setting::Pause),
        proptest::option::of(some_name()).prop_map(Setting::PauseReason),
        proptest::option::of(proptest::sample::select(&["0 0 * * 6", "@daily", "*/5 1-3 * 2 mon"]))
            .prop_map(|cron| Setting::PauseCron(cron.map(|cron| cron.parse().unwrap()))),
        any::<Option<u64>>().prop_map(Setting::PauseLength),
        proptest::sample::select(&["UTC", "Europe/Berlin", "Asia/Tokyo"])
            .prop_map(|zone| Setting::PauseZone(zone.parse().unwrap())),
    ]
}

fn some_rules() -> impl Strategy<Value = Rules> {
    let asked =
        (some_setting(), any::<u32>()).prop_map(|(setting, line)| RuleSetting { setting, line });
    let pattern = some_name().prop_map(|text| Pattern::new(&text));
    let patterns = proptest::collection::vec(pattern, 0..3);
    let rule = (patterns, proptest::collection::vec(asked, 0..6), any::<u32>())
        .prop_map(|(patterns, settings, line)| Rule { patterns, settings, line });
    proptest::collection::vec(rule, 0..5).prop_map(Rules)
}

/// Rules for few names, that make aliases and names of other queues.
fn some_routes() -> impl Strategy<Value = Rules> {
    let some_target = || "[ab]".prop_map(|target| name(&target));
    let setting = prop_oneof![
        proptest::collection::vec(some_target(), 0..2).prop_map(|to| Setting::Alias(to.into())),
        proptest::option::of(some_target()).prop_map(Setting::SameAs),
        Just(Setting::FanoutOnly(true)),
    ];
    let asked = setting.prop_map(|setting| RuleSetting { setting, line: 0 });
    let pattern = "[ab][ab+*?]{0,2}".prop_map(|text| Pattern::new(text.as_bytes()));
    let patterns = proptest::collection::vec(pattern, 1..6);
    let rule = (patterns, proptest::collection::vec(asked, 1..3))
        .prop_map(|(patterns, settings)| Rule { patterns, settings, line: 0 });
    proptest::collection::vec(rule, 0..6).prop_map(Rules)
}

proptest! {
    #[test]
    fn the_aliases_with_counts_are_those_of_the_rules(rules in some_routes()) {
        let mut in_force = InForce::default();
        in_force.replace(rules.clone());
        let is_alias = |name: &&[u8]| {
            let policy = rules.resolve(name, parent_name(name));
            policy.same_as.is_none() && !policy.alias.is_empty()
        };
        let mut aliases: Vec<&[u8]> = rules.literal_names().filter(is_alias).collect();
        aliases.sort_unstable();
        aliases.dedup();
        let counted: Vec<&[u8]> = in_force.aliases_behind(None).collect();
        prop_assert_eq!(counted, aliases);
    }

    #[test]
    fn patterns_match_what_they_mean(pattern in "[ab?*]{0,8}", name in "[ab]{0,10}") {
        let found = Pattern::new(pattern.as_bytes()).matches(name.as_bytes());
        prop_assert_eq!(found, matches_naively(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn long_parts_match_what_they_mean(
        name in "[ab]{200,260}",
        (from, bytes) in (0_usize..60, 50_usize..140),
        wildcards in proptest::collection::vec(0_usize..140, 0..9),
        wrong in proptest::option::of(0_usize..140),
    ) {
        let name = name.as_bytes();
        let mut part = name[from..from + bytes].to_vec();
        for place in wildcards.into_iter().filter(|place| *place < bytes) {
            part[place] = b'?';
        }
        if let Some(byte) = wrong.and_then(|place| part.get_mut(place)) {
            *byte = b'c';
        }
        let pattern = [b"*", &part[..], b"*"].concat();
        let found = Pattern::new(&pattern).matches(name);
        prop_assert_eq!(found, matches_naively(&pattern, name));
    }

    #[test]
    fn rules_survive_as_bytes(rules in some_rules()) {
        prop_assert_eq!(Rules::decode(&rules.encode()), Some(rules));
    }

    #[test]
    fn a_part_of_the_bytes_is_refused(rules in some_rules(), cut in 1_usize..20) {
        let bytes = rules.encode();
        prop_assert_eq!(Rules::decode(&bytes[..bytes.len().saturating_sub(cut)]), None);
        prop_assert_eq!(Rules::decode(&[bytes, vec![0]].concat()), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(rules) = Rules::decode(&[vec![1], bytes].concat()) {
            let _ = rules.check();
        }
    }

    #[test]
    fn the_values_with_origins_are_those_of_the_policy(rules in some_rules(), queue in "[a+]{0,4}") {
        let parent = parent_name(queue.as_bytes());
        let policy = rules.resolve(queue.as_bytes(), parent);
        let shown = rules.resolve_with_origins(queue.as_bytes(), parent);
        for ((setting, line), (own, default)) in
            shown.into_iter().zip(policy.settings().into_iter().zip(Policy::default().settings()))
        {
            prop_assert_eq!(&setting, &own);
            prop_assert!(line.is_some() || own == default);
        }
    }
}

#[test]
fn queues_with_one_rule_share_its_weights() {
    let weight = |text: &str| (Box::<str>::from(text), NonZeroU32::new(3).unwrap());
    let by = |key: &str| Some(key.parse::<Key>().unwrap());
    let rules = Rules(vec![
        Rule::new(
            ["*"],
            [
                Setting::FairKey(by("json:/tenant")),
                Setting::FairWeights([weight("acme"), weight("b")].into_iter().collect()),
            ],
        ),
        Rule::new(["c"], [Setting::FairKey(by("body"))]),
    ]);
    let (a, b, c) = (resolve(&rules, "a"), resolve(&rules, "b"), resolve(&rules, "c"));
    assert_eq!(a.fair.weights.as_ptr(), b.fair.weights.as_ptr());
    assert_eq!(a.fair.weights.as_ptr(), c.fair.weights.as_ptr());
    // The queues also share the weights that they look up by the hashes of keys.
    let (of_a, of_b, of_c) = (a.lane_weights(), b.lane_weights(), c.lane_weights());
    assert!(of_a.shares_with(&of_b));
    assert!(!of_a.shares_with(&of_c));
    let weights = |policy: &Policy, weights: &LaneWeights| {
        let key = policy.group_key().expect("the keys of the rule");
        ["acme", "d"].map(|text| weights.of(key.hash_of(text.as_bytes())))
    };
    assert_eq!(weights(&a, &of_a), [3, 1]);
    assert_eq!(weights(&c, &of_c), [3, 1]);
    // The keys of `a` have no weights in `c`, because they are other keys.
    assert_eq!(weights(&a, &of_c), [1, 1]);
}

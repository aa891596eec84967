//! Tests of the `[[policy]]` tables: every key, every refusal, and the output for operators.

use broker::policy::{
    Aging, DeadLetters, Defaults, Fair, History, PausePolicy, Policy, QueueSync, Retries, Unique,
    WhenFull,
};

use super::*;
use crate::config::Config;
use crate::config::sources::tests::{Folder, messages};

fn rules(text: &str) -> Rules {
    let (_folder, sources) = Folder::with(text);
    sources.load().unwrap_or_else(|mistakes| panic!("{mistakes}")).config.policies
}

fn policy(text: &str, queue: &str) -> Policy {
    rules(text).resolve(queue.as_bytes(), None)
}

#[test]
fn every_key_is_read() {
    let text = r#"
        [[policy]]
        match = ["mail.*", "send_mail"]
        limits = { jobs = 1_000_000, bytes = "4GiB", item_bytes = 128, age = "7d", when_full = "drop-oldest" }
        expire_to = "late"
        expire_sweep = 100
        idle = "1h"
        open = { max = 3, timeout = "30s" }
        fanout_only = true
        reservation = "durable"
        sync = "50ms"
        memory = { bytes = "8MiB" }
        alias = ["a", "b"]
        route = { copy_to = "audit" }
        retries = { limit = 8, backoff = "linear", base = "2s", max = "1m", jitter = 0.05, count_release = false, count_disconnect = false }
        dead = { queue = "dead.{name}", keep = "1h", max_jobs = 7, expired = true, dropped = true }
        ttr = "1m30s"
        priority = 12
        delay = "5s"
        pause = { reason = "the database moves", cron = "0 0 * * sat", for = "2d", tz = "europe/berlin" }
        rate = { per_minute = 2.5, burst = 7, key = "client" }
        concurrency = { limit = 3, key = "client", order = "strict" }
        fair = { key = "client", weights = { "b c" = 1_000, acme = 3 }, mode = "in-flight", across_priorities = true }
        aging = "2/1m30s"
        unique = { by = "prefix:8", window = "until-start", on_duplicate = "refuse", ignore_buried = true }
        history = { keep = "2h", max = 9, body = "prefix:1024" }
        result = { keep = "1h" }
    "#;
    let expected = Policy {
        rate_key: Some("client".parse().expect("it is a key")),
        concurrency_key: Some("client".parse().expect("it is a key")),
        concurrency_order: Order::Strict,
        fair: Fair {
            key: Some("client".parse().expect("it is a key")),
            weights: [("acme", 3), ("b c", 1000)]
                .map(|(key, weight)| (key.into(), NonZeroU32::new(weight).unwrap()))
                .into(),
            mode: FairMode::InFlight,
            across_priorities: true,
        },
        aging: NonZeroU32::new(2)
            .zip(NonZeroU32::new(90_000))
            .map(|(steps, per_ms)| Aging { steps, per_ms }),
        jobs_max: Some(1_000_000),
        bytes_max: Some(4 << 30),
        item_bytes_max: Some(128),
        age_max_ms: Some(7 * 86_400_000),
        when_full: WhenFull::DropOldest,
        block_for_ms: 5000,
        expire_to: Some(name("late")),
        expire_sweep: Some(100),
        idle_ms: Some(3_600_000),
        open_max: 3,
        open_timeout_ms: Some(30_000),
        fanout_only: true,
        durable_leases: true,
        sync: Some(QueueSync::Every(50)),
        memory_max: Some(8 << 20),
        alias: names(&["a", "b"]),
        copy_to: names(&["audit"]),
        same_as: None,
        retries: Retries {
            is_on: true,
            limit: 8,
            backoff: Backoff::Linear,
            base_ms: 2_000,
            max_ms: 60_000,
            jitter_permille: 50,
            counts_release: false,
            counts_disconnect: false,
        },
        dead: DeadLetters {
            target: DeadTarget::Queue(name("dead.{name}")),
            keep_ms: Some(3_600_000),
            jobs_max: 7,
            expired: true,
            dropped: true,
        },
        defaults: Defaults { ttr_s: Some(90), priority: 12, delay_s: 5 },
        pause: PausePolicy {
            is_on: true,
            reason: Some(name("the database moves")),
            cron: Some("0 0 * * sat".parse().unwrap()),
            zone: "Europe/Berlin".parse().unwrap(),
            length_ms: Some(2 * 24 * 3_600_000),
        },
        rate: NonZeroU32::new(2_500).map(|milli| Rate { milli, per: Per::Minute }),
        rate_burst: NonZeroU32::new(7),
        concurrency: NonZeroU32::new(3),
        unique: Unique {
            by: Some("prefix:8".parse().expect("it is a key")),
            window: UniqueWindow::UntilStart,
            on_duplicate: OnDuplicate::Refuse,
            ignore_buried: true,
        },
        history: History {
            is_on: true,
            keep_ms: 7_200_000,
            jobs_max: 9,
            body: KeptBody::Prefix(1024),
        },
        result_keep_ms: Some(3_600_000),
    };
    assert_eq!(policy(text, "mail.in"), expected);
    assert_eq!(policy(text, "send_mail"), expected);
    assert_eq!(policy(text, "mail"), Policy::default());
}

#[test]
fn groups_may_be_tables_and_none_takes_back() {
    let text = r#"
        [[policy]]
        match = "*"
        expire_to = "late"
        idle = "2h"
        sync = "never"
        [policy.limits]
        jobs = 5
        age = "1s"
        [[policy]]
        match = "late"
        expire_to = "none"
        [[policy]]
        match = "f?ee"
        limits.jobs = "none"
        limits.age = "none"
        limits.bytes = "none"
        expire_to = "none"
        expire_sweep = "none"
        ttr = "none"
        idle = "none"
        open.timeout = "none"
        sync = "none"
        alias = []
    "#;
    assert_eq!(policy(text, "any").jobs_max, Some(5));
    assert_eq!(policy(text, "late").expire_to, None);
    assert_eq!(policy(text, "free"), Policy::default());
    for (written, read) in
        [("always", QueueSync::Always), ("0ms", QueueSync::Always), ("memory", QueueSync::Memory)]
    {
        let text = format!("[[policy]]\nmatch = \"a\"\nsync = \"{written}\"\n");
        assert_eq!(policy(&text, "a").sync, Some(read));
    }
}

#[test]
fn mistakes_name_line_key_and_what_was_meant() {
    let text = r#"[[policy]]
match = "a"
limits = { jobs = -1, byte = 3,
  bytes = "4Gi", age = "0s", block_for = "2h" }
when_full = "refuse"
fanoutonly = true
open = { max = 0 }
[[policy]]
limits.when_full = "drop"
expire_sweep = 0
sync = "soon"
alias = { a = 1 }
fanout_only = "yes"
open = 7
retries = { limit = 1001, backoff = "slow", base = "0s", jitter = 0.6, minimum = 1 }
[[policy]]
match = "b"
retries = "maybe"
ttr = "0s"
priority = -1
delay = "1500ms"
[[policy]]
match = "c"
ttr = "40000d"
pause = 7
"#;
    assert_eq!(
        messages(text),
        [
            "lineshaft.toml:3:19: policy.limits.jobs: `-1` is neither `none` nor a number from 0 on",
            "lineshaft.toml:3:23: policy: unknown key `limits.byte`; did you mean `limits.bytes`?",
            "lineshaft.toml:4:11: policy.limits.bytes: `4Gi` is not a size; write bytes, or a number with KiB, MiB, GiB or TiB",
            "lineshaft.toml:4:24: policy.limits.age: `0s` must be greater than zero; write `none` for no limit",
            "lineshaft.toml:4:42: policy.limits.block_for: `2h` is longer than an hour",
            "lineshaft.toml:5:1: policy: unknown key `when_full`; did you mean `limits.when_full`?",
            "lineshaft.toml:6:1: policy: unknown key `fanoutonly`; did you mean `fanout_only`?",
            "lineshaft.toml:7:16: policy.open.max: `0` is not a number from 1 to 1000000",
            "lineshaft.toml:9:20: policy.limits.when_full: `drop` is not `refuse`, `drop-oldest` or `block`",
            "lineshaft.toml:10:16: policy.expire_sweep: `0` is neither `none` nor a number from 1 to 4294967295",
            "lineshaft.toml:11:8: policy.sync: `soon` is not `always`, `never`, `memory` or a time such as `50ms`",
            "lineshaft.toml:12:9: policy.alias: cannot be of type table",
            "lineshaft.toml:13:15: policy.fanout_only: `yes` is neither `true` nor `false`",
            "lineshaft.toml:14:1: policy: `open` has keys of its own, such as `open.max`",
            "lineshaft.toml:15:21: policy.retries.limit: `1001` is not a number from 0 to 1000",
            "lineshaft.toml:15:37: policy.retries.backoff: `slow` is not `none`, `linear` or `exponential`",
            "lineshaft.toml:15:52: policy.retries.base: `0s` must be greater than zero; for no delay, use backoff = \"none\"",
            "lineshaft.toml:15:67: policy.retries.jitter: `0.6` is not a number from 0 to 0.5",
            "lineshaft.toml:15:72: policy: unknown key `retries.minimum`",
            "lineshaft.toml:8:1: policy: `match` is missing; it selects the queues, \"*\" is all",
            "lineshaft.toml:18:11: policy.retries: `maybe` is neither `on` nor `off`, nor a table such as { limit = 5 }",
            "lineshaft.toml:19:7: policy.ttr: `0s` must be greater than zero; write `none` for no ttr",
            "lineshaft.toml:20:12: policy.priority: `-1` is not a number from 0 to 4294967295",
            "lineshaft.toml:21:9: policy.delay: `1500ms` is not whole seconds",
            "lineshaft.toml:24:7: policy.ttr: `40000d` is longer than a hundred years",
            "lineshaft.toml:25:9: policy.pause: `7` is neither `true` nor `false`",
        ]
    );
}

#[test]
fn a_put_can_wait_for_room() {
    let text = "[[policy]]\nmatch = \"a\"\nlimits = { jobs = 1, when_full = \"block\", block_for = \"1m\" }\n";
    let policy = policy(text, "a");
    assert_eq!((policy.when_full, policy.block_for_ms), (WhenFull::Block, 60_000));
}

#[test]
fn a_name_that_stands_for_another_queue_has_its_policy() {
    let text = "[[policy]]\nmatch = \"mail\"\nlimits.jobs = 7\n\
                [[policy]]\nmatch = \"send_*\"\nsame_as = \"mail\"\nlimits.jobs = 1\n\
                [[policy]]\nmatch = \"send_own\"\nsame_as = \"none\"\n";
    let of = |queue| (policy(text, queue).same_as, policy(text, queue).jobs_max);
    assert_eq!(of("send_mail"), (Some(name("mail")), Some(7)));
    assert_eq!(of("send_own"), (None, Some(1)));
    let all = messages("[[policy]]\nmatch = \"*\"\nsame_as = \"mail\"\n");
    assert_eq!(all.len(), 1);
    let expected = "lineshaft.toml:3: policy.same_as: `mail` has a `same_as` itself; \
                    name the queue that it stands for, or set same_as = \"none\" in a later \
                    policy for `mail`";
    assert_eq!(all, [expected]);
}

#[test]
fn a_reservation_is_durable_or_volatile() {
    let text = |value: &str| format!("[[policy]]\nmatch = \"*\"\nreservation = {value}\n");
    assert!(policy(&text("\"durable\""), "q").durable_leases);
    assert!(!policy(&text("\"volatile\""), "q").durable_leases);
    let expected =
        "lineshaft.toml:3:15: policy.reservation: `always` is neither `durable` nor `volatile`";
    assert_eq!(messages(&text("\"always\"")), [expected]);
}

#[test]
fn a_history_can_be_switched_on_and_off() {
    let text = "[[policy]]\nmatch = \"*\"\nhistory = \"on\"\n[[policy]]\nmatch = \"a\"\n\
                history = \"off\"\n[[policy]]\nmatch = \"b\"\nhistory.body = \"full\"\n";
    let of = |queue| policy(text, queue).history;
    assert_eq!(of("x"), History { is_on: true, ..History::default() });
    assert!(!of("a").is_on);
    assert_eq!(of("b").body, KeptBody::Full);
    let mistakes = "[[policy]]\nmatch = \"*\"\n\
                    history = { keep = \"0s\", max = 0, body = \"prefix:0\" }\n\
                    [[policy]]\nmatch = \"b\"\nhistory = true\n";
    assert_eq!(
        messages(mistakes),
        [
            "lineshaft.toml:3:20: policy.history.keep: `0s` must be greater than zero; for no history, write `off`",
            "lineshaft.toml:3:32: policy.history.max: `0` is not a number from 1 to 1000000",
            "lineshaft.toml:3:42: policy.history.body: `prefix:0` is not `none`, `full` or a prefix such as `prefix:1024`",
            "lineshaft.toml:6:11: policy.history: `true` is neither `on` nor `off`, nor a table such as { keep = \"24h\" }",
        ]
    );
}

#[test]
fn unique_jobs_have_a_key_a_window_and_an_answer() {
    let text = r#"
[[policy]]
match = "*"
unique = { by = "json:/a b", window = "until-start", on_duplicate = "refuse", ignore_buried = true }
[[policy]]
match = "b"
unique = { by = "none", window = "1h", on_duplicate = "bump" }
"#;
    let unique = policy(text, "a").unique;
    assert_eq!(unique.by.map(|key| key.to_string()), Some("json:/a b".to_owned()));
    assert_eq!(
        (unique.window, unique.on_duplicate, unique.ignore_buried),
        (UniqueWindow::UntilStart, OnDuplicate::Refuse, true)
    );
    let unique = policy(text, "b").unique;
    assert_eq!(unique.by, None);
    let (hour, bump) = (UniqueWindow::For(3_600_000), OnDuplicate::Bump);
    assert_eq!((unique.window, unique.on_duplicate), (hour, bump));
    let replacing = "[[policy]]\nmatch = \"c\"\nunique.on_duplicate = \"replace-body\"\n";
    assert_eq!(policy(replacing, "c").unique.on_duplicate, OnDuplicate::ReplaceBody);
    let mistakes = r#"[[policy]]
match = "a"
unique = { by = "client", window = "0s", on_duplicate = "replace", ignore_buried = 1 }
[[policy]]
match = "b"
unique = { by = "json:a", window = "soon", on_duplicate = "skip" }
"#;
    assert_eq!(
        messages(mistakes),
        [
            "lineshaft.toml:3:17: policy.unique.by: `client` is no key for `unique`: it says nothing about the job",
            "lineshaft.toml:3:36: policy.unique.window: `0s` must be greater than zero",
            "lineshaft.toml:3:57: policy.unique.on_duplicate: `replace` is not `return-existing`, `refuse`, `bump` or `replace-body`",
            "lineshaft.toml:3:84: policy.unique.ignore_buried: `1` is neither `true` nor `false`",
            "lineshaft.toml:6:17: policy.unique.by: `a` is not a JSON pointer; write `/` before each name, such as `json:/user/id`, and at most 32 names",
            "lineshaft.toml:6:36: policy.unique.window: `soon` is neither `until-done`, `until-start` nor a time such as 1h",
            "lineshaft.toml:6:59: policy.unique.on_duplicate: `skip` is not `return-existing`, `refuse`, `bump` or `replace-body`",
        ]
    );
    assert_eq!(
        messages("[[policy]]\nmatch = \"a\"\nunique = \"body\"\n"),
        ["lineshaft.toml:3:1: policy: `unique` has keys of its own, such as `unique.by`"]
    );
}

#[test]
fn a_pause_by_a_schedule_is_read_as_a_whole() {
    let text = "[[policy]]\nmatch = \"*\"\npause = { cron = \"@weekly\", for = \"1h\", reason = \"x\" }\n\
                [[policy]]\nmatch = \"a\"\npause = true\n[[policy]]\nmatch = \"b\"\npause = false\n";
    let of = |queue| policy(text, queue).pause;
    let weekly = Some("@weekly".parse().unwrap());
    let (reason, length_ms) = (Some(name("x")), Some(3_600_000));
    let all =
        PausePolicy { is_on: true, reason, cron: weekly, length_ms, ..PausePolicy::default() };
    assert_eq!(of("c"), all);
    assert_eq!(of("a"), PausePolicy { is_on: true, ..PausePolicy::default() });
    assert_eq!(of("b"), PausePolicy::default());
    let mistakes = r#"[[policy]]
match = "a"
pause = { cron = "0 0 * *", for = "0s", tz = "Mars" }
[[policy]]
match = "b"
pause = { cron = "0 0 32 * *", for = "400d", tz = "none" }
[[policy]]
match = "c"
pause = { cron = "0 0 30 2 *" }
"#;
    assert_eq!(
        messages(mistakes),
        [
            "lineshaft.toml:3:18: policy.pause.cron: a cron expression has five fields: minute, hour, day of the month, month, day of the week",
            "lineshaft.toml:3:35: policy.pause.for: `0s` must be greater than zero",
            "lineshaft.toml:3:46: policy.pause.tz: `Mars` is not a time zone; write its name, such as \"Europe/Berlin\" or \"UTC\"",
            "lineshaft.toml:6:18: policy.pause.cron: `32` is not a day of the month: write numbers from 1 to 31, such as `*`, `1`, `1-31`, `*/2`, or a list",
            "lineshaft.toml:6:38: policy.pause.for: `400d` is longer than a year",
            "lineshaft.toml:6:51: policy.pause.tz: `none` is not a time zone; write its name, such as \"Europe/Berlin\" or \"UTC\"",
            "lineshaft.toml:9:18: policy.pause.cron: no day matches this cron expression",
        ]
    );
    let part = |keys: &str| messages(&format!("[[policy]]\nmatch = \"a\"\npause = {{ {keys} }}\n"));
    assert_eq!(
        part("for = \"1h\""),
        ["lineshaft.toml:3: policy.pause: a pause with a schedule needs `pause.cron`"]
    );
    assert_eq!(
        part("cron = \"@daily\""),
        ["lineshaft.toml:3: policy.pause: a pause with a schedule needs `pause.for`"]
    );
}

#[test]
fn a_match_has_patterns() {
    let expected = "match: write a pattern such as \"mail.*\", or a list of them";
    for value in ["[]", "\"\"", "[\"a\", \"\"]", "3", "[1]"] {
        let found = messages(&format!("[[policy]]\nmatch = {value}\n"));
        assert_eq!(found, [format!("lineshaft.toml:2:9: policy: {expected}")]);
    }
    for text in ["[policy]\nmatch = \"a\"\n", "policy = 3\n", "policy = [3]\n"] {
        let found = messages(text);
        assert!(
            found[0].contains(": policy: each policy begins with a line [[policy]]"),
            "{found:?}"
        );
    }
}

#[test]
fn policies_that_cannot_be_obeyed_are_refused_with_their_line() {
    let with = |pattern: &str, line: &str| format!("[[policy]]\nmatch = \"{pattern}\"\n{line}\n");
    let first = |text: &str| messages(text).remove(0);
    assert_eq!(
        first(&with("late", "expire_to = \"late\"")),
        "lineshaft.toml:3: policy.expire_to: jobs that expire in `late` would come back to it; \
         set expire_to = \"none\" in a later policy for `late`"
    );
    assert_eq!(
        first(&(with("a", "alias = \"b\"") + &with("b", "route.copy_to = [\"c\", \"a\"]"))),
        "lineshaft.toml:3: policy.alias: a put into `b` would come back to it"
    );
    let nine: Vec<String> = (0..9).map(|number| format!("\"q{number}\"")).collect();
    assert_eq!(
        first(&with("a", &format!("route.copy_to = [{}]", nine.join(",")))),
        "lineshaft.toml:3: policy.route.copy_to: at most 8 copies"
    );
    assert_eq!(
        first(&with("a*", "dead.queue = \"{name}\"")),
        "lineshaft.toml:3: policy.dead.queue: the dead letters of `{name}` would stay in it; write \"bury\""
    );
    assert_eq!(
        first("[[policy]]\nmatch = [\"x*\", \"a\"]\ndead = { keep = \"1d\", queue = \"a\" }\n"),
        "lineshaft.toml:3: policy.dead.queue: the dead letters of `a` would stay in it; write \"bury\""
    );
    assert_eq!(
        policy(&with("a*", "dead.queue = \"a\""), "ab").dead.target,
        DeadTarget::Queue(name("a"))
    );
    assert_eq!(
        first(&with("a", "rate = { per_second = 3, burst = 2, per_hour = 9 }")),
        "lineshaft.toml:3: policy.rate.per_hour: a policy has one rate; write per_second, per_minute or per_hour"
    );
    assert_eq!(
        first(&with("a", "rate = { per_second = 0 }")),
        "lineshaft.toml:3:23: policy.rate.per_second: `0` is neither `none` nor a number from 0.001 to 1000000"
    );
    assert_eq!(
        first(&with("a", "concurrency.limit = 0")),
        "lineshaft.toml:3:21: policy.concurrency.limit: `0` is neither `none` nor a number from 1 to 1000000"
    );
    assert_eq!(
        first(&with("a", "fair = { key = \"body\", weights = 3 }")),
        "lineshaft.toml:3:34: policy.fair.weights: write a table of numbers, such as { acme = 3 }"
    );
    assert_eq!(
        first(&with("a", "fair.weights = { acme = 0 }")),
        "lineshaft.toml:3:16: policy.fair.weights: `0` is not a number from 1 to 1000"
    );
    assert_eq!(
        first(&with("a", "fair = { key = \"body\" }\nrate.key = \"prefix:1\"")),
        "lineshaft.toml:4: policy.rate.key: a queue has one key for all its limits; write the same \
         key everywhere"
    );
    for value in ["1", "0/1m", "1/0s", "1/8d", "1001/1m", "-1/1m"] {
        let found = first(&with("a", &format!("aging = \"{value}\"")));
        let wanted =
            format!("lineshaft.toml:3:9: policy.aging: `{value}` is neither `off` nor such");
        assert!(found.starts_with(&wanted), "{found}");
    }
    assert_eq!(
        first(&with("a", "concurrency.order = \"strict\"")),
        "lineshaft.toml:3: policy.concurrency.order: a strict order needs a limit; add \
         `concurrency.limit = 1` to this policy"
    );
    assert_eq!(
        first(&with("a", "expire_to = \"\"")),
        "lineshaft.toml:3: policy.expire_to: a queue name has 1 to 8180 bytes"
    );
}

/// The output for operators shows each value with its line.
#[test]
fn shown_policies_name_their_lines_and_can_be_read_again() {
    let text = "[[policy]]\nmatch = [\"a\", \"b\"]\nlimits = { jobs = 3, bytes = \"510\" }\n\
                sync = \"50ms\"\n\n[[policy]]\nmatch = \"a+b\"\nexpire_to = \"x\"\n\
                alias = [\"y\", \"z\"]\nidle = \"none\"\n\n[[policy]]\nmatch = \"*\"\n\
                retries = { limit = 3, jitter = 0.25 }\n\n[[policy]]\nmatch = \"d\"\n\
                retries = \"off\"\n\n[[policy]]\nmatch = \"e\"\nretries = \"on\"\ndead = { queue = \"drop\", keep = \"none\" }\n\
                ttr = \"90s\"\npriority = 3\ndelay = \"2m\"\npause = true\n\
                [[policy]]\nmatch = \"f\"\npause = { reason = \"x\" }\n\
                [[policy]]\nmatch = \"i\"\npause = { cron = \"0 0 * * 6\", for = \"2d\", tz = \"Asia/Tokyo\" }\n\
                [[policy]]\nmatch = \"g\"\npause = false\nrate = { per_minute = 2.5, burst = 7 }\nconcurrency = { limit = 3, order = \"strict\" }\n\
                [[policy]]\nmatch = \"h\"\nrate.per_second = \"none\"\n\
                unique = { by = \"until::\", window = \"until-start\" }\n\
                [[policy]]\nmatch = \"k\"\nfair = { key = \"body\", weights = { \"a \\\"b\" = 2, c = 3 } }\naging = \"1/60s\"\n\
                [[policy]]\nmatch = \"l\"\nfair = { weights = {}, mode = \"in-flight\" }\naging = \"off\"\n\
                [[policy]]\nmatch = \"m\"\nhistory = \"on\"\nreservation = \"durable\"\n\
                [[policy]]\nmatch = \"j\"\nhistory = { body = \"full\" }\nresult.keep = \"90s\"\n";
    let (folder, sources) = Folder::with(text);
    let effective = sources.load().unwrap();
    let shown = effective.show().replace(&format!("{}/", folder.path().display()), "");
    for line in [
        "match = [\"a\", \"b\"]                       # lineshaft.toml:1",
        "limits.jobs = 3                          # lineshaft.toml:3",
        "idle = \"none\"                            # lineshaft.toml:10",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let without_lines = |rules: Rules| {
        let rules = rules.0.into_iter().map(|rule| (rule.patterns, rule.settings));
        let settings = |all: Vec<RuleSetting>| all.into_iter().map(|one| one.setting).collect();
        rules.map(|(patterns, all)| (patterns, settings(all))).collect::<Vec<(_, Vec<Setting>)>>()
    };
    assert_eq!(without_lines(rules(&shown)), without_lines(effective.config.policies.clone()));
    // Each setting alone, as the tools get it from the HTTP API.
    for asked in effective.config.policies.0.iter().flat_map(|rule| &rule.settings) {
        let value = super::show_value(&asked.setting);
        assert_eq!(super::parse_setting(asked.setting.key(), &value), Ok(asked.setting.clone()));
    }
    for (key, value) in [("limits.jbs", "1"), ("limits.jobs", "1]"), ("limits.jobs", "true")] {
        assert!(super::parse_setting(key, value).is_err(), "{key} = {value}");
    }

    let own = effective.show_policy(b"a+b").replace(&format!("{}/", folder.path().display()), "");
    let lines: Vec<&str> = own.lines().collect();
    assert_eq!(lines.len(), 59);
    assert_eq!(lines[0], "limits.jobs = 3                          # lineshaft.toml:3");
    assert_eq!(lines[6], "expire_to = \"x\"                          # lineshaft.toml:8");
    assert_eq!(lines[9], "open.max = 100                           # default");
    let sync = |name: &[u8]| {
        let shown = effective.show_policy(name);
        shown.lines().find(|line| line.starts_with("sync = ")).unwrap().to_owned()
    };
    let own = "sync = \"50ms\"                            # lineshaft.toml:4";
    assert_eq!(sync(b"a").replace(&format!("{}/", folder.path().display()), ""), own);
    let usual = "sync = \"always\"                          # default: as data.sync, default";
    assert_eq!(sync(b"c"), usual);
}

#[test]
fn a_table_turns_retries_on_and_a_later_rule_can_turn_them_off() {
    let text = "[[policy]]\nmatch = \"*\"\nretries.base = \"1s\"\n[[policy]]\nmatch = \"a\"\n\
                retries = \"off\"\n[[policy]]\nmatch = \"b*\"\nretries = { limit = 0 }\n";
    let of = |queue| policy(text, queue).retries;
    let general = Retries { is_on: true, base_ms: 1000, ..Retries::default() };
    assert_eq!(of("c"), general);
    assert_eq!(of("a"), Retries { is_on: false, ..general.clone() });
    assert_eq!(of("b"), Retries { limit: 0, ..general });
    let text = "[[policy]]\nmatch = \"*\"\nretries = { base = \"2h\", max = \"1h\" }\n";
    assert_eq!(
        messages(text),
        ["lineshaft.toml:3: policy.retries.base: it is longer than `retries.max`"]
    );
}

/// All code blocks of a page that are marked as TOML.
fn blocks(page: &str) -> Vec<&str> {
    let begins = page.split("```toml\n").skip(1);
    begins.map(|block| block.split_once("```").expect("the block has an end").0).collect()
}

#[test]
fn the_pages_examples_can_be_read() {
    for page in [
        include_str!("../../../../../docs/policies.md"),
        include_str!("../../../../../docs/configuration.md"),
    ] {
        let blocks = blocks(page);
        assert!(blocks.len() >= 2);
        for block in blocks {
            rules(block);
        }
    }
    let whole = blocks(include_str!("../../../../../docs/configuration.md"))[0];
    let (_folder, sources) = Folder::with(whole);
    let config = sources.load().unwrap().config;
    let io_threads = config.io_threads;
    assert_eq!(config, Config { io_threads, ..Config::default() });
}

/// The page shows a configuration of Kestrel, and its translation. Both must mean the same.
#[test]
fn a_translated_kestrel_configuration_means_the_same() {
    let page = include_str!("../../../../../docs/policies.md");
    let (_, translation) = page.split_once("<!-- translation -->").expect("it is there");
    let (_folder, sources) = Folder::with(blocks(translation)[0]);
    let effective = sources.load().unwrap();
    assert_eq!(effective.config.kestrel.refuse_reads_above, Some(9500));
    let general =
        Policy { item_bytes_max: Some(1 << 20), memory_max: Some(128 << 20), ..Policy::default() };
    let of = |queue: &str| {
        let parent = broker::policy::parent_name(queue.as_bytes());
        effective.config.policies.resolve(queue.as_bytes(), parent)
    };
    assert_eq!(of("any"), general);
    assert_eq!(effective.config.data.sync.to_string(), "100ms");
    let (open_timeout_ms, sync) = (Some(300_000), Some(QueueSync::Always));
    assert_eq!(of("orders"), Policy { open_timeout_ms, sync, ..general.clone() });
    let mail = Policy {
        jobs_max: Some(1_500_000),
        age_max_ms: Some(3 * 86_400_000),
        expire_to: Some(name("mail_late")),
        expire_sweep: Some(1000),
        ..general.clone()
    };
    assert_eq!(of("mail"), mail);
    let clicks = Policy { bytes_max: Some(4 << 30), ..general.clone() };
    assert_eq!(of("clicks"), Policy { fanout_only: true, ..clicks.clone() });
    assert_eq!(of("clicks+archive"), Policy { memory_max: Some(32 << 20), ..clicks.clone() });
    let live = Policy {
        jobs_max: Some(20_000),
        age_max_ms: Some(30_000),
        when_full: WhenFull::DropOldest,
        sync: Some(QueueSync::Memory),
        ..clicks
    };
    assert_eq!(of("clicks+live"), live);
    assert_eq!(of("alerts").alias, names(&["mail", "ops"]));
}

#[test]
fn a_key_is_an_expression_or_none() {
    let read = |text: &str| key(text).map(|key| key.map(|key| key.to_string()));
    assert_eq!(read("json:/tenant"), Ok(Some("json:/tenant".to_owned())));
    assert_eq!(read("none"), Ok(None));
    let error = read("prefix:0").expect_err("it has no bytes");
    assert_eq!(error, "`0` is not a length; write a number from 1 to 4096");
}

//! Pairs of policies on one queue, with an unmodified client of each protocol. The table of all pairs
//! is in docs/reliability.md, and the scripts are in `tests/clients/policies`.

use crate::dead_letters::check;

const POLICIES: &str = r#"
[[policy]]
match = "retried"
rate = { per_second = 2, burst = 1 }
retries = { limit = 9, backoff = "none" }

[[policy]]
match = ["full", "full_retried"]
limits.jobs = 1

[[policy]]
match = "full_retried"
retries = { limit = 9, backoff = "none" }

[[policy]]
match = "once"
unique = { by = "body" }
retries = { limit = 0 }
dead = { queue = "dead" }

[[policy]]
match = "front"
rate = { per_second = 2, burst = 1 }
concurrency = { limit = 1 }
retries = { limit = 0 }
dead = { queue = "dead" }

[[policy]]
match = "ordered"
concurrency = { limit = 1, key = "until:-", order = "strict" }
retries = { limit = 0 }
dead = { queue = "dead" }

[[policy]]
match = "shared"
fair = { key = "until:-" }

[[policy]]
match = "parent"
concurrency = { limit = 1 }
retries = { limit = 0 }
dead = { queue = "dead" }

[[policy]]
match = "parent+wide"
concurrency = { limit = 2 }
"#;

#[test]
fn greenstalk() {
    check(POLICIES, "beanstalk", "greenstalk_pairs.py");
}

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_pairs.py");
}

#[test]
fn pymemcache() {
    check(POLICIES, "kestrel", "pymemcache_pairs.py");
}

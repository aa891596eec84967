//! Policies for what clients do not send (`ttr`, `priority`, `delay`), with an unmodified client of
//! each protocol. The scripts are in `tests/clients/policies`.

use crate::dead_letters::check;

const POLICIES: &str = r#"
[[policy]]
match = "urgent"
priority = 100

[[policy]]
match = "later"
delay = "1s"

[[policy]]
match = "short"
ttr = "1s"
"#;

#[test]
fn greenstalk() {
    check(POLICIES, "beanstalk", "greenstalk_defaults.py");
}

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_defaults.py");
}

#[test]
fn pymemcache() {
    check(POLICIES, "kestrel", "pymemcache_defaults.py");
}

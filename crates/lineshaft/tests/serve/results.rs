//! Kept results of Gearman jobs, as docs/policies.md describes them, with an unmodified client. The
//! script is in `tests/clients/policies`.

use crate::dead_letters::check;

const POLICIES: &str = r#"
[[policy]]
match = "resize"
unique = { by = "gm:unique", window = "1h" }
result.keep = "1h"
"#;

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_results.py");
}

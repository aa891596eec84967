//! Checks sources: headers, sizes, leftovers, and quirks without a conformance case.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::{Report, Tree};

/// A longer file must be split.
const LINES_MAX: usize = 800;
/// A longer file gets a remark.
const LINES_WORTH_A_LOOK: usize = 400;

/// Leftovers that must not be committed. They are written in two pieces, so that this file does not
/// contain them.
const LEFTOVERS: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    let cases = case_names(tree)?;
    for (path, text) in tree.ending(".rs") {
        if !text.starts_with("//!") {
            report.complain(path, 1, "begin with `//!`: what this file is responsible for");
        }
        check_size(path, text, report);
        check_unwraps(path, text, report);
        check_sleeps(path, text, report);
        for (index, line) in text.lines().enumerate() {
            if let Some(leftover) = LEFTOVERS.iter().find(|leftover| line.contains(*leftover)) {
                report.complain(path, index + 1, format!("finish it or drop it: `{leftover}`"));
            }
        }
        let folder = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
        if folder.is_some_and(|dialect| tree.has(&format!("corpus/{dialect}"))) {
            check_quirks(path, text, &cases, report);
        }
    }
    for (path, text) in tree.files() {
        if text.starts_with("#!/usr/bin/env bash") && !text.contains("\nset -euo pipefail\n") {
            report.complain(path, 1, "a script says `set -euo pipefail` before it does anything");
        }
    }
    Ok(())
}

fn check_size(path: &str, text: &str, report: &mut Report) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        report.complain(path, lines, format!("more than {LINES_MAX} lines; split it by duty"));
    } else if lines > LINES_WORTH_A_LOOK {
        report.remarks.push(format!("{path} has {lines} lines"));
    }
}

/// Checks for `unwrap` outside of tests. Clippy checks this, too, but only in code that it compiles
/// on this machine.
fn check_unwraps(path: &str, text: &str, report: &mut Report) {
    if is_test_file(path) {
        return;
    }
    let product = text.lines().take_while(|line| !line.contains("#[cfg(test)]"));
    for (index, line) in product.enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if code.contains(concat!(".unwrap", "()")) {
            let what = "no unwrap outside tests; `expect` says why it cannot fail";
            report.complain(path, index + 1, what);
        }
    }
}

/// Whether this file contains only tests, examples or fuzz targets.
fn is_test_file(path: &str) -> bool {
    ["/tests/", "/examples/", "/fuzz_targets/"].iter().any(|folder| path.contains(folder))
        || path.ends_with("_tests.rs")
        || path.ends_with("/tests.rs")
}

/// Checks that tests do not sleep. A test that sleeps is slow, and fails on a busy machine. Tests
/// wait with one helper, `testkit::wait`. A test that cannot use the helper has `// Sleeps: why` on
/// the line before the sleep.
fn check_sleeps(path: &str, text: &str, report: &mut Report) {
    if path == "crates/testkit/src/wait.rs" {
        return;
    }
    let is_example = path.contains("/examples/");
    let mut in_test = (is_test_file(path) && !is_example) || path.starts_with("crates/testkit/");
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        in_test |= line.contains("#[cfg(test)]");
        let code = line.split("//").next().unwrap_or_default();
        let sleeps =
            code.contains("thread::") && words_of(code).any(|word| word == concat!("sl", "eep"));
        let why = before.trim_start().strip_prefix("// Sleeps: ").unwrap_or_default();
        if in_test && sleeps && why.is_empty() {
            let what = "a test waits for a condition, by testkit::wait, instead of sleeping";
            report.complain(path, index + 1, what);
        }
        before = line;
    }
}

fn words_of(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

/// The names of all conformance cases.
fn case_names(tree: &Tree) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (path, text) in tree.ending(".jsonl").filter(|(path, _)| path.starts_with("corpus/")) {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let case: serde_json::Value = serde_json::from_str(line)
                .with_context(|| format!("{path}:{}: not JSON", index + 1))?;
            if let Some(name) = case["name"].as_str() {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names)
}

/// Checks that the comment of a quirk names existing conformance cases.
fn check_quirks(path: &str, text: &str, cases: &BTreeSet<String>, report: &mut Report) {
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if !line.trim_start().starts_with("//") || !line.contains(concat!("COM", "PAT(")) {
            continue;
        }
        let comment: Vec<&str> = lines[index..]
            .iter()
            .map(|line| line.trim_start())
            .take_while(|line| line.starts_with("//"))
            .collect();
        let comment = comment.join(" ");
        let mut words =
            comment.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        if !words.any(|word| cases.contains(word)) {
            let what = "a quirk names the case in corpus/ that pins it; this one names none";
            report.complain(path, index + 1, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        let tree = Tree::of(&[(path, text), ("corpus/x/cases.jsonl", "{\"name\": \"a-case\"}\n")]);
        check(&tree, &mut report).expect("the cases are valid");
        report.complaints
    }

    #[test]
    fn headers_sizes_and_leftovers() {
        assert!(complaints("a.rs", "//! Duty.\n").is_empty());
        assert_eq!(complaints("a.rs", "fn main() {}\n").len(), 1);
        assert_eq!(complaints("a.rs", &format!("//! Duty.\n{}", "\n".repeat(800))).len(), 1);
        assert_eq!(complaints("a.rs", concat!("//! Duty.\n// TO", "DO more\n")).len(), 1);
    }

    #[test]
    fn unwraps_are_for_tests() {
        let product = concat!("//! Duty.\nfn a() { b().unwrap", "(); }\n");
        assert_eq!(complaints("crates/a/src/a.rs", product).len(), 1);
        assert!(complaints("crates/a/tests/a.rs", product).is_empty());
        let test = concat!("//! Duty.\n#[cfg(test)]\nmod tests { fn a() { b().unwrap", "(); } }\n");
        assert!(complaints("crates/a/src/a.rs", test).is_empty());
    }

    #[test]
    fn tests_do_not_sleep() {
        let asleep = "//! Duty.\nfn a() { std::thread::sleep(TIME); }\n";
        let imported = "//! Duty.\nuse std::thread::{scope, sleep};\n";
        let in_test = "//! Duty.\n#[cfg(test)]\nmod tests { use std::thread::sleep; }\n";
        for path in ["crates/a/tests/a.rs", "crates/a/src/a_tests.rs", "crates/testkit/src/a.rs"] {
            assert_eq!(complaints(path, asleep).len(), 1, "{path}");
            assert_eq!(complaints(path, imported).len(), 1, "{path}");
        }
        assert_eq!(complaints("crates/a/src/a.rs", in_test).len(), 1);
        assert!(complaints("crates/a/src/a.rs", asleep).is_empty());
        assert!(complaints("crates/testkit/src/wait.rs", asleep).is_empty());
        let why = "//! Duty.\n// Sleeps: it has to.\nfn a() { std::thread::sleep(TIME); }\n";
        assert!(complaints("crates/a/tests/a.rs", why).is_empty());
        let no_why = "//! Duty.\n// Sleeps: \nfn a() { std::thread::sleep(TIME); }\n";
        assert_eq!(complaints("crates/a/tests/a.rs", no_why).len(), 1);
    }

    #[test]
    fn quirks_name_their_case() {
        let quirk = |name| {
            format!("//! Duty.\n// {}beanstalkd): why; case\n// {name}.\n", concat!("COM", "PAT("))
        };
        assert!(complaints("crates/x/src/a.rs", &quirk("a-case")).is_empty());
        assert_eq!(complaints("crates/x/src/a.rs", &quirk("no-case")).len(), 1);
        assert!(complaints("crates/without-cases/src/a.rs", &quirk("no-case")).is_empty());
    }

    #[test]
    fn scripts_stop_at_errors() {
        assert_eq!(complaints("run", "#!/usr/bin/env bash\necho\n").len(), 1);
        assert!(complaints("run", "#!/usr/bin/env bash\nset -euo pipefail\necho\n").is_empty());
    }
}

//! Checks manifests: the direction of dependencies between crates, and the source of external
//! dependencies.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use super::{Report, Tree};

/// The crates of this repository that each crate can name in `[dependencies]`. There is no rule for
/// development dependencies.
const LAYERS: [(&str, &[&str]); 25] = [
    ("histogram", &[]),
    ("replica", &[]),
    ("nats", &["operator-file", "replica"]),
    ("engine", &["histogram"]),
    ("log", &["histogram"]),
    ("broker", &["engine", "histogram", "log", "replica"]),
    ("beanstalk", &["broker"]),
    ("origin", &[]),
    ("notation", &[]),
    ("operator-file", &["notation"]),
    ("gearman", &["broker", "origin"]),
    ("kestrel", &["broker"]),
    ("http", &["broker", "histogram", "origin"]),
    ("kestrel-admin", &["broker", "http", "origin"]),
    ("job-history", &["broker", "histogram"]),
    ("api", &["broker", "histogram", "http", "job-history", "notation", "operator-file", "origin"]),
    ("console", &["api", "broker", "http", "notation", "origin"]),
    (
        "server",
        &[
            "api",
            "console",
            "beanstalk",
            "gearman",
            "kestrel",
            "kestrel-admin",
            "histogram",
            "http",
            "origin",
            "notation",
            "operator-file",
            "broker",
            "log",
            "nats",
            "replica",
        ],
    ),
    (
        "lineshaft",
        &[
            "server",
            "api",
            "notation",
            "operator-file",
            "broker",
            "log",
            "bench",
            "import",
            "nats",
            "replica",
        ],
    ),
    ("import", &["operator-file"]),
    ("bench", &["notation"]),
    ("testkit", &["broker"]),
    ("counts", &["beanstalk", "gearman", "kestrel", "broker", "log"]),
    ("interleavings", &[]),
    ("sim", &["beanstalk", "gearman", "kestrel", "broker", "engine", "log", "replica", "testkit"]),
];

/// Crates that use no clock, threads, sockets, files or randomness. The same inputs give the same
/// outputs.
const PURE: [&str; 8] =
    ["histogram", "replica", "engine", "beanstalk", "gearman", "kestrel", "origin", "notation"];

/// Crates that a pure crate must not use, not even in tests.
const IMPURE: [&str; 11] = [
    "fastrand",
    "getrandom",
    "libc",
    "listenfd",
    "mio",
    "nix",
    "rand",
    "rustix",
    "signal-hook",
    "socket2",
    "tokio",
];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    check_reasons(tree, report)?;
    check_lock_file(tree, report)?;
    let crates = tree.crates();
    let known: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for name in &crates {
        if !known.contains(name) {
            report.complain("xtask/src/tidy/manifests.rs", 1, format!("LAYERS lacks `{name}`"));
        }
    }
    for name in crates {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = parse(tree, &path)?;
        check_crate(name, &path, &manifest, report);
        if PURE.contains(&name) && !tree.has(&format!("crates/{name}/clippy.toml")) {
            let what = "a pure crate needs a clippy.toml that forbids clocks, threads and files";
            report.complain(&path, 1, what);
        }
    }
    Ok(())
}

fn parse(tree: &Tree, path: &str) -> Result<Table> {
    tree.text(path)?.parse().with_context(|| path.to_owned())
}

fn check_crate(name: &str, path: &str, manifest: &Table, report: &mut Report) {
    let allowed = LAYERS.iter().find(|(layer, _)| *layer == name).map_or(&[][..], |(_, all)| all);
    for dependency in keys(manifest, "dependencies") {
        // The library of our crate `http` has another name, because `http` is also a well-known
        // crate.
        let dependency = if dependency == "http_api" { "http" } else { dependency };
        let in_house = LAYERS.iter().any(|(layer, _)| *layer == dependency);
        if in_house && !allowed.contains(&dependency) {
            let what = format!("`{name}` must not know `{dependency}`; see ARCHITECTURE.md");
            report.complain(path, 1, what);
        }
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for dependency in keys(manifest, section) {
            if PURE.contains(&name) && IMPURE.contains(&dependency) {
                report.complain(path, 1, format!("`{name}` is pure, `{dependency}` is not"));
            }
            let value = &manifest[section][dependency];
            let from_workspace = value.get("workspace").and_then(Value::as_bool) == Some(true);
            if !from_workspace && value.get("path").is_none() {
                let what = "belongs into [workspace.dependencies], with a reason";
                report.complain(path, 1, format!("the version of `{dependency}` {what}"));
            }
        }
    }
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    if lints.and_then(Value::as_bool) != Some(true) {
        report.complain(path, 1, "[lints] must say `workspace = true`");
    }
    if manifest["package"].get("description").is_none() {
        report.complain(path, 1, "[package] needs a description");
    }
}

fn keys<'a>(manifest: &'a Table, section: &str) -> Vec<&'a str> {
    let table = manifest.get(section).and_then(Value::as_table);
    table.map_or_else(Vec::new, |table| table.keys().map(String::as_str).collect())
}

/// Checks that a comment with the reason comes before every dependency of the workspace. Several
/// dependencies can share a comment.
fn check_reasons(tree: &Tree, report: &mut Report) -> Result<()> {
    let text = tree.text("Cargo.toml")?;
    let mut inside = false;
    let mut has_reason = false;
    let mut seen = 0;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
            has_reason = false;
        } else if inside && line.starts_with('#') {
            has_reason = true;
        } else if inside && line.trim().is_empty() {
            has_reason = false;
        } else if inside {
            seen += 1;
            if !has_reason {
                let what = "say in a comment above why this dependency is there";
                report.complain("Cargo.toml", index + 1, what);
            }
        }
    }
    ensure!(seen > 0, "Cargo.toml has no [workspace.dependencies]");
    Ok(())
}

/// Checks that all packages come from the public registry, even if a machine uses a mirror.
fn check_lock_file(tree: &Tree, report: &mut Report) -> Result<()> {
    const ONLY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for (index, line) in tree.text("Cargo.lock")?.lines().enumerate() {
        if line.starts_with("source = ") && line != ONLY {
            report.complain("Cargo.lock", index + 1, "comes from elsewhere than crates.io");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, manifest: &str) -> Vec<String> {
        let mut report = Report::default();
        let manifest = format!(
            "[package]\ndescription = \"d\"\n[lints]\nworkspace = true\n[dependencies]\n{manifest}"
        );
        check_crate(name, "Cargo.toml", &manifest.parse().expect("valid TOML"), &mut report);
        report.complaints
    }

    #[test]
    fn dependencies_point_down() {
        assert!(complaints("broker", "engine.workspace = true").is_empty());
        assert_eq!(complaints("engine", "log.workspace = true").len(), 1);
        assert_eq!(complaints("beanstalk", "engine.workspace = true").len(), 1);
        assert_eq!(complaints("broker", "server.workspace = true").len(), 1);
    }

    #[test]
    fn pure_crates_stay_pure() {
        assert_eq!(complaints("engine", "tokio.workspace = true").len(), 1);
        assert!(complaints("server", "tokio.workspace = true").is_empty());
    }

    #[test]
    fn versions_live_in_the_workspace() {
        assert_eq!(complaints("server", "tokio = \"1\"").len(), 1);
        assert!(complaints("log", "log = { path = \".\" }").iter().any(|c| c.contains("know")));
    }

    #[test]
    fn a_dependency_needs_a_reason() {
        let mut report = Report::default();
        let text = "[workspace.dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n\nc = \"1\"\n";
        let tree = Tree::of(&[("Cargo.toml", text)]);
        check_reasons(&tree, &mut report).expect("the section is there");
        assert_eq!(report.complaints.len(), 1);
        assert!(report.complaints[0].starts_with("Cargo.toml:6:"));
    }
}

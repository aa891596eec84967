//! Tidy checks: rules of this repository that no compiler or lint can check.
//!
//! Each check reads texts of the repository and adds complaints. A complaint names file and line,
//! the problem, and how to fix it. The same checks run as `cargo xtask tidy` and as a test.

mod documents;
mod manifests;
mod prose;
mod sources;
mod tree;
mod words;

pub(crate) use tree::Tree;

/// What the checks found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Violations of rules.
    pub(crate) complaints: Vec<String>,
    /// Possible problems, which do not count as failures.
    pub(crate) remarks: Vec<String>,
}

impl Report {
    fn complain(&mut self, path: &str, line: usize, what: impl std::fmt::Display) {
        self.complaints.push(format!("{path}:{line}: {what}"));
    }
}

/// Runs all checks. An error means that a check could not run, because a file is missing or broken.
pub(crate) fn check(tree: &Tree) -> anyhow::Result<Report> {
    let mut report = Report::default();
    manifests::check(tree, &mut report)?;
    sources::check(tree, &mut report)?;
    documents::check(tree, &mut report)?;
    prose::check(tree, &mut report);
    words::check(tree, &mut report);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let tree = Tree::read(&crate::root()).expect("the repository is readable");
        let report = check(&tree).expect("the checks have what they look at");
        let complaints = report.complaints.join("\n");
        assert!(complaints.is_empty(), "untidy:\n{complaints}");
    }
}

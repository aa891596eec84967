//! The repository's text files in memory. With this tree, a check only reads texts, and a test can
//! check any texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders of built or fetched files, at any depth.
const FOREIGN: [&str; 6] =
    [".git", "target", "lineshaft-data", "node_modules", "__pycache__", ".venv"];

/// All text files below the root, by path with `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    /// Paths of files that are not text. Checks can only see that these files exist.
    others: Vec<String>,
}

impl Tree {
    /// Reads the tree below `root`.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "").with_context(|| format!("cannot read {}", root.display()))?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !FOREIGN.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).with_context(|| path.clone())?;
                match String::from_utf8(bytes) {
                    Ok(text) => drop(self.files.insert(path, text)),
                    Err(_) => self.others.push(path),
                }
            }
        }
        Ok(())
    }

    /// Paths and texts of all text files, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text files whose path has this ending.
    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }

    /// The text of a required file.
    pub(crate) fn text(&self, path: &str) -> Result<&str> {
        self.files.get(path).map(String::as_str).with_context(|| format!("{path} is missing"))
    }

    /// Whether there is a file or folder of this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.others.iter().any(|other| other == path || other.starts_with(&folder))
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// The folders of the crates below `crates/`, by name.
    pub(crate) fn crates(&self) -> Vec<&str> {
        let manifests = self.files.keys().filter_map(|path| path.strip_prefix("crates/"));
        manifests
            .filter_map(|path| path.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let owned = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Tree { files: owned.collect(), others: Vec::new() }
    }
}

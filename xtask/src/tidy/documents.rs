//! Checks documents. Links must have targets, translated pages must have the content of the English
//! ones, and ARCHITECTURE.md must name every crate and only existing files.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::{Report, Tree};

/// The limit of lines in ARCHITECTURE.md, so that it can be read at once.
const MAP_LINES_MAX: usize = 450;

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (path, text) in tree.ending(".md") {
        check_links(tree, path, text, report);
    }
    check_twins(tree, report)?;
    check_map(tree, report)?;
    check_guide(tree, report)?;
    check_promises(tree, report)?;
    check_settings(tree, report)
}

/// Lines outside of fenced code, with their numbers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// Targets of `[text](target)`, with their line.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push((number, &rest[..end]));
            }
        }
    }
    found
}

fn check_links(tree: &Tree, path: &str, text: &str, report: &mut Report) {
    for (line, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
        if !tree.has(&file) {
            report.complain(path, line, format!("the link leads nowhere: {target}"));
        } else if !anchor.is_empty()
            && let Ok(text) = tree.text(&file)
            && !anchors(text).contains(anchor)
        {
            report.complain(path, line, format!("{file} has no heading for #{anchor}"));
        }
    }
}

/// A link's target as a path from the root.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn headings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).filter_map(|(_, line)| {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let title = line[level..].strip_prefix(' ')?;
        (level > 0).then_some((level, title.trim()))
    })
}

/// The anchors of all headings. An anchor has lower case, dashes for blanks, and no punctuation.
fn anchors(text: &str) -> BTreeSet<String> {
    let slug = |title: &str| -> String {
        let letters = title.chars().flat_map(char::to_lowercase);
        letters
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    headings(text).map(|(_, title)| slug(title)).collect()
}

/// Checks that each translated page has the sections and the commands of the English page. The
/// first pages of the guide are lists of pages, which differ.
fn check_twins(tree: &Tree, report: &mut Report) -> Result<()> {
    const TRANSLATIONS: &str = "docs/zh-CN/";
    check_pair(tree, ["README.md", "README.zh-CN.md"], report)?;
    for (path, _) in tree.ending(".md") {
        let Some(name) = path.strip_prefix(TRANSLATIONS) else { continue };
        let english = format!("docs/{name}");
        if name != "README.md" && tree.has(&english) {
            check_pair(tree, [&english, path], report)?;
        }
    }
    Ok(())
}

fn check_pair(tree: &Tree, twins: [&str; 2], report: &mut Report) -> Result<()> {
    let [one, other] = [tree.text(twins[0])?, tree.text(twins[1])?];
    let levels = |text| headings(text).map(|(level, _)| level).collect::<Vec<_>>();
    if levels(one) != levels(other) {
        report.complain(twins[1], 1, format!("its sections are not those of {}", twins[0]));
    }
    let (one, other) = (code(one), code(other));
    if let Some((line, text)) = other.iter().find(|(_, text)| !has_text(&one, text)) {
        report.complain(twins[1], *line, format!("{} has no such code line: {text}", twins[0]));
    }
    if let Some((line, text)) = one.iter().find(|(_, text)| !has_text(&other, text)) {
        report.complain(twins[0], *line, format!("{} has no such code line: {text}", twins[1]));
    }
    Ok(())
}

fn has_text(lines: &[(usize, String)], text: &str) -> bool {
    lines.iter().any(|(_, line)| line == text)
}

/// Lines of fenced code with their numbers. Comments are left out, because they are translated.
fn code(text: &str) -> Vec<(usize, String)> {
    let outside: BTreeSet<usize> = prose(text).map(|(number, _)| number).collect();
    let inside = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    inside
        .filter(|(number, line)| !outside.contains(number) && !line.trim_start().starts_with("```"))
        .map(|(number, line)| (number, without_comment(line).trim().to_owned()))
        .filter(|(_, line)| !line.is_empty())
        .collect()
}

fn without_comment(line: &str) -> &str {
    let starts = ["# ", "// "].iter().filter_map(|mark| {
        if line.trim_start().starts_with(mark) { Some(0) } else { line.find(&format!(" {mark}")) }
    });
    starts.min().map_or(line, |at| &line[..at])
}

/// Checks that ARCHITECTURE.md names every crate, names only existing files, and stays short.
fn check_map(tree: &Tree, report: &mut Report) -> Result<()> {
    const MAP: &str = "ARCHITECTURE.md";
    let map = tree.text(MAP)?;
    let lines = map.lines().count();
    if lines > MAP_LINES_MAX {
        report.complain(MAP, lines, format!("a map of more than {MAP_LINES_MAX} lines"));
    }
    for name in tree.crates() {
        if !map.contains(&format!("`crates/{name}`")) {
            report.complain(MAP, 1, format!("does not tell of `crates/{name}`"));
        }
    }
    for (number, line) in prose(map) {
        for name in
            line.split('`').skip(1).step_by(2).filter(|text| text.strip_suffix(".rs").is_some())
        {
            let end = format!("/{name}");
            if !tree.ending(".rs").any(|(path, _)| path.ends_with(&end)) {
                report.complain(MAP, number, format!("there is no file `{name}`"));
            }
        }
    }
    Ok(())
}

/// Checks that the first page of the guide in each language links to every page in this language,
/// and that the contents of the book have every page.
fn check_guide(tree: &Tree, report: &mut Report) -> Result<()> {
    const CONTENTS: &str = "docs/SUMMARY.md";
    const FIRST_PAGES: [&str; 2] = ["docs/zh-CN/README.md", "docs/README.md"];
    for list in [CONTENTS].into_iter().chain(FIRST_PAGES) {
        let linked: BTreeSet<String> = links(tree.text(list)?)
            .into_iter()
            .map(|(_, target)| resolve(list, target.split('#').next().unwrap_or(target)))
            .collect();
        for (path, _) in tree.ending(".md").filter(|(path, _)| path.starts_with("docs/")) {
            let first = FIRST_PAGES.into_iter().find(|first| {
                let folder = first.trim_end_matches("README.md");
                path.starts_with(folder)
            });
            let is_listed = list == CONTENTS || Some(list) == first;
            if is_listed && ![CONTENTS, list].contains(&path) && !linked.contains(path) {
                report.complain(path, 1, format!("{list} does not link to this page"));
            }
        }
    }
    Ok(())
}

/// Checks that the tests that the reliability page names exist.
fn check_promises(tree: &Tree, report: &mut Report) -> Result<()> {
    const PAGE: &str = "docs/reliability.md";
    for (number, line) in prose(tree.text(PAGE)?) {
        let quoted = line.split('`').skip(1).step_by(2);
        let is_name =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        for name in quoted.filter(|text| text.contains('_') && is_name(text)) {
            let definition = format!("fn {name}(");
            if !tree.ending(".rs").any(|(_, text)| text.contains(&definition)) {
                report.complain(PAGE, number, format!("there is no test `{name}`"));
            }
        }
    }
    Ok(())
}

/// Checks that the guide explains every setting of the server, and that its whole file has all.
fn check_settings(tree: &Tree, report: &mut Report) -> Result<()> {
    const PAGE: &str = "docs/configuration.md";
    const SOURCES: [&str; 2] =
        ["crates/server/src/config/settings.rs", "crates/server/src/config/cluster.rs"];
    let page = tree.text(PAGE)?;
    let whole = keys_of_whole_file(page);
    let sources = SOURCES.map(|source| tree.text(source));
    let sources: Vec<&str> = sources.into_iter().collect::<Result<_>>()?;
    let keys = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let line = line.trim();
        let is_row = line.starts_with("key: \"") || line.starts_with("addresses::<");
        line.split('"').nth(1).filter(|_| is_row)
    });
    let mut count = 0;
    for key in keys {
        count += 1;
        if !page.contains(&format!("`{key}`")) {
            report.complain(PAGE, 1, format!("does not explain `{key}`"));
        }
        if !whole.contains(key) {
            report.complain(PAGE, 1, format!("the whole file lacks `{key}`"));
        }
    }
    ensure!(count > 0, "no source has keys; the check of {PAGE} looks in the wrong place");
    Ok(())
}

/// The keys in the first configuration file of a page, with their sections.
fn keys_of_whole_file(page: &str) -> BTreeSet<String> {
    let file = page.lines().skip_while(|line| *line != "```toml").skip(1);
    let mut section = "";
    let mut keys = BTreeSet::new();
    for line in file.take_while(|line| *line != "```") {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.split_once(" = ") {
            let key = key.trim();
            keys.insert(if section.is_empty() {
                key.to_owned()
            } else {
                format!("{section}.{key}")
            });
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_complaints(text: &str) -> usize {
        let mut report = Report::default();
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", "# One `two`, three\n")]);
        check_links(&tree, "docs/a.md", text, &mut report);
        report.complaints.len()
    }

    #[test]
    fn links_are_followed() {
        assert_eq!(
            link_complaints("[b](b.md) [b](../docs/b.md#one-two-three) [w](https://a.b)"),
            0
        );
        assert_eq!(link_complaints("[c](c.md)"), 1);
        assert_eq!(link_complaints("[b](b.md#four)"), 1);
        assert_eq!(link_complaints("```\n[c](c.md)\n```\n"), 0);
    }

    #[test]
    fn the_whole_file_has_every_setting() {
        let complaints = |file: &str| {
            let mut report = Report::default();
            let page = format!("`one` `a.two`\n```toml\n{file}```\n```toml\n[a]\ntwo = 2\n```\n");
            let source = "key: \"one\",\nkey: \"a.two\",\n";
            let tree = Tree::of(&[
                ("docs/configuration.md", &page),
                ("crates/server/src/config/settings.rs", source),
                ("crates/server/src/config/cluster.rs", ""),
            ]);
            check_settings(&tree, &mut report).expect("the page and the source are there");
            report.complaints.len()
        };
        assert_eq!(complaints("one = 1  # a number\n\n[a]\ntwo = 2\n"), 0);
        assert_eq!(complaints("one = 1\n"), 1);
        assert_eq!(complaints("two = 2\n[a]\none = 1\n"), 2);
    }

    #[test]
    fn a_map_names_files_that_are_there() {
        let complaints = |map: &str| {
            let mut report = Report::default();
            let tree = Tree::of(&[("ARCHITECTURE.md", map), ("crates/a/src/one.rs", "")]);
            check_map(&tree, &mut report).expect("it is there");
            report.complaints.iter().filter(|said| said.contains("no file")).count()
        };
        assert_eq!(complaints("`one.rs`, and `src/one.rs`\n"), 0);
        assert_eq!(complaints("`one.rs` and `two.rs`\n"), 1);
    }

    #[test]
    fn every_page_of_the_guide_is_in_the_lists_of_its_language() {
        let complaints = |contents: &str, english: &str, chinese: &str| {
            let mut report = Report::default();
            let tree = Tree::of(&[
                ("docs/SUMMARY.md", contents),
                ("docs/README.md", english),
                ("docs/zh-CN/README.md", chinese),
                ("docs/a.md", ""),
                ("docs/zh-CN/a.md", ""),
            ]);
            check_guide(&tree, &mut report).expect("the lists are there");
            report.complaints.len()
        };
        let all = "[g](README.md) [a](a.md) [g](zh-CN/README.md) [a](zh-CN/a.md)";
        assert_eq!(complaints(all, "[a](a.md)", "[a](a.md)"), 0);
        assert_eq!(complaints("[g](README.md) [a](a.md)", "[a](a.md)", "[a](a.md)"), 2);
        assert_eq!(complaints(all, "", "[a](a.md)"), 1);
        assert_eq!(complaints(all, "[a](zh-CN/a.md)", "[a](../a.md)"), 2);
    }

    #[test]
    fn twins_have_the_same_sections_and_commands() {
        let complaints = |other: &str| {
            let one = "# A\n```sh\nrun it  # quickly\n```\n";
            let mut report = Report::default();
            let tree = Tree::of(&[
                ("README.md", one),
                ("README.zh-CN.md", one),
                ("docs/a.md", one),
                ("docs/zh-CN/a.md", other),
                ("docs/zh-CN/only-chinese.md", "# 甲\n"),
            ]);
            check_twins(&tree, &mut report).expect("all pages are there");
            report.complaints.len()
        };
        assert_eq!(complaints("# 甲\n```sh\nrun it  # 快\n```\n"), 0);
        assert_eq!(complaints("# 甲\n## 乙\n```sh\nrun it\n```\n"), 1);
        assert_eq!(complaints("# 甲\n```sh\nrun that\n```\n"), 2);
    }
}

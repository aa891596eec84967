//! Checks for words that must not be in the tree: paths of one machine, and addresses of package
//! mirrors.

use super::{Report, Tree};

/// Paths that exist only on one machine. They are written in two pieces, so that this file does not
/// contain them.
const MACHINE_PLACES: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/"), concat!("/ho", "me/")];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.files() {
        for (index, line) in text.lines().enumerate() {
            if let Some(place) = MACHINE_PLACES.iter().find(|place| has_place(line, place)) {
                report.complain(path, index + 1, format!("`{place}` is a place of one machine"));
            }
            if is_package_list(path) && has_address(path, line) {
                let what = "the address of a package mirror; packages come from where the user's \
                            own settings say";
                report.complain(path, index + 1, what);
            }
        }
    }
}

/// Whether an absolute path begins here. `target/work/` is not an absolute path.
fn has_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && !"_-./}".contains(letter))
    })
}

/// Whether this file is a list of packages, or has settings of a package manager.
fn is_package_list(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["package.json", "package-lock.json", ".npmrc", "pip.conf", "composer.json", "composer.lock"]
        .contains(&name)
        || name.starts_with("requirements")
        || path.ends_with(".cargo/config.toml")
}

/// Whether the line has the address of a package. JSON lists also contain addresses of homepages,
/// which are allowed.
fn has_address(path: &str, line: &str) -> bool {
    let is_list = path.rsplit('.').next() == Some("json");
    line.contains("\"resolved\"")
        || line.contains("index-url")
        || (!is_list && line.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        let mut report = Report::default();
        check(&Tree::of(&[(path, text)]), &mut report);
        report.complaints.len()
    }

    #[test]
    fn places_of_a_machine_are_found() {
        assert_eq!(complaints("a.md", concat!("see /ro", "ot/notes\n")), 1);
        assert_eq!(complaints("a.md", concat!("see target/wo", "rk/notes\n")), 0);
    }

    #[test]
    fn lock_files_have_no_addresses() {
        assert_eq!(complaints("x/package-lock.json", "\"resolved\": \"https://a.example/b\"\n"), 1);
        assert_eq!(complaints("x/requirements.txt", "--index-url https://a.example\n"), 1);
        assert_eq!(complaints("x/requirements.txt", "greenstalk==2.1.1\n"), 0);
    }
}

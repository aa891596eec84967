//! Reads any text as a configuration. The result must be a configuration, or a list of mistakes
//! that all have a place. A configuration that is shown as text must be a file with the same
//! meaning. The tests and the fuzz target share this file.

use std::cell::OnceCell;
use std::path::Path;

use lineshaft_server::config::Config;
use lineshaft_server::config::sources::{Mistakes, Sources};
use tempfile::TempDir;

thread_local! {
    /// The folder in which this thread writes its files. It is removed when the thread ends.
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Separates the text of the file from the variables of the environment in a script. Each variable
/// has one line. No text contains this byte.
const ENVIRONMENT: u8 = 0xff;

/// Reads a script: the text of a file, then variables.
pub(crate) fn check(script: &[u8]) {
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| tempfile::tempdir().expect("there is room"));
        check_in(folder.path(), script);
    });
}

fn check_in(folder: &Path, script: &[u8]) {
    let mut parts = script.splitn(2, |byte| *byte == ENVIRONMENT);
    let text = parts.next().unwrap_or_default();
    let variables = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let environment: Vec<(String, String)> = variables
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (format!("LINESHAFT_{name}"), value.to_owned()))
        .collect();
    let file = folder.join("lineshaft.toml");
    std::fs::write(&file, text).expect("there is room");
    let lines = text.split(|byte| *byte == b'\n').count();
    let sources = Sources { file: Some(file.clone()), environment, ..Sources::default() };
    let effective = match sources.load() {
        Ok(effective) => effective,
        Err(mistakes) => return check_mistakes(&mistakes, &file, lines),
    };
    for name in [&b"a"[..], b"a+b", b"mails", b"\xff"] {
        effective.show_policy(name);
    }
    let shown = effective.show();
    std::fs::write(&file, &shown).expect("there is room");
    let again = Sources { file: Some(file), ..Sources::default() };
    let again =
        again.load().unwrap_or_else(|mistakes| panic!("{mistakes}\nin what was shown:\n{shown}"));
    assert_eq!(without_lines(&again.config), without_lines(&effective.config), "{shown}");
}

/// The same configuration without the lines of its policies. The lines do not change its meaning.
fn without_lines(config: &Config) -> Config {
    let mut config = config.clone();
    for rule in &mut config.policies.0 {
        rule.line = 0;
        for asked in &mut rule.settings {
            asked.line = 0;
        }
    }
    config
}

fn check_mistakes(mistakes: &Mistakes, file: &Path, lines: usize) {
    assert!(!mistakes.0.is_empty());
    for mistake in &mistakes.0 {
        assert!(!mistake.message.is_empty());
        // The place of a mistake is a variable, or a file and a line, perhaps with a column.
        let Some(place) = mistake.place.strip_prefix(&*file.to_string_lossy()) else { continue };
        let line = place.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
        assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{mistake}");
    }
}

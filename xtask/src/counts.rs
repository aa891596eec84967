//! `cargo xtask counts`: counts the instructions of single requests, and compares them with stored
//! counts. Unlike a time, a count does not depend on the machine's load.
//!
//! Callgrind runs `crates/counts` once for each kind of request. Only the program's own instructions
//! count, because those of the C library depend on its version.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

pub(crate) const USAGE: &str = "\
usage: cargo xtask counts [--functions | --update]

  counts the instructions of single requests, and fails if a count is more than 5 % above the stored one

  --functions   also shows the instructions of each function
  --update      stores the present counts";

/// The file with the stored counts, one table for each architecture.
const STORED: &str = "crates/counts/stored.toml";
/// A count may exceed the stored one by this percentage.
const TOLERANCE_PERCENT: u64 = 5;
/// The number of requests in a run: `REQUESTS` of `crates/counts/src/main.rs`.
const REQUESTS: u64 = 1000;
/// The number of functions to show if a count is too high.
const SHOWN_FUNCTIONS: usize = 12;

/// Instructions of each function of the program.
type Profile = BTreeMap<String, u64>;
/// The counts of one architecture: the name of a request, and its instructions.
type Counts = BTreeMap<String, u64>;

/// Runs the command. Returns true if all counts are within the tolerance.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let argument = match arguments {
        [] => "",
        [argument] if ["--update", "--functions"].contains(&argument.as_str()) => argument,
        _ => anyhow::bail!("unknown arguments\n{USAGE}"),
    };
    let is_update = argument == "--update";
    let path = root.join(STORED);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut stored: BTreeMap<String, Counts> =
        toml::from_str(&text).with_context(|| path.display().to_string())?;
    let architecture = std::env::consts::ARCH;
    if !is_update && !stored.contains_key(architecture) {
        skip(&format!("{STORED} has no counts of {architecture}"))?;
        return Ok(true);
    }
    let program = build(root)?;
    let mut profiles = BTreeMap::new();
    for request in requests(&program)? {
        profiles.insert(request.clone(), profile(root, &program, &request)?);
    }
    let counts = profiles.iter().map(|(request, profile)| (request.clone(), count(profile)));
    let counts: Counts = counts.collect();
    if is_update {
        stored.insert(architecture.to_owned(), counts);
        fs::write(&path, stored_text(&stored))?;
        println!("{STORED} has the present counts; say in the commit message why they changed");
        return Ok(true);
    }
    if argument == "--functions" {
        for (request, profile) in &profiles {
            print!("{request}\n{}\n", functions(profile, usize::MAX));
        }
    }
    let known = &stored[architecture];
    print!("{}", table(&counts, known));
    let complaint = complaint(&counts, known, &profiles);
    print!("{complaint}");
    Ok(complaint.is_empty())
}

/// Says that nothing was checked. `./test` collects these lines.
fn skip(reason: &str) -> Result<()> {
    let line = format!("SKIPPED: instruction counts: {reason}\n");
    print!("{line}");
    if let Some(file) = std::env::var_os("LINESHAFT_SKIPPED_FILE") {
        let mut text = fs::read_to_string(&file).unwrap_or_default();
        text.push_str(&line);
        fs::write(file, text)?;
    }
    Ok(())
}

/// Builds the program. Its profile has the optimisations of a release.
fn build(root: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--locked", "--profile", "counts", "-p", "lineshaft-counts"]);
    // Other flags give other instructions.
    command.args(["--message-format", "json-render-diagnostics"]).env_remove("RUSTFLAGS");
    let output = command.current_dir(root).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the program for the counts cannot be built");
    let messages = String::from_utf8_lossy(&output.stdout);
    let path = messages.lines().filter_map(executable).next_back();
    path.context("cargo did not name the program for the counts")
}

fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    Some(PathBuf::from(message.get("executable")?.as_str()?))
}

/// The kinds of requests that the program knows.
fn requests(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).output()?;
    let names = String::from_utf8(output.stdout)?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// Counts the instructions of one kind of request.
fn profile(root: &Path, program: &Path, request: &str) -> Result<Profile> {
    let file = root.join("target").join(format!("callgrind.{request}"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet", "--toggle-collect=*::measured_*"]);
    command.args(["--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--callgrind-out-file={}", file.display())).arg(program).arg(request);
    let status = command
        .status()
        .context("cannot start valgrind; `scripts/install-test-tools.sh` installs it")?;
    ensure!(status.success(), "`{request}` failed under callgrind");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    fs::remove_file(&file)?;
    let profile = own_instructions(&text, &program.to_string_lossy());
    ensure!(!profile.is_empty(), "callgrind saw no instruction of `{request}`");
    Ok(profile)
}

/// Reads callgrind's output. Returns the instructions of each function in the file `program`.
fn own_instructions(text: &str, program: &str) -> Profile {
    let mut profile = Profile::new();
    let (mut is_own, mut is_call, mut function) = (false, false, "");
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_own = object == program;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            // The next line has the instructions of the called function, which has lines of its own.
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let count = line.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok());
            if is_own && !is_call {
                *profile.entry(function.to_owned()).or_default() += count.unwrap_or(0);
            }
            is_call = false;
        }
    }
    profile
}

/// The instructions of one request.
fn count(profile: &Profile) -> u64 {
    profile.values().sum::<u64>() / REQUESTS
}

fn stored_text(stored: &BTreeMap<String, Counts>) -> String {
    let mut text = String::from(
        "# Instructions of single requests. `cargo xtask counts --update` writes this file.\n",
    );
    for (architecture, counts) in stored {
        let _ = writeln!(text, "\n[{architecture}]");
        for (request, count) in counts {
            let _ = writeln!(text, "{request} = {count}");
        }
    }
    text
}

fn table(counts: &Counts, stored: &Counts) -> String {
    let mut text =
        format!("{:8} {:>12} {:>8} {:>9}\n", "request", "instructions", "stored", "change");
    for (request, count) in counts {
        let (stored, change) = match stored.get(request) {
            Some(stored) => {
                (stored.to_string(), format!("{:+.1} %", 100.0 * change(*count, *stored)))
            }
            None => ("-".to_owned(), "-".to_owned()),
        };
        let _ = writeln!(text, "{request:8} {count:>12} {stored:>8} {change:>9}");
    }
    text
}

fn change(count: u64, stored: u64) -> f64 {
    count as f64 / stored as f64 - 1.0
}

/// Says which counts are too high or missing, and what to do. Empty if all is well.
fn complaint(counts: &Counts, stored: &Counts, profiles: &BTreeMap<String, Profile>) -> String {
    let mut text = String::new();
    for (request, count) in counts {
        let Some(known) = stored.get(request) else {
            let _ = writeln!(text, "\n{request}: there is no stored count");
            continue;
        };
        if count * 100 <= known * (100 + TOLERANCE_PERCENT) {
            continue;
        }
        let change = 100.0 * change(*count, *known);
        let _ = writeln!(text, "\n{request}: {change:.1} % above the stored count");
        text.push_str(&functions(&profiles[request], SHOWN_FUNCTIONS));
    }
    for request in stored.keys().filter(|request| !counts.contains_key(*request)) {
        let _ = writeln!(text, "\n{request}: the stored count belongs to no request");
    }
    if !text.is_empty() {
        text.push_str(
            "\nTo see what has grown, compare the output of `cargo xtask counts --functions` with that of an\n\
             earlier commit. If the change is worth the instructions, or the compiler is another one, run\n\
             `cargo xtask counts --update`, and say why in the commit message.\n",
        );
    }
    text
}

/// The functions with the most instructions, one line each.
fn functions(profile: &Profile, most: usize) -> String {
    let mut functions: Vec<(&String, &u64)> = profile.iter().collect();
    functions.sort_by_key(|(_, instructions)| std::cmp::Reverse(**instructions));
    let lines = functions.into_iter().take(most).map(|(name, instructions)| {
        format!("{:>8.1} {name}\n", *instructions as f64 / REQUESTS as f64)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
positions: line
events: Ir
summary: 999

ob=/lib/libc.so.6
fl=x.S
fn=memcpy
264 1000

ob=/target/counts
fl=put.rs
fn=engine::put
12 3000
13 500
cob=/lib/libc.so.6
cfn=memcpy
calls=1 264
14 1000
15 500
fn=log::append
1 2000
";

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn only_the_instructions_of_the_program_count() {
        let profile = own_instructions(OUTPUT, "/target/counts");
        let expected = [("engine::put", 4000), ("log::append", 2000)];
        assert_eq!(profile, counts(&expected));
        assert_eq!(count(&profile), 6);
    }

    #[test]
    fn a_count_can_exceed_the_stored_one_by_the_tolerance() {
        let profiles = BTreeMap::from([("put".to_owned(), counts(&[("engine::put", 106_000)]))]);
        let stored = counts(&[("put", 100)]);
        for good in [50, 100, 105] {
            assert_eq!(complaint(&counts(&[("put", good)]), &stored, &profiles), "");
        }
        let text = complaint(&counts(&[("put", 106)]), &stored, &profiles);
        assert!(
            text.contains("put: 6.0 % above the stored count\n   106.0 engine::put\n"),
            "{text}"
        );
        assert!(text.contains("cargo xtask counts --update"));
    }

    #[test]
    fn requests_and_stored_counts_must_agree() {
        let profiles = BTreeMap::new();
        let text = complaint(&counts(&[("put", 1)]), &counts(&[("take", 1)]), &profiles);
        assert!(text.contains("put: there is no stored count"), "{text}");
        assert!(text.contains("take: the stored count belongs to no request"));
    }

    #[test]
    fn stored_counts_are_read_as_written() {
        let stored = BTreeMap::from([("x86_64".to_owned(), counts(&[("GET", 3), ("put", 2)]))]);
        let read: BTreeMap<String, Counts> = toml::from_str(&stored_text(&stored)).expect("TOML");
        assert_eq!(read, stored);
    }
}

//! `cargo xtask fuzz`: builds the targets of `fuzz/` and runs them.
//!
//! libFuzzer needs only counters of branches. The repository's compiler can insert these counters
//! (`COVERAGE`). The address sanitizer would need another compiler. It is not necessary, because
//! the product has no unsafe code. New inputs of a target stay in `target/fuzz/corpus`. The next
//! run begins with them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

pub(crate) const USAGE: &str = "\
usage: cargo xtask fuzz [TARGET...] [--seconds N] [--jobs N] [--seed N]
       cargo xtask fuzz TARGET --input FILE
       cargo xtask fuzz [TARGET...] --keep

  TARGET        a file of fuzz/fuzz_targets; all, if none is named
  --seconds N   how long each of them runs: 60, if nothing is said
  --jobs N      how many run at a time: 2, if nothing is said
  --seed N      another seed tries other inputs: 1, if nothing is said, so that a run can be repeated
  --input FILE  gives the target this one input, to repeat what it did
  --keep        adds what takes ways of its own, of all that was found so far, to fuzz/corpus";

/// Instrumentation for libFuzzer: counters of branches, and the operands of comparisons.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

const INPUT_BYTES_MAX: u32 = 4096;
/// The longest input that is added to the repository's corpus.
const KEPT_BYTES_MAX: u32 = 1024;
/// The time limit for one input. Inputs need far less, but the machine may be busy.
const INPUT_SECONDS_MAX: u32 = 25;
const MEMORY_MIB_MAX: u32 = 1024;
/// The number of output lines to show when a target fails.
const SHOWN_LINES: usize = 60;

/// The arguments of the command line.
#[derive(Debug, Eq, PartialEq)]
struct Request {
    /// The targets to run. Empty means all.
    targets: Vec<String>,
    seconds: u32,
    jobs: usize,
    seed: u32,
    input: Option<PathBuf>,
    keep: bool,
}

/// Runs the command. Returns true if no target found anything.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let request = Request::read(arguments)?;
    let bench = Bench::new(root)?;
    let targets = bench.choose(&request.targets)?;
    bench.build(&targets)?;
    if let Some(input) = &request.input {
        let [target] = &targets[..] else { bail!("--input needs the name of one target") };
        let input = fs::canonicalize(input).with_context(|| input.display().to_string())?;
        return Ok(bench.command(target)?.arg(input).status()?.success());
    }
    let left = Mutex::new(VecDeque::from(targets));
    let outcomes = thread::scope(|scope| {
        let worker = || -> Result<bool> {
            let mut all_well = true;
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(target) = next else { return Ok(all_well) };
                all_well &= if request.keep {
                    bench.keep(&target)?
                } else {
                    bench.fuzz(&target, request.seconds, request.seed)?
                };
            }
        };
        let workers: Vec<_> = (0..request.jobs).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| worker.join().expect("no panic");
        workers.into_iter().map(join).collect::<Result<Vec<bool>>>()
    })?;
    Ok(outcomes.into_iter().all(|well| well))
}

impl Request {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut request =
            Self { targets: Vec::new(), seconds: 60, jobs: 2, seed: 1, input: None, keep: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--seconds" => request.seconds = value()?.parse().context("--seconds")?,
                "--jobs" => request.jobs = value()?.parse().context("--jobs")?,
                "--seed" => request.seed = value()?.parse().context("--seed")?,
                "--input" => request.input = Some(value()?.into()),
                "--keep" => request.keep = true,
                flag if flag.starts_with('-') => bail!("unknown flag {flag}\n\n{USAGE}"),
                target => request.targets.push(target.to_owned()),
            }
        }
        // For libFuzzer, the seed 0 means a random seed.
        let valid = request.seconds > 0 && request.jobs > 0 && request.seed > 0;
        ensure!(valid, "--seconds, --jobs and --seed begin at 1");
        Ok(request)
    }
}

/// The folders of targets, builds and new inputs.
struct Bench {
    root: PathBuf,
    /// `target/fuzz`.
    built: PathBuf,
    /// The target triple of this machine. With an explicit triple, cargo does not insert the
    /// counters into build scripts.
    host: String,
}

impl Bench {
    fn new(root: &Path) -> Result<Self> {
        let root = fs::canonicalize(root)?;
        let output = Command::new("rustc").arg("-vV").output().context("rustc")?;
        let text = String::from_utf8(output.stdout)?;
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc does not say what the host is")?.to_owned();
        Ok(Self { built: root.join("target/fuzz"), root, host })
    }

    /// The requested targets, in alphabetical order.
    fn choose(&self, named: &[String]) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for file in fs::read_dir(self.root.join("fuzz/fuzz_targets"))? {
            let name = file?.file_name().to_string_lossy().into_owned();
            all.extend(name.strip_suffix(".rs").map(str::to_owned));
        }
        all.sort();
        if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
            bail!("no target {unknown}; there are {}", all.join(", "));
        }
        if !named.is_empty() {
            all.retain(|name| named.contains(name));
        }
        Ok(all)
    }

    fn build(&self, targets: &[String]) -> Result<()> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--release", "--locked", "--quiet", "--target", &self.host]);
        cargo.arg("--manifest-path").arg(self.root.join("fuzz/Cargo.toml"));
        cargo.arg("--target-dir").arg(&self.built);
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", COVERAGE);
        for target in targets {
            cargo.args(["--bin", target]);
        }
        ensure!(cargo.status()?.success(), "the fuzz targets do not build");
        Ok(())
    }

    /// The program of a target, with the limits for one input.
    fn command(&self, target: &str) -> Result<Command> {
        let artifacts = self.artifacts(target);
        fs::create_dir_all(&artifacts)?;
        // The prefix needs a final slash, because the program appends file names.
        let mut prefix = OsString::from("-artifact_prefix=");
        prefix.push(artifacts.join(""));
        let mut command = Command::new(self.built.join(&self.host).join("release").join(target));
        command.arg(prefix);
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        // This folder is in memory, so the targets' temporary files need no disk.
        if Path::new("/dev/shm").is_dir() {
            command.env("TMPDIR", "/dev/shm");
        }
        Ok(command)
    }

    fn artifacts(&self, target: &str) -> PathBuf {
        self.root.join("fuzz/artifacts").join(target)
    }

    /// The folder of the repository's inputs, and the folder of newly found inputs.
    fn corpora(&self, target: &str) -> Result<(PathBuf, PathBuf)> {
        let kept = self.root.join("fuzz/corpus").join(target);
        let found = self.built.join("corpus").join(target);
        fs::create_dir_all(&kept)?;
        fs::create_dir_all(&found)?;
        Ok((kept, found))
    }

    /// The dictionary of words for the target's inputs, if there is one. It is named for the target
    /// or for its protocol.
    fn dictionary(&self, target: &str) -> Option<PathBuf> {
        let protocol = target.split('_').next().unwrap_or(target);
        let file = |name: &str| self.root.join("fuzz").join(format!("{name}.dict"));
        [file(target), file(protocol)].into_iter().find(|file| file.exists())
    }

    /// Runs a command whose output goes to a file. Returns the output.
    fn run_quietly(&self, target: &str, command: &mut Command) -> Result<(ExitStatus, String)> {
        let path = self.built.join(format!("{target}.log"));
        let log = File::create(&path)?;
        let status = command.stdout(log.try_clone()?).stderr(log).status()?;
        Ok((status, String::from_utf8_lossy(&fs::read(&path)?).into_owned()))
    }

    /// Runs a target for this time. Returns whether it found nothing.
    fn fuzz(&self, target: &str, seconds: u32, seed: u32) -> Result<bool> {
        let (kept, found) = self.corpora(target)?;
        let before = files(&self.artifacts(target));
        let mut command = self.command(target)?;
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-seed={seed}"));
        command.arg("-print_final_stats=1");
        if let Some(dictionary) = self.dictionary(target) {
            let mut flag = OsString::from("-dict=");
            flag.push(dictionary);
            command.arg(flag);
        }
        // libFuzzer writes new inputs to the first folder.
        let (status, output) = self.run_quietly(target, command.arg(found).arg(kept))?;
        let runs = value(&output, "stat::number_of_executed_units:").unwrap_or("?");
        if status.success() {
            println!("fuzz: {target}: {runs} inputs in {seconds} s, nothing found");
            return Ok(true);
        }
        let lines: Vec<&str> = output.lines().collect();
        for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
            println!("{target}| {line}");
        }
        println!("fuzz: {target}: FAILED after {runs} inputs ({status}); to repeat it:");
        let after = files(&self.artifacts(target));
        for file in after.iter().filter(|file| !before.contains(file)) {
            let file = file.strip_prefix(&self.root).unwrap_or(file);
            println!("  cargo xtask fuzz {target} --input {}", file.display());
        }
        Ok(false)
    }

    /// Adds inputs that take new branches to the repository's corpus.
    fn keep(&self, target: &str) -> Result<bool> {
        let (kept, found) = self.corpora(target)?;
        let mut command = self.command(target)?;
        // Keep only inputs that take a new branch. Without these options, libFuzzer would also keep
        // the many inputs that take a known branch more often.
        command.args(["-set_cover_merge=1", "-use_counters=0"]);
        // This replaces the earlier `-max_len`. Long inputs are hard to read, and the repository
        // should stay small.
        command.arg(format!("-max_len={KEPT_BYTES_MAX}"));
        let before = files(&kept).len();
        let (status, _) = self.run_quietly(target, command.arg(&kept).arg(found))?;
        println!("fuzz: {target}: keeps {} inputs, before {before}", files(&kept).len());
        Ok(status.success())
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// The value after a name in the output.
fn value<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    output.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Request> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        Request::read(&arguments)
    }

    #[test]
    fn arguments_are_read() {
        let request = read(&["tls", "--seconds", "5", "--jobs", "1", "recovery", "--seed", "7"])
            .expect("valid");
        let targets = vec!["tls".to_owned(), "recovery".to_owned()];
        assert_eq!(
            request,
            Request { targets, seconds: 5, jobs: 1, seed: 7, input: None, keep: false }
        );
        assert!(read(&["--keep"]).expect("valid").keep);
        for wrong in [
            &["--seconds"][..],
            &["--seconds", "x"],
            &["--jobs", "0"],
            &["--seed", "0"],
            &["--nonsense"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_target_has_a_corpus_and_a_place_in_the_manifest() {
        let bench = Bench::new(&crate::root()).expect("the repository is readable");
        let manifest = fs::read_to_string(bench.root.join("fuzz/Cargo.toml")).expect("it is there");
        let readme = fs::read_to_string(bench.root.join("fuzz/README.md")).expect("it is there");
        let targets = bench.choose(&[]).expect("there are targets");
        assert!(targets.len() >= 10);
        for target in &targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(readme.contains(&format!("`{target}`")), "{target}");
            assert!(!files(&bench.root.join("fuzz/corpus").join(target)).is_empty(), "{target}");
        }
        assert!(bench.choose(&["nonsense".to_owned()]).is_err());
    }
}

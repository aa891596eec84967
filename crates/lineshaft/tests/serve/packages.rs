//! Tests the Debian package: the test installs it into a folder of its own with the real dpkg,
//! starts what the unit starts, upgrades the package, removes it, and purges it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use testkit::tools;

use super::ask;
use crate::running::{Running, clear_environment};

/// The folders that dpkg needs before it installs the first package.
const DPKG_FOLDERS: [&str; 3] = ["info", "updates", "triggers"];

/// A folder that dpkg takes for a whole machine.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Root {
        let root = Root(tempfile::tempdir().unwrap());
        let state = root.path("var/lib/dpkg");
        for folder in DPKG_FOLDERS {
            fs::create_dir_all(state.join(folder)).unwrap();
        }
        fs::write(state.join("status"), "").unwrap();
        // Accounts of the machine, as far as programs ask for them.
        fs::create_dir_all(root.path("etc")).unwrap();
        fs::write(root.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(root.path("etc/group"), "root:x:0:\n").unwrap();
        root
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs dpkg. No other package is installed here, so dependencies do not count.
    fn dpkg(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("dpkg");
        command.arg("--root").arg(self.0.path()).arg("--log=/dev/null");
        command.args(["--force-depends", "--force-not-root", "--force-script-chrootless"]);
        command.args(arguments).env("DPKG_ROOT", self.0.path());
        succeed(&mut command)
    }

    fn unit(&self) -> String {
        fs::read_to_string(self.path("usr/lib/systemd/system/lineshaft.service")).unwrap()
    }

    /// Lets systemd check the unit. The unit of the machine itself would find the program in `PATH`.
    fn verify_unit(&self) {
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join("lineshaft.service");
        let program = format!("ExecStart={}", self.path("usr/bin/lineshaft").display());
        fs::write(&unit, self.unit().replace("ExecStart=lineshaft", &program)).unwrap();
        succeed(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit));
    }

    /// Starts the server as the unit says, on free ports.
    fn start(&self) -> Running {
        let unit = self.unit();
        let value = |key: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim_start_matches('=').to_owned()
        };
        let start = value("ExecStart");
        let mut words = start.split(' ');
        let program = self.path("usr/bin").join(words.next().unwrap());
        let mut command = Command::new(program);
        clear_environment(&mut command);
        let (name, folder) = value("Environment").split_once('=').map(both_owned).unwrap();
        command.args(words).current_dir(self.path(value("WorkingDirectory").trim_matches('/')));
        command.env(name, self.path(folder.trim_matches('/')));
        command.env("LINESHAFT_LISTEN_BEANSTALK", "127.0.0.1:0");
        Running::spawn(command)
    }
}

fn both_owned((a, b): (&str, &str)) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout.into_owned()
}

/// Packs the program of this test run. Returns the package.
fn make_package(version: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_lineshaft"));
    let target = program.ancestors().nth(2).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/package");
    let mut command = Command::new(script);
    command.args(["deb", "--built", "dev", "--version", version]).env("CARGO_TARGET_DIR", target);
    succeed(&mut command).lines().find(|line| line.contains(version)).unwrap().to_owned()
}

#[test]
fn the_debian_package_installs_upgrades_and_never_deletes_jobs() {
    for program in ["cargo-deb", "dpkg", "systemd-analyze", "systemd-sysusers"] {
        if tools::find_or_skip(program).is_none() {
            return;
        }
    }
    let root = Root::new();
    let package = make_package("0.1.0~test1");
    root.dpkg(&["--install", &package]);
    for file in [
        "usr/share/man/man1/lineshaft.1.gz",
        "usr/share/man/man1/lineshaft-serve.1.gz",
        "usr/share/bash-completion/completions/lineshaft",
        "usr/share/zsh/vendor-completions/_lineshaft",
        "usr/share/fish/vendor_completions.d/lineshaft.fish",
        "usr/share/lineshaft/systemd/lineshaft-gearman.socket",
        "usr/share/doc/lineshaft/copyright",
    ] {
        assert!(root.path(file).exists(), "{file} is missing");
    }
    let users = fs::read_to_string(root.path("etc/passwd")).unwrap();
    assert!(users.contains("lineshaft:"), "the package makes the user of the service: {users}");
    root.verify_unit();

    let mut server = root.start();
    let address = server.address();
    assert_eq!(ask(&address, "put 0 0 60 5\r\nfirst\r\n"), "INSERTED 1\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let settings = root.path("etc/lineshaft/lineshaft.toml");
    let changed = fs::read_to_string(&settings).unwrap() + "# changed by its owner\n";
    fs::write(&settings, &changed).unwrap();

    root.dpkg(&["--install", &make_package("0.1.0~test2")]);
    let version = root.dpkg(&["--status", "lineshaft"]);
    assert!(version.contains("Version: 0.1.0~test2"), "{version}");
    assert_eq!(fs::read_to_string(&settings).unwrap(), changed, "an upgrade keeps the settings");
    let mut server = root.start();
    let address = server.address();
    assert_eq!(ask(&address, "reserve-with-timeout 0\r\n"), "RESERVED 1 5\r\nfirst\r\n");
    server.signal(Signal::TERM);
    assert!(server.wait().success());

    root.dpkg(&["--remove", "lineshaft"]);
    assert!(!root.path("usr/bin/lineshaft").exists());
    assert!(settings.exists(), "only a purge deletes the settings");
    let said = root.dpkg(&["--purge", "lineshaft"]);
    assert!(!settings.exists());
    assert!(said.contains("the jobs stay in /var/lib/lineshaft"), "{said}");
    let jobs = fs::read_dir(root.path("var/lib/lineshaft")).unwrap();
    assert!(jobs.count() > 0, "the jobs are still there");
}

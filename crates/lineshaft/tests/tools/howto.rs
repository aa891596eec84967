//! Runs the commands of the how-to pages. A test replaces only what belongs to the machine: ports,
//! folders, and the user's own programs.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;
use testkit::process::{Program, Server, free_port};
use testkit::readme::{Block, Running, all_blocks, root, shell};
use testkit::tools;

use super::{LINESHAFT, wait_until};

/// The languages of the blocks of each page, in order. `workers.rs` runs the page about workers,
/// `serve/tasks.rs` the page about policies, and each other page has a test below. If you add a block,
/// also run it in a test.
const PAGES: [(&str, &str); 9] = [
    ("backup.md", "sh sh sh"),
    ("cron.md", "text text sh sh sh"),
    ("deploy.md", "toml sh ini sh"),
    ("migrate.md", ""),
    ("monitor.md", "yaml sh"),
    (
        "policies.md",
        "sh toml sh toml toml toml toml toml toml toml toml toml toml toml toml toml toml toml toml \
         toml toml toml toml",
    ),
    ("secure.md", "toml sh"),
    ("size.md", "sh"),
    (
        "workers.md",
        "sh sh python python php php ruby ruby go go js js rust rust perl perl c c java java sh",
    ),
];

fn read(folder: &str, page: &str) -> Vec<Block> {
    all_blocks(&fs::read_to_string(root().join(folder).join(page)).unwrap())
}

fn blocks<const N: usize>(page: &str) -> [String; N] {
    let all: Vec<String> = read("docs/howto", page).into_iter().map(|block| block.text).collect();
    all.try_into().unwrap_or_else(|all| panic!("other blocks: {all:?}"))
}

#[test]
fn every_block_of_the_pages_is_run() {
    let mut pages: Vec<(String, String)> = fs::read_dir(root().join("docs/howto"))
        .unwrap()
        .map(|file| {
            let page = file.unwrap().file_name().into_string().unwrap();
            let languages: Vec<String> =
                read("docs/howto", &page).into_iter().map(|block| block.language).collect();
            (page, languages.join(" "))
        })
        .collect();
    pages.sort();
    let wanted = PAGES.map(|(page, languages)| (page.to_owned(), languages.to_owned()));
    assert_eq!(pages, wanted, "run each new block in a test, then change the table");
}

#[test]
fn the_chinese_pages_have_the_same_commands() {
    for (page, _) in PAGES {
        let code = |folder: &str| -> Vec<(String, String)> {
            let all = read(folder, page).into_iter();
            all.map(|block| (block.language, without_comments(&block.text))).collect()
        };
        assert_eq!(code("docs/zh-CN/howto"), code("docs/howto"), "{page}");
    }
}

/// The lines without comments and empty lines.
fn without_comments(text: &str) -> String {
    let code = text.lines().filter_map(|line| {
        let end = line.find(" # ").or_else(|| line.starts_with("# ").then_some(0));
        let code = line[..end.unwrap_or(line.len())].trim_end();
        (!code.is_empty()).then(|| format!("{code}\n"))
    });
    code.collect()
}

/// A folder with a server, and with stand-ins for the user's own programs.
struct Machine {
    folder: TempDir,
    server: Server,
}

impl Machine {
    /// Starts a server with these listeners. Its data folder is `data`.
    fn start(listeners: &'static [&'static str]) -> Machine {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let data = folder.path().join("data");
        let program = Program::serve_on(listeners, LINESHAFT, &["--data"]).with(&[&data]);
        let server = program.start().unwrap();
        Machine { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a program for the commands of a page.
    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Lets `date` always say the same day, so that a test can run at midnight.
    fn set_date(&self) {
        self.program("date", "exec /bin/date -d '2026-03-02 12:00' \"$@\"");
    }

    /// A shell in the folder, for the server at this address.
    fn shell_for(&self, server: SocketAddr, script: &str) -> Command {
        let mut command = shell(Path::new(LINESHAFT), self.folder.path(), script).unwrap();
        let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap();
        let path = format!("{}:{}", self.path("bin").display(), path.to_str().unwrap());
        command.env("PATH", path).env("LINESHAFT_SERVER", server.to_string());
        command.env("LINESHAFT_DATA_DIR", self.path("data"));
        command
    }

    fn beanstalk(&self) -> SocketAddr {
        self.server.address_of("beanstalk")
    }

    /// Runs commands until they end. Returns what they print.
    fn run(&self, script: &str) -> String {
        succeed(&mut self.shell_for(self.beanstalk(), script))
    }

    /// Starts commands that do not end.
    fn start_in_background(&self, script: &str) -> Running {
        let mut command = self.shell_for(self.beanstalk(), script);
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn stat(&self, queue: &str, name: &str) -> u64 {
        let stats = self.run(&format!("lineshaft stats --json {queue}"));
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats[name].as_u64().unwrap()
    }
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}{said}");
    printed
}

/// Replaces a text that must be there.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in {text}");
    text.replace(from, to)
}

#[test]
fn backups_are_made_sent_and_restored() {
    let [nightly, send, restore] = blocks("backup.md");
    let machine = Machine::start(&["beanstalk"]);
    machine.run("lineshaft put mail 'to=ann'");
    let backups = machine.path("backups");
    fs::create_dir(&backups).unwrap();
    let here = |text: &str| {
        let data = machine.path("data");
        text.replace("/backups", backups.to_str().unwrap())
            .replace("/var/lib/lineshaft", data.to_str().unwrap())
    };
    machine.set_date();
    let script = machine.path("nightly");
    fs::write(&script, here(&nightly)).unwrap();
    // The second run replaces the backup of the first.
    for _ in 0..2 {
        machine.run("sh ./nightly");
        assert_eq!(fs::read_dir(&backups).unwrap().count(), 1, "one file for each day");
    }
    let backup = fs::read_dir(&backups).unwrap().next().unwrap().unwrap().path();
    // One that fails, twice, leaves it there.
    let data = machine.path("data");
    let failing = replaced(&here(&nightly), data.to_str().unwrap(), "nowhere");
    fs::write(&script, failing).unwrap();
    machine.run("! sh ./nightly && ! sh ./nightly");

    // The other machine is a folder.
    machine.program("ssh", "mkdir -p \"$1\" && cd \"$1\" && exec sh -c \"$2\"");
    machine.run(&here(&send));
    let sent = fs::read(machine.path("backup-host/lineshaft.tar")).unwrap();
    assert_eq!(sent.len(), fs::read(&backup).unwrap().len());

    let usual = replaced(
        &here(&restore),
        &format!("{}/lineshaft-Mon.tar", backups.display()),
        backup.to_str().unwrap(),
    );
    let port = free_port().unwrap().to_string();
    let commands = replaced(&usual, "11400", &port);
    let [unpack, check, serve, stats] = commands.lines().collect::<Vec<_>>()[..] else {
        panic!("other commands: {commands}")
    };
    machine.run(&format!("{unpack}\n{check}"));
    let _restored = machine.start_in_background(serve);
    wait_until("the restored server", || {
        let shown = machine.shell_for(machine.beanstalk(), stats).output().unwrap();
        shown.status.success() && String::from_utf8(shown.stdout).unwrap().contains("mail")
    });
}

#[test]
fn cron_puts_jobs_and_workers_run_them() {
    let [_before, after, work, repair, split] = blocks("cron.md");
    let machine = Machine::start(&["beanstalk", "gearman"]);
    machine.set_date();
    let entry = replaced(after.trim(), "\\%", "%");
    // Five fields say when.
    let command = entry.split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
    for _ in 0..2 {
        succeed(&mut machine.shell_for(machine.server.address_of("gearman"), &command));
    }
    assert_eq!(machine.stat("report", "current-jobs-ready"), 1, "the key joins both");

    machine.program("nightly-report", "[ -e repaired ] && echo \"$1\" >done");
    let _worker = machine.start_in_background(&work);
    wait_until("the last attempt", || machine.stat("report", "current-jobs-buried") == 1);
    let [peek, kick] = repair.lines().collect::<Vec<_>>()[..] else { panic!("{repair}") };
    let day = machine.run("date +%F");
    assert_eq!(machine.run(peek), day.trim());
    fs::write(machine.path("repaired"), "").unwrap();
    machine.run(kick);
    let done = || fs::read_to_string(machine.path("done")).unwrap_or_default();
    wait_until("the report", || done() == day);

    let spool = machine.path("spool");
    fs::create_dir(&spool).unwrap();
    let files: Vec<PathBuf> = (0..5).map(|number| spool.join(format!("{number}.txt"))).collect();
    for file in &files {
        fs::write(file, "text").unwrap();
    }
    machine.program("index-file", "rm \"$1\"");
    let split = replaced(&split, "/var/spool/index", spool.to_str().unwrap());
    let (put, work) = split.split_once('\n').unwrap();
    machine.run(put);
    let _worker = machine.start_in_background(work);
    wait_until("the index", || files.iter().all(|file| !file.exists()));
}

#[test]
fn the_server_and_a_worker_run_as_services() {
    let [listen, start, unit, enable] = blocks("deploy.md");
    let machine = Machine::start(&["beanstalk", "http"]);
    // The packages' test starts the real unit. Here a stand-in notes what systemd should do.
    machine.program("systemctl", "echo \"$@\" >>systemctl");
    let file = machine.path("lineshaft.toml");
    fs::write(&file, listen).unwrap();
    let start = replaced(&start, "/etc/lineshaft/lineshaft.toml", file.to_str().unwrap());
    let http = machine.server.address_of("http").to_string();
    let start = replaced(&start, "127.0.0.1:7300", &http);
    if tools::find_or_skip("curl").is_some() {
        let printed = machine.run(&format!("set -e\n{start}"));
        assert!(printed.contains("ready"), "{printed}");
    }
    machine.run(&enable);
    let asked = fs::read_to_string(machine.path("systemctl")).unwrap();
    assert!(asked.ends_with("enable --now mail-worker\n"), "{asked}");

    // The file of the unit, with the programs and the server of this test.
    machine.program("send-mail", "cat >sent");
    let send_mail = machine.path("bin/send-mail");
    // systemd looks for the program, too.
    let unit = replaced(&unit, "ExecStart=lineshaft", &format!("ExecStart={LINESHAFT}"));
    let unit = replaced(&unit, "/usr/local/bin/send-mail", send_mail.to_str().unwrap());
    let unit = replaced(&unit, "10.0.0.5:11300", &machine.beanstalk().to_string());
    fs::write(machine.path("mail-worker.service"), &unit).unwrap();
    if tools::find_or_skip("systemd-analyze").is_some() {
        machine.run("systemd-analyze verify --man=no ./mail-worker.service");
    }
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    machine.run("lineshaft put mail 'to=ann'");
    let script = format!("export {}; exec {}", value("Environment="), value("ExecStart="));
    let mut worker = machine.start_in_background(&script);
    wait_until("the mail", || {
        fs::read_to_string(machine.path("sent")).is_ok_and(|sent| sent == "to=ann")
    });
    assert_eq!(value("KillMode="), "mixed", "only `work` gets SIGTERM");
    rustix::process::kill_process(rustix::process::Pid::from_child(&worker.0), Signal::TERM)
        .unwrap();
    assert!(worker.0.wait().unwrap().success());
}

#[test]
fn prometheus_and_scripts_watch_the_server() {
    let [scrape, buried] = blocks("monitor.md");
    let machine = Machine::start(&["beanstalk"]);
    fs::write(machine.path("prometheus.yml"), scrape).unwrap();
    let rules = root().join("packaging/prometheus/lineshaft.rules.yml");
    fs::copy(rules, machine.path("lineshaft.rules.yml")).unwrap();
    if tools::find_or_skip("promtool").is_some() {
        let said = machine.run("promtool check config prometheus.yml");
        assert!(said.contains("is valid"), "{said}");
    }
    if tools::find_or_skip("jq").is_some() {
        machine.run("lineshaft put mail x; lineshaft put other x");
        assert_eq!(machine.run(&buried), "");
        machine.run("lineshaft work mail --attempts 1 --drain -- false || true");
        assert_eq!(machine.run(&buried), "mail\n");
    }
}

#[test]
fn a_secured_server_has_valid_settings_and_tokens() {
    let [listen, tokens] = blocks("secure.md");
    let machine = Machine::start(&["beanstalk"]);
    fs::write(machine.path("lineshaft.toml"), listen).unwrap();
    machine.run("lineshaft config check lineshaft.toml");
    let shown = machine.run("lineshaft config show --config lineshaft.toml");
    assert!(shown.contains("unix:/run/lineshaft/beanstalk"), "{shown}");
    let printed = machine.run(&tokens);
    let list = printed.lines().last().unwrap();
    assert!(list.contains("ann") && list.contains("operator"), "{printed}");
}

#[test]
fn the_measurement_leaves_no_jobs() {
    let [bench] = blocks("size.md");
    let machine = Machine::start(&["beanstalk"]);
    let short = replaced(&bench, "--seconds 10\n", "--seconds 1\n");
    machine.run(&format!("set -e\n{short}"));
    let stats = machine.run("lineshaft stats --json");
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let queues = stats["queues"].as_array().unwrap();
    assert!(queues.iter().all(|queue| queue["current-jobs-ready"] == 0), "{queues:?}");
}

//! Tests `lineshaft backup` of a running server, and starts servers on the backups.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::rng::Rng;
use testkit::{settings, tools, wait};

use super::ask;
use crate::running::{Running, command, finish};

const SERVE: [&str; 5] = ["serve", "--data", "d", "--beanstalk", "127.0.0.1:0"];
const SMALL_SEGMENTS: &str = "[data]\nsegment_size = \"256KiB\"\n";
/// A client deletes jobs so that about this many exist. They fill several segments.
const KEPT_JOBS: usize = 300;
/// A folder on another file system than the temporary files.
const OTHER_DISK: &str = "/dev/shm";

/// Returns the exit code, and standard output and standard error together.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let finished = finish(command(folder, arguments));
    let said = [finished.stdout, finished.stderr].concat();
    (finished.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

fn serve_on(folder: &Path, data: &str) -> Running {
    Running::start(folder, &["serve", "--data", data, "--beanstalk", "127.0.0.1:0"])
}

fn stop(mut server: Running) {
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
}

/// The ids of all existing jobs up to the id `last`.
fn jobs_of(server: &mut Running, last: u64) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let stream = TcpStream::connect(server.address()).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    for first in (1..=last).step_by(100) {
        let ids: Vec<u64> = (first..=last.min(first + 99)).collect();
        let requests: Vec<String> = ids.iter().map(|id| format!("peek {id}\r\n")).collect();
        stream.write_all(requests.concat().as_bytes()).unwrap();
        for id in ids {
            let mut line = String::new();
            replies.read_line(&mut line).unwrap();
            if line.starts_with("FOUND") {
                let mut body = String::new();
                replies.read_line(&mut body).unwrap();
                assert!(body.starts_with("body-"), "job {id} has another body");
                found.insert(id);
            } else {
                assert_eq!(line, "NOT_FOUND\r\n");
            }
        }
    }
    found
}

/// The replies that a client got, and the deletes that it sent.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Jobs whose put was acknowledged.
    put: BTreeSet<u64>,
    /// Jobs whose delete was sent. The reply may be missing.
    given_up: BTreeSet<u64>,
    /// Jobs whose delete was acknowledged.
    deleted: BTreeSet<u64>,
}

/// A client that puts and deletes jobs, until it is stopped or the server ends.
struct Client {
    known: Arc<Mutex<Known>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn start(address: &str, seed: u64) -> Client {
        let known = Arc::new(Mutex::new(Known::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let stream = TcpStream::connect(address).unwrap();
        let (its_known, its_stop) = (known.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut rng = Rng::new(seed);
            while !its_stop.load(Ordering::Relaxed) && step(&stream, &its_known, &mut rng).is_some()
            {
            }
        });
        Client { known, stop, thread: Some(thread) }
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap().clone()
    }

    /// Waits until the client has put `more` further jobs.
    fn wait_for_puts(&self, more: usize) {
        let before = self.known().put.len();
        wait::until("more puts", || self.known().put.len() >= before + more);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Puts some jobs and deletes some jobs. Returns `None` if the connection ended.
fn step(stream: &TcpStream, known: &Mutex<Known>, rng: &mut Rng) -> Option<()> {
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut line = || {
        let mut line = String::new();
        (replies.read_line(&mut line).ok()? > 0 && line.ends_with('\n')).then_some(line)
    };
    let count = 1 + rng.below(20);
    for _ in 0..count {
        let body = format!("body-{}", "x".repeat(rng.below(6_000) as usize));
        let put = format!("put 0 0 60 {}\r\n{body}\r\n", body.len());
        stream.write_all(put.as_bytes()).ok()?;
    }
    for _ in 0..count {
        let id = line()?.trim().strip_prefix("INSERTED ")?.parse().unwrap();
        known.lock().unwrap().put.insert(id);
    }
    let ids: Vec<u64> = {
        let known = known.lock().unwrap();
        let left: Vec<u64> = known.put.difference(&known.given_up).copied().collect();
        // Delete both old and new jobs. Then reclaim copies some jobs, and frees files.
        (0..left.len().saturating_sub(KEPT_JOBS))
            .map(|_| left[rng.below(left.len() as u64) as usize])
            .collect()
    };
    let ids: BTreeSet<u64> = ids.into_iter().collect();
    known.lock().unwrap().given_up.extend(&ids);
    let deletes: Vec<String> = ids.iter().map(|id| format!("delete {id}\r\n")).collect();
    stream.write_all(deletes.concat().as_bytes()).ok()?;
    for id in ids {
        assert_eq!(line()?, "DELETED\r\n");
        known.lock().unwrap().deleted.insert(id);
    }
    Some(())
}

/// Starts a server on a backup. `before` and `after` are the client's records before the backup
/// began and after it ended. The server must have every job that was put before, unless its delete
/// was sent. It must have no job whose delete was acknowledged before.
fn check_backup(folder: &Path, backup: &str, before: &Known, after: &Known) {
    let (code, said) = run(folder, &["log", "check", backup]);
    assert!(code == 0 && said.contains("intact"), "{code} {said}");
    let mut restored = serve_on(folder, backup);
    let last = after.put.last().copied().unwrap_or(0) + 100;
    let found = jobs_of(&mut restored, last);
    let lost: Vec<_> =
        before.put.difference(&after.given_up).filter(|id| !found.contains(id)).collect();
    assert!(lost.is_empty(), "the backup lacks jobs {lost:?}");
    let risen: Vec<_> = found.intersection(&before.deleted).collect();
    assert!(risen.is_empty(), "deleted jobs came back: {risen:?}");
    stop(restored);
}

fn is_on_other_disk(folder: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let other = device(Path::new(OTHER_DISK));
    other.is_some() && other != device(folder)
}

#[test]
fn backups_of_a_busy_server_have_everything_that_was_acknowledged_before() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in(OTHER_DISK).unwrap();
    let folder = folder.path();
    fs::write(folder.join("lineshaft.toml"), SMALL_SEGMENTS).unwrap();
    let mut server = Running::start(folder, &SERVE);
    let client = Client::start(&server.address(), settings::seed());
    client.wait_for_puts(500);
    for round in 0..3 {
        client.wait_for_puts(200);
        let linked = format!("linked-{round}");
        let before = client.known();
        let (code, said) = run(folder, &["backup", &linked, "--data", "d"]);
        let after = client.known();
        assert!(code == 0 && said.contains("by a link"), "{code} {said}");
        check_backup(folder, &linked, &before, &after);

        // The configuration names another data folder. The environment overrides it.
        let before = client.known();
        let archive = format!("{round}.tar");
        let mut backup = command(folder, &["backup", &archive]);
        let ended = finish({
            backup.env("LINESHAFT_DATA_DIR", "d");
            backup
        });
        let after = client.known();
        assert!(ended.status.success(), "{ended:?}");
        let unpacked = format!("unpacked-{round}");
        unpack(folder, &archive, &unpacked);
        check_backup(folder, &unpacked, &before, &after);

        if !is_on_other_disk(folder) {
            tools::leave_out("temporary files are on the only file system");
            continue;
        }
        let copied = other.path().join(round.to_string());
        let copied = copied.to_str().unwrap();
        let before = client.known();
        // This takes about a second. Meanwhile, reclaim continues, and the log uses new files.
        let copy = ["backup", copied, "--data", "d", "--rate", "2MiB", "--json"];
        let made = finish(command(folder, &copy));
        let after = client.known();
        let value: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!((made.status.code(), &value["linked"]), (Some(0), &0.into()), "{value}");
        let segments = fs::read_dir(copied).unwrap().count() - 1;
        assert_eq!(value["segments"], segments, "besides the manifest: {value}");
        check_backup(folder, copied, &before, &after);
    }
    drop(client);
    stop(server);
    assert!(!folder.join("d/control").exists(), "the control socket stays");
}

fn unpack(folder: &Path, archive: &str, to: &str) {
    fs::create_dir(folder.join(to)).unwrap();
    let mut tar = Command::new("tar");
    let ended = tar.args(["xf", archive, "-C", to]).current_dir(folder).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn a_stream_goes_through_a_pipe_and_a_cut_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("lineshaft.toml"), SMALL_SEGMENTS).unwrap();
    let mut server = Running::start(folder, &SERVE);
    let client = Client::start(&server.address(), 7);
    client.wait_for_puts(600);
    let before = client.known();
    let stream = finish(command(folder, &["backup", "-", "--data", "d", "--json"]));
    let value: serde_json::Value = serde_json::from_slice(&stream.stderr).unwrap();
    assert_eq!(value["target"], "-", "the stream has standard output");
    let after = client.known();
    assert!(stream.status.success(), "{stream:?}");
    fs::write(folder.join("whole"), &stream.stdout).unwrap();
    unpack(folder, "whole", "restored");
    let mode = fs::metadata(folder.join("restored/manifest")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    check_backup(folder, "restored", &before, &after);

    // The end of the stream is missing. `tar` reports an error, and extracts the files that
    // arrived.
    for part in [1, 3, 5, 7] {
        let cut = &stream.stdout[..stream.stdout.len() * part / 8];
        fs::write(folder.join("cut"), cut).unwrap();
        let to = format!("cut-{part}");
        fs::create_dir(folder.join(&to)).unwrap();
        let mut tar = Command::new("tar");
        tar.args(["xf", "cut", "-C", &to]).current_dir(folder).output().unwrap();
        for arguments in
            [&["serve", "--data", &to, "--beanstalk", "127.0.0.1:0"][..], &["log", "check", &to]]
        {
            let (code, said) = run(folder, arguments);
            assert!(code == 65 && said.contains("incomplete backup"), "{part}: {code} {said}");
        }
    }
    drop(client);
    // The reader of the stream ends early.
    let mut backup = command(folder, &["backup", "-", "--data", "d"]);
    let mut backup = backup.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(backup.stdout.take());
    let ended = backup.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("the reader of the stream"), "{said}");
    stop(server);
}

#[test]
fn killing_either_side_at_any_moment_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in(OTHER_DISK).unwrap();
    let folder = folder.path();
    let seed = settings::seed();
    println!("repeat with LINESHAFT_SEED={seed}");
    let mut rng = Rng::new(seed);
    fs::write(folder.join("lineshaft.toml"), SMALL_SEGMENTS).unwrap();
    let mut server = Running::start(folder, &SERVE);
    let mut kept = Known::default();
    for round in 0..settings::rounds(4) {
        let client = Client::start(&server.address(), rng.below(u64::MAX));
        client.wait_for_puts(300);
        let linked = format!("linked-{round}");
        let copied = other.path().join(round.to_string()).to_str().unwrap().to_owned();
        let target = if rng.below(3) == 0 { linked } else { copied };
        let before = client.known();
        let mut backup = spawn(folder, &["backup", &target, "--data", "d", "--rate", "3MiB"]);
        let time = Duration::from_millis(rng.below(900));
        wait::let_pass(time, "the kill comes at a random moment of the backup");
        let kills_server = rng.below(2) == 0;
        if kills_server {
            server.signal(Signal::KILL);
            server.wait();
        } else {
            // Ignore an error: the backup may have ended already.
            let _ = backup.kill();
        }
        let ended = backup.wait_with_output().unwrap();
        let after = client.known();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let unfinished = folder.join(format!("{target}.unfinished"));
        if ended.status.success() {
            check_backup(folder, &target, &before, &after);
        } else {
            assert!(!folder.join(&target).exists(), "a failed backup has no name: {said}");
            assert!(
                !kills_server || !unfinished.exists() && said.starts_with("lineshaft: "),
                "{said}"
            );
        }
        let all = client.known.clone();
        drop(client);
        let all = all.lock().unwrap();
        kept.put.extend(all.put.difference(&all.given_up));
        if kills_server {
            server = Running::start(folder, &SERVE);
        }
        // The server has lost no job, and a new backup succeeds.
        if unfinished.exists() {
            let (code, said) = run(folder, &["backup", &target, "--data", "d"]);
            assert!(code == 1 && said.contains("left over from an interrupted backup"), "{said}");
            fs::remove_dir_all(&unfinished).unwrap();
        }
        let again = format!("again-{round}");
        let (code, said) = run(folder, &["backup", &again, "--data", "d"]);
        assert_eq!(code, 0, "{said}");
        check_backup(folder, &again, &kept, &kept);
    }
    stop(server);
}

fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = command(folder, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_backup_that_cannot_be_made_says_why_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("empty")).unwrap();
    // There is no log in this folder, as with `--memory`.
    let (code, said) = run(folder, &["backup", "b", "--data", "empty"]);
    assert!(code == 1 && said.contains("nothing to back up"), "{code} {said}");
    let (code, said) = run(folder, &["backup", "b", "--data", "missing"]);
    assert!(code == 1 && said.contains("nothing to back up"), "{code} {said}");
    let mut memory = command(folder, &["backup", "b"]);
    memory.env("LINESHAFT_DATA_SYNC", "memory");
    let ended = finish(memory);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("nothing to back up"), "{said}");

    let mut server = Running::start(folder, &SERVE);
    ask(&server.address(), "put 0 0 60 1\r\nx\r\n");
    // The target folder is not empty.
    fs::create_dir(folder.join("used")).unwrap();
    fs::write(folder.join("used/file"), "").unwrap();
    fs::write(folder.join("used.tar"), "").unwrap();
    for (target, complaint) in
        [("used", "not empty"), ("used.tar", "name a new file"), ("d/inside", "is inside")]
    {
        let (code, said) = run(folder, &["backup", target, "--data", "d"]);
        assert!(code == 1 && said.contains(complaint), "{target}: {code} {said}");
    }
    assert_eq!(fs::read(folder.join("used.tar")).unwrap(), b"");
    let (code, said) = run(folder, &["backup", "b", "--data", "d", "--rate", "0"]);
    assert!(code == 2 && said.contains("at least 1 byte"), "{code} {said}");

    // Only the server's user can use the socket.
    let socket = folder.join("d/control");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    if rustix::process::geteuid().is_root() {
        for path in [folder, &folder.join("d")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut backup = command(folder, &["backup", "/dev/null/b", "--data", "d"]);
        backup.uid(65534).gid(65534);
        match backup.output() {
            Ok(ended) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                assert_eq!(ended.status.code(), Some(77), "{said}");
                assert!(said.contains("run this command as its user"), "{said}");
            }
            Err(error) => tools::leave_out(&format!("another user cannot run it: {error}")),
        }
    } else {
        tools::leave_out("only root can run a program as another user");
    }

    // The disk of the target is full.
    if tools::may_mount_or_skip(false) {
        let small = folder.join("small");
        fs::create_dir(&small).unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&small).status();
        assert!(mounted.unwrap().success());
        for target in ["small/b", "small/b.tar"] {
            let (code, said) = run(folder, &["backup", target, "--data", "d"]);
            let left = fs::read_dir(&small).unwrap().count();
            assert!(code == 74 && said.contains("cannot write"), "{target}: {code} {said}");
            assert_eq!(left, 0, "{target}");
        }
        assert!(Command::new("umount").arg(&small).status().unwrap().success());
    }
    assert_eq!(ask(&server.address(), "peek 1\r\n"), "FOUND 1 1\r\nx\r\n");
    stop(server);
    let (code, said) = run(folder, &["backup", "b", "--data", "d"]);
    assert!(code == 1 && said.contains("no server uses"), "{code} {said}");
    assert!(!folder.join("b").exists() && !folder.join("b.unfinished").exists());
}

#[test]
fn the_exit_code_tells_an_interrupted_backup_from_a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = Running::start(folder, &SERVE);
    ask(&server.address(), "put 0 0 60 1\r\nx\r\n");
    for target in ["b", "b.tar"] {
        // At this rate, it takes a minute.
        let backup = spawn(folder, &["backup", target, "--data", "d", "--rate", "1MiB"]);
        let unfinished = folder.join(format!("{target}.unfinished"));
        wait::until("the backup begins", || unfinished.exists());
        kill_process(Pid::from_child(&backup), Signal::INT).unwrap();
        let ended = backup.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{target}: {said}");
        assert!(said.contains("interrupted: there is no backup"), "{target}: {said}");
        assert!(!unfinished.exists() && !folder.join(target).exists(), "{target}");
    }

    let segment = File::options().write(true).open(folder.join("d/0000000001.seg")).unwrap();
    segment.write_all_at(b"damage", 0).unwrap();
    for target in ["b", "b.tar"] {
        let (code, said) = run(folder, &["backup", target, "--data", "d"]);
        assert!(code == 65 && said.contains("is damaged at offset 0"), "{target}: {code} {said}");
        assert!(!folder.join(target).exists(), "{target}");
    }
}

#[test]
fn a_long_path_and_a_killed_server_do_not_prevent_backups() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let long = ["n".repeat(60), "m".repeat(60)].join("/");
    let arguments = ["serve", "--data", &long, "--beanstalk", "127.0.0.1:0"];
    let mut server = Running::start(folder, &arguments);
    server.signal(Signal::KILL);
    server.wait();
    assert!(folder.join(&long).join("control").exists(), "the socket is left over");
    let (code, said) = run(folder, &["backup", "b", "--data", &long]);
    assert!(code == 1 && said.contains("no server uses"), "{code} {said}");
    let server = Running::start(folder, &arguments);
    let (code, said) = run(folder, &["backup", "b", "--data", &long]);
    assert_eq!(code, 0, "{said}");
    stop(server);
}

#[test]
fn a_client_of_the_api_gets_a_backup() {
    if tools::find_or_skip("curl").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("lineshaft.toml"), SMALL_SEGMENTS).unwrap();
    let mut server = Running::start(folder, &[&SERVE[..], &["--http", "127.0.0.1:0"]].concat());
    let curl = |url: &str, more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "-X", "POST", "-w", "%{http_code}"]).args(more);
        curl.arg(url).current_dir(folder).stdin(Stdio::null());
        curl
    };
    let socket = folder.join("d/api").display().to_string();
    let path = "/api/v1/server/backup";
    let url = format!("http://localhost{path}");
    let at_socket = ["--unix-socket", socket.as_str()];
    let status = |mut curl: Command| String::from_utf8(curl.output().unwrap().stdout).unwrap();
    let http = format!("http://{}{path}", server.address_of("http"));
    assert_eq!(status(curl(&http, &["-o", "/dev/null"])), "401", "a client without a token");

    let client = Client::start(&server.address(), settings::seed());
    client.wait_for_puts(500);
    let before = client.known();
    assert_eq!(status(curl(&url, &[&at_socket[..], &["-o", "got.tar"]].concat())), "200");
    let after = client.known();
    unpack(folder, "got.tar", "restored");
    check_backup(folder, "restored", &before, &after);

    // While a client reads a backup slowly, a second one is refused. A client that leaves ends its
    // backup.
    let slowly = ["--limit-rate", "1k", "-o", "slow.tar"];
    let mut slow = curl(&url, &[&at_socket[..], &slowly].concat());
    let mut slow = slow.stdout(Stdio::null()).spawn().unwrap();
    wait::until("the slow backup begins", || folder.join("slow.tar").exists());
    let again = || status(curl(&url, &[&at_socket[..], &["-o", "again.tar"]].concat()));
    assert_eq!(again(), "503");
    slow.kill().unwrap();
    slow.wait().unwrap();
    wait::until("the slow backup ends", || again() == "200");
    drop(client);
    stop(server);
    // The stream that was cut is no backup.
    let mut tar = Command::new("tar");
    let cut = tar.args(["tf", "slow.tar"]).current_dir(folder).output().unwrap();
    assert!(!cut.status.success(), "{cut:?}");
}

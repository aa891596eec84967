//! Tests failed starts. Each kind of failure must have its own exit code, and a message that says
//! what the operator must do.

use std::net::TcpListener;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::ask;
use crate::running::{Running, command, finish};

/// The id of a user without files. Most systems call this user `nobody`.
const NOBODY: u32 = 65_534;

/// Returns the exit code and the error output of a failed start.
fn failed(folder: &Path, arguments: &[&str]) -> (i32, String) {
    failed_start(&finish(command(folder, arguments)))
}

fn failed_start(finished: &Output) -> (i32, String) {
    let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(
        stderr.lines().filter(|line| line.starts_with("lineshaft: ")).count(),
        1,
        "{stderr}"
    );
    (finished.status.code().expect("no signal ended it"), stderr)
}

#[test]
fn a_taken_port() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = failed(folder.path(), &["serve", "--memory", "--beanstalk", &address]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("{address}: the address is in use")), "{said}");
}

#[test]
fn several_taken_ports_are_all_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, other] = taken.each_ref().map(|port| port.local_addr().unwrap().to_string());
    let arguments = ["serve", "--memory", "--beanstalk", &one, "--kestrel-text", &other];
    let (code, said) = failed(folder.path(), &arguments);
    assert_eq!(code, 69, "{said}");
    let named = format!("{one} (listen.beanstalk), {other} (listen.kestrel_text): these addresses");
    assert!(said.contains(&named), "{said}");
}

#[test]
fn a_folder_in_which_another_server_works() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--data", "d", "--beanstalk", "127.0.0.1:0"];
    let _first = Running::start(folder.path(), &arguments);
    let (code, said) = failed(folder.path(), &arguments);
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("locked by another process"), "{said}");
}

#[test]
fn a_wrong_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), "[data]\nsnyc = \"never\"\n").unwrap();
    let (code, said) = failed(folder.path(), &["serve"]);
    assert_eq!(code, 78, "{said}");
    let expected = "lineshaft.toml:2:1: unknown key `data.snyc`; did you mean `data.sync`?";
    assert!(said.contains(expected), "{said}");
    let (code, said) = failed(folder.path(), &["serve", "--config", "missing.toml"]);
    assert_eq!(code, 78, "{said}");
}

#[test]
fn a_wrong_flag() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = failed(folder.path(), &["serve", "--sync", "sometimes"]);
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("--sync: `sometimes` is not"), "{said}");
}

#[test]
fn a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--data", "d", "--beanstalk", "127.0.0.1:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let body = "b".repeat(1000);
    let request = format!("put 0 0 60 1000\r\n{body}\r\n").repeat(10);
    ask(&server.address(), &request);
    server.signal(rustix::process::Signal::TERM);
    server.wait();
    let segment = folder.path().join("d/0000000001.seg");
    let file = std::fs::File::options().write(true).open(&segment).unwrap();
    file.write_all_at(b"damage", 6000).unwrap();
    let (code, said) = failed(folder.path(), &arguments);
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("0000000001.seg"), "{said}");
}

#[test]
fn a_data_folder_that_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), "").unwrap();
    let arguments = ["serve", "--data", "f", "--beanstalk", "127.0.0.1:0"];
    let (code, said) = failed(folder.path(), &arguments);
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("data folder f") && said.contains("name a folder"), "{said}");
}

#[test]
fn a_data_folder_that_the_user_may_not_use() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d");
    std::fs::create_dir(&data).unwrap();
    permit(folder.path(), 0o755);
    permit(&data, 0o000);
    let serve = command(folder.path(), &["serve", "--data", "d", "--beanstalk", "127.0.0.1:0"]);
    let started = finish_without_rights(serve);
    let checked = finish_without_rights(command(folder.path(), &["log", "check", "d"]));
    permit(&data, 0o755);
    let (code, said) = failed_start(&started);
    assert_eq!(code, 77, "{said}");
    assert!(said.contains("read and write access"), "{said}");
    assert_eq!(checked.status.code(), Some(77), "{checked:?}");
}

#[test]
fn a_certificate_that_the_user_may_not_read() {
    let folder = tempfile::tempdir().unwrap();
    permit(folder.path(), 0o755);
    let certificate = folder.path().join("server.pem");
    std::fs::write(&certificate, "").unwrap();
    permit(&certificate, 0o000);
    let file = "[listen]\nbeanstalk = \"tls:127.0.0.1:0\"\n[tls]\ncertificate = \"server.pem\"\n\
                key = \"server.key\"\n";
    std::fs::write(folder.path().join("lineshaft.toml"), file).unwrap();
    // `config check` must print the same error as the start.
    for arguments in [&["serve", "--memory"][..], &["config", "check"]] {
        let finished = finish_without_rights(command(folder.path(), arguments));
        let said = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.status.code(), Some(77), "{arguments:?}: {said}");
        assert!(said.contains("server.pem"), "{said}");
    }
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs the command to its end, without root's rights.
fn finish_without_rights(command: Command) -> Output {
    // A process of another user does not have root's rights.
    if !rustix::process::geteuid().is_root() {
        return finish(command);
    }
    // The user may have no access to the folder of the build. So the program is copied.
    let folder = tempfile::tempdir().unwrap();
    permit(folder.path(), 0o755);
    let program = folder.path().join("lineshaft");
    std::fs::copy(command.get_program(), &program).unwrap();
    let mut copied = Command::new(program);
    copied.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => copied.env(name, value),
            None => copied.env_remove(name),
        };
    }
    copied.stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
    finish(copied)
}

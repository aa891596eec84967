//! Tests that the files for containers agree with each other and with the program. The image itself
//! needs a static build, so the test runs its commands with the program of this test run.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::process::Signal;

use super::ask;
use crate::running::{Running, command, finish};

fn packaging(file: &str) -> String {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The instructions of the Containerfile, each with its arguments in one line.
struct Image(Vec<(String, String)>);

impl Image {
    fn read() -> Image {
        let text = packaging("packaging/container/Containerfile").replace("\\\n", " ");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parts = lines.map(|line| line.split_once(' ').unwrap());
        Image(parts.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect())
    }

    /// The arguments of the only instruction with this name.
    fn one(&self, name: &str) -> &str {
        let mut all = self.0.iter().filter(|(instruction, _)| instruction == name);
        let (_, rest) = all.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(all.next().is_none(), "{name} twice");
        rest
    }

    fn environment(&self) -> BTreeMap<&str, &str> {
        self.one("ENV").split_whitespace().map(|pair| pair.split_once('=').unwrap()).collect()
    }

    /// The command in the JSON list at the end of an instruction.
    fn list(&self, name: &str) -> Vec<String> {
        let rest = self.one(name);
        serde_json::from_str(&rest[rest.find('[').unwrap()..]).unwrap()
    }
}

/// The program with the settings of the image, in this folder. Each address of the image becomes a
/// free one of this machine.
fn in_image(folder: &std::path::Path, image: &Image, arguments: &[String]) -> Command {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = command(folder, &arguments);
    for (name, value) in image.environment() {
        let is_address = name.starts_with("LINESHAFT_LISTEN_");
        let value = if is_address { "127.0.0.1:0" } else { value };
        let data = folder.join("data");
        let value = if value == image.one("VOLUME") { data.to_str().unwrap() } else { value };
        command.env(name, value);
    }
    command
}

#[test]
fn the_container_publishes_the_ports_of_its_settings() {
    let image = Image::read();
    let folder = tempfile::tempdir().unwrap();
    let mut show = command(folder.path(), &["config", "show"]);
    show.envs(image.environment());
    let shown = finish(show);
    assert!(shown.status.success(), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).unwrap();
    let mut listeners: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_once("\"0.0.0.0:")?.1.split('"').next())
        .collect();
    assert_eq!(listeners.len(), 4, "{shown}");
    listeners.sort_unstable();
    let mut exposed: Vec<&str> = image.one("EXPOSE").split(' ').collect();
    exposed.sort_unstable();
    assert_eq!(exposed, listeners);

    let compose = packaging("packaging/container/compose.yaml");
    for port in &exposed {
        assert!(compose.contains(&format!("- \"127.0.0.1:{port}:{port}\"\n")), "{port}");
    }
    assert_eq!(compose.matches("- \"127.0.0.1:").count(), exposed.len(), "no other port is public");
    let data = image.environment()["LINESHAFT_DATA_DIR"];
    assert_eq!((image.one("VOLUME"), image.one("WORKDIR")), (data, data));
    assert!(compose.contains(&format!("- jobs:{data}\n")), "{compose}");
    let copies = image.0.iter().filter(|(name, _)| name == "COPY");
    let copies: Vec<Vec<&str>> = copies
        .map(|(_, rest)| rest.split(' ').filter(|word| !word.starts_with("--")).collect())
        .collect();
    assert_eq!(copies, [["lineshaft", "/lineshaft"], ["data", data]]);
    let script = packaging("scripts/package");
    for copy in copies {
        assert!(script.contains(&format!("\"$context/{}\"", copy[0])), "the script makes {copy:?}");
    }
    assert!(script.contains("--tag lineshaft "), "compose.yaml runs the image of this name");
    assert!(compose.contains("image: lineshaft\n"), "{compose}");
}

#[test]
fn the_commands_of_the_container_serve_and_check_the_health() {
    let image = Image::read();
    let folder = tempfile::tempdir().unwrap();
    let [entry, serve] = [image.list("ENTRYPOINT"), image.list("CMD")];
    let health = image.one("HEALTHCHECK");
    let health: Vec<String> = serde_json::from_str(&health[health.find('[').unwrap()..]).unwrap();
    assert_eq!(entry, ["/lineshaft"]);
    assert_eq!(health[0], entry[0], "the image has no other program");
    // A server that another program runs on the default port would also answer. So see who it is.
    let data = folder.path().join("data");
    let healthy = || {
        let done = finish(in_image(folder.path(), &image, &health[1..]));
        let answered = String::from_utf8(done.stdout).unwrap();
        done.status.success() && answered.contains(data.to_str().unwrap())
    };
    assert!(!healthy(), "the server does not run yet");
    let mut server = Running::spawn(in_image(folder.path(), &image, &serve));
    let address = server.address();
    assert!(healthy());
    assert_eq!(ask(&address, "put 0 0 60 1\r\nx\r\n"), "INSERTED 1\r\n");
    let signal = image.one("STOPSIGNAL");
    assert_eq!(signal, "SIGTERM");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(data.read_dir().unwrap().count() > 0, "the jobs are in the volume");
}

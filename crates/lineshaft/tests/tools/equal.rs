//! The lines that the console shows as commands and as HTTP requests: a shell runs them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::tools;
use testkit::wait::until as wait_until;

use crate::operator::Site;
use crate::request::{Answer, Peer};
use crate::{LINESHAFT, Tool};

/// A name that a shell must not interpret.
const HOSTILE: &str = "-it's $(touch x) `id` \"z\" \\ ; é";

/// The lines of a page.
fn lines(page: &str) -> Vec<String> {
    let (_, rest) = page.split_once("<details class=\"equal\">").expect("the page has lines");
    let (part, _) = rest.split_once("</details>").unwrap();
    let lines = part.split("<code>").skip(1).map(|rest| rest.split("</code>").next().unwrap());
    let plain = |line: &str| {
        line.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    };
    lines.map(plain).collect()
}

#[test]
fn a_shell_runs_what_the_console_shows() {
    let Some(_) = tools::find_or_skip("curl") else { return };
    let site = Site::new();
    let http = site.server.address_of("http").to_string();
    let tokens = site.data.path().join("tokens.toml");
    let add = ["token", "add", "ann", "--role", "admin", "--file", tokens.to_str().unwrap()];
    let token = Tool::start("", &add).wait().stdout.trim().to_owned();
    let ask = |method: &str, path: &str, body: &str| -> Answer {
        let mut peer = Peer::connect(&http);
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {http}\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        peer.send(head.as_bytes());
        peer.answer(true)
    };
    wait_until("the token", || ask("GET", "/api/v1/me", "").status == 200);
    let hostile = percent_encoding::utf8_percent_encode(
        &api::shown_name(HOSTILE.as_bytes()),
        percent_encoding::NON_ALPHANUMERIC,
    )
    .to_string();
    for body in ["one", "two"] {
        assert_eq!(ask("POST", &format!("/api/v1/queues/{hostile}/jobs"), body).status, 201);
    }
    assert_eq!(ask("POST", "/api/v1/jobs/2/bury", "{}").status, 204);
    // The queues stay when a line moves their jobs.
    for queue in ["mail", &hostile] {
        assert_eq!(ask("PUT", &format!("/api/v1/queues/{queue}"), "").status, 204);
    }

    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(LINESHAFT).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    // The commands and requests of all pages, and those that had something to show or to do.
    let (mut seen, mut worked) = (BTreeSet::new(), BTreeSet::new());
    for page in [
        String::new(),
        "/queues?search=ma&sort=-ready".to_owned(),
        "/queues/mail".to_owned(),
        "/queues/mail?state=leased".to_owned(),
        "/queues/mail?state=delayed&search=it's%20%26".to_owned(),
        format!("/queues/{hostile}"),
        "/jobs/1".to_owned(),
        "/jobs/2".to_owned(),
        "/connections?protocol=beanstalk&address=127.".to_owned(),
        "/operations".to_owned(),
        "/sessions".to_owned(),
        "/log".to_owned(),
        "/policies".to_owned(),
        format!("/policies?name={hostile}"),
    ] {
        let shown = ask("GET", &format!("/console{page}"), "");
        assert_eq!(shown.status, 200, "{page}: {shown:?}");
        for line in lines(&shown.body) {
            let is_curl = line.starts_with("curl ");
            let status = " -s -o /dev/null -w '%{http_code}'";
            let run = if is_curl { format!("{line}{status}") } else { line.clone() };
            let output = Command::new("sh")
                .args(["-c", &run])
                .env("PATH", &path)
                .env("LINESHAFT_TOKEN", &token)
                .current_dir(folder.path())
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            if is_curl {
                // Without a confirmation, the server only says how many jobs would end.
                let is_done =
                    printed.starts_with('2') || line.contains("clear") && printed == "409";
                // An earlier line of the page did the same.
                let is_again = line.contains("/jobs/") && ["404", "409"].contains(&&*printed);
                assert!(is_done || is_again, "{page}: {line}: {printed}");
            } else {
                // Wrong arguments would be 2. 1 means that there was nothing to show or to do.
                assert!(matches!(output.status.code(), Some(0 | 1)), "{page}: {line}: {output:?}");
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(!error.contains("cannot connect"), "{line}: {error}");
            }
            let name = line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
            if output.status.success() {
                worked.insert(name.clone());
            }
            seen.insert(name);
        }
    }
    for command in
        ["jobs", "why", "pause", "kick", "move", "clear", "peek", "delete", "status", "sessions"]
    {
        let name = format!("lineshaft {command}");
        assert!(seen.contains(&name), "{command}: {seen:?}");
        // Without a confirmation, `clear` only says how many jobs would end.
        assert!(command == "clear" || worked.contains(&name), "{command}: {worked:?}");
    }
    // Only the backup is a file.
    std::fs::remove_file(folder.path().join("lineshaft-backup.tar")).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the shell ran a name");
}

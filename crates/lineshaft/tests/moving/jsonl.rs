//! Tests that `import` reads the lines that `export` writes, and what it does with its data folder.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use serde_json::json;
use testkit::client::Client;
use testkit::process::Program;
use testkit::tools;

use super::{all, command, done, exported, path, run, serve};

#[test]
fn an_export_makes_the_same_jobs_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    for (pri, delay_s, body) in [(9, 0, &b"text"[..]), (1, 0, b"\xFF\0"), (5, 900, b"later")] {
        client.put(pri, delay_s, 60, body).unwrap();
    }
    for _ in 0..2 {
        let id = client.put(0, 0, 60, b"bad").unwrap();
        client.reserve(0).unwrap().unwrap();
        client.expect(&format!("bury {id} 3"), "BURIED").unwrap();
    }
    let mut other = Client::on_tube(server.address(), "other").unwrap();
    other.put(0, 0, 60, b"another queue").unwrap();
    server.terminate().unwrap();

    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "id"), [1, 2, 3, 4, 5, 6]);
    let states = ["ready", "ready", "delayed", "buried", "buried", "ready"];
    assert_eq!(all(&jobs, "state"), states);
    let export = command(place, &["export", "--all"]).output().unwrap();
    fs::write(place.join("all.jsonl"), &export.stdout).unwrap();
    let said = done(place, &["import", "jsonl", "all.jsonl", "--data", "copy"]);
    assert!(said.contains("6 jobs: with the old number"), "{said}");
    assert_eq!(exported(place, "copy"), jobs, "nothing is lost on the way");

    let mail = command(place, &["export", "mail"]).output().unwrap();
    assert_eq!(mail.stdout.split(|byte| *byte == b'\n').count(), 6);
    let (code, said) = run(place, &["export", "mail", "--data", "nowhere"]);
    assert!(code == 1 && said.contains("nowhere"), "{code} {said}");
    let (code, said) = run(place, &["export", "nail", "other"]);
    assert!(code == 1 && said.contains("1 job written"), "{code} {said}");
    assert!(said.contains("queue nail: ") && !said.contains("queue other: "), "{said}");
}

#[test]
fn equal_jobs_of_two_sources_are_both_imported() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let line =
        |id: u64, body: &str| format!("{}\n", json!({ "queue": "q", "id": id, "body": body }));
    let (same, more) = (line(1, "same"), line(2, "more"));
    fs::write(place.join("one.jsonl"), &same).unwrap();
    fs::write(place.join("two.jsonl"), [&*same, &*more].concat()).unwrap();
    done(place, &["import", "jsonl", "one.jsonl"]);
    let said = done(place, &["import", "jsonl", "two.jsonl"]);
    assert!(said.contains("1 job: with a new number"), "{said}");
    let bodies = || {
        let mut bodies = all(&exported(place, "lineshaft-data"), "body");
        bodies.sort_by_key(ToString::to_string);
        bodies
    };
    assert_eq!(bodies(), ["more", "same", "same"]);

    // For the same source, jobs with the same number, queue and body are the same jobs.
    let said = done(place, &["import", "jsonl", "two.jsonl", "--again"]);
    assert!(said.contains("2 jobs: not imported: the queue already has the same job"), "{said}");
    assert_eq!(bodies(), ["more", "same", "same"]);
}

#[test]
fn lines_come_from_a_pipe_and_wrong_ones_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut import = command(place, &["import", "jsonl", "-"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines =
        "{\"queue\":\"q\",\"body\":\"b\"}\nnonsense\n{\"queue\":\"q\",\"id\":7,\"body\":\"c\"}\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(65), "{said}");
    assert!(said.contains("standard input in line 2: not imported"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "body"), ["b", "c"]);
    assert_eq!(jobs[1]["id"], 7);
}

#[test]
fn an_import_reports_as_json_and_names_cannot_change_the_terminal() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let name = "a\u{1b}[2J\u{202e}b";
    let line = json!({ "queue": name, "body": "one" });
    let bytes = "{\"queue_base64\":\"/3E=\",\"body\":\"two\"}";
    fs::write(place.join("in.jsonl"), format!("{line}\nnonsense\n{bytes}\n")).unwrap();
    let import = |more: &[&str], code: i32| {
        let arguments = [&["import", "jsonl", "in.jsonl"], more].concat();
        let done = command(place, &arguments).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{done:?}");
        let hostile = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(!said.contains(hostile), "{said:?}");
        said
    };
    let value = |said: &str| -> serde_json::Value {
        assert_eq!(said.lines().count(), 1, "{said}");
        serde_json::from_str(said).unwrap()
    };
    let planned = value(&import(&["--dry-run", "--json"], 65));
    let of = |value: &serde_json::Value| {
        json!([value["dry_run"], value["imported"], value["jobs"], value["earlier"]])
    };
    assert_eq!(of(&planned), json!([true, 0, 2, null]));
    assert!(import(&["--dry-run"], 65).contains("a\\x1b[2J\\u202eb"));
    let done = value(&import(&["--json"], 65));
    assert_eq!(of(&done), json!([false, 2, 2, null]));
    assert_eq!(done["queues"][0]["queue"], name, "the value is that of the source");
    assert_eq!(done["queues"][1]["queue_base64"], "/3E=");
    assert_eq!(json!([done["queues"][0]["ready"], done["queues"][0]["bytes"]]), json!([1, 3]));
    assert!(done["losses"][0]["place"].as_str().unwrap().contains("line 2"), "{done}");
    let again = value(&import(&["--json"], 0));
    assert_eq!(of(&again), json!([false, 0, 2, "done"]));
}

#[test]
fn very_many_wrong_lines_are_counted_and_not_all_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::write(place.join("in.jsonl"), "nonsense\n".repeat(12_000)).unwrap();
    let import = ["import", "jsonl", "in.jsonl", "--dry-run"];
    let (code, said) = run(place, &import);
    assert!(code == 65 && said.contains("and 11,000 more places\n"), "{code} {said}");
    let done = command(place, &[&import[..], &["--json"]].concat()).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(value["losses"].as_array().unwrap().len(), 10_000);
    assert_eq!(value["more_losses"], 2_000);
}

#[test]
fn a_running_server_is_exported_through_a_backup() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    client.put(0, 0, 60, b"text").unwrap();
    done(place, &["backup", "copy", "--data", "lineshaft-data"]);
    assert_eq!(all(&exported(place, "copy"), "body"), ["text"]);
}

#[test]
fn an_export_names_what_it_cannot_write() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let config = place.join("policies.toml");
    fs::write(&config, "[[policy]]\nmatch = \"mail\"\nretries = { limit = 0 }\n").unwrap();
    let data = place.join("lineshaft-data");
    let arguments = ["--data", data.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let server = Program::serve_on(&["beanstalk"], path(), &arguments).start().unwrap();
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    client.put(0, 0, 60, b"good").unwrap();
    server.terminate().unwrap();
    assert!(!done(place, &["export", "--all"]).contains("lost"));

    let server = Program::serve_on(&["beanstalk"], path(), &arguments).start().unwrap();
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    let id = client.reserve(0).unwrap().unwrap().id;
    client.expect(&format!("release {id} 0 0"), "RELEASED").unwrap();
    server.terminate().unwrap();
    let said = done(place, &["export", "--all"]);
    assert!(said.contains("1 job lost something: failed attempts"), "{said}");
}

#[test]
fn unique_jobs_keep_their_keys() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let policy = "[[policy]]\nmatch = \"mail\"\nunique.by = \"prefix:1\"\n";
    let config = place.join("policies.toml");
    fs::write(&config, policy).unwrap();
    let serve = |data: &str| {
        let data = place.join(data);
        let arguments = ["--data", data.to_str().unwrap(), "--config", config.to_str().unwrap()];
        Program::serve_on(&["beanstalk"], path(), &arguments).start().unwrap()
    };
    let server = serve("lineshaft-data");
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    let id = client.put(0, 0, 60, b"a1").unwrap();
    server.terminate().unwrap();
    let export = command(place, &["export", "mail"]).output().unwrap();
    fs::write(place.join("mail.jsonl"), &export.stdout).unwrap();
    done(place, &["import", "jsonl", "mail.jsonl", "--data", "copy"]);
    assert_eq!(exported(place, "copy"), exported(place, "lineshaft-data"));
    let server = serve("copy");
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    assert_eq!(client.put(0, 0, 60, b"a2").unwrap(), id);
    assert_ne!(client.put(0, 0, 60, b"b").unwrap(), id);
}

#[test]
fn a_data_folder_that_cannot_be_used_has_the_exit_code_of_a_server() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::write(place.join("in.jsonl"), "{\"queue\":\"q\"}\n").unwrap();
    let (code, said) = run(place, &["import", "jsonl", "in.jsonl", "--data", "in.jsonl"]);
    assert!(code == 78 && said.contains("a file has this name"), "{code} {said}");

    fs::create_dir(place.join("closed")).unwrap();
    fs::set_permissions(place.join("closed"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(place.join("in.jsonl"), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
    for words in [
        &["import", "jsonl", "in.jsonl", "--dry-run"][..],
        &["import", "jsonl", "in.jsonl"],
        &["export", "--all"],
    ] {
        let mut tool = command(place, &[words, &["--data", "closed"]].concat());
        if rustix::process::geteuid().is_root() {
            // Root can use every folder.
            tool.uid(65534).gid(65534);
        }
        match tool.output() {
            Ok(ended) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                assert_eq!(ended.status.code(), Some(77), "{words:?}: {said}");
                assert!(said.contains("cannot use the data folder closed"), "{said}");
            }
            Err(error) => tools::leave_out(&format!("another user cannot run it: {error}")),
        }
    }
    // The folder can be removed then.
    fs::set_permissions(place.join("closed"), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn without_a_log_an_import_needs_a_named_folder() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::write(place.join("lineshaft.toml"), "[data]\nsync = \"memory\"\n").unwrap();
    fs::write(place.join("in.jsonl"), "{\"queue\":\"q\",\"body\":\"b\"}\n").unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let arguments = [&["import", "jsonl", "in.jsonl"], more].concat();
        let (code, said) = run(place, &arguments);
        assert!(code == 78 && said.contains("name its data folder with --data"), "{code} {said}");
    }
    assert!(!place.join("lineshaft-data").exists());
    done(place, &["import", "jsonl", "in.jsonl", "--data", "named"]);
    assert_eq!(all(&exported(place, "named"), "body"), ["b"]);
}

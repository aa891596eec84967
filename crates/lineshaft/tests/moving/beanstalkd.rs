//! Tests the import of the original's binlog.

use std::fs;
use std::path::Path;
use std::time::Duration;

use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::{tools, wait};

use super::{all, command, contents, done, exported, path, run, serve};

/// The original with a log in this folder. `None` if the original is not installed.
pub(crate) fn original(folder: &Path) -> Option<Program> {
    let program = tools::find_or_skip("/usr/bin/beanstalkd")?;
    fs::create_dir_all(folder).unwrap();
    let arguments = ["-f", "0", "-s", "8192", "-z", "100000", "-b", folder.to_str().unwrap()];
    Some(Program::like_beanstalkd(program, &arguments))
}

fn client(server: &Server) -> Client {
    Client::on_tube(server.address(), "mail").unwrap()
}

/// Puts jobs in every state. Returns their ids: ready, urgent, delayed, buried second, buried
/// first, leased.
fn fill(server: &Server) -> [u64; 6] {
    let mut client = client(server);
    let gone = client.put(0, 0, 60, b"gone").unwrap();
    client.expect(&format!("delete {gone}"), "DELETED").unwrap();
    let mut buried = Vec::new();
    for body in [b"buried second", b"buried first "] {
        buried.push(client.put(3, 0, 60, body).unwrap());
        client.reserve(0).unwrap().unwrap();
    }
    for id in buried.iter().rev() {
        client.expect(&format!("bury {id} 7"), "BURIED").unwrap();
    }
    let ready = client.put(9, 0, 61, b"ready\r\n\0").unwrap();
    let urgent = client.put(5, 0, 62, &vec![b'u'; 20_000]).unwrap();
    let delayed = client.put(4, 500, 63, b"").unwrap();
    let held = client.put(1, 0, 64, b"held").unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, held);
    [ready, urgent, delayed, buried[0], buried[1], held]
}

fn ensure_all_there(server: &Server, ids: [u64; 6]) {
    let [ready, urgent, delayed, second, first, held] = ids;
    let mut client = client(server);
    let stat = |client: &mut Client, id: u64, key: &str| {
        client.stats(&format!("stats-job {id}")).unwrap()[key].clone()
    };
    for (id, state, pri, ttr) in [
        (ready, "ready", "9", "61"),
        (urgent, "ready", "5", "62"),
        (delayed, "delayed", "4", "63"),
        (first, "buried", "7", "60"),
        (second, "buried", "7", "60"),
        (held, "ready", "1", "64"),
    ] {
        let stats = ["state", "pri", "ttr", "tube"].map(|key| stat(&mut client, id, key));
        assert_eq!(stats, [state, pri, ttr, "mail"], "job {id}");
    }
    let left_s: u64 = stat(&mut client, delayed, "time-left").parse().unwrap();
    assert!((400..500).contains(&left_s), "{left_s} s are left");
    let age_s: u64 = stat(&mut client, ready, "age").parse().unwrap();
    assert!((1..400).contains(&age_s), "the age is {age_s} s");
    assert_eq!(stat(&mut client, first, "buries"), "1");
    let order = [held, urgent, ready].map(|id| (id, client.reserve(0).unwrap().unwrap()));
    for (id, job) in order {
        assert_eq!(job.id, id);
    }
    client.expect("kick 1", "KICKED 1").unwrap();
    let kicked = client.reserve(0).unwrap().unwrap();
    assert_eq!((kicked.id, &kicked.body[..]), (first, &b"buried first "[..]));
    let new = client.put(0, 0, 60, b"new").unwrap();
    assert!(new > held, "the number {new} was used before");
    for id in [ready, urgent, delayed, second, first, held, new] {
        client.expect(&format!("delete {id}"), "DELETED").unwrap();
    }
}

#[test]
fn jobs_of_the_original_come_with_all_their_facts() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let Some(program) = original(&place.join("old")) else { return };
    let server = program.start().unwrap();
    let ids = fill(&server);
    let (code, said) = run(place, &["import", "beanstalkd", "old"]);
    assert!(code == 1 && said.contains("stop it first"), "a beanstalkd runs: {code} {said}");
    server.kill();
    wait::let_pass(Duration::from_millis(1_100), "the jobs are a second old");

    let before = contents(place);
    let planned = done(place, &["import", "beanstalkd", "old", "--dry-run"]);
    assert!(planned.contains("would add 6 jobs"), "{planned}");
    assert_eq!(contents(place), before, "a dry run changes nothing");

    let said = done(place, &["import", "beanstalkd", "old"]);
    assert!(
        said.contains("Imported 6 jobs") && said.contains("6 jobs: with the old number"),
        "{said}"
    );
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    ensure_all_there(&server, ids);
    let after = contents(&place.join("old"));
    let unchanged: Vec<_> =
        before.into_iter().filter(|(path, _)| path.starts_with(place.join("old/"))).collect();
    let files = |files: Vec<(std::path::PathBuf, Vec<u8>)>| {
        files.into_iter().filter(|(path, _)| path.is_file()).collect::<Vec<_>>()
    };
    assert_eq!(files(after), files(unchanged), "the source is only read");
}

#[test]
fn a_folder_of_the_original_is_taken_over_in_its_place_and_given_back() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let old = place.join("old");
    let Some(program) = original(&old) else { return };
    let server = program.start().unwrap();
    let id = client(&server).put(0, 0, 60, b"left behind").unwrap();
    server.kill();

    let replacement =
        Program::like_beanstalkd(path(), &["beanstalkd", "-b", old.to_str().unwrap()]);
    let refused = replacement.run_on(0).unwrap();
    let (_, advice) = refused.stderr.split_once("run: lineshaft ").expect("a way out is named");
    let advice: Vec<&str> = advice.split_whitespace().collect();
    done(place, &advice);
    let server = replacement.start().unwrap();
    let job = client(&server).peek(&format!("peek {id}")).unwrap().unwrap();
    assert_eq!(job.body, b"left behind");
    server.terminate().unwrap();
    let (code, said) = run(place, &advice);
    assert!(code == 1 && said.contains("imported"), "{code} {said}");

    for (path, bytes) in contents(&old.join("imported")) {
        fs::write(old.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let server = program.start().unwrap();
    let job = client(&server).peek(&format!("peek {id}")).unwrap().unwrap();
    assert_eq!(job.body, b"left behind");
}

#[test]
fn a_source_is_imported_once() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let Some(program) = original(&place.join("old")) else { return };
    let server = program.start().unwrap();
    client(&server).put(0, 0, 60, b"first").unwrap();
    client(&server).put(0, 0, 60, b"second").unwrap();
    server.kill();
    let import = ["import", "beanstalkd", "old"];
    done(place, &import);
    let said = done(place, &import);
    assert!(said.contains("was imported") && said.contains("nothing to do"), "{said}");
    let said = done(place, &["import", "beanstalkd", "old", "--dry-run"]);
    assert!(said.contains("But") && said.contains("was imported"), "{said}");
    assert_eq!(exported(place, "lineshaft-data").len(), 2);

    // A copy of the files in another folder counts as the same source.
    fs::create_dir(place.join("copy")).unwrap();
    for (path, bytes) in contents(&place.join("old")) {
        fs::write(place.join("copy").join(path.file_name().unwrap()), bytes).unwrap();
    }
    let said = done(place, &["import", "beanstalkd", "copy"]);
    assert!(said.contains("nothing to do"), "{said}");

    let server = program.start().unwrap();
    client(&server).put(0, 0, 60, b"third").unwrap();
    server.kill();
    let (code, said) = run(place, &import);
    assert!(code == 1 && said.contains("has changed since"), "{code} {said}");
    let said = done(place, &["import", "beanstalkd", "old", "--again"]);
    assert!(said.contains("2 jobs: not imported: the queue already has the same job"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "body"), ["first", "second", "third"]);
}

#[test]
fn numbers_that_were_used_before_are_not_used_again() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let Some(program) = original(&place.join("old")) else { return };
    let server = program.start().unwrap();
    for number in 0..6 {
        client(&server).put(0, 0, 60, format!("old {number}").as_bytes()).unwrap();
    }
    server.kill();
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    for number in 0..3 {
        client(&server).put(0, 0, 60, format!("new {number}").as_bytes()).unwrap();
    }
    client(&server).expect("delete 2", "DELETED").unwrap();
    server.terminate().unwrap();
    let said = done(place, &["import", "beanstalkd", "old"]);
    assert!(said.contains("3 jobs: with a new number"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    let bodies = ["new 0", "new 2", "old 0", "old 1", "old 2", "old 3", "old 4", "old 5"];
    assert_eq!(all(&jobs, "body"), bodies, "the order is kept");
    let ids: Vec<u64> = all(&jobs, "id").iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!((&ids[..2], &ids[5..]), (&[1, 3][..], &[4, 5, 6][..]));
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    let mut client = client(&server);
    for body in bodies {
        assert_eq!(client.reserve(0).unwrap().unwrap().body, body.as_bytes());
    }
}

#[test]
fn what_is_whole_in_a_damaged_log_is_taken_and_the_rest_is_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let Some(program) = original(&place.join("old")) else { return };
    let server = program.start().unwrap();
    for number in 0..30 {
        client(&server).put(0, 0, 60, format!("{number:0>1000}").as_bytes()).unwrap();
    }
    server.kill();
    let file = place.join("old/binlog.1");
    let mut bytes = fs::read(&file).unwrap();
    // The first record begins after the version of the format. In the third record, make the length
    // of the name invalid.
    let record_bytes = 4 + "mail".len() + 80 + 1002;
    bytes[4 + 2 * record_bytes] = 0xFF;
    fs::remove_file(&file).unwrap();
    fs::write(&file, bytes).unwrap();
    let (code, said) = run(place, &["import", "beanstalkd", "old"]);
    assert_eq!(code, 65, "{said}");
    let place_of_damage = format!("binlog.1 at offset {}: ", 4 + 2 * record_bytes);
    assert!(said.contains(&place_of_damage), "{said}");
    let jobs = exported(place, "lineshaft-data");
    let ids: Vec<u64> = all(&jobs, "id").iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!(&ids[..2], &[1, 2]);
    assert!(ids.len() > 10 && ids.contains(&30) && !ids.contains(&3), "{ids:?}");
}

#[test]
fn options_that_an_import_or_a_drain_does_not_use_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("old")).unwrap();
    let import = ["import", "beanstalkd", "old"];
    for unused in [
        &["--server", "127.0.0.1:11300"][..],
        &["--tls-ca", "ca.pem"],
        &["--tls-certificate", "c.pem", "--tls-key", "k.pem"],
    ] {
        let (code, said) = run(place, &[&import[..], unused].concat());
        let complaint = format!("{}: an import of files uses no server", unused[0]);
        assert!(code == 2 && said.contains(&complaint), "{code} {said}");
    }
    let drain = ["import", "beanstalkd", "--from", "127.0.0.1:1"];
    let (code, said) = run(place, &[&drain[..], &["--config", "c.toml"]].concat());
    assert!(code == 2 && said.contains("cannot be used with"), "{code} {said}");
    assert!(said.contains("--config"), "{said}");

    // The environment names a server for all tools.
    let mut import = command(place, &import);
    let ended = import.env("LINESHAFT_SERVER", "127.0.0.1:11300").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no file binlog.N"), "{said}");
}

#[test]
fn a_folder_in_use_or_without_a_source_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("empty")).unwrap();
    for source in ["beanstalkd", "kestrel"] {
        let (code, said) = run(place, &["import", source, "empty"]);
        assert!(code == 1 && said.contains("there is no file"), "{code} {said}");
        let (code, said) = run(place, &["import", source, "missing"]);
        assert!(code == 1 && said.contains("missing"), "{code} {said}");
    }
    assert!(!place.join("lineshaft-data").exists());
    fs::write(place.join("jobs"), "{\"queue\":\"q\"}\n").unwrap();
    let _server = serve(place, "lineshaft-data", &["beanstalk"]);
    for command in [&["import", "jsonl", "jobs"][..], &["export", "--all"]] {
        let (code, said) = run(place, command);
        assert!(code == 75 && said.contains("stop that process"), "{code} {said}");
    }
}

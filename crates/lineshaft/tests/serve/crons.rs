//! Entries that put jobs by schedules, in the real program: a job comes, and a crash gives none
//! twice. The test waits for the next minute of the wall clock, up to 60 s.

use rustix::process::Signal;
use serde_json::Value;

use crate::kestrel::write_config;
use crate::running::{Running, command, finish};

const EVERY_MINUTE: &str = "[[cron]]\nname = \"tick\"\nqueue = \"ticks\"\nspec = \"* * * * *\"\n\
    body = \"tock\"\noverlap = \"queue\"\n";

const LISTENERS: [&str; 4] = ["serve", "--only", "--beanstalk=127.0.0.1:0", "--http=127.0.0.1:0"];

/// What the tool says of the only entry.
fn entry(server: &mut Running, folder: &std::path::Path) -> Value {
    let http = server.address_of("http");
    let output = finish(command(folder, &["cron", "--json", "--http", &http]));
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

/// The minutes since 1970, modulo a day, of a moment such as `2026-11-22T09:30:00.000Z`.
fn minute(moment: &Value) -> u64 {
    let moment = moment.as_str().expect("a moment");
    let number = |from: usize| moment[from..from + 2].parse::<u64>().expect("two digits");
    number(11) * 60 + number(14)
}

#[test]
fn each_minute_has_one_job_over_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), EVERY_MINUTE);
    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    let before = entry(&mut server, folder.path());
    assert_eq!((&before["last_at"], &before["fired"]), (&Value::Null, &Value::from(0)));
    let first = crate::ask(&server.address(), "watch ticks\r\nreserve-with-timeout 70\r\n");
    assert!(first.contains("RESERVED 1 4\r\ntock"), "{first}");
    server.signal(Signal::KILL);
    server.wait();

    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    let take_all = "watch ticks\r\n".to_owned() + &"reserve-with-timeout 0\r\n".repeat(9);
    let taken = crate::ask(&server.address(), &take_all);
    let after = entry(&mut server, folder.path());
    // Another minute can begin meanwhile.
    let minutes = (minute(&after["last_at"]) + 1441 - minute(&before["next_at"])) % 1440;
    let jobs = taken.matches("RESERVED").count() as u64;
    assert!(jobs == minutes || jobs + 1 == minutes, "{taken} {before} {after}");
    assert!(taken.contains("RESERVED 1 4\r\ntock"), "{taken}");

    // A reload with a mistake changes nothing. Without the entry, it is gone.
    write_config(folder.path(), &EVERY_MINUTE.replace("* * * * *", "* * * *"));
    server.signal(Signal::HUP);
    server.wait_for_stderr("a cron expression has five fields");
    assert_eq!(entry(&mut server, folder.path())["name"], "tick");
    write_config(folder.path(), "");
    server.signal(Signal::HUP);
    server.wait_for_stderr("cron reloaded: 0 tables");
    let http = server.address_of("http");
    let output = finish(command(folder.path(), &["cron", "--http", &http]));
    assert_eq!(output.stdout, b"the configuration has no [[cron]] entry\n", "{output:?}");
}

//! Tests a store in a folder that is closed and opened again.

use std::path::Path;
use std::process::Command;

use lineshaft_broker::embedded::{Error, Store, Wait};
use lineshaft_broker::policy::{Rule, Rules, Setting};
use lineshaft_broker::{NewJob, Settings, Sync};

#[test]
fn jobs_are_there_when_the_store_is_opened_again() {
    let folder = tempfile::tempdir().expect("there is room");
    let folder = folder.path().join("new").join("store");
    let store = Store::open(&folder).expect("it is made");
    let mut session = store.session();
    let [first, second] = [&b"first"[..], b"second"]
        .map(|body| session.put("q", NewJob::default(), body).expect("there is room"));
    let taken = session.take(&["q"], Wait::No).expect("no failure").expect("it is ready");
    assert_eq!(taken.id, first);
    store.queue("items").add(b"item", None).expect("there is room");
    let limit = Rule::new(["full"], [Setting::JobsMax(Some(1))]);
    store.set_policies(Rules(vec![limit])).expect("no failure");
    assert!(Store::open(&folder).is_err(), "one at a time has it open");
    drop(session);
    drop(store);

    let settings = Settings { sync: Sync::Never, ..Settings::default() };
    let store = Store::open_with(&folder, settings).expect("it is whole");
    let mut session = store.session();
    for (id, body) in [(first, &b"first"[..]), (second, b"second")] {
        let job = session.take(&["q"], Wait::No).expect("no failure").expect("it is ready");
        assert_eq!((job.id, &job.body[..]), (id, body));
        session.finish(id).expect("it is held");
    }
    let item = store.queue("items").remove(Wait::No).expect("no failure");
    assert_eq!(item.as_deref(), Some(&b"item"[..]));
    let mut full = store.queue("full");
    full.add(b"1", None).expect("there is room for one");
    assert!(matches!(full.add(b"2", None), Err(Error::Refused)), "policies are kept");
    drop((session, full));
    store.close().expect("the disk works");

    let store = Store::open(&folder).expect("it is whole");
    assert!(matches!(store.peek(first), Err(Error::NotFound)));
    assert!(store.stats("q").is_none(), "it went with its last job");
    let third = store.session().put("q", NewJob::default(), b"third").expect("there is room");
    assert!(third > second, "numbers are dealt once");
    store.close().expect("the disk works");
}

/// Runs an example that creates its store below this folder, and returns its output.
fn run_example(name: &str, temporary: &Path) -> String {
    // Cargo builds the examples together with the tests, in a sibling of the tests' folder.
    let tests = std::env::current_exe().expect("the test has a path");
    let built = tests.ancestors().nth(2).expect("it lies in a folder of the target");
    let example = built.join("examples").join(name);
    let mut command = Command::new(&example);
    let output = command.env("TMPDIR", temporary).output().expect("the example was built");
    assert!(output.status.success(), "{}: {output:?}", example.display());
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn the_example_finds_what_its_first_run_left() {
    let folder = tempfile::tempdir().expect("there is room");
    let first = run_example("embedded", folder.path());
    assert!(
        !first.contains("an earlier run") && first.contains("set aside 2: broken.jpg"),
        "{first}"
    );
    let second = run_example("embedded", folder.path());
    assert!(second.contains("an earlier run left 0 ready and 1 buried"), "{second}");
    assert!(second.contains("the first one set aside is 2"), "{second}");
}

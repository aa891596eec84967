//! Tests `put`, `work` and `peek` with Kestrel's queues.

use rustix::process::Signal;
use testkit::process::{Program, Server};
use testkit::wait::until as wait_until;

use crate::{LINESHAFT, Output, Tool};

fn server() -> Server {
    Program::serve_on(&["kestrel", "beanstalk"], LINESHAFT, &["--memory"]).start().unwrap()
}

fn start(server: &Server, arguments: &[&str]) -> Tool {
    let (tool, rest) = arguments.split_first().unwrap();
    let all = [&[*tool, "--protocol", "kestrel"], rest].concat();
    Tool::start(&server.address_of("kestrel").to_string(), &all)
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    start(server, arguments).wait()
}

#[test]
fn items_are_put_shown_and_done() {
    let server = server();
    let put = run(&server, &["put", "news", "one", "two", ""]);
    assert_eq!(put.status.code(), Some(0), "{put:?}");
    assert!(put.stderr.starts_with("3 jobs put into news in "), "{put:?}");
    for _ in 0..2 {
        let peek = run(&server, &["peek", "news"]);
        assert_eq!((peek.status.code(), peek.stdout.as_str()), (Some(0), "one"), "{peek:?}");
    }
    let json = run(&server, &["peek", "news", "--json"]);
    assert_eq!(json.stdout, "{\"body\":\"one\",\"queue\":\"news\"}\n");
    let work = run(&server, &["work", "empty", "news", "--drain", "--", "sh", "-c", "cat; echo ."]);
    assert_eq!(
        (work.status.code(), work.stdout.as_str()),
        (Some(0), "one.\ntwo.\n.\n"),
        "{work:?}"
    );
    assert!(work.stderr.contains("3 jobs done"), "{work:?}");
    let nothing = run(&server, &["peek", "news"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert_eq!(nothing.stderr, "lineshaft: news has no item, or does not exist\n");
}

#[test]
fn a_killed_worker_loses_no_item() {
    let server = server();
    run(&server, &["put", "news", "one"]);
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let script = format!("echo $$ > {}; exec sleep 60", begun.display());
    let worker = start(&server, &["work", "news", "--", "sh", "-c", &script]);
    wait_until("the command", || {
        std::fs::read_to_string(&begun).is_ok_and(|id| id.ends_with('\n'))
    });
    assert_eq!(run(&server, &["peek", "news"]).status.code(), Some(1), "the item is open");
    worker.signal(Signal::KILL);
    worker.wait();
    wait_until("the item", || run(&server, &["peek", "news"]).stdout == "one");
    // The command of a killed worker goes on without it.
    let id: i32 = std::fs::read_to_string(&begun).unwrap().trim().parse().unwrap();
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, Signal::KILL).unwrap();
}

#[test]
fn a_failed_item_goes_back() {
    let server = server();
    run(&server, &["put", "news", "one"]);
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // The first attempt fails.
    let script = format!("cat; test -e {0} || {{ touch {0}; exit 3; }}", mark.display());
    let work = run(&server, &["work", "news", "--drain", "--", "sh", "-c", &script]);
    assert_eq!((work.status.code(), work.stdout.as_str()), (Some(0), "oneone"), "{work:?}");
    assert!(work.stderr.contains("item of news: exit code 3; given back"), "{work:?}");
    assert!(work.stderr.contains("1 job done, 1 given back"), "{work:?}");
}

#[test]
fn what_kestrel_does_not_have_is_refused() {
    let server = server();
    for (arguments, option) in [
        (&["put", "news", "x", "--ids"][..], "--ids"),
        (&["put", "news", "x", "--delay", "5s"], "--delay"),
        (&["put", "news", "x", "--wait"], "--wait"),
        (&["put", "news", "x", "--priority", "0"], "--priority"),
        (&["work", "news", "--attempts", "3", "--", "true"], "--attempts"),
        (&["peek", "--id", "3"], "--id"),
    ] {
        let refused = run(&server, arguments);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(option), "{refused:?}");
    }
    let name = run(&server, &["put", "a/open", "x"]);
    assert_eq!(name.status.code(), Some(1), "{name:?}");
    assert!(name.stderr.contains("`a/open` is not a valid name of a Kestrel queue"), "{name:?}");
    let beanstalk = server.address_of("beanstalk").to_string();
    let wrong = Tool::start(&beanstalk, &["peek", "--protocol", "kestrel", "news"]).wait();
    assert!(wrong.stderr.contains("not a Kestrel server"), "{wrong:?}");
}

//! Tests which replies wait for the log. The log is on a simulated disk, and writes only when a
//! test calls `commit`.

use std::sync::Arc;

use broker::{Broker, Options};
use testkit::dialect::world::START;

use crate::world::World;

fn world() -> World {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    World::over_unwritten(Broker::open(options, START).expect("the disk is empty").0)
}

#[test]
fn a_reply_waits_for_the_facts_it_reports_and_for_nothing_else() {
    let mut world = world();
    let [producer, other, worker] = [(); 3].map(|()| world.connect());

    assert_eq!(world.say(producer, "use q\r\n"), "USING q\r\n");
    assert_eq!(
        world.say(producer, "put 0 0 60 1\r\nx\r\nuse r\r\n"),
        "",
        "replies keep their order"
    );
    // The job is already in the queue, but a crash could still undo the put. So replies that show
    // the job wait.
    assert_eq!(world.say(worker, "watch q\r\n"), "WATCHING 2\r\n");
    assert_eq!(world.say(worker, "reserve\r\n"), "");
    assert_eq!(world.say(other, "use q\r\nwatch q\r\n"), "USING q\r\nWATCHING 2\r\n");
    assert_eq!(world.say(other, "peek 2\r\n"), "NOT_FOUND\r\n", "no job has ended");
    assert_eq!(world.say(other, "peek 1\r\n"), "");
    world.commit();
    assert_eq!(world.take_text(producer), "INSERTED 1\r\nUSING r\r\n");
    assert_eq!(world.take_text(worker), "RESERVED 1 1\r\nx\r\n");
    assert_eq!(world.take_text(other), "FOUND 1 1\r\nx\r\n");

    // A crash could also undo the end of the job. So replies that show the end wait until the end
    // is durable.
    assert_eq!(world.say(worker, "touch 1\r\n"), "TOUCHED\r\n");
    assert_eq!(world.say(worker, "delete 1\r\n"), "");
    assert_eq!(world.say(other, "list-tube-used\r\n"), "USING q\r\n");
    assert_eq!(world.say(other, "peek-ready\r\n"), "");
    world.commit();
    assert_eq!(world.take_text(worker), "DELETED\r\n");
    assert_eq!(world.take_text(other), "NOT_FOUND\r\n");
}

#[test]
fn numbers_and_lists_wait_for_what_they_tell() {
    let mut world = world();
    let producer = world.connect();
    assert_eq!(world.say(producer, "use q\r\nput 0 0 60 1\r\nx\r\n"), "USING q\r\n");
    for (command, told) in [
        ("stats\r\n", "\ncurrent-jobs-ready: 1\n"),
        ("stats-tube q\r\n", "\ncurrent-jobs-ready: 1\n"),
        ("list-tubes\r\n", "\n- q\n"),
    ] {
        let monitor = world.connect();
        assert_eq!(world.say(monitor, command), "", "a crash could undo what {command:?} tells");
        world.commit();
        let sent = world.take_text(monitor);
        assert!(sent.starts_with("OK ") && sent.contains(told), "{sent}");
        assert!(world.say(monitor, command).contains(told), "it is durable already");
        // The next iteration needs a put that is not durable yet.
        world.say(producer, "delete 1\r\nput 0 0 60 1\r\nx\r\n");
    }
}

#[test]
fn a_tube_that_vanished_is_denied_when_its_end_is_durable() {
    let mut world = world();
    let [producer, monitor, late] = [(); 3].map(|()| world.connect());
    world.say(producer, "use q\r\nput 0 0 60 1\r\nx\r\nuse default\r\n");
    world.commit();
    assert_eq!(world.take_text(producer), "INSERTED 1\r\nUSING default\r\n");
    assert_eq!(world.say(producer, "delete 1\r\n"), "");
    assert_eq!(world.say(monitor, "stats-tube q\r\n"), "", "a crash could bring the tube back");
    assert_eq!(world.say(late, "pause-tube q 1\r\n"), "");
    world.commit();
    for client in [monitor, late] {
        assert_eq!(world.take_text(client), "NOT_FOUND\r\n");
    }
    assert_eq!(world.say(monitor, "stats-tube never\r\n"), "NOT_FOUND\r\n");
}

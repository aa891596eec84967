//! An operator signs in and changes things. The page shows what changes, without a reload.

use rustix::process::Signal;
use testkit::browser::keys::ENTER;

use crate::{Worker, World, put};

/// Puts jobs 1 to 4 into the queue `mail`, and buries the first two.
fn fill(world: &World) -> Worker {
    let mut worker = Worker::connect(&world.beanstalk);
    assert_eq!(worker.ask("use mail"), "USING mail");
    for number in 1..=4 {
        assert_eq!(worker.ask(put("hello").trim_end()), format!("INSERTED {number}"));
    }
    assert_eq!(worker.ask("watch mail"), "WATCHING 2");
    for number in 1..=2 {
        assert_eq!(worker.ask("reserve"), format!("RESERVED {number} 5"));
        assert_eq!(worker.line(), "hello");
        assert_eq!(worker.ask(&format!("bury {number} 0")), "BURIED");
    }
    worker
}

#[test]
fn an_operator_kicks_pauses_and_deletes() {
    let Some(world) = World::start("en", &[], "") else { return };
    let mut worker = fill(&world);
    let page = &world.browser;
    world.go("/queues/mail");
    assert_eq!(page.count("form[method=post][action$='/pause']"), 0, "a viewer changes nothing");
    world.sign_in();
    page.wait_for_text("h1", "mail");
    let count = |state: &str| page.text(&format!("#counts .{state} .value"));
    assert_eq!((count("ready"), count("buried")), ("2".to_owned(), "2".to_owned()));

    // A pause, with a reason, and its end.
    page.click("#actions summary");
    page.write("form[action$='/pause'] input[name=reason]", "the mail server is down");
    page.click("form[action$='/pause'] button");
    page.wait_for_text(".title", "paused");
    assert_eq!(worker.ask("reserve-with-timeout 0"), "TIMED_OUT");
    page.click("#actions summary");
    page.click("form[action$='/resume'] button");
    page.wait_for_text(".done", "not paused any more");
    assert_eq!(page.text(".title").matches("paused").count(), 0);

    // One job, and then all buried jobs.
    page.click("#jobs .tabs a[href*='state=buried']");
    page.wait_for_text("#jobs tbody", "hello");
    page.click("#jobs tbody th a");
    page.wait_for_text(".title", "buried");
    page.click("form[action$='/jobs/1/kick'] button");
    page.wait_for_text(".title", "ready");
    world.go("/queues/mail");
    page.click("#actions summary");
    page.click("form[action$='/kick'] button");
    page.wait_for_address("/operations");
    page.wait_for_text("#operations tbody tr:first-child", "done");
    world.go("/queues/mail");
    assert_eq!((count("ready"), count("buried")), ("4".to_owned(), "0".to_owned()));

    // One job becomes a dead letter, and comes back.
    world.go("/jobs/2");
    page.click("form[action$='/jobs/2/set-aside'] button");
    page.wait_for_text(".done", "dead letter");
    page.wait_for_text("#dead", "an operator set it aside");
    assert_eq!(page.count("form[action$='/set-aside']"), 0);
    page.click("form[action$='/jobs/2/redrive'] button");
    page.wait_for_address("/operations");
    page.wait_for_text("#operations tbody tr:first-child", "done");

    // A job that a worker has ends only if the operator says so.
    assert_eq!(worker.ask("reserve"), "RESERVED 1 5");
    assert_eq!(worker.line(), "hello");
    world.go("/jobs/1");
    page.click("form[action$='/delete'] button");
    assert!(page.address().ends_with("/jobs/1"), "the box must be marked: {}", page.address());
    page.click("form[action$='/delete'] input[name=force]");
    page.click("form[action$='/delete'] button");
    page.wait_for_text(".done", "ended");
    assert_eq!(worker.ask("peek 1"), "NOT_FOUND");

    // All jobs end only if the operator writes the name.
    let clear = |name: &str| {
        world.go("/queues/mail");
        page.click("#actions summary");
        page.write("form[action$='/clear'] input[name=confirm]", name);
        page.click("form[action$='/clear'] button");
    };
    clear("male");
    page.wait_for_text("main", "to confirm it");
    clear("mail");
    page.wait_for_address("/operations");
    page.wait_for_text("#operations tbody tr:first-child", "done");
    assert_eq!(worker.ask("peek 3"), "NOT_FOUND");
}

#[test]
fn enter_in_the_form_of_chosen_jobs_changes_nothing() {
    let Some(world) = World::start("en", &[], "") else { return };
    let mut worker = fill(&world);
    let page = &world.browser;
    world.go("/queues/mail");
    world.sign_in();
    page.click("#jobs tbody tr:first-child input[type=checkbox]");
    page.write("#jobs input[name=to]", &format!("other{ENTER}"));
    page.write("#jobs input[name=reason]", &format!("why{ENTER}"));
    assert!(page.address().ends_with("/queues/mail"), "{}", page.address());
    assert_eq!(page.text("#counts .ready .value"), "2");
    // Its buttons work.
    page.click("#jobs button[value=move]");
    page.wait_for_address("/operations");
    page.wait_for_text("#operations tbody tr:first-child", "done");
    assert!(worker.ask("stats-tube other").starts_with("OK "));
}

#[test]
fn numbers_change_without_a_reload() {
    let Some(world) = World::start("en", &[], "") else { return };
    let mut worker = fill(&world);
    let page = &world.browser;
    world.go("/queues?sort=-ready");
    page.wait_for_text("#queues tbody tr:first-child", "mail");
    page.run("window.isSame = true; document.querySelector('#queues tbody a').focus()", &[]);
    page.wait_for_text("#live-state", "live");
    assert_eq!(worker.ask(put("hello").trim_end()), "INSERTED 5");
    page.wait_for_text("#queues tbody tr:first-child td:nth-child(3)", "3");
    assert_eq!(page.run("return window.isSame", &[]), true, "the page is the same one");
    assert_eq!(
        page.run("return document.activeElement.innerText", &[]),
        "mail",
        "it keeps the focus"
    );

    // A text that a person selects stays as it is.
    world.go("/queues/mail");
    page.wait_for_text("#live-state", "live");
    let select = "getSelection().selectAllChildren(document.querySelector('#facts h2'))";
    page.run(select, &[]);
    assert_eq!(worker.ask(put("hello").trim_end()), "INSERTED 6");
    page.wait_for_text("#counts .ready .value", "4");
    assert!(!page.run("return getSelection().isCollapsed", &[]).as_bool().unwrap());

    // Events come while the page is open, and one stream is enough.
    let streams = "return performance.getEntriesByType('resource')\
        .filter((one) => one.name.endsWith('/api/v1/events')).length";
    assert!(page.run(streams, &[]).as_u64().unwrap() <= 1);
    assert_eq!(page.text("#lost"), "");
    world.server.signal(Signal::KILL);
    page.wait_for_text("#live-state", "no answer");
    page.wait_for_text("#lost", "The server does not answer. This page shows its state at");
}

//! Finding a queue among a hundred thousand, and a job among a million.

use crate::{World, put};

const QUEUES: usize = 100_000;
const JOBS: usize = 1_000_000;

#[test]
fn a_queue_is_found_among_a_hundred_thousand() {
    let Some(world) = World::start("en", &["--memory"], "") else { return };
    // Each queue has a job, and queue 77,777 has three.
    world.send((0..QUEUES).flat_map(|number| {
        let jobs = if number == 77_777 { 3 } else { 1 };
        let puts = (0..jobs).map(|job| put(&format!("{job}")));
        std::iter::once(format!("use mail-{number:06}\r\n")).chain(puts)
    }));
    let page = &world.browser;
    world.go("/queues");
    page.wait_for_text("#queues .count", "100,001 of 100,001");
    assert_eq!(page.text("#queues tbody tr:nth-child(2) th a"), "mail-000000");
    assert_eq!(page.count("#queues tbody tr"), 50);

    // The next page, and back.
    page.click(".paging a[rel=next]");
    page.wait_for_text("#queues tbody tr:first-child th", "mail-000049");
    page.click(".paging a[rel=first]");
    page.wait_for_text("#queues tbody tr:first-child th", "default");

    // The longest queue comes first.
    page.click("#queues thead a[href*='sort=-ready']");
    page.wait_for_text("#queues tbody tr:first-child th", "mail-077777");
    assert_eq!(page.text("#queues thead th[aria-sort=descending]").trim(), "Ready ↓");

    page.write("header input[name=search]", "77777\u{e007}");
    page.wait_for_text("#queues .count", "1 of 100,001");
    page.click("#queues tbody th a");
    page.wait_for_text("h1", "mail-077777");
    assert_eq!(page.text("#counts .ready .value"), "3");
}

#[test]
fn a_job_is_opened_in_a_queue_of_a_million() {
    let Some(world) = World::start("en", &["--memory"], "") else { return };
    world.send(
        std::iter::once("use big\r\n".to_owned())
            .chain((0..JOBS).map(|number| put(&format!("{{\"n\":{number}}}")))),
    );
    let page = &world.browser;
    world.go("/queues/big");
    page.wait_for_text("#counts .ready .value", "1.0 M");
    assert_eq!(page.count("#jobs tbody tr"), 50);
    page.click("#jobs .paging a[rel=next]");
    page.wait_for_text("#jobs tbody tr:first-child", "{\"n\":50}");
    page.click("#jobs tbody tr:nth-child(3) th a");
    page.wait_for_text("pre.body", "\"n\": 52");

    // A job in the middle, by its number.
    world.go("/jobs?id=500001");
    page.wait_for_text("pre.body", "\"n\": 500000");
}

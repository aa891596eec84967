//! Pages of jobs that have left their queue.

use api::AccessSettings;
use api::types::Role;
use broker::policy::{KeptBody, Rule, Rules, Setting};
use broker::{JobId, NewJob, Patience, Take};
use origin::Reach;

use crate::world::{NOW, World, csrf};

/// A world whose queues keep a history with bodies.
fn world() -> World {
    let access = AccessSettings { anonymous: Role::Operator, ..AccessSettings::default() };
    let world = World::with_access(access);
    world.api.begin_past_jobs();
    world.api.collect_past_jobs();
    let settings = [Setting::History(true), Setting::HistoryBody(KeptBody::Full)];
    let rules = Rules(vec![Rule::new(["*"], settings)]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    world
}

/// Puts a job, and lets a worker finish it.
fn done(world: &World, body: &[u8]) -> u64 {
    let mut turn = world.broker.turn(NOW);
    let session = turn.open_session(0);
    turn.set_peer(session, "192.0.2.1:7");
    let mut caller = turn.caller(session);
    caller.use_queue(b"mail/a");
    caller.watch(b"mail/a");
    caller.put(NewJob::default(), body.into()).value.expect("there is room");
    let Take::Granted(taken) = caller.take(Patience::None).value else { panic!("no job") };
    caller.finish(taken.id).value.expect("it is held");
    turn.close_session(session);
    drop(turn);
    world.api.collect_past_jobs();
    taken.id.0
}

#[test]
fn a_job_that_has_ended_has_a_page() {
    let world = world();
    let id = done(&world, b"to=<ann>");
    let list = world.show("/queues/mail%2Fa/history").text;
    for part in ["History", "1 jobs that have left", "192.0.2.1:7", "to=&lt;ann&gt;", "95 %"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let address = format!("/jobs/{id}/history?queue=mail%2Fa&amp;left_at=2023-");
    assert!(list.contains(&format!("href=\"/console{address}")), "{list}");
    let failed = world.show("/queues/mail%2Fa/history?outcome=failed").text;
    assert!(failed.contains("The history has no such job."), "{failed}");
    assert_eq!(world.show("/queues/mail%2Fa/history?outcome=good").status, 400);
    let found = world.show("/queues/mail%2Fa/history?outcome=done&search=%3Cann").text;
    for part in [
        "to=<mark>&lt;ann</mark>&gt;",
        "value=\"&lt;ann\"",
        "name=\"outcome\" value=\"done\"",
        "lineshaft history --outcome=done '--text=&lt;ann'",
        "text=%3Cann",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let none = world.show("/queues/mail%2Fa/history?search=bob").text;
    assert!(none.contains("The history has no such job."), "{none}");
    // The address of the job leads to its history.
    let gone = world.show(&format!("/jobs/{id}"));
    assert_eq!(gone.status, 303);
    assert_eq!(gone.headers["location"], format!("/console/jobs/{id}/history"));
    let page = world.show(&format!("/jobs/{id}/history")).text;
    for part in ["taken by 192.0.2.1:7", "Run again", "to=&lt;ann&gt;", "history --job"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let chinese = world.show_in("zh", &format!("/jobs/{id}/history")).text;
    assert!(chinese.contains("再执行一次"), "{chinese}");
    assert_eq!(world.show("/jobs/999/history").status, 404);
    world.put(b"mail/a", b"x");
    assert!(world.show("/queues/mail%2Fa").text.contains("/console/queues/mail%2Fa/history"));
}

#[test]
fn each_entry_of_a_job_has_a_page() {
    let world = world();
    let id = world.put(b"first", b"to=<ann>");
    for to in ["second", "third"] {
        let mut turn = world.broker.turn(NOW);
        let session = turn.open_reader_session(0);
        turn.caller(session).move_job(JobId(id), to.as_bytes()).value.expect("there is room");
        turn.close_session(session);
    }
    world.api.collect_past_jobs();
    for (queue, to) in [("first", "second"), ("second", "third")] {
        let list = world.show(&format!("/queues/{queue}/history")).text;
        let address = list.split("href=\"/console").find(|it| it.starts_with("/jobs/")).unwrap();
        let address = address.split('"').next().unwrap().replace("&amp;", "&");
        let shown = world.show(&address);
        let (secret, page) = (csrf(&shown), shown.text);
        assert!(page.contains(&format!("/console/queues/{to}\"")), "{address}: {page}");
        let form = page.split("action=\"/console").find(|it| it.contains("/run-again")).unwrap();
        let form = form.split('"').next().unwrap().replace("&amp;", "&");
        let copied = world.submit(&form, "", &[("csrf", &secret)], Reach::Loopback);
        assert_eq!(copied.status, 303, "{}", copied.text);
        let copy = copied.headers["location"].to_str().unwrap().strip_prefix("/console").unwrap();
        assert!(world.show(copy).text.contains(&format!("/console/queues/{queue}\"")));
    }
}

#[test]
fn an_operator_puts_a_copy() {
    let world = world();
    let id = done(&world, b"hello");
    let secret = csrf(&world.show(&format!("/jobs/{id}/history")));
    let path = format!("/jobs/{id}/run-again");
    let copied = world.submit(&path, "", &[("csrf", &secret)], Reach::Loopback);
    assert_eq!(copied.status, 303, "{}", copied.text);
    let copy = copied.headers["location"].to_str().unwrap().strip_prefix("/console").unwrap();
    assert_eq!(copy, format!("/jobs/{}", id + 1));
    assert!(world.show(copy).text.contains("hello"));
    let viewers = World::new();
    let secret = csrf(&viewers.show("/login"));
    let refused = viewers.submit(&path, "", &[("csrf", &secret)], Reach::Loopback);
    assert_eq!(refused.status, 401);
}

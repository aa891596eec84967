//! The form that brings dead letters back.

use api::types::Role;
use broker::policy::{Rule, Rules, Setting};
use origin::Reach;

use crate::world::{NOW, Shown, World, csrf};

#[test]
fn operators_choose_and_count_dead_letters() {
    let access =
        api::AccessSettings { anonymous: Role::Operator, ..api::AccessSettings::default() };
    let world = World::with_access(access);
    let rules = Rules(vec![Rule::new(["*"], [Setting::Retries(true), Setting::RetryLimit(0)])]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    for error in [&b"no such address"[..], b"the disk is full"] {
        world.put(b"mail", b"hello");
        world.fail(b"mail", error);
    }
    let page = world.show("/queues/mail");
    let option = "<option value=\"reported\">the worker reported a failure</option>";
    assert!(page.text.contains(option), "{}", page.text);
    // The command reaches the server over HTTP, also if no client of beanstalkd can.
    assert!(page.text.contains("<code>lineshaft redrive mail</code>"), "{}", page.text);
    let secret = csrf(&page);
    let redrive = |more: &[(&str, &str)]| -> Shown {
        let fields = [&[("csrf", secret.as_str())], more].concat();
        world.submit("/queues/mail/redrive", "", &fields, Reach::Loopback)
    };
    let counts = |more: &[(&str, &str)]| {
        let shown = redrive(&[&[("dry_run", "true")], more].concat());
        assert_eq!(shown.status, 303, "{}", shown.text);
        let text = world.show("/operations").text;
        let row = text.split("<tbody>").nth(1).expect("a table").split("</tr>").next();
        let row = row.expect("a row");
        assert!(row.contains("<small>count only</small>"), "{row}");
        let done = row.split("</progress> ").nth(1).expect("a progress");
        done.split(" of ").next().expect("a number").to_owned()
    };

    assert_eq!(counts(&[("cause", ""), ("key", ""), ("error", ""), ("older", "")]), "2");
    assert_eq!(counts(&[("cause", "reported")]), "2");
    assert_eq!(counts(&[("cause", "timed_out")]), "0");
    assert_eq!(counts(&[("error", "disk")]), "1");
    assert_eq!(counts(&[("key", "ann")]), "0");
    assert_eq!(counts(&[("older", "0")]), "2");
    assert_eq!(counts(&[("older", " 60 ")]), "0");
    assert_eq!(redrive(&[("cause", "bad luck")]).status, 400);
    assert_eq!(redrive(&[("older", "-1")]).status, 400);
    assert_eq!(redrive(&[("rate", "many")]).status, 400);

    assert_eq!(redrive(&[("error", "disk"), ("rate", "0")]).status, 303);
    assert_eq!(counts(&[]), "1", "one has come back");
}

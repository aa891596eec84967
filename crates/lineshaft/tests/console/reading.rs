//! Reading without scripts, and with the keyboard alone.

use testkit::browser::keys::{ENTER, SPACE, TAB};

use crate::{World, put};

#[test]
fn everything_can_be_read_and_done_without_scripts() {
    let Some(world) = World::start("en", &["--memory"], "") else { return };
    world.send(["use mail\r\n".to_owned(), put("{\"to\":\"ann\"}"), put("x")].into_iter());
    let page = &world.browser;
    page.allow_scripts(false);
    world.go("");
    assert_eq!(page.text("#tiles .ready .value"), "2");
    assert_eq!(page.text("#live-state"), "", "no script runs");
    page.click("header nav a[href$='/queues']");
    page.wait_for_text("#queues tbody", "mail");
    page.write("header input[name=search]", &format!("mai{ENTER}"));
    page.wait_for_text("#queues .count", "1 of 2");
    page.click("#queues tbody a");
    page.wait_for_text("#counts .remark", "connected client watches the queue");
    page.click("#jobs tbody th a");
    page.wait_for_text("pre.body", "\"to\": \"ann\"");
    for (path, words) in [
        ("/connections", "Connections"),
        ("/operations", "No operation"),
        ("/log", "no log"),
        ("/policies", "Rules"),
        ("/help", "Words"),
    ] {
        world.go(path);
        page.wait_for_text("main", words);
    }
    world.sign_in();
    world.go("/queues/mail");
    page.click("#actions summary");
    page.click("form[action$='/pause'] button");
    page.wait_for_text(".title", "paused");
}

#[test]
fn the_keyboard_is_enough() {
    let Some(world) = World::start("en", &["--memory"], "") else { return };
    let queue = |name: &str| [format!("use {name}\r\n"), put("x")];
    world.send(["a", "b", "mail"].into_iter().flat_map(queue).collect::<Vec<_>>().into_iter());
    let page = &world.browser;
    let focus = || page.run("return document.activeElement.innerText", &[]);
    world.go("");
    page.press(TAB);
    assert_eq!(focus(), "Skip to the contents");
    page.press("gq");
    page.wait_for_address("/console/queues");
    page.wait_for_text("#queues tbody", "mail");
    page.press("j");
    assert_eq!(focus(), "a");
    page.press("jk");
    assert_eq!(focus(), "a");
    page.press("j");
    page.press(ENTER);
    page.wait_for_text("h1", "b");
    // While a person writes, letters are only letters.
    page.press("/gomail");
    let search = "return document.querySelector('header input[name=search]').value";
    assert_eq!(page.run(search, &[]), "gomail");
    page.write("header input[name=search]", &format!("mai{ENTER}"));
    page.wait_for_text("#queues .count", "1 of 4");
    page.press("?");
    page.wait_for_text("h1", "Help");
    page.press("go");
    page.wait_for_text("h1", "Overview");

    // The keys can be switched off.
    world.go("/help");
    page.run("document.querySelector('#keys input').focus()", &[]);
    page.press(SPACE);
    page.press(TAB);
    page.press("go");
    assert_eq!(page.text("h1"), "Help");
    world.go("/queues");
    page.press("go");
    assert_eq!(page.text("h1"), "Queues");
}

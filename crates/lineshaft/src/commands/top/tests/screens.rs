//! What the screens show.

use std::time::{Duration, Instant};

use api::types::Role;
use ratatui::crossterm::event::{Event, KeyCode};

use super::super::ask::{Content, Head, Question, Update};
use super::super::model::Rights;
use super::fixture::{answer, drawn, lines, model, press, queue_row, queues};

/// The sizes of the terminals.
const SIZES: [(u16, u16); 3] = [(80, 24), (40, 12), (200, 50)];

fn has(lines: &[String], text: &str) {
    assert!(lines.iter().any(|line| line.contains(text)), "{text}:\n{}", lines.join("\n"));
}

fn has_not(lines: &[String], text: &str) {
    assert!(!lines.iter().any(|line| line.contains(text)), "{text}:\n{}", lines.join("\n"));
}

#[test]
fn each_screen_fits_each_terminal() {
    for (width, height) in SIZES {
        let mut model = model();
        for (keys, shown) in [
            ("1", ["12,345", "1,203", "memory is nearly full", "Ready"]),
            ("2", ["queue-0", "邮件队列", "99,999", "READY"]),
            ("\n", ["queue-0", "paused for 9 m 59 s", "ready 12,345", "to=ann"]),
            ("\n", ["Job 42 in 邮件", "leased", "\"to\": \"安娜\"", "priority 1024"]),
            ("5", ["10.0.0.7:51000", "beanstalk tls", "HOLDS", "2"]),
            ("6", ["kick buried", "running", "mail", "1"]),
        ] {
            press(&mut model, keys);
            let lines = drawn(&mut model, width, height);
            for text in shown {
                has(&lines, text);
            }
            assert!(lines[0].starts_with("127.0.0.1:7300"), "{lines:#?}");
            has(&lines[usize::from(height) - 1..], "? help  q quit");
        }
    }
}

#[test]
fn no_size_of_a_terminal_is_a_problem() {
    for (width, height) in (1..60).map(|size| (size, size % 17 + 1)) {
        let mut model = model();
        for keys in ["1", "2", "\n", "\n", "5", "6", "?", "\x1b2C", "\x1b/x"] {
            press(&mut model, keys);
            drawn(&mut model, width, height);
        }
    }
}

#[test]
fn the_overview_has_tiles_with_curves() {
    let mut model = model();
    let shown = drawn(&mut model, 80, 24);
    for text in [
        "╭ Ready ──",
        "▃▅▇█",
        "▲ warning",
        "beanstalk, 3 gearman",
        "9 of 1,000: 6",
        "Oldest wait",
        "3.2 s",
        "1.5 ms",
        "LONGEST QUEUES",
        "memory 1.0 MiB of 2.0 MiB",
    ] {
        has(&shown, text);
    }
}

#[test]
fn a_screen_asks_only_for_the_rows_that_it_shows() {
    let mut model = model();
    press(&mut model, "2");
    let shown = drawn(&mut model, 80, 24);
    has(&shown, "of 100,000 queues");
    let rows = shown.iter().filter(|line| line.contains("99,9")).count() + 1;
    let Question::Queues(list) = model.question() else { panic!("{:?}", model.question()) };
    assert_eq!((list.limit, list.from.as_deref()), (rows, None));
    press(&mut model, "⇟");
    let Question::Queues(list) = model.question() else { panic!() };
    assert_eq!(list.from.as_deref(), Some("2"));
    let shown = drawn(&mut model, 80, 24);
    has(&shown, &format!("{}–{} of 100,000 queues", rows + 1, 2 * rows));
}

#[test]
fn queues_are_sorted_and_filtered_by_the_server() {
    let mut model = model();
    press(&mut model, "2");
    drawn(&mut model, 80, 24);
    for (key, sort, mark) in [
        ("n", "name", "QUEUE▴"),
        ("n", "-name", "QUEUE▾"),
        ("a", "-age", "▾OLDEST"),
        ("a", "age", "▴OLDEST"),
    ] {
        press(&mut model, key);
        let Question::Queues(list) = model.question() else { panic!() };
        assert_eq!(list.order.parameter(), sort);
        has(&drawn(&mut model, 80, 24), mark);
    }
    press(&mut model, "/a队");
    let Question::Queues(list) = model.question() else { panic!() };
    assert_eq!(list.search, "a队");
    has(&drawn(&mut model, 80, 24), "filter a队▏");
    press(&mut model, "q\n");
    has(&drawn(&mut model, 80, 24), "filter a队q");
    press(&mut model, "\x1b");
    has_not(&drawn(&mut model, 80, 24), "filter a");
}

#[test]
fn the_states_of_a_queue_are_lists_of_their_own() {
    let mut model = model();
    press(&mut model, "2");
    drawn(&mut model, 80, 24);
    press(&mut model, "\n");
    let shown = drawn(&mut model, 80, 24);
    has(&shown, "limits.jobs = 50_000 (line 12)");
    has(&shown, "puts/s 13");
    press(&mut model, "l");
    let Question::Queue { state, .. } = model.question() else { panic!() };
    assert_eq!(state, api::types::JobState::Leased);
    press(&mut model, "\n");
    assert!(
        matches!(model.question(), Question::Queue { .. }),
        "the leased jobs are not there yet"
    );
    has(&drawn(&mut model, 80, 24), "TIME LEFT");
    press(&mut model, "↓\n");
    assert_eq!(model.question(), Question::Job(43));
    has(&drawn(&mut model, 80, 24), "holder connection 2a for 1.0 s");
    press(&mut model, "\x1b\x1b");
    assert!(matches!(model.question(), Question::Queues(_)));
}

#[test]
fn a_pop_up_shows_the_command() {
    for (width, height) in SIZES {
        let mut model = model();
        press(&mut model, "2");
        drawn(&mut model, width, height);
        press(&mut model, "P");
        let shown = drawn(&mut model, width, height);
        has(&shown, "for: 10m▏");
        has(&shown, "curl -d '{\"seconds\":600}'");
        has(&shown, "Enter do it   Esc leave");
        press(&mut model, "\x1bC");
        let shown = drawn(&mut model, width, height);
        has(&shown, "You cannot undo this");
        has(&shown, "which jobs: buried");
    }
}

#[test]
fn help_lists_the_keys() {
    let mut model = model();
    press(&mut model, "?");
    has(&drawn(&mut model, 80, 24), "pause the queue, or end its pause");
    press(&mut model, "q");
    has_not(&drawn(&mut model, 80, 24), "pause the queue");
}

#[test]
fn a_server_that_goes_away_is_shown() {
    let mut model = model();
    drawn(&mut model, 80, 24);
    let now = Instant::now();
    model.update(Update::Trouble("cannot connect to 127.0.0.1:7300".to_owned()), now);
    let shown = lines(&mut model, 80, 24);
    has(&shown, "cannot connect to 127.0.0.1:7300; trying again; these numbers are 0 s old");
    has(&shown, "12,345");
    answer(&mut model);
    has_not(&lines(&mut model, 80, 24), "trying again");
    let later = now + Duration::from_secs(65);
    let late = model.alarm(later).unwrap();
    assert!(late.starts_with("waiting for the server's reply; these numbers are 1 m"), "{late}");
    assert_eq!(model.alarm(now + Duration::from_secs(3)), None);
}

#[test]
fn a_queue_that_is_gone_is_shown_as_gone() {
    let mut model = model();
    press(&mut model, "2");
    drawn(&mut model, 80, 24);
    press(&mut model, "\n");
    let head = model.head.clone().unwrap();
    let refusal = Err("no queue has the name `queue-0`".to_owned());
    model.update(
        Update::Answer { question: model.question(), head, content: refusal },
        Instant::now(),
    );
    has(&lines(&mut model, 80, 24), "no queue has the name `queue-0`");
}

#[test]
fn answers_to_earlier_questions_are_ignored() {
    let mut model = model();
    press(&mut model, "2");
    drawn(&mut model, 80, 24);
    let (question, head) = (model.question(), model.head.clone().unwrap());
    press(&mut model, "n");
    let page = serde_json::from_value(queues(&[queue_row("old", 1)], 1, None)).unwrap();
    let content = Ok(Content::Queues(page));
    model.update(Update::Answer { question, head, content }, Instant::now());
    has_not(&lines(&mut model, 80, 24), "old ");
}

#[test]
fn viewers_are_told_what_they_need() {
    let mut model = model();
    model.rights = Rights::Api(Role::Viewer);
    press(&mut model, "2");
    drawn(&mut model, 80, 24);
    press(&mut model, "P");
    assert_eq!(model.prompt, None);
    let shown = drawn(&mut model, 80, 24);
    has(&shown, "needs the role operator, and yours is viewer");
    has(&shown[..1], "read-only");
}

#[test]
fn without_the_api_there_are_only_the_queues() {
    let rights = Rights::Tubes("read-only, over the beanstalkd protocol".to_owned());
    let mut model = model();
    model.rights = rights;
    press(&mut model, "2");
    let head = Head::Tubes {
        version: "1.13".to_owned(),
        uptime_s: 5,
        connections: 1,
        is_draining: false,
        unnamed_count: 3,
    };
    let page = serde_json::from_value(queues(&[queue_row("mail", 1)], 1, None)).unwrap();
    let (question, content) = (model.question(), Ok(Content::Queues(page)));
    model.update(Update::Answer { question, head, content }, Instant::now());
    let shown = lines(&mut model, 80, 24);
    has(&shown, "read-only, over the beanstalkd protocol");
    has(&shown, "3 more with names not allowed in the beanstalkd protocol");
    has(&shown, "mail");
    has_not(&shown, "OLDEST");
    has_not(&shown, "P pause");
    press(&mut model, "5");
    has(&lines(&mut model, 80, 24), "this screen needs the HTTP API");
    press(&mut model, "2P");
    has(&lines(&mut model, 80, 24), "this needs the HTTP API");
}

#[test]
fn q_and_control_c_quit() {
    let mut model = model();
    press(&mut model, "2P");
    let q = Event::Key(KeyCode::Char('q').into());
    press(&mut model, "\x1b/q\n");
    assert!(model.handle(&q).is_break());
}

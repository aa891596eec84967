//! A model with answers of a server.

use std::time::{Duration, Instant};

use api::types::Role;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode};
use serde_json::{Value, json};

use super::super::action::Place;
use super::super::ask::{
    Content, Head, JobContent, OverviewContent, Question, QueueContent, Update,
};
use super::super::model::{Model, Rights};
use super::super::theme::Theme;
use super::super::view;

/// The numbers of a server.
pub(super) fn server() -> Value {
    json!({
        "version": "1.2.3", "host": "queue", "started_at": "", "now_at": "", "uptime_ms": 3_600_000,
        "status": "up", "draining": false,
        "health": { "level": "warning", "reasons": [
            { "level": "warning", "code": "memory", "text": "memory is nearly full; add some" }
        ] },
        "totals": {
            "ready": 12_345, "leased": 7, "delayed": 30, "buried": 2, "ready_bytes": 0, "queues": 3,
            "sessions": 9, "waiting_sessions": 4, "puts": 0, "takes": 0, "ends": 0, "releases": 0,
            "buries": 0, "timeouts": 0
        },
        "memory": { "used_bytes": 1_048_576, "limit_bytes": 2_097_152, "refused": 0 },
        "queue_limit": { "max": null, "refused": 0 },
        "connections": { "open": 9, "by_protocol": { "beanstalk": 6, "gearman": 3 }, "max": 1000 },
        "process": { "resident_bytes": 0, "processor_us": 0, "processors": 2 },
        "listeners": []
    })
}

/// The past of the numbers.
pub(super) fn history() -> Value {
    json!({ "step_ms": 10_000, "from_at": "", "series": {
        "ready": [1, 2, 3, 4], "puts_per_s": [null, 100.0, 50.0, 1203.4], "ends_per_s": [7.25],
        "oldest_ms": [3_200], "sync_p99_us": [1_500]
    } })
}

/// A queue in a list.
pub(super) fn queue_row(name: &str, ready: u64) -> Value {
    json!({
        "name": name, "ready": ready, "leased": 7, "delayed": 0, "buried": 2, "ready_bytes": 0,
        "head_age_ms": 61_000, "waiters": 4, "watchers": 5, "workers": 0, "pause_left_ms": 0,
        "is_of_items": false, "is_child": false, "puts_per_s": 12.5, "finishes_per_s": null,
        "growth_per_s": -2.5
    })
}

/// A page of queues.
pub(super) fn queues(rows: &[Value], matched: u64, next: Option<&str>) -> Value {
    json!({ "items": rows, "next": next, "matched": matched, "total": 100_000, "as_of_at": "" })
}

/// One queue.
pub(super) fn queue(name: &str) -> Value {
    json!({
        "name": name, "as_of_at": "", "ready": 12_345, "leased": 7, "delayed": 30, "buried": 2,
        "urgent": 0, "bands": { "high": 0, "normal": 0, "low": 0 }, "ready_bytes": 2048,
        "head_age_ms": 61_000, "puts": 20_000, "finishes": 7_000, "users": 1, "watchers": 5,
        "waiters": 4, "workers": 0, "pauses": 1, "pause_s": 600, "pause_left_ms": 599_000,
        "kept": false, "is_child": false, "is_being_removed": false, "has_cold_jobs": false,
        "limits": [0, 0, 0], "created_at": null, "items": null,
        "policy": [{ "key": "limits.jobs", "value": "50_000", "line": 12 },
                   { "key": "age.max", "value": "\"never\"", "line": null }]
    })
}

/// Why the jobs of the queue do not run.
pub(super) fn why() -> Value {
    json!({ "answer": "paused", "text": "the queue is paused; end the pause", "checked": [] })
}

/// One job.
pub(super) fn job(id: u64, queue: &str, state: &str, body: &str) -> Value {
    json!({
        "id": id, "queue": queue, "state": state, "priority": 1024, "ttr_s": 60, "delay_s": 0,
        "created_at": "2026-11-22T09:30:00.000Z", "age_ms": 61_000, "due_at": null,
        "time_left_ms": 59_000, "expires_at": null,
        "counters": { "takes": 3, "timeouts": 1, "releases": 0, "buries": 0, "kicks": 0,
                      "failures": 0 },
        "body_bytes": body.len(), "unique": null, "is_durable": true, "memory": null,
        "body": { "text": body, "is_cut": false },
        "holder": if state == "leased" { json!({ "connection": "2a", "held_ms": 1_000 }) }
                  else { Value::Null }
    })
}

/// A page of jobs.
pub(super) fn jobs(items: &[Value], next: Option<&str>) -> Value {
    json!({ "items": items, "next": next, "is_complete": true, "unreadable": 0, "total": 12_345,
            "as_of_at": "" })
}

/// A connection.
pub(super) fn connection(id: &str, address: &str) -> Value {
    json!({
        "id": id, "protocol": "beanstalk", "address": address, "tls": true,
        "opened_at": "2026-11-22T09:30:00.000Z", "idle_ms": 2_500, "received_bytes": 4096,
        "sent_bytes": 1, "unsent_bytes": 0, "used": "default", "queues": ["mail", "邮件"],
        "watched": 30, "registrations": 0, "holds": 2, "wait": { "for": "job", "left_ms": null },
        "held": null
    })
}

/// An operation.
pub(super) fn operation(id: u64, status: &str) -> Value {
    json!({
        "id": id, "kind": "kick", "queue": "mail", "to": null, "state": "buried", "status": status,
        "done": 250, "skipped": 0, "total": 1000, "per_s": 99.5, "started_at": "", "ended_at": null,
        "who": "ann", "problem": null
    })
}

fn value<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// A model that is allowed everything.
pub(super) fn model() -> Model {
    let rights = Rights::Api(Role::Admin);
    Model::new("127.0.0.1:7300".to_owned(), Place::default(), rights, String::new(), SECOND)
}

const SECOND: Duration = Duration::from_secs(1);

/// Gives the model the answer to its question.
pub(super) fn answer(model: &mut Model) {
    let content = match model.question() {
        Question::Nothing => Content::Nothing,
        Question::Overview => Content::Overview(Box::new(OverviewContent {
            history: value(history()),
            longest: vec![value(queue_row("mail", 12_345)), value(queue_row("邮件队列", 3))],
        })),
        Question::Queues(list) => {
            let rows: Vec<Value> = (0..list.limit as u64)
                .map(|row| match row {
                    1 => queue_row("邮件队列邮件队列邮件队列邮件队列", 99),
                    row => queue_row(&format!("queue-{row}"), 99_999 - row),
                })
                .collect();
            Content::Queues(value(queues(&rows, 100_000, Some("2"))))
        }
        Question::Queue { name, state, .. } => {
            let state = state.name();
            let items = [
                job(42, &name, state, "to=ann\nand a second line"),
                job(
                    43,
                    &name,
                    state,
                    "收件人=安娜 收件人=安娜 收件人=安娜 收件人=安娜 收件人=安娜",
                ),
            ];
            Content::Queue(Box::new(QueueContent {
                queue: value(queue(&name)),
                rates: Some((12.5, 3.0)),
                why: value(why()),
                jobs: value(jobs(&items, None)),
            }))
        }
        Question::Job(id) => Content::Job(Box::new(JobContent {
            job: value(job(id, "邮件", "leased", "")),
            body: Some("{\"to\":\"安娜\"}".as_bytes().to_vec()),
            why: None,
        })),
        Question::Connections { .. } => Content::Connections(value(json!({
            "items": [connection("2a", "10.0.0.7:51000"), connection("2b", "unix")],
            "next": null, "open": 2
        }))),
        Question::Operations => Content::Operations(value(json!({
            "items": [operation(2, "running"), operation(1, "done")]
        }))),
    };
    let head = Head::Server(Box::new(value(server())));
    let update = Update::Answer { question: model.question(), head, content: Ok(content) };
    model.update(update, Instant::now());
}

/// The keys of a text.
pub(super) fn press(model: &mut Model, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '⇟' => KeyCode::PageDown,
            key => KeyCode::Char(key),
        };
        assert!(model.handle(&Event::Key(code.into())).is_continue(), "{key}");
    }
}

/// Draws the model, and again with the answer to the question that the drawing led to. Returns the
/// lines.
pub(super) fn drawn(model: &mut Model, width: u16, height: u16) -> Vec<String> {
    answer(model);
    lines(model, width, height);
    answer(model);
    lines(model, width, height);
    answer(model);
    lines(model, width, height)
}

/// Draws the model. Returns the lines.
pub(super) fn lines(model: &mut Model, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        view::draw(frame, model, Theme::Many, Instant::now());
    };
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |cells: &[ratatui::buffer::Cell]| {
        let mut text = String::new();
        let mut skip = 0;
        for cell in cells {
            // The cell behind a wide character is empty.
            if skip == 0 {
                text.push_str(cell.symbol());
                skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).max(1);
            }
            skip -= 1;
        }
        text.trim_end().to_owned()
    };
    buffer.content().chunks(usize::from(width)).map(line).collect()
}

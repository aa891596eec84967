//! Help: the words of the console, its keys, and the problems of the API.

use api::{Api, ProblemKind};
use axum::extract::State;
use maud::html;

use crate::page::{Page, Result};

/// The words, and what they mean.
const WORDS: [(&str, &str); 6] = [
    (
        "ready",
        "The job waits for a worker. The next one is the job with the lowest priority number; \
        of these, the oldest.",
    ),
    (
        "leased",
        "A worker has the job. If the worker does not end it in its time to run, the job \
        becomes ready again. Other names: reserved, open.",
    ),
    ("delayed", "The job becomes ready at a later moment."),
    ("buried", "The job was set aside. It stays until a client kicks or deletes it."),
    ("age", "The time since the put of the next ready job of a queue."),
    ("growth", "How many ready jobs a queue gains or loses each second."),
];

const KEYS: [(&str, &str); 7] = [
    ("/", "search for a queue"),
    ("o", "overview"),
    ("q", "queues"),
    ("c", "connections"),
    ("l", "log"),
    ("j, k", "next row, row before"),
    ("Enter", "open the row"),
];

pub(crate) async fn page(State(api): State<Api>) -> Result {
    let contents = html! {
        div .title { h1 { "Help" } }
        div .columns {
            section {
                h2 { "Words" }
                dl .policy { @for (word, meaning) in WORDS { dt { (word) } dd { (meaning) } } }
            }
            section {
                h2 { "Keys" }
                dl .policy { @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } } }
                h2 { "Programs" }
                p {
                    "Everything here is also at " code { "/api/v1" } ". Its description is "
                    a href="/api/v1/openapi.json" { "openapi.json" } "."
                }
                form .filter action={ (crate::PREFIX) "/jobs" } {
                    input name="id" inputmode="numeric" placeholder="Number of a job"
                        aria-label="Number of a job";
                    button { "Show the job" }
                }
            }
        }
        section #problems {
            h2 { "Problems of the API" }
            ul { @for kind in ProblemKind::ALL { li id=(kind.name()) { code { (kind.name()) } " " (kind.status().as_u16()) } } }
        }
    };
    Ok(Page::new(&api, "/help", "Help", contents))
}

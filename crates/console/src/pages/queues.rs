//! The list of queues: searched, sorted, and in pages.

use api::Api;
use api::types::QueueRow;
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::table::{Sorting, paging};
use crate::texts::Texts;
use crate::{bar, link, number};

pub(crate) async fn page(State(api): State<Api>, t: &'static Texts, uri: Uri) -> Result {
    // The choices of queues: the value of the parameter, and the text.
    let states = [
        (None, t.frame.all),
        (Some("nonempty"), t.queues.with_jobs),
        (Some("paused"), t.queues.paused),
        (Some("unwatched"), t.queues.unwatched),
    ];
    let query = uri.query().unwrap_or_default();
    let queues = api.queues(api.list_queues(query)?).await;
    let parameters: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let (search, state) = (parameter("search"), parameter("state"));
    let sort = parameter("sort").unwrap_or("name");
    let path = &format!("{}/queues", crate::PREFIX);
    let kept = [("search", search), ("state", state)];
    let sorting = Sorting { path, now: sort, kept: &kept };
    let page_at = |cursor: Option<&str>| {
        let parameters =
            [("search", search), ("state", state), ("sort", Some(sort)), ("cursor", cursor)];
        link::with(path, &parameters)
    };
    let contents = html! {
        div .title { h1 { (t.frame.queues) } }
        form .filter action=(path) {
            input type="search" name="search" value=[search]
                placeholder=(t.queues.part_of_name) aria-label=(t.queues.part_of_name);
            @if let Some(state) = state { input type="hidden" name="state" value=(state); }
            input type="hidden" name="sort" value=(sort);
            button { (t.frame.search) }
            span .chips role="group" aria-label=(t.queues.which) {
                @for (value, name) in states {
                    @let parameters = [("search", search), ("state", value), ("sort", Some(sort))];
                    a href=(link::with(path, &parameters))
                        aria-current=[(value == state).then_some("true")]
                    { (name) }
                }
            }
        }
        section #queues data-live {
            p .count {
                ((t.queues.count)(&number::grouped(queues.matched), &number::grouped(queues.total)))
            }
            @if queues.items.is_empty() {
                p .empty { (t.queues.no_match) }
            } @else {
                div .scroll { (list(t, &queues.items, sorting)) }
            }
            (paging(
                t,
                parameter("cursor").map(|_| page_at(None)),
                queues.next.map(|next| page_at(Some(&next))),
            ))
        }
    };
    let parameters = [("search", search), ("state", state), ("sort", Some(sort))];
    let equal = Equal::default().job_command(&["stats"]).get("/queues", &parameters);
    Ok(Page::new(&api, "/queues", t.frame.queues, contents).equal_to(equal))
}

fn list(t: &Texts, rows: &[QueueRow], sorting: Sorting<'_>) -> Markup {
    let (words, texts) = (&t.words, &t.queues);
    html! {
        table .wide {
            caption .hidden { (texts.caption) }
            thead {
                tr {
                    (sorting.heading(words.queue, "name"))
                    th .bar scope="col" { (words.jobs) }
                    (sorting.heading(words.ready, "ready"))
                    (sorting.heading(words.leased, "leased"))
                    (sorting.heading(words.delayed, "delayed"))
                    (sorting.heading(words.buried, "buried"))
                    (sorting.heading(words.age, "age"))
                    (sorting.heading(texts.puts, "in"))
                    (sorting.heading(texts.finishes, "out"))
                    (sorting.heading(texts.growth, "growth"))
                    (sorting.heading(texts.waiting, "waiters"))
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        th .name scope="row" {
                            (link::to_queue(t, &row.name))
                            (marks(t, row))
                        }
                        td .bar { (bar::states(words, [row.ready, row.leased, row.delayed, row.buried])) }
                        td .num { (number::count_or_dash(row.ready)) }
                        td .num { (number::count_or_dash(row.leased)) }
                        td .num { (number::count_or_dash(row.delayed)) }
                        td .num { (number::count_or_dash(row.buried)) }
                        td .num { (number::duration(row.head_age_ms)) }
                        td .num { (number::rate(row.puts_per_s)) }
                        td .num { (number::rate(row.finishes_per_s)) }
                        td .num { (number::rate(row.growth_per_s)) }
                        td .num { (number::count_or_dash(row.waiters)) }
                    }
                }
            }
        }
    }
}

fn marks(t: &Texts, row: &QueueRow) -> Markup {
    html! {
        @if row.workers > 0 { " " span .mark { "Gearman" } }
        @if row.is_of_items { " " span .mark { "Kestrel" } }
        @if row.is_child { " " span .mark { (t.queues.fan_out) } }
        @if row.pause_left_ms > 0 {
            " " span .mark .warning {
                ((t.words.paused)(&number::span(row.pause_left_ms)))
            }
        }
    }
}

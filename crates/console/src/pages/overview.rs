//! The overview: is all well, and where is work waiting?

use std::collections::BTreeMap;

use api::types::QueueRow;
use api::{Api, Series, Span};
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::chart::{Chart, Line, Values, spark};
use crate::page::{Page, Result, level};
use crate::{bar, link, number};

/// The rows of each list.
const TOP: &str = "limit=8&state=nonempty&sort=";

pub(crate) async fn page(State(api): State<Api>, uri: Uri) -> Result {
    let past = Past::read(&api, uri.query().unwrap_or_default());
    let server = api.server();
    let totals = &server.totals;
    let top = async |sort: &str| -> Result<Vec<QueueRow>> {
        Ok(api.queues(api.list_queues(&format!("{TOP}{sort}"))?).await.items)
    };
    let (longest, oldest, growing) =
        (top("-ready").await?, top("-age").await?, top("-growth").await?);
    let oldest: Vec<QueueRow> = oldest.into_iter().filter(|row| row.head_age_ms > 0).collect();
    let longest: Vec<QueueRow> = longest.into_iter().filter(|row| row.ready > 0).collect();
    let growing: Vec<QueueRow> =
        growing.into_iter().filter(|row| row.growth_per_s.is_some_and(|rate| rate > 0.0)).collect();
    let health = server.health.level;
    let contents = html! {
        div .title {
            h1 { "Overview" }
            p #health data-live class={ "level " (level(health)) } { (level(health)) }
        }
        section #tiles data-live .tiles aria-label="jobs" {
            (tile("Ready", "ready", number::count(totals.ready), "jobs wait for a worker",
                past.spark(Series::Ready, "ready")))
            (tile("Leased", "leased", number::count(totals.leased), "jobs that workers have",
                past.spark(Series::Leased, "leased")))
            (tile("Delayed", "delayed", number::count(totals.delayed), "jobs wait for their time",
                past.spark(Series::Delayed, "delayed")))
            (tile("Buried", "buried", number::count(totals.buried), "jobs that were set aside",
                past.spark(Series::Buried, "buried")))
            (tile("Waiting", "", number::count(totals.waiting_sessions), "clients wait for a job",
                html! {}))
            (tile("Queues", "", number::count(totals.queues), "that exist", html! {}))
            (tile("Connections", "", number::count(server.connections.open), "are open",
                past.spark(Series::Connections, "neutral")))
            (tile("Up", "", html! { (number::span(server.uptime_ms)) }, "since the start",
                html! {}))
        }
        section #bar data-live {
            (bar::states(totals.ready, totals.leased, totals.delayed, totals.buried))
        }
        (past.charts())
        div .columns {
            (list("Longest", "by ready jobs", "longest", &longest, "Ready", |row| {
                number::count(row.ready)
            }))
            (list("Oldest", "by the age of the next job", "oldest", &oldest, "Age", |row| {
                number::duration(row.head_age_ms)
            }))
            (list("Growing", "ready jobs per second", "growing", &growing, "Growth", |row| {
                number::rate(row.growth_per_s)
            }))
        }
        div .columns {
            section #work data-live {
                h2 { "Since the start" }
                dl {
                    dt { "Jobs put" } dd { (number::count(totals.puts)) }
                    dt { "Jobs handed out" } dd { (number::count(totals.takes)) }
                    dt { "Jobs ended" } dd { (number::count(totals.ends)) }
                    dt { "Given back" } dd { (number::count_or_dash(totals.releases)) }
                    dt { "Buried" } dd { (number::count_or_dash(totals.buries)) }
                    dt { "Time to run ended" } dd { (number::count_or_dash(totals.timeouts)) }
                }
            }
            section #memory data-live {
                h2 { "Memory" }
                @if let Some(limit) = server.memory.limit_bytes {
                    (bar::used(server.memory.used_bytes, limit, "memory in use"))
                }
                dl {
                    dt { "Jobs, queues and connections" }
                    dd { (number::bytes(server.memory.used_bytes)) }
                    @if let Some(limit) = server.memory.limit_bytes {
                        dt { "Limit" } dd { (number::bytes(limit)) }
                    }
                    dt { "Puts refused" } dd { (number::count_or_dash(server.memory.refused)) }
                    dt { "The whole process" }
                    dd { (number::bytes(server.process.resident_bytes)) }
                }
            }
            section {
                h2 { "Server" }
                dl {
                    dt { "Version" } dd { (server.version) }
                    dt { "Started" } dd { time datetime=(server.started_at) { (server.started_at) } }
                    @for listener in &server.listeners {
                        dt { (listener.protocol) }
                        dd { code { (listener.address) } @if listener.tls { " TLS" } }
                    }
                }
            }
        }
    };
    Ok(Page::new(&api, "", "Overview", contents))
}

/// The history of a span.
struct Past {
    span: Span,
    series: BTreeMap<String, Vec<Option<f32>>>,
}

/// The spans: the name, and the names of the beginning and the middle of a chart.
const SPANS: [(Span, &str, (&str, &str)); 3] = [
    (Span::Hour, "1 hour", ("1 h ago", "30 min ago")),
    (Span::Day, "24 hours", ("24 h ago", "12 h ago")),
    (Span::Month, "30 days", ("30 days ago", "15 days ago")),
];

impl Past {
    /// `query` is the text behind the `?` of the page. It can have a `span`.
    fn read(api: &Api, query: &str) -> Past {
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let span = parameters.find(|(name, _)| name == "span");
        let span = span.and_then(|(_, value)| Span::named(&value)).unwrap_or(Span::Hour);
        let mut series = api.history(span, &Series::ALL).series;
        // The chart shows milliseconds, like that of the ages.
        if let Some(syncs) = series.get_mut(Series::Sync.name()) {
            syncs.iter_mut().flatten().for_each(|value| *value /= 1e3);
        }
        Past { span, series }
    }

    fn of(&self, series: Series) -> &Values {
        self.series.get(series.name()).map_or(&[], Vec::as_slice)
    }

    fn spark(&self, series: Series, class: &str) -> Markup {
        spark(self.of(series), self.span.values(), class)
    }

    fn line(&self, class: &'static str, name: &'static str, series: Series) -> Line<'_> {
        Line { class, name, values: self.of(series) }
    }

    fn charts(&self) -> Markup {
        let times =
            SPANS.iter().find(|(span, ..)| *span == self.span).map_or(("", ""), |row| row.2);
        let chart = |id, title, what, lines, unit| Chart {
            id,
            title,
            what,
            lines,
            is_stacked: false,
            keeps_peaks: false,
            values: self.span.values(),
            times,
            unit,
        };
        let states = vec![
            self.line("buried", "Buried", Series::Buried),
            self.line("leased", "Leased", Series::Leased),
            self.line("delayed", "Delayed", Series::Delayed),
            self.line("ready", "Ready", Series::Ready),
        ];
        let jobs = chart("jobs-chart", "Jobs", "by state", states, number::plain);
        let work = vec![
            self.line("ready", "Put", Series::Puts),
            self.line("leased", "Handed out", Series::Takes),
            self.line("ended", "Ended", Series::Ends),
        ];
        let oldest = vec![self.line("delayed", "Oldest", Series::Oldest)];
        let syncs = vec![self.line("neutral", "Sync", Series::Sync)];
        html! {
            div .spans {
                h2 { "History" }
                nav .chips aria-label="length of time" {
                    @for (span, name, _) in SPANS {
                        a href={ (crate::PREFIX) "?span=" (span.name()) }
                            aria-current=[(span == self.span).then_some("true")]
                        { (name) }
                    }
                }
            }
            div .charts {
                (Chart { is_stacked: true, ..jobs }.markup())
                (chart("work-chart", "Work", "jobs per second", work, number::per_second).markup())
                (Chart {
                    keeps_peaks: true,
                    ..chart("age-chart", "Oldest job", "that is next in its queue", oldest,
                        number::time)
                }.markup())
                (Chart {
                    keeps_peaks: true,
                    ..chart("sync-chart", "Sync of the log", "99 % are faster", syncs,
                        number::time)
                }.markup())
            }
        }
    }
}

fn tile(name: &str, class: &str, value: Markup, what: &str, spark: Markup) -> Markup {
    html! {
        div class={ "tile " (class) } {
            (spark)
            span .name { (name) }
            span .value { (value) }
            span .what { (what) }
        }
    }
}

fn list(
    title: &str,
    what: &str,
    id: &str,
    rows: &[QueueRow],
    column: &str,
    value: impl Fn(&QueueRow) -> Markup,
) -> Markup {
    html! {
        section id=(id) data-live {
            h2 { (title) " " small { (what) } }
            @if rows.is_empty() {
                p .empty { "No queue." }
            } @else {
                table {
                    thead { tr { th scope="col" { "Queue" } th .num scope="col" { (column) } } }
                    tbody {
                        @for row in rows {
                            tr {
                                td .name { a href=(link::queue(&row.name)) { (row.name) } }
                                td .num { (value(row)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

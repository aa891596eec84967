//! The overview: is all well, and where is work waiting?

use std::collections::BTreeMap;

use api::types::QueueRow;
use api::{Api, Series, Span};
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::chart::{Chart, Line, Values, spark};
use crate::equal::Equal;
use crate::page::{Page, Result, class, level};
use crate::texts::Texts;
use crate::{bar, link, number};

/// The rows of each list.
const TOP: &str = "limit=8&state=nonempty&sort=";

pub(crate) async fn page(State(api): State<Api>, t: &'static Texts, uri: Uri) -> Result {
    let past = Past::read(&api, t, uri.query().unwrap_or_default());
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
    let (words, texts) = (&t.words, &t.overview);
    let state = |class, name, jobs, what, series| {
        tile(name, class, &number::count(jobs), what, &past.spark(series, class))
    };
    let none = html! {};
    let contents = html! {
        div .title {
            h1 { (t.frame.overview) }
            p #health data-live class={ "level " (class(health)) } { (level(t, health)) }
        }
        section #tiles data-live .tiles aria-label=(words.jobs) {
            (state("ready", words.ready, totals.ready, texts.ready, Series::Ready))
            (state("leased", words.leased, totals.leased, texts.leased, Series::Leased))
            (state("delayed", words.delayed, totals.delayed, texts.delayed, Series::Delayed))
            (state("buried", words.buried, totals.buried, texts.buried, Series::Buried))
            (tile(texts.waiting.0, "", &number::count(totals.waiting_sessions), texts.waiting.1,
                &none))
            (tile(t.frame.queues, "", &number::count(totals.queues), texts.queues, &none))
            (tile(t.frame.connections, "", &number::count(server.connections.open),
                texts.connections, &past.spark(Series::Connections, "neutral")))
            (tile(texts.up.0, "", &html! { (number::span(server.uptime_ms)) }, texts.up.1, &none))
        }
        section #bar data-live {
            (bar::states(words, [totals.ready, totals.leased, totals.delayed, totals.buried]))
        }
        (past.charts())
        div .columns {
            (list(t, texts.longest, "longest", &longest, words.ready, words.no_queue, |row| {
                number::count(row.ready)
            }))
            (list(t, texts.oldest, "oldest", &oldest, words.age, words.no_queue, |row| {
                number::duration(row.head_age_ms)
            }))
            (list(t, texts.growing, "growing", &growing, texts.growth, texts.no_growing, |row| {
                number::rate(row.growth_per_s)
            }))
        }
        div .columns {
            section #work data-live {
                h2 { (texts.since_start) }
                dl {
                    dt { (words.puts) } dd { (number::count(totals.puts)) }
                    dt { (words.takes) } dd { (number::count(totals.takes)) }
                    dt { (words.ends) } dd { (number::count(totals.ends)) }
                    dt { (words.given_back) } dd { (number::count_or_dash(totals.releases)) }
                    dt { (words.times_buried) } dd { (number::count_or_dash(totals.buries)) }
                    dt { (words.timeouts) } dd { (number::count_or_dash(totals.timeouts)) }
                }
            }
            section #memory data-live {
                h2 { (words.memory) }
                @if let Some(limit) = server.memory.limit_bytes {
                    (bar::used(server.memory.used_bytes, limit, texts.in_use))
                }
                dl {
                    dt { (texts.of_jobs) } dd { (number::bytes(server.memory.used_bytes)) }
                    @if let Some(limit) = server.memory.limit_bytes {
                        dt { (texts.limit) } dd { (number::bytes(limit)) }
                    }
                    dt { (texts.puts_refused) } dd { (number::count_or_dash(server.memory.refused)) }
                    dt { (texts.process) } dd { (number::bytes(server.process.resident_bytes)) }
                }
            }
            section {
                h2 { (texts.server) }
                dl {
                    dt { (texts.version) } dd { (server.version) }
                    dt { (texts.started) } dd { (number::moment(&server.started_at)) }
                    @for listener in &server.listeners {
                        dt { (listener.protocol) }
                        dd { code { (listener.address) } @if listener.tls { " TLS" } }
                    }
                }
            }
        }
    };
    let equal = Equal::default().command(&["status"]).get("/server", &[]);
    Ok(Page::new(&api, "", t.frame.overview, contents).equal_to(equal))
}

/// The history of a span.
struct Past {
    texts: &'static Texts,
    span: Span,
    series: BTreeMap<String, Vec<Option<f32>>>,
}

/// The spans, in the order of their texts.
const SPANS: [Span; 3] = [Span::Hour, Span::Day, Span::Month];

impl Past {
    /// `query` is the text behind the `?` of the page. It can have a `span`.
    fn read(api: &Api, texts: &'static Texts, query: &str) -> Past {
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let span = parameters.find(|(name, _)| name == "span");
        let span = span.and_then(|(_, value)| Span::named(&value)).unwrap_or(Span::Hour);
        let mut series = api.history(span, &Series::ALL).series;
        // The chart shows milliseconds, like that of the ages.
        if let Some(syncs) = series.get_mut(Series::Sync.name()) {
            syncs.iter_mut().flatten().for_each(|value| *value /= 1e3);
        }
        Past { texts, span, series }
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
        let (t, words) = (&self.texts.overview, &self.texts.words);
        let spans = SPANS.into_iter().zip(t.spans);
        let times = spans.clone().find(|(span, _)| *span == self.span);
        let times = times.map_or(("", ""), |(_, (_, times))| times);
        let chart = |id, (title, what), lines, unit| Chart {
            id,
            title,
            what,
            lines,
            is_stacked: false,
            keeps_peaks: false,
            values: self.span.values(),
            times,
            unit,
            texts: self.texts,
        };
        let states = vec![
            self.line("buried", words.buried, Series::Buried),
            self.line("leased", words.leased, Series::Leased),
            self.line("delayed", words.delayed, Series::Delayed),
            self.line("ready", words.ready, Series::Ready),
        ];
        let jobs = chart("jobs-chart", t.jobs_chart, states, number::plain);
        let work = vec![
            self.line("ready", t.put, Series::Puts),
            self.line("leased", t.handed_out, Series::Takes),
            self.line("ended", t.ended, Series::Ends),
        ];
        let work = chart("work-chart", t.work_chart, work, number::per_second);
        let oldest = vec![self.line("delayed", t.oldest_line, Series::Oldest)];
        let oldest = chart("age-chart", t.age_chart, oldest, number::time);
        let syncs = vec![self.line("neutral", t.sync_line, Series::Sync)];
        let syncs = chart("sync-chart", t.sync_chart, syncs, number::time);
        html! {
            div .spans {
                h2 { (t.history) }
                nav .chips aria-label=(t.length) {
                    @for (span, (name, _)) in spans {
                        a href={ (crate::PREFIX) "?span=" (span.name()) }
                            aria-current=[(span == self.span).then_some("true")]
                        { (name) }
                    }
                }
            }
            div .charts {
                (Chart { is_stacked: true, ..jobs }.markup())
                (work.markup())
                (Chart { keeps_peaks: true, ..oldest }.markup())
                (Chart { keeps_peaks: true, ..syncs }.markup())
            }
        }
    }
}

fn tile(name: &str, class: &str, value: &Markup, what: &str, spark: &Markup) -> Markup {
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
    t: &Texts,
    (title, what): (&str, &str),
    id: &str,
    rows: &[QueueRow],
    column: &str,
    empty: &str,
    value: impl Fn(&QueueRow) -> Markup,
) -> Markup {
    html! {
        section id=(id) data-live {
            h2 { (title) " " small { (what) } }
            @if rows.is_empty() {
                p .empty { (empty) }
            } @else {
                table {
                    thead {
                        tr {
                            th scope="col" { (t.words.queue) }
                            th .num scope="col" { (column) }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                td .name { (link::to_queue(t, &row.name)) }
                                td .num { (value(row)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

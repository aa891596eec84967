//! Help: the words of the console, its keys, and the problems of the API.

use api::{Api, ProblemKind};
use axum::extract::State;
use maud::html;

use crate::page::{Page, Result};
use crate::texts::Texts;

pub(crate) async fn page(State(api): State<Api>, texts: &'static Texts) -> Result {
    let t = &texts.help;
    let contents = html! {
        div .title { h1 { (texts.frame.help) } }
        div .columns {
            section {
                h2 { (t.words) }
                dl .policy { @for (word, meaning) in t.meanings { dt { (word) } dd { (meaning) } } }
            }
            section {
                h2 { (t.keys) }
                dl .policy { @for (key, what) in t.uses { dt { kbd { (key) } } dd { (what) } } }
                p #keys hidden {
                    label { input type="checkbox"; " " (t.use_keys) }
                }
                h2 { (t.programs) }
                p {
                    (t.api.0) code { "/api/v1" } (t.api.1)
                    a href="/api/v1/openapi.json" { "openapi.json" }
                }
                form .filter action={ (crate::PREFIX) "/jobs" } {
                    input name="id" inputmode="numeric" placeholder=(t.job_number)
                        aria-label=(t.job_number);
                    button { (t.show_job) }
                }
            }
        }
        section #problems {
            h2 { (t.problems) }
            ul { @for kind in ProblemKind::ALL { li id=(kind.name()) { code { (kind.name()) } " " (kind.status().as_u16()) } } }
        }
    };
    Ok(Page::new(&api, "/help", texts.frame.help, contents))
}

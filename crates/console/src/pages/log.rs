//! The log: its size, its work and its errors.

use api::Api;
use axum::extract::State;
use maud::html;

use crate::page::{Page, Result};
use crate::{bar, number};

pub(crate) async fn page(State(api): State<Api>) -> Result {
    let log = api.log();
    let errors = [
        ("The log failed", &log.failure),
        ("Disk space cannot be freed", &log.reclaim_error),
        ("An index file cannot be used", &log.index_error),
        ("A body cannot be read", &log.body_error),
    ];
    let segments = match log.current_segment {
        0 => 0,
        current => u64::from(current) + 1 - u64::from(log.oldest_segment),
    };
    let contents = html! {
        div .title { h1 { "Log" } }
        @if log.current_segment == 0 {
            p .empty { "This server has no log: its jobs are only in memory." }
        } @else {
            section #errors data-live {
                @for (name, error) in errors {
                    @if let Some(error) = error { p .banner .critical { strong { (name) } ": " (error) } }
                }
            }
            div .columns {
                section #size data-live {
                    h2 { "On disk" }
                    (bar::used(log.live_bytes, log.data_bytes.max(1), "bytes still needed"))
                    dl {
                        dt { "Files of the log" } dd { (number::bytes(log.data_bytes)) }
                        dt { "Still needed" } dd { (number::bytes(log.live_bytes)) }
                        dt { "Kept for later" } dd { (number::bytes(log.prepared_bytes)) }
                        dt { "Segments" }
                        dd { (segments) " " small { "from " (log.oldest_segment) " to " (log.current_segment) } }
                        dt { "Room for new jobs" } dd { @if log.is_full { "none" } @else { "yes" } }
                    }
                }
                section #writes data-live {
                    h2 { "Written since the start" }
                    dl {
                        dt { "Entries" } dd { (number::count(log.records_written)) }
                        dt { "Of these, copies to free files" } dd { (number::count_or_dash(log.records_copied)) }
                        dt { "Bytes" } dd { (number::bytes(log.bytes_written)) }
                        dt { "Bytes for changes of clients" } dd { (number::bytes(log.bytes_of_clients)) }
                    }
                }
                section #absent data-live {
                    h2 { "In the log only" }
                    dl {
                        dt { "Bodies" } dd { (number::count_or_dash(log.stored_bodies)) }
                        dt { "Whole jobs" } dd { (number::count_or_dash(log.cold_jobs)) }
                        dt { "Jobs that cannot be read" } dd { (number::count_or_dash(log.unreadable_jobs)) }
                        dt { "Bodies in memory, too" } dd { (number::bytes(log.resident_body_bytes)) }
                    }
                }
            }
            p .form {
                "To copy the log while the server runs: " code { "lineshaft backup DIR" } ". To check it: "
                code { "lineshaft log check DIR" } "."
            }
        }
    };
    Ok(Page::new(&api, "/log", "Log", contents))
}

//! The log: its size, its work and its errors.

use api::types::Role;
use api::{Api, Principal};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::texts::Texts;
use crate::{actions, bar, number};

/// How fast a backup reads: fast, but not as fast as the disk.
const BACKUP_BYTES_PER_S: u64 = 100 << 20;

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    texts: &'static Texts,
) -> Result {
    let log = api.log();
    let t = &texts.log;
    let errors = [&log.failure, &log.reclaim_error, &log.index_error, &log.body_error];
    let segments = match log.current_segment {
        0 => 0,
        current => u64::from(current) + 1 - u64::from(log.oldest_segment),
    };
    let contents = html! {
        div .title { h1 { (texts.frame.log) } }
        @if log.current_segment == 0 {
            p .empty { (t.in_memory) }
        } @else {
            section #errors data-live {
                @for (name, error) in t.errors.into_iter().zip(errors) {
                    @if let Some(error) = error { p .banner .critical { strong { (name) } ": " (error) } }
                }
            }
            div .columns {
                section #size data-live {
                    h2 { (t.on_disk) }
                    (bar::used(log.live_bytes, log.data_bytes.max(1), t.bytes_needed))
                    dl {
                        dt { (t.files) } dd { (number::bytes(log.data_bytes)) }
                        dt { (t.needed) } dd { (number::bytes(log.live_bytes)) }
                        dt { (t.kept) } dd { (number::bytes(log.prepared_bytes)) }
                        dt { (t.segments) }
                        dd { (segments) " " small {
                                ((t.from_to)(&log.oldest_segment.to_string(), &log.current_segment.to_string()))
                            } }
                        dt { (t.room) }
                        dd { @if log.is_full { (texts.words.no) } @else { (texts.words.yes) } }
                    }
                }
                section #writes data-live {
                    h2 { (t.written) }
                    dl {
                        dt { (t.entries) } dd { (number::count(log.records_written)) }
                        dt { (t.copies) } dd { (number::count_or_dash(log.records_copied)) }
                        dt { (t.bytes) } dd { (number::bytes(log.bytes_written)) }
                        dt { (t.bytes_of_clients) } dd { (number::bytes(log.bytes_of_clients)) }
                    }
                }
                @if let Some(recovery) = log.recovery {
                    section #recovery {
                        h2 { (t.recovery.0) " " small { (t.recovery.1) } }
                        dl {
                            dt { (t.took) } dd { (number::duration(recovery.took_ms)) }
                            dt { (t.read) } dd { (number::bytes(recovery.bytes)) }
                            dt { (t.by_index) }
                            dd { ((t.of)(
                                &recovery.indexed_segments.to_string(),
                                &recovery.segments.to_string(),
                            )) }
                            dt { (texts.words.jobs) } dd { (number::count_or_dash(recovery.jobs)) }
                            dt { (t.cut) } dd { (number::bytes(recovery.cut_bytes)) }
                            @if log.stopped_ms > 0 {
                                dt { (t.stopped) }
                                dd { (number::duration(log.stopped_ms.unsigned_abs())) }
                            }
                        }
                    }
                }
                section #absent data-live {
                    h2 { (t.only_in_log) }
                    dl {
                        dt { (t.bodies) } dd { (number::count_or_dash(log.stored_bodies)) }
                        dt { (t.whole_jobs) } dd { (number::count_or_dash(log.cold_jobs)) }
                        dt { (t.unreadable) } dd { (number::count_or_dash(log.unreadable_jobs)) }
                        dt { (t.in_memory_too) } dd { (number::bytes(log.resident_body_bytes)) }
                    }
                }
            }
            @if principal.require(Role::Admin).is_ok() {
                section #backup {
                    h2 { (t.backup) }
                    p { (t.backup_remark) }
                    (actions::form(
                        &principal,
                        &format!("{}/log/backup", crate::PREFIX),
                        t.back_up,
                        &html! {},
                    ))
                }
            }
            p .form {
                (t.to_copy) " " code { "lineshaft backup DIR" } " " (t.to_check) " "
                code { "lineshaft log check DIR" }
            }
        }
    };
    let mut equal = Equal::default().get("/log", &[]);
    if log.current_segment > 0 && principal.require(Role::Admin).is_ok() {
        equal = equal.download("/server/backup", "lineshaft-backup.tar");
    }
    Ok(Page::new(&api, "/log", texts.frame.log, contents).equal_to(equal))
}

/// A backup, as a file that the browser saves.
pub(crate) async fn back_up(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
) -> Result<Response> {
    principal.require(Role::Admin)?;
    Ok(api.backup(BACKUP_BYTES_PER_S)?)
}

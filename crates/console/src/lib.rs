//! The web console: pages in which operators see queues, jobs and the log.
//!
//! The server makes the HTML, from the values that the API shows as JSON. So each number has one
//! definition, and every page works without scripts. A small script replaces the parts of a page
//! that change, and adds keys. Nothing comes from other servers.
//!
//! - `guard`: who sees a page, and who can send a form. `page`: the frame of all pages, and errors.
//!   `pages`: one file for each page. `actions`, `redrive`: forms that change
//!   something.
//! - `texts`: all texts, in each language. `look`: the language and the colors that a person wants.
//! - `equal`: the same as a page, as commands and HTTP requests.
//! - `table`, `bar`, `chart`, `number`, `link`, `body`: parts of pages. `assets`: the style sheet, the
//!   script and the icon.

mod actions;
mod assets;
mod bar;
mod body;
mod chart;
mod chosen;
mod equal;
mod guard;
mod link;
mod look;
mod number;
mod page;
mod pages;
mod redrive;
mod table;
mod texts;

use api::Api;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

/// All paths of the console begin with this.
pub const PREFIX: &str = "/console";

/// The router of the console. All its paths begin with [`PREFIX`].
pub fn router(api: Api) -> Router {
    let pages = Router::new()
        .route("/", get(pages::overview::page))
        .route("/queues", get(pages::queues::page))
        .route("/queues/{queue}", get(pages::queue::page))
        .route("/queues/{queue}/pause", post(actions::pause))
        .route("/queues/{queue}/resume", post(actions::resume))
        .route("/queues/{queue}/kick", post(actions::kick_queue))
        .route("/queues/{queue}/redrive", post(redrive::redrive_queue))
        .route("/queues/{queue}/clear", post(actions::clear_queue))
        .route("/queues/{queue}/move", post(chosen::move_queue))
        .route("/queues/{queue}/chosen", post(chosen::act))
        .route("/queues/{queue}/history", get(pages::history::list))
        .route("/jobs/{id}/history", get(pages::history::one))
        .route("/jobs/{id}/run-again", post(pages::history::run_again))
        .route("/operations", get(pages::operations::page))
        .route("/operations/{id}/cancel", post(actions::cancel))
        .route("/jobs/{id}/move", post(chosen::move_job))
        .route("/jobs/{id}/kick", post(actions::kick_job))
        .route("/jobs/{id}/redrive", post(redrive::redrive_job))
        .route("/jobs/{id}/set-aside", post(actions::set_aside_job))
        .route("/jobs/{id}/delete", post(actions::delete_job))
        .route("/jobs", get(pages::job::find))
        .route("/jobs/{id}", get(pages::job::page))
        .route("/connections", get(pages::connections::list))
        .route("/connections/{id}", get(pages::connections::one))
        .route("/sessions", get(pages::sessions::page))
        .route("/sessions/{id}/end", post(pages::sessions::end))
        .route("/connections/{id}/close", post(pages::connections::close))
        .route("/changes", get(pages::changes::page))
        .route("/log", get(pages::log::page))
        .route("/cluster", get(pages::cluster::page))
        .route("/log/backup", post(pages::log::back_up))
        .route("/policies", get(pages::policies::page))
        .route("/policies/reload", post(pages::policies::reload))
        .route("/help", get(pages::help::page))
        .route("/login", get(pages::login::page).post(pages::login::sign_in))
        .route("/look", post(look::choose))
        .route("/logout", post(pages::login::sign_out))
        .route("/signed-out", get(pages::login::signed_out))
        .route("/assets/{name}", get(assets::asset))
        .fallback(page::not_found)
        .method_not_allowed_fallback(page::no_method)
        .layer(from_fn_with_state(api.clone(), guard::guard))
        .with_state(api);
    let with_slash = format!("{PREFIX}/");
    Router::new().nest(PREFIX, pages).route(&with_slash, get(async || page::see_other(PREFIX)))
}

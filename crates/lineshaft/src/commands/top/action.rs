//! What a user can do: the request to the server, the same as a command line, and the result in words.

use api::types::JobState;
use hyper::Method;
use notation::address::Address;
use notation::plain::shell_word;
use serde_json::{Value, json};

use super::number;
use crate::client::{Target, shown_segment};
use crate::text;

/// How a command line names the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The option of the tools that use the API. Empty for the server that they find themselves.
    option: String,
    /// The words of curl before the path.
    url: String,
}

impl Place {
    /// The server at this address. `is_named`: the user has named the address.
    pub(super) fn of(target: &Target, is_named: bool) -> Place {
        let option = if is_named {
            format!(" --http {}", shell_word(&target.to_string()))
        } else {
            String::new()
        };
        let url = match target.address() {
            Address::Unix(path) => {
                format!("--unix-socket {} http://localhost", shell_word(&path.to_string_lossy()))
            }
            address @ Address::Tcp { .. } => match target.to_string().strip_prefix("tls:") {
                Some(address) => format!("https://{address}"),
                None => format!("http://{address}"),
            },
        };
        Place { option, url }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pause { queue: String, seconds: u32 },
    Resume { queue: String },
    Kick { queue: String, state: JobState },
    Clear { queue: String, state: Option<JobState> },
    KickJob(u64),
    DeleteJob { id: u64, is_leased: bool },
    Close { connection: String },
    Cancel(u64),
}

impl Action {
    /// The method, the path after `/api/v1`, and the body of the request.
    pub(super) fn request(&self) -> (Method, String, Option<Value>) {
        match self {
            Action::Pause { queue, seconds } => {
                let path = format!("/queues/{}/pause", shown_segment(queue));
                (Method::POST, path, Some(json!({ "seconds": seconds })))
            }
            Action::Resume { queue } => {
                (Method::DELETE, format!("/queues/{}/pause", shown_segment(queue)), None)
            }
            Action::Kick { queue, state } => {
                let body = json!({ "kind": "kick", "queue": queue, "state": state.name() });
                (Method::POST, "/operations".to_owned(), Some(body))
            }
            Action::Clear { queue, state } => {
                let mut body = json!({ "kind": "clear", "queue": queue, "confirm": queue });
                if let Some(state) = state {
                    body["state"] = state.name().into();
                }
                (Method::POST, "/operations".to_owned(), Some(body))
            }
            Action::KickJob(id) => (Method::POST, format!("/jobs/{id}/kick"), None),
            Action::DeleteJob { id, is_leased } => {
                let force = if *is_leased { "?force=true" } else { "" };
                (Method::DELETE, format!("/jobs/{id}{force}"), None)
            }
            Action::Close { connection } => {
                (Method::DELETE, format!("/connections/{}", shown_segment(connection)), None)
            }
            Action::Cancel(id) => (Method::DELETE, format!("/operations/{id}"), None),
        }
    }

    /// A command line that does the same at this server.
    pub(super) fn command(&self, place: &Place) -> String {
        match self {
            Action::Close { connection } => {
                format!("lineshaft connections --close {connection}{}", place.option)
            }
            // `lineshaft pause`, `kick` and `delete` speak the beanstalkd protocol. The user chose an
            // HTTP address, and another server can be at the default address of these tools.
            _ => self.curl(place),
        }
    }

    /// The request as a command line of curl.
    fn curl(&self, place: &Place) -> String {
        let (method, path, body) = self.request();
        let url = format!("{}{}", place.url, shell_word(&format!("/api/v1{path}")));
        match body {
            Some(body) => format!("curl -d {} {url}", shell_word(&body.to_string())),
            None => format!("curl -X {method} {url}"),
        }
    }

    /// What the server's reply means.
    pub(super) fn result(&self, reply: &Value) -> String {
        let operation = || {
            let total = number::count(reply["total"].as_u64().unwrap_or(0));
            format!("operation {} has begun, with {total} jobs; see screen 6", reply["id"])
        };
        match self {
            Action::Pause { queue, seconds } => {
                format!("{queue} is paused for {}", text::seconds((*seconds).into()))
            }
            Action::Resume { queue } => format!("{queue} is not paused any more"),
            Action::Kick { .. } | Action::Clear { .. } => operation(),
            Action::KickJob(id) => format!("job {id} is ready"),
            Action::DeleteJob { id, .. } => format!("job {id} is deleted"),
            Action::Close { connection } => format!("connection {connection} is closed"),
            Action::Cancel(id) => {
                format!("operation {id} stops; the jobs that it has changed stay changed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use notation::address::ServerName;
    use notation::port;

    use super::*;

    #[test]
    fn each_action_has_a_command_line() {
        let queue = || "mail".to_owned();
        let target =
            |text: &str| Target::plain(text.parse::<ServerName>().unwrap().address(port::HTTP));
        let place = Place::of(&target("h:1"), true);
        for (action, command) in [
            (
                Action::Pause { queue: queue(), seconds: 60 },
                "curl -d '{\"seconds\":60}' http://h:1/api/v1/queues/mail/pause",
            ),
            (
                Action::Resume { queue: "a b".to_owned() },
                "curl -X DELETE http://h:1/api/v1/queues/a%20b/pause",
            ),
            (
                Action::DeleteJob { id: 7, is_leased: false },
                "curl -X DELETE http://h:1/api/v1/jobs/7",
            ),
            (
                Action::DeleteJob { id: 7, is_leased: true },
                "curl -X DELETE http://h:1'/api/v1/jobs/7?force=true'",
            ),
            (
                Action::Close { connection: "4.1".to_owned() },
                "lineshaft connections --close 4.1 --http h:1",
            ),
            (Action::Cancel(3), "curl -X DELETE http://h:1/api/v1/operations/3"),
        ] {
            assert_eq!(action.command(&place), command);
        }
        let clear = Action::Clear { queue: "it's".to_owned(), state: Some(JobState::Ready) };
        let body = "'{\"confirm\":\"it'\\''s\",\"kind\":\"clear\",\"queue\":\"it'\\''s\",\"state\":\"ready\"}'";
        let shown = format!("curl -d {body} http://h:1/api/v1/operations");
        assert_eq!(clear.command(&place), shown);
        let local = Place::of(&target("unix:/a b/api"), false);
        let shown = "curl -X DELETE --unix-socket '/a b/api' http://localhost/api/v1/operations/3";
        assert_eq!(Action::Cancel(3).command(&local), shown);
    }
}

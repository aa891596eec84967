//! What a page does, in other words: commands and HTTP requests, as lines for a shell. A person can
//! copy them into a script.

use std::net::IpAddr;

use api::types::Via;
use api::{Principal, parse_name};
use hyper::HeaderMap;
use hyper::header::HOST;
use maud::{Markup, html};
use notation::plain::{is_hostile, shell_word};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use crate::link::{self, IN_PATH};
use crate::texts::Texts;

/// The usual places of a server, which the commands find without an option.
const USUAL_HTTP: [&str; 2] = ["127.0.0.1:7300", "localhost:7300"];
const USUAL_BEANSTALK: [&str; 2] = ["127.0.0.1:11300", "localhost:11300"];
/// The longest name of a queue in the beanstalkd protocol.
const TUBE_BYTES_MAX: usize = 200;

/// Where the person who looks at a page finds the server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The host and the port of the page.
    host: String,
    is_tls: bool,
    /// Whether requests need a token. A client with a certificate sends no other credentials.
    has_token: bool,
}

impl Place {
    pub(crate) fn of(headers: &HeaderMap, principal: &Principal) -> Place {
        let is_tls = principal.is_over_tls();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        let host = match host {
            "" => USUAL_HTTP[0],
            host if host.bytes().all(is_part) => host,
            _ => USUAL_HTTP[0],
        };
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let usual_port = if is_tls { 443 } else { 80 };
        let host = if has_port { host.to_owned() } else { format!("{host}:{usual_port}") };
        let has_token = matches!(principal.via, Via::Token | Via::Session);
        Place { host, is_tls, has_token }
    }

    /// The host without its port.
    fn name(&self) -> &str {
        self.host.rsplit_once(':').map_or(&self.host, |(name, _)| name)
    }
}

/// The listener that the tools for jobs use.
#[derive(Clone, Debug)]
pub(crate) struct Beanstalk {
    /// The host of the listener. `None`: it listens at all addresses, so the host of the page works.
    host: Option<String>,
    port: u16,
    is_tls: bool,
}

impl Beanstalk {
    /// The listener at an address such as `127.0.0.1:11300`. `None`: it is a unix socket.
    pub(crate) fn at(address: &str, is_tls: bool) -> Option<Beanstalk> {
        if address.starts_with("unix:") {
            return None;
        }
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_wildcard = ip.is_ok_and(|ip| ip.is_unspecified());
        Some(Beanstalk { host: (!is_wildcard).then(|| host.to_owned()), port, is_tls })
    }
}

/// How a command reaches the server.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Reach {
    Http,
    Beanstalk,
    /// It reads the files of the configuration.
    Files,
}

/// The lines of a page. A name that a shell cannot show, or that a protocol does not allow, gets no
/// command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Equal {
    commands: Vec<Command>,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Command {
    reach: Reach,
    /// The name of the command, and its options.
    words: Vec<String>,
    /// Arguments without a name. They can begin with `-`.
    arguments: Vec<String>,
}

#[derive(Clone, Debug)]
struct Request {
    method: &'static str,
    /// The path behind `/api/v1`, with parameters.
    path: String,
    json: Option<Value>,
    /// The file that the response is saved as.
    file: Option<&'static str>,
}

impl Equal {
    /// A command that uses the API.
    pub(crate) fn command(self, words: &[&str]) -> Equal {
        self.with(Reach::Http, words, Some(Vec::new()))
    }

    /// A command that uses the API. Its arguments are names of queues, as the console shows them.
    pub(crate) fn command_of(self, words: &[&str], names: &[&str]) -> Equal {
        self.with(Reach::Http, words, names.iter().map(|name| plain(name)).collect())
    }

    /// A command that uses the beanstalkd protocol.
    pub(crate) fn job_command(self, words: &[&str]) -> Equal {
        self.with(Reach::Beanstalk, words, Some(Vec::new()))
    }

    /// A command that uses the beanstalkd protocol. Its first argument is the name of a queue.
    pub(crate) fn job_command_of(self, words: &[&str], name: &str, rest: &[&str]) -> Equal {
        let name = plain(name).filter(|name| is_tube(name));
        let arguments = name.map(|name| {
            [name].into_iter().chain(rest.iter().map(|word| (*word).to_owned())).collect()
        });
        self.with(Reach::Beanstalk, words, arguments)
    }

    /// A command that reads the configuration. Its argument is the name of a queue.
    pub(crate) fn file_command(self, words: &[&str], name: Option<&str>) -> Equal {
        self.with(Reach::Files, words, name.into_iter().map(plain).collect())
    }

    fn with(mut self, reach: Reach, words: &[&str], arguments: Option<Vec<String>>) -> Equal {
        if let Some(arguments) = arguments {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            self.commands.push(Command { reach, words, arguments });
        }
        self
    }

    /// A request that reads. Parameters without a value are left out.
    pub(crate) fn get(self, path: &str, parameters: &[(&str, Option<&str>)]) -> Equal {
        self.request("GET", &link::with(path, parameters), None)
    }

    /// A request. `path` is the path behind `/api/v1`.
    pub(crate) fn request(
        mut self,
        method: &'static str,
        path: &str,
        json: Option<Value>,
    ) -> Equal {
        self.requests.push(Request { method, path: path.to_owned(), json, file: None });
        self
    }

    /// A POST whose response is saved as a file.
    pub(crate) fn download(mut self, path: &str, file: &'static str) -> Equal {
        let (method, path) = ("POST", path.to_owned());
        self.requests.push(Request { method, path, json: None, file: Some(file) });
        self
    }

    /// The part of the page with the lines. Empty if there are none.
    pub(crate) fn shown(&self, t: &Texts, place: &Place, beanstalk: Option<&Beanstalk>) -> Markup {
        let commands: Vec<String> =
            self.commands.iter().filter_map(|command| command.line(place, beanstalk)).collect();
        let requests = self.requests.iter().map(|request| request.line(place)).collect();
        let frame = &t.frame;
        let parts = [(frame.as_command, commands), (frame.as_http, requests)];
        html! {
            @if parts.iter().any(|(_, lines)| !lines.is_empty()) {
                details .equal {
                    summary { (frame.as_command) " · " (frame.as_http) }
                    @for (title, lines) in parts.iter().filter(|(_, lines)| !lines.is_empty()) {
                        h2 { (title) }
                        @for line in lines { code { (line) } }
                    }
                }
            }
        }
    }
}

impl Command {
    fn line(&self, place: &Place, beanstalk: Option<&Beanstalk>) -> Option<String> {
        let tls = |is_tls| if is_tls { "tls:" } else { "" };
        let (option, address, is_usual) = match self.reach {
            Reach::Files => ("", String::new(), true),
            Reach::Http => {
                let is_usual = !place.is_tls && USUAL_HTTP.contains(&&*place.host);
                ("--http", format!("{}{}", tls(place.is_tls), place.host), is_usual)
            }
            Reach::Beanstalk => {
                let Beanstalk { host, port, is_tls } = beanstalk?;
                let host = host.as_deref().unwrap_or_else(|| place.name());
                let host = format!("{host}:{port}");
                let is_usual = !is_tls && USUAL_BEANSTALK.contains(&&*host);
                ("--server", format!("{}{host}", tls(*is_tls)), is_usual)
            }
        };
        let mut words = vec!["lineshaft".to_owned()];
        words.extend(self.words.iter().map(|word| shell_word(word).into_owned()));
        if !is_usual {
            words.extend([option.to_owned(), shell_word(&address).into_owned()]);
        }
        if self.arguments.iter().any(|argument| argument.starts_with('-')) {
            words.push("--".to_owned());
        }
        words.extend(self.arguments.iter().map(|word| shell_word(word).into_owned()));
        Some(words.join(" "))
    }
}

impl Request {
    fn line(&self, place: &Place) -> String {
        let mut line = "curl".to_owned();
        if place.host.starts_with('[') {
            // Otherwise curl would read the brackets as a pattern.
            line.push_str(" -g");
        }
        if place.has_token {
            // In double quotes, the shell inserts the token.
            line.push_str(" -H \"Authorization: Bearer $LINESHAFT_TOKEN\"");
        }
        match (self.method, &self.json) {
            ("GET", _) => {}
            ("POST", Some(json)) => line.extend([" -d ", &shell_word(&json.to_string())]),
            (method, None) => line.extend([" -X ", method]),
            (method, Some(json)) => {
                line.extend([" -X ", method, " -d ", &shell_word(&json.to_string())]);
            }
        }
        if let Some(file) = self.file {
            line.extend([" -o ", file]);
        }
        let scheme = if place.is_tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/api/v1{}", place.host, self.path);
        line.extend([" ", &shell_word(&url)]);
        line
    }
}

/// The path of a queue in the API.
pub(crate) fn queue(name: &str) -> String {
    format!("/queues/{}", utf8_percent_encode(name, IN_PATH))
}

/// The name that a person writes in a shell. `None`: it is not text, or has hostile characters.
fn plain(shown: &str) -> Option<String> {
    let name = String::from_utf8(parse_name(shown).ok()?).ok()?;
    let is_plain = !name.is_empty() && !name.chars().any(is_hostile);
    is_plain.then_some(name)
}

/// Whether the beanstalkd protocol allows this name.
fn is_tube(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte);
    (1..=TUBE_BYTES_MAX).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, is_tls: bool) -> Place {
        Place { host: host.to_owned(), is_tls, has_token: is_tls }
    }

    #[test]
    fn lines_name_the_server_if_it_is_not_the_usual_one() {
        let beanstalk = Beanstalk::at("0.0.0.0:11300", false);
        let equal = Equal::default()
            .command_of(&["jobs", "--state", "ready"], &["-it's"])
            .job_command_of(&["pause"], "mail", &["10m"])
            .job_command_of(&["pause"], "not a tube", &["10m"])
            .file_command(&["policy", "show"], Some("mail"))
            .command_of(&["why"], &["\\x00"])
            .request("POST", &queue("a/b"), Some(serde_json::json!({ "to": "it's" })));
        let lines = |place: &Place| {
            let commands =
                equal.commands.iter().filter_map(|it| it.line(place, beanstalk.as_ref()));
            commands.chain(equal.requests.iter().map(|it| it.line(place))).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&place("127.0.0.1:7300", false)),
            [
                "lineshaft jobs --state ready -- '-it'\\''s'",
                "lineshaft pause mail 10m",
                "lineshaft policy show mail",
                "curl -d '{\"to\":\"it'\\''s\"}' http://127.0.0.1:7300/api/v1/queues/a%2Fb",
            ]
        );
        assert_eq!(
            lines(&place("[::1]:443", true)),
            [
                "lineshaft jobs --state ready --http 'tls:[::1]:443' -- '-it'\\''s'",
                "lineshaft pause --server '[::1]:11300' mail 10m",
                "lineshaft policy show mail",
                "curl -g -H \"Authorization: Bearer $LINESHAFT_TOKEN\" -d '{\"to\":\"it'\\''s\"}' \
             'https://[::1]:443/api/v1/queues/a%2Fb'",
            ]
        );
    }

    #[test]
    fn commands_name_the_address_of_the_listener() {
        let line = |address: &str, is_tls| {
            let equal = Equal::default().job_command(&["stats"]);
            let beanstalk = Beanstalk::at(address, is_tls)?;
            equal.commands[0].line(&place("queue.example:7300", false), Some(&beanstalk))
        };
        assert_eq!(line("127.0.0.1:11300", false).as_deref(), Some("lineshaft stats"));
        for (address, is_tls, wanted) in [
            ("10.0.0.7:11300", true, "tls:10.0.0.7:11300"),
            ("[fd00::7]:11301", false, "'[fd00::7]:11301'"),
            ("0.0.0.0:11300", false, "queue.example:11300"),
            ("[::]:11300", false, "queue.example:11300"),
        ] {
            let wanted = format!("lineshaft stats --server {wanted}");
            assert_eq!(line(address, is_tls), Some(wanted));
        }
        assert_eq!(line("unix:/run/beanstalk:1", false), None);
    }
}

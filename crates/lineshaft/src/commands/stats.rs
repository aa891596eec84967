//! `lineshaft stats`: shows the server and its queues, as a table or as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use bench::table::Table;
use notation::plain;
use serde_json::{Map, Value};

use crate::cli::StatsArguments;
use crate::client::{CONNECT_TIMEOUT, Client, Stats, Survey};
use crate::text::{self, complain};

/// Prints the statistics of the whole server, or of one queue.
pub(crate) fn run(arguments: &StatsArguments) -> Result<ExitCode> {
    let mut client = Client::connect_within(&arguments.server.beanstalk()?, CONNECT_TIMEOUT)?;
    let mut output = io::stdout().lock();
    let Some(queue) = &arguments.queue else {
        let Survey { server, queues, unnamed_count } = client.survey()?;
        if arguments.json {
            let queues = queues.iter().map(json_of).collect();
            let whole = Map::from_iter([
                ("server".to_owned(), json_of(&server)),
                ("queues".to_owned(), Value::Array(queues)),
            ]);
            let json = format!("{:#}", Value::Object(whole));
            writeln!(output, "{}", plain::escaped_json(&json))?;
        } else {
            let address = arguments.server.beanstalk()?.to_string();
            let text = server_summary(&address, &server) + &queue_table(&queues);
            output.write_all(plain::escaped_bytes(text.as_bytes()).as_bytes())?;
        }
        if let Some(note) = unnamed_note(unnamed_count) {
            // Standard output must be pure JSON. So write the note to standard error.
            output.flush()?;
            eprintln!("{note}");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(stats) = client.stats_queue(queue)? else {
        complain(&text::no_queue(queue));
        return Ok(ExitCode::FAILURE);
    };
    if arguments.json {
        writeln!(output, "{}", plain::escaped_json(&format!("{:#}", json_of(&stats))))?;
    } else {
        output.write_all(plain::escaped_bytes(queue_details(&stats).as_bytes()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A note about queues that the table cannot show, if there are any.
fn unnamed_note(count: u64) -> Option<String> {
    let (verb, them) = if count == 1 { ("has a name", "it") } else { ("have names", "them") };
    let queues = text::counted(count, "more queue");
    let why = "not allowed in the beanstalkd protocol; the server's /metrics shows";
    (count > 0).then(|| format!("{queues} {verb} {why} {them}"))
}

/// Turns statistics into JSON. Whole numbers and booleans keep their type; all other values become
/// text. Names are always text.
pub(crate) fn json_of(stats: &Stats) -> Value {
    let value = |key: &str, text: &str| match text {
        _ if matches!(key, "name" | "tube" | "id" | "version" | "hostname" | "os") => {
            Value::from(text)
        }
        "true" => Value::from(true),
        "false" => Value::from(false),
        _ => text
            .parse::<u64>()
            .map(Value::from)
            .or_else(|_| text.parse::<f64>().map(Value::from))
            .unwrap_or_else(|_| Value::from(text)),
    };
    stats.pairs().map(|(key, text)| (key.to_owned(), value(key, text))).collect()
}

fn server_summary(address: &str, stats: &Stats) -> String {
    let draining = match stats.get("draining") {
        Some("true") => "; draining: it refuses new jobs",
        _ => "",
    };
    format!(
        "{address}: version {}, up {}, {} ({} waiting for jobs){draining}\n\n",
        stats.get("version").unwrap_or("unknown"),
        text::seconds(stats.number("uptime")),
        text::counted(stats.number("current-connections"), "connection"),
        text::count(stats.number("current-waiting")),
    )
}

/// The columns of the table: the heading, and the key of the statistics.
const COLUMNS: [(&str, &str); 7] = [
    ("READY", "current-jobs-ready"),
    ("DELAYED", "current-jobs-delayed"),
    ("LEASED", "current-jobs-reserved"),
    ("BURIED", "current-jobs-buried"),
    ("WAITING", "current-waiting"),
    ("PUT", "total-jobs"),
    ("FINISHED", "cmd-delete"),
];

fn queue_table(queues: &[Stats]) -> String {
    let titles = COLUMNS.map(|(title, _)| title);
    // The last column has no heading. It shows pauses.
    let head: Vec<&str> = std::iter::once("QUEUE").chain(titles).chain([""]).collect();
    let mut table = Table::new(1, &head);
    for queue in queues {
        let mut row = vec![queue.get("name").unwrap_or("?").to_owned()];
        row.extend(COLUMNS.map(|(_, key)| text::count(queue.number(key))));
        let paused = |left| format!("paused for {}", text::seconds(left));
        row.push(paused_seconds(queue).map_or_else(String::new, paused));
        table.row(row);
    }
    table.text()
}

/// The number of seconds until the queue's pause ends. `None` if the queue is not paused.
pub(crate) fn paused_seconds(queue: &Stats) -> Option<u64> {
    (queue.number("pause") > 0).then(|| queue.number("pause-time-left"))
}

fn queue_details(stats: &Stats) -> String {
    let paused = match paused_seconds(stats) {
        Some(left) => format!("paused for {}", text::seconds(left)),
        None => "no".to_owned(),
    };
    let count = |key: &str| text::count(stats.number(key));
    let urgent =
        format!("{} ({} urgent)", count("current-jobs-ready"), count("current-jobs-urgent"));
    let workers = format!("{} ({} waiting)", count("current-watching"), count("current-waiting"));
    let lines = [
        ("queue", stats.get("name").unwrap_or("?").to_owned()),
        ("ready", urgent),
        ("delayed", count("current-jobs-delayed")),
        ("leased", count("current-jobs-reserved")),
        ("buried", count("current-jobs-buried")),
        ("put*", count("total-jobs")),
        ("finished*", count("cmd-delete")),
        ("producers", count("current-using")),
        ("workers", workers),
        ("paused", paused),
    ];
    let mut details = String::new();
    for (name, value) in lines {
        writeln!(details, "{name:<16} {value}").expect("writing to a string does not fail");
    }
    details.push_str("* since the queue was made, or since the server started\n");
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Stats {
        Stats::parse(
            b"---\nname: \"007\"\ncurrent-jobs-ready: 12345\ncurrent-jobs-buried: 2\n\
              pause: 60\npause-time-left: 59\n",
        )
    }

    #[test]
    fn the_table_is_aligned() {
        let table = queue_table(&[queue()]);
        assert_eq!(
            table,
            "QUEUE   READY  DELAYED  LEASED  BURIED  WAITING  PUT  FINISHED\n\
             007    12,345        0       0       2        0    0         0  paused for 59 s\n"
        );
    }

    #[test]
    fn a_queue_named_by_digits_stays_text_in_json() {
        let json = json_of(&queue());
        assert_eq!(json["name"], "007");
        assert_eq!(json["current-jobs-ready"], 12345);
    }
}

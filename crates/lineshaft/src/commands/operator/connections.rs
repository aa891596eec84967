//! `lineshaft connections`: lists the connections of all protocols, or closes one.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use api::types::{Connection, Connections, WaitFor};
use bench::table::Table;
use hyper::Method;
use notation::plain;
use serde_json::{Value, json};

use crate::cli::ConnectionsArguments;
use crate::client::{ApiClient, shown_segment};
use crate::text::{count, counted, json_line, print_line, print_value, seconds};

/// Connections of one request.
const PAGE: u64 = 200;

/// Prints the connections, or closes one.
pub(crate) fn run(arguments: &ConnectionsArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    match &arguments.close {
        Some(id) => close(&mut client, id, arguments.json),
        None => list(&mut client, arguments),
    }
}

fn close(client: &mut ApiClient, id: &str, as_json: bool) -> Result<ExitCode> {
    let path = format!("/connections/{}", shown_segment(id));
    let _: Value = client.change(&Method::DELETE, &path)?;
    if as_json {
        print_value(&json!({ "closed": id }))?;
    } else {
        print_line(&format!("connection {id} is closed; its jobs go back to their queues"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(client: &mut ApiClient, arguments: &ConnectionsArguments) -> Result<ExitCode> {
    let mut path = format!("/connections?limit={PAGE}");
    for (name, value) in [("protocol", &arguments.only), ("address", &arguments.address)] {
        if let Some(value) = value {
            path = format!("{path}&{name}={}", shown_segment(value));
        }
    }
    let mut output = io::stdout().lock();
    let mut table = Table::new(0, &["ID", "HOLDS", "IDLE"]);
    // The columns of text are aligned to the left.
    let mut texts = vec!["PROTOCOL       WAITS        ADDRESS".to_owned()];
    let (mut cursor, mut shown): (Option<String>, u64) = (None, 0);
    let open = loop {
        let from = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let page: Connections = client.get(&format!("{path}{from}"))?;
        shown += page.items.len() as u64;
        for row in page.items {
            if arguments.json {
                writeln!(output, "{}", json_line(&row)?)?;
            } else {
                table.row(vec![
                    row.id.clone().unwrap_or_else(|| "-".to_owned()),
                    count(row.holds),
                    seconds(row.idle_ms / 1_000),
                ]);
                texts.push(line(&row));
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break page.open;
        }
    };
    if !arguments.json {
        for (numbers, text) in table.text().lines().zip(texts) {
            writeln!(output, "{numbers}  {}", plain::escaped(&text))?;
        }
        writeln!(output, "\n{} of {}", count(shown), counted(open, "connection"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(row: &Connection) -> String {
    let protocol = format!("{}{}", row.protocol, if row.tls { " tls" } else { "" });
    let waits = match row.wait.map(|wait| wait.what) {
        None => "",
        Some(WaitFor::Job) => "for a job",
        Some(WaitFor::Work) => "for work",
        Some(WaitFor::Request) => "for a reply",
    };
    format!("{protocol:<14} {waits:<12} {}", row.address)
}

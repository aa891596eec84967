//! `lineshaft pause`: stops a queue from handing out jobs for a while.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::cli::PauseArguments;
use crate::client::{CONNECT_TIMEOUT, Client};
use crate::text::{self, complain, print_line, print_value};

/// Begins, changes or ends the pause of a queue.
pub(crate) fn run(arguments: &PauseArguments) -> Result<ExitCode> {
    let PauseArguments { queue, time, json, server } = arguments;
    let mut client = Client::connect_within(&server.beanstalk()?, CONNECT_TIMEOUT)?;
    if !client.pause(queue, *time)? {
        complain(&text::no_queue(queue));
        return Ok(ExitCode::FAILURE);
    }
    if *json {
        print_value(&json!({ "queue": queue, "paused_s": time }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = match time {
        0 => "is no longer paused".to_owned(),
        seconds => format!("is paused for {}", text::seconds(u64::from(*seconds))),
    };
    print_line(&format!("{queue} {what}"))?;
    Ok(ExitCode::SUCCESS)
}

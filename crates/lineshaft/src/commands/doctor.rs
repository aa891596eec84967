//! `lineshaft doctor`: looks at the machine, the data folder and the server, and says what to change.
//!
//! `facts` collects what is there. `checks` judges it, without looking at the machine.

mod checks;
mod facts;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use notation::plain;

use crate::cli::DoctorArguments;
use crate::text::print_value;
use checks::{Finding, Level, judge};
use facts::Facts;

/// Prints the findings. The exit code is 1 if something is wrong.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<ExitCode> {
    let findings = judge(&Facts::collect(&arguments.api));
    for finding in &findings {
        if arguments.json {
            print_value(finding)?;
        } else {
            write!(io::stdout(), "{}", shown(finding))?;
        }
    }
    let is_wrong = findings.iter().any(|finding| finding.level == Level::Wrong);
    Ok(if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn shown(finding: &Finding) -> String {
    let level = match finding.level {
        Level::Ok => "ok   ",
        Level::Look => "LOOK ",
        Level::Wrong => "WRONG",
    };
    let cure = finding.cure.map_or_else(String::new, |cure| format!("               {cure}\n"));
    // The text can be that of a server, or of a configuration.
    let text = plain::escaped_bytes(finding.text.as_bytes());
    format!("{level} {:<8} {text}\n{cure}", finding.topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_server_do_not_change_the_terminal() {
        let text = "a reason\u{1b}[2J\u{202e}".to_owned();
        let finding = Finding { level: Level::Look, topic: "health", text, cure: None };
        assert_eq!(shown(&finding), "LOOK  health   a reason\\x1b[2J\\u202e\n");
    }
}

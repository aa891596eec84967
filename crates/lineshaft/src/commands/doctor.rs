//! `lineshaft doctor`: looks at the machine, the data folder and the server, and says what to change.
//!
//! `facts` collects what is there. `checks` judges it, without looking at the machine.

mod checks;
mod facts;

use std::process::ExitCode;

use anyhow::Result;

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
            print!("{}", shown(finding));
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
    format!("{level} {:<8} {}\n{cure}", finding.topic, finding.text)
}

//! `lineshaft policy test`: what the policies of a file would do with a job, without a server.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use broker::policy::{Key, KeySource, Policy, parent_name};
use notation::size;
use serde::Serialize;
use server::config::JOB_BYTES_LIMIT;
use server::config::sources::Effective;

use super::super::config::setting_value;
use crate::cli::PolicyTestArguments;
use crate::text::{counted, print_line, print_value};

/// Prints what a put into the queue gets.
pub(super) fn run(effective: &Effective, arguments: &PolicyTestArguments) -> Result<()> {
    let queue = arguments.queue.as_bytes();
    let policy = effective.config.policies.resolve(queue, parent_name(queue));
    let unique = arguments.unique.as_deref().unwrap_or_default().as_bytes();
    let verdicts: Result<Vec<Verdict>> =
        arguments.bodies.iter().map(|file| Verdict::of(&policy, file, unique)).collect();
    let verdicts = verdicts?;
    if arguments.json {
        let settings: Vec<_> = effective.asked_policy_settings(queue).map(setting_value).collect();
        return Ok(print_value(&serde_json::json!({
            "queue": api::shown_name(queue),
            "settings": settings,
            "puts_to": targets(queue, &policy),
            "bodies": verdicts,
        }))?);
    }
    let mut has_settings = false;
    for setting in effective.asked_policy_settings(queue) {
        has_settings = true;
        let line = format!("{} = {}", setting.key, setting.value);
        print_line(&format!("{line:<40} # {}", setting.origin))?;
    }
    let name = api::shown_name(queue);
    if !has_settings {
        print_line(&format!("no policy has a setting for {name}: it is as in the original"))?;
    }
    let targets = targets(queue, &policy);
    if targets != [name.as_str()] {
        print_line(&format!("a put into {name} goes to: {}", targets.join(", ")))?;
    }
    verdicts.iter().try_for_each(|verdict| Ok(print_line(&verdict.text())?))
}

/// The queues that store a put under this name, by its own policy. The policies of these queues can
/// send it further.
fn targets(queue: &[u8], policy: &Policy) -> Vec<String> {
    if !policy.alias.is_empty() {
        return policy.alias.iter().map(|name| api::shown_name(name)).collect();
    }
    let own = api::shown_name(policy.same_as.as_deref().unwrap_or(queue));
    let own = if policy.fanout_only { format!("the children of {own}") } else { own };
    let copies = policy.copy_to.iter().map(|name| api::shown_name(name));
    std::iter::once(own).chain(copies).collect()
}

/// What the policy says about one body.
#[derive(Debug, Serialize)]
struct Verdict {
    file: String,
    bytes: u64,
    /// The limit that the body exceeds.
    limit: Option<u64>,
    /// Where the key of the job is. `None`: the queue has no unique jobs.
    by: Option<String>,
    /// The key of the job. `None`: it has none.
    key: Option<String>,
}

impl Verdict {
    fn of(policy: &Policy, file: &OsStr, unique: &[u8]) -> Result<Verdict> {
        let body = read(file)?;
        let bytes = body.len() as u64;
        let by = policy.unique.by.as_ref();
        let source = KeySource { body: &body, gearman_unique: unique, client: "" };
        let key = by.map(|by| by.compute(source)).filter(|key| !key.is_empty());
        Ok(Verdict {
            file: file.to_string_lossy().into_owned(),
            bytes,
            limit: policy.item_bytes_max.filter(|limit| bytes > *limit),
            by: by.map(|by: &Key| by.as_str().to_owned()),
            key: key.map(|key| String::from_utf8_lossy(&key.text).into_owned()),
        })
    }

    fn text(&self) -> String {
        let begin = format!("{}: {}", self.file, counted(self.bytes, "byte"));
        if let Some(limit) = self.limit {
            let limit = size::format(limit);
            return format!("{begin}, refused: limits.item_bytes is {limit}");
        }
        match (&self.by, &self.key) {
            (None, _) => format!("{begin}, not too large"),
            (Some(by), None) => format!("{begin}, has no key by {by}: it is never a duplicate"),
            (Some(by), Some(key)) => format!("{begin}, has the key `{key}` by {by}"),
        }
    }
}

/// Reads a body: `-` is standard input. No server takes a larger body than this reads.
fn read(file: &OsStr) -> Result<Vec<u8>> {
    let path = Path::new(file);
    let mut body = Vec::new();
    let most = JOB_BYTES_LIMIT + 1;
    let done = if file == "-" {
        io::stdin().take(most).read_to_end(&mut body)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut body))
    };
    done.with_context(|| format!("cannot read the body {}", path.display()))?;
    Ok(body)
}

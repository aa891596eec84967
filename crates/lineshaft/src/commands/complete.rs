//! `lineshaft __complete`: names for the shell's Tab. It is not for people, so the help does not show
//! it.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use api::types::Queues;
use clap_complete::Shell;

use crate::cli::ApiArguments;
use crate::client::shown_segment;
use crate::commands::operator;

/// A person waits for the names.
const TIME_MAX: Duration = Duration::from_millis(250);
/// More names are of no use on a screen.
const NAMES_MAX: usize = 100;

/// Prints the names of queues that begin with this, one on each line. Prints nothing if the server
/// does not answer in time. The server is the one that the operator's commands use by default.
pub(crate) fn queues(prefix: &str) -> ExitCode {
    let (sender, names) = channel();
    let prefix = prefix.to_owned();
    // The process ends at the time limit, and the thread with it.
    thread::spawn(move || sender.send(find(&prefix).unwrap_or_default()));
    let names = names.recv_timeout(TIME_MAX).unwrap_or_default();
    let mut lines = names.join("\n");
    if !names.is_empty() {
        lines.push('\n');
    }
    // The shell may be gone.
    let _ = io::stdout().write_all(lines.as_bytes());
    ExitCode::SUCCESS
}

fn find(prefix: &str) -> anyhow::Result<Vec<String>> {
    let mut client = operator::connect(&ApiArguments::of_environment())?;
    // In a pattern, these characters would stand for others.
    let pattern: String =
        prefix.chars().take_while(|character| !"*?\\".contains(*character)).collect();
    let path = format!("/queues?limit={NAMES_MAX}&match={}", shown_segment(&format!("{pattern}*")));
    let page: Queues = client.get(&path)?;
    // The API writes other bytes than text with a backslash, but the tools take names as they are.
    let is_plain = |name: &String| {
        let is_odd = |character: char| character.is_whitespace() || character == '\\';
        name.starts_with(prefix) && !name.contains(is_odd)
    };
    Ok(page.items.into_iter().map(|queue| queue.name).filter(is_plain).collect())
}

/// What a completion script needs in addition, so that Tab completes the names of queues.
pub(crate) fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    }
}

const BASH: &str = r#"
# Names of queues, from the server.
_lineshaft_with_queues() {
    local current="${COMP_WORDS[COMP_CWORD]}" name
    _lineshaft "$@"
    case "${COMP_WORDS[1]}" in
        put|work|stats|peek|kick|delete|pause|jobs|why|move|clear|top|watch) ;;
        *) return 0 ;;
    esac
    [[ $COMP_CWORD -gt 1 && $current != -* && ${COMP_WORDS[COMP_CWORD-1]} != --* ]] || return 0
    while IFS= read -r name; do
        COMPREPLY+=("$(printf '%q' "$name")")
    done < <("${COMP_WORDS[0]}" __complete queues "$current" 2>/dev/null)
    return 0
}
complete -F _lineshaft_with_queues -o nosort -o bashdefault -o default lineshaft
"#;

const ZSH: &str = r#"
# Names of queues, from the server.
_lineshaft_with_queues() {
    local -a names
    _lineshaft "$@"
    case "$words[2]" in
        put|work|stats|peek|kick|delete|pause|jobs|why|move|clear|top|watch) ;;
        *) return 0 ;;
    esac
    [[ $CURRENT -gt 2 && $PREFIX != -* ]] || return 0
    names=("${(@f)$("$words[1]" __complete queues "$PREFIX" 2>/dev/null)}")
    compadd -- "${(@)names:#}"
}
compdef _lineshaft_with_queues lineshaft
"#;

const FISH: &str = r#"
# Names of queues, from the server.
complete -c lineshaft -n "__fish_seen_subcommand_from put work stats peek kick delete pause jobs why move clear top watch" -f -a "(lineshaft __complete queues (commandline -ct) 2>/dev/null)"
"#;

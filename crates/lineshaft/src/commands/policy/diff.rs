//! `lineshaft policy diff`: what a new configuration would change for the queues that a server has.
//! The command only reads, page by page, and decides itself what would happen.

use anyhow::{Context as _, Result};
use api::types::{Jobs, Policies, QueueRow, Queues};
use broker::policy::{Name, Pattern, Policy, Rule, RuleSetting, Rules, Setting};
use serde::Serialize;
use server::config::policies::{parse_setting, show_value};
use server::config::sources::Effective;

use super::super::operator::connect;
use super::effect::{Effect, Letters, effects, parent_in};
use crate::cli::PolicyDiffArguments;
use crate::client::{ApiClient, ApiError, shown_segment};
use crate::text::{count, counted, print_line, print_value};

/// Rows of one request.
const PAGE: usize = 500;

/// Prints the queues that would get another policy, and what this means for their jobs.
pub(super) fn run(effective: &Effective, arguments: &PolicyDiffArguments) -> Result<()> {
    let mut client = connect(&arguments.api)?;
    let old = rules_of(&client.get("/policies")?)?;
    let new = &effective.config.policies;
    let (mut queues, mut changed, mut cursor) = (0, 0, String::new());
    loop {
        let page: Queues = client.get(&format!("/queues?limit={PAGE}{cursor}"))?;
        for row in &page.items {
            queues += 1;
            if let Some(mut change) = Change::of(&old, new, row)? {
                change.count_old_jobs(&mut client, arguments.jobs)?;
                changed += 1;
                if arguments.json { print_value(&change)? } else { change.print()? }
            }
        }
        match page.next {
            Some(next) => cursor = format!("&cursor={}", shown_segment(&next)),
            None => break,
        }
    }
    if !arguments.json {
        let queues = counted(queues, "queue");
        print_line(&format!("{} of {queues} would get another policy", count(changed)))?;
    }
    Ok(())
}

/// The rules that the server has in force.
fn rules_of(policies: &Policies) -> Result<Rules> {
    let rules = policies.items.iter().map(|rule| {
        let patterns: Result<Vec<Pattern>> = rule
            .patterns
            .iter()
            .map(|text| Ok(Pattern::new(&api::parse_name(text).map_err(problem)?)))
            .collect();
        let settings: Result<Vec<RuleSetting>> = rule
            .settings
            .iter()
            .map(|asked| {
                let setting = parse_setting(&asked.key, &asked.value)
                    .map_err(anyhow::Error::msg)
                    .context("the server has a policy that this tool does not know")?;
                Ok(RuleSetting { setting, line: asked.line.unwrap_or_default() })
            })
            .collect();
        let line = rule.line.unwrap_or_default();
        Ok(Rule { patterns: patterns?, settings: settings?, line })
    });
    Ok(Rules(rules.collect::<Result<Vec<Rule>>>()?))
}

fn problem(problem: api::Problem) -> anyhow::Error {
    anyhow::Error::msg(problem.detail)
}

/// What a queue would get.
#[derive(Debug, Serialize)]
struct Change {
    name: String,
    ready: u64,
    leased: u64,
    delayed: u64,
    buried: u64,
    settings: Vec<SettingChange>,
    effects: Vec<Effect>,
    #[serde(skip)]
    policy: Policy,
    /// Where its dead letters would go.
    #[serde(skip)]
    letters: Letters,
}

/// A setting with another value.
#[derive(Debug, Serialize)]
struct SettingChange {
    key: &'static str,
    old: String,
    /// The line of the configuration that the server has read. `null`: no policy sets it.
    old_line: Option<u32>,
    new: String,
    /// The line of the new file. `null`: no policy sets it.
    new_line: Option<u32>,
}

impl Change {
    /// What a queue would get. `None`: nothing would change.
    fn of(old: &Rules, new: &Rules, row: &QueueRow) -> Result<Option<Change>> {
        let name: Name = api::parse_name(&row.name).map_err(problem)?.into();
        let parent = |rules| parent_in(rules, &name, row.is_child);
        let (before, after) = (parent(old), parent(new));
        let policies = [old.resolve(&name, before), new.resolve(&name, after)];
        if policies[0] == policies[1] {
            return Ok(None);
        }
        let letters = Letters::of(new, &policies[1], &name);
        let old = old.resolve_with_origins(&name, before);
        let new = new.resolve_with_origins(&name, after);
        let different = old.into_iter().zip(new).filter(|(old, new)| old.0 != new.0);
        let settings = different.map(|((old, old_line), (new, new_line))| SettingChange {
            key: if matches!(new, Setting::Rate(None)) { old.key() } else { new.key() },
            old: show_value(&old),
            old_line: old_line.filter(|line| *line > 0),
            new: show_value(&new),
            new_line,
        });
        let settings = settings.collect();
        let [before, policy] = policies;
        let QueueRow { ready, leased, delayed, buried, .. } = *row;
        Ok(Some(Change {
            name: row.name.clone(),
            ready,
            leased,
            delayed,
            buried,
            settings,
            effects: effects(&before, &policy, row, &letters),
            policy,
            letters,
        }))
    }

    /// Counts the ready jobs that are older than the new age. Looks at no more than `most` jobs.
    fn count_old_jobs(&mut self, client: &mut ApiClient, most: u64) -> Result<()> {
        let is_changed = self.settings.iter().any(|it| it.key == "limits.age");
        let Some(age_ms) = self.policy.age_max_ms.filter(|_| is_changed && self.ready > 0) else {
            return Ok(());
        };
        let path = format!("/queues/{}/jobs?state=ready", shown_segment(&self.name));
        let (mut old, mut seen, mut cursor) = (0, 0, String::new());
        while seen < most {
            let limit = (most - seen).min(PAGE as u64);
            let page: Jobs = match client.get(&format!("{path}&limit={limit}{cursor}")) {
                Ok(page) => page,
                // The queue is gone meanwhile.
                Err(ApiError::Refused(problem)) if problem.status == 404 => break,
                Err(error) => return Err(error.into()),
            };
            seen += page.items.len() as u64;
            old += page.items.iter().filter(|job| job.age_ms > age_ms).count() as u64;
            match page.next {
                Some(next) => cursor = format!("&cursor={}", shown_segment(&next)),
                None => break,
            }
        }
        if old > 0 {
            let at_least = seen < self.ready;
            self.effects.push(Effect::expires(old, at_least, &self.policy, &self.letters));
        }
        Ok(())
    }

    fn print(&self) -> Result<()> {
        let Change { name, ready, leased, delayed, buried, .. } = self;
        let [ready, leased, delayed, buried] =
            [ready, leased, delayed, buried].map(|it| count(*it));
        print_line(&format!(
            "{name}: {ready} ready, {leased} leased, {delayed} delayed, {buried} buried"
        ))?;
        for SettingChange { key, old, old_line, new, new_line } in &self.settings {
            let [old_line, new_line] = [old_line, new_line]
                .map(|line| line.map_or("default".to_owned(), |line| format!("line {line}")));
            print_line(&format!("  {key}: {old} ({old_line}) -> {new} ({new_line})"))?;
        }
        self.effects.iter().try_for_each(|it| Ok(print_line(&format!("  => {}", it.text))?))
    }
}

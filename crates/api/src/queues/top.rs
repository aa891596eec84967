//! The queues with metrics of their own, if there are too many queues for all of them.
//!
//! A quarter of the places is for the queues with the most jobs, a quarter for those whose next job
//! has waited longest, and a quarter for those with the most puts and finishes per second. The last
//! quarter, and places that are left, are for queues that were chosen a short time ago. So a queue
//! does not disappear from a graph at each small change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::queues::survey::{Row, SORT_STEPS, Survey, Surveys};
use crate::state::Api;

/// A queue keeps its metrics for this time after it was chosen last.
const KEPT: Duration = Duration::from_mins(10);

/// Chooses the queues with metrics of their own.
#[derive(Debug)]
pub struct TopQueues {
    surveys: Arc<Surveys>,
    max: usize,
    /// When each queue was last among the first ones of a list.
    chosen: Mutex<HashMap<Box<[u8]>, Instant>>,
}

impl Api {
    /// Chooses at most `max` queues, again and again.
    pub fn top_queues(&self, max: usize) -> Arc<TopQueues> {
        let chosen = Mutex::default();
        Arc::new(TopQueues { surveys: self.surveys.clone(), max, chosen })
    }
}

impl TopQueues {
    /// The names of the queues that have metrics of their own now.
    pub async fn names(self: Arc<Self>) -> Vec<Box<[u8]>> {
        let surveys = self.surveys.clone();
        surveys.with_current(SORT_STEPS, move |survey| self.choose(survey)).await
    }

    fn choose(&self, survey: &Survey) -> Vec<Box<[u8]>> {
        let places = self.max.div_ceil(4);
        let now = Instant::now();
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        for number in [jobs, age, rate] {
            for row in first(&survey.rows, number, places) {
                chosen.insert(row.name.clone(), now);
            }
        }
        // The latest come first, and those of the same moment by name, so that the choice is stable.
        let mut names: Vec<(Duration, Box<[u8]>)> = chosen
            .iter()
            .map(|(name, at)| (now.duration_since(*at), name.clone()))
            .filter(|(age, _)| *age < KEPT)
            .collect();
        names.sort_unstable();
        names.truncate(self.max);
        let names: Vec<Box<[u8]>> = names.into_iter().map(|(_, name)| name).collect();
        let kept: HashSet<&[u8]> = names.iter().map(|name| &name[..]).collect();
        chosen.retain(|name, _| kept.contains(&name[..]));
        names
    }
}

fn jobs(row: &Row) -> f64 {
    let stats = &row.stats;
    (stats.ready + stats.leased + stats.delayed + stats.buried) as f64
}

fn age(row: &Row) -> f64 {
    row.stats.head_age_ms as f64
}

fn rate(row: &Row) -> f64 {
    row.rates.map_or(0.0, |rates| rates.puts + rates.finishes)
}

/// At most `max` queues with the largest numbers above 0.
fn first(rows: &[Row], number: fn(&Row) -> f64, max: usize) -> Vec<&Row> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| number(row) > 0.0).collect();
    let order = |one: &&Row, other: &&Row| {
        number(other).total_cmp(&number(one)).then_with(|| one.name.cmp(&other.name))
    };
    if rows.len() > max && max > 0 {
        rows.select_nth_unstable_by(max - 1, order);
    }
    rows.truncate(max);
    rows
}

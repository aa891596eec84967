//! Reads and prints the values of policies that order the jobs of a queue: `concurrency.order`, `fair`
//! and `aging`.

use std::num::NonZeroU32;
use std::time::Duration;

use broker::policy::{
    AGING_MS_MAX, AGING_STEPS_MAX, Aging, FairMode, Order, WEIGHT_MAX, WEIGHTS_MAX, Weight, Weights,
};
use notation::duration;

use super::NONE;
use crate::config::settings::quote;

/// The value of `aging` without aging, beside `none`.
const OFF: &str = "off";

pub(super) fn strictness(text: &str) -> Result<Order, String> {
    match text {
        "loose" => Ok(Order::Loose),
        "strict" => Ok(Order::Strict),
        _ => Err(format!("`{text}` is neither `loose` nor `strict`")),
    }
}

/// Reads the weights of keys, and sorts them by the texts of the keys.
pub(super) fn weights(entries: &[(&str, &str)]) -> Result<Weights, String> {
    if entries.len() > WEIGHTS_MAX {
        return Err(format!("at most {WEIGHTS_MAX} keys have weights of their own"));
    }
    let weight = |text: &str| {
        let weight = text.parse().ok().filter(|weight: &NonZeroU32| weight.get() <= WEIGHT_MAX);
        weight.ok_or_else(|| format!("`{text}` is not a number from 1 to {WEIGHT_MAX}"))
    };
    let weights = entries.iter().map(|(key, text)| Ok(((*key).into(), weight(text)?)));
    let mut weights = weights.collect::<Result<Vec<Weight>, String>>()?;
    weights.sort_unstable();
    Ok(weights.into())
}

/// The weights as a table.
pub(super) fn show_weights(weights: &[Weight]) -> String {
    let weights = weights.iter().map(|(key, weight)| format!("{} = {weight}", quote(key)));
    match weights.collect::<Vec<String>>() {
        none if none.is_empty() => "{}".to_owned(),
        weights => format!("{{ {} }}", weights.join(", ")),
    }
}

pub(super) fn mode(text: &str) -> Result<FairMode, String> {
    match text {
        "drr" => Ok(FairMode::RoundRobin),
        "in-flight" => Ok(FairMode::InFlight),
        _ => Err(format!("`{text}` is neither `drr` nor `in-flight`")),
    }
}

/// Reads how fast jobs become more urgent: a number of steps in a time.
pub(super) fn aging(text: &str) -> Result<Option<Aging>, String> {
    if [NONE, OFF].contains(&text) {
        return Ok(None);
    }
    let wrong = || {
        format!(
            "`{text}` is neither `off` nor such as `1/60s`: a number from 1 to {AGING_STEPS_MAX}, \
             and a time up to a week"
        )
    };
    let (steps, time) = text.split_once('/').ok_or_else(wrong)?;
    let steps = steps.trim().parse().ok();
    let steps = steps.filter(|steps: &NonZeroU32| steps.get() <= AGING_STEPS_MAX);
    let per_ms = duration::parse(time.trim()).ok().map(|time| time.as_millis());
    let per_ms = per_ms.filter(|millis| *millis <= AGING_MS_MAX.into());
    let per_ms = per_ms.and_then(|millis| NonZeroU32::new(millis as u32));
    steps.zip(per_ms).map(|(steps, per_ms)| Some(Aging { steps, per_ms })).ok_or_else(wrong)
}

pub(super) fn show_aging(aging: Option<Aging>) -> String {
    let Some(Aging { steps, per_ms }) = aging else { return OFF.to_owned() };
    format!("{steps}/{}", duration::format(Duration::from_millis(per_ms.get().into())))
}

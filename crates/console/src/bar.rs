//! A bar that shows the parts of a whole: the jobs of a queue by state, or a size and its limit.

use maud::{Markup, html};

use crate::number;
use crate::texts::Words;

/// The width of a bar in the units of its drawing.
const WIDTH: f64 = 400.0;

/// The ready, leased, delayed and buried jobs.
pub(crate) fn states(words: &Words, [ready, leased, delayed, buried]: [u64; 4]) -> Markup {
    let parts = [
        ("ready", words.ready, ready),
        ("leased", words.leased, leased),
        ("delayed", words.delayed, delayed),
        ("buried", words.buried, buried),
    ];
    let total: u64 = parts.iter().map(|(.., number)| number).sum();
    let mut end = 0.0;
    let parts = parts.map(|(class, name, number)| {
        let (at, width) = (end, share(number, total));
        end += width;
        (class, name, number, at, width)
    });
    html! {
        svg .bar viewBox="0 0 400 12" preserveAspectRatio="none" aria-hidden="true" {
            rect .rest x="0" y="0" width="400" height="12" {}
            @for (class, name, number, at, width) in parts {
                @if number > 0 {
                    rect class=(class) x=(at) y="0" width=(width) height="12" {
                        title { (name) ": " (number::grouped(number)) }
                    }
                }
            }
        }
    }
}

/// How much of a limit is used.
pub(crate) fn used(used: u64, limit: u64, label: &str) -> Markup {
    let width = share(used.min(limit), limit);
    let class = if used.saturating_mul(10) >= limit.saturating_mul(9) { "buried" } else { "ready" };
    html! {
        svg .bar viewBox="0 0 400 12" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect .rest x="0" y="0" width="400" height="12" {}
            rect class=(class) x="0" y="0" width=(width) height="12" {}
        }
    }
}

fn share(number: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { (number as f64 / total as f64 * WIDTH * 10.0).round() / 10.0 }
}

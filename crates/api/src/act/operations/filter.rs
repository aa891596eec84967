//! Which dead letters a redrive brings back.

use broker::{Death, Millis};

use crate::access::bodies::{BodySettings, shown_error};
use crate::jobs::job::shown_cause;
use crate::problem::Problem;
use crate::text::name::parse_name;
use crate::types;

/// What a client asked for, and when.
#[derive(Debug, Default)]
pub(super) struct Filter {
    asked: types::DeadFilter,
    origin: Option<Vec<u8>>,
    started: Millis,
}

impl Filter {
    pub(super) fn read(
        asked: Option<&types::DeadFilter>,
        started: Millis,
    ) -> Result<Filter, Problem> {
        let asked = asked.cloned().unwrap_or_default();
        let origin = asked.origin.as_deref().map(parse_name).transpose()?;
        Ok(Filter { asked, origin, started })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked == types::DeadFilter::default()
    }

    /// Whether a dead letter of this queue is one of those that the client wants. `has_key` says
    /// whether a key of the letter has these bytes. Errors do not fit by values that `bodies` masks.
    pub(super) fn fits(
        &self,
        queue: &[u8],
        death: &Death,
        bodies: &BodySettings,
        has_key: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        let types::DeadFilter { cause, origin: _, key, error, older_than_s, younger_than_s } =
            &self.asked;
        // A dead letter that is buried in its own queue comes from there.
        let origin = if death.origin.is_empty() { queue } else { &death.origin };
        let age_ms = self.started.since(death.died);
        let ms = |seconds: u64| seconds.saturating_mul(1000);
        cause.is_none_or(|cause| cause == shown_cause(death.cause))
            && self.origin.as_deref().is_none_or(|wanted| wanted == origin)
            && error.as_deref().is_none_or(|text| {
                shown_error(&death.error, Some(bodies)).is_some_and(|error| error.contains(text))
            })
            && older_than_s.is_none_or(|seconds| age_ms >= ms(seconds))
            && younger_than_s.is_none_or(|seconds| age_ms <= ms(seconds))
            && key.as_ref().is_none_or(|key| has_key(key.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use broker::{DeathCause, FailureCause};

    use super::*;

    #[test]
    fn all_conditions_must_fit() {
        let death = Death {
            died: Millis(10_000),
            until: None,
            cause: DeathCause::Failed(FailureCause::Reported),
            attempts: 3,
            origin: b"mail"[..].into(),
            worker: Box::default(),
            error: b"no route to host"[..].into(),
        };
        let fits = |asked: types::DeadFilter| {
            let filter = Filter::read(Some(&asked), Millis(20_000)).expect("it can be read");
            filter.fits(b"dead.mail", &death, &BodySettings::default(), |key| key == b"acme")
        };
        let text = |text: &str| Some(text.to_owned());
        let none = types::DeadFilter::default();
        assert!(fits(none.clone()));
        let all = types::DeadFilter {
            cause: Some(types::DeathCause::Reported),
            origin: text("mail"),
            key: text("acme"),
            error: text("route"),
            older_than_s: Some(10),
            younger_than_s: Some(10),
        };
        assert!(fits(all.clone()));
        let cause = Some(types::DeathCause::TimedOut);
        assert!(!fits(types::DeadFilter { cause, ..all.clone() }));
        assert!(!fits(types::DeadFilter { origin: text("dead.mail"), ..all.clone() }));
        assert!(!fits(types::DeadFilter { key: text("acm"), ..all.clone() }));
        assert!(!fits(types::DeadFilter { error: text("refused"), ..all.clone() }));
        assert!(!fits(types::DeadFilter { older_than_s: Some(11), ..all.clone() }));
        assert!(!fits(types::DeadFilter { younger_than_s: Some(9), ..all }));
        let buried = Death { origin: b""[..].into(), ..death };
        let own = types::DeadFilter { origin: text("mail"), ..none };
        let filter = Filter::read(Some(&own), Millis(20_000)).expect("it can be read");
        let fits = |queue: &[u8]| filter.fits(queue, &buried, &BodySettings::default(), |_| false);
        assert!(fits(b"mail") && !fits(b"other"));
    }
}
